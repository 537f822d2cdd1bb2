"""A stock gazctl works against these brokers.

``GAZCTL`` names the program. Without it these tests run with a stand-in alone, which shows that the
brokers are asked the right things in the right order, and not that a stock client understands them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures import etcd_gateway
from tests.fixtures.services import note_version, start_service
from windrow.embedded.broker import Broker

STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")))
TIMEOUT = 60.0
SPECS = """\
name: {home}/
replication: {replication}
labels: [{{name: app, value: interop}}]
fragment:
  length: 1024
  compression_codec: GZIP
  stores: ["file:///"]
  refresh_interval: 1s
children:
- name: {home}/one
- name: {home}/two
"""


@dataclass(frozen=True)
class Gazctl:
    """The program, and where it works."""

    command: tuple[str, ...]
    directory: Path
    address: str

    def __call__(self, verb: str, *flags: str) -> subprocess.CompletedProcess[bytes]:
        # At home it would find a configuration file of whoever runs this.
        env = {
            **{name: text for name, text in os.environ.items() if not name.startswith("WINDROW_")},
            "BROKER_ADDRESS": f"http://{self.address}",
            "HOME": str(self.directory),
        }
        return subprocess.run(
            [*self.command, "journals", verb, *flags],
            cwd=self.directory,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )

    def output(self, verb: str, *flags: str) -> bytes:
        """What it prints, if it ends well."""
        done = self(verb, *flags)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


@dataclass(frozen=True)
class Brokers:
    """Brokers of one cluster, and the replication that suits them."""

    members: list[Broker]
    replication: int


@pytest.fixture(params=["stand-in", "gazctl"])
def command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    if request.param == "stand-in":
        return STAND_IN
    path = os.environ.get("GAZCTL")
    if not path:
        pytest.skip("no gazctl is given; run: make test-interop GAZCTL=<path>")
    note_version(request.config, "gazctl", path)
    return (str(Path(path).resolve()),)


@pytest.fixture(scope="module")
def embedded(pytestconfig: pytest.Config) -> Iterator[Brokers]:
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        yield Brokers([broker], replication=1)


@pytest.fixture(scope="module")
def cluster(etcd: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    prefix, file_root = f"/windrow-test/{secrets.token_hex(6)}", tmp_path_factory.mktemp("stores")
    flags = {"etcd-lease": "2s", "pulse-interval": "1s", "drain-timeout": "1s"}
    with ExitStack() as stack:
        members = [
            stack.enter_context(
                Broker.start(
                    etcd_url=etcd,
                    prefix=prefix,
                    zone=f"zone-{number % 2}",
                    id=f"broker-{number}",
                    file_root=file_root,
                    flags=flags,
                )
            )
            for number in range(3)
        ]
        yield Brokers(members, replication=3)
    etcd_gateway.delete_prefix(etcd, prefix)


@pytest.fixture(params=["embedded", "cluster"])
def brokers(request: pytest.FixtureRequest) -> Brokers:
    chosen: Brokers = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def gazctl(command: tuple[str, ...], brokers: Brokers, tmp_path: Path) -> Gazctl:
    return Gazctl(command, tmp_path, brokers.members[0].address)


def apply_specs(gazctl: Gazctl, replication: int) -> str:
    """Create two journals in a directory of their own, and return its name."""
    home = f"interop-{secrets.token_hex(4)}"
    specs = gazctl.directory / "specs.yaml"
    specs.write_text(SPECS.format(home=home, replication=replication), encoding="utf-8")
    gazctl.output("apply", "--specs", "specs.yaml")
    return home


def append(gazctl: Gazctl, journal: str, content: bytes) -> None:
    (gazctl.directory / "content").write_bytes(content)
    gazctl.output("append", "--selector", f"name={journal}", "--input", "content")


def wait_for(is_so: Callable[[], Any], seconds: float = 30.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(0.2)
    return found


def test_journals_are_applied_listed_changed_and_refused_at_a_stale_revision(
    gazctl: Gazctl, brokers: Brokers
) -> None:
    home = apply_specs(gazctl, brokers.replication)
    listed = gazctl.output("list", "--selector", f"prefix={home}/", "--format", "yaml")
    tree = yaml.safe_load(listed)
    assert tree["name"] == f"{home}/"
    assert [child["name"] for child in tree["children"]] == [f"{home}/one", f"{home}/two"]
    assert all(child["revision"] > 0 for child in tree["children"])
    assert home.encode() in gazctl.output("list", "--selector", "app=interop")

    tree["fragment"]["length"] = 2048
    changed = gazctl.directory / "changed.yaml"
    changed.write_text(yaml.safe_dump(tree), encoding="utf-8")
    gazctl.output("apply", "--specs", "changed.yaml")
    again = gazctl.output("list", "--selector", f"prefix={home}/", "--format", "yaml")
    assert yaml.safe_load(again)["fragment"]["length"] == 2048
    tree["fragment"]["length"] = 4096
    changed.write_text(yaml.safe_dump(tree), encoding="utf-8")
    assert gazctl("apply", "--specs", "changed.yaml").returncode != 0  # at the revisions before


def test_what_is_appended_is_read_and_its_fragments_are_listed(
    gazctl: Gazctl, brokers: Brokers
) -> None:
    home = apply_specs(gazctl, brokers.replication)
    binary = bytes(range(256)) * 300
    append(gazctl, f"{home}/one", binary)
    append(gazctl, f"{home}/one", b"and more")
    assert gazctl.output("read", "--selector", f"name={home}/one") == binary + b"and more"

    lines = b"".join(f"record {number}\n".encode() for number in range(200))
    (gazctl.directory / "lines").write_bytes(lines)
    everywhere = ("--selector", f"name={home}/two")
    gazctl.output("append", *everywhere, "--input", "lines", "--framing", "lines")
    assert gazctl.output("read", *everywhere) == lines

    fragments = gazctl.output("fragments", "--selector", f"prefix={home}/").decode()
    assert fragments.count(f"{home}/one") >= 2
    assert f"{home}/two" in fragments
    assert gazctl("append", "--selector", f"name={home}/none", "--input", "lines").returncode != 0


def test_reset_head_leaves_a_journal_that_is_well_as_it_is(
    gazctl: Gazctl, brokers: Brokers
) -> None:
    home = apply_specs(gazctl, brokers.replication)
    append(gazctl, f"{home}/one", b"before ")
    gazctl.output("reset-head", "--selector", f"name={home}/one")
    append(gazctl, f"{home}/one", b"after")
    assert gazctl.output("read", "--selector", f"name={home}/one") == b"before after"


def test_reset_head_lets_a_journal_go_on_whose_brokers_have_all_lost_their_disks(
    command: tuple[str, ...], cluster: Brokers, tmp_path: Path
) -> None:
    gazctl = Gazctl(command, tmp_path, cluster.members[0].address)
    home = apply_specs(gazctl, cluster.replication)
    journal = f"{home}/one"
    append(gazctl, journal, b"stored ")
    append(gazctl, journal, b"lost ")  # rolls the fragment before it, which is then stored
    wait_for(lambda: list((Path(cluster.members[0].flags["file-root"]) / journal).glob("*.gz")))
    for broker in cluster.members:
        broker.kill()
        shutil.rmtree(broker.data)
        broker.data.mkdir()
    for broker in cluster.members:
        broker.restart()
    (tmp_path / "content").write_bytes(b"again")
    refused = gazctl("append", "--selector", f"name={journal}", "--input", "content")
    assert refused.returncode != 0
    assert b"INDEX_HAS_GREATER_OFFSET" in refused.stderr
    gazctl.output("reset-head", "--selector", f"name={journal}")
    append(gazctl, journal, b"again")
    assert gazctl.output("read", "--selector", f"name={journal}") == b"stored again"
