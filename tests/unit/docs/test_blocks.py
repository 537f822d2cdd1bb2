from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Action, Block, BlockError, Step, console_steps, extract
from tests.docs.runner import BlockFailed, perform


def page(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def test_a_block_is_named_by_the_line_of_its_opening_fence() -> None:
    [block] = extract("a.md", page("# Title", "", "```python", "x = 1", "", "y = 2", "```"))
    assert block == Block("a.md", 3, "python", "x = 1\n\ny = 2\n")
    assert block.place == "a.md:3"
    assert block.action is Action.RUN_PYTHON


def test_blocks_come_in_the_order_of_the_page() -> None:
    text = page("```bash", "one", "```", "between", "~~~toml", "two = 2", "~~~")
    assert [(b.language, b.code) for b in extract("a.md", text)] == [
        ("bash", "one\n"),
        ("toml", "two = 2\n"),
    ]


def test_an_exception_keeps_its_reason() -> None:
    [block] = extract("a.md", page("```bash no-run: needs root", "apt-get update", "```"))
    assert (block.language, block.no_run) == ("bash", "needs root")


@pytest.mark.parametrize("info", ["bash no-run", "bash no-run:", "bash no-run: ", "bash no-run x"])
def test_an_exception_without_a_reason_is_refused(info: str) -> None:
    with pytest.raises(BlockError, match=r"a\.md:1: an exception needs a reason"):
        extract("a.md", page(f"```{info}", "x", "```"))


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ("", "no language"),
        ("no-run: because", "no language"),
        ("cobol", "unknown language 'cobol'"),
        ("Python", "unknown language 'Python'"),
    ],
)
def test_a_fence_whose_language_says_nothing_is_refused(info: str, message: str) -> None:
    """Otherwise a slip in the language would quietly keep a block from being run."""
    with pytest.raises(BlockError, match=f"a.md:2: {message}"):
        extract("a.md", page("", f"```{info}", "x", "```"))


def test_a_fence_that_is_never_closed_is_refused() -> None:
    with pytest.raises(BlockError, match=r"a\.md:1: the fence ``` is never closed"):
        extract("a.md", page("```python", "x = 1"))


def test_a_block_inside_a_list_loses_the_indentation_of_its_fence() -> None:
    text = page("- item", "", "    ```python", "    if True:", "        x = 1", "", "    ```")
    [block] = extract("a.md", text)
    assert block.code == "if True:\n    x = 1\n\n"


def test_a_longer_fence_holds_shorter_ones() -> None:
    text = page("````text", "```python", "raise SystemExit", "```", "````")
    [block] = extract("a.md", text)
    assert block.language == "text"
    assert block.code == "```python\nraise SystemExit\n```\n"


def test_code_between_backticks_in_a_sentence_is_no_fence() -> None:
    assert extract("a.md", page("```like this``` in a sentence")) == []


def test_a_console_block_pairs_commands_with_their_output() -> None:
    block = Block("a.md", 1, "console", "$ echo a; echo b\na\nb\n$ true\n")
    assert console_steps(block) == [Step("echo a; echo b", "a\nb\n"), Step("true", "")]


def test_a_console_block_without_a_prompt_is_refused() -> None:
    with pytest.raises(BlockError, match="begins with"):
        console_steps(Block("a.md", 1, "console", "echo a\n"))


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "raise RuntimeError('planted')"),
        ("bash", "false | true"),
        ("bash", "echo $undefined"),
        ("console", "$ echo a\nb"),
        ("console", "$ echo a"),
        ("console", "$ false"),
        ("toml", "a = "),
        ("yaml", "a: [1"),
        ("json", "{'a': 1}"),
    ],
)
def test_a_block_that_does_not_do_what_it_says_fails_at_its_place(
    language: str, code: str, tmp_path: Path
) -> None:
    with pytest.raises(BlockFailed, match=r"a\.md:7: "):
        perform(Block("a.md", 7, language, code + "\n"), tmp_path)


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import windrow"),
        ("bash", "echo a | grep a"),
        ("console", "$ echo a $RANDOM b\na ... b\n$ false || echo $?\n1"),
        ("console", "$ echo 'key   value'\nkey value"),
        ("toml", "a = 1"),
        ("yaml", "a: [1]"),
        ("json", '{"a": 1}'),
        ("text", "( anything"),
    ],
)
def test_a_block_that_does_what_it_says_passes(language: str, code: str, tmp_path: Path) -> None:
    perform(Block("a.md", 7, language, code + "\n"), tmp_path)


def test_blocks_see_the_files_of_those_before_them(tmp_path: Path) -> None:
    perform(Block("a.md", 1, "bash", "echo 1 >left\n"), tmp_path)
    perform(Block("a.md", 5, "python", "assert open('left').read() == '1\\n'\n"), tmp_path)


def test_a_block_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With whatever it started: the time-out is that of its process group."""
    monkeypatch.setattr("tests.docs.runner.BLOCK_TIMEOUT", 0.2)
    with pytest.raises(BlockFailed, match=r"a\.md:7: not done within"):
        perform(Block("a.md", 7, "bash", "sleep 300 & sleep 301\n"), tmp_path)


def test_settings_of_the_caller_do_not_reach_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDROW__LOG__LEVEL", "debug")
    perform(Block("a.md", 7, "bash", '[ -z "${WINDROW__LOG__LEVEL:-}" ]\n'), tmp_path)
