"""The headline of each class, word for word: with one rank, with several, and where the rank is unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from builders.remedies import fixtures_conditions

from nccldoctor.diagnose.phrases import ends, setup
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import headline_of
from nccldoctor.diagnose.phrases.sides import each_side, sized_sides
from nccldoctor.diagnose.rules import load
from nccldoctor.events import ExceptionRaised, NcclError, ProcessExit
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks

CALL = "ALLREDUCE #9 of TP 1"
ONE, ONE_RANK = "rank 1 (node0)", Ranks([1])
MANY, MANY_RANKS = "ranks 1, 4", Ranks([1, 4])
REST = Ranks([0, 2, 3])
KILLED = ProcessExit(place=fixtures_conditions.at(), text="exitcode: -9", signal="SIGKILL", exitcode=-9)
RAISED = ExceptionRaised(
    place=fixtures_conditions.at(), text="x", type="KeyError", message="'labels'", frame="step (train.py:40)"
)

REFUSED = NcclError(place=fixtures_conditions.at(), text="Connection refused")

HEADLINES: Mapping[CauseClass, tuple[Headline, ...]] = {
    CauseClass.NOT_ARRIVED: (
        headline_of("absent.never-reached", who=ONE, call=CALL, doing="it was in load (train.py:121)"),
        headline_of("absent.never-reached", who=MANY, call=CALL, doing=""),
    ),
    CauseClass.FROZEN: (
        headline_of("absent.went-silent", who=ONE, call=CALL, never_exited=True and not False),
        headline_of("absent.no-sign-of-life", who=MANY, ranks=MANY_RANKS, call=CALL),
    ),
    CauseClass.DIED: (
        ends.before(ends.ended(ONE, ONE_RANK, [KILLED]), CALL),
        ends.before(ends.ended(MANY, MANY_RANKS, [KILLED]), CALL),
        ends.ended("a process", Ranks(), [KILLED]),
    ),
    CauseClass.RAISED: (
        ends.before(ends.crashed(ONE, RAISED, is_only_logged=False), CALL),
        ends.crashed(MANY, RAISED, is_only_logged=True),
        ends.crashed("a process", RAISED, is_only_logged=False),
    ),
    CauseClass.OP_MISMATCH: (
        headline_of(
            "disagree.op-mismatch",
            number="#9 of TP 1",
            sides=each_side([(ONE_RANK, "BROADCAST"), (REST, "ALLREDUCE")], "called"),
        ),
        headline_of(
            "disagree.op-mismatch",
            number="#9 of TP 1",
            sides=each_side([(MANY_RANKS, "BROADCAST"), (REST, "ALLREDUCE")], "called"),
        ),
        headline_of("disagree.found-by-analyzer", seq=9),
    ),
    CauseClass.SIZE_MISMATCH: (
        headline_of("disagree.size-mismatch", call=CALL, sides=sized_sides([(ONE_RANK, 512), (REST, 1024)])),
        headline_of("disagree.size-mismatch", call=CALL, sides=sized_sides([(MANY_RANKS, 512), (REST, 1024)])),
        headline_of(
            "disagree.mismatch-in-line",
            aspect="size",
            call=CALL,
            odd=Ranks(),
            left="512 bytes",
            right="1024 bytes",
        ),
    ),
    CauseClass.DTYPE_MISMATCH: (
        headline_of(
            "disagree.dtype-mismatch", call=CALL, sides=each_side([(ONE_RANK, "float16"), (REST, "float32")], "sent")
        ),
        headline_of(
            "disagree.dtype-mismatch", call=CALL, sides=each_side([(MANY_RANKS, "float16"), (REST, "float32")], "sent")
        ),
    ),
    CauseClass.MISSED_CALL: (
        headline_of("disagree.skipped", who=ONE, ranks=ONE_RANK, call=CALL, count=1, several=False),
        headline_of("disagree.skipped", who=MANY, ranks=MANY_RANKS, call=CALL, count=1, several=False),
        headline_of(
            "disagree.counted-apart", own=Ranks([1]), call=CALL, ahead=Ranks([0]), odd=Ranks(), may_be_gpu=False
        ),
    ),
    CauseClass.EXTRA_CALL: (
        headline_of("disagree.added", who=ONE, ranks=ONE_RANK, call=CALL, count=1, several=False),
        headline_of("disagree.added", who=MANY, ranks=MANY_RANKS, call=CALL, count=2, several=False),
    ),
    CauseClass.ORDER_INVERSION: (
        headline_of("disagree.deadlock", rank="rank 1", first=CALL, second="ALLGATHER #128", peers="its peers"),
        headline_of("disagree.deadlock", rank="ranks 1, 4", first=CALL, second="ALLGATHER #128", peers="their peers"),
        headline_of("disagree.orders-differ", calls=[CALL, "ALLGATHER #128"]),
    ),
    CauseClass.UNMATCHED_P2P: (
        headline_of("disagree.never-posted", who=ONE, end="SEND", peer=6, since=None),
        headline_of("disagree.in-hidden-transfer", who=MANY, ranks=MANY_RANKS),
        headline_of("disagree.one-end-missing", sender=2, receiver=6),
    ),
    CauseClass.DEVICE_STALLED: (
        headline_of("inside.gpu-stopped", who=ONE, ranks=ONE_RANK, call=CALL),
        headline_of("inside.gpu-stopped", who=MANY, ranks=MANY_RANKS, call=CALL),
    ),
    CauseClass.UNFINISHED: (
        headline_of(
            "inside.none-finished",
            ranks=Ranks(range(4)),
            is_all=Ranks(range(4)) == Ranks(range(4)),
            size=len(Ranks(range(4))),
            call=CALL,
        ),
        headline_of("inside.stuck-without-absentee", inside=MANY_RANKS, call=CALL, passed=Ranks()),
    ),
    CauseClass.NETWORK: (
        headline_of("inside.own-end-failed", part="the network port", who=ONE, call=CALL, error="port error on mlx5_2"),
        headline_of("inside.connection-failed", who=MANY, many=True, call=CALL, error="connection reset", reason=""),
        headline_of(
            "inside.link-failed",
            one="dgx-a1",
            other="dgx-a3",
            call=CALL,
            error="transport retry counter exceeded",
            reason="transport retry counter exceeded",
        ),
    ),
    CauseClass.HARDWARE: (
        headline_of("inside.board-failed", board=f"the GPU of {ONE}", error="Xid 79, GPU has fallen off the bus"),
        headline_of("inside.board-failed", board="the GPUs of ranks 1, 4", error="Xid 48, double-bit ECC error"),
        headline_of("inside.board-failed", board="a GPU on gpu-7", error="Xid 79, GPU has fallen off the bus"),
    ),
    CauseClass.INIT: (
        headline_of("setup.never-joined", who=ONE, size=8, begun=7),
        headline_of("setup.waits-for-group", inside=REST, outside=MANY_RANKS),
        headline_of(
            "setup.communicator-failed",
            library=setup.library_of(REFUSED),
            who="a process",
            error="Connection refused",
            reason="Connection refused",
            why="",
        ),
    ),
    CauseClass.STRAGGLER: (
        headline_of("slow.still-working", who=ONE, ranks=ONE_RANK, call=CALL, doing="writing a checkpoint"),
        headline_of(
            "slow.late-in-every-call",
            who=MANY,
            ranks=MANY_RANKS,
            seconds=0.8,
            late=10,
            compared=40,
            group="the default group",
            share=0.9,
        ),
        headline_of("slow.still-preparing", label="Running tokenizer", minutes=30),
    ),
    CauseClass.NONE: (
        headline_of("undetermined.all-finished", size=1, steps=6, exited=True),
        headline_of(
            "undetermined.all-finished",
            size=8,
            steps=6,
            exited=False,
        ),
        headline_of("undetermined.job-finished"),
    ),
    CauseClass.UNDETERMINED: (
        headline_of("undetermined.waited-for-unknown", first=f"Rank 1 timed out in {CALL}", logs=1, many=False),
        headline_of(
            "undetermined.may-be-missing",
            first=f"Ranks 1, 4 timed out in {CALL}",
            suspects=["2", "5"],
        ),
        headline_of("undetermined.failed-unexplained", what="A process aborted."),
    ),
}
"""One rank, several ranks, and no rank where the class can be told without one."""

PINNED: Mapping[CauseClass, tuple[str, ...]] = {
    CauseClass.NOT_ARRIVED: (
        "Rank 1 (node0) never reached ALLREDUCE #9 of TP 1: it was in load (train.py:121).",
        "Ranks 1, 4 never reached ALLREDUCE #9 of TP 1.",
    ),
    CauseClass.FROZEN: (
        "Rank 1 (node0) went silent before ALLREDUCE #9 of TP 1 and never exited.",
        "Ranks 1, 4 show no sign of life while their peers wait in ALLREDUCE #9 of TP 1, and no exit is on record.",
    ),
    CauseClass.DIED: (
        "Rank 1 (node0) was killed by SIGKILL before ALLREDUCE #9 of TP 1.",
        "Ranks 1, 4 were killed by SIGKILL before ALLREDUCE #9 of TP 1.",
        "A process was killed by SIGKILL.",
    ),
    CauseClass.RAISED: (
        "Rank 1 crashed before ALLREDUCE #9 of TP 1: KeyError: 'labels' (step, train.py:40).",
        "Ranks 1, 4 logged an exception: KeyError: 'labels' (step, train.py:40).",
        "A process crashed: KeyError: 'labels' (step, train.py:40).",
    ),
    CauseClass.OP_MISMATCH: (
        "Operation mismatch at #9 of TP 1: rank 1 called BROADCAST, ranks 0, 2-3 called ALLREDUCE.",
        "Operation mismatch at #9 of TP 1: ranks 1, 4 called BROADCAST, ranks 0, 2-3 called ALLREDUCE.",
        "PyTorch's analyzer found ranks that differ in #9.",
    ),
    CauseClass.SIZE_MISMATCH: (
        "Size mismatch in ALLREDUCE #9 of TP 1: rank 1 sent 512 elements, ranks 0, 2-3 sent 1,024.",
        "Size mismatch in ALLREDUCE #9 of TP 1: ranks 1, 4 sent 512 elements, ranks 0, 2-3 sent 1,024.",
        "Size mismatch in ALLREDUCE #9 of TP 1: 512 bytes against 1024 bytes.",
    ),
    CauseClass.DTYPE_MISMATCH: (
        "Dtype mismatch in ALLREDUCE #9 of TP 1: rank 1 sent float16, ranks 0, 2-3 sent float32.",
        "Dtype mismatch in ALLREDUCE #9 of TP 1: ranks 1, 4 sent float16, ranks 0, 2-3 sent float32.",
    ),
    CauseClass.MISSED_CALL: (
        "Rank 1 (node0) skipped ALLREDUCE #9 of TP 1, so its later calls are off by one.",
        "Ranks 1, 4 skipped ALLREDUCE #9 of TP 1, so their later calls are off by one.",
        "Rank 1 is in ALLREDUCE #9 of TP 1, which rank 0 finished: one of them skipped or added a call.",
    ),
    CauseClass.EXTRA_CALL: (
        "Rank 1 (node0) called an extra collective, ALLREDUCE #9 of TP 1, that no peer called.",
        "Ranks 1, 4 called 2 extra collectives from ALLREDUCE #9 of TP 1 on that no peer called.",
    ),
    CauseClass.ORDER_INVERSION: (
        "Deadlock: rank 1 called ALLREDUCE #9 of TP 1 before ALLGATHER #128.",
        "Deadlock: ranks 1, 4 called ALLREDUCE #9 of TP 1 before ALLGATHER #128.",
        "Deadlock: ranks called ALLREDUCE #9 of TP 1 and ALLGATHER #128 in different orders.",
    ),
    CauseClass.UNMATCHED_P2P: (
        "Rank 1 (node0) never posted the SEND that rank 6 is waiting for.",
        "Every wait ends at ranks 1, 4, which are in a send or receive that the flight recorder doesn't record.",
        "The transfer from rank 2 to rank 6 has only one end: rank 2 or rank 6 is out of step.",
    ),
    CauseClass.DEVICE_STALLED: (
        "The GPU of rank 1 (node0) stopped in ALLREDUCE #9 of TP 1: its process kept queuing work.",
        "The GPUs of ranks 1, 4 stopped in ALLREDUCE #9 of TP 1: their processes kept queuing work.",
    ),
    CauseClass.UNFINISHED: (
        "All 4 ranks entered ALLREDUCE #9 of TP 1 and none finished. The rank at fault is unknown.",
        "Ranks 1, 4 are stuck in ALLREDUCE #9 of TP 1; no log or dump shows a missing rank.",
    ),
    CauseClass.NETWORK: (
        "The network port of rank 1 (node0) failed in ALLREDUCE #9 of TP 1: port error on mlx5_2.",
        "Ranks 1, 4 lost network connections in ALLREDUCE #9 of TP 1: connection reset.",
        "The link between dgx-a1 and dgx-a3 failed in ALLREDUCE #9 of TP 1: transport retry counter exceeded.",
    ),
    CauseClass.HARDWARE: (
        "The GPU of rank 1 (node0) failed: Xid 79, GPU has fallen off the bus.",
        "The GPUs of ranks 1, 4 failed: Xid 48, double-bit ECC error.",
        "A GPU on gpu-7 failed: Xid 79, GPU has fallen off the bus.",
    ),
    CauseClass.INIT: (
        "Rank 1 (node0) never joined the 8-rank communicator; the other 7 are stuck in init.",
        "Ranks 0, 2-3 are waiting for a new process group that ranks 1, 4 did not call to create.",
        "NCCL init failed (a process): Connection refused.",
    ),
    CauseClass.STRAGGLER: (
        "Rank 1 was late to ALLREDUCE #9 of TP 1, not stuck: it was still writing a checkpoint.",
        "Ranks 1, 4 are stragglers: 800 ms late in 10 of 40 calls, so peers wait 90% of the time.",
        "One process still prepared data after 30 min (Running tokenizer).",
    ),
    CauseClass.NONE: (
        "No hang or failure found: the rank finished 6 steps and exited cleanly.",
        "No hang or failure found: all 8 ranks finished 6 steps.",
        "No hang or failure found: the job finished.",
    ),
    CauseClass.UNDETERMINED: (
        "Rank 1 timed out in ALLREDUCE #9 of TP 1. The log doesn't show which rank it waited for.",
        "Ranks 1, 4 timed out in ALLREDUCE #9 of TP 1. Rank 2 or 5 may never have reached it.",
        "A process aborted. These files don't show why.",
    ),
}
"""The same as sentences, without a hedge."""


@pytest.mark.parametrize("cause", sorted({rule.cause for rule in load()} | {*CauseClass}))
def test_the_headline_of_a_class_is_pinned(cause: CauseClass) -> None:
    assert cause in HEADLINES, "a new class needs its headlines here"
    assert len(HEADLINES[cause]) > 1, "one rank and several ranks"
    assert tuple(headline.sure for headline in HEADLINES[cause]) == PINNED[cause]


@pytest.mark.parametrize("cause", HEADLINES)
def test_a_hedge_joins_the_verb_of_a_sentence_that_may_be_wrong(cause: CauseClass) -> None:
    for headline in HEADLINES[cause]:
        if headline.hedge:
            unsure, sure = (re.sub(r" \([^()]*\)", "", text.lower()) for text in (headline.unsure, headline.sure))
            said = unsure.replace(f"{headline.hedge} ", "", 1).removesuffix(".")
            assert sure.startswith(said), "a hedge may take the room of a host, a place or a detail"
        else:
            assert headline.unsure == headline.sure


@pytest.mark.parametrize("cause", HEADLINES)
def test_a_headline_of_several_ranks_says_they(cause: CauseClass) -> None:
    one, many, *_ = (headline.sure for headline in HEADLINES[cause])

    assert "1, 4 was " not in many
    assert " its process" not in many
    assert not one.startswith("Ranks")
