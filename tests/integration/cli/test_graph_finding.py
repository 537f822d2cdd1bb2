"""Which graph a word on the command line means, and what is imported for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import pytest
import typer

from windrow.cli.graph_finding import UnknownGraph, files_of_graph, find_graph, graph_flags
from windrow.errors import ConfigError
from windrow.graph import InvalidGraph

MODULE = """
from windrow.graph import Graph, Source, declare

def price(msgs, ctx):
    return msgs["orders"]

{name} = Graph("shop", [Source("orders"), declare(price, reads="orders", writes="priced")])
"""


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "elsewhere")


@pytest.fixture
def module(tmp_path: Path) -> str:
    name = f"shop{token_hex(4)}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(name="shop"))
    return name


@pytest.mark.parametrize("form", ["{}.py", "{}.py:shop", "{}:shop", "{}"])
def test_graph_is_found_by_file_by_module_and_by_name(module: str, form: str) -> None:
    assert find_graph(form.format(module)).id == "shop"


def test_graph_is_found_in_a_document_beside_its_functions(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.toml").write_text(
        'id = "shop"\nsources = ["orders"]\n'
        f'[processors.price]\nfunction = "{module}:price"\nreads = "orders"\nwrites = "priced"\n'
    )
    monkeypatch.chdir("/")
    assert find_graph(str(tmp_path / "shop.toml")).topology.order == ("orders", "price")


def test_workers_find_what_the_command_found(module: str, tmp_path: Path) -> None:
    find_graph(f"{module}.py")
    assert os.environ["PYTHONPATH"] == f"{tmp_path}{os.pathsep}elsewhere"
    assert files_of_graph(f"{module}.py:shop") == [f"{module}.py"]
    assert files_of_graph("a.module:shop") == files_of_graph("shop.toml") == []


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("no.py", "there is no file no.py"),
        ("no.toml", "there is no file no.toml"),
        ("no.such.module:shop", "there is no file and no module"),
        ("windrow.errors", "it has no graph; name one"),
        ("{}:other", "it has the graph shop"),
        ("{}:", "module:name"),
    ],
)
def test_graph_that_is_not_there_is_told_with_what_is(
    module: str, reference: str, reason: str
) -> None:
    with pytest.raises(UnknownGraph) as told:
        find_graph(reference.format(module))
    assert reason in str(told.value)


def test_module_that_lacks_another_one_is_told_which(tmp_path: Path) -> None:
    name = f"shop{token_hex(4)}"
    (tmp_path / f"{name}.py").write_text("import no_such_module_at_all")
    with pytest.raises(UnknownGraph, match="it needs a module 'no_such_module_at_all'"):
        find_graph(f"{name}.py")


def test_module_that_fails_is_told_in_one_line(tmp_path: Path) -> None:
    name = f"shop{token_hex(4)}"
    (tmp_path / f"{name}.py").write_text("from windrow import no_such_name")
    with pytest.raises(UnknownGraph, match="it cannot be imported: ImportError"):
        find_graph(f"{name}.py")


def test_graph_that_cannot_run_and_file_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('id = "shop"\nnonsense = 1\n')
    with pytest.raises(ConfigError, match="nonsense"):
        find_graph("bad.toml")
    name = f"shop{token_hex(4)}"
    text = MODULE.format(name="shop").replace('Source("orders"), ', "")
    (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(InvalidGraph, match="which nothing writes"):
        find_graph(f"{name}.py")


def test_flags_become_settings_of_the_section() -> None:
    flags = graph_flags(
        master="local[4]", conf=["spark.a=1=2"], py_files=["a.py,b.zip", "c.whl"], max_rows=5
    )
    assert {setting.path: setting.value for setting in flags} == {
        ("graph", "master"): "local[4]",
        ("graph", "conf", "spark.a"): "1=2",
        ("graph", "py_files"): ["a.py", "b.zip", "c.whl"],
        ("graph", "max_rows"): 5,
    }
    with pytest.raises(typer.BadParameter) as told:
        graph_flags(conf=["hunter2"])
    assert "hunter2" not in str(told.value)


def test_looking_at_a_graph_imports_no_spark(module: str) -> None:
    source = (
        "import sys; from windrow.cli.main import main; code = main(sys.argv[1:]);"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')];"
        "sys.exit(code)"
    )
    words = ["graph", "show", f"{module}.py", "--offline"]
    done = subprocess.run([sys.executable, "-c", source, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "price · pipe" in done.stdout
