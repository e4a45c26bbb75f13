"""Kinds of jobs on which an earlier build erred, with what the ranks do and say. None of these jobs stands in any measurement."""

from __future__ import annotations

from staged.play import Scene
from staged.scenes.absent import BUSY, ERRORS, traceback
from staged.scenes.stage import Stage, strange
from staged.truth import DISAGREE

ANSWERED: dict[str, object] = {
    "shape": ["ddp", "fsdp"],
    "release": ["2.6", "2.7", "2.8", "2.9"],
    "sources": "logs+dumps",
    "layout": "per_rank",
}
"""Every rank that lives answers the dump signal, in its log and by a dump."""


@strange(**ANSWERED, hosts=[2, 3])
def error_after_the_timeout(stage: Stage) -> Scene:
    """A peer raises an exception after its group has given up; the rank at fault was busy all the time."""
    out, peer = busy(stage)
    kind, text = stage.rng.choice(ERRORS[:4])
    words = text.format(n=stage.rng.randrange(40, 900), m=stage.rng.randrange(8, 39))
    out.said.append((limit(stage) + 4.0, peer, traceback(stage, peer, kind, words)))
    return out


@strange(**ANSWERED, hosts=[2, 3], launcher="torchrun")
def crash_while_giving_up(stage: Stage) -> Scene:
    """A survivor's abort ends in a segmentation fault; the rank at fault was busy all the time."""
    out, peer = busy(stage)
    out.codes[peer] = -11
    return out


@strange(sources="logs", layout="per_rank", shape="ddp", release=["2.6", "2.7", "2.8", "2.9"], hosts=[1, 2], per_host=4)
def other_call_site(stage: Stage) -> Scene:
    """One rank skips a call: the stack traces that the watchdogs print show it at another line of the program."""
    rank = stage.someone()
    stage.plan.dumps_on = stage.plan.stacks_in_dumps = True
    calls = list(stage.programs[rank][stage.at])
    gone = calls.pop(0)
    stage.rewrite(rank, calls)
    return Scene("missed-call", (rank,), DISAGREE, group=gone.group, told=(True, False))


@strange(sources="all", layout="per_rank", shape=["ddp", "fsdp"], hosts=[2, 3], per_host=[4, 8], nccl_info=False)
def journal_without_a_process(stage: Stage) -> Scene:
    """One rank prints the error of its device; the kernel's line on that host names no process."""
    rank = stage.someone()
    out = stage.leave(Scene("hardware", (rank,), told=(True, True), named_by="log"), rank, "gone")
    out.dead[rank] = (2.0, 1, "itself")
    kind = "torch.AcceleratorError" if stage.plan.number >= (2, 8) else "RuntimeError"
    out.said.append((0.6, rank, traceback(stage, rank, kind, "CUDA error: uncorrectable ECC error encountered")))
    bus = f"PCI:0000:{stage.plan.bus(rank):02x}:00"
    text = f"NVRM: Xid ({bus}): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No"
    out.kernel.append((0.2, stage.plan.host(rank), text))
    return out


@strange(sources="logs", layout="per_rank", shape="ddp", release=["2.4", "2.6", "2.7", "2.9"], hosts=1, per_host=4)
def ahead_in_a_broadcast(stage: Stage) -> Scene:
    """One of four ranks has issued a broadcast that nobody else issues; its counter is one ahead."""
    rank = stage.someone()
    calls = list(stage.programs[rank][stage.at])
    world = stage.plan.groups[0]
    more = type(calls[0])(world, "broadcast", 3, 3, "Float", ("share_state", 266))
    stage.rewrite(rank, [*calls[:1], more, *calls[1:]])
    return Scene("extra-call", (rank,), DISAGREE, group=world, told=(True, False))


@strange(sources="stacks", layout="per_rank", shape="ddp", hosts=[1, 2], per_host=[4, 8])
def same_helper_other_caller(stage: Stage) -> Scene:
    """All ranks stand in the same helper; one of them was led there from another place of the program."""
    rank = stage.someone()
    calls = list(stage.programs[rank][stage.at])
    gone = calls.pop(0)
    stage.rewrite(rank, calls)
    out = Scene("missed-call", (rank,), (*DISAGREE, "not-arrived"), ending="live", group=gone.group, told=(True, False))
    out.doing = dict.fromkeys(range(stage.plan.world), "agrees on a step")
    out.doing[rank] = "agrees on an epoch"
    return out


@strange(sources="all", layout="per_rank", shape="pp_dp", release=["2.6", "2.7", "2.9"], hosts=4, per_host=4, mean=True)
def chain_of_receives(stage: Stage) -> Scene:
    """The first stage of a pipeline leaves out its send and goes on; all later stages wait in a receive."""
    stage.plan.dumps_on = True
    chain = stage.plan.group_of("pp", stage.someone())
    rank = chain.members[0]
    calls = stage.programs[rank][stage.at]
    stage.rewrite(rank, [call for call in calls if call.op != "send"])
    return Scene("unmatched-p2p", (rank,), group=chain, told=(True, True))


@strange(sources="logs", layout="per_rank", shape=["ddp", "fsdp"], hosts=[1, 2], per_host=[4, 8], launcher="none")
def silent_one_left_early(stage: Stage) -> Scene:
    """All ranks but one fail with closed connections; that one ended before them, without a word."""
    rank = stage.someone()
    out = Scene("died", (rank,), ("not-arrived", "missed-call"), ending="crash", told=(True, False))
    out.away[rank], out.doing[rank] = (stage.at, 0), "gone"
    out.dead[rank] = (0.0, 0, "itself")
    for peer in range(stage.plan.world):
        out.said.append((-30.0, peer, f"rank {peer}: 4096 samples loaded"))
        if peer != rank:
            text = f"[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.3.7]:{41_000 + peer}"
            out.said.append((0.3 + peer / 50, peer, traceback(stage, peer, "RuntimeError", text)))
            out.dead[peer] = (1.0 + peer / 50, 1, "itself")
    return out


@strange(sources="logs", layout="merged", shape="ddp", release="2.1", hosts=[1, 2], per_host=[4, 8])
def labels_of_the_script(stage: Stage) -> Scene:
    """The program labels its lines in its own way, and the last of one rank says what it does."""
    out, _ = busy(stage, told=(True, False))
    world = stage.plan.world
    label = stage.rng.choice(["[r{r}]", "R{r}:", "p{r} |", "[{r}]", "{r}/{n}"])
    for rank in range(world):
        for back in range(4, 0, -1):
            seen = f"{label.format(r=rank, n=world)} batch done, {512 * (40 - back)} samples"
            out.said.append((-back * stage.plan.step_time, rank, seen))
    (culprit,) = out.culprits
    out.said.append((0.1, culprit, f"{label.format(r=culprit, n=world)} rebuilding the index of shard 17"))
    return out


@strange(sources="logs+stacks", layout=["per_rank", "tagged"], shape=["ddp", "fsdp"], hosts=[1, 2])
def healthy_while_one_evaluates(stage: Stage) -> Scene:
    """Two looks at a job in which one rank evaluates while the others wait in a call; its log goes on after both."""
    out = Scene("none", ending="live", stalled=False, told=(True, True), notes={"asked": "stacks"}, pause=30.0)
    out.doing = dict.fromkeys(range(stage.plan.world), "mean of the loss") | {0: "evaluate"}
    return out


@strange(sources="all", layout="per_rank", shape=["ddp", "fsdp"], launcher="srun", hosts=[1, 2], per_host=4)
def dead_before_the_first_call(stage: Stage) -> Scene:
    """A rank is killed before the first call of the job, in which its peers time out."""
    out, rank = first_step(stage, Scene("died", (stage.someone(),), told=(True, True), named_by="launcher"), "gone")
    out.dead[rank] = (0.05, -9, "itself")
    return out


@strange(sources="logs", layout="per_rank", shape="ddp", hosts=[1, 2], per_host=[4, 8], nccl_info=True)
def other_count_in_call_lines(stage: Stage) -> Scene:
    """NCCL logs every call: in one of them a rank gives another count than its peers, and no call ends after it."""
    rank, stage.plan.first_step = stage.someone(), 1
    call = stage.programs[rank][stage.at][0]
    stage.change(rank, 0, n_in=call.n_in + 64, n_out=call.n_out + 64)
    return Scene("size-mismatch", (rank,), ending="live", group=call.group, told=(True, True), has_coll_lines=True)


def busy(stage: Stage, told: tuple[bool, bool] = (True, True)) -> tuple[Scene, int]:
    """A rank that is busy elsewhere, and a peer of it on another host where there is one."""
    rank, plan = stage.someone(), stage.plan
    plan.dumps_on = True
    out = stage.leave(Scene("not-arrived", (rank,), told=told), rank, stage.rng.choice(BUSY))
    others = [peer for peer in range(plan.world) if peer != rank]
    return out, stage.rng.choice([peer for peer in others if plan.host(peer) != plan.host(rank)] or others)


def first_step(stage: Stage, scene: Scene, doing: str) -> tuple[Scene, int]:
    """The rank at fault does not come to the first call of the job."""
    (rank,) = scene.culprits
    stage.plan.first_step = 1
    stage.plan.dumps_on = True
    scene.away[rank], scene.doing[rank] = (0, 0), doing
    return scene, rank


def limit(stage: Stage) -> float:
    """Seconds after which the group of all ranks gives up."""
    return stage.plan.groups[0].timeout / 1000
