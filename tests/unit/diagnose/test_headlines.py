"""Headlines of the answers that need one of their own, and the words beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import fixtures_diagnoses
from builders.cases import Log, RecordedRank, case, facts, said, world

from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.diagnose.headlines import LONGEST, describe_no_data, with_headline
from nccldoctor.events import Heartbeat
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Diagnosis, Finding, Gap, SourceKind
from nccldoctor.model.findings import stalls_of
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import html
from nccldoctor.reports.parts import wording


def verdict_of(*recorded_ranks: RecordedRank, logs: tuple[Log, ...] = ()) -> Finding:
    aligned = facts(*recorded_ranks, logs=logs)
    return with_headline(diagnose(aligned).findings, aligned.case)[0]


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ((), "No file was found"),
        ((SourceKind.EMPTY, SourceKind.EMPTY), "Empty: the 2 files read hold nothing"),
        ((SourceKind.EMPTY,), "Empty: the 1 file read holds nothing"),
        ((SourceKind.UNKNOWN,), "Unknown format: nothing in the 1 file read"),
        ((SourceKind.UNREADABLE, SourceKind.EMPTY), "Unknown format"),
        ((SourceKind.LOG, SourceKind.UNKNOWN), "Not enough data: no line"),
    ],
)
def test_why_files_tell_nothing(kinds: tuple[SourceKind, ...], words: str) -> None:
    assert describe_no_data(kinds).startswith(words)


def test_a_file_of_which_nothing_is_left_is_not_called_missing() -> None:
    damaged = Gap("a.log.bz2", "damaged (EOFError): what came before it was read", lost=True)
    assert describe_no_data((), (damaged,)).startswith("Nothing could be read: a.log.bz2 is damaged")
    assert describe_no_data((), (Gap(".git", "hidden, skipped"),)).startswith("No file was found")


def test_a_log_that_says_nothing_is_not_enough() -> None:
    assert verdict_of(logs=(Log("notes.txt"),)).headline.startswith("Not enough data")


def test_where_something_is_known_the_rule_words_it() -> None:
    aligned = facts(logs=(Log("0.log", (said(Heartbeat, 0, 1.0, step=3),), rank=0),))
    findings = diagnose(aligned).findings
    assert with_headline(findings, aligned.case) == findings


def test_several_stalls_are_counted_and_named() -> None:
    two = fixtures_diagnoses.two_stalls()
    changed = with_headline(two.findings, case())
    assert changed[0].headline.startswith("2 independent stalls: Rank 0 died")
    assert "Rank 4 died" in changed[0].headline
    assert changed[1:] == two.findings[1:]


def test_a_long_list_of_stalls_stays_a_headline() -> None:
    two = fixtures_diagnoses.two_stalls()
    parts = tuple(replace(f, headline="x" * 900 + f.headline) for f in two.findings[1:])
    assert len(with_headline((two.findings[0], *parts), case())[0].headline) == LONGEST


def test_of_long_headlines_only_what_matters_is_in_the_first_line() -> None:
    two = fixtures_diagnoses.two_stalls()
    parts = tuple(replace(f, headline=f"The GPU of {f.ranks} stopped: {'many words ' * 9}") for f in two.findings[1:])
    headline = with_headline((two.findings[0], *parts), case())[0].headline
    assert headline == "2 independent stalls: The GPU of 0 stopped; The GPU of 4 stopped"


def test_two_ranks_missing_in_one_call_are_one_stall() -> None:
    two = fixtures_diagnoses.two_stalls()
    same = tuple(replace(f, stalled=two.verdict.stalled) for f in two.findings[1:])
    assert with_headline((two.verdict, *same), case())[0].headline.startswith("Rank 0 died; its group waits")
    alike = tuple(replace(f, headline=f"The GPU of rank {f.ranks} stopped: {'many words ' * 9}") for f in same)
    assert with_headline((two.verdict, *alike), case())[0].headline == "The GPUs of ranks 0, 4 stopped"
    alike = tuple(replace(f, headline=f"Rank {f.ranks} never issued ALLREDUCE #7") for f in same)
    assert with_headline((two.verdict, *alike), case())[0].headline == "Ranks 0, 4 never issued ALLREDUCE #7"
    assert wording.situation(replace(two, findings=(two.verdict, *same))) != "2 independent hangs"


def test_one_stall_of_two_ranks_is_not_two() -> None:
    two = fixtures_diagnoses.two_stalls()
    overlapping = tuple(replace(f, ranks=Ranks([0])) for f in two.findings[1:])
    assert stalls_of((two.findings[0], *overlapping)) == ()
    assert stalls_of(fixtures_diagnoses.lagging().findings) == ()


def test_a_real_job_with_one_culprit_keeps_its_headline() -> None:
    team = world(3)
    found = verdict_of(
        *(RecordedRank(r, team).calls(3).call(done=False) for r in range(2)), RecordedRank(2, team).calls(3)
    )
    assert "independent" not in found.headline


def of(cause: CauseClass, **more: object) -> Diagnosis:
    base = fixtures_diagnoses.lagging()
    return replace(base, findings=(replace(base.findings[0], cause=cause, **more),))  # type: ignore[arg-type]


def test_a_headline_of_several_ranks_keeps_the_call_that_waits_for_them() -> None:
    two = fixtures_diagnoses.two_stalls()
    assert two.verdict.stalled is not None
    call = replace(two.verdict.stalled, entered=Ranks([1, 2]))
    parts = tuple(
        replace(f, stalled=call, headline=f"The GPU of rank {f.ranks} stopped: {'many words ' * 9}")
        for f in two.findings[1:]
    )
    said = with_headline((replace(two.verdict, stalled=call), *parts), case())[0].headline
    assert said == "The GPUs of ranks 0, 4 stopped; ALLGATHER #40 of dp_0 waits for them"


def test_the_situation_in_words() -> None:
    inside = fixtures_diagnoses.lagging().findings[0].stalled
    assert inside is not None
    whole = replace(inside, entered=Ranks([1, 3, 5, 7]), missing=Ranks())
    cases = (
        (fixtures_diagnoses.healthy(), "Clean run"),
        (replace(fixtures_diagnoses.undetermined(), ranks=()), "Not enough data"),
        (fixtures_diagnoses.undetermined(), "at least 3 suspects"),
        (fixtures_diagnoses.two_stalls(), "2 independent hangs"),
        (of(CauseClass.DIED), "A crash, not a hang"),
        (of(CauseClass.RAISED), "A crash, not a hang"),
        (of(CauseClass.SIZE_MISMATCH), ""),
        (of(CauseClass.UNFINISHED, stalled=whole), "Every rank is in the call"),
        (of(CauseClass.UNFINISHED), ""),
        (of(CauseClass.FROZEN), ""),
        (fixtures_diagnoses.lagging(), ""),
        (
            of(CauseClass.NONE, confidence_in=ConfidenceIn.same(Confidence.LOW)),
            "No problem found, but files are missing",
        ),
    )
    for found, words in cases:
        assert wording.situation(found) == words
        assert not words or words in html.page(found)
