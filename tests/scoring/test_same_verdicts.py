"""The comparison of two checkouts: what it finds, what it counts as a job, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scoring import same_verdicts, verdict_lines

ROOT = Path(__file__).resolve().parents[2]

PACKAGE = '''
"""Stands in for nccldoctor: as in {cause}, and killed by a job with a file of that name."""
import json
import os
from pathlib import Path

class Incident:
    def __init__(self, paths):
        files = sorted(path.name for given in paths for path in [Path(given), *Path(given).rglob("*")])
        assert not set(files) & {{"truth.json", "label.json", "expected.toml"}}
        print("a line that is no answer")
        if "kills.log" in files:
            os._exit(9)
        if "breaks.log" in files:
            raise ValueError("{cause}")
        self.cause = "{cause}" if "rank_3.log" in files else "none"

    def to_json(self):
        finding = {{"class": self.cause, "ranks": "3", "confidence": "high", "headline": "Rank 3"}}
        return json.dumps({{"verdict": finding, "findings": [finding], "remedies": []}})

analyze = Incident
'''


def checkout(folder: Path, cause: str) -> Path:
    """A small checkout whose every verdict on a job with a ``rank_3.log`` is this class."""
    (folder / "nccldoctor").mkdir(parents=True)
    (folder / "nccldoctor" / "__init__.py").write_text(PACKAGE.format(cause=cause))
    return folder


def job(folder: Path, name: str, *files: str) -> Path:
    """A folder with empty files."""
    for file in files:
        path = folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return folder / name


def row(**fields: Any) -> dict[str, Any]:
    return {
        "class": "died",
        "ranks": "3",
        "confidence": "high",
        "headline": "Rank 3 died.",
        "first remedy": "oom",
        **fields,
    }


def test_equal_verdicts_have_no_difference() -> None:
    assert not list(same_verdicts.differences({"a": row()}, {"a": row()}))


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("class", "frozen", "died -> frozen"),
        ("ranks", "", '3 -> ""'),
        ("confidence", "medium", "high -> medium"),
        ("headline", "Rank 3 is gone.", "Rank 3 died. -> Rank 3 is gone."),
        ("first remedy", None, "oom -> null"),
    ],
)
def test_each_field_that_differs_is_a_line(field: str, value: str | None, shown: str) -> None:
    before, after = {"a": row(), "b": row()}, {"a": row(), "b": row(**{field: value})}
    assert list(same_verdicts.differences(before, after)) == [f"b: {field}: {shown}"]


def test_a_field_that_an_old_checkout_lacks_is_not_compared() -> None:
    assert not list(same_verdicts.differences({"a": row()}, {"a": row(**{"exit code": 1})}))


def test_an_analysis_that_breaks_in_one_checkout_is_one_line() -> None:
    (line,) = same_verdicts.differences({"a": row()}, {"a": {"error": "ValueError: x"}})
    assert line == "a: error: null -> ValueError: x"


def test_a_label_marks_a_job_and_is_not_shown(tmp_path: Path) -> None:
    deep = job(tmp_path, "given/area/one", "truth.json", "logs/rank_0.log")
    other = job(tmp_path, "given/two", "log.txt")
    job(tmp_path, "given", "README.md", "pairs.txt")
    assert list(same_verdicts.jobs_in(tmp_path / "given")) == [deep, other]
    assert verdict_lines.shown(deep) == [str(deep / "logs")]


def test_without_labels_files_make_one_job_and_folders_many(tmp_path: Path) -> None:
    logs = job(tmp_path, "logs", "rank_0.log", "node1/rank_1.log")
    many = [job(tmp_path, "many/a", "rank_0.log"), job(tmp_path, "many/b", "node0/rank_0.log")]
    job(tmp_path, "many", "README.md")
    assert list(same_verdicts.jobs_in(logs)) == [logs]
    assert list(same_verdicts.jobs_in(tmp_path / "many")) == many


@pytest.fixture
def only_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """No samples and no generated jobs."""
    monkeypatch.setattr(same_verdicts, "write_jobs", lambda *_: {})


@pytest.mark.usefixtures("only_given")
def test_a_planted_difference_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = checkout(tmp_path / "a", "died"), checkout(tmp_path / "b", "frozen")
    named = job(tmp_path, "given/culprit", "truth.json", "rank_3.log")
    job(tmp_path, "given/well", "truth.json", "rank_0.log")
    given = str(tmp_path / "given")
    assert same_verdicts.main([str(a), str(b), "--jobs", "1", given]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{named}: class: died -> frozen",
        f'{named}: findings: ["died"] -> ["frozen"]',
        "0 + 2 jobs, 2 differences",
    ]
    assert same_verdicts.main([str(a), str(a), given]) == 0
    assert capsys.readouterr().out == "0 + 2 jobs, 0 differences\n"


def test_a_job_that_ends_the_process_does_not_hide_the_next(tmp_path: Path) -> None:
    a = checkout(tmp_path / "a", "died")
    jobs = {name: job(tmp_path, name, f"{name}.log") for name in ("kills", "breaks", "rank_3")}
    answers = same_verdicts.verdicts_of(a, jobs, tmp_path)
    assert answers["kills"] == {"error": "the process ended with 9"}
    assert answers["breaks"] == {"error": "ValueError: died"}
    assert answers["rank_3"]["class"] == "died"


@pytest.mark.usefixtures("only_given")
@pytest.mark.parametrize("what", ["no checkout", "no folder", "no job", "seeds"])
def test_what_cannot_be_compared_ends_with_2(tmp_path: Path, what: str) -> None:
    a = checkout(tmp_path / "a", "died")
    good = job(tmp_path, "good", "rank_3.log")
    (tmp_path / "empty").mkdir()
    arguments = {
        "no checkout": [a, tmp_path / "empty", good],
        "no folder": [a, a, tmp_path / "missing"],
        "no job": [a, a, tmp_path / "empty"],
        "seeds": [a, a, "--seeds", "many"],
    }[what]
    with pytest.raises(SystemExit) as end:
        same_verdicts.main([*map(str, arguments)])
    assert end.value.code == 2


def test_the_checkout_itself_answers_on_written_jobs(tmp_path: Path) -> None:
    jobs = same_verdicts.write_jobs(tmp_path, range(1), 1)
    assert set(jobs) > {"samples/died", "simulator/0", "staged/0"}
    few = {name: jobs[name] for name in ("samples/died", "staged/0")}
    assert same_verdicts.compare(ROOT, ROOT, few, tmp_path, 2) == []
    died = same_verdicts.verdicts_of(ROOT, {"samples/died": jobs["samples/died"]}, tmp_path)["samples/died"]
    assert (died["class"], died["ranks"], died["exit code"]) == ("died", "3", 1)
