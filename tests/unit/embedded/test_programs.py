from __future__ import annotations

import os
import pickle
import pwd
from pathlib import Path

import pytest

from windrow.embedded.errors import NotRunning
from windrow.embedded.postgres_binaries import newest_installation
from windrow.embedded.process import find_program, unprivileged_user
from windrow.errors import MissingExtra, NotInstalled


def make_program(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    return path


def test_a_program_that_is_nowhere_is_named_with_its_package() -> None:
    with pytest.raises(NotInstalled, match="apt-get install windrow-reeds"):
        find_program("windrow-no-such-program", "windrow-reeds")


def test_a_program_is_found_off_the_path_in_its_highest_version(tmp_path: Path) -> None:
    make_program(tmp_path / "9" / "bin" / "windrow-program")
    newest = make_program(tmp_path / "15" / "bin" / "windrow-program")
    make_program(tmp_path / "16" / "bin" / "another")
    assert find_program("windrow-program", "any", f"{tmp_path}/*/bin") == newest


def test_the_newest_postgresql_of_the_extra_is_taken(tmp_path: Path) -> None:
    for name in ("pginstall", "pginstall9", "pginstall18"):
        (tmp_path / name / "bin").mkdir(parents=True)
    assert newest_installation(tmp_path) == tmp_path / "pginstall18" / "bin"


def test_an_extra_without_binaries_counts_as_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingExtra, match="windrow\\[embedded\\]"):
        newest_installation(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")
def test_root_runs_servers_as_the_first_user_there_is() -> None:
    somebody = next(entry.pw_name for entry in pwd.getpwall() if entry.pw_uid != 0)
    assert unprivileged_user("windrow-no-such-user", somebody) == somebody
    assert unprivileged_user("windrow-no-such-user") == "nobody"


def test_not_running_survives_pickling_and_says_who() -> None:
    error = pickle.loads(pickle.dumps(NotRunning("etcd", 12)))
    assert str(error) == "etcd (pid 12) is not running; start it first"
