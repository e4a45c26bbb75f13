"""NCCL's errors behind PyTorch's wordings: the code, the last error, and each process once."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import gave_up, read
from builders.logs.log_reading import events_of, parsed

from nccldoctor.events import NcclError
from nccldoctor.parsers import registry
from nccldoctor.parsers.process_group.nccl_error import nccl_errors

ENDED = (
    "Process group watchdog thread terminated with exception: "
    "NCCL error: remote process exited or there was a network error, NCCL version 2.21.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    "Last error:\nsocketProgressOpt: Call to recv from 10.0.0.3<47712> failed : Broken pipe\n"
    "Exception raised from checkForNCCLErrorsInternal at ProcessGroupNCCL.cpp:634 (most recent call first):\n"
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in libc10.so)\n\n"
)
PREFIX = "[PG ID 0 PG GUID 0(default_pg) Rank 5] "
WHAT = f"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  {PREFIX}{ENDED}"
BLOCK = f"[rank5]:[E131 18:20:55.347690682 ProcessGroupNCCL.cpp:1895] {PREFIX}{ENDED}{WHAT}"


def found(text: str) -> list[NcclError]:
    return [e for e in events_of(nccl_errors, text) if isinstance(e, NcclError)]


def test_block_with_its_last_error_and_the_what_of_the_same_process_once() -> None:
    (event,) = found("".join(f"[default5]:{line}\n" for line in BLOCK.splitlines()))
    assert (event.rank, event.group_rank, event.code) == (5, 5, "ncclRemoteError")
    assert event.last_error == "socketProgressOpt: Call to recv from 10.0.0.3<47712> failed : Broken pipe"
    assert event.message == "NCCL error: remote process exited or there was a network error, NCCL version 2.21.5"


def test_what_alone_is_told() -> None:
    (event,) = found(WHAT)
    assert event.code == "ncclRemoteError"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "RuntimeError: NCCL error in: ../x/ProcessGroupNCCL.cpp:911, unhandled system error, NCCL version 2.7.8",
            "ncclSystemError",
        ),
        (
            "NCCL error in: x.cpp:1, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1",
            "ncclUnhandledCudaError",
        ),
        ("NCCL error: x, invalid usage, NCCL version 2.19.3", "ncclInvalidUsage"),
        ("NCCL timeout in: x.cpp:1, NCCL operation in progress, NCCL version 2.26.2", "ncclInProgress"),
        ("NCCL timeout in communicator initialization.", "ncclTimeout"),
        ("NCCL error: something new, NCCL version 3.0", None),
    ],
)
def test_code_from_the_error_string_where_no_line_names_it(text: str, code: str | None) -> None:
    assert [e.code for e in found(text)] == [code]


def test_no_last_error() -> None:
    (event,) = found("NCCL error in: x.cpp:1, unhandled cuda error\nLast error:\nUnknown NCCL Error\n")
    assert event.last_error is None
    (event,) = found("NCCL error in: x.cpp:1, unhandled cuda error\nLast error: Cuda failure 'out of memory'\n")
    assert event.last_error == "Cuda failure 'out of memory'"


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ("socketProgress: Connection closed by remote peer node3<51234>", "socket-error"),
        (
            "NET/IB : Got completion from peer 10.0.0.7<33812> with error 12, opcode 0, len 0, vendor err 129",
            "ib-error",
        ),
        ("Cuda failure 'uncorrectable ECC error encountered'", "cuda-error"),
    ],
)
def test_what_is_quoted_of_nccl_belongs_to_the_rank_that_quotes_it(last: str, kind: str) -> None:
    block = BLOCK.replace("socketProgressOpt: Call to recv from 10.0.0.3<47712> failed : Broken pipe", last, 1)
    other = "[rank6]:[E131 18:20:54.347690682 ProcessGroupNCCL.cpp:750] [Rank 6] Some NCCL operations have failed\n"
    first = next(e for e in parsed(other + block).events if e.kind == kind)
    assert first.rank == 5


def test_a_last_error_without_its_record_is_nobodys() -> None:
    text = "[rank5]: started\n[rank6]: started\nLast error:\nCuda failure 'uncorrectable ECC error encountered'\n"
    (event,) = parsed(text, registry.line_parsers()).events
    assert (event.kind, event.rank) == ("cuda-error", None)


def test_one_merged_log_names_the_same_board_as_a_log_for_each_rank() -> None:
    failed = (
        "[rank1]:[E111 10:09:58.000000001 ProcessGroupNCCL.cpp:2093] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group "
        "watchdog thread terminated with exception: NCCL error: unhandled cuda error, NCCL version 2.21.5\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
        "Cuda failure 'uncorrectable ECC error encountered'\n"
    )
    texts = [failed if rank == 1 else gave_up(rank, 7) for rank in range(4)]
    apart = read({f"rank_{rank}.log": text for rank, text in enumerate(texts)})
    merged = read({"job.log": "".join(texts)})
    assert (merged.cause, merged.ranks) == (apart.cause, apart.ranks) == ("hardware", "1"), f"{apart}\n{merged}"
