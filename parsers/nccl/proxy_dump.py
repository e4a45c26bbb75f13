"""What NCCL's proxy thread prints when it is asked by signal (``NCCL_PROXY_DUMP_SIGNAL``): the transfers under way.

Source: NVIDIA/nccl ``src/proxy.cc`` (``dumpProxyState``, ``printProxyOp``). It goes to the standard output, without
the prefix of the log, and names no rank of its own: the file or the launcher's prefix does. Letters: I not begun,
R receiving, F flushing, S sending, G waiting for the GPU, D done; an operation that is not in progress has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nccldoctor.events import Event, ProxyDump
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.patterns import lazy

_OPERATIONS = 2000
"""Operations of one dump that are read."""

_OPERATION = lazy(
    r"\[\d{1,9}-\d{1,9}\|(?P<count>-?\d{1,19})\| (?P<way>Send|Recv|Coll)"
    r"(?P<subs>(?: \d{1,7} ?[IRFSGD]?/\d{1,5}){0,256})"
)
_SUB = lazy(r" (?P<peer>\d{1,7}) ?(?P<state>[IRFSGD]?)/\d{1,5}")


@reads("ACTIVE OPS")
def proxy_dump(line: Line) -> Iterator[Event]:
    """One event for a dump. The dump ends at ``[X]``; without it, and without an operation, it is none."""
    ops, ended = 0, False
    waits: set[int] = set()
    states: Counter[str] = Counter()
    for below in line.following(_OPERATIONS):
        if below.body.strip() == "[X]":
            ended = True
            break
        for operation in _OPERATION.finditer(below.body):
            ops += 1
            for sub in _SUB.finditer(operation["subs"]):
                states[sub["state"] or "-"] += 1
                if sub["state"] in ("R", "S"):
                    waits.add(int(sub["peer"]))
    if ops or ended:
        counted = tuple(sorted(states.items()))
        shown = ", ".join(f"{n} {state}" for state, n in counted)
        yield ProxyDump(
            **common(line),
            what=_reading(states) if ops else "idle",
            peers=Ranks(waits),
            ops=ops,
            states=counted,
            detail=f"{ops} operations{': ' + shown if shown else ''}",
        )


def _reading(states: Counter[str]) -> str:
    open_ = {state for state in states if state not in "-D"}
    readings = (("waits-for-gpu", "G"), ("waits-for-peer", "RS"), ("not-begun", "I"))
    return next((what for what, letters in readings if open_ and open_ <= set(letters)), "mixed")
