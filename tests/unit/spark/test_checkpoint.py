"""What is read from a checkpoint of Spark's, and which of its files were cut short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windrow.graph.positions import SourceOffsets, SourcePartition
from windrow.graph.recovery import Checkpoint
from windrow.graph.snapshot import ProcessorUid
from windrow.spark.runner.checkpoint import (
    TornFile,
    checkpoint_path,
    companions,
    parse_offsets,
    read_checkpoint,
)
from windrow.spark.runner.files import FilesFailed, LocalFiles, NoFiles, files_of, is_local

ORIGIN = SourcePartition("orders", "abc", 0)
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000123,"conf":{"a":"1"}}'


def at(index: int) -> SourceOffsets:
    return SourceOffsets.of({ORIGIN: index})


def offsets_file(index: int) -> str:
    return f"v1\n{METADATA}\n{json.dumps(at(index).to_json())}"


class Written:
    """A checkpoint as Spark would have written it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory
        for name in ("offsets", "commits"):
            (directory / name).mkdir(parents=True)
        (directory / "metadata").write_text('{"id":"584d516b"}')

    def plan(self, number: int, end: int) -> None:
        (self.path / "offsets" / str(number)).write_text(offsets_file(end))
        (self.path / "offsets" / f".{number}.crc").write_text("crc")

    def commit(self, number: int) -> None:
        (self.path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "price")


def test_committed_batch_is_where_the_next_one_begins(written: Written) -> None:
    for number, end in ((0, 3), (1, 7)):
        written.plan(number, end)
        written.commit(number)
    found = read_checkpoint(LocalFiles(), str(written.path))
    assert (found.query_id, found.planned, found.committed) == ("584d516b", 1, 1)
    assert found.exists
    assert not found.is_in_doubt
    assert found.for_recovery(SourceOffsets()) == Checkpoint(at(7))


def test_planned_batch_without_a_commit_is_the_one_that_spark_repeats(written: Written) -> None:
    written.plan(0, 3)
    written.commit(0)
    written.plan(1, 7)
    found = read_checkpoint(LocalFiles(), str(written.path))
    assert found.is_in_doubt
    assert found.for_recovery(SourceOffsets()) == Checkpoint(at(3), at(7))


def test_very_first_batch_begins_where_recovery_says(written: Written) -> None:
    written.plan(0, 3)
    found = read_checkpoint(LocalFiles(), str(written.path))
    assert found.for_recovery(at(1)) == Checkpoint(at(1), at(3))


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    found = read_checkpoint(LocalFiles(), str(tmp_path / "nowhere"))
    assert not found.exists
    assert found.for_recovery(SourceOffsets()) is None


def test_checkpoint_with_a_missing_neighbour_is_none(written: Written) -> None:
    """An older copy that was pruned: where the batch in doubt began is not in it."""
    written.commit(6)
    written.plan(7, 9)
    assert read_checkpoint(LocalFiles(), str(written.path)).for_recovery(at(0)) is None


@pytest.mark.parametrize(
    "content", ["", "v1", "v1\n", f"v1\n{METADATA}", f"v1\n{METADATA}\n{{", "x"]
)
def test_offset_log_that_was_cut_short_is_torn(written: Written, content: str) -> None:
    written.plan(0, 3)
    (written.path / "offsets" / "0").write_text(content)
    found = read_checkpoint(LocalFiles(), str(written.path))
    assert [error.path for error in found.torn] == [f"{written.path}/offsets/0"]
    assert "windrow graph repair" in str(found.torn[0])
    assert found.for_recovery(SourceOffsets()) is None


@pytest.mark.parametrize("content", [b"", b"v1\n{", b"\xff\xfe"])
def test_commit_log_that_was_cut_short_is_torn(written: Written, content: bytes) -> None:
    written.plan(0, 3)
    (written.path / "commits" / "0").write_bytes(content)
    found = read_checkpoint(LocalFiles(), str(written.path))
    assert [error.path for error in found.torn] == [f"{written.path}/commits/0"]


def test_commit_log_as_short_as_spark_writes_it_is_whole(written: Written) -> None:
    written.plan(0, 3)
    (written.path / "commits" / "0").write_text("v1\n{}")
    assert not read_checkpoint(LocalFiles(), str(written.path)).torn


def test_metadata_that_was_cut_short_is_torn(written: Written) -> None:
    (written.path / "metadata").write_text('{"id"')
    found = read_checkpoint(LocalFiles(), str(written.path))
    assert [error.path for error in found.torn] == [f"{written.path}/metadata"]


def test_every_cut_of_an_offset_log_is_torn_or_whole_and_never_something_else() -> None:
    whole = offsets_file(3).encode()
    for length in range(len(whole)):
        with pytest.raises(TornFile):
            parse_offsets("offsets/0", whole[:length])
    assert parse_offsets("offsets/0", whole).batch_time == 1700000000123


def test_offsets_of_other_sources_are_not_told(written: Written) -> None:
    (written.path / "offsets" / "0").write_text(f"v1\n{METADATA}\n3\n-")
    found = read_checkpoint(LocalFiles(), str(written.path))
    assert not found.torn
    assert found.ends == ()


def test_state_is_seen(written: Written) -> None:
    assert not read_checkpoint(LocalFiles(), str(written.path)).has_state
    (written.path / "state" / "0").mkdir(parents=True)
    assert read_checkpoint(LocalFiles(), str(written.path)).has_state


def test_legs_of_one_processor_have_checkpoints_of_their_own() -> None:
    stage = ProcessorUid("shop", "price")
    output = ProcessorUid("shop", "price", "output/priced")
    assert checkpoint_path("s3a://bucket/c/", stage) == "s3a://bucket/c/shop/price"
    assert checkpoint_path("c", output) == "c/shop/price@output@priced"


def test_checksum_goes_with_its_file() -> None:
    assert companions("c/offsets/3") == ("c/offsets/3", "c/offsets/.3.crc")


# --- files --------------------------------------------------------------------------------------


def test_files_are_written_as_a_whole_appended_to_and_removed(tmp_path: Path) -> None:
    files, path = LocalFiles(), f"file://{tmp_path}/a/b.json"
    assert files.read(path) is None
    files.write(path, b"one")
    files.append(path, b"two")
    assert files.read(path) == b"onetwo"
    assert [entry.name for entry in files.entries(f"{tmp_path}/a")] == ["b.json"]
    files.remove(f"{tmp_path}/a")
    files.remove(f"{tmp_path}/a")
    assert files.entries(f"{tmp_path}/a") == []


def test_file_in_the_place_of_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(FilesFailed, match="cannot use"):
        LocalFiles().write(f"{tmp_path}/a/b", b"")


@pytest.mark.parametrize(
    ("path", "here"), [("c", True), ("/c", True), ("file:///c", True), ("hdfs://c", False)]
)
def test_path_tells_whether_spark_is_needed(path: str, here: bool) -> None:
    assert is_local(path) is here
    if not here:
        with pytest.raises(NoFiles, match="through Spark only"):
            files_of(path)
