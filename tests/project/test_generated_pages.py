"""Pages that a command makes say when, from which commit and by which command, and are made again before they are old."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from builders.documents.page_origin import fault, made_by, without_history
from scoring.calibrate import NUMBERS, conclusions, judge

from nccldoctor.cli import demo

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("calibration", "hangbench", "performance", "proof", "reliability")


def text_of(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_made_again_before_it_is_old(name: str) -> None:
    if why := without_history():
        pytest.skip(why)
    assert fault(text_of(name)) == ""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_the_command_that_makes_it(name: str) -> None:
    (command,) = re.findall(r"^Made on \S+ from commit \S+ by `([^`]+)`", text_of(name), re.MULTILINE)
    python, script, *_ = shlex.split(command)
    assert python == "python"
    assert "made_by" in (ROOT / script).read_text(encoding="utf-8")


def test_every_page_that_a_command_makes_is_known_here() -> None:
    made = {path.stem for path in (ROOT / "docs").glob("*.md") if re.search("^Made (on|by) ", path.read_text(), re.M)}
    assert made == {*PAGES}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_no_line_of_the_code(name: str) -> None:
    """Lines move with each change above them: a page names functions."""
    assert re.findall(r"[\w/]+\.py:\d+", text_of(name)) == []


def test_the_listed_conclusions_are_conclusions() -> None:
    section = text_of("calibration").partition("\n## Conclusions that no labelled job reaches\n")[2]
    of, number = map(int, re.findall(r"Of (\d+) places in .* (\d+) were not reached", section)[0])
    listed = re.findall(r"^- (`\S+\.py`: `.*)$", section, re.MULTILINE)
    assert len(listed) == number
    assert of == len(conclusions())
    assert {*listed} <= {*conclusions()}


def test_a_conclusion_is_named_by_its_function() -> None:
    for name, (path, lines) in conclusions().items():
        function = re.findall(r": `(?:\w+\.)?(\w+)`", name)[0]
        source = path.read_text(encoding="utf-8").splitlines()
        assert "Hypothesis(" in source[lines.start - 1]
        heads = [line for line in source[: lines.start] if re.match(r" *def ", line)]
        assert heads[-1].split("(")[0].split()[-1] == function


def test_a_judged_job_names_the_conclusions_that_it_reached(tmp_path: Path) -> None:
    demo.write("died", tmp_path / "job")
    job = judge("bundled samples", {}, [str(tmp_path / "job")])
    assert job.verdict["class"] == "died"
    assert job.reached < {*conclusions()}
    assert any(name.startswith("`rules/absent/died.py`") for name in job.reached)
    assert not any(name.startswith("`rules/disagree/mismatch.py`") for name in job.reached)


def test_the_page_of_confidence_counts_the_jobs_that_the_product_counts_on() -> None:
    section = text_of("calibration").partition("\n## By kind of evidence\n")[2].partition("\n## ")[0]
    counted = {kind: int(jobs) for kind, jobs in re.findall(r"^\| ([a-z ]+) \| (\d+) \|", section, re.MULTILINE)}
    assert counted == tomllib.loads(NUMBERS.read_text(encoding="utf-8"))["jobs"]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A checkout with one commit of the product."""
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "nccldoctor/a.py")
    return tmp_path


def git(root: Path, *words: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *own, *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{path.read_text() if path.exists() else ''}#\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", f"More in {name}")


def test_a_new_page_has_no_fault(history: Path) -> None:
    line = made_by("python make.py --all", history)
    assert re.fullmatch(r"Made on \d{4}-\d\d-\d\d from commit [0-9a-f]{8} by `python make.py --all`", line)
    assert fault(f"# A page\n\n{line}; don't edit it.\n", history) == ""


def test_a_page_gets_old_by_commits_of_the_product_alone(history: Path) -> None:
    page = made_by("python make.py", history)
    for name in ("docs/a.md", "tests/a.py", "nccldoctor/a.py", "docs/a.md", "parsers/a.py"):
        commit(history, name)
    assert fault(page, history, most=2) == ""
    commit(history, "reports/a.py")
    found = fault(page, history, most=2)
    assert found.startswith("3 commits have changed the product since ")
    assert found.endswith("then run: python make.py")


def test_a_page_names_the_commit_that_changed_the_product(history: Path) -> None:
    product = git(history, "rev-parse", "--short=8", "HEAD")
    commit(history, "docs/a.md")
    assert f"from commit {product} by" in made_by("python make.py", history)


def test_a_page_of_changes_without_a_commit_is_refused(history: Path) -> None:
    (history / "nccldoctor" / "a.py").write_text("changed")
    line = made_by("python make.py", history)
    assert "changes that no commit holds" in line
    assert fault(line, history).startswith("no line says")


def test_a_commit_that_the_history_does_not_hold_is_a_fault(history: Path) -> None:
    start = git(history, "rev-parse", "HEAD")
    commit(history, "nccldoctor/b.py")
    page = made_by("python make.py", history)
    git(history, "reset", "--quiet", "--hard", start)
    for text in (page, page.replace(page.split()[5], "0123456789ab")):
        assert re.match(r"the history has no commit [0-9a-f]+; .* run: python make.py$", fault(text, history))


def test_without_a_history_nothing_can_be_counted(history: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    commit(history, "docs/a.md")
    shallow, bare = tmp_path_factory.mktemp("shallow") / "clone", tmp_path_factory.mktemp("bare")
    git(history, "clone", "--quiet", "--depth", "1", history.as_uri(), str(shallow))
    assert without_history(history) == ""
    assert without_history(shallow) == "a shallow clone has no history"
    assert without_history(history / "docs") == "no git checkout"
    assert without_history(bare) == "no git checkout"
