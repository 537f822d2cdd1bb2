"""The reaper's helper process: read what is guarded until the parent is gone, then clear up.

It is run by its path, isolated and without ``site``, which takes some 30 ms; so it imports the
standard library only and loads its one neighbour by path as well.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any


def read_guarded(lines: Iterable[str]) -> tuple[dict[int, int], list[str]]:
    """What is still guarded after all these lines: start times by pid, and directories."""
    groups: dict[str, tuple[int, int]] = {}
    directories: dict[str, str] = {}
    for line in lines:
        if not line.endswith("\n"):
            break  # the parent was killed amid it
        match json.loads(line):
            case ["group", key, pid, start_time]:
                groups[key] = (pid, start_time)
            case ["directory", key, path]:
                directories[key] = path
            case ["release", key]:
                groups.pop(key, None)
                directories.pop(key, None)
    return dict(groups.values()), list(directories.values())


def clear_up(groups: dict[int, int], directories: list[str], tools: dict[str, Any]) -> None:
    """Kill the families and then, as nobody writes to them any more, remove the directories."""
    for pid, start_time in groups.items():
        with suppress(Exception):  # whatever is wrong with one, the others have to go as well
            process = tools["find_process"](pid)
            if process is not None and process.start_time == start_time:
                tools["kill_family"](pid)
    for path in directories:
        shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    """Read to the end of the pipe, then clear up."""
    for unwanted in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(unwanted, signal.SIG_IGN)  # the parent's end is the one sign to heed
    # No longer a child of the parent, it is no member of its family either: whoever kills the
    # whole family leaves the helper alive to clear up.
    if os.fork() != 0:
        os._exit(0)
    os.write(1, str(os.getpid()).encode())
    # At once: by the time it is needed the installation may have been removed.
    tools = runpy.run_path(str(Path(__file__).with_name("groups.py")))
    groups, directories = read_guarded(sys.stdin)
    clear_up(groups, directories, tools)
    # Once more, for what could not be killed or removed the first time.
    clear_up(groups, directories, tools)


if __name__ == "__main__":
    main()
