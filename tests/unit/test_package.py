from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import windrow
from windrow.extras import EXTRA_OF

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"

RIM = re.compile(
    r"windrow\.(journal|coordination)\S* imports (grpc|google)\b"
    r"|windrow\.(spark\.(formats|queues)|bench\.graph)\S* imports (pyspark|pyarrow|numpy)\b"
    r"|windrow\.verify\.(columns|sources)\S* imports (pyarrow|numpy)\b"
)
RIM_PACKAGES = re.compile(
    r"windrow\.(journal|coordination|spark\.(formats|queues)|bench\.graph"
    r"|verify\.(columns|sources))\b"
)
FORMATS = {
    f"pyspark_windrow_{name}"
    for name in ("graph", "http", "journal", "kafka", "outbox", "postgres")
}

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys, traceback
from importlib.abc import MetaPathFinder
from pathlib import Path

sources, refused = Path(sys.argv[1]), json.loads(sys.argv[2])
asked, broken, imported = [], {}, []


def importer():
    "The module of ours that asks for the import now being answered, if it is one of ours."
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("importlib") and name != "windrow.extras":
            break
        frame = frame.f_back
    ours = name.partition(".")[0] == "windrow" or name.startswith("pyspark_windrow_")
    return name if frame is not None and ours else None


class Refuse(MetaPathFinder):
    "Answers for the optional dependencies as if none of them were installed."

    def find_spec(self, fullname, path=None, target=None):
        if any(fullname == name or fullname.startswith(name + ".") for name in refused):
            if importer():
                asked.append(f"{importer()} imports {fullname}")
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


sys.path.insert(0, str(sources))
sys.meta_path.insert(0, Refuse())
for module in pkgutil.walk_packages([str(sources)], onerror=lambda name: None):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
        imported.append(module.name)
    except BaseException:
        broken[module.name] = traceback.format_exc()
print(json.dumps({"asked": asked, "broken": broken, "imported": imported}))
"""


def import_everything(sources: Path) -> tuple[list[str], dict[str, str], list[str]]:
    """Import each module under ``sources`` in a process where no extra is installed.

    Returns who asked for an extra while being imported, what could not be imported, and what was.
    """
    finished = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING, str(sources), json.dumps(sorted(EXTRA_OF))],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = json.loads(finished.stdout)
    return found["asked"], found["broken"], found["imported"]


def init_files(sources: Path) -> list[Path]:
    # Those beside generated code only see to it that what that imports is there.
    found = sources.glob("windrow/**/__init__.py")
    return sorted(path for path in found if path.parent.name != "wire")


def problems_of_init(text: str) -> list[str]:
    """What an ``__init__.py`` holds beside imports, and how its ``__all__`` is wrong."""
    tree = ast.parse(text)
    problems = [f"line {node.lineno} is neither import nor __all__" for node in _extras_of(tree)]
    imported = _imported_by(tree.body)
    listed = _all_of(tree)
    if listed is None:
        return problems + (["no __all__"] if imported else [])
    problems += [f"{name} is imported and not in __all__" for name in sorted(imported - {*listed})]
    problems += [f"{name} is in __all__ and not imported" for name in sorted({*listed} - imported)]
    if listed != sorted(set(listed), key=_sort_key):
        problems.append(f"__all__ is not sorted: {listed}")
    return problems


def _imported_by(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for node in body:
        match node:
            case ast.ImportFrom(module="__future__" | "typing"):
                pass
            case ast.ImportFrom():
                names |= {alias.asname or alias.name for alias in node.names}
            case ast.If():
                names |= _imported_by(node.body)
    return names


def _extras_of(tree: ast.Module) -> list[ast.stmt]:
    """Statements that do not belong: lazily given names (``__getattr__``) are tolerated."""
    return [node for node in tree.body if not _belongs(node, first=node is tree.body[0])]


def _belongs(node: ast.stmt, *, first: bool) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return first
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.FunctionDef(name="__getattr__" | "__dir__"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return all(isinstance(inner, ast.Import | ast.ImportFrom) for inner in node.body)
    return False


def _all_of(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return list(ast.literal_eval(value))
    return None


def _sort_key(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then the rest: the order that ruff keeps."""
    if name.isupper():
        return 0, name
    return (1 if name[:1].isupper() else 2), name


@pytest.mark.parametrize("path", [str(p.relative_to(SOURCES)) for p in init_files(SOURCES)])
def test_init_file_holds_only_imports_and_a_sorted_whole_all(path: str) -> None:
    assert problems_of_init((SOURCES / path).read_text(encoding="utf-8")) == []


def test_every_directory_of_modules_is_a_package() -> None:
    """Without ``__init__.py`` it would be left out of every check here, and still import."""
    directories = {path.parent for path in (SOURCES / "windrow").rglob("*.py")}
    missing = [d.relative_to(SOURCES) for d in directories if not (d / "__init__.py").exists()]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("from a import b\n", "no __all__"),
        ("from a import b, c\n__all__ = ['b']\n", "c is imported and not in __all__"),
        ("from a import b\n__all__ = ['b', 'c']\n", "c is in __all__ and not imported"),
        ("from a import B, c\n__all__ = ['c', 'B']\n", "__all__ is not sorted: ['c', 'B']"),
        ("from a import b\n__all__ = ['b', 'b']\n", "__all__ is not sorted: ['b', 'b']"),
        ("def f(): ...\n", "line 1 is neither import nor __all__"),
        ("'''Doc.'''\nx = 1\n", "line 2 is neither import nor __all__"),
    ],
)
def test_a_planted_fault_in_an_init_file_is_found(text: str, problem: str) -> None:
    assert problems_of_init(text) == [problem]


def test_the_version_is_written_in_one_place() -> None:
    """Everything else reads it: the build, ``windrow.__version__`` and the command line."""
    written = [
        str(path.relative_to(ROOT))
        for path in (*SOURCES.rglob("*.py"), ROOT / "pyproject.toml")
        if re.search(
            rf"(?m)^(?!\s*#).*version.*=.*[\"']{re.escape(windrow.__version__)}[\"']",
            path.read_text(encoding="utf-8"),
        )
    ]
    assert written == ["src/windrow/version.py"]


@pytest.mark.proves("extras-lazy")
def test_every_module_imports_with_no_extra_installed_and_asks_for_none() -> None:
    """An extra belongs inside the function that needs it, or one missing breaks them all.

    But for the rims of the journals and of Spark, which are nothing without the protocol and the
    API: there it is enough that the machines inside can be imported, which their unit tests do, and
    that the extra is named. What Spark imports to find formats can be imported by anyone.
    """
    asked, broken, imported = import_everything(SOURCES)
    assert [line for line in asked if not RIM.match(line)] == []
    assert [name for name in broken if not RIM_PACKAGES.match(name)] == []
    assert {"windrow", "windrow.errors", "windrow.extras"} | FORMATS <= set(imported)


def test_without_its_extra_the_wire_says_what_to_install() -> None:
    _, broken, _ = import_everything(SOURCES)
    for package in ("journal", "coordination"):
        assert "pip install 'windrow[journal]'" in broken[f"windrow.{package}.wire"]


@pytest.mark.parametrize(
    "line",
    [
        "import psycopg",
        "from confluent_kafka import Producer",
        "from windrow.extras import require; require('pyspark.sql')",
    ],
)
def test_a_planted_import_of_an_extra_is_found(line: str, tmp_path: Path) -> None:
    package = tmp_path / "windrow"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name in ("errors.py", "extras.py"):
        (package / name).write_text((SOURCES / "windrow" / name).read_text(encoding="utf-8"))
    (package / "planted.py").write_text(line + "\n")
    (package / "hiding.py").write_text(f"try:\n    {line}\nexcept Exception:\n    pass\n")

    asked, broken, imported = import_everything(tmp_path)

    assert {question.split(" ")[0] for question in asked} == {"windrow.hiding", "windrow.planted"}
    assert list(broken) == ["windrow.planted"]
    assert "windrow.hiding" in imported
