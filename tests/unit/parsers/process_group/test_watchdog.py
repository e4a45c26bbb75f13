"""Timeouts, counters, monitor and tear-down in the wordings of PyTorch 1.8 to 2.13, whole, cut and wrapped."""

from __future__ import annotations

import pytest
from builders.logs.log_reading import events, parsed

from nccldoctor.events import (
    BlockingWaitTimeout,
    CallTimeout,
    CollectiveTimeout,
    DumpNote,
    DumpSignal,
    Event,
    FailedStack,
    GroupRef,
    HeartbeatStuck,
    NcclError,
    Note,
    TearDown,
    WorkStatus,
)

RECORD = (
    "[rank1]:[E417 03:28:14.050510987 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=3612, OpType=BROADCAST, NumelIn=104, NumelOut=208, Timeout(ms)=1800000) ran for 1800009 "
    "milliseconds before timing out."
)


def one(text: str, kind: type[Event]) -> Event:
    found = [e for e in parsed(text).events if isinstance(e, kind)]
    assert len(found) == 1, found
    return found[0]


def timeout(text: str) -> CollectiveTimeout:
    event = one(text, CollectiveTimeout)
    assert isinstance(event, CollectiveTimeout)
    return event


def fields(e: CallTimeout) -> tuple[object, ...]:
    return e.op, e.seq, e.numel_in, e.numel_out, e.timeout_ms, e.ran_ms


WHOLE = ("BROADCAST", 3612, 104, 208, 1800000, 1800009)


def test_the_whole_record() -> None:
    e = timeout(RECORD + "\n")
    assert fields(e) == WHOLE
    assert (e.rank, e.group_rank, e.group) == (1, 1, None)
    assert e.text.startswith("[Rank 1] Watchdog caught")


@pytest.mark.parametrize("column", [52, 74, 80, 91, 100, 117, 120, 136, 165, 200, 250])
@pytest.mark.parametrize("pad", [False, True])
def test_a_terminal_broke_it_at_a_fixed_column(column: int, pad: bool) -> None:
    parts = [RECORD[i : i + column] for i in range(0, len(RECORD), column)]
    text = "\n".join(p.ljust(column) if pad else p for p in parts) + "\n"
    found = [e for e in parsed(text).events if isinstance(e, CollectiveTimeout)]
    assert [fields(e) for e in found] == [WHOLE], text
    assert found[0].group_rank == 1


@pytest.mark.parametrize("column", [60, 72, 80, 100, 120])
@pytest.mark.parametrize("indent", ["", "   "])
def test_an_editor_broke_it_at_blanks(column: int, indent: str) -> None:
    words, text, width = RECORD.split(" "), "", 0
    for word in words:
        if width + len(word) > column:
            text, width = text + "\n" + indent, len(indent)
        text, width = (
            text + ("" if text.endswith(("\n", "\n" + indent)) or not text else " ") + word,
            width + len(word) + 1,
        )
    e = timeout(text + "\n")
    assert fields(e) == WHOLE
    assert e.rank == 1


def test_foreign_lines_may_stand_between_two_parts() -> None:
    head, tail = RECORD[:190], RECORD[190:]
    foreign = "[rank5]:[E417 03:28:14.050510988 ProcessGroupNCCL.cpp:1] [Rank 5] other\n"
    assert fields(timeout(head + "\n" + foreign * 2 + tail + "\n")) == WHOLE


def test_two_cut_records_are_not_joined_into_one() -> None:
    cut = RECORD[:170]
    text = cut + "\n" + cut.replace("rank1", "rank2").replace("Rank 1", "Rank 2") + "\n"
    found = [e for e in parsed(text).events if isinstance(e, CollectiveTimeout)]
    assert [(e.rank, e.seq, e.op, e.numel_in, e.ran_ms) for e in found] == [
        (1, 3612, "BROADCAST", 104, None),
        (2, 3612, "BROADCAST", 104, None),
    ]


@pytest.mark.parametrize("end", range(150, len(RECORD) - 20, 3))
def test_a_cut_record_gives_no_number_that_may_be_cut(end: int) -> None:
    for e in parsed(RECORD[:end]).events:
        if isinstance(e, CollectiveTimeout):
            for got, true in zip(fields(e), WHOLE, strict=True):
                assert got in (None, true)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WorkNCCL(OpType=BROADCAST, Timeout(ms)=60000) ran for 66412", ("BROADCAST", None, None, None, 60000, 66412)),
        ("WorkNCCL(SeqNum=4, OpType=REDUCE, Timeout(ms)=60000) ran for 66412", ("REDUCE", 4, None, None, 60000, 66412)),
        (
            "WorkNCCL(SeqNum=4, OpType=REDUCE, TensorShape=[2, 3], Timeout(ms)=60000) ran for 66412",
            ("REDUCE", 4, None, None, 60000, 66412),
        ),
        (
            "WorkNCCL(SeqNum=4, OpType=_ALLGATHER_BASE, NumelIn=0, NumelOut=0, Timeout(ms)=1) ran for 25624887",
            ("_ALLGATHER_BASE", 4, 0, 0, 1, 25624887),
        ),
        (
            "WorkNCCL(SeqNum=1, OpType=COALESCED, NumelIn=18446744073709551615, NumelOut=18446744073709551615, "
            "Timeout(ms)=600000) ran for 600082",
            ("COALESCED", 1, None, None, 600000, 600082),
        ),
        ("WorkHCCL(SeqNum=4, OpType=SEND, Timeout(ms)=60000) ran for 66412", ("SEND", 4, None, None, 60000, 66412)),
    ],
)
def test_every_form_of_the_work(text: str, expected: tuple[object, ...]) -> None:
    head = "[E ProcessGroupNCCL.cpp:9] [Rank 2] Watchdog caught collective operation timeout: "
    line = f"{head}{text} milliseconds before timing out.\n"
    assert fields(timeout(line)) == expected


def test_the_group_comes_from_the_next_message_of_the_same_process_about_the_same_call() -> None:
    status = (
        "[rank{r}]:[E417 03:28:14.050510987 ProcessGroupNCCL.cpp:2268] [PG ID {i} PG GUID {g}(tp) Rank {k}]  failure "
        "detected by "
        "watchdog at work sequence id: {s} PG status: last enqueued work: 9, last completed work: 8\n"
    )
    text = (
        RECORD
        + "\n"
        + status.format(r=2, i=7, g=70, k=0, s=3612)
        + status.format(r=1, i=5, g=50, k=4, s=99)
        + status.format(r=1, i=3, g=30, k=1, s=3612)
    )
    e = timeout(text)
    assert (e.group, e.group_rank) == (GroupRef(pg_id=3, uid="30", desc="tp"), 1)


def test_a_repeated_record_is_told_once_and_lends_its_group() -> None:
    echo = RECORD[RECORD.index("[Rank 1]") :]
    text = (
        RECORD + "\n"
        f"[rank1]:[E417 03:29:14.050510987 ProcessGroupNCCL.cpp:1895] [PG ID 4 PG GUID 8 Rank 1] Process group "
        f"watchdog thread terminated with "
        f"exception: {echo}\nterminate called after throwing an instance of 'c10::DistBackendError'\n"
        f"  what():  [PG ID 4 PG GUID 8 Rank 1] Process group watchdog thread terminated with exception: {echo}\n"
    )
    e = timeout(text)
    assert (e.group, e.place.line) == (GroupRef(pg_id=4, uid="8"), 1)
    downs = [d for d in parsed(text).events if isinstance(d, TearDown)]
    assert [d.what for d in downs] == ["watchdog-terminated", "terminate-called", "watchdog-terminated"]


def test_a_log_that_shows_only_the_repetition_still_gives_the_record() -> None:
    text = (
        "  what():  [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(OpType=BROADCAST, Timeout(ms)=60000) ran for 66207 mi"
    )
    e = timeout(text)
    assert (e.group_rank, e.op, e.ran_ms) == (3, "BROADCAST", 66207)


def test_the_same_call_timing_out_on_two_ranks_is_two_records() -> None:
    text = RECORD + "\n" + RECORD.replace("rank1", "rank9") + "\n"
    assert [e.rank for e in events(text, "collective-timeout")] == [1, 9]


def test_blocking_wait_in_its_eras() -> None:
    text = (
        "RuntimeError: [Rank 1] Caught collective operation timeout: WorkNCCL(SeqNum=128, OpType=BROADCAST, "
        "TensorShape=[1], "
        "Timeout(ms)=3600000) ran for 3600073 milliseconds before timing out.\n"
        "[E ProcessGroupNCCL.cpp:7] [Rank 2] Work WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=2, NumelOut=2, "
        "Timeout(ms)=9) timed out in "
        "blocking wait (TORCH_NCCL_BLOCKING_WAIT=1).\n"
        "RuntimeError: Work WorkNCCL(SeqNum=6, OpType=ALLREDUCE, Timeout(ms)=9) timed out in call to wait().\n"
    )
    found = [e for e in parsed(text).events if isinstance(e, BlockingWaitTimeout)]
    assert [(e.group_rank, e.seq, e.shape, e.ran_ms) for e in found] == [
        (1, 128, "1", 3600073),
        (2, 5, None, None),
        (None, 6, None, None),
    ]
    assert events(text, "collective-timeout") == []


STATUS = [
    (
        "[PG 0 Rank 3] Timeout at NCCL work: 1, last enqueued NCCL work: 2, last completed NCCL work: 873015526.",
        (1, 2, 873015526, GroupRef(uid="0"), 3),
    ),
    (
        "[PG 1 (dp) Rank 0] Exception (either an error or timeout) detected by watchdog at work: 5, last enqueued "
        "NCCL work: 6, "
        "last completed NCCL work: -1.",
        (5, 6, -1, GroupRef(uid="1", desc="dp"), 0),
    ),
    (
        "[PG ID 0 PG GUID 0(default_pg) Rank 5]  failure detected by watchdog at work sequence id: 5 PG status: last "
        "enqueued work: 6, "
        "last completed work: 4",
        (5, 6, 4, GroupRef(pg_id=0, uid="0", desc="default_pg"), 5),
    ),
    (
        "[PG ID 2 PG GUID 9c0ffee Rank 5] failure detected by watchdog at work sequence id: 5 PG status: last "
        "enqueued work: 6, "
        "last completed work: 4",
        (5, 6, 4, GroupRef(pg_id=2, uid="9c0ffee"), 5),
    ),
    (
        "[PG ID 2 PG GUID 9 Rank 5] NCCL Work update periodically: last enqueued NCCL work: 6, last completed NCCL "
        "work: 4.",
        (None, 6, 4, GroupRef(pg_id=2, uid="9"), 5),
    ),
]


@pytest.mark.parametrize(("body", "expected"), STATUS)
@pytest.mark.parametrize("wrap", [0, 100, 130])
def test_counters(body: str, expected: tuple[object, ...], wrap: int) -> None:
    text = f"[rank7]:[E606 07:40:11.279589542 ProcessGroupNCCL.cpp:2268] {body}"
    if wrap and "periodically" not in body:
        text = "\n".join(text[i : i + wrap] for i in range(0, len(text), wrap))
    e = one(text + "\n", WorkStatus)
    assert isinstance(e, WorkStatus)
    assert (e.failed, e.last_enqueued, e.last_completed, e.group, e.group_rank) == expected
    assert e.rank == 7


def test_a_cut_counter_is_not_taken_for_a_whole_one() -> None:
    text = (
        "[rank0]:[E ProcessGroupNCCL.cpp:9] [PG 0 Rank 0] Timeout at NCCL work: 5, last enqueued NCCL work: 6, "
        "last completed NCCL work: 11"
    )
    e = one(text, WorkStatus)
    assert isinstance(e, WorkStatus)
    assert (e.failed, e.last_enqueued, e.last_completed) == (5, 6, None)


def test_stuck_monitor_in_its_eras() -> None:
    text = (
        "[rank1]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 1] [PG 0 Rank 1] ProcessGroupNCCL's watchdog got stuck for "
        "600 seconds without making\n"
        "[rank2]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 2] Heartbeat monitor timed out! Process will be terminated\n"
        "[rank3]:[E ProcessGroupNCCL.cpp:16] [Rank 3] NCCL monitor thread timeout. Basically, this could be\n"
        "[rank4]:[F ProcessGroupNCCL.cpp:16] [Rank 4] monitoring thread detects no heartbeat and will finally kill "
        "the process!\n"
    )
    found = [e for e in parsed(text).events if isinstance(e, HeartbeatStuck)]
    assert [(e.rank, e.seconds) for e in found] == [(1, 600), (2, None), (3, None), (4, None)]


SIGNALS = [
    (
        "Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the "
        "debug info. "
        "Last enqueued NCCL work: 9, last completed NCCL work: 8.This is most likely",
        (None, 9, 8),
    ),
    (
        "Received a dump signal due to a collective timeout from  rank 12 and we will try our best to dump the debug "
        "info. "
        "Last enqueued NCCL work: -1, last completed NCCL work: -1.This",
        (12, -1, -1),
    ),
    (
        "Received a dump signal due to a collective timeout from  rank -1 and we will try our best to dump the debug "
        "info. "
        "Last enqueued NCCL work: 9, last completed NCCL work: 8.This",
        (None, 9, 8),
    ),
    (
        "Received a global dump signal from rank 4, and will start to dump the debug info. Last enqueued NCCL work: "
        "9, last completed "
        "NCCL work: 8.",
        (4, 9, 8),
    ),
    (
        "Received a timeout signal from this local rank and will start to dump the debug info. Last enqueued NCCL "
        "work: 4, last "
        "completed NCCL work: 3.",
        (None, 4, 3),
    ),
]


@pytest.mark.parametrize(("body", "expected"), SIGNALS)
@pytest.mark.parametrize("wrap", [0, 110, 140])
def test_dump_signals(body: str, expected: tuple[object, ...], wrap: int) -> None:
    text = f"[rank5]:[E716 02:36:19.604989174 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 5] {body}"
    if wrap:
        text = "\n".join(text[i : i + wrap] for i in range(0, len(text), wrap))
    e = one(text + "\n", DumpSignal)
    assert isinstance(e, DumpSignal)
    assert (e.from_rank, e.last_enqueued, e.last_completed) == expected
    assert e.rank == 5


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("First PG on this rank to signal dumping.", "first-to-signal"),
        ("First watchdog to set the dump signal.", "first-to-signal"),
        ("Observed flight recorder dump signal from another rank via TCPStore.", "observed-from-another-rank"),
        (
            "ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1, only active collectives: 0",
            "preparing",
        ),
        ("Finished writing Flight Recorder debug info to /tmp/x_3", "written"),
        ("Error opening file for writing Flight Recorder debug info: /tmp/x_3", "write-failed"),
        ("Future for Flight recorder dump in heartbeatMonitor timed out after 60000 ms", "future-timed-out"),
        ("Could not acquire GIL within 300 ms on exit, possible GIL induced hang", "gil-not-acquired"),
    ],
)
def test_other_notes_of_the_dump(body: str, what: str) -> None:
    e = one(
        f"[rank5]:[E716 02:36:19.604989174 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0 Rank 5] {body}\n", DumpNote
    )
    assert isinstance(e, DumpNote)
    assert (e.what, e.rank) == (what, 5)


def test_the_stack_of_the_failed_call_ends_where_its_numbers_do() -> None:
    head = "[rank{r}]:[E703 05:22:58.463020827 ProcessGroupNCCL.cpp:670] Stack trace of the failed collective: \n"
    text = (
        head.format(r=0)
        + "#0 all_reduce from /t/distributed_c10d.py:2810\n#1 <module> from /opt/train.py:3\n"
        + head.format(r=1)
        + "#0 step from /opt/train.py:9\nfoo\n"
    )
    found = [e for e in parsed(text).events if isinstance(e, FailedStack)]
    assert [(e.rank, e.frames) for e in found] == [
        (0, ("all_reduce (/t/distributed_c10d.py:2810)", "<module> (/opt/train.py:3)")),
        (1, ("step (/opt/train.py:9)",)),
    ]


def test_async_errors_and_named_ranks() -> None:
    text = (
        "[rank1]:[E106 10:00:00.000000001 ProcessGroupNCCL.cpp:550] [Rank 1] Collective WorkNCCL(SeqNum=7, "
        "OpType=ALLREDUCE, NumelIn=4, "
        "NumelOut=4, Timeout(ms)=600000) raised the following async exception: NCCL error: remote process exited\n"
        "ncclRemoteError: A call failed possibly due to a network error\n"
        "[E ProcessGroupNCCL.cpp:591] [Rank 3] Found key in store: NCCLABORTEDCOMM:0a0b, from rank: 5. This means\n"
        "[rank2]:[E106 10:00:00.000000001 ProcessGroupNCCL.cpp:550] [PG ID 0 PG GUID 0 Rank 2]  remote error detected "
        "from rank: 6\n"
    )
    errors = [e for e in parsed(text).events if isinstance(e, NcclError) and e.rank == 1]
    assert [e.code for e in errors][:1] == ["ncclRemoteError"]
    notes = [e for e in parsed(text).events if isinstance(e, Note) and e.what in ("aborted-comm", "remote-error")]
    assert [(e.what, e.detail, e.rank, e.group_rank) for e in notes] == [
        ("aborted-comm", "rank 5", None, 3),
        ("remote-error", "rank 6", 2, 2),
    ]
    assert events(text, "collective-timeout") == []
