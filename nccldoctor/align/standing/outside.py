"""Groups the ranks by where they stand: those that wait, and the few outside the call of their peers.

Ranks 0-2 wait in ``all_reduce`` and rank 3 reads a batch: rank 3 is outside. Ranks 0-2 wait in ``all_reduce`` and rank 3 in ``barrier``:
rank 3 is apart. Where no frame shows a wait, ranks that stand idle at one line of their own are taken to wait there (``work.wait()``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from nccldoctor.align.standing.looks import Looks
from nccldoctor.align.standing.stances import Posture, Stance, is_transfer
from nccldoctor.model.ranks import Ranks


class Standing(Struct, frozen=True):
    """The processes by where they stand.

    ``waiting`` for others, of which ``apart`` are in a different call from most, or one of two; ``outside`` every call, in each look;
    ``unclear`` stand in code of their own where they may wait. ``silent`` ranks of the job have no stack. ``is_guessed``: no frame shows
    the wait itself.
    """

    waiting: tuple[Stance, ...] = ()
    apart: tuple[Stance, ...] = ()
    outside: tuple[Stance, ...] = ()
    unclear: tuple[Stance, ...] = ()
    silent: Ranks = Ranks()
    is_guessed: bool = False


def standing_of(looks: Looks, world: Ranks) -> Standing:
    """Where the processes stood in the newest look."""
    now = list(looks.newest.values())
    waiting = [s for s in now if s.posture.is_wait]
    if not any(s.posture.is_outside for s in now):
        waiting = [s for s in waiting if s.shown] or waiting  # what an own function is called explains no stall
    guessed = [] if waiting else _crowd(now)
    waiting = waiting or guessed
    others = _others_than(now, waiting)
    outside = [s for s in others if s.posture.is_outside]
    quiet = [s for s in others if not s.posture.is_outside]
    known = [s for s in outside if not looks.can_wait(s)] if quiet else outside
    if not known:
        known, quiet = [*outside, *quiet], []
    steady = [s for s in known if s.posture.is_gone or not any(seen.posture.is_wait for seen in looks.seen(s.process))]
    unclear = _others_than(others, steady)
    is_complete = all(s.rank is not None for s in now)  # else the process without a rank may be the silent one
    silent = Ranks(world - {s.rank for s in now if s.rank is not None}) if waiting and is_complete else Ranks()
    apart = [] if others else _apart(waiting)
    return Standing(tuple(waiting), tuple(apart), tuple(steady), tuple(unclear), silent, bool(guessed))


def _others_than(stances: list[Stance], some: list[Stance]) -> list[Stance]:
    """The others, told apart as objects: to compare each with each takes long for thousands."""
    known = set(map(id, some))
    return [s for s in stances if id(s) not in known]


def _crowd(stances: Iterable[Stance]) -> list[Stance]:
    """Two thirds of all, at least two, that stand idle at one own line: nobody computes there."""
    stances = list(stances)
    places = Counter(s.place for s in stances if s.posture is Posture.QUIET)
    place, count = places.most_common(1)[0] if places else ("", 0)
    if count < 2 or 3 * count < 2 * len(stances):
        return []
    return [s for s in stances if s.place == place and s.posture is Posture.QUIET]


def _apart(waiting: list[Stance]) -> list[Stance]:
    """The few that wait in a different call from most, or one of two; never one of two larger halves.

    A transfer has one other end, so it counts only where all other ranks are in one collective: no rank is left to send or receive. A chain
    of receives ends at the one rank that receives nothing.
    """
    known = comparable(waiting)
    if all(s.posture is Posture.SET_UP for s in known):
        return []
    calls = Counter(s.call for s in known)
    if len(calls) < 2:
        return []
    most, count = calls.most_common(1)[0]
    few = [s for s in known if s.call != most]
    transfers, is_whole = [s for s in known if is_transfer(s.op)], len(few) == 1 and len(known) == len(waiting)
    ops = [s.op.lower() for s in transfers]
    is_chain = few[0] not in transfers and all("recv" in op and "send" not in op for op in ops)
    if transfers and not (is_whole and (transfers == few or is_chain)):
        return []
    return few if 2 * len(few) <= count or len(few) == count == 1 else []


def comparable(waiting: Iterable[Stance]) -> list[Stance]:
    """Those whose call may differ from that of others. A wait for a GPU at the line of a peer's call may be for that call."""
    known = [s for s in waiting if s.is_comparable]
    lines = {s.path for s in known if s.posture is not Posture.DEVICE}
    return [s for s in known if s.posture is not Posture.DEVICE or s.path not in lines]
