"""The house itself: where imports may point, what is installed, that every command explains itself."""

from __future__ import annotations

import ast
import inspect
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import click
import pytest
from msgspec import StructMeta
from project.parsed import parsed

from nccldoctor.cli import demo
from nccldoctor.cli.app import cli

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"nccldoctor": ROOT / "nccldoctor", "parsers": ROOT / "parsers", "reports": ROOT / "reports"}

STAGES = (
    ("model", "patterns", "version", "plugins", "attempts", "rehearsal"),
    "words",
    ("events", "collect", "capture"),
    "parsers",
    "discover",
    "ingest",
    "parts",
    "identify",
    "align",
    "questions",
    ("diagnose", "prescribe", "summarise"),
    "reports",
    "dataframes",
    "incident",
    "judging",
    "pipeline",
    ("live", "history"),
    "cli",
    "__main__",
)
"""The rooms of the package from the ground up, as data passes through them. A room imports itself and rooms before it;
rooms in brackets do not know each other. ``capture`` and ``rehearsal`` run inside training jobs; capture knows of the
rest which names are secrets, rehearsal nothing.
"""

STRANGERS = {
    "reports": {"identify", "align", "diagnose", "prescribe", "parsers"},
    "diagnose": {"prescribe", "summarise"},
    "prescribe": {"diagnose", "summarise"},
    "summarise": {"diagnose", "prescribe"},
}
"""What a room must not know although it lies below: no report knows a table, no rule a remedy."""

MOST_MODULES = 16
"""Modules side by side in one folder."""


def _files() -> dict[str, Path]:
    """Every module of the package by its full name, each once (the links in ``nccldoctor/`` are not followed)."""
    out = {}
    for prefix, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            inside = path.relative_to(folder)
            if prefix == "nccldoctor" and inside.parts[0] in ("parsers", "reports", "samples"):
                continue
            parts = ("nccldoctor", *(() if prefix == "nccldoctor" else (prefix,)), *inside.with_suffix("").parts)
            out[".".join(parts).removesuffix(".__init__")] = path
    return out


def _room(module: str) -> str:
    """The first name inside the package: a module of ``nccldoctor`` itself, or one of the folders."""
    return [*module.split("."), ""][1]


def _imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The imports of a file from this package, also those inside functions and under TYPE_CHECKING."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def _arrows() -> dict[str, set[str]]:
    known = _files()
    out = {}
    for module, path in known.items():
        inside = {name for name in _imports(path, known) if name.split(".")[0] == "nccldoctor"}
        out[module] = inside - {module, "nccldoctor"}
    return out


def _heights() -> dict[str, int]:
    rows = [(row,) if isinstance(row, str) else row for row in STAGES]
    return {room: height for height, row in enumerate(rows) for room in row}


def test_every_room_is_a_stage() -> None:
    assert {_room(module) for module in _files()} - {""} == set(_heights())


def test_imports_point_one_way() -> None:
    height, wrong = _heights(), []
    for module, targets in _arrows().items():
        if module == "nccldoctor":
            continue  # the public names: it stands outside and loads them late
        here = _room(module)
        for there, target in ((_room(target), target) for target in targets):
            beside = height[there] == height[here] and there != here
            if height[there] > height[here] or beside or there in STRANGERS.get(here, ()):
                wrong.append(f"{module} imports {target}")
    assert not wrong, "\n".join(wrong)


def _folders() -> dict[str, dict[str, set[str]]]:
    """For each folder of the package the arrows between what stands side by side in it: modules and folders."""
    out: dict[str, dict[str, set[str]]] = {}
    for module, targets in _arrows().items():
        here = module.split(".")
        for depth in range(1, len(here)):
            folder, child = ".".join(here[:depth]), here[depth]
            arrows = out.setdefault(folder, {}).setdefault(child, set())
            inside = [t.split(".") for t in targets if t.startswith(folder + ".")]
            arrows |= {t[depth] for t in inside if t[depth] != child}
    return out


def test_no_circle_in_any_folder() -> None:
    for folder, arrows in _folders().items():
        try:
            tuple(TopologicalSorter(arrows).static_order())
        except CycleError as error:
            raise AssertionError(f"a circle in {folder}: {' -> '.join(error.args[1])}") from None


def test_no_folder_is_a_heap() -> None:
    known = _files()
    for folder, children in _folders().items():
        modules = [
            name for name in children if f"{folder}.{name}" in known and known[f"{folder}.{name}"].name != "__init__.py"
        ]
        assert len(modules) <= MOST_MODULES, f"{folder} holds {len(modules)} modules"
    for folder, held in Counter(path.parent for path in (ROOT / "tests").rglob("*.py")).items():
        assert held <= MOST_MODULES, f"{folder} holds {held} modules"


def test_nothing_is_taken_from_the_top() -> None:
    """The public names stand above the pipeline: what is below imports from the modules themselves."""
    modules = {name.removeprefix("nccldoctor.") for name in _files()}
    for path in _files().values():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "nccldoctor":
                assert {alias.name for alias in node.names} <= modules, path


def test_bare_names_are_never_imported() -> None:
    for path in [*_files().values(), *sorted((ROOT / "tests").glob("*.py"))]:
        for name in _imports(path, {}):
            assert name.split(".")[0] not in ("parsers", "reports"), (
                f"{path} imports {name}: the module would load twice"
            )


def test_every_package_folder_is_installed() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {
        name.rpartition(".")[0]
        for name, path in ((n + ".x", p) for n, p in _files().items())
        if path.name == "__init__.py"
    }
    assert set(setup["packages"]) == folders | {"nccldoctor.samples"}
    for name, folder in setup["package-dir"].items():
        link = ROOT / Path(*name.split("."))
        assert link.resolve() == (ROOT / folder).resolve(), f"{link} is no link to {folder}"


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


COMMANDS = dict(_commands(cli, "nccldoctor"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    if not isinstance(command, click.Group):
        assert "Example" in command.help, "show how it is called"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
    excerpt = command.get_help(click.Context(command, info_name=name, max_content_width=79))
    assert max(map(len, excerpt.splitlines())) < 80


def _python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=120, env=env)


HEAVY = "numpy pandas plotly msgspec jinja2 rich torch ahocorasick_rs isal zstandard markdown_it nccldoctor.model"


@pytest.mark.parametrize("words", ["--help", *(f"{name} --help" for name in cli.commands), "--version"])
def test_help_imports_nothing_heavy(words: str) -> None:
    code = (
        "import sys\nfrom nccldoctor.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('LOADED', sorted(set({HEAVY.split()!r}) & set(sys.modules)))"
    )
    done = _python(code, *words.split())
    assert done.stdout.splitlines()[-1] == "LOADED []", done.stdout + done.stderr


def test_analyze_needs_no_torch(tmp_path: Path) -> None:
    demo.write("late-rank-three-groups", tmp_path / "logs")
    code = "import sys\nsys.modules['torch'] = None\nfrom nccldoctor.cli.app import main\nmain()"
    done = _python(code, "analyze", str(tmp_path / "logs"), "-q")
    assert done.returncode == 1, done.stderr
    assert "rank 1" in done.stdout.lower()


def test_public_names_load_when_used() -> None:
    import nccldoctor

    assert set(nccldoctor.__all__) <= set(dir(nccldoctor))
    for name in nccldoctor.__all__:
        held = getattr(nccldoctor, name)
        assert held is not None
        if isinstance(held, StructMeta):
            assert inspect.signature(held).parameters, "help() shows the fields"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = nccldoctor.nothing


def test_samples_name_no_machine() -> None:
    foreign = [f"/{top}/" for top in ("home", "root", "work", "tmp", "Users")]
    for sample in demo.samples():
        for path, content in demo.contents(sample.name).items():
            found = [name for name in foreign if name.encode() in content]
            assert not found, f"{sample.name}/{path} holds {found}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel made from a copy of the checkout, and one made from the sdist of that copy."""
    work = tmp_path_factory.mktemp("build")
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests", "incident")
    shutil.copytree(ROOT, work / "checkout", symlinks=True, ignore=ignored)
    (work / "checkout" / "sample_logs" / "__pycache__").mkdir()
    (work / "checkout" / "sample_logs" / "__pycache__" / "__init__.pyc").touch()
    _build("build_sdist", work / "checkout", work / "sdist")
    with tarfile.open(next((work / "sdist").glob("*.tar.gz"))) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # 3.11.2 has no filters
        archive.extractall(work / "unpacked")
    _build("build_wheel", work / "checkout", work / "direct")
    _build("build_wheel", next((work / "unpacked").iterdir()), work / "by_sdist")
    return next((work / "direct").glob("*.whl")), next((work / "by_sdist").glob("*.whl"))


def _build(hook: str, source: Path, target: Path) -> None:
    """Build as pip does, where no installation of nccldoctor can stand in for what the source lacks."""
    target.mkdir()
    code = (
        "import sys; sys.meta_path[:] = [f for f in sys.meta_path if '__editable__' not in getattr(f, '__module__', '')]; "
        f"import setuptools.build_meta as b; b.{hook}(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(target)], cwd=source, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_wheel_holds_samples_and_data(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        held = {name: wheel.read(name) for name in wheel.namelist()}
    for folder, inside in (
        ("sample_logs", "samples"),
        ("reports/templates", "reports/templates"),
        ("nccldoctor/schema", "schema"),
    ):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = f"nccldoctor/{inside}/{path.relative_to(ROOT / folder).as_posix()}"
                assert held.get(name) == path.read_bytes(), name
    tables = (("parsers", "*/*.toml"), ("parsers", "*/*.csv"), ("reports", "*/*.toml"))
    for path in (path for folder, names in tables for path in (ROOT / folder).glob(names)):
        if path.parent.name != "wordings":
            assert held[f"nccldoctor/{path.relative_to(ROOT).as_posix()}"] == path.read_bytes(), path
    remedies = sorted(path for path in (ROOT / "nccldoctor").rglob("*") if path.suffix in (".j2", ".toml"))
    assert remedies
    for path in remedies:
        assert f"nccldoctor/{path.relative_to(ROOT / 'nccldoctor').as_posix()}" in held
    for module, path in _files().items():
        name = module.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py")
        assert name in held, name
    assert "nccldoctor/py.typed" in held
    assert not any("__pycache__" in name for name in held)
    assert not any(name.startswith(("parsers/", "reports/", "sample_logs/", "tests/")) for name in held)


def test_wheel_by_sdist_is_the_same(built: tuple[Path, Path]) -> None:
    direct, by_sdist = (zipfile.ZipFile(path) for path in built)
    with direct, by_sdist:
        assert set(direct.namelist()) == set(by_sdist.namelist())
        for name in direct.namelist():
            if not name.endswith("RECORD"):
                assert direct.read(name) == by_sdist.read(name), name
