"""Faults inside the call: transports and devices that report errors, communicators that never come up."""

from __future__ import annotations

from simulator.faults.scenarios import Fault, Stage, scenario
from simulator.program import Call, DeviceStop, Stuck, altered


def _across(stage: Stage) -> tuple[int, Call]:
    """A collective that spans hosts, and where it stands in the fault step."""
    position = stage.rng.choice(stage.issues(0, lambda c: c.group.role == "world" and c.op != "barrier"))
    return position, stage.call(0, position)


def _break(stage: Stage, call: Call, nth: int) -> None:
    """The n-th call of that group in the fault step never ends on anybody."""
    for member in call.group.members:
        at = stage.issues(member, lambda c: c.group is call.group)[nth]
        stage.change(member, at, altered(stage.call(member, at), broken=True))


def _broken_world_call(stage: Stage) -> Call:
    position, call = _across(stage)
    nth = stage.issues(0, lambda c: c.group is call.group).index(position)
    _break(stage, call, nth)
    return call


def _two_ends(stage: Stage) -> tuple[int, int]:
    """Two ranks on different hosts, with the same local rank: neighbours on one rail."""
    gpus = stage.job.knobs.gpus
    one, other = stage.rng.sample(range(stage.job.knobs.nodes), 2)
    local = stage.rng.randrange(gpus)
    return one * gpus + local, other * gpus + local


@scenario("network", "two hosts do not reach each other any more", nodes=(2, 4))
def unreachable(stage: Stage) -> Fault:
    one, other = _two_ends(stage)
    call = _broken_world_call(stage)
    ends = {rank: (20.0 + stage.rng.uniform(0, 1), -6) for rank in (one, other)}
    return Fault(
        culprits=(one, other), group=call.group, call=call, ends=ends, traits={"peer": {one: other, other: one}}
    )


@scenario("network", "a port of one host went down", nodes=(2, 4))
def link_down(stage: Stage) -> Fault:
    fault = unreachable(stage)
    bad, other = fault.culprits
    fault.culprits, fault.rank_sets, fault.traits["port"] = (bad,), ((bad, other),), bad
    return fault


@scenario("hardware", "uncorrectable memory errors; the watchdog of that rank meets the CUDA error")
def memory_error(stage: Stage) -> Fault:
    rank = stage.someone()
    position = stage.rng.choice(stage.issues(rank)[1:])
    steps = stage.step(rank)
    stage.replace_step(rank, [*steps[:position], DeviceStop(0), *steps[position:]])
    xids = [(48, "DBE (double bit error)"), (95, "Uncontained: SM (0x1). RST: Yes, D-RST: No"), (45, "Ch 00000010")]
    traits = {"xids": xids, "cuda": "uncorrectable ECC error encountered"}
    return Fault(culprits=(rank,), ends={rank: (0.6, -6)}, traits=traits)


@scenario("hardware", "a board fell off the bus and took its process along", dmesg=True)
def off_the_bus(stage: Stage) -> Fault:
    rank = stage.someone()
    stage.cut(rank, stage.rng.choice(stage.issues(rank)), Stuck("step", "stopped"))
    return Fault(culprits=(rank,), traits={"xids": [(79, "GPU has fallen off the bus.")]}, classes=("frozen",))


@scenario("hardware", "a link between boards failed while all members were in the call", dmesg=True)
def board_link(stage: Stage) -> Fault:
    rank = stage.someone()
    position = stage.rng.choice(stage.issues(rank, lambda c: not c.pieces and c.op != "barrier"))
    call = stage.call(rank, position)
    _break(stage, call, stage.issues(rank, lambda c: c.group is call.group).index(position))
    text = "NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    return Fault(culprits=(rank,), group=call.group, call=call, traits={"xids": [(74, text)]}, classes=("unfinished",))


def _never_up(stage: Stage) -> None:
    stage.programs[:] = [[[Stuck("setup", "blocked")]] for _ in stage.programs]


@scenario("init", "one rank never starts the communicator", step=1, nccl_info=True, evidence="log", cut=False)
def silent_start(stage: Stage) -> Fault:
    _never_up(stage)
    rank = stage.someone()
    return Fault(culprits=(rank,), traits={"missing": frozenset((rank,))})


@scenario("init", "rank 0 never publishes the communicator's id", step=1, evidence="log", cut=False)
def no_id(stage: Stage) -> Fault:
    _never_up(stage)
    limit = stage.job.knobs.timeout_ms / 1000
    others = range(1, stage.job.knobs.world)
    return Fault(culprits=(0,), ends={r: (limit + 0.01 * r, 1) for r in others}, traits={"id_wait": True})


@scenario("init", "fewer processes than expected came to the store", step=1, evidence="log", cut=False)
def too_few(stage: Stage) -> Fault:
    _never_up(stage)
    rank = stage.rng.randrange(1, stage.job.knobs.world)
    return Fault(culprits=(rank,), ends={0: (900.2, 1)}, traits={"short": 1})
