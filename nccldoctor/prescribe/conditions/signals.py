"""Questions about events: what logs, launchers, schedulers and kernels say about such a rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from nccldoctor.events import KINDS, Event, ExceptionRaised, GpuError, Heartbeat, IbError, Phase, ProcessExit, Progress
from nccldoctor.model import SourceKind
from nccldoctor.prescribe.conditions.base import (
    Answer,
    Context,
    Met,
    NotCheckable,
    OneOf,
    Unmet,
    When,
    Who,
    listed,
    named,
    predicate,
    shown,
)
from nccldoctor.prescribe.conditions.survey import Seen, short

KindName = Annotated[str, OneOf(tuple(sorted(KINDS)))]

_KERNEL = {"gpu-error", "kernel"}
_SCHEDULER = {"scheduler"}


def _speaks_of(scene: Context, who: Who) -> Callable[[Seen], bool]:
    """A test of whether an event is about such a rank, or such a rank's host."""
    if who == "anyone":
        return lambda seen: True
    survey, ranks = scene.sightings, scene.ranks(who)
    if who == "culprit" and not ranks:
        return lambda seen: seen.rank is None  # a process that nobody names may be the culprit that nobody can name
    if who != "culprit-host":
        return lambda seen: seen.rank in ranks
    if not ranks:
        return lambda seen: True  # nobody is named: a fault of any host may be the cause
    hosts, single = {short(h) for h in survey.hosts_of(ranks)}, survey.one_host()
    return lambda seen: seen.host in hosts if seen.host is not None else single or seen.rank in ranks


def _matching(scene: Context, kind: str, who: Who, before: When | None) -> Iterator[Seen]:
    speaks_of = _speaks_of(scene, who)
    for seen in scene.sightings.by_kind.get(kind, ()):
        if (before is None or seen.early) and speaks_of(seen):
            yield seen


def _missing_input(scene: Context, kind: str, who: Who) -> str:
    """The input that would show such an event and is not there; empty where it is there."""
    survey, ranks = scene.sightings, scene.ranks(who)
    if kind in _KERNEL:
        return (
            ""
            if survey.has(SourceKind.KERNEL_LOG) or kind in survey.by_kind
            else f"the kernel log of {named(scene, who)}"
        )
    if kind in _SCHEDULER:
        return "" if kind in survey.by_kind else "what the scheduler says of the job (sacct, kubectl describe)"
    if who in ("culprit", "suspects", "victims"):
        if not ranks:
            return "which rank this is about"
        return "" if set(ranks) & set(survey.logged) else f"a log of {named(scene, who)}"
    return "" if survey.has(SourceKind.LOG) or survey.logged else "a log"


@predicate(weight=0.8)
def event(
    scene: Context,
    *,
    kind: KindName,
    of: Who = "anyone",
    text: tuple[str, ...] = (),
    what: tuple[str, ...] = (),
    before: When | None = None,
) -> Answer:
    """There is an event of this kind about such a rank. ``text``: its line or fields hold one of these, in any case;
    ``what``: its ``what`` or ``scope`` is one of these; ``before``: it comes before the first timeout.
    """
    detail = listed((*what, *(f"“{t}”" for t in text)), 4)
    asked = f"{kind}{f' ({detail})' if detail else ''} on {named(scene, of)}"
    wanted = tuple(t.lower() for t in text)
    for seen in _matching(scene, kind, of, before):
        said = getattr(seen.event, "what", None) or getattr(seen.event, "scope", None)
        if what and said not in what:
            continue
        if wanted and not any(t in scene.sightings.text(seen.event) for t in wanted):
            continue
        return Met(asked, shown(seen.event.text), str(seen.event.place))
    missing = _missing_input(scene, kind, of)
    return NotCheckable(asked, missing) if missing else Unmet(asked, "no such line in what was read")


@predicate(weight=0.85)
def exception(
    scene: Context,
    *,
    of: Who = "culprit",
    type_: tuple[str, ...] = (),
    message: tuple[str, ...] = (),
    origin: Literal["own", "echo", "any"] = "own",
    caught: bool = False,
    before: When | None = None,
) -> Answer:
    """An exception about such a rank, by parts of its type and message. ``origin`` is *own* unless said otherwise: an
    echo only repeats another rank's failure. ``caught`` asks for one that the process caught and logged.
    """
    what = listed((*type_, *(f"“{m}”" for m in message)), 4) or "an exception"
    asked = f"{named(scene, of)} {'caught' if caught else 'raised'} {what}"
    for seen in _matching(scene, "exception", of, before):
        raised = seen.event
        if not isinstance(raised, ExceptionRaised) or (origin != "any" and (raised.origin or "own") != origin):
            continue
        if caught and not raised.logged:
            continue
        if type_ and not any(part.lower() in raised.type.lower() for part in type_):
            continue
        if message and not any(part.lower() in f"{raised.message}\n{raised.text}".lower() for part in message):
            continue
        return Met(asked, shown(f"{raised.type}: {raised.message}"), str(raised.place))
    missing = _missing_input(scene, "exception", of)
    return NotCheckable(asked, missing) if missing else Unmet(asked, "no such exception in what was read")


@predicate(weight=0.7)
def exit_(scene: Context, *, of: Who = "culprit", code: tuple[int, ...] = (), signal: tuple[str, ...] = ()) -> Answer:
    """The launcher saw such a rank end with one of these codes or signals (``SIGKILL`` is also -9 and 137)."""
    asked = f"{named(scene, of)} ended with {listed((*map(str, code), *signal))}"
    ends = [s.event for s in _matching(scene, "process-exit", of, None)]
    for end in ends:
        if isinstance(end, ProcessExit) and (end.exitcode in code or (end.signal or "") in signal):
            return Met(asked, shown(end.text), str(end.place))
    if not ends:
        return NotCheckable(asked, "an exit record: the launcher's or scheduler's output")
    return Unmet(asked, shown(ends[0].text))


@predicate(weight=0.9)
def gpu_error(scene: Context, *, of: Who = "culprit-host", xid: tuple[int, ...] = (), sxid: bool = False) -> Answer:
    """The driver reported one of these Xid numbers (or any SXid) for a GPU of such a host or rank."""
    asked = f"Xid {listed(map(str, xid), 12)}{' or an SXid' if sxid else ''} on {named(scene, of)}"
    for seen in _matching(scene, "gpu-error", of, None):
        fault = seen.event
        if isinstance(fault, GpuError) and (
            fault.xid in xid if fault.xid is not None else sxid and fault.sxid is not None
        ):
            return Met(asked, shown(fault.text), str(fault.place))
    missing = _missing_input(scene, "gpu-error", of)
    return NotCheckable(asked, missing) if missing else Unmet(asked, "no such line in the kernel log")


@predicate(weight=0.85)
def ib_error(scene: Context, *, status: tuple[int, ...], of: Who = "anyone") -> Answer:
    """A work completion of InfiniBand or RoCE failed with one of these status numbers (12: the peer does not
    answer).
    """
    asked = f"InfiniBand completion status {listed(map(str, status))} on {named(scene, of)}"
    for seen in _matching(scene, "ib-error", of, None):
        if isinstance(seen.event, IbError) and seen.event.status in status:
            return Met(asked, shown(seen.event.text), str(seen.event.place))
    missing = _missing_input(scene, "ib-error", of)
    return NotCheckable(asked, missing) if missing else Unmet(asked, "no such line in what was read")


@predicate(weight=0.7)
def phase(scene: Context, *, what: tuple[str, ...], of: Who = "culprit") -> Answer:
    """The last thing that such a rank said before the first timeout is that it began one of these: checkpoint,
    evaluation, sampling, data, compile, epoch-end, finished. A line without a rank counts for rank 0, which prints for
    all in most jobs.
    """
    asked = f"{named(scene, of)} was last seen in {listed(what)}"
    words = _last_words(scene, of)
    if not words:
        return NotCheckable(asked, f"a log of {named(scene, of)} that tells its phases")
    for last in words:
        begun = isinstance(last, Phase) and last.what in what and not last.detail.startswith("done")
        if begun or (isinstance(last, Progress) and _bar(last) in what):
            return Met(asked, shown(last.text), str(last.place))
    kind = {Progress: "a step", Heartbeat: "a heartbeat"}.get(type(words[0]), "another phase")
    return Unmet(asked, f"its last line is {kind}: {shown(words[0].text)}")


@predicate(weight=0.6)
def phase_over(scene: Context, *, what: tuple[str, ...], of: Who = "culprit") -> Answer:
    """The last thing that such a rank said before the first timeout is that one of these is over: it has gone on while
    others are still in it. A line without a rank counts for rank 0.
    """
    asked = f"{named(scene, of)} was just out of {listed(what)}"
    words = _last_words(scene, of)
    if not words:
        return NotCheckable(asked, f"a log of {named(scene, of)} that tells its phases")
    for last in words:
        if isinstance(last, Phase) and last.what in what and last.detail.startswith("done"):
            return Met(asked, shown(last.text), str(last.place))
    return Unmet(asked, f"its last line is: {shown(words[0].text)}")


def _last_words(scene: Context, of: Who) -> list[Event]:
    """The last phase, step or heartbeat of each such rank."""
    ranks = scene.ranks(of)
    return [
        said
        for (rank, _), said in scene.sightings.last_words.items()
        if of == "anyone" or rank in ranks or (rank == -1 and 0 in ranks)
    ]


_BARS = {
    "evaluation": ("valid", "eval", "test"),
    "sampling": ("sampl", "generat", "ddim"),
    "data": ("token", "map", "preproc", "download"),
    "checkpoint": ("saving", "save"),
}


def _bar(bar: Progress) -> str | None:
    """The phase that a progress bar's label speaks of."""
    label = (bar.label or "").lower()
    return next((what for what, words in _BARS.items() if any(word in label for word in words)), None)
