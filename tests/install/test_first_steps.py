"""What a newcomer does first works: an editable installation of a clone without symbolic links, and what ``./try`` prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLONED = (
    "nccldoctor",
    "parsers",
    "reports",
    "sample_logs",
    "packaging",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "try",
)
LINKS = ("parsers", "reports", "samples")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone as git makes it with ``core.symlinks=false``: a link is a text file. It is installed, editable, into its ``.venv``."""
    folder = tmp_path_factory.mktemp("first") / "clone"
    for name in CLONED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        extra = {"symlinks": True, "ignore": shutil.ignore_patterns("__pycache__")} if (ROOT / name).is_dir() else {}
        folder.mkdir(exist_ok=True)
        copy(ROOT / name, folder / name, **extra)
    for link in (folder / "nccldoctor" / name for name in LINKS):
        target = link.readlink().as_posix()
        link.unlink()
        link.write_text(target, encoding="utf-8")
    _install(folder)
    return folder


def _install(folder: Path) -> None:
    """What ``pip install --no-deps --editable`` does, with the packages of this environment beside it."""
    code = "import sys, setuptools.build_meta as backend; print(backend.build_editable(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, folder.parent], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    venv.create(folder / ".venv", symlinks=True)
    (packages,) = (folder / ".venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(next(folder.parent.glob("*.whl"))) as wheel:
        wheel.extractall(packages)
    others = [path for path in sys.path if path.rstrip("/").endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(others), encoding="utf-8")
    command = folder / ".venv" / "bin" / "nccldoctor"
    command.write_text(
        f"#!{folder}/.venv/bin/python\nfrom nccldoctor.cli.app import main\n\nmain()\n", encoding="utf-8"
    )
    command.chmod(0o755)


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(words, cwd=folder, env=kept, capture_output=True, text=True, timeout=120, check=False)


def test_a_clone_without_links_reads_logs_and_dumps_and_writes_a_report(clone: Path, tmp_path: Path) -> None:
    where = _run(tmp_path, f"{clone}/.venv/bin/python", "-c", "import nccldoctor.parsers as p; print(p.__file__)")
    assert where.stdout == f"{clone}/parsers/__init__.py\n"

    done = _run(tmp_path, f"{clone}/.venv/bin/nccldoctor", "demo", "died")

    assert (done.returncode, done.stdout.partition(":")[0]) == (1, "error[died]"), done.stderr
    assert "before ALLREDUCE #9" in done.stdout
    page = (tmp_path / "incident" / "died.html").read_text(encoding="utf-8")
    assert len(page) > 30_000
    assert "flight recorder" in page


def test_a_clone_without_links_runs_as_a_module_from_its_own_folder(clone: Path) -> None:
    done = _run(clone, ".venv/bin/python", "-m", "nccldoctor", "analyze", "sample_logs/frozen", "-q")

    assert done.returncode == 1
    assert "[frozen, confidence high]" in done.stdout


def test_the_commands_that_try_prints_work_as_printed(clone: Path) -> None:
    tried = _run(clone, "./try")
    printed = re.findall(r"^    (\S.*?)  +# ", tried.stderr.partition("Go on from this folder:")[2], re.MULTILINE)

    assert tried.stdout.startswith("error[not-arrived]")
    assert {line.split()[0] for line in printed} == {"./try", ".venv/bin/nccldoctor", "."}
    (again,) = re.findall(r"the same as: (nccldoctor .*)", tried.stderr)
    for line in (*printed, f". .venv/bin/activate && {again}"):
        done = _run(clone, "sh", "-c", line)
        assert done.returncode in (0, 1), f"{line}: {done.stderr}"
        assert done.stdout or line.startswith(". "), line


def test_try_says_what_it_does_where_nothing_is_set_up(clone: Path, tmp_path: Path) -> None:
    """Python and pip are stand-ins: pip prints what the real one prints, and fails where it is told to."""
    shutil.copytree(clone / "packaging", tmp_path / "packaging")
    shutil.copy2(clone / "try", tmp_path / "try")
    (tmp_path / "pyproject.toml").touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python3").write_text(f"#!/bin/sh\n{_PYTHON}", encoding="utf-8")
    (tools / "python3").chmod(0o755)

    done = _run(tmp_path, "env", f"PATH={tools}:{os.environ['PATH']}", "./try", "died")

    assert re.sub(r"took \d+ s", "took N s", done.stderr).splitlines()[1:9] == [
        "1/3 making the environment .venv",
        "    .venv gets Python 3.99",
        "    took N s",
        "2/3 installing nccldoctor and what it needs",
        "    downloading numpy 2.4.1 (16.6 MB)",
        "    unpacking",
        "    took N s",
        "3/3 analysing a bundled incident",
    ]
    assert done.stdout == "demo --force died\n"
    assert done.returncode == 0

    shutil.rmtree(tmp_path / ".venv")
    done = _run(tmp_path, "env", f"PATH={tools}:{os.environ['PATH']}", "BROKEN=1", "./try")
    assert done.stderr.splitlines()[-1] == "error: the installation failed; pip says why above"
    assert done.returncode == 1


_PYTHON = r"""
case "$*" in
--version) echo Python 3.99 ;;
'-m venv'*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
*install*)
    echo 'Collecting numpy>=1.26'
    echo '  Downloading numpy-2.4.1-cp311-cp311-manylinux_2_27_x86_64.whl.metadata (6.6 kB)'
    echo '  Downloading numpy-2.4.1-cp311-cp311-manylinux_2_27_x86_64.whl (16.6 MB)'
    echo 'Installing collected packages: numpy, nccldoctor'
    [ "${BROKEN-}" ] && exit 1
    printf '#!/bin/sh\necho "$*"\n' > .venv/bin/nccldoctor && chmod +x .venv/bin/nccldoctor
    ;;
esac
"""
