"""What an exhibit marks in its lines: every value that its claim states."""

from __future__ import annotations

import pytest

from nccldoctor.model.excerpts import SourceLine
from nccldoctor.summarise.proof.quotes import cited


@pytest.mark.parametrize(
    ("claim", "line", "values"),
    [
        (
            "Rank 5 timed out in ALLGATHER #18.",
            "[rank5]: Watchdog caught timeout: WorkNCCL(SeqNum=18, OpType=_ALLGATHER_BASE)",
            ("rank5", "_ALLGATHER_BASE", "SeqNum=18"),
        ),
        (
            "Rank 0 launched AllReduce as #14.",
            "gpu0:7:8 [0] NCCL INFO AllReduce: opCount e",
            ("AllReduce", "opCount e"),
        ),
        ("Network error on rank 10.", "gpu-18:14:15 [2] NCCL WARN NET/IB : Got async event : port error(10)", ()),
        ("Rank 3 died.", "Barrier failed: Task 3 heartbeat timeout", ("Task 3",)),
        ("Rank 1 waits for rank 0.", "[1] is setting up NCCL communicator, id from [0] via c10d", ("[1]", "[0]")),
    ],
)
def test_values_are_marked_as_the_line_writes_them(claim: str, line: str, values: tuple[str, ...]) -> None:
    assert cited(claim, [SourceLine(1, line)]) == values
