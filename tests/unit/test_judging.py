"""What breaks one stage costs itself alone: a source, a rule, a remedy, a picture."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

import nccldoctor
from nccldoctor import judging, pipeline
from nccldoctor.align.facts import Facts
from nccldoctor.diagnose import propose
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import Rule
from nccldoctor.diagnose.rules import load
from nccldoctor.incident import Incident
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.prescribe import prescribe
from nccldoctor.reports.charts import stall

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"

pytestmark = pytest.mark.breaks


def broken_parts(incident: Incident) -> list[str]:
    return [p for row in incident.unquoted.coverage if row.input == "nccldoctor itself" for p in row.problems]


def breaks(*_: object, **__: object) -> None:
    raise KeyError("secret-of-a-file")


def rule_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(facts: Facts, stall: ObservedStall) -> None:
        breaks()

    first = Rule(CauseClass.HARDWARE, judge, "", CauseClass.HARDWARE)
    monkeypatch.setattr(propose, "load", lambda: (first, *load()))


def sources_that_break(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """The analysis breaks where a source of these names was read."""
    original = judging.newest_case

    def newest_case(read: Ingested) -> object:
        if any(parsed.source.path.endswith(names) for parsed in read.parsed):
            breaks()
        return original(read)

    monkeypatch.setattr(judging, "newest_case", newest_case)


def test_a_broken_rule_leaves_the_others_and_caps_the_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    before = nccldoctor.analyze(SAMPLES / "not-arrived").verdict
    rule_that_breaks(monkeypatch)
    incident = nccldoctor.analyze(SAMPLES / "not-arrived")
    assert before.confidence is Confidence.HIGH
    assert (incident.verdict.cause, incident.verdict.ranks) == (before.cause, before.ranks)
    assert incident.verdict.confidence is Confidence.MEDIUM
    assert "rule hardware failed" in " ".join(doubt.says for doubt in incident.verdict.doubts)
    (told,) = broken_parts(incident)
    assert told.startswith("the rule hardware failed: KeyError in ") and "secret" not in told


def test_health_is_not_proved_where_a_rule_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nccldoctor.analyze(SAMPLES / "healthy").verdict.cause is CauseClass.NONE
    rule_that_breaks(monkeypatch)
    assert nccldoctor.analyze(SAMPLES / "healthy").verdict.cause is CauseClass.UNDETERMINED


@pytest.mark.parametrize("names", [("a.txt",), ("a.txt", "zz.txt"), ("m.txt", "n.txt")])
def test_sources_that_break_the_analysis_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: tuple[str, ...]
) -> None:
    shutil.copytree(SAMPLES / "not-arrived", tmp_path, dirs_exist_ok=True)
    for name in names:
        (tmp_path / name).write_text("hello\n")
    sources_that_break(monkeypatch, *names)
    incident = nccldoctor.analyze(tmp_path)
    problems = [problem for row in incident.unquoted.coverage for problem in row.problems]
    for name in names:
        assert [p for p in problems if p.startswith(f"{name}: the analysis broke on it (KeyError in ")], problems
    assert incident.verdict.cause is not CauseClass.UNDETERMINED


def test_an_analysis_that_breaks_without_any_source_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "newest_case", breaks)
    with pytest.raises(KeyError):
        nccldoctor.analyze(SAMPLES / "not-arrived")


def test_a_broken_remedy_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = [remedy.id for remedy in nccldoctor.analyze(SAMPLES / "not-arrived").unquoted.remedies]
    original = prescribe.weigh
    monkeypatch.setattr(prescribe, "weigh", lambda e, c: breaks() if e.remedy.id == offered[0] else original(e, c))
    incident = nccldoctor.analyze(SAMPLES / "not-arrived")
    assert offered[0] not in [remedy.id for remedy in incident.unquoted.remedies]
    assert broken_parts(incident)[0].startswith(f"the remedy {offered[0]} failed")


@pytest.mark.parametrize(
    "part",
    [
        *("rank_table", "call_diff", "prove", "field_diff", "coverage", "ruled_out", "alarm", "lateness", "timeline"),
        *("stack_diff", "event_sequence", "standings", "broken_link", "snapshots", "silences"),
    ],
)
def test_a_broken_table_or_picture_is_left_out(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    before = nccldoctor.analyze(SAMPLES / "not-arrived").verdict
    monkeypatch.setattr(pipeline, part, breaks)
    incident = nccldoctor.analyze(SAMPLES / "not-arrived")
    assert incident.verdict == before
    assert len(broken_parts(incident)) == 1
    for report in (incident.to_html(), incident.to_text(), incident.to_json(), incident.to_markdown()):
        assert before.headline[:20] in report


def test_a_broken_drawing_is_named_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "stall_picture", breaks)
    page = nccldoctor.analyze(SAMPLES / "not-arrived").to_html()
    assert "Not available: the stall to scale (failed: KeyError in " in page


def test_a_list_of_calls_without_groups_costs_only_its_rank(tmp_path: Path) -> None:
    for rank in range(4):
        calls = [
            {
                "record_id": n,
                "seq_id": n,
                "profiling_name": "nccl:all_reduce",
                "frames": [],
                "input_sizes": [[4]],
                "output_sizes": [[4]],
                "time_created_ns": 10**18 + n,
                "state": "completed" if n < 9 else "scheduled",
                **({"pg_id": 0} if rank != 2 else {}),
            }
            for n in range(10 if rank else 9)
        ]
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(calls))
    incident = nccldoctor.analyze(tmp_path)
    assert list(incident.verdict.ranks) == [0]
    assert incident.verdict.confidence is not Confidence.HIGH
