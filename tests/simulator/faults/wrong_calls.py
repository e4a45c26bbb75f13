"""Faults of ranks that issue something else than their peers."""

from __future__ import annotations

from simulator.faults.scenarios import Fault, Stage, scenario
from simulator.program import Call, Compute, DeviceStop, Group, Instruction, Issue, Sync, altered
from simulator.steps import calls_like


def _shared(stage: Stage, rank: int, members: int = 3, unlike: tuple[str, ...] = ("barrier",)) -> int:
    """A call of that rank in a group of at least so many members, of another operation than those."""
    wanted = stage.issues(rank, lambda c: not c.pieces and len(c.group.members) >= members and c.op not in unlike)
    return stage.rng.choice(wanted)


def _other(stage: Stage, tie: bool, unlike: tuple[str, ...] = ("barrier",)) -> tuple[int, int]:
    rank = stage.someone()
    if tie:
        position = stage.rng.choice(stage.issues(rank, lambda c: not c.pieces and len(c.group.members) == 2))
        return rank, position
    return rank, _shared(stage, rank, unlike=unlike)


def _fault(stage: Stage, rank: int, call: Call, tie: bool) -> Fault:
    if tie:
        return Fault(culprits=(), group=call.group, call=call, suspects=call.group.members)
    return Fault(culprits=(rank,), group=call.group, call=call)


def _change_op(stage: Stage, tie: bool) -> Fault:
    rank, position = _other(stage, tie)
    call = stage.call(rank, position)
    op = "all_reduce" if call.op == "broadcast" else "broadcast"
    stage.change(rank, position, altered(call, op=op, shape_out=call.shape_in))
    return _fault(stage, rank, call, tie)


def _change_size(stage: Stage, tie: bool) -> Fault:
    # an all-to-all of other sizes is legal: tokens differ
    rank, position = _other(stage, tie, ("barrier", "all_to_all"))
    call = stage.call(rank, position)
    extra = stage.rng.choice([1, 16, 128])
    grown = (*call.shape_in[:-1], call.shape_in[-1] + extra)
    shape_out = grown if call.shape_in == call.shape_out else call.shape_out
    if call.op == "all_gather_base":
        shape_out = (grown[0] * len(call.group.members),)
    if call.op == "reduce_scatter_base":
        shape_out = (call.shape_out[0] + extra,)
        grown = (shape_out[0] * len(call.group.members),)
    stage.change(rank, position, altered(call, shape_in=grown, shape_out=shape_out))
    return _fault(stage, rank, call, tie)


def _change_dtype(stage: Stage, tie: bool) -> Fault:
    rank, position = _other(stage, tie)
    call = stage.call(rank, position)
    stage.change(rank, position, altered(call, dtype="Half" if call.dtype == "Float" else "Float"))
    return _fault(stage, rank, call, tie)


@scenario("op-mismatch", "one rank broadcasts where the others do something else")
def other_op(stage: Stage) -> Fault:
    return _change_op(stage, False)


@scenario("op-mismatch", "two members disagree on the operation, nobody else can tell", layout=("tpdp", "3d"))
def other_op_tie(stage: Stage) -> Fault:
    return _change_op(stage, True)


@scenario("size-mismatch", "one rank passes another number of elements")
def other_size(stage: Stage) -> Fault:
    return _change_size(stage, False)


@scenario("size-mismatch", "two members disagree on the size, nobody else can tell", layout=("tpdp", "3d"))
def other_size_tie(stage: Stage) -> Fault:
    return _change_size(stage, True)


@scenario("dtype-mismatch", "one rank passes another data type")
def other_dtype(stage: Stage) -> Fault:
    return _change_dtype(stage, False)


@scenario("missed-call", "one rank skips a call in the middle of the step")
def skipped(stage: Stage) -> Fault:
    rank = stage.someone()
    position = _shared(stage, rank)
    call = stage.call(rank, position)
    stage.replace_step(rank, [i for k, i in enumerate(stage.step(rank)) if k != position])
    return Fault(culprits=(rank,), group=call.group, call=call)


@scenario("missed-call", "one rank skips a tensor-parallel call", layout=("tpdp", "3d"))
def skipped_tensor(stage: Stage) -> Fault:
    rank = stage.someone()
    position = stage.rng.choice(stage.issues(rank, lambda c: c.group.role == "tp"))
    call = stage.call(rank, position)
    stage.replace_step(rank, [i for k, i in enumerate(stage.step(rank)) if k != position])
    return Fault(culprits=(rank,), group=call.group, call=call)


@scenario("missed-call", "the data of one rank ends early: it is already evaluating", layout=("ddp", "fsdp", "ep"))
def epoch_over(stage: Stage) -> Fault:
    rank = stage.someone()
    call = stage.call(rank, stage.issues(rank)[0])
    scores = calls_like(stage.job.groups[0], "all_gather_base", 4096, "Float", "evaluate")
    stage.cut(rank, 0, Compute(0.3), Issue(scores), Compute(0.3), Issue(scores), Sync("evaluate"))
    return Fault(culprits=(rank,), group=call.group, call=call, classes=("op-mismatch", "size-mismatch"))


@scenario("extra-call", "one rank issues one call more")
def one_more(stage: Stage) -> Fault:
    rank = stage.someone()
    position = _shared(stage, rank)
    call = stage.call(rank, position)
    steps = stage.step(rank)
    stage.replace_step(rank, [*steps[: position + 1], steps[position], *steps[position + 1 :]])
    return Fault(culprits=(rank,), group=call.group, call=call)


@scenario("extra-call", "one rank averages a metric that the others do not")
def metric_of_one(stage: Stage) -> Fault:
    rank = stage.someone()
    call = calls_like(stage.job.groups[0], "all_reduce", 3, "Float", "extra_metric")
    stage.replace_step(rank, [*stage.step(rank), Issue(call)])
    return Fault(culprits=(rank,), group=call.group, call=call)


def _swap(stage: Stage, rank: int) -> Fault:
    clip = stage.issues(rank, lambda c: c.site == "clip_grads")[0]
    gathers = stage.issues(rank, lambda c: c.site == "gather_params")
    loss = stage.issues(rank, lambda c: c.site == "average_loss")[0]
    one, other = stage.rng.choice([(clip, gathers[0]), (gathers[-1], loss)])
    steps = list(stage.step(rank))
    steps[one], steps[other] = steps[other], steps[one]
    call = stage.call(rank, one)
    stage.replace_step(rank, steps)
    return Fault(culprits=(rank,), group=call.group, call=call)


@scenario("order-inversion", "one rank issues a data-parallel call before the world's", layout=("tpdp", "3d"))
def swapped(stage: Stage) -> Fault:
    return _swap(stage, stage.someone())


def _drop_piece(stage: Stage, rank: int, way: str) -> Fault:
    position = stage.issues(rank, lambda c: any(w == way for w, _ in c.pieces))[-1]
    call = stage.call(rank, position)
    rest = tuple(p for p in call.pieces if p[0] != way)
    steps: list[Instruction] = list(stage.step(rank))
    if rest:
        steps[position] = Issue(altered(call, pieces=rest))
    else:
        del steps[position]
    stage.replace_step(rank, steps)
    dropped = next(p for p in call.pieces if p[0] == way)
    return Fault(culprits=(rank,), group=call.group, call=altered(call, pieces=(dropped,)), classes=("missed-call",))


@scenario("unmatched-p2p", "one stage does not send its last tensor", layout="3d")
def missing_send(stage: Stage) -> Fault:
    return _drop_piece(stage, stage.someone(), "send")


@scenario("unmatched-p2p", "one stage does not receive the last tensor", layout="3d")
def missing_receive(stage: Stage) -> Fault:
    return _drop_piece(stage, stage.someone(), "recv")


@scenario("device-stalled", "the device of one rank stops while its host goes on", sync_every=(2, 4))
def device_stopped(stage: Stage) -> Fault:
    rank = stage.someone()
    world: Group = stage.job.groups[0]
    positions = stage.issues(rank, lambda c: c.group.role in ("world", "dp", "ep", "tp"))
    position = stage.rng.choice(positions[1:-1] or positions)
    steps = stage.step(rank)
    stage.replace_step(rank, [*steps[:position], DeviceStop(stage.rng.choice([1, 1, 2])), *steps[position:]])
    return Fault(culprits=(rank,), group=world, classes=("hardware",))


@scenario("unfinished", "all members run the kernel and it does not end")
def never_ends(stage: Stage) -> Fault:
    rank = stage.someone()
    position = _shared(stage, rank, 2)
    call = stage.call(rank, position)
    nth = [k for k in stage.issues(rank) if stage.call(rank, k).group is call.group].index(position)
    for member in call.group.members:
        at = stage.issues(member, lambda c: c.group is call.group)[nth]
        stage.change(member, at, altered(stage.call(member, at), broken=True))
    return Fault(culprits=(), group=call.group, call=call)
