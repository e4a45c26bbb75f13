"""The collector is one file of the standard library for Python 3.8, whatever its modules are."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders.live.fake_ranks import SOURCE, fake_ranks

from nccldoctor.collect.one_file import collector_source, joined_source


def run(*options: str, python: str = sys.executable) -> str:
    """What the collector prints in a Python without any other module or variable."""
    done = subprocess.run([python, "-I", "-S", "-", *options], input=SOURCE.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_it_needs_nothing_but_the_standard_library() -> None:
    assert "--where NAME=VALUE" in run("--help")


def test_print_lists_what_would_be_done_and_does_nothing() -> None:
    lines = run("--print").splitlines()
    assert any(line.startswith("py-spy dump --pid PID") for line in lines)
    assert any("28028" in line for line in lines)
    assert "nvidia-smi -q" in lines


def test_it_is_one_file_for_python_3_8() -> None:
    tree = ast.parse(SOURCE, feature_version=(3, 8))
    names = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    names |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names
    newer = {
        "removeprefix",
        "removesuffix",
        "pairwise",
        "batched",
        "UTC",
        "cache",
        "zip_longest_strict",
        "StrEnum",
        "to_thread",
    }
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert not newer & (attributes | imported)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not any(isinstance(c.func, ast.Name) and c.func.id == "zip" and c.keywords for c in calls), (
        "zip(strict=) is of 3.10"
    )


@pytest.fixture(scope="module")
def python_3_8() -> str:
    """A Python 3.8 that runs, also one of pyenv, whose own command only fails where another version is chosen."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = [shutil.which("python3.8"), *map(str, sorted(pyenv.glob("versions/3.8.*/bin/python3.8")))]
    for python in filter(None, found):
        if subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip("no python3.8 here")


def test_it_runs_on_python_3_8(python_3_8: str) -> None:
    assert run("--print", python=python_3_8) == run("--print")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_rank_is_found_by_python_3_8(python_3_8: str, tmp_path: Path) -> None:
    with fake_ranks(tmp_path) as ranks:
        ranks.start(3)
        told = ranks.collect(python=python_3_8).told()
    assert [process["rank"] for process in told["processes"]] == [3]
    assert told["python"].startswith("3.8.")


def test_equal_modules_give_equal_text() -> None:
    assert collector_source() == SOURCE
    assert SOURCE.isascii()


def test_every_name_is_known_and_defined_once() -> None:
    tree = ast.parse(SOURCE)
    definitions = (ast.FunctionDef, ast.ClassDef)
    names = [node.name for node in tree.body if isinstance(node, definitions)]
    names += [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    assert len(names) == len(set(names))
    assert {"main", "ask_ras", "masked", "lazy"} <= set(names)
    assert "nccldoctor." not in "".join(
        ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
    )


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose modules the tests write."""
    folder = tmp_path / "nccldoctor_parts"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Says hello."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("nccldoctor.collect.one_file._OURS", "nccldoctor_parts")
    monkeypatch.delitem(sys.modules, "nccldoctor_parts", raising=False)
    return folder


def write(package: Path, **modules: str) -> None:
    for name, text in modules.items():
        (package / f"{name}.py").write_text(f'"""The {name}."""\n\nfrom __future__ import annotations\n\n{text}\n')


def test_what_is_imported_stands_first_and_imports_stand_once(package: Path) -> None:
    write(
        package,
        last="import os\nfrom nccldoctor_parts.middle import doubled\nprint(os.sep, doubled(4))",
        middle="import os\nfrom nccldoctor_parts.first import TWO\ndef doubled(n):\n    return TWO * n",
        first="from math import (\n    floor,\n)\nTWO = floor(2.5)",
    )
    source = joined_source("nccldoctor_parts.last")
    assert source.count("import os") == 1
    assert source.index("# The first.") < source.index("# The middle.") < source.index("# The last.")
    done = subprocess.run([sys.executable, "-I", "-S", "-"], input=source, capture_output=True, text=True, check=True)
    assert done.stdout == f"{os.sep} 8\n"


@pytest.mark.parametrize(
    ("last", "first"),
    [
        ("from nccldoctor_parts.first import A\nB = 1", "A = 1\nB = 2"),
        ("from nccldoctor_parts.first import A\ndef os(): ...", "import os\nA = os.sep"),
        (
            "from nccldoctor_parts.first import A\nfrom typing import Callable",
            "from collections.abc import Callable\nA = 1",
        ),
        ("from nccldoctor_parts.first import A\nif A:\n    B = 1", "A = 1\nclass B: ..."),
    ],
)
def test_one_name_with_two_meanings_is_refused(package: Path, last: str, first: str) -> None:
    write(package, last=last, first=first)
    with pytest.raises(ValueError, match="has two meanings"):
        joined_source("nccldoctor_parts.last")


@pytest.mark.parametrize(
    "last",
    [
        "import nccldoctor_parts.first",
        "from nccldoctor_parts.first import A as C",
        "from .first import A",
        "def f():\n    from nccldoctor_parts.first import A",
    ],
)
def test_an_import_that_cannot_be_dropped_is_refused(package: Path, last: str) -> None:
    write(package, last=last, first="A = 1")
    with pytest.raises(ValueError, match="write from"):
        joined_source("nccldoctor_parts.last")
