"""Properties that need no label, on a few jobs; the longer run is ``python tests/properties/measure.py``."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random

import pytest
from damage.harness import Answer
from damage.labelled import Truth
from properties import clocks, consequence, healthy, names, stamps
from properties.every import PROPERTIES
from properties.jobs import Job
from properties.measure import HEAD, PAGE, Work, broken, section, section_of, table
from properties.verdicts import KINDS, MUST, Pair, Tried, changes

SLICE: tuple[Work, ...] = (("made", 2), ("made", 31), ("well", 4), ("well", 9))

MOST: dict[str, int] = {"consequence": 1, "a stranger's file": 4, "healthy": 1}
"""Pairs of the slice that break a property today; the properties that are not here hold. Lower it with each one that is mended."""


@pytest.mark.costly
def test_no_more_pairs_break_a_property_than_before() -> None:
    found = [one for work in SLICE for one in broken(work)]
    count = Counter(one.property for one in found if one.broken)
    told = "\n".join(str(one) for one in found if one.broken)
    assert {one.property for one in found} == {*PROPERTIES}
    assert {name: count[name] for name in PROPERTIES if count[name] > MOST.get(name, 0)} == {}, told


HIGH = Answer(cause="died", ranks="1", in_ranks="high", in_class="high", blamed="1")
TRUTH = Truth((frozenset({1}),), frozenset({"died"}), True)


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        (Answer(cause="died", ranks="2", in_ranks="high", in_class="high"), "innocent at high"),
        (Answer(cause="died", ranks="1-2", in_ranks="medium", in_class="high"), "innocent at medium"),
        (Answer(cause="none", in_ranks="medium", in_class="medium"), "all-clear"),
        (Answer(cause="frozen", ranks="1", in_ranks="low", in_class="low"), "wrong"),
        (Answer(cause="died", in_ranks="low", in_class="low"), "nobody"),
        (Answer(cause="died", ranks="1", in_ranks="medium", in_class="high"), "less sure"),
        (Answer(crash="Traceback"), "crash"),
    ],
)
def test_a_change_to_the_worse_is_seen(after: Answer, kind: str) -> None:
    assert kind in changes(HIGH, after, Pair("made up", {}, TRUTH), TRUTH)
    assert kind not in changes(HIGH, HIGH, Pair("made up", {}, TRUTH), TRUTH)


def test_a_verdict_moves_with_the_ranks() -> None:
    moved = Answer(cause="died", ranks="3", in_ranks="high", in_class="high")
    pair = Pair("ranks exchanged", {}, Truth((frozenset({3}),), TRUTH.classes, True), moved={1: 3, 3: 1})
    assert not [*changes(HIGH, moved, pair, TRUTH)]
    assert "innocent at high" in changes(HIGH, HIGH, pair, TRUTH)


def test_a_file_that_makes_a_right_answer_wrong_is_seen() -> None:
    with_it = Answer(cause="died", ranks="0-1", in_ranks="low", in_class="low")
    assert "worse with it" in changes(with_it, HIGH, Pair("without a.log", {}, TRUTH), TRUTH)


def test_a_healthy_job_is_accused_by_any_class_and_by_any_finding() -> None:
    well = Truth((frozenset(),), frozenset({"none"}), False)
    clear = Answer(cause="none", in_ranks="medium", in_class="medium")
    for after in (Answer(cause="init"), Answer(cause="undetermined", blamed="2")):
        assert "accused" in changes(clear, after, Pair("made up", {}, well), well)
    assert not set(changes(clear, Answer(), Pair("made up", {}, well), well)) & set(MUST["nothing wrong"])


def test_each_kind_of_change_is_asked_for_by_a_property() -> None:
    assert {kind for prop in PROPERTIES.values() for kind in MUST[prop.must]} == {*KINDS}


@pytest.mark.parametrize(
    ("text", "later"),
    [
        (b"2026-02-02 23:59:30,600 | step 4", b"2026-02-03 00:00:10,600 | step 4"),
        (b"2026-02-02T23:59:30Z x", b"2026-02-03T00:00:10Z x"),
        (b"[rank3]:[E202 23:59:30.050510987 P", b"[rank3]:[E203 00:00:10.050510987 P"),
        (b"[rank3]:[E1231 23:59:30.050510987 P", b"[rank3]:[E0101 00:00:10.050510987 P"),
        (b"[Mon Feb  2 23:59:30 2026] NVRM", b"[Tue Feb 03 00:00:10 2026] NVRM"),
        (b"[23:59:30] batch 4", b"[00:00:10] batch 4"),
        (b'{"step": 4, "ts": 1770076770.5}', b'{"step": 4, "ts": 1770076810.5}'),
    ],
)
def test_every_form_of_a_time_is_moved(text: bytes, later: bytes) -> None:
    assert stamps.moved(text, 40) == later


def test_a_text_ends_where_it_is_looked_at() -> None:
    text = b"2026-02-02 10:00:00 a\nb\n2026-02-02 10:00:09 c\nd\n"
    begin, _ = stamps.span({"a.log": text})
    assert stamps.until(text, begin + timedelta(seconds=5)) == b"2026-02-02 10:00:00 a\nb\n"
    assert stamps.without_dates(text).startswith(b"10:00:00 a\n")


CAUGHT = b"[rank%d]:[E202 10:00:00.1 P] [Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=40, OpType=ALLREDUCE)\n"
HANG = Job(
    "made up",
    {f"rank_{r}.log": CAUGHT % (r, r) for r in (0, 1, 2)} | {"job.log": b"rank      : 1 (local_rank: 1)\n"},
    Truth((frozenset({3}),), frozenset({"frozen"}), True),
    {"node1": [0, 1, 2, 3]},
)


def test_consequences_follow_the_alarms_of_innocent_ranks() -> None:
    for pair in consequence.pairs(Random(1), HANG):
        for path, content in pair.after.items():
            assert content.startswith(HANG.files[path])
        assert pair.after["job.log"] == HANG.files["job.log"]
    assert len([*consequence.pairs(Random(1), HANG)]) == 2


def test_names_move_in_files_and_in_texts() -> None:
    changed = {pair.how: pair for pair in names.pairs(Random(1), HANG)}
    pair = changed["ranks exchanged"]
    assert pair.moved is not None
    one = pair.moved[1]
    assert pair.after[f"rank_{one}.log"] == CAUGHT % (one, one)
    assert pair.after["job.log"] == b"rank      : %d (local_rank: %d)\n" % (one, one)
    assert pair.truth.rank_sets == (frozenset({pair.moved[3]}),)
    assert b"SeqNum=4136" in changed["numbers of calls shifted"].after["rank_0.log"]


def test_the_clock_of_one_host_alone_is_moved() -> None:
    job = Job("made up", {"a/r.log": CAUGHT % (0, 0), "b/r.log": CAUGHT % (1, 1)}, TRUTH, {"a": [0], "b": [1]})
    (pair,) = clocks.pairs(Random(3), job)
    assert [pair.after[path] == job.files[path] for path in job.files].count(True) == 1


def test_a_warning_begins_as_its_neighbours_do() -> None:
    text = b"".join(b"3: step %d\n" % n for n in range(40))
    job = Job("made up", {"slurm-1.out": text}, Truth((frozenset(),), frozenset({"none"}), False), {"a": [3]})
    (pair, *_) = healthy.pairs(Random(1), job)
    lines = pair.after["slurm-1.out"].splitlines()
    assert len(lines) == 44
    assert all(line.startswith(b"3: ") for line in lines)


def test_the_table_has_a_row_for_each_property() -> None:
    text = table([Tried("names", "a job", "hosts renamed", HIGH, HIGH, "nobody")])
    assert [row.split(" | ")[3:5] for row in text.splitlines() if row.startswith("| names")] == [["1", "1"]]
    assert all(f"| {name} |" in text for name in PROPERTIES)


def test_the_page_of_confidence_has_one_section_of_counts_that_is_written_anew() -> None:
    page = PAGE.read_text(encoding="utf-8")
    old = section(page)
    new = section_of([Tried("names", "a job", "hosts renamed", HIGH, HIGH, "nobody")], "Made today")
    renewed = page.replace(old, new)
    assert section(renewed) == new
    assert renewed.replace(new, old) == page
    assert page.count(HEAD) == 1
    assert all(f"\n| {name} |" in old for name in PROPERTIES), "run tests/properties/measure.py --write"
