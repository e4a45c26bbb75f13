"""RAS reports and the analyser's output."""

from __future__ import annotations

import json

import pytest
from builders.logs.cpu_limit import bounded_cpu_time
from builders.logs.log_reading import events_of, parser_named
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.model import Source, SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import LineParser
from nccldoctor.parsers.ras.report_json import RasJsonParser

RAS, FR = parser_named("ras-report"), parser_named("fr-analysis")
PARSERS: tuple[LineParser, ...] = (RAS, FR)


REPORT = """\
Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         1         2         1   RUNNING  INCOMPLETE
    1         4         0         0         0         0    NOCOMM  INCOMPLETE,MISMATCH
    2         4       2-4         8        32       128      INIT  OK

Errors
======

INCOMPLETE
  Missing communicator data from 2 job processes
  Process 71004 on node 10.0.0.13 managing GPU 0
  Process 71005 on node 10.0.0.13 managing GPU 1

#2-0 (61b3000200000001) INCOMPLETE
  Missing communicator data from 255 ranks
  Rank 1039204416 -- GPU 3
  Rank 7 -- GPU 3 managed by process 4 on node n3

#0-0 (61b3) MISMATCH
  Communicator ranks have different status
  6 ranks have status RUNNING
  Rank 3 has status INIT
"""


def test_a_whole_report():
    events = events_of(RAS, REPORT)
    assert [e.what for e in events] == [
        "INCOMPLETE", "INCOMPLETE,MISMATCH", "OK", "INCOMPLETE", "INCOMPLETE", "INCOMPLETE", "MISMATCH",
    ]  # fmt: skip
    assert [(e.host, e.pid) for e in events[3:5]] == [("10.0.0.13", 71004), ("10.0.0.13", 71005)]
    assert events[5].missing == Ranks([7])
    assert "impossible" in events[5].detail


def test_ordinary_lines_are_no_reports():
    text = (
        "2026-01-01 ERROR: thing\nTIMEOUT\nstatus RUNNING  ok\nDEAD\n\n(x) ERROR\nMissing communicator data from mars"
    )
    assert not events_of(RAS, text)


def test_old_list_of_missing_ranks():
    (event,) = events_of(
        RAS, "#0-0 (61b3) INCOMPLETE\n  Missing communicator data from 3 ranks\n  The missing ranks: 1-2, 7\n"
    )
    assert event.missing == Ranks([1, 2, 7])


def test_other_json_is_left_alone():
    parser = RasJsonParser()
    assert not parser.claims(b'{"pid": 3}', "ras.json")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.booleans(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "communicators",
                        "ranks",
                        "missing_ranks",
                        "rank",
                        "status",
                        "collective_counts",
                        "async_error",
                        "timestamp",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=15,
    )
)
@settings(max_examples=150, deadline=None)
def test_json_never_raises(value):
    parsed = RasJsonParser().parse(
        Source(0, "ras.json", SourceKind.JSON, 1), json.dumps({"communicators": [value], "x": value}).encode()
    )
    assert not parsed.gaps


def test_broken_json_is_a_gap():
    parsed = RasJsonParser().parse(Source(0, "ras.json", SourceKind.JSON, 1), b'{"nccl_version": ')
    assert len(parsed.gaps) == 1


def test_tables_of_the_debug_server():
    text = "=== FR Trace ===\n--- Groups ---\n  id  desc\n   0  default_pg\n=== FR Trace NCCL ===\n"
    assert [e.what for e in events_of(FR, text)] == ["tables", "tables"]


def test_an_analysis_does_not_take_from_the_next():
    text = (
        "Not all ranks joining collective, sequence number: 6\ncollective: nccl:all_reduce\n"
        "Not all ranks joining collective, sequence number: 7\ncollective: nccl:broadcast\nmissing ranks: {1}\n"
        "No errors found for this collective entry, There could be some other reasons why we see collective timeout."
    )
    events = events_of(FR, text)
    assert [(e.what, e.seq, e.op, e.missing) for e in events] == [
        ("ranks-missing", 6, "all_reduce", Ranks()),
        ("ranks-missing", 7, "broadcast", Ranks([1])),
        ("no-errors", None, None, Ranks()),
    ]


@given(
    st.lists(
        st.sampled_from(
            [
                *REPORT.split("\n"),
                "Missing dump files from ranks {1, 2}",
                "missing ranks: {9}",
                "PEER_DEAD: Process 1 on node x",
            ]
        ),
        max_size=20,
    )
)
@settings(max_examples=150, deadline=None)
def test_never_raises(lines):
    for parser in PARSERS:
        events_of(parser, "\n".join(lines))


@pytest.mark.parametrize("filler", ["1 ", "The missing ranks: 1-9", "RUNNING  ", "group info: "])
def test_hostile_line_is_read_quickly(filler):
    text = "#0-0 (6) ERROR\n  " + (filler * (65536 // len(filler)))[:65000] + " Missing communicator data from"
    with bounded_cpu_time():
        for parser in PARSERS:
            events_of(parser, text)
