"""The progress of all ranks in few rows: one for ranks that stand alike, one for each culprit and suspect."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.model import Diagnosis, Place, RankState, Role
from nccldoctor.model.ranks import Ranks

SINGLES = 16
"""Culprits, suspects and group mates that have a row of their own, at most."""

ROWS = 48
"""Rows at most; with more, ranks that differ in less share a row."""


class Waited(Struct, frozen=True):
    """The shortest and the longest wait of some ranks, in milliseconds."""

    shortest: float
    longest: float


class Row(Struct, frozen=True):
    """Ranks that stand alike; a field is None (``last_sign`` empty) where they differ or it is unknown.

    ``waits_for`` are the ranks that any of them waits for.
    """

    ranks: Ranks
    role: Role
    hosts: tuple[str, ...]
    device: str | None
    pid: int | None
    group: str | None
    completed: int | None
    enqueued: int | None
    waits_in: str | None
    waits_for: Ranks
    waited_ms: Waited | None
    last_sign: str
    where: Place | None


def folded(states: tuple[RankState, ...]) -> tuple[Row, ...]:
    """Rows for any size of job: by role, culprits first, then by lowest rank."""
    alone = _singled_out(states)
    rows = [_row([state]) for state in states if state.rank in alone]
    rest = [state for state in states if state.rank not in alone]
    for likeness in _LIKENESSES:
        classes = _classes(rest, likeness)
        if len(classes) + len(rows) <= ROWS:
            break
    rows += [_row(members) for members in classes]
    return tuple(sorted(rows, key=_order))


def single(diagnosis: Diagnosis) -> tuple[Row, ...]:
    """One row for each rank of a small job; in a large one for culprits, suspects and their group mates."""
    if len(diagnosis.ranks) <= SINGLES:
        return tuple(_row([state]) for state in diagnosis.ranks)
    alone = _singled_out(diagnosis.ranks)
    known = Ranks(state.rank for state in diagnosis.ranks)
    mates = alone | list((diagnosis.verdict.members & known) - alone)[: max(SINGLES - len(alone), 0)]
    near = tuple(state for state in diagnosis.ranks if state.rank in mates)
    far = [row for row in folded(diagnosis.ranks) if not row.ranks <= mates]
    rows = [_row([state]) for state in near] + [replace(row, ranks=row.ranks - mates) for row in far]
    return tuple(sorted(rows, key=_order)[:ROWS])


def _order(row: Row) -> tuple[int, int]:
    return list(Role).index(row.role), min(row.ranks)


def _singled_out(states: tuple[RankState, ...]) -> Ranks:
    """The culprits, and the suspects of which something different was read: those of which nothing is known share a row."""
    culprits = [state.rank for state in states if state.role is Role.CULPRIT]
    alike = _classes((s for s in states if s.role is Role.SUSPECT), lambda state: replace(state, rank=0, wait=None))
    suspects = [same[0].rank for same in alike if len(same) == 1]
    return Ranks(culprits[:SINGLES] + suspects[:SINGLES])


def _classes(states: Iterable[RankState], likeness: Callable[[RankState], Hashable]) -> list[list[RankState]]:
    classes: dict[Hashable, list[RankState]] = {}
    for state in states:
        classes.setdefault(likeness(state), []).append(state)
    return list(classes.values())


_LIKENESSES: tuple[Callable[[RankState], Hashable], ...] = (
    lambda s: (s.role, s.group, s.completed, s.enqueued, s.waits_in),
    lambda s: (s.role, s.completed, s.enqueued),
    lambda s: s.role,
)
"""Keys by which ranks share a row, from strict to lax: the first that leaves few enough rows is taken."""


def _row(states: list[RankState]) -> Row:
    first = states[0]
    shared: dict[str, Any] = {
        name: getattr(first, name) if all(getattr(s, name) == getattr(first, name) for s in states) else None
        for name in ("device", "pid", "group", "completed", "enqueued", "waits_in", "where")
    }
    signs = dict.fromkeys(state.last_sign for state in states)
    waits = [state.wait for state in states if state.wait is not None]
    waited = [length for wait in waits if (length := wait.times.waited_ms()) is not None]
    return Row(
        ranks=Ranks(state.rank for state in states),
        role=first.role,
        hosts=tuple(dict.fromkeys(state.host for state in states if state.host)),
        waits_for=Ranks(rank for needed in {wait.waits_for for wait in waits} for rank in needed),
        waited_ms=Waited(min(waited), max(waited)) if waited else None,
        last_sign=first.last_sign if len(signs) == 1 else "",
        **shared,
    )
