"""Findings say why: weighted observations, doubts, and the best other explanation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders.jobs.cases import Log, RecordedRank, case, gave_up, said, world
from msgspec.structs import replace

from nccldoctor.align.facts import align
from nccldoctor.diagnose import why
from nccldoctor.diagnose.confidence import strongest_first, weighed
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.diagnose.hypothesis import Conclusion
from nccldoctor.diagnose.phrases.headline import whole
from nccldoctor.diagnose.why import CONTRADICTS, cause_table, runner_up
from nccldoctor.events import DumpSignal, Phase, ProcessExit, Progress, Stack
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Doubt, Evidence, Gap
from nccldoctor.model.ranks import Ranks

NOTHING = align(case())


def conclusion(
    cause: CauseClass, *doubts: Doubt, observers: tuple[str, ...] = ("dump:2", "log:0"), supports: bool = True
) -> Conclusion:
    """A conclusion about rank 2 with one piece of evidence for each observer; the last one may contradict."""
    evidence = tuple(Evidence(None, "", who, supports or who != observers[-1], who) for who in observers)
    return Conclusion(
        headline=whole("rank 2"), citations=(), doubts=doubts, ranks=Ranks([2]), cause=cause, evidence=evidence
    )


def absent(*more: Log) -> tuple[RecordedRank, ...]:
    return tuple(
        RecordedRank(r, world(4)).calls(8) if r == 2 else RecordedRank(r, world(4)).calls(8).call(done=False)
        for r in range(4)
    )


def test_every_class_has_a_row_and_every_row_weighs_real_observations() -> None:
    source = re.findall(r'"([\w-]+)"', Path(why.__file__).read_text(encoding="utf-8"))
    assert set(cause_table()) == set(CauseClass)
    for row in cause_table().values():
        for key in (*row.weights, *row.settled.values()):
            name, _, value = key.partition("=")
            assert {name, value} <= set(source), key
        assert not set(row.siblings) & {CauseClass.NONE}
        assert set(row.settled) | set(row.read) <= set(row.siblings)
        assert all("{ranks}" in sentence for sentence in row.read.values())


def test_a_rank_that_is_proven_absent_and_alive_says_so() -> None:
    logs = [
        Log(f"rank_{r}.log", [said(Progress, r, 10.0, step=8), *([] if r == 2 else [gave_up(r, 9, 600.0)])], rank=r)
        for r in range(4)
    ]
    logs[2].events.append(said(DumpSignal, 2, 601.0))
    verdict = diagnose(align(case(*absent(), logs=logs))).findings[0]
    weights = {f"{r.observation}={r.value}": r.weight for r in verdict.why}
    assert weights["position=before"] > weights["alive=yes"] > 0
    assert [abs(r.weight) for r in verdict.why] == sorted((abs(r.weight) for r in verdict.why), reverse=True)
    shown = next(r for r in verdict.why if r.observation == "position")
    assert shown.evidence is not None and verdict.evidence[shown.evidence - 1].observer == "dump:2"
    assert any(r.value == "unknown" and r.weight == 0 for r in verdict.why), "no stack was taken"


def test_doubts_leave_the_lower_of_two_confidences() -> None:
    found = conclusion(CauseClass.FROZEN, Doubt("a", cause=Confidence.MEDIUM), Doubt("b", ranks=Confidence.LOW))
    assert found.confidence_in == ConfidenceIn(Confidence.LOW, Confidence.MEDIUM)
    assert found.confidence is Confidence.LOW
    assert [doubt.says for doubt in strongest_first(found.doubts)] == ["b", "a"]


@pytest.mark.parametrize(
    ("observers", "supports", "level"),
    [
        (("dump:2", "log:0"), True, "high"),
        (("dump:2",), True, "medium"),
        (("dump:0", "dump:1"), True, "medium"),
        (("dump:2", "log:0", "ras"), False, "low"),
    ],
)
def test_high_needs_independent_observers_and_none_that_contradicts(
    observers: tuple[str, ...], supports: bool, level: str
) -> None:
    found = conclusion(CauseClass.NOT_ARRIVED, observers=observers, supports=supports)
    facts = align(case(*absent()))  # dumps: a kind of evidence with which enough jobs were judged
    left = Conclusion(
        headline=whole(""), citations=(), doubts=weighed(facts, found), cause=found.cause, evidence=found.evidence
    )
    assert left.confidence is Confidence(level)


def test_the_runner_up_is_what_no_observation_contradicts() -> None:
    """A rank that dumped is alive: it is not frozen, so the sibling after that is named."""
    facts = align(case(*absent()))
    doubted = conclusion(CauseClass.NOT_ARRIVED, Doubt("its stack is missing", cause=Confidence.MEDIUM))
    found = runner_up(facts, doubted, (conclusion(CauseClass.FROZEN),))
    assert cause_table()[CauseClass.FROZEN].weights["alive=yes"] <= CONTRADICTS
    assert found is not None and found.cause is CauseClass.STRAGGLER
    assert found.separated_by == cause_table()[CauseClass.NOT_ARRIVED].siblings[CauseClass.STRAGGLER].replace(
        "{ranks}", "rank 2"
    )
    other = runner_up(facts, doubted, (conclusion(CauseClass.MISSED_CALL),))
    assert other is not None and other.cause is CauseClass.MISSED_CALL


@pytest.mark.parametrize(
    ("frames", "other"),
    [
        (("read (/a/t.py:4)", "read (/a/t.py:4)"), CauseClass.MISSED_CALL),
        (("read (/a/t.py:4)", "cut (/a/t.py:9)"), CauseClass.STRAGGLER),
        (("read (/a/t.py:4)",), CauseClass.STRAGGLER),
    ],
)
def test_two_looks_that_were_taken_are_not_asked_for(frames: tuple[str, ...], other: CauseClass) -> None:
    looks = [
        Log(f"rank_2-{number}.txt", [said(Stack, 2, 10.0 * number, frames=(frame,), main=True)], rank=2)
        for number, frame in enumerate(frames, 1)
    ]
    doubted = conclusion(CauseClass.NOT_ARRIVED, Doubt("nobody else was seen", cause=Confidence.MEDIUM))
    found = runner_up(align(case(*absent(), logs=looks)), doubted, (conclusion(CauseClass.STRAGGLER),))
    assert found is not None and found.cause is other


@pytest.mark.parametrize("is_cut", [False, True])
def test_nobody_is_sent_to_search_a_log_that_was_read_to_its_end(is_cut: bool) -> None:
    made = case(*absent(), logs=[Log("rank_2.log", [said(Progress, 2, 10.0, step=8)], rank=2)])
    (log,) = (source for source in made.sources if source.path == "rank_2.log")
    cut = Gap(log.path, "cut off", Ranks([2]), log.id, lost=True)
    facts = align(replace(made, gaps=(cut,)) if is_cut else made)
    doubted = conclusion(CauseClass.NOT_ARRIVED, Doubt("its stack is missing", cause=Confidence.MEDIUM))
    found = runner_up(facts, doubted, (conclusion(CauseClass.STRAGGLER),))

    assert found is not None and found.cause is CauseClass.STRAGGLER
    assert found.separated_by.startswith("Check the logs of rank 2") is is_cut
    assert ("Take two stacks" in found.separated_by) is not is_cut


@pytest.mark.parametrize(
    ("code", "asked"), [(1, CauseClass.MISSED_CALL), (-9, CauseClass.DIED), (None, CauseClass.DIED)]
)
def test_nobody_is_sent_to_look_up_an_exit_code_that_was_read(code: int | None, asked: CauseClass) -> None:
    ended = [] if code is None else [said(ProcessExit, 2, 20.0, exitcode=code, reporter="torchrun")]
    facts = align(case(*absent(), logs=[Log("torchrun.log", ended)]))
    doubted = conclusion(CauseClass.RAISED, Doubt("its log is cut off", cause=Confidence.MEDIUM))
    found = runner_up(facts, doubted, ())
    assert found is not None and found.cause is asked


def test_a_class_that_is_certain_has_no_sibling_left() -> None:
    assert runner_up(NOTHING, conclusion(CauseClass.RAISED), ()) is None


def test_all_hypotheses_are_kept_with_their_fate() -> None:
    found = diagnose(
        align(
            case(
                *absent(),
                logs=[Log("a.log", [gave_up(0, 9, 600.0), said(Phase, 2, 500.0, what="checkpoint", detail="saving")])],
            )
        )
    )
    fates = {(p.cause, p.fate) for p in found.proposals}
    assert sum(fate == "verdict" for _, fate in fates) == 1
    assert (CauseClass.UNDETERMINED, f"{found.findings[0].cause} explains the same stall and comes first") in fates


def test_what_separates_two_classes_names_each_rank_where_all_ranks_are_suspects() -> None:
    """No other ranks are left to compare theirs with."""
    facts = align(case(*absent()))
    found, rival = conclusion(CauseClass.MISSED_CALL), conclusion(CauseClass.OP_MISMATCH)
    for ranks, named in ((facts.case.world, "each rank"), (Ranks([2]), "rank 2")):
        of_all = [replace(one, ranks=Ranks(), suspects=ranks) for one in (found, rival)]
        told = runner_up(facts, of_all[0], of_all[1:])
        assert told is not None and told.separated_by.startswith(
            f"Compare later calls of {named} with those of the other ranks"
        )
