"""The stall to scale: a bar for ranks that stand alike, from the first arrival to the end.

Second 0 is when the first rank entered the stalled call. What no line holds, such as a start that was worked out from a timeout, is
dashed. Bars that share a reason to end share it with a flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import Mark, Timeline
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Involvement, Standing
from nccldoctor.model.steps import JobState
from nccldoctor.reports.charts.text_width import fitting, width_of
from nccldoctor.reports.parts import standing_titles
from nccldoctor.reports.parts.tones import Tone, tone_of
from nccldoctor.words import numbers, times
from nccldoctor.words.sanitize import line

RIGHT = 18
TOP, ROW, BAR = 40, 26, 16
ROWS = 8
SHORTEST = 0.02
"""Seconds of a stall that is worth a drawing: what is shorter is the noise of clocks."""

SMALL = 11.5

LABEL, LABEL_WIDTH = 12.5, 104
"""The size of a row's label, and the pixels that it has."""

FLAGS = {
    "trouble": "fault",
    "dump": "dump written",
    "dump-request": "dump requested",
    "stack": "stacks taken",
    "timeout": "first timeout",
    "exception": "exception",
    "exit": "first exit",
    "life": "step finished",
}
"""Kinds of marks that become a flag, with its label where the mark has no words of its own."""

WORDED = ("trouble", "exit", "exception", "life")

LEGEND = {
    Tone.CULPRIT: "at fault",
    Tone.SUSPECT: "suspect",
    Tone.WAITING: "waiting for it",
    Tone.BLOCKED: "waiting behind them",
    Tone.CROWD: "waiting crowd",
}


class Frame(Struct, frozen=True):
    """The pixels of a drawing: where its bars begin, and its width."""

    left: int
    width: int


PAGE, BESIDE = Frame(170, 1096), Frame(108, 612)
"""Across the page with the hosts of the rows, and beside the steps."""


class Bar(Struct, frozen=True):
    """One row: its label, and its bar in pixels, with the text on it.

    ``exit_x`` is where the last of the processes ended, None where unknown; a thin line leads there. ``is_calculated``: its start is.
    """

    label: str
    detail: str
    tone: Tone
    y: int
    x: float
    width: float
    text: str
    text_width: float
    key: str
    exit_x: float | None
    is_calculated: bool


class Flag(Struct, frozen=True):
    """A moment: a vertical line with a label and its time; ``anchor`` says on which side of it they stand."""

    x: float
    label: str
    clock: str
    anchor: str
    is_calculated: bool = False


class TimeLeft(Struct, frozen=True):
    """The rest of the timeout of a job that still hangs, from the last moment known."""

    x: float
    width: float
    text: str


class Tick(Struct, frozen=True):
    """A mark of the axis."""

    x: float
    label: str


class StallPicture(Struct, frozen=True):
    """The drawing; ``subtitle`` says what second 0 is, ``says`` the same in words."""

    bars: tuple[Bar, ...]
    flags: tuple[Flag, ...]
    ticks: tuple[Tick, ...]
    left: TimeLeft | None
    width: int
    height: int
    subtitle: str
    says: str

    @property
    def legend(self) -> tuple[tuple[Tone, str], ...]:
        """What the colours mean, of those in the drawing."""
        shown = {bar.tone for bar in self.bars}
        return tuple((tone, text) for tone, text in LEGEND.items() if tone in shown)

    @property
    def has_exits(self) -> bool:
        """True where a process is shown to end."""
        return any(bar.exit_x is not None for bar in self.bars)

    @property
    def is_calculated(self) -> bool:
        """True where a part of the drawing stands in no file."""
        return any(bar.is_calculated for bar in self.bars) or any(flag.is_calculated for flag in self.flags)


class _Scale(Struct, frozen=True):
    """Seconds to pixels, and to the clock of the page: UTC, or that of logs that name no zone."""

    start: float
    end: float
    zero: float
    clock: datetime | None
    ahead: float
    frame: Frame

    def x(self, at: float) -> float:
        inside, left = min(max(at, self.start), self.end), self.frame.left
        return left + (inside - self.start) * (self.frame.width - left - RIGHT) / (self.end - self.start)

    def time(self, at: float) -> str:
        """``11:32:52``: the time as the facts of the page count it, "" where the stall has none."""
        if self.clock is None:
            return ""
        shown = at if self.clock.tzinfo is not None else at + self.ahead
        return datetime.fromtimestamp(shown, UTC).strftime("%H:%M:%S")


def stall_picture(diagnosis: Diagnosis, frame: Frame = PAGE) -> StallPicture | None:
    """The drawing; None where no time is known after the stall began, or a culprit would be missing."""
    # culprits come first: what is left over keeps out, and never a culprit
    rows = [s for s in diagnosis.standings if s.distance is not None][:ROWS]
    waiting = [s for s in rows if s.distance and s.since is not None and s.call is not None]
    if not waiting or not diagnosis.verdict.ranks <= Ranks(r for s in rows for r in s.ranks):
        return None
    zero = min(s.since for s in waiting if s.since is not None)
    flags = list(diagnosis.timeline.flags) if diagnosis.timeline is not None else []
    known = [at for s in rows for at in (s.until, s.ended) if at is not None] + [mark.at for mark in flags]
    seen, fires = _running(diagnosis, zero)
    last = max([zero, *known, *(at for at in (seen,) if at is not None)])
    if last - zero < SHORTEST:
        return None
    scale, limit = _scale(diagnosis, rows, zero, last, fires, frame)
    first = min(waiting, key=lambda s: s.since or 0.0)
    is_left = fires is not None and fires > last
    # about six ticks from second 0 on
    seconds = scale.end - scale.zero
    step = next((s for s in STEPS if seconds / s <= frame.width / 150), 86400)
    told = (
        f"{standing_titles.ranks_title(s.ranks)}: {standing_titles.place_title(s)}"
        + (f", until {times.duration((s.until - zero) * 1e3)}" if s.until is not None else "")
        for s in rows
    )
    return StallPicture(
        tuple(_bar(standing, number, scale, last, diagnosis.verdict.blamed) for number, standing in enumerate(rows)),
        _flag_lines([*flags, *_limit_flag(flags, limit, scale, is_running=is_left)], scale),
        tuple(
            Tick(scale.x(scale.zero + n * step), "0" if n == 0 else times.duration(n * step * 1e3))
            for n in range(int(seconds / step) + 1)
        ),
        _left(scale, last, fires, is_timed=seen == last) if fires is not None and is_left else None,
        frame.width,
        TOP + len(rows) * ROW + 26,
        _subtitle(first, diagnosis.timeline, scale),
        "; ".join(told) + ".",
    )


def _scale(
    diagnosis: Diagnosis, rows: Sequence[Standing], zero: float, last: float, fires: float | None, frame: Frame
) -> tuple[_Scale, float | None]:
    """The scale of the drawing, and when the timeout runs out; an unfinished stall is drawn up to there."""
    call, found = diagnosis.verdict.stalled, diagnosis.timeline
    limit = zero + call.timeout_ms / 1e3 if call is not None and call.timeout_ms else None
    limit = fires if fires is not None else limit
    is_over = any(s.until is not None for s in rows)
    end = last if is_over or limit is None else max(last, limit)
    start = min([zero, *(mark.at for mark in (found.flags if found is not None else ()))])
    ahead = found.ahead if found is not None else 0.0
    return _Scale(start, end, zero, call.since if call is not None else None, ahead, frame), limit


def _running(diagnosis: Diagnosis, zero: float) -> tuple[float | None, float | None]:
    """The newest look at a job that still hangs, and the end of its timeout, in seconds of the drawing."""
    end, call = diagnosis.job_end, diagnosis.verdict.stalled
    if end.state is not JobState.RUNNING or call is None or call.since is None:
        return None, None
    began = call.since
    seen, fires = (None if at is None else zero + (at - began).total_seconds() for at in (end.seen, end.deadline))
    return seen, fires


def _left(scale: _Scale, last: float, fires: float, *, is_timed: bool) -> TimeLeft:
    """The rest of the timeout; how long it is only where the last moment is a look at the job."""
    x, width = scale.x(last), scale.x(fires) - scale.x(last)
    text = f"{times.duration((fires - last) * 1e3)} left" if is_timed else ""
    return TimeLeft(x, width, fitting(text, SMALL, width - 12))


def _limit_flag(flags: Sequence[Mark], limit: float | None, scale: _Scale, *, is_running: bool) -> list[Mark]:
    """The timeout where no line holds it: drawn as far behind second 0 as it is long."""
    if limit is None or limit > scale.end or any(mark.kind == "timeout" for mark in flags):
        return []
    text = "times out" if is_running else f"{times.duration((limit - scale.zero) * 1e3)} timeout"
    return [Mark("limit", limit, text)]


def _subtitle(first: Standing, found: Timeline | None, scale: _Scale) -> str:
    who = standing_titles.ranks_title(first.ranks) if len(first.ranks) == 1 else "the first rank"
    entered = f"Time since {who} entered {standing_titles.waited_title(first.call)}"
    worked_out = ", worked out from its timeout" if first.is_calculated else ""
    is_moved = found is not None and found.ahead and scale.clock is not None and scale.clock.tzinfo is not None
    zone = times.zone_name(found.ahead) if found is not None else ""
    return f"{entered}{worked_out}." + (f" Times are UTC; these logs print {zone}." if is_moved else "")


def _bar(standing: Standing, number: int, scale: _Scale, last: float, blamed: Ranks) -> Bar:
    is_waiting = standing.involvement in (Involvement.WAITING, Involvement.BLOCKED)
    since = max(standing.since, scale.zero) if is_waiting and standing.since is not None else scale.zero
    until = max(standing.until if standing.until is not None else last, since)
    x, end = scale.x(since), scale.frame.width - RIGHT
    width = max(scale.x(until) - x, 3.0)
    text = fitting(_bar_text(standing, until - since, blamed), SMALL, end - x - 24)
    title = standing_titles.ranks_title(standing.ranks)
    hosts = numbers.plural(len(standing.hosts), "host") if len(standing.hosts) > 1 else "".join(standing.hosts)
    return Bar(
        label=title if width_of(title, LABEL) <= LABEL_WIDTH else numbers.plural(len(standing.ranks), "rank"),
        detail=hosts if scale.frame is PAGE else "",
        tone=tone_of(standing),
        y=TOP + number * ROW,
        x=x,
        width=width,
        text=text,
        text_width=min(width_of(text, SMALL), end - x - 16),
        key=str(standing.ranks),
        exit_x=scale.x(standing.ended) if standing.ended is not None else None,
        is_calculated=standing.is_calculated or (is_waiting and standing.since is None),
    )


def _bar_text(standing: Standing, seconds: float, blamed: Ranks) -> str:
    """``DP 9 · ALLREDUCE #9, 11.6 s, needs rank 0``: what the ranks were in, how long, and for whom.

    That they need the ranks at fault is what their colour says.
    """
    place = standing_titles.place_title(standing)
    if standing.call is None and not standing.frame and standing.end and standing.involvement is Involvement.CULPRIT:
        return f"{place}, then {standing.end}"
    if standing.involvement not in (Involvement.WAITING, Involvement.BLOCKED):
        return place
    is_told = standing.waits_for in (Ranks(), blamed)
    needs = "" if is_told else f", needs {standing_titles.ranks_title(standing.waits_for)}"
    return f"{place}, {times.duration(seconds * 1e3)}{needs}"


def _flag_lines(marks: Sequence[Mark], scale: _Scale) -> tuple[Flag, ...]:
    """Flags in order of time; marks that stand close share one.

    Labels that would meet move to the other side of their line, or go.
    """
    moments: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: mark.at):
        if moments and scale.x(mark.at) - scale.x(moments[-1][0].at) < 14:  # pixels: nearer flags share a line
            moments[-1].append(mark)
        else:
            moments.append([mark])
    out: list[Flag] = []
    used = float(scale.frame.left)
    for number, moment in enumerate(moments):
        x = scale.x(moment[0].at)
        following = scale.x(moments[number + 1][0].at) if number + 1 < len(moments) else float(scale.frame.width)
        flag, used = _placed_flag(moment, x, used, following, scale)
        out.append(flag)
    return tuple(out)


def _placed_flag(moment: Sequence[Mark], x: float, used: float, following: float, scale: _Scale) -> tuple[Flag, float]:
    """A flag with its label on the side that has room, and the x up to which it reaches."""
    clock = scale.time(moment[0].at)
    is_calculated = all(mark.kind == "limit" for mark in moment)
    right, left = following - x - 12, x - used - 12
    room = max(right, left, 0.0)
    labels = [", ".join(dict.fromkeys(name(mark) for mark in moment[:3])) for name in (_label, _short_label)]
    shown = next((text for text in labels if width_of(text, SMALL) <= room), fitting(labels[-1], SMALL, room))
    wide = max(width_of(shown, SMALL), 60.0 if clock else 0.0)
    if max(right, left) < 64:
        return Flag(x, "", "", "start", is_calculated), x
    if wide <= right:
        return Flag(x, shown, clock, "start", is_calculated), x + wide + 12
    return Flag(x, shown, clock, "end", is_calculated), x


def _label(mark: Mark) -> str:
    return line(mark.text, 60) if mark.kind in WORDED else _short_label(mark)


def _short_label(mark: Mark) -> str:
    return FLAGS.get(mark.kind, mark.text)


STEPS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600),
    *(1200, 1800, 3600, 7200, 14400, 43200),
)
"""Seconds between two ticks: round seconds, minutes or hours."""
