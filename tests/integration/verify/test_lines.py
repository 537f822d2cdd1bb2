"""Lines of JSON: what Arrow reads is what Python would have read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from windrow.verify import UnreadableSource
from windrow.verify.columns.batches import bytes_of
from windrow.verify.picking import Pick, follow, parse_pick
from windrow.verify.sources import jsonl
from windrow.verify.sources.jsonl import JsonLines, LineParser, parse_lines

PICKS = {"key": parse_pick("/a/key"), "id": parse_pick("/id")}

usual = st.integers(-(2**63), 2**63 - 1) | st.text() | st.sampled_from(["2026-01-01", "17", "1e3"])
unusual = st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
documents = st.lists(
    st.fixed_dictionaries(
        {"id": usual | unusual, "a": st.fixed_dictionaries({"key": usual | unusual | st.none()})},
        optional={"more": st.recursive(usual | st.none(), lambda inner: st.lists(inner))},
    ),
    max_size=8,
)


@given(documents=documents, ascii=st.booleans())
def test_keys_and_ids_are_those_that_python_reads(
    documents: list[dict[str, Any]], ascii: bool
) -> None:
    lines = [json.dumps(each, ensure_ascii=ascii) for each in documents]
    block = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    batch = LineParser("lines", PICKS["key"], PICKS["id"]).batch(block)
    for name in ("key", "id"):
        expected = [bytes_of(follow(each, PICKS[name].path)) or b"" for each in documents]
        assert batch.column(name).to_pylist() == expected


@pytest.mark.parametrize("ids", [[1, 2], ["x", "2026-01-01"], ["1", "2"]])
def test_the_usual_types_are_read_by_arrow(ids: list[Any]) -> None:
    block = b"".join(json.dumps({"id": id, "a": {"key": "k"}}).encode() + b"\n" for id in ids)
    assert parse_lines(block, PICKS) is not None


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n  \n"])
def test_a_last_line_needs_no_line_break_and_blank_ones_are_nothing(
    tmp_path: Path, end: bytes
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"id": 1}\n\n{"id": 2}' + end)
    source = JsonLines(str(path), Pick("none"), parse_pick("/id"), "lines")
    ids = [id for batch in source.batches() for id in batch.column("id").to_pylist()]
    assert ids == [b"1", b"2"]


def test_a_line_may_be_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "BLOCK", 16)
    path = tmp_path / "lines"
    path.write_text("".join(json.dumps({"id": f"{n:0100}"}) + "\n" for n in range(3)))
    source = JsonLines(str(path), Pick("none"), parse_pick("/id"), "lines")
    ids = [int(id) for batch in source.batches() for id in batch.column("id").to_pylist()]
    assert ids == [0, 1, 2]


def test_the_line_of_a_mistake_is_counted_over_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "BLOCK", 16)
    path = tmp_path / "lines"
    path.write_bytes(b'{"id": 1}\n' * 6 + b"nonsense\n")
    source = JsonLines(str(path), Pick("none"), parse_pick("/id"), "lines")
    with pytest.raises(UnreadableSource, match="line 7 is no JSON object"):
        list(source.batches())
