"""Scenes in which a rank issues something else than its peers, or in another order."""

from __future__ import annotations

from dataclasses import replace

from staged.play import Scene
from staged.scenes.stage import Stage, scene

LATER = ["2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9"]  # whose dumps name the members of a group
RECORDED: dict[str, object] = {
    "release": ["2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9"],
    "sources": ["all", "all", "dumps", "logs+dumps", "logs"],
}


def _rank_of_a_crowd(stage: Stage, place_role: str = "") -> tuple[int, int]:
    """A rank and a place whose group has at least three members."""
    for _ in range(200):
        rank = stage.someone()
        place = stage.place(rank, place_role, last=False)
        if len(stage.group(rank, place).members) > 2:
            return rank, place
    return rank, place


@scene(**RECORDED)
def other_operation(stage: Stage) -> Scene:
    rank, place = _rank_of_a_crowd(stage)
    call = stage.programs[rank][stage.at][place]
    other = "broadcast" if call.op != "broadcast" else "all_reduce"
    stage.change(rank, place, op=other, n_in=call.n_in, n_out=call.n_in, site=("share_state", 266))
    return Scene("op-mismatch", (rank,), group=call.group)


@scene(**RECORDED)
def other_size(stage: Stage) -> Scene:
    rank, place = _rank_of_a_crowd(stage)
    call = stage.programs[rank][stage.at][place]
    less = max(1, call.n_in - stage.rng.randrange(1, max(2, call.n_in)))
    if less == call.n_in:
        less = call.n_in + 5
    factor = call.n_out // call.n_in if call.n_out >= call.n_in else 1
    stage.change(
        rank,
        place,
        n_in=less,
        n_out=less * factor if call.n_out >= call.n_in else max(1, less // len(call.group.members)),
    )
    return Scene("size-mismatch", (rank,), group=call.group)


@scene(**{**RECORDED, "release": ["2.4", "2.5", "2.6", "2.7", "2.8", "2.9"]})
def other_type(stage: Stage) -> Scene:
    rank, place = _rank_of_a_crowd(stage)
    call = stage.programs[rank][stage.at][place]
    stage.change(rank, place, dtype="Double" if call.dtype != "Double" else "Float")
    return Scene("dtype-mismatch", (rank,), group=call.group)


@scene(**RECORDED, shape=["ddp", "tp_dp", "fsdp"])
def skipped_call(stage: Stage) -> Scene:
    rank, place = _rank_of_a_crowd(stage)
    calls = list(stage.programs[rank][stage.at])
    gone = calls.pop(place)
    stage.rewrite(rank, calls)
    return Scene("missed-call", (rank,), group=gone.group)


@scene(**RECORDED, shape=["ddp", "tp_dp", "fsdp"])
def one_call_more(stage: Stage) -> Scene:
    rank, place = _rank_of_a_crowd(stage)
    calls = list(stage.programs[rank][stage.at])
    more = replace(calls[place], n_in=3, n_out=3, op="all_reduce", dtype="Float", site=("log_extremes", 244))
    calls.insert(place, more)
    stage.rewrite(rank, calls)
    return Scene("extra-call", (rank,), group=more.group)


@scene(**{**RECORDED, "sources": ["all", "dumps"], "release": LATER}, shape="tp_dp", mean=True, hosts=[1, 2, 4])
def other_order(stage: Stage) -> Scene:
    """One rank takes the mean over all before it has synchronised its shard."""
    rank = stage.someone()
    calls = list(stage.programs[rank][stage.at])
    places = [i for i, c in enumerate(calls) if c.group.role == "dp"]
    moved = calls[places[-1]]
    calls = [c for i, c in enumerate(calls) if i != places[-1]] + [moved]
    stage.rewrite(rank, calls)
    return Scene("order-inversion", (rank,), group=moved.group)


@scene(**{**RECORDED, "sources": ["all", "dumps"], "release": ["2.4", "2.6", "2.7", "2.9"]}, shape="pp_dp", mean=True)
def transfer_without_partner(stage: Stage) -> Scene:
    """A stage leaves out its send and goes on."""
    senders = [r for r in range(stage.plan.world) if any(c.op == "send" for c in stage.programs[r][stage.at])]
    rank = stage.rng.choice(senders)
    calls = stage.programs[rank][stage.at]
    gone = next(c for c in calls if c.op == "send")
    stage.rewrite(rank, [c for c in calls if c is not gone])
    return Scene("unmatched-p2p", (rank,), group=gone.group)
