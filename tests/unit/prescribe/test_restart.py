"""Whether the job may be started again."""

from __future__ import annotations

import pytest
from builders.remedies import fixtures_conditions
from builders.remedies.advice import BOTH, ask, event, kernel, raised
from msgspec.structs import replace

from nccldoctor.events import (
    DumpSignal,
    GpuError,
    IbError,
    KernelEvent,
    Note,
    OutOfMemory,
    Phase,
    ProcessExit,
    ProcessState,
    Progress,
    RasStatus,
    SchedulerEvent,
    SocketError,
)
from nccldoctor.model import Confidence, ConfidenceIn, Evidence
from nccldoctor.prescribe.restart import ROWS


def action(cause, *events, kinds=BOTH, **more):
    return ask(fixtures_conditions.case(events, kinds=kinds), fixtures_conditions.finding(cause, **more)).action


@pytest.mark.parametrize(
    "cause", ["op-mismatch", "size-mismatch", "missed-call", "order-inversion", "unmatched-p2p", "raised"]
)
def test_a_fault_of_the_program_needs_a_fix(cause):
    assert action(cause).restart == "after-fix"


def test_a_faulty_device_takes_its_host_out():
    got = action("hardware", kernel(GpuError, "Xid 79", xid=79))
    assert (got.restart, got.cordon) == ("after-replacing-node", ("node1",))


def test_a_board_that_only_hung_is_reset_while_the_job_runs_elsewhere():
    hung = kernel(GpuError, "ring sdma0 timeout", message="ring sdma0 timeout", weight="hang")
    got = action("hardware", hung)
    assert (got.restart, got.cordon) == ("after-replacing-node", ("node1",))
    assert "reset" in got.why
    failed = kernel(GpuError, "GPU reset(3) failed", message="GPU reset(3) failed")
    assert action("hardware", hung, failed).restart == "after-replacing-node"


def test_a_link_that_fails_again_takes_its_host_out_and_one_flap_does_not():
    def down(line):
        return replace(
            kernel(KernelEvent, "mlx5_0: Link down", what="link-down"), place=fixtures_conditions.at("dmesg", line, 1)
        )

    twice = action("network", down(1), down(2))
    assert (twice.restart, twice.cordon) == ("after-replacing-node", ("node1",))
    assert action("network", down(1)).restart == "now"
    assert action("network", down(1)).cordon == ()


def test_a_peer_that_does_not_answer_is_no_fault_of_ones_own_port():
    errors = [event(IbError, rank, text="status 12", status=12, what="completion", host="node1") for rank in (4, 5, 6)]
    assert (action("network", *errors).restart, action("network", *errors).cordon) == ("now", ())


def test_preemption_alone_allows_a_restart():
    gone = event(SchedulerEvent, None, text="PREEMPTION", what="preempted")
    assert action("died", gone).restart == "now"
    assert action("died", gone, kernel(GpuError, "Xid 79", xid=79)).restart == "after-replacing-node"
    assert action("died", event(SchedulerEvent, None, text="TIME LIMIT", what="time-limit")).restart == "now"


LOW = "The node was low on resource: ephemeral-storage. Container pytorch was using 212Gi, request is 0."


@pytest.mark.parametrize(
    ("said", "restart"),
    [
        (LOW, "after-fix"),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 20Gi.", "after-fix"),
        ("Reason:  Evicted", "unknown"),
        ("TaintManagerEviction pod/w-2 Marking for deletion", "now"),
    ],
)
def test_an_eviction_for_ones_own_use_comes_back(said: str, restart: str):
    assert action("died", event(SchedulerEvent, None, text=said, what="evicted", detail=said)).restart == restart


def test_want_of_memory_comes_back():
    assert action("died", kernel(OutOfMemory, "Killed process", scope="host")).restart == "after-fix"


def test_an_undetermined_job_is_not_restarted_blindly():
    got = action("undetermined")
    assert (got.restart, got.cordon) == ("unknown", ())
    assert "would show" in got.why


HEARD = event(Progress, text="step 7", step=7)


@pytest.mark.parametrize("cause", ["not-arrived", "died", "unfinished", "network", "init", "straggler"])
def test_what_need_not_happen_again_is_restarted_once(cause):
    assert action(cause, HEARD).restart == "now"


@pytest.mark.parametrize("cause", ["not-arrived", "init"])
def test_the_log_of_a_missing_rank_is_read_before_a_restart(cause):
    got = action(cause)
    assert got.restart == "unknown"
    assert "log" in got.why
    assert action(cause, fixtures_conditions.stack(5, "all_reduce (torch/distributed/x.py:9)")).restart == "now"


@pytest.mark.parametrize("cause", ["not-arrived", "frozen", "init"])
def test_a_hang_that_stands_is_looked_at_before_a_restart(cause):
    look = event(RasStatus, None, text="RAS")
    got = action(cause, HEARD, look)
    assert got.restart == "unknown"
    assert "a restart loses the evidence" in got.why
    ended = event(ProcessExit, 0, text="exitcode", exitcode=-15, reporter="torchrun")
    assert action(cause, HEARD, look, ended).restart != "unknown", "it stands no more"
    seen = fixtures_conditions.stack(5, "all_reduce (torch/distributed/x.py:9)")
    assert action(cause, HEARD, look, seen).restart != "unknown", "its stack was taken"


def test_a_kill_without_a_kernel_log_may_be_want_of_memory():
    killed = event(ProcessExit, text="exitcode", reporter="torchrun", signal="SIGKILL", exitcode=-9)
    got = action("died", killed, kinds=BOTH[:1])
    assert got.restart == "unknown"
    assert "kernel log" in got.why
    assert action("died", killed, kinds=BOTH).restart == "now", "the kernel log shows no OOM kill"


def test_a_kill_of_a_process_without_a_rank_may_be_want_of_memory_too():
    place = fixtures_conditions.at("launch.out", 7)
    killed = ProcessExit(place=place, text="return code = -9", reporter="deepspeed", signal="SIGKILL", exitcode=-9)
    got = action("died", killed, kinds=BOTH[:1], ranks=(), evidence=(Evidence(place, "-9", "it was killed"),))
    assert got.restart == "unknown" and "kernel log" in got.why


def test_shared_memory_that_ran_out_stops_init_again():
    assert action("init", event(Note, text="No space left", what="shm-exhausted")).restart == "after-fix"


def test_another_line_of_the_same_function_is_a_line_of_its_own():
    own = fixtures_conditions.stack(5, "main (/opt/train/train.py:107)")
    peer = fixtures_conditions.stack(0, "all_reduce (torch/distributed/x.py:9)", "main (/opt/train/train.py:128)")
    assert action("not-arrived", own, peer).restart == "after-fix"


@pytest.mark.parametrize("cause", ["frozen", "not-arrived"])
def test_a_silent_rank_is_not_restarted_before_it_is_known_how_its_process_ended(cause):
    silent = action(cause, HEARD, confidence="low")
    assert silent.restart == "unknown"
    assert "exit code" in silent.why
    assert "launcher" in silent.steps[0].text
    ended = event(ProcessExit, 0, text="exitcode : 1 (pid: 7)", exitcode=1)
    after = action(cause, HEARD, ended, confidence="low")
    assert after.restart == "now"
    assert not any("launcher" in step.text for step in after.steps)
    answered = event(DumpSignal, 5, text="Received a dump signal", from_rank=0)
    assert action(cause, HEARD, answered, confidence="low").restart == "now"


@pytest.mark.parametrize(
    ("seen", "tool"),
    [
        (event(SchedulerEvent, None, text="started", what="started", by="slurm"), "sacct"),
        (event(SchedulerEvent, None, text="started", what="started", by="kubernetes"), "kubectl describe"),
    ],
)
def test_how_a_silent_process_ended_is_asked_of_what_started_it(seen, tool):
    first = action("not-arrived", HEARD, seen, confidence="low").steps[0]
    assert tool in first.command
    assert first.text.endswith("and run `nccldoctor analyze` again.")


@pytest.mark.parametrize("cause", ["frozen", "device-stalled"])
def test_the_host_of_a_process_that_stopped_by_itself_is_left_out(cause):
    got = action(cause)
    assert (got.restart, got.cordon) == ("after-replacing-node", ("node1",))


def test_a_process_that_a_signal_stopped_says_nothing_of_its_host():
    stopped = event(ProcessState, state="stopped", text="5 T")
    assert action("frozen", stopped).restart == "now"


def test_a_function_that_only_the_culprit_is_in_will_hang_again():
    own = fixtures_conditions.stack(5, "refresh_table (/opt/train/train.py:121)")
    peer = fixtures_conditions.stack(0, "all_reduce (torch/distributed/x.py:9)", "step (/opt/train/train.py:114)")
    alike = fixtures_conditions.stack(0, "refresh_table (/opt/train/train.py:121)")
    got = action("not-arrived", own, peer)
    assert got.restart == "after-fix"
    assert "refresh_table" in got.why
    assert action("not-arrived", own, alike).restart == "now", "all ranks are in it"
    assert action("not-arrived", own, peer, confidence="low").restart == "unknown"


@pytest.mark.parametrize(("seconds", "restart"), [(700.0, "after-fix"), (60.0, "now")])
def test_work_that_takes_longer_than_the_timeout_will_do_so_again(seconds, restart):
    saved = event(Phase, text="checkpoint written", what="checkpoint", detail="done: checkpoint", seconds=seconds)
    assert action("straggler", saved).restart == restart


def test_a_breakpoint_waits_for_a_person():
    assert action("not-arrived", event(Note, text="(Pdb)", what="debugger")).restart == "after-fix"


@pytest.mark.parametrize(
    ("end", "restart"),
    [
        ({"signal": "SIGKILL", "exitcode": -9}, "now"),
        ({"signal": "SIGSEGV", "exitcode": -11}, "now"),
        ({"exitcode": 1}, "after-fix"),
        ({"exitcode": 0}, "after-fix"),
    ],
)
def test_how_a_process_ended_decides(end, restart):
    got = action("died", event(ProcessExit, text="exitcode", reporter="torchrun", **end))
    assert got.restart == restart


def test_a_host_that_went_away_with_all_its_ranks_is_replaced():
    got = action("died", ranks=(4, 5, 6, 7))
    assert (got.restart, got.cordon) == ("after-replacing-node", ("node1",))
    assert action("died", ranks=range(8)).restart == "now", "no host is left that the lost ones differ from"


@pytest.mark.parametrize(
    ("type_", "restart"),
    [("FileNotFoundError", "after-fix"), ("botocore.exceptions.ReadTimeoutError", "now")],
)
def test_a_remote_service_that_failed_may_be_well_again(type_, restart):
    assert action("raised", raised(type_)).restart == restart


def test_a_full_disk_stays_full():
    assert (
        action("raised", raised("OSError"), event(Note, text="No space left", what="disk-full")).restart == "after-fix"
    )


def test_an_address_that_nobody_reaches_stays_unreached():
    refused = event(SocketError, text="connect to 10.0.0.1 failed", peer="10.0.0.1")
    assert action("init", refused).restart == "after-fix"


def test_low_confidence_decides_only_what_does_not_hang_on_it():
    assert action("unfinished", HEARD, confidence="low").restart == "now"
    assert action("size-mismatch", confidence="low").restart == "unknown"
    assert action("died", kernel(OutOfMemory, "Killed process", scope="host"), confidence="low").restart == "after-fix"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{'-'.join(row.class_)}{row.family}-{row.sign}")
def test_every_answer_is_a_sentence_and_an_open_one_says_what_would_decide(row):
    assert row.why.endswith(".")
    assert row.restart in ("now", "after-fix", "after-replacing-node", "unknown")
    if row.restart == "unknown" and row.class_ != ("none",):
        assert "would show" in row.why


def test_the_most_restrictive_finding_decides():
    case = fixtures_conditions.case([kernel(GpuError, "Xid 79", xid=79)], kinds=BOTH)
    fix = fixtures_conditions.finding("raised", ranks=[1])
    broken = fixtures_conditions.finding("hardware", id="F2")
    unsure = replace(broken, confidence_in=ConfidenceIn.same(Confidence.LOW))
    assert ask(case, fix, broken).action.restart == "after-replacing-node"
    assert ask(case, fix, unsure).action.restart == "after-fix"
