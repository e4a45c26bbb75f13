"""Whether the job may be started again."""

from __future__ import annotations

import dataclasses

import pytest
from builders import fixtures_conditions
from builders.advice import BOTH, ask, event, kernel

from nccldoctor.events import GpuError, IbError, KernelEvent, OutOfMemory, SchedulerEvent
from nccldoctor.model import Confidence, ConfidenceIn


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


def test_a_board_that_only_hung_may_be_well_after_a_reset():
    hung = kernel(GpuError, "ring sdma0 timeout", message="ring sdma0 timeout", weight="hang")
    got = action("hardware", hung)
    assert (got.restart, got.cordon) == ("unknown", ())
    failed = kernel(GpuError, "GPU reset(3) failed", message="GPU reset(3) failed")
    assert action("hardware", hung, failed).restart == "after-replacing-node"


def test_a_link_that_fails_again_takes_its_host_out_and_one_flap_does_not():
    def down(line):
        return dataclasses.replace(
            kernel(KernelEvent, "mlx5_0: Link down", what="link-down"), place=fixtures_conditions.at("dmesg", line, 1)
        )

    twice = action("network", down(1), down(2))
    assert (twice.restart, twice.cordon) == ("after-replacing-node", ("node1",))
    assert action("network", down(1)).restart == "unknown"
    assert action("network", down(1)).cordon == ()


def test_a_peer_that_does_not_answer_is_no_fault_of_ones_own_port():
    errors = [event(IbError, rank, text="status 12", status=12, what="completion", host="node1") for rank in (4, 5, 6)]
    assert action("network", *errors).restart == "unknown"


def test_preemption_alone_allows_a_restart():
    gone = event(SchedulerEvent, None, text="PREEMPTION", what="preempted")
    assert action("died", gone).restart == "now"
    assert action("died", gone, kernel(GpuError, "Xid 79", xid=79)).restart == "after-replacing-node"
    assert action("died", gone, confidence="low").restart == "unknown"


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


@pytest.mark.parametrize(
    "cause",
    ["not-arrived", "frozen", "died", "device-stalled", "unfinished", "network", "init", "straggler", "undetermined"],
)
def test_what_is_not_known_is_not_restarted_blindly(cause):
    got = action(cause)
    assert got.restart == "unknown"
    assert got.why
    assert got.cordon == ()


def test_the_most_restrictive_finding_decides():
    case = fixtures_conditions.case([kernel(GpuError, "Xid 79", xid=79)], kinds=BOTH)
    fix = fixtures_conditions.finding("raised", ranks=[1])
    broken = fixtures_conditions.finding("hardware", id="F2")
    unsure = dataclasses.replace(broken, confidence_in=ConfidenceIn.same(Confidence.LOW))
    assert ask(case, fix, broken).action.restart == "after-replacing-node"
    assert ask(case, fix, unsure).action.restart == "after-fix"
