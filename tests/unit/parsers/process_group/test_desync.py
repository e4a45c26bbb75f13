from __future__ import annotations

from builders.logs.log_reading import events, parsed

from nccldoctor.events import DesyncReport, Note
from nccldoctor.model.ranks import Ranks

BODY = (
    "\t - [{r}] Timeout at collective: ALLREDUCE, #262\n"
    "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
    "\t   - [5] joined but didn't finish collective #131 (count from 1)\n"
    "\t     [6, 7] finished collective #129, but didn't join collective #130 (count from 1)\n"
    "\t - Snapshot of ranks' latest states:\n"
    "\t   #129 finished ranks:\n"
    "\t     [6, 7] finished ALLREDUCE\n"
    "\t   #262 started ranks:\n"
    "\t     [0, 1, 2, 3, 4] started ALLREDUCE\n"
)


def reports(text: str) -> list[DesyncReport]:
    return [e for e in parsed(text).events if isinstance(e, DesyncReport)]


def test_own_record_of_2_7() -> None:
    (e,) = reports(
        "[rank40]:[E606 07:40:11.279020420 ProcessGroupNCCL.cpp:1937] Rank 0\n" + BODY.format(r=0) + "more text\n"
    )
    assert (e.rank, e.group_rank, e.op, e.seq, e.laggards) == (40, 0, "ALLREDUCE", 262, Ranks([6, 7]))
    assert e.snapshot.endswith("[0, 1, 2, 3, 4] started ALLREDUCE")
    assert e.time is not None and e.time.hour == 7


def test_appended_to_the_timeout_in_2_0() -> None:
    head = (
        "[E ProcessGroupNCCL.cpp:828] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=241, "
        "OpType=ALLREDUCE, "
        "Timeout(ms)=5) ran for 7 milliseconds before timing out.\n"
    )
    text = head + BODY.format(r=0)
    (e,) = reports(text)
    assert (e.group_rank, e.laggards) == (0, Ranks([6, 7]))
    assert [x.seq for x in events(text, "collective-timeout")] == [241]  # type: ignore[attr-defined]


def test_ranks_that_never_joined() -> None:
    text = (
        "[rank1]:[E111 07:40:11.279020420 ProcessGroupNCCL.cpp:1709] [PG 1 (dp) Rank 1] \n\t - [1] Timeout at "
        "collective: BROADCAST, #1\n"
        "\t - To our best knowledge, ranks [2, 3] are the lagging ranks that caused this timeout. They never joined "
        "any collectives\n"
        "\t - Snapshot of ranks' latest states:\n\t   #1 started ranks:\n\t     [0, 1] started BROADCAST\n"
    )
    (e,) = reports(text)
    assert (e.rank, e.laggards, str(e.group)) == (1, Ranks([2, 3]), "1(dp)")


def test_two_reports_behind_each_other_stay_two() -> None:
    head = "[rank{r}]:[E606 07:40:11.279020420 ProcessGroupNCCL.cpp:1937] Rank {r}\n"
    text = "".join(head.format(r=r) + BODY.format(r=r) for r in (0, 1))
    assert [(e.rank, e.group_rank, len(e.laggards)) for e in reports(text)] == [(0, 0, 2), (1, 1, 2)]
    assert all(e.snapshot.count("Timeout at collective") == 1 for e in reports(text))


def test_a_copy_without_its_first_line_still_names_the_laggards() -> None:
    (e,) = reports(BODY.split("\n", 1)[1])
    assert (e.laggards, e.op, e.seq) == (Ranks([6, 7]), None, None)


def test_a_report_that_failed_is_a_note_over_its_wraps() -> None:
    text = (
        "[E ProcessGroupNCCL.cpp:988] Failed to retrieve NCCL_DESYNC_DEBUG report. \n Please file an issue. Error: "
        "traceMap[thisSeq][myRank]"
        '.second == kEventSt\nart INTERNAL ASSERT FAILED at "Trac\neUtils.h":244, please report a bug. '
        "Timeout rank [1] last trace\n item must be "
        "kEventStart. thisSeq = 3, col = RECV\n"
    )
    (e,) = [x for x in parsed(text).events if isinstance(x, Note)]
    assert e.what == "desync-failed" and "ASSERT" in e.detail
    (report,) = reports(text)
    assert (report.group_rank, report.op, report.seq, report.laggards) == (1, "RECV", 3, Ranks())
