"""Parts that are put together say what one run over all files says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from builders.diagnoses.bundled import FOLDER, SAMPLES, incident
from builders.files.parts import joined, reduced, split
from simulator import files, jobs

from nccldoctor import pipeline
from nccldoctor.cli import demo
from nccldoctor.discover.discover import discover
from nccldoctor.discover.file_types import kind_of
from nccldoctor.incident import Incident
from nccldoctor.model import Confidence, SourceKind
from nccldoctor.parts import thinning


def _spread(parts: int) -> str:
    return f"q{'abcdef'[parts]}"


@pytest.mark.costly
@pytest.mark.parametrize("name", SAMPLES)
def test_a_part_says_what_its_files_say(name: str, tmp_path: Path) -> None:
    whole = incident(name)
    part = pipeline.analyze(reduced(FOLDER / name, tmp_path / "all.nd"))

    assert part.to_json() == whole.to_json()
    assert part.to_full_markdown() == whole.to_full_markdown()


@pytest.mark.costly
@pytest.mark.parametrize("name", SAMPLES)
def test_three_parts_in_any_order_say_what_all_files_say(name: str, tmp_path: Path) -> None:
    whole = incident(name)
    rng = random.Random(name)
    _, parts = split(FOLDER / name, tmp_path, lambda number, path: _spread(rng.randrange(3)))

    assert pipeline.analyze(parts).to_json() == whole.to_json()
    assert pipeline.analyze(parts[::-1]).to_json() == whole.to_json()


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(8))
def test_parts_of_a_simulated_job_are_read_like_folders_of_hosts(seed: int, tmp_path: Path) -> None:
    job = jobs.make(seed)
    files.write(tmp_path / "job", job.files)
    tree, parts = split(tmp_path / "job", tmp_path / "split", lambda number, path: f"node{number % 4}")
    whole = pipeline.analyze(tree if len(parts) > 1 else tree / "node0")

    assert pipeline.analyze(parts).to_json() == whole.to_json()


@pytest.mark.parametrize("name", ["died", "missed-call", "frozen"])
def test_parts_join_in_any_grouping(name: str, tmp_path: Path) -> None:
    incident(name)
    _, (*rest, last) = split(FOLDER / name, tmp_path, lambda number, path: f"p{number:03}")
    left = joined(tmp_path / "left.nd", [joined(tmp_path / "most.nd", rest), last])
    right = joined(tmp_path / "right.nd", [last, joined(tmp_path / "half.nd", rest[1::2]), *rest[::2], rest[0]])

    assert left.read_bytes() == right.read_bytes()
    assert pipeline.analyze(left).to_json() == pipeline.analyze([*rest, last]).to_json() == incident(name).to_json()


def test_parts_with_the_same_paths_stand_in_folders_of_their_names(tmp_path: Path) -> None:
    for name, text in {"a": "rank 0 is here\n", "b": "rank 1 is here\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "out.log").write_text(text)
    (tmp_path / "more" / "a").mkdir(parents=True)
    (tmp_path / "more" / "a" / "out.log").write_text("another\n")
    parts = [
        reduced(tmp_path / "b", tmp_path / "b.nd"),
        reduced(tmp_path / "a", tmp_path / "a.nd"),
        reduced(tmp_path / "more" / "a", tmp_path / "more" / "a.nd"),
    ]
    case = pipeline.read(parts)

    assert [source.path for source in case.sources] == ["a/out.log", "a~2/out.log", "b/out.log"]
    assert [gap.what for gap in case.gaps if gap.source is not None] == ["a/out.log", "a~2/out.log", "b/out.log"]


def test_a_part_beside_its_own_files_is_not_read_twice(tmp_path: Path) -> None:
    incident("died")
    tree, _ = split(FOLDER / "died", tmp_path, lambda number, path: "all")
    reduced(tree, tree / "all.nd")
    found = discover([tree])

    assert not found.parts
    assert [gap.what for gap in found.gaps] == ["all.nd"]
    assert discover([tree / "all.nd"]).parts


def test_a_part_and_files_are_read_together(tmp_path: Path) -> None:
    whole = incident("died")
    tree, (_, part) = split(FOLDER / "died", tmp_path, lambda number, path: "dumps" if "dumps" in path.parts else "a")
    both = pipeline.analyze([part, *sorted((tree / "a").rglob("*.log"))])

    assert both.verdict.cause == whole.verdict.cause
    assert both.verdict.ranks == whole.verdict.ranks
    assert len(both.case.calls) == len(whole.case.calls)


def test_a_report_quotes_lines_without_the_files(tmp_path: Path) -> None:
    whole = incident("died")
    tree, parts = split(FOLDER / "died", tmp_path, lambda number, path: _spread(number % 2))
    for path in sorted(tree.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()

    assert pipeline.analyze(parts).to_full_markdown() == whole.to_full_markdown()
    assert whole.source("E1").lines == pipeline.analyze(parts).source("E1").lines


RECORDED = [
    name for name in SAMPLES if any(kind_of(head) is SourceKind.RECORDER for head in demo.contents(name).values())
]


def _thinned(name: str, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Incident:
    """What parts of a bundled incident say where there is memory for a share of its calls."""
    monkeypatch.setattr(thinning, "MOST_CALLS", int(share * len(incident(name).case.calls)))
    monkeypatch.setattr(thinning, "LEAST", 2)
    _, parts = split(FOLDER / name, tmp_path, lambda number, path: _spread(number % 3))
    return pipeline.analyze(parts)


@pytest.mark.costly
@pytest.mark.parametrize("name", RECORDED)
def test_most_of_the_calls_say_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, total = _thinned(name, 0.85, tmp_path, monkeypatch), len(incident(name).case.calls)

    assert 0 < len(found.case.calls) < total or not total
    assert _verdict(found) == _verdict(incident(name))


@pytest.mark.costly
@pytest.mark.parametrize("name", RECORDED)
def test_a_few_calls_are_never_sure_of_anything_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, whole = _thinned(name, 0.3, tmp_path, monkeypatch).verdict, incident(name).verdict

    assert found.confidence_in.cause is not Confidence.HIGH or found.cause == whole.cause
    assert found.confidence_in.ranks is not Confidence.HIGH or found.ranks == whole.ranks


def test_what_is_not_loaded_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "MOST_CALLS", 60)
    monkeypatch.setattr(thinning, "LEAST", 2)
    every, few = incident("died").case, pipeline.read([reduced(FOLDER / "died", tmp_path / "all.nd")])
    gap = next(gap for gap in few.gaps if gap.what == "older calls")

    assert f"{len(every.calls) - len(few.calls):,} of {len(every.calls):,}" in gap.why
    assert [head.entries + head.unread for head in few.dumps] == [head.entries for head in every.dumps]
    kept = few.calls.entry[few.calls.dump == 0].tolist()
    assert kept == every.calls.entry[every.calls.dump == 0].tolist()[-len(kept) :]


def _verdict(found: Incident) -> tuple[object, ...]:
    one = found.verdict
    return one.cause, one.ranks, one.suspects, one.confidence
