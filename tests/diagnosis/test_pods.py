"""A pod is no node: advice about hardware names the node, and nobody is told to drain a pod."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import Ruling, read
from builders.logs.lines import caught

LIST = (
    "NAME             READY   STATUS    RESTARTS   AGE   IP            NODE    NOMINATED NODE   READINESS GATES\n"
    "train-worker-0   1/1     Running   0          41m   10.244.3.11   gpu-6   <none>           <none>\n"
    "train-worker-1   0/1     Error     0          41m   10.244.4.9    gpu-7   <none>           <none>\n"
)
EVENT = "7m Normal Scheduled pod/train-worker-1 Successfully assigned ml/train-worker-1 to gpu-7\n"
FELL = "[Wed Sep  3 10:48:00 2025] NVRM: Xid (PCI:0000:2b:00): 79, pid=4242, name=python, GPU has fallen off the bus.\n"


def train_log(prefix: str = "[pod/{pod}/pytorch] ") -> str:
    """Rank 5 is the second GPU of the second pod, and the only one that does not complain."""
    out = []
    for rank in range(8):
        pod, local = f"train-worker-{rank // 4}", rank % 4
        text = (
            f"{pod}:{17 + local}:90 [{local}] NCCL INFO ncclCommInitRankConfig comm 0x55a{rank} rank {rank} nranks 8 cudaDev {local} "
            f"nvmlDev {local} busId {local + 1}b000 commId 0x77a - Init COMPLETE\n"
        )
        out += [
            prefix.format(pod=pod) + line
            for line in (text, f"[rank{rank}]: step 17 loss 2.1\n", "" if rank == 5 else caught(rank, 18))
            if line
        ]
    return "".join(out)


def cordoned(ruling: Ruling) -> tuple[list[str], str]:
    """The hosts to take out, and everything that the first remedy says."""
    action, remedy = ruling.document["action"], ruling.document["remedies"][0]
    return action["cordon"], " ".join((*remedy["fix"], *remedy["confirm"], action["why"]))


@pytest.mark.parametrize(
    "more",
    [{"pods.txt": LIST}, {"events.txt": EVENT}],
    ids=["list", "event"],
)
def test_the_node_of_the_pod_is_taken_out(more: dict[str, str]) -> None:
    ruling = read({"kube.log": train_log(), "gpu-7.dmesg.txt": FELL, **more})
    assert (ruling.cause, ruling.ranks) == ("hardware", "5"), str(ruling)
    hosts, text = cordoned(ruling)
    assert hosts == ["gpu-7"] and "Drain gpu-7" in text and "train-worker" not in text
    assert "gpu-7" in ruling.document["job"]["hosts"]


def test_an_error_of_another_node_is_not_that_of_the_pod() -> None:
    ruling = read({"kube.log": train_log(), "gpu-9.dmesg.txt": FELL, "pods.txt": LIST})
    assert ruling.verdict["confidence"] != "high" and "train-worker-1" not in ruling.document["action"]["cordon"], str(
        ruling
    )


def test_a_kernel_log_that_names_the_process_tells_the_node() -> None:
    ruling = read({"kube.log": train_log(), "gpu-7.dmesg.txt": FELL.replace("4242", "18")})
    assert (ruling.cause, cordoned(ruling)[0]) == ("hardware", ["gpu-7"]), (
        "two pods have a process 18, the node is that of the log"
    )
    hosts, text = cordoned(
        read({"kube.log": train_log().replace("1:18:", "1:318:"), "gpu-7.dmesg.txt": FELL.replace("4242", "318")})
    )
    assert hosts == ["gpu-7"] and "Drain gpu-7" in text


def test_where_no_line_names_the_node_the_command_that_shows_it_is_given() -> None:
    own = "[pod/train-worker-1/pytorch] " + FELL
    hosts, text = cordoned(read({"kube.log": train_log() + own.replace("4242", "18")}))
    assert hosts == [], "nobody can cordon a pod"
    assert "Drain the node of pod train-worker-1 (`kubectl get pod train-worker-1 -o wide`)" in text
    assert "Drain the node of pod train-worker-1" in text


def test_a_process_is_looked_at_inside_its_pod() -> None:
    silent = read({"kube.log": train_log(), "pods.txt": LIST})
    assert silent.ranks == "5", str(silent)
    steps = " ".join(step for remedy in silent.document["remedies"] for step in remedy["confirm"])
    assert "pod train-worker-1 (kubectl exec)" in steps and "-p 18 on host" not in steps


def test_a_machine_is_no_pod() -> None:
    """The same job under Slurm: the names of its hosts are machines."""
    hosts, text = cordoned(read({"train.log": train_log("{pod}: "), "train-worker-1.dmesg.txt": FELL}))
    assert hosts == ["train-worker-1"] and "Drain train-worker-1" in text


@pytest.mark.parametrize(("ranks_each", "ranks", "suspects"), [(1, "1", ""), (2, "", "2-3")])
def test_the_ranks_of_a_pod_that_ran_out_of_memory(ranks_each: int, ranks: str, suspects: str) -> None:
    out = [
        f"[pod/train-worker-{rank // ranks_each}/pytorch] [rank{rank}]: 2026-03-02 10:00:0{step},000 INFO step={step} loss=2.1\n"
        for step in range(3)
        for rank in range(2 * ranks_each)
    ]
    ruling = read({"kube.log": "".join(out), "pods.txt": "train-worker-1   0/1     OOMKilled   1   41m\n"})
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("died", ranks, suspects), str(ruling)


def test_a_description_of_the_killed_pod_names_its_rank() -> None:
    described = (
        "Name:             resnet-worker-2\nNamespace:        vision\nNode:             cpu-4/10.1.0.4\nContainers:\n  main:\n"
        "    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
        "    Environment:\n      WORLD_SIZE:  4\n      RANK:        3\n"
    )
    ruling = read({"pod.txt": described})
    assert (ruling.cause, ruling.ranks) == ("died", "3") and "memory" in ruling.verdict["headline"], str(ruling)
