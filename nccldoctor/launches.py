"""How many calls each member of a communicator issued, as NCCL's own observers count them.

RAS counts the calls that were launched, by operation; COLL lines carry ``opCount``; dumps of communicators number their calls. None of
these numbers is the sequence number of PyTorch, and numbers of two observers are never compared. A query of RAS proves nothing alone:
hosts run ahead of each other in every healthy job. Two that are equal do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nccldoctor.events import CollCall, Event
from nccldoctor.ranks import Ranks


@dataclass(frozen=True, slots=True)
class Launches:
    """What one observer (*ras*, *coll*, *comm-dump*) says of one communicator.

    ``last`` is the number of each global rank's last call, ``said`` what says so; ``silent`` are members that did not answer.
    ``first`` is the first number that not everybody reached, or the one that all are in, ``op`` its operation (None: not known) and
    ``call`` a line of it. ``steady``: asked twice, and nothing had moved, or the call is unfinished wherever it was issued; ``rose``:
    members that had come further the second time; ``behind`` those not as far as the furthest. ``kinds`` are the counts by operation,
    where they are counted so, ``totals`` those of all. ``group`` is the index of the group that stands for it (-1: none).
    """

    observer: str
    comm: str
    members: Ranks
    last: Mapping[int, int]
    said: Mapping[int, Event]
    op: str | None = None
    first: int = 0
    call: CollCall | None = None
    silent: Ranks = Ranks()
    when: datetime | None = None
    steady: bool = False
    rose: Ranks = Ranks()
    kinds: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    group: int = -1
    behind: Ranks = field(init=False)
    totals: Mapping[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Find once who did not come as far as the furthest, and how many calls each issued of all operations together."""
        most = max(self.last.values(), default=0)
        object.__setattr__(self, "behind", Ranks(r for r, n in self.last.items() if n < most))
        counts = {r: sum(by_kind.values()) for r, by_kind in self.kinds.items()}
        object.__setattr__(self, "totals", counts or self.last)

    @property
    def moving(self) -> bool:
        """Whether those who are behind, or all, had come further the second time: then nobody waits for them."""
        return bool((self.behind or self.members) & self.rose)
