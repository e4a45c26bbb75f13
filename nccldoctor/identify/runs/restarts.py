"""Keeps only the newest attempt of a job: each start by its launcher is an attempt of its own.

Folders of torchrun (``attempt_1``) were told apart before. Here attempts are told apart by restart lines in a launcher's or a merged log,
by an agent of torchrun that had closed all of its workers and closes others, and else (a
requeue that goes on in the same file, a loop around the launcher, folders of several runs) by the ranks themselves: a rank that ended
or gave up, and then starts again or is back at an earlier step, is a new process. Example: rank 3 gives up at step 900 and prints
step 800 a minute later: the second attempt resumed from the checkpoint of step 800.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.events import (
    CallTimeout,
    CommInit,
    Event,
    Events,
    ExceptionRaised,
    Note,
    Phase,
    ProcessExit,
    Progress,
    RendezvousError,
    SchedulerEvent,
    Setting,
    TearDown,
    Version,
)
from nccldoctor.identify.case import Case
from nccldoctor.identify.clock_skew import without_foreign_times
from nccldoctor.model import Gap, SourceKind
from nccldoctor.model.ranks import Ranks

EARLIER = "earlier attempts of the job"
"""What a gap calls them."""

PAUSE = 10.0
"""Seconds between the end of an attempt and the first line of the next; clocks of hosts differ by less."""

SILENCE = 900.0
"""Seconds without a line behind the end of a rank, from which on its next step is that of a new process."""

BREAK = 60.0
"""The same where that step is an earlier one: steps are counted anew in each epoch, too."""


def newest_attempt(case: Case) -> Case:
    """The case with only the events of its newest attempt; what was left out is a Gap."""
    case = without_foreign_times(case)
    starts = _attempt_starts(case)
    begins = {source: lines[-1] for source, lines in starts.items()}
    keep = _begun(case, begins)
    is_unseen = any(begins.values()) and not _has_begun(case, keep, begins)
    if is_unseen:  # the log ends where the launcher starts the job again
        begins = {source: lines[-2] if lines[1:] else 0 for source, lines in starts.items()}
        keep = _begun(case, begins)
    timed = [(at, at, case.events[i]) for i in keep if not math.isnan(at := float(case.seconds[i]))]
    ended = _last_end(sorted(timed, key=lambda row: row[0]), PAUSE), _restarted_at(case, keep, begins)
    numbered, keep = keep, _after(case, keep, max((at for at in ended if at is not None), default=math.nan))
    left_out = len(case.events) - len(keep)
    why = "the launcher started it, and none of its lines is here: the one before is diagnosed"
    unseen = [Gap("newest attempt of the job", why, apart=True)] if is_unseen else []
    has_others = left_out or any(gap.is_of_other_run and not gap.in_folders for gap in case.gaps)
    undated = _undated_gaps(case, keep, begins) if has_others else []
    if not left_out:
        return replace(case, gaps=(*case.gaps, *unseen, *undated))
    why = f"{left_out} events left out, because only the newest attempt is diagnosed"
    gap = Gap(EARLIER, why, apart=True)
    events = Events(case.events[i] for i in keep)
    gone = _emptied_gaps(case, numbered, keep)
    return replace(case, events=events, seconds=case.seconds[keep], gaps=(*case.gaps, gap, *unseen, *undated, *gone))


def _emptied_gaps(case: Case, numbered: Sequence[int], keep: Sequence[int]) -> list[Gap]:
    """Gaps for files of ranks that lost all events by their times.

    ``numbered`` were kept by the numbers of attempts alone.

    Example: the clock of one host is an hour behind, so that all lines of its ranks seem to be from before the restart.
    """
    left = {case.events[i].place.source for i in keep}
    emptied = {case.events[i].place.source for i in numbered} - left
    heard = {s.rank for s in case.sources if s.id in left}
    why = "all its lines seem older than the newest attempt: it's from another run, or its clock is wrong"
    return [
        Gap(s.path, why, Ranks([s.rank]), s.id, lost=True)
        for s in case.sources
        if s.id in emptied and s.rank is not None and s.rank not in heard
    ]


def _undated_gaps(case: Case, keep: Sequence[int], begins: Mapping[int, int]) -> list[Gap]:
    """Gaps for untimed files beside files of several attempts: theirs is not known. Settings and versions are alike in all."""
    timed = {case.events[i].place.source for i in keep if not math.isnan(case.seconds[i])}
    untimed = {e.place.source for i in keep if not isinstance(e := case.events[i], Setting | Version)} - timed
    untimed -= {gap.source for gap in case.gaps if gap.odd}
    why = "none of its lines has a time, and other files are from several attempts"
    return [
        Gap(s.path, why, Ranks([s.rank] if s.rank is not None else []), s.id, lost=True)
        for s in case.sources
        if s.id in untimed
        and s.attempt is None
        and not begins.get(s.id)
        and s.kind in (SourceKind.LOG, SourceKind.KERNEL_LOG)
    ]


def _attempt_starts(case: Case) -> dict[int, list[int]]:
    """The lines of each source on which attempts begin, in order (0: none is seen to begin)."""
    by_source: dict[int, list[tuple[float, Event]]] = defaultdict(list)
    for second, event in zip(case.seconds.tolist(), case.events, strict=True):
        by_source[event.place.source].append((second, event))
    out: dict[int, list[int]] = {}
    for source, timed in by_source.items():
        lines = [event for _, event in timed]
        starts = [e.place.line or 0 for e in lines if isinstance(e, Note) and e.what == "restart"]
        last_work = max((e.place.line or 0 for e in lines if not e.is_trouble and e.consequence is None), default=0)
        requeues = [e.place.line or 0 for e in lines if isinstance(e, SchedulerEvent) and e.what == "requeue"]
        starts += [line + 1 for line in requeues if 0 < line < last_work]  # errors below still end the attempt before
        ended = _last_end((e.place.line or 0, second, e) for second, e in timed)
        again = ended is not None and any(_is_of_job(e) for e in lines if (e.place.line or 0) > ended)
        out[source] = sorted({*starts, int(ended) + 1 if ended is not None and again else 0})
    return out


def _is_of_job(event: Event) -> bool:
    """False for a launcher's greeting, which a buffer may have held back, and for its failure to start anything."""
    if isinstance(event, ExceptionRaised):
        return event.rank is not None or event.origin == "own"
    return event.rank is not None or not (isinstance(event, Note | RendezvousError) or _is_start(event))


def _has_begun(case: Case, keep: Sequence[int], begins: Mapping[int, int]) -> bool:
    """True where the newest attempt has a line of the job. One launcher may restart its workers and find the rendezvous closed."""
    timed = zip(case.seconds.tolist(), case.events, strict=True)
    starts = [at for at, e in timed if e.place.line == begins[e.place.source] and not math.isnan(at)]
    last = max(starts, default=math.nan)
    others = any(case.seconds[i] > last or math.isnan(last) for i in keep if not begins[case.events[i].place.source])
    return others or any(_is_of_job(e) for i in keep if begins[(e := case.events[i]).place.source])


def _restarted_at(case: Case, keep: Sequence[int], begins: Mapping[int, int]) -> float | None:
    """The time of the newest restart line, or of the line before it, on the job's clock.

    Files without such a line are split there. None where no line has a time, or the clocks of the files contradict each other.
    """
    before, behind = -math.inf, math.inf
    kept = set(keep)
    for i, event in enumerate(case.events):
        line = begins.get(event.place.source, 0)
        if line and not math.isnan(case.seconds[i]):
            again = isinstance(event, Note) and event.what == "restart" and event.place.line == line
            if i in kept and not again:
                behind = min(behind, float(case.seconds[i]))
            elif again or (event.place.line or 0) < line:
                before = max(before, float(case.seconds[i]))
    return before if -math.inf < before < behind < math.inf else None


def _after(case: Case, keep: list[int], ended: float) -> list[int]:
    """The events after ``ended``. One without a time goes with the timed line before, else the next; an untimed file with its folder."""
    if math.isnan(ended):
        return keep
    lines: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    is_later: dict[str, bool] = {}
    folders = {s.id: s.path.rpartition("/")[0] for s in case.sources}
    for i in keep:
        if not math.isnan(case.seconds[i]):
            place, later = case.events[i].place, bool(case.seconds[i] > ended)
            lines[place.source].append((place.line or 0, later))
            is_later[folders[place.source]] = is_later.get(folders[place.source], False) or later
    for timed in lines.values():
        timed.sort()

    def stays(i: int) -> bool:
        place = case.events[i].place
        if not math.isnan(case.seconds[i]):
            return bool(case.seconds[i] > ended)
        timed = lines.get(place.source)
        if timed is None:
            return is_later.get(folders[place.source], True)
        return timed[max(0, bisect_right(timed, (place.line or 0, True)) - 1)][1]

    return [i for i in keep if stays(i)]


class _Attempt(Struct):
    """The ranks of one attempt while its events are read in order.

    ``heard`` is the latest time of any line, ``resumed`` the place of the first line after the longest silence and ``silence`` its
    length. ``gone`` is the place at which each rank ended, ``ended`` the time, and ``raised`` are those whose end is an exception, which a
    program may have caught. ``step`` is the highest step by (rank, label, epoch), ``spoke`` are the ranks that wrote lines, and ``closed``
    is the place at which each agent of torchrun had closed all of its workers, ``left`` that at which a signal ended the agent itself.
    """

    heard: float = -math.inf
    resumed: float = -math.inf
    silence: float = BREAK
    ended: dict[int | None, float] = {}
    step: dict[tuple[int | None, str | None, int | None], int] = {}
    spoke: set[int | None] = set()
    gone: dict[int | None, float] = {}
    raised: set[int | None] = set()
    closed: dict[int, float] = {}
    left: float = math.inf

    def is_over_at(self, event: Event, at: float, second: float, pause: float) -> bool:
        """True for the first event of the next attempt: by a rank that had ended, or by its launcher.

        Logs of several nodes may be concatenated: what happened before the latest end is no new attempt.
        """
        if event.rank is None and _is_start(event):
            return bool(self.spoke) and at > max(self.gone.values()) + pause and not second < max(self.ended.values())
        if isinstance(event, Progress) and event.rank in self.spoke and at > self.left + pause:
            return True
        if event.rank not in self.gone or at <= self.gone[event.rank] + pause or second < self.ended[event.rank]:
            return False
        if isinstance(event, Progress):
            is_back = event.step is not None and event.step < self.step.get((event.rank, event.label, event.epoch), -1)
            is_late = event.is_step and self.resumed > self.gone[event.rank]
            is_rerun = is_late and (is_back or self.silence > SILENCE)
            return is_rerun or (is_back and event.rank not in self.raised)
        return event.rank in self.spoke and _is_start(event)

    def listen(self, at: float, second: float) -> None:
        """Add the time of a line."""
        silence = second - self.heard if math.isfinite(self.heard) else 0.0  # before the first line lies no silence
        if silence > self.silence or (silence > BREAK and self.resumed <= max(self.gone.values(), default=-math.inf)):
            self.resumed, self.silence = at, silence
        self.heard = second if second > self.heard else self.heard

    def learn(self, event: Event, at: float, second: float) -> None:
        """Add what the event says of its rank."""
        if isinstance(event, ExceptionRaised):
            if event.type.endswith(".SignalException"):
                self.left = self.gone[None] = at
                self.ended[None] = second
            elif event.origin == "own" and event.rank not in self.gone:
                self.gone[event.rank], self.ended[event.rank] = at, -math.inf
                self.raised.add(event.rank)
        elif _is_end(event):
            # torchrun's line about its first failed worker: it prints it when it has closed all of its workers
            has_closed_all = isinstance(event, ProcessExit) and event.reporter == "torchrun" and event.rank is None
            for rank in (event.rank, *(self.spoke if has_closed_all else ())):
                self.gone[rank] = max(at, self.gone.get(rank, at))
                self.ended[rank] = max(-math.inf if math.isnan(second) else second, self.ended.get(rank, -math.inf))
                self.raised.discard(rank)
            if isinstance(event, ProcessExit) and event.agent is not None:
                self.closed[event.agent] = at
            return
        self.spoke.add(event.rank)
        if isinstance(event, Progress) and event.step is not None:
            key = (event.rank, event.label, event.epoch)
            self.step[key] = max(event.step, self.step.get(key, -1))


def _last_end(events: Iterable[tuple[float, float, Event]], pause: float = 0.0) -> float | None:
    """Where the last attempt but one ended, in ordered events with places and times; None for one attempt."""
    attempt, end_before = _Attempt(), None
    for at, second, event in events:
        attempt.listen(at, second)
        closed = attempt.closed.get(event.agent) if isinstance(event, TearDown) and event.agent is not None else None
        if closed is not None:  # an agent closes workers that it started since it had closed all
            end_before, attempt = closed, _Attempt(heard=attempt.heard)
        elif attempt.gone and attempt.is_over_at(event, at, second, pause):
            ended = max(end for end in attempt.gone.values() if end < at)
            is_resumed = attempt.resumed > (ended if _is_start(event) else attempt.gone.get(event.rank, ended))
            end_before = attempt.resumed - 1e-3 if is_resumed else ended  # less lies between no two lines or times
            attempt = _Attempt(heard=attempt.heard)
        attempt.learn(event, at, second)
    return end_before


_ENDS = (CallTimeout, TearDown)  # a tuple: a union would be made anew for each of all lines


def _is_end(event: Event) -> bool:
    """True when a rank ends with the event: a timeout, a tear-down or an exit with an error."""
    if isinstance(event, ProcessExit):
        return bool(event.exitcode or event.signal)
    return isinstance(event, _ENDS)


def _is_start(event: Event) -> bool:
    if isinstance(event, CommInit):
        return event.what == "start"
    return isinstance(event, Phase) and event.what == "starting"


def _begun(case: Case, begins: Mapping[int, int]) -> list[int]:
    """The events from the line on with which the newest attempt begins in their file."""
    return [i for i, e in enumerate(case.events) if (e.place.line or 0) >= begins.get(e.place.source, 0)]
