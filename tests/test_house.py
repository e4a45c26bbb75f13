"""The house itself: where imports may point, what is installed, that every command explains itself."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import click
import pytest

from nccldoctor import demo
from nccldoctor.cli import cli

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"nccldoctor": ROOT / "nccldoctor", "parsers": ROOT / "parsers", "reports": ROOT / "reports"}

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "ranks"),
    ("pictures",),
    ("model", "operations"),
    ("observers",),
    ("events",),
    ("columns", "grid"),
    ("parsers",),
    ("streams", "unpacking", "archives", "tar", "remote", "files", "hints", "kinds", "discover"),
    ("ingest",),
    ("world_size", "families", "launches", "launch_lines", "launch_reports", "groups", "case"),
    ("clocks", "clock_skew", "dump_runs", "runs", "census", "file_ranks", "attribution", "identify", "attempts", "foreign"),
    ("gloo",),
    (
        "transfers", "front", "recorded_fronts", "printed_fronts", "fronts", "first_waits", "circles", "excuse",
        "presence", "call_streams", "waits", "own_order", "stalls", "disagree", "departures", "failures", "align",
    ),
    ("counted", "draft", "coverage", "sightings"),
    ("roster", "run_up", "timeline", "two_stacks", "call_excerpt", "headlines", "story"),
    ("rules", "predicates"),
    ("setting_table", "setting_checks", "setting_pairs"),
    ("losses", "second_opinion", "diagnose", "settings", "folklore", "catalogue", "restart", "exports", "capture"),
    ("prescribe",),
    ("reports", "frame_columns", "frames"),
    ("incident",),
    ("doctor",),
    ("outcome", "explain", "demo", "deliver", "console", "env_check"),
    ("env_commands", "catalogue_commands"),
    ("cli",),
    ("__main__",),
)
"""A module may import its own layer and those before it, never in a circle. A new module needs a place here."""

FORBIDDEN = {
    "parsers": {"case", "rules", "reports", "catalogue", "predicates"},
    "rules": {"reports", "catalogue", "predicates", "prescribe", "settings"},
    "predicates": {"rules", "reports", "catalogue"},
    "catalogue": {"rules", "reports", "prescribe"},
    "prescribe": {"rules", "reports"},
    "reports": {"case", "columns", "align", "waits", "rules", "catalogue", "predicates", "prescribe", "parsers"},
}
"""What a room must not know although it lies below: no parser knows a rule, no rule a report, no report a table."""


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
    """What a file imports of ours, also inside functions and under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _arrows() -> dict[str, set[str]]:
    known = _files()
    out = {}
    for module, path in known.items():
        inside = {name for name in _imports(path, known) if name.split(".")[0] == "nccldoctor"}
        out[module] = inside - {module, "nccldoctor"}
    return out


def test_every_module_has_a_place() -> None:
    placed = {name for layer in LAYERS for name in layer}
    found = {_room(module) for module in _files()} - {""}
    assert found <= placed, f"give {sorted(found - placed)} a layer"


def test_imports_point_one_way() -> None:
    height = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    wrong = []
    for module, targets in _arrows().items():
        if module == "nccldoctor":
            continue  # the public names: it stands outside and loads them late
        for target in targets:
            here, there = _room(module), _room(target)
            if height[there] > height[here] or there in FORBIDDEN.get(here, ()):
                wrong.append(f"{module} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_no_circle_among_rooms() -> None:
    graph: dict[str, set[str]] = {}
    for module, targets in _arrows().items():
        if module != "nccldoctor":
            room = _room(module)
            graph.setdefault(room, set()).update(_room(t) for t in targets if _room(t) != room)
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_the_version_is_all_that_is_taken_from_the_top() -> None:
    for module, path in _files().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "nccldoctor" and module != "nccldoctor":
                modules = {name.removeprefix("nccldoctor.") for name in _files()}
                assert {alias.name for alias in node.names} <= modules | {"__version__"}, path


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
    shown = command.get_help(click.Context(command, info_name=name, max_content_width=79))
    assert max(map(len, shown.splitlines())) < 80


def _python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=120, env=env)


HEAVY = "numpy pandas plotly pydantic jinja2 rich torch ahocorasick_rs isal zstandard markdown_it nccldoctor.doctor"


@pytest.mark.parametrize("words", ["--help", "analyze --help", "--version"])
def test_help_imports_nothing_heavy(words: str) -> None:
    code = (
        "import sys\nfrom nccldoctor.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('LOADED', sorted(set({HEAVY.split()!r}) & set(sys.modules)))"
    )
    done = _python(code, *words.split())
    assert done.stdout.splitlines()[-1] == "LOADED []", done.stdout + done.stderr


def test_analyze_needs_no_torch(tmp_path: Path) -> None:
    demo.write("late-rank-three-groups", tmp_path / "logs")
    code = "import sys\nsys.modules['torch'] = None\nfrom nccldoctor.cli import main\nmain()"
    done = _python(code, "analyze", str(tmp_path / "logs"), "-q")
    assert done.returncode == 1, done.stderr
    assert "rank 1" in done.stdout.lower()


def test_public_names_load_when_used() -> None:
    import nccldoctor

    assert set(nccldoctor.__all__) <= set(dir(nccldoctor))
    for name in nccldoctor.__all__:
        assert getattr(nccldoctor, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = nccldoctor.nothing


def test_samples_name_no_machine() -> None:
    foreign = ("/home/", "/root/", "/work/", "/tmp/", "/Users/")
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
    _build("build_sdist", work / "checkout", work / "sdist")
    with tarfile.open(next((work / "sdist").glob("*.tar.gz"))) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # 3.11.2 has no filters
        archive.extractall(work / "unpacked")
    _build("build_wheel", work / "checkout", work / "direct")
    _build("build_wheel", next((work / "unpacked").iterdir()), work / "by_sdist")
    return next((work / "direct").glob("*.whl")), next((work / "by_sdist").glob("*.whl"))


def _build(hook: str, source: Path, target: Path) -> None:
    target.mkdir()
    code = f"import sys, setuptools.build_meta as b; b.{hook}(sys.argv[1])"
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
    for path in sorted((ROOT / "nccldoctor").glob("catalogue/*/*.toml")):
        assert f"nccldoctor/{path.relative_to(ROOT / 'nccldoctor').as_posix()}" in held
    for module, path in _files().items():
        name = module.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py")
        assert name in held, name
    assert "nccldoctor/py.typed" in held
    assert not any(name.startswith(("parsers/", "reports/", "sample_logs/", "tests/")) for name in held)


def test_wheel_by_sdist_is_the_same(built: tuple[Path, Path]) -> None:
    direct, by_sdist = (zipfile.ZipFile(path) for path in built)
    with direct, by_sdist:
        assert set(direct.namelist()) == set(by_sdist.namelist())
        for name in direct.namelist():
            if not name.endswith("RECORD"):
                assert direct.read(name) == by_sdist.read(name), name
