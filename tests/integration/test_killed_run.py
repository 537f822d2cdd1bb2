"""A run of services ended by SIGKILL: the process groups before and after are the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.processes import eventually, is_gone
from tests.fixtures.services import do_without
from windrow.embedded.groups import all_processes, living_family

RUN = """
import time
from windrow.embedded.etcd import Etcd
from windrow.embedded.postgres import PostgresServer
from windrow.errors import WindrowError

try:
    services = [PostgresServer.start(), Etcd.start()]
except WindrowError as error:
    print("missing", error, flush=True)
else:
    print(*(service.directory for service in services), flush=True)
    time.sleep(1000)
"""


@pytest.mark.proves("nothing-left-behind")
def test_killed_run_of_two_services_leaves_no_process_directory_or_shared_memory(
    pytestconfig: pytest.Config,
) -> None:
    groups_before = {process.group for process in all_processes()}
    with subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        words = run.stdout.readline().split()
        if words[0] == "missing":
            do_without(pytestconfig, " ".join(words[1:]))
        directories = [Path(word) for word in words]
        family = [process for process in living_family(run.pid) if process.pid != run.pid]
        started = {process.group for process in family} - groups_before
        assert all(directory.exists() for directory in directories)
        assert len(started) > 5  # PostgreSQL alone has a group for each of its parts
        run.kill()
    assert eventually(lambda: all(is_gone(process) for process in family))
    assert eventually(lambda: not any(directory.exists() for directory in directories))
    living = {process.group for process in all_processes() if process.state not in "ZX"}
    assert not started & living
    pids = {process.pid for process in family}
    segments = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    assert not [line for line in segments if int(line.split()[4]) in pids]
