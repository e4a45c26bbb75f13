"""Messages by their roles: told where they are the last word of a rank, moot where it went on, no blame for who reports others."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccldoctor
from nccldoctor.incident import Incident
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.steps import StepKind

RANKS = range(6)


def steps(rank: int, last: int) -> list[str]:
    return [
        f"2026-04-08 14:{n // 6:02d}:{n % 6 * 10:02d},000 INFO [rank {rank}] fit: step={n} loss=2.5"
        for n in range(last)
    ]


def timeout(rank: int) -> str:
    return (
        f"[rank{rank}]:[E408 14:15:31.300114200 ProcessGroupNCCL.cpp:686] [Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=212, OpType=ALLREDUCE, NumelIn=512, NumelOut=512, Timeout(ms)=600000) ran for 600021 milliseconds before "
        "timing out."
    )


def warning(rank: int, text: str, at: str, origin: str) -> str:
    return f"[2026-04-08 {at}] node3:{7000 + rank}:{7100 + rank} [{rank}] {origin} NCCL WARN {text}"


def traceback(
    message: str, kind: str = "RuntimeError", call: str = "dist.all_reduce(norm)", torch: str = "all_reduce"
) -> list[str]:
    return [
        "Traceback (most recent call last):",
        '  File "/srv/fit.py", line 88, in <module>',
        "    run()",
        '  File "/srv/fit.py", line 51, in run',
        f"    {call}",
        f'  File "/opt/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 2940, in {torch}',
        "    work.wait()",
        f"{kind}: {message}",
    ]


def analyze(folder: Path, logs: dict[int, list[str]]) -> Incident:
    for rank, lines in logs.items():
        (folder / f"rank_{rank}.log").write_text("\n".join([*lines, ""]))
    return nccldoctor.analyze(folder)


def stopped(folder: Path, last_words: list[str], rank: int = 4) -> Incident:
    """This rank makes 30 steps, says something and falls silent; the others time out."""
    return analyze(folder, {r: [*steps(r, 30), *(last_words if r == rank else [timeout(r)])] for r in RANKS})


@pytest.mark.parametrize(
    ("origin", "text", "remedy"),
    [
        ("proxy.cc:298", "List loop at element 12-13", "library-complaint"),
        ("misc/argcheck.cc:204", "Reduce : invalid root 9 (root should be in the 0..6 range)", "library-complaint"),
        ("ofi_rail_init:2061", "NET/OFI Invalid device provided", "library-complaint"),
    ],
)
def test_the_last_warning_of_the_missing_rank_is_told(tmp_path: Path, origin: str, text: str, remedy: str) -> None:
    found = stopped(tmp_path, [warning(4, text, "14:05:02", origin)])

    report = " ".join(found.to_full_text(width=200).split())
    assert text in report
    assert "No file shows" not in report
    assert found.diagnosis.remedies[0].id == remedy
    assert (str(found.verdict.ranks), found.verdict.cause) == ("4", CauseClass.NOT_ARRIVED)


def test_without_a_warning_a_stack_is_asked_for(tmp_path: Path) -> None:
    assert "No stack of rank 4 was read." in " ".join(stopped(tmp_path, []).to_full_text().split())


def test_a_warning_proves_nothing(tmp_path: Path) -> None:
    """The confidence is that of the job without it."""
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    told = stopped(tmp_path / "with", [warning(4, "List loop at element 12-13", "14:05:02", "proxy.cc:298")]).verdict
    plain = stopped(tmp_path / "without", []).verdict
    assert (told.confidence, told.cause, told.ranks) == (plain.confidence, plain.cause, plain.ranks)


def test_an_echo_that_ended_the_missing_rank_is_told_with_its_place(tmp_path: Path) -> None:
    found = stopped(tmp_path, traceback("Socket Timeout"))

    assert str(found.verdict.ranks) == "4"
    assert found.verdict.headline.endswith("it ended with RuntimeError in run (fit.py:51).")
    report = " ".join(found.to_full_text().split())
    assert "No exit code, stack or dump" not in report
    assert "Its exception only reports another failure" in report


SET_UP = "NET/OFI fi_open_ops for EFA features failed. RC: -38, ERROR: Function not implemented"


def test_a_feature_that_the_plugin_goes_on_without_accuses_nobody(tmp_path: Path) -> None:
    (tmp_path / "well").mkdir()
    (tmp_path / "hung").mkdir()
    notice = [[warning(r, SET_UP, "13:59:58", "nccl_net_ofi_device_init:583")] for r in RANKS]
    done = {
        r: [*notice[r], *steps(r, 30), f"2026-04-08 14:05:00,000 INFO [rank {r}] fit: training finished"] for r in RANKS
    }
    assert analyze(tmp_path / "well", done).verdict.cause is CauseClass.NONE
    hung = {r: [*notice[r], *steps(r, 30), *([] if r == 1 else [timeout(r)])] for r in RANKS}
    found = analyze(tmp_path / "hung", hung).verdict
    assert (str(found.ranks), found.cause) == ("1", CauseClass.NOT_ARRIVED)


def test_a_failed_transfer_of_a_rank_that_went_on_stepping_is_moot(tmp_path: Path) -> None:
    """Rank 3 loses one at step 10 and steps on; rank 1 is the one that stops."""
    lost = "NET/IB: Got completion from peer 10.4.0.9<41000> with status=12 opcode=0 len=0 vendor err 129"
    logs = {r: [*steps(r, 30), *([] if r == 1 else [timeout(r)])] for r in RANKS}
    logs[3].insert(10, warning(3, lost, "14:01:35", "transport/net_ib/p2p.cc:688"))
    found = analyze(tmp_path, logs)
    assert (str(found.verdict.ranks), found.verdict.cause) == ("1", CauseClass.NOT_ARRIVED)
    assert found.diagnosis.remedies[0].id == "busy-elsewhere"


@pytest.mark.parametrize("below", [1, 2])
def test_one_step_below_an_error_without_a_time_may_have_been_printed_late(tmp_path: Path, below: int) -> None:
    """Rank 1 may be waiting for rank 3, unless rank 3 went on."""
    lost = "NET/OFI Request 0x9 completed with error. RC: 113. Error: 4124 (Unresponsive receiver)."
    logs = {r: [*steps(r, 30), *([] if r == 1 else [timeout(r)])] for r in RANKS}
    logs[3].insert(30 - below, f"node3:7003:7103 [3] ofi_process_cq:1516 NCCL WARN {lost}")
    assert ("probably" in analyze(tmp_path, logs).verdict.headline) is (below == 1)


NO_ADDRESS = "[enforce fail at ../gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: bond4"
STORE = "wait timeout after 900000ms, keys: /default_pg/0/0/store_based_barrier"


def starting(folder: Path, ends: dict[int, list[str]]) -> Incident:
    return analyze(
        folder,
        {r: [f"2026-04-08 14:00:00,000 INFO [rank {r}] fit: starting, world_size=6", *end] for r, end in ends.items()},
    )


def began(message: str, kind: str = "RuntimeError") -> list[str]:
    return traceback(message, kind, "dist.init_process_group('gloo')", "init_process_group")


def test_an_interface_that_one_host_lacks_is_its_own_fault(tmp_path: Path) -> None:
    store = began(STORE, "torch.distributed.DistStoreError")
    found = starting(tmp_path, {r: began(NO_ADDRESS) if r == 5 else store for r in RANKS})

    assert (str(found.verdict.ranks), found.verdict.cause) == ("5", CauseClass.RAISED)
    assert found.diagnosis.remedies[0].id == "wrong-interface"


def test_a_port_that_is_taken_is_the_fault_of_its_host(tmp_path: Path) -> None:
    taken = "The server socket has failed to listen on any local network address. port: 29611, useIpv6: false, code: -98, name: EADDRINUSE"
    late = "The client socket has timed out after 900000ms while trying to connect to (node3, 29611)."
    found = starting(tmp_path, {r: began(late if r else taken, "torch.distributed.DistNetworkError") for r in RANKS})

    assert found.verdict.cause is CauseClass.INIT
    assert "port 29611 is already in use" in found.verdict.headline
    assert found.diagnosis.remedies[0].id == "stray-old-process"


@pytest.mark.parametrize(
    "message",
    [
        "Barrier timed out after 45 seconds",
        "Executor failed.",
        "Timed out waiting for new engines to come up",
        "Failed to receive worker ports from node 1 within timeout",
        "Detected at least one rank that exhausted inputs. Throwing across all ranks.",
        "timed out waiting for all 6 members to join",
    ],
)
def test_an_exception_that_reports_others_is_no_crash_of_its_own(tmp_path: Path, message: str) -> None:
    found = stopped(tmp_path, traceback(message, call="engine.step()")).verdict
    assert found.cause is not CauseClass.RAISED
    assert found.confidence is not Confidence.HIGH


def test_a_process_in_uninterruptible_sleep_is_told_by_the_agent(tmp_path: Path) -> None:
    logs = {
        r: [f"2026-04-08 13:59:59,000 INFO [rank {r}] fit: pid={7000 + r} host=node3", *steps(r, 30)] for r in RANKS
    }
    (tmp_path / "torchrun.log").write_text(
        "[2026-04-08 14:15:05,000] [ERROR] elastic.agent: [default] Worker pid=7004 stuck in uninterruptible sleep (D-state) for 615s\n"
    )
    found = analyze(tmp_path, {r: [*lines, *([] if r == 4 else [timeout(r)])] for r, lines in logs.items()})
    assert str(found.verdict.ranks) == "4"
    assert "uninterruptible sleep" in found.to_full_text(width=200)


DEFINITE = [
    (
        "include/ibvwrap.h:84",
        "ibv_post_send() failed with error Cannot allocate memory, Bad WR 0x7f0a wr_id 9",
        "memlock-limit",
    ),
    ("include/ibvwrap.h:67", "ibv_poll_cq() returned -1", "rdma-setup-failed"),
    ("net_ib/init.cc:318", "NET/IB : Unable to open device mlx5_6", "rdma-setup-failed"),
    ("net_ib/common.cc:21", "communicator encountered a fatal error (detected in ncclIbIrecv)", "ib-link-flap"),
    ("net_ib/p2p_resiliency.cc:301", "NET/IB: Device 2 marked as failed. Initiating recovery? 1", "ib-link-flap"),
    (
        "misc/socket.cc:302",
        "Net : error encountered when getting address info : Name or service not known",
        "unresolved-name",
    ),
    ("include/alloc.h:231", "Failed to CUDA calloc 33554432 bytes", "cuda-oom-one-rank"),
    ("include/alloc.h:92", "Failed to CUDA host alloc 131072 bytes", "memory-exhausted-host"),
    ("bootstrap.cc:212", "Message truncated : received 512,16 bytes instead of 256,16", "env-mismatch"),
    (
        "init.cc:75",
        "Attempt to use communicator before the previous operation returned ncclSuccess",
        "library-complaint",
    ),
    ("proxy.cc:1523", "[Service thread] Accept failed Too many open files", "fd-exhaustion"),
]
"""Origin, message and the remedy that comes first where it is the last word of the missing rank."""


@pytest.mark.parametrize(("origin", "text", "remedy"), DEFINITE)
def test_a_definite_last_word_leads_to_its_remedy(tmp_path: Path, origin: str, text: str, remedy: str) -> None:
    found = stopped(tmp_path, [warning(4, text, "14:05:02", origin)])
    assert (str(found.verdict.ranks), found.verdict.cause) == ("4", CauseClass.NOT_ARRIVED)
    assert found.diagnosis.remedies[0].id == remedy
    assert found.diagnosis.action.steps[0].kind in (StepKind.CHECK, StepKind.FIX), (
        "what to do about it is the first step"
    )


@pytest.mark.parametrize(("origin", "text", "remedy"), DEFINITE)
def test_a_definite_warning_of_a_job_that_ends_well_is_moot(
    tmp_path: Path, origin: str, text: str, remedy: str
) -> None:
    logs = {r: [*steps(r, 30), f"2026-04-08 14:05:00,000 INFO [rank {r}] fit: training finished"] for r in RANKS}
    logs[4].insert(12, warning(4, text, "14:01:55", origin))
    assert analyze(tmp_path, logs).verdict.cause is CauseClass.NONE


def test_a_lost_board_and_a_dead_queue_are_moot_where_their_rank_goes_on(tmp_path: Path) -> None:
    lost = ("misc/nvmlwrap.cc:211", "nvmlDeviceGetHandleByIndex(4) failed: GPU is lost")
    dead = (
        "net_ib/common.cc:98",
        "NET/IB : mlx5_4:1 async fatal event on QP (0x7f8, qpn 77, local GID fe80::a0, remote GID fe80::b1): "
        "local work queue catastrophic error",
    )
    for name, (origin, text), cause in (("board", lost, CauseClass.HARDWARE), ("queue", dead, CauseClass.NETWORK)):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}-well").mkdir()
        found = stopped(tmp_path / name, [warning(4, text, "14:05:02", origin)])
        assert (str(found.verdict.ranks), found.verdict.cause) == ("4", cause)
        well = {r: [*steps(r, 30), f"2026-04-08 14:05:00,000 INFO [rank {r}] fit: training finished"] for r in RANKS}
        well[4].insert(12, warning(4, text, "14:01:55", origin))
        assert analyze(tmp_path / f"{name}-well", well).verdict.cause is CauseClass.NONE


def test_a_read_that_is_tried_again_is_a_stall_of_the_data_and_no_crash(tmp_path: Path) -> None:
    tries = [
        f"2026-04-08 14:05:{n}0,000 WARNING [rank 4] Attempt {n}/5 to read data item 881 failed with OSError: [Errno 5] "
        "Input/output error; going to sleep for 600 s"
        for n in (1, 2)
    ]
    found = stopped(tmp_path, tries)
    assert (str(found.verdict.ranks), found.verdict.cause) == ("4", CauseClass.NOT_ARRIVED)
    assert found.diagnosis.remedies[0].id == "dataloader-stall"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("Failed to CUDA calloc async 33554432 bytes", "cuda-oom-one-rank"),
        ("Failed to CUDA host alloc 131072 bytes", "memory-exhausted-host"),
    ],
)
def test_the_last_error_that_pytorch_quotes_is_read_as_the_warning_that_it_was(
    tmp_path: Path, text: str, remedy: str
) -> None:
    words = f"NCCL error in: ProcessGroupNCCL.cpp:3384, internal error, NCCL version 2.21.5\nncclInternalError: x\nLast error:\n{text}"
    ends = traceback(words, "torch.distributed.DistBackendError")
    found = analyze(
        tmp_path,
        {
            r: [
                f"2026-04-08 14:00:00,000 INFO [rank {r}] fit: starting, world_size=6",
                *(ends if r == 4 else [timeout(r)]),
            ]
            for r in RANKS
        },
    )
    assert found.diagnosis.remedies[0].id == remedy
    assert "it ended with DistBackendError" in found.verdict.headline
