"""The files of a local store: what a crash, a full disk and a bad disk leave of them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.coordination.key_values import kv, put
from windrow.coordination.errors import DirectoryInUse, LogDamaged, StoreBroken, StoreFull
from windrow.coordination.local_log import (
    Identity,
    LocalLog,
    Recovered,
    encode_frame,
    has_frame_behind,
    read_frames,
)

ME = Identity(11, 12)


def open_log(directory: Path, compact_at: int = 1 << 20) -> LocalLog:
    return LocalLog(directory, ME, compact_at)


def write_changes(directory: Path, count: int) -> None:
    log = open_log(directory)
    for n in range(count):
        log.append([put(f"key{n}", at=n + 2)])
    log.close()


def recovered(directory: Path) -> Recovered:
    log = open_log(directory)
    log.close()
    return log.recovered


def log_file(directory: Path) -> Path:
    (found,) = directory.glob("*.log")
    return found


def test_new_store_is_empty_at_revision_1_with_the_identity_given(tmp_path: Path) -> None:
    assert recovered(tmp_path / "new") == Recovered(ME, 1, (), ())


def test_identity_is_chosen_once(tmp_path: Path) -> None:
    recovered(tmp_path)
    again = LocalLog(tmp_path, Identity(99, 99))
    again.close()
    assert again.recovered.identity == ME


def test_every_change_is_there_again(tmp_path: Path) -> None:
    write_changes(tmp_path, 3)
    assert recovered(tmp_path).changes == tuple((put(f"key{n}", at=n + 2),) for n in range(3))


@pytest.mark.parametrize("missing", range(1, 40))
def test_torn_last_change_is_cut_off_and_the_log_goes_on(tmp_path: Path, missing: int) -> None:
    write_changes(tmp_path, 3)
    path = log_file(tmp_path)
    os.truncate(path, path.stat().st_size - missing)
    assert len(recovered(tmp_path).changes) == 2
    log = open_log(tmp_path)
    log.append([put("later", at=4)])
    log.close()
    assert [change[0].kv.key for change in recovered(tmp_path).changes] == ["key0", "key1", "later"]


@pytest.mark.parametrize("tail", [b"\0" * 100, b"\0", b"garbage" * 30, encode_frame([])[:-1]])
def test_whatever_a_crash_leaves_behind_the_last_change_is_cut_off(
    tmp_path: Path, tail: bytes
) -> None:
    write_changes(tmp_path, 2)
    with log_file(tmp_path).open("ab") as file:
        whole = file.tell()
        file.write(tail)
    assert len(recovered(tmp_path).changes) == 2
    assert log_file(tmp_path).stat().st_size == whole


def test_damage_before_an_acknowledged_change_is_refused_not_cut_off(tmp_path: Path) -> None:
    write_changes(tmp_path, 3)
    path = log_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LogDamaged, match="is damaged at byte 0"):
        open_log(tmp_path)
    assert path.read_bytes() == bytes(data)


@given(flipped=st.data())
def test_no_flipped_bit_goes_unseen(flipped: st.DataObject) -> None:
    """Whatever frame it hits, what is read is a beginning of what was written."""
    contents = [["a", 1], {"b": [2, 3]}, "c" * 40]
    data = b"".join(map(encode_frame, contents))
    at = flipped.draw(st.integers(0, len(data) - 1))
    bit = flipped.draw(st.integers(0, 7))
    damaged = bytearray(data)
    damaged[at] ^= 1 << bit
    read = [content for _, content in read_frames(bytes(damaged))]
    assert read == contents[: len(read)]
    assert len(read) < len(contents)


def test_frame_behind_a_bad_one_is_found() -> None:
    first, second = encode_frame("first"), encode_frame("second")
    assert has_frame_behind(b"\0" + first[1:] + second, 0)
    assert not has_frame_behind(first + second[:-1], len(first))


def test_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    write_changes(tmp_path, 1)
    data = bytearray((tmp_path / "snapshot").read_bytes())
    data[-2] ^= 1
    (tmp_path / "snapshot").write_bytes(bytes(data))
    with pytest.raises(LogDamaged, match="checksum"):
        open_log(tmp_path)


def test_missing_snapshot_or_log_is_refused_and_never_taken_for_a_new_store(tmp_path: Path) -> None:
    write_changes(tmp_path / "a", 1)
    (tmp_path / "a" / "snapshot").unlink()
    with pytest.raises(LogDamaged, match="snapshot it belongs to is missing"):
        open_log(tmp_path / "a")
    write_changes(tmp_path / "b", 1)
    log_file(tmp_path / "b").unlink()
    with pytest.raises(LogDamaged, match="the snapshot leads to it"):
        open_log(tmp_path / "b")


def test_compaction_keeps_everything_and_begins_an_empty_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, compact_at=100)
    revision = 1
    while not log.wants_compaction():
        revision += 1
        log.append([put("key", at=revision)])
    log.compact(revision, [kv("key", at=revision)])
    assert not log.wants_compaction()
    log.append([put("later", at=revision + 1)])
    log.close()
    assert log_file(tmp_path).name == f"{revision}.log"
    assert recovered(tmp_path) == Recovered(
        ME, revision, (kv("key", at=revision),), ((put("later", at=revision + 1),),)
    )


@pytest.mark.parametrize("step", ["snapshot.new", "5.log"])
def test_compaction_that_was_cut_off_leaves_the_old_log_in_force(tmp_path: Path, step: str) -> None:
    write_changes(tmp_path, 4)
    (tmp_path / step).write_bytes(b"")
    assert len(recovered(tmp_path).changes) == 4
    assert log_file(tmp_path).name == "1.log"


def test_directory_is_for_one_at_a_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(DirectoryInUse, match=str(tmp_path)):
        open_log(tmp_path)
    log.close()
    open_log(tmp_path).close()


def test_full_disk_refuses_a_change_and_keeps_the_log_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append([put("before", at=2)])
    write, calls = os.pwrite, 0

    def write_a_part(descriptor: int, data: bytes, offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:5], offset)

    monkeypatch.setattr(os, "pwrite", write_a_part)
    with pytest.raises(StoreFull, match="No space left"):
        log.append([put("refused", at=3)])
    monkeypatch.undo()
    log.append([put("after", at=3)])
    log.close()
    assert [change[0].kv.key for change in recovered(tmp_path).changes] == ["before", "after"]


def test_failed_sync_is_never_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has forgotten what it could not write; a second sync would call it durable."""
    log = open_log(tmp_path)

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StoreBroken, match="Input/output error"):
        log.append([put("a", at=2)])
    monkeypatch.undo()
    with pytest.raises(StoreBroken):
        log.append([put("b", at=2)])
    log.close()
