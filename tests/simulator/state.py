"""The state of a simulation: moments that others wait for, calls that were issued, processes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from simulator.program import Call, End, Instruction

NEVER = float("inf")


class Node:
    """A moment that others wait for. ``left`` counts what is open; ``time`` is the latest so far."""

    __slots__ = ("after", "delay", "done", "left", "time", "who")

    def __init__(self, left: int, time: float = 0.0, delay: float = 0.0) -> None:
        self.left = left
        self.time = time
        self.delay = delay
        self.done = False
        self.after: list[Node] = []
        self.who: int | None = None  # a host to wake

    @property
    def when(self) -> float:
        return self.time if self.done else NEVER


@dataclass(slots=True)
class Work:
    """A call that was really issued, with what came of it."""

    rank: int
    call: Call
    index: int  # position in the rank's own stream over all groups
    step: int
    begun: Node
    ended: Node
    issued: float
    unseen: bool = False
    coll_seq: int = 0
    p2p_seq: int = 0
    op_id: int = 0

    @property
    def end(self) -> float:
        return NEVER if self.unseen else self.ended.when

    @property
    def start(self) -> float:
        return self.begun.when


@dataclass(slots=True)
class Host:
    """The state of one rank's process."""

    rank: int
    todo: deque[tuple[int, Instruction]]
    time: float = 0.0
    compute: Node = field(default_factory=lambda: settled(0.0))
    streams: dict[object, Node] = field(default_factory=dict)
    open: list[Node] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    doing: str = ""  # what it was in when it stopped going on
    how: str = ""  # "", waits, blocked, gil, stopped, ended
    since: float = NEVER
    ended: End | None = None
    broken: bool = False
    step: int = 0
    said: list[tuple[float, int, str]] = field(default_factory=list)


def settled(time: float) -> Node:
    """A moment that has already come."""
    node = Node(0, time)
    node.done = True
    return node
