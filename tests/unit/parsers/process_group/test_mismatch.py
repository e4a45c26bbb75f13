"""Calls that differ between ranks, and barriers that name who did not come."""

from __future__ import annotations

import pytest
from builders.logs.log_reading import events_of, parser_named
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.events import CollectiveMismatch, MonitoredBarrier
from nccldoctor.model.ranks import Ranks

MISMATCHES, BARRIERS = parser_named("mismatches"), parser_named("monitored-barriers")

OPTIONS = "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided (default)))"
HEAD = "Detected mismatch between collectives on ranks. "


def call(rank: int, seq: int, op: str, shape: str, dtype: str = "Float") -> str:
    return (
        f"Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber={seq}, OpType={op}, "
        f"TensorShape=[{shape}], TensorDtypes={dtype}, {OPTIONS}"
    )


def mismatch(text: str) -> CollectiveMismatch:
    (event,) = events_of(MISMATCHES, text)
    assert isinstance(event, CollectiveMismatch)
    return event


def barrier(text: str) -> MonitoredBarrier:
    (event,) = events_of(BARRIERS, text)
    assert isinstance(event, MonitoredBarrier)
    return event


def test_same_call_with_other_sizes() -> None:
    text = f"[rank1]: RuntimeError: {HEAD}{call(1, 7, 'ALLREDUCE', '5, 3')}, but {call(0, 7, 'ALLREDUCE', '5, 4')}."
    event = mismatch(text + "Collectives differ in the following aspects: \t Tensor Tensor shapes: 5, 3vs 5, 4")
    assert (event.rank, event.left_rank, event.right_rank, event.op, event.seq) == (1, 1, 0, "ALLREDUCE", 7)
    assert (event.left, event.right) == ("ALLREDUCE #7 [5, 3] Float", "ALLREDUCE #7 [5, 4] Float")
    assert event.aspects == ("shape",)


def test_aspects_are_worked_out_where_the_list_is_cut_off() -> None:
    event = mismatch(f"{HEAD}{call(1, 7, 'ALLREDUCE', '5', 'Half')}, but {call(0, 8, 'ALLREDUCE', '5')}")
    assert event.aspects == ("sequence", "dtype")
    assert (event.op, event.seq, event.left_seq, event.right_seq) == ("ALLREDUCE", None, 7, 8)


def test_record_wrapped_by_a_terminal() -> None:
    calls = f"{call(3, 9, 'BROADCAST', '1')}, but {call(0, 9, 'REDUCE', '1')}."
    text = f"{HEAD}{calls}Collectives differ in the following aspects: Op type: x"
    folded = "\n".join(text[i : i + 80] for i in range(0, len(text), 80))
    event = mismatch(folded)
    assert (event.left_op, event.right_op, event.right_rank, event.aspects) == ("BROADCAST", "REDUCE", 0, ("op",))


def test_old_wording_shows_one_end() -> None:
    event = mismatch(
        f"{HEAD}Rank 0 is running inconsistent collective: CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[6], "
        f"TensorDtypes=Float, {OPTIONS}"
    )
    assert (event.left_rank, event.left, event.right_rank, event.op, event.aspects) == (
        0,
        "BROADCAST [6] Float",
        None,
        "BROADCAST",
        (),
    )


def test_barrier_without_tensors_lacks_the_comma() -> None:
    event = mismatch(
        f"{HEAD}{call(1, 4, 'ALLREDUCE', '2')}, but Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=4OpType=BARRIER).x"
    )
    assert (event.right_op, event.right_seq, event.aspects[0]) == ("BARRIER", 4, "op")


@pytest.mark.parametrize(
    ("text", "aspect", "left", "right"),
    [
        (
            "[enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4. Received data",
            "size",
            "received 8 bytes",
            "expected 4 bytes",
        ),
        (
            "n1:1:2 [0] net_socket.cc:9 NCCL WARN NET/Socket : peer 10.0.0.1<3> message truncated : receiving "
            "1048576 bytes instead of 524288. If",
            "size",
            "received 1048576 bytes",
            "expected 524288 bytes",
        ),
        (
            "NET/IB : req 0/1 tag 0 peer 10.0.0.6<4> collective mismatch error, local size 331776 remote size 32768",
            "size",
            "local 331776 bytes",
            "remote 32768 bytes",
        ),
        (
            "NCCL WARN Message truncated : received 1024 bytes instead of 256",
            "bootstrap",
            "received 1024 bytes",
            "expected 256 bytes",
        ),
        (
            "NCCL WARN Bootstrap Root : mismatch in info from procs, nranks 8 vs 16, nroots 1 vs 1",
            "bootstrap",
            "8 ranks",
            "16 ranks",
        ),
        (
            "NCCL WARN Mismatched NCCL version detected : rank 2 version 22105 rank 5 version 22602",
            "nccl-version",
            "NCCL 22105",
            "NCCL 22602",
        ),
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 10 params, while rank 0 has "
            "inconsistent 12 params.",
            "parameters",
            "10 parameters",
            "12 parameters",
        ),
        (
            "[2]: params[0] in this process with sizes [5, 3] appears not to match sizes of the same param in "
            "process 0.",
            "parameters",
            "parameter 0 [5, 3]",
            "another shape",
        ),
    ],
)
def test_transports_and_ddp(text: str, aspect: str, left: str, right: str) -> None:
    event = mismatch(text)
    assert (event.aspects, event.left, event.right) == ((aspect,), left, right)


def test_ranks_of_a_version_mismatch() -> None:
    event = mismatch("Mismatched NCCL version detected : rank 2 version 22105 rank 5 version 22602")
    assert (event.left_rank, event.right_rank) == (2, 5)


def test_one_rank_and_several_ranks() -> None:
    assert barrier("[Rank 0]: Rank 3 failed to pass monitoredBarrier in 1800000 ms").missing == Ranks([3])
    event = barrier("[rank0]: RuntimeError: [Rank 0]: Ranks 1, 2, 7 failed to pass monitoredBarrier in 5000 ms")
    assert (event.missing, event.rank, event.group_rank, event.timeout_ms) == (Ranks([1, 2, 7]), 0, 0, 5000)


def test_checking_rank_out_of_time() -> None:
    event = barrier("Rank 0 timed out in monitoredBarrier after 5000 ms.\n Successfully processed ranks: 1, 2\n")
    assert (event.group_rank, event.missing, event.reached, event.timeout_ms) == (0, Ranks(), Ranks([1, 2]), 5000)
    event = barrier(
        "Rank 0 timed out in monitoredBarrier after 5000 ms.\n No ranks successfully processed in monitoredBarrier."
    )
    assert event.reached == Ranks()


def test_the_wrappers_barrier_carries_its_call_and_is_told_once() -> None:
    event = barrier(
        "RuntimeError: ProcessGroupWrapper: Monitored Barrier encountered error running collective: "
        "CollectiveFingerPrint(SequenceNumber=6, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, "
        f"{OPTIONS}. Error: \n"
        "[Rank 0]: Ranks 2 failed to pass monitoredBarrier in 5000 ms\n"
    )
    assert (event.op, event.seq, event.missing, event.timeout_ms) == ("ALLREDUCE", 6, Ranks([2]), 5000)


@given(
    st.lists(
        st.one_of(
            st.sampled_from([*MISMATCHES.literals, *BARRIERS.literals, call(1, 2, "X", "3")]),
            st.text(max_size=30),
        ),
        max_size=8,
    )
)
@settings(max_examples=40, deadline=None)
def test_never_raises(pieces: list[str]) -> None:
    events_of(MISMATCHES, "".join(pieces))
    events_of(BARRIERS, "".join(pieces))
