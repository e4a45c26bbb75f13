"""A pod is no node: which names are pods, and what tells the node of each."""

from __future__ import annotations

import pytest
from builders.jobs.cases import said

from nccldoctor.events import CommInit, GpuError, Heartbeat, Note
from nccldoctor.identify.pods import find_pods, with_kernel_logs


def placed(pod: str, node: str) -> Note:
    return said(Note, None, what="pod-on-node", pod=pod, host=node)


def test_a_list_of_pods_tells_the_node() -> None:
    pods = find_pods([placed("w-0", "gpu-6"), placed("w-1", "gpu-7.lab.local")])
    assert pods.machine("w-0") == "gpu-6" and pods.machine("w-1.train.svc") == "gpu-7.lab.local"
    assert pods.is_pod("w-1") and not pods.is_pod("gpu-6") and pods.machine("gpu-6") == "gpu-6"
    assert pods.on("gpu-7") == ("w-1",)


def test_a_prefix_alone_tells_that_a_name_is_a_pod() -> None:
    pods = find_pods([said(Heartbeat, 0, host="w-0", pod="w-0"), said(CommInit, 0, host="w-0", pod="w-0")])
    assert pods.is_pod("w-0") and pods.machine("w-0") is None and pods.place("w-0") == "w-0"


def test_a_record_of_a_collector_names_both() -> None:
    events = [said(Heartbeat, 0, host="gpu-6", pod="w-0"), said(CommInit, 0, host="w-0", pod="w-0")]
    assert find_pods(events).machine("w-0") == "gpu-6"


def test_the_host_name_of_a_pod_is_no_node() -> None:
    pods = find_pods([said(CommInit, 0, host="train-0", pod="train-0-x7k2p")])
    assert pods.is_pod("train-0") and pods.machine("train-0") is None
    listed = find_pods([placed("train-0-x7k2p", "gpu-6")])
    assert listed.machine("train-0") == "gpu-6"
    node = find_pods([placed("gpu-6-x7k2p", "gpu-6")])
    assert not node.is_pod("gpu-6"), "a node keeps its name"


@pytest.mark.parametrize("names", [("gpu-6", "gpu-7"), ()])
def test_a_pod_that_was_moved_has_no_known_node(names: tuple[str, ...]) -> None:
    pods = find_pods([said(Heartbeat, 0, host="w-0", pod="w-0"), *(placed("w-0", node) for node in names)])
    assert pods.machine("w-0") is None


def test_without_pods_every_name_is_that_of_a_machine() -> None:
    pods = find_pods([said(Heartbeat, 0, host="gpu-6")])
    assert not pods.is_pod("gpu-6") and pods.machine("gpu-6") == "gpu-6"


def test_a_kernel_log_that_tells_of_a_rank_is_that_of_its_node() -> None:
    pods = find_pods([said(Heartbeat, r, host=f"w-{r}", pod=f"w-{r}") for r in (0, 1)])
    fault = said(GpuError, 1, host="gpu-7", xid=79)
    told = with_kernel_logs(pods, [fault], {0: "w-0", 1: "w-1"})
    assert told.machine("w-1") == "gpu-7" and told.machine("w-0") is None
    twice = with_kernel_logs(pods, [fault, said(GpuError, 1, host="gpu-8", xid=79)], {0: "w-0", 1: "w-1"})
    assert twice.machine("w-1") is None, "two nodes tell of the same rank"
