"""Which names are allowed."""

from __future__ import annotations

import pytest

from windrow.journal.errors import InvalidField
from windrow.journal.names import split_meta, valid_journal, valid_path_text, valid_token


@pytest.mark.parametrize(
    "name",
    [
        "a/bc",
        "orders/eu-west_1/part+0.0",
        "with=equals/and%20percent",
        "größe/日本/٣",
        "abcd",
        "a" * 512,
        "é" * 256,
        "..a/b",
    ],
)
def test_a_clean_path_of_the_alphabet_names_a_journal(name: str) -> None:
    assert valid_journal(name) == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Journal: invalid length (0; expected 4 <= length <= 512)"),
        ("abc", "Journal: invalid length (3; expected 4 <= length <= 512)"),
        ("a" * 513, "Journal: invalid length (513; expected 4 <= length <= 512)"),
        ("é" * 257, "Journal: invalid length (514; expected 4 <= length <= 512)"),
        ("/abc/d", "Journal: cannot begin with '/' (/abc/d)"),
        ("//abc/d", "Journal: cannot begin with '/' (//abc/d)"),
        ("abc//d", "Journal: must be a clean path (abc//d)"),
        ("abc/./d", "Journal: must be a clean path (abc/./d)"),
        ("abc/../d", "Journal: must be a clean path (abc/../d)"),
        ("abc/d/", "Journal: must be a clean path (abc/d/)"),
        ("../abcd", "Journal: cannot leave its root (../abcd)"),
        ("with space", "Journal: not a valid token (with space)"),
        ("a#bcd", "Journal: not a valid token (a#bcd)"),
        ("a;meta", "Journal: not a valid token (a;meta)"),
        ("a\x00bcd", "Journal: not a valid token ('a\\x00bcd')"),
        ("abc\ud800", "Journal: not a valid token ('abc\\ud800')"),
    ],
)
def test_a_bad_name_is_refused_with_its_reason(name: str, message: str) -> None:
    with pytest.raises(InvalidField) as refused:
        valid_journal(name)
    assert str(refused.value) == message


def test_every_ascii_rune_of_a_name_sorts_after_the_key_separator() -> None:
    """Or the keys of one journal could lie among those of another."""
    for code in range(0x24):
        with pytest.raises(InvalidField, match="not a valid token"):
            valid_journal("abc" + chr(code) + "d")


@pytest.mark.parametrize("name", ["abc/d;meta", "abc/d;a=b/c%d", "abc/d;" + "m" * 512])
def test_a_meta_suffix_is_allowed_only_where_asked_for(name: str) -> None:
    assert valid_journal(name, allow_meta=True) == name
    with pytest.raises(InvalidField, match=r"not a valid token|invalid length"):
        valid_journal(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("abc/d;", "Journal.Meta: invalid length (0; expected 1 <= length <= 512)"),
        ("abc/d;" + "m" * 513, "Journal.Meta: invalid length (513; expected 1 <= length <= 512)"),
        ("abc/d;a;b", "Journal.Meta: not a valid token (a;b)"),
        ("abc/d;../b", "Journal.Meta: cannot leave its root (../b)"),
        ("abc;d", "Journal: invalid length (3; expected 4 <= length <= 512)"),
    ],
)
def test_a_bad_meta_suffix_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidField) as refused:
        valid_journal(name, allow_meta=True)
    assert str(refused.value) == message


def test_the_meta_suffix_is_told_from_the_journal() -> None:
    assert split_meta("abc/d;a/b") == ("abc/d", "a/b")
    assert split_meta("abc/d") == ("abc/d", "")


def test_only_paths_may_hold_equals_and_percent() -> None:
    assert valid_path_text("a=b%c", 1, 10) == "a=b%c"
    for text in ("a=b", "a%b"):
        with pytest.raises(InvalidField, match=r"^not a valid token"):
            valid_token(text, 1, 10)
