"""Kinds of evidence, and what is promised with few judged jobs."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import gave_up, raised, read

from nccldoctor.diagnose import confidence
from nccldoctor.diagnose.confidence import ENOUGH, kind_of_evidence
from nccldoctor.model import Source, SourceKind

LOG, DUMP, STACKS, KERNEL = SourceKind.LOG, SourceKind.RECORDER, SourceKind.STACKS, SourceKind.KERNEL_LOG


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ((LOG, DUMP), "dumps and logs"),
        ((LOG, DUMP, STACKS), "dumps and logs"),
        ((LOG, STACKS, KERNEL), "logs"),
        ((DUMP,), "dumps"),
        ((STACKS,), "stacks"),
        ((KERNEL,), "other files"),
        ((), "other files"),
    ],
)
def test_stacks_count_as_a_kind_where_nothing_else_was_read(kinds: tuple[SourceKind, ...], said: str) -> None:
    assert kind_of_evidence(Source(id=i, path=str(i), kind=kind, size=1) for i, kind in enumerate(kinds)) == said


def test_with_few_judged_jobs_the_class_is_medium_and_the_ranks_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    logs: dict[str, str | bytes] = {f"rank_{r}.log": gave_up(r, 4) for r in range(3)}
    logs["rank_3.log"] = raised(3, "KeyError", "'labels'")
    assert read(dict(logs)).verdict["confidence_in"] == {"ranks": "high", "class": "high"}
    monkeypatch.setattr(confidence, "judged_jobs", lambda: {"logs": ENOUGH - 1})
    after = read(dict(logs)).verdict
    assert after["confidence_in"] == {"ranks": "high", "class": "medium"}
    assert after["doubts"] == ["We have tested this class on only 149 labelled jobs with logs alone."]
