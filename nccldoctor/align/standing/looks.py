"""The looks at a job: where each process stood, what moved between two looks, and whether steps were logged afterwards.

Equal stacks do not prove a stall: a training loop is caught at the same line twice while every rank logs on. Different stacks do not
prove progress: a late rank moves inside its evaluation while it holds up all others. A wait that ended does.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.liveness import Liveness, first_lines, steps_among
from nccldoctor.align.standing.stances import STATES, Posture, Stance, python_frames, stance_of, wait_in_kernel
from nccldoctor.events import Event, ExceptionRaised, ProcessState, ProcessWork, Stack
from nccldoctor.identify.case import Case
from nccldoctor.identify.looks import process_of
from nccldoctor.model.stack_frames import parse_frame

USUAL = 3.0
"""Times the longest pause between two steps after which a job counts as quiet."""

AT_ONCE = 2.0
"""Seconds between two looks below which they show nothing more than one, unless something moved: a step may take longer."""

SHORTEST = 4.0
"""Seconds of quiet that say nothing alone: a step may take so long once."""


class Look(Struct, frozen=True):
    """The stances of all processes in one look. ``at`` is when it was taken in seconds on the job's clock (NaN: not known)."""

    number: int
    at: float
    stances: dict[Hashable, Stance]


class Looks(Struct, frozen=True, dict=True):
    """All looks, the oldest first, and the lines about steps.

    ``helpers`` are the newest stacks of processes that are no ranks, ``work`` says what each process did between two looks.
    ``interrupted`` is true where the only look are the tracebacks
    of a Ctrl-C. ``is_unlogged`` is true where the collector saw that no log with a step grew between two looks.
    """

    all: tuple[Look, ...] = ()
    helpers: tuple[Stack, ...] = ()
    work: Mapping[Hashable, ProcessState] = {}
    steps: tuple[tuple[float, Event], ...] = ()
    interrupted: bool = False
    is_unlogged: bool = False

    @cached_property
    def newest(self) -> Mapping[Hashable, Stance]:
        """Where each process stood when it was last looked at."""
        out: dict[Hashable, Stance] = {}
        for look in self.all:
            out |= {process: stance.after(out.get(process)) for process, stance in look.stances.items()}
        return out

    def seen(self, process: Hashable) -> list[Stance]:
        """The stances of one process, the oldest first."""
        return [look.stances[process] for look in self.all if process in look.stances]

    def did(self, process: Hashable) -> ProcessWork | None:
        """What a process did between two looks; None where nobody measured it."""
        state = self.work.get(process)
        return state.did if state is not None else None

    def has_moved(self, process: Hashable) -> bool | None:
        """True when its Python frames changed between two looks; None with fewer than two looks that show any."""
        shown = (s.event.frames for s in self.seen(process) if isinstance(s.event, Stack))
        paths = [path for path in map(python_frames, shown) if path]
        return len(set(paths)) > 1 if len(paths) > 1 else None

    def is_stopped_throughout(self, process: Hashable) -> bool:
        """True when a signal had stopped the process in all of its looks, and there are two or more."""
        seen = self.seen(process)
        return len(seen) > 1 and all(stance.posture is Posture.STOPPED for stance in seen)

    def can_wait(self, stance: Stance) -> bool:
        """True of an idle thread that may wait for a peer, by its frames and its wait in the kernel."""
        state = self.work.get(stance.process)
        return stance.can_wait and not (state and wait_in_kernel(state))

    def has_left(self, process: Hashable) -> bool:
        """True when a wait of the process in an earlier look had ended in the newest one."""
        seen = self.seen(process)
        before, now = seen[0], seen[-1]
        if len(seen) < 2 or not before.posture.is_wait or now.posture in (Posture.STOPPED, Posture.GONE):
            return False
        is_other = not now.posture.is_wait or bool(before.path and now.path and before.path != now.path)
        return is_other and _is_elsewhere(before, now)

    def has_arrived(self, process: Hashable) -> bool:
        """True when the process began its wait between two looks: the job moved then."""
        seen = self.seen(process)
        is_new = seen[-1].posture.is_wait and not seen[0].posture.is_wait and bool(seen[0].path)
        return is_new and _is_elsewhere(seen[0], seen[-1])

    @property
    def has_gone_on(self) -> bool:
        """True when steps follow the first look, or every wait of that look had ended in the newest."""
        waited = [s for s in self.all[0].stances.values() if s.posture.is_wait] if len(self.all) > 1 else []
        return bool(self.later_steps or (waited and all(self.has_left(s.process) for s in waited)))

    @property
    def last_at(self) -> float:
        """When the newest look was taken; NaN where no look has a time."""
        return max((look.at for look in self.all if not math.isnan(look.at)), default=math.nan)

    @property
    def first_at(self) -> float:
        """When the oldest look was taken; NaN where no look has a time."""
        return min((look.at for look in self.all if not math.isnan(look.at)), default=math.nan)

    @cached_property
    def pause(self) -> float:
        """The longest usual pause between two steps in seconds; NaN with fewer than three times."""
        times = sorted({at for at, _ in self.steps if not math.isnan(at)})
        gaps = [b - a for a, b in pairwise(times)]
        return max(gaps) if len(gaps) > 1 else math.nan

    @property
    def quiet_for(self) -> float:
        """Seconds from the last step to the newest look; negative where steps follow it, NaN where a time is missing."""
        return self.last_at - max((at for at, _ in self.steps if not math.isnan(at)), default=math.nan)

    @property
    def is_quiet(self) -> bool | None:
        """True when no step was logged for far longer than usual before the newest look.

        False when the last step is no older than usual; None in between, and where times are missing.
        """
        if math.isnan(self.quiet_for) or math.isnan(self.pause):
            return None
        if self.quiet_for <= max(1.0, USUAL * self.pause):
            return False
        return True if self.quiet_for > SHORTEST else None

    @property
    def later_steps(self) -> list[Event]:
        """Steps that were logged after the first look, where they had not stopped before the newest one."""
        if math.isnan(self.first_at) or self.is_quiet:
            return []
        return [event for at, event in self.steps if at > self.first_at]


def _is_elsewhere(before: Stance, now: Stance) -> bool:
    """True where a function of both stacks is at another line. A stack that lost frames shows fewer of them alone.

    So it is where no frame tells a line, and where no function is in both.
    """
    frames = [s.event.frames if isinstance(s.event, Stack) else () for s in (before, now)]
    one, two = ([f for f in map(parse_frame, shown) if f is not None and f[2] is not None] for shown in frames)
    shared = {f[:2] for f in one} & {f[:2] for f in two}
    return not shared or any({f for f in one if f[:2] == at}.isdisjoint(two) for at in shared)


def collect_looks(case: Case, liveness: Liveness) -> Looks:
    """All looks of a case; without stacks there are none, and no steps are read."""
    states, stacks = list(case.of(ProcessState)), [e for e in case.of(Stack) if e.main]
    taken: list[Stack | ProcessState] = [*stacks, *(e for e in states if e.state in STATES or (e.did and not stacks))]
    if not taken:
        return _interrupted(case, liveness)
    by_number: dict[int, list[Stack | ProcessState]] = {}
    for event in taken:
        by_number.setdefault(event.look, []).append(event)
    always = by_number.pop(0, [])
    looks = [_look(number, events, liveness) for number, events in sorted(by_number.items())]
    if always:
        looks = [_with_states(look, always) for look in looks] or [_look(1, always, liveness, states)]
    lines = {s.id: s.collected.lines for s in case.sources if s.collected is not None and s.collected.grown}
    steps = tuple((_made_at(step, liveness, lines, looks), step) for step in steps_among(case.events))
    helpers = {(process_of(e), e.pid): e for e in case.of(Stack) if e.helper}  # a rank has several
    # steps were logged, and no log that holds one grew between the looks of the collector
    logs = {step.place.source for _, step in steps}
    told = [source.collected for source in case.sources if source.id in logs]
    is_unlogged = bool(told) and all(file is not None and file.grown == 0 for file in told)
    work = {process_of(e): e for e in states if e.did is not None}
    return Looks(tuple(_without_doubles(looks)), tuple(helpers.values()), work, steps, is_unlogged=is_unlogged)


def _made_at(step: Event, liveness: Liveness, lines: Mapping[int, int | None], looks: Sequence[Look]) -> float:
    """When a step was made. A line without a time that the log got after the first look is of the last."""
    at, known = liveness.time(step), lines.get(step.place.source)
    is_new = math.isnan(at) and known is not None and (step.place.line or 0) > known
    return max((look.at for look in looks if not math.isnan(look.at)), default=at) if is_new else at


def _without_doubles(looks: Iterable[Look]) -> list[Look]:
    """The looks. Two at once in which nothing moved are one: two ranks may have asked at the same moment."""
    kept: list[Look] = []
    for look in looks:
        before = kept[-1].stances if kept and 0 < look.at - kept[-1].at < AT_ONCE else {}
        both = [(before[p], look.stances[p]) for p in before.keys() & look.stances.keys()]
        if before and all((one.path, one.posture) == (other.path, other.posture) for one, other in both):
            look = replace(look, stances=kept.pop().stances | look.stances)
        kept.append(look)
    return kept


def _interrupted(case: Case, liveness: Liveness) -> Looks:
    """The look that a Ctrl-C leaves, where steps had stopped before it: a job that ran stands anywhere."""
    at, stacks = _interrupted_stacks(case, liveness)
    if not stacks:
        return Looks()
    look = replace(_look(1, stacks, liveness), at=at)
    steps = tuple((liveness.time(step), step) for step in steps_among(case.events))
    looks = Looks((look,), steps=steps, interrupted=True)
    return looks if looks.is_quiet else Looks()


def _interrupted_stacks(case: Case, liveness: Liveness) -> tuple[float, list[Stack]]:
    """When a person stopped the job by a Ctrl-C, and where its ranks stood by their tracebacks.

    There are no stacks where a rank complained before. Example: no step for ten seconds, then Ctrl-C: ranks 0, 1 and 3 are interrupted in
    the backward pass, rank 2 in ``open_shard``.
    """
    stops = [e for e in case.events if e.is_stop_by_person]
    raised = [e for e in stops if isinstance(e, ExceptionRaised) and e.rank is not None and e.frames]
    at = min((t for e in stops if not math.isnan(t := liveness.time(e))), default=math.nan)
    complaints, begun = [e for e in case.events if e.is_complaint], first_lines(stops)
    follow = (liveness.time(e) >= at or begun.get(e.place.source, math.inf) < (e.place.line or 0) for e in complaints)
    if len(raised) < 2 or math.isnan(at) or not all(follow):
        return math.nan, []
    return at, [
        Stack(place=e.place, text=e.text, rank=e.rank, host=e.host, pid=e.pid, frames=e.frames, main=True, look=1)
        for e in raised
    ]


def _look(
    number: int, events: Iterable[Stack | ProcessState], liveness: Liveness, others: Iterable[Event] = ()
) -> Look:
    """The stances of these events; the look began with the first of them and of the others."""
    stances = [s for e in events if (s := stance_of(process_of(e), e)) is not None]
    times = [at for e in (*others, *(s.event for s in stances)) if not math.isnan(at := liveness.time(e))]
    return Look(number, min(times, default=math.nan), {stance.process: stance for stance in stances})


def _with_states(look: Look, states: Iterable[Stack | ProcessState]) -> Look:
    """The look with what ``ps`` says: gdb and pystack do not show that a process is stopped."""
    stances = dict(look.stances)
    for event in states:
        stance = stance_of(process_of(event), event)
        before = stances.get(process_of(event))
        is_known = event.rank is not None or before is not None
        if stance is not None and is_known and (before is None or not before.posture.is_gone):
            stances[stance.process] = stance
    return Look(look.number, look.at, stances)
