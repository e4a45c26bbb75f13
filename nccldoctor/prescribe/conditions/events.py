"""Questions about events: what logs, launchers, schedulers and kernels say about a rank."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from nccldoctor.align.exits import SLACK, has_gone_on_after, task_failed_above
from nccldoctor.align.world.addresses import lookups_in_vain, wrong_addresses
from nccldoctor.events import (
    KINDS,
    CommInit,
    Event,
    ExceptionRaised,
    GpuError,
    Heartbeat,
    IbError,
    NcclWarn,
    Phase,
    ProcessExit,
    Progress,
    SchedulerEvent,
    SocketError,
    StoreError,
    TearDown,
    Writer,
)
from nccldoctor.model import Family, SourceKind
from nccldoctor.model.hosts import host_key
from nccldoctor.prescribe.conditions.base import Context, OneOf, When, Who, listed, predicate
from nccldoctor.prescribe.conditions.work import phase_of_bar
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet, excerpt, quoted

_E = TypeVar("_E", bound=Event)
KindName = Annotated[str, OneOf(tuple(sorted(KINDS)))]

_LINES = tomllib.loads(Path(__file__).parents[1].joinpath("event_words.toml").read_text(encoding="utf-8"))


def _is_about(context: Context, who: Who) -> Callable[[Event], bool]:
    """A test that is true for events about such a rank, or about such a rank's host."""
    if who == "anyone":
        return lambda event: True
    survey, ranks = context.survey, context.ranks_of(who)
    if who == "possible-culprit":
        return lambda event: not ranks or event.rank is None or event.rank in ranks
    if who == "culprit" and not ranks:
        # An event without a rank may be about the culprit that nobody can name.
        return lambda event: event.rank is None
    if who != "culprit-host":
        return lambda event: event.rank in ranks
    if not ranks:
        return lambda event: True  # nobody is named: a fault of any host may be the cause
    hosts, single = {host_key(host) for host in survey.hosts_of(ranks)}, survey.is_single_host()
    others: set[str] = set()
    if has_open := any(survey.case.pods.is_pod(host) for host in survey.hosts_of(ranks)):  # any node may be under it
        others = {host_key(host) for host in survey.hosts_of(survey.case.rank_host)} - hosts

    def is_there(event: Event) -> bool:
        if (host := survey.host_of(event)) is None:
            return single or event.rank in ranks
        return host in hosts or event.rank in ranks or (has_open and host not in others)

    return is_there


def _matching(context: Context, cls: type[_E], who: Who, before: When | None = None) -> Iterator[_E]:
    """The events of a class about ``who``, without failed transfers and set-ups that a rank of a stopped job outlived."""
    is_about, liveness = _is_about(context, who), context.survey.facts.liveness
    for event in context.survey.events_of(cls):
        is_felt = context.finding.family is Family.SLOW or not isinstance(event, IbError | SocketError | NcclWarn)
        is_early = before is None or not liveness.is_after_alarm(event)
        if is_early and is_about(event) and (is_felt or not has_gone_on_after(liveness, event)):
            yield event


def _not_met(context: Context, asked: str, kind: str, who: Who, says: str = "no such line in the logs") -> Answer:
    """*Unmet*, or *not checkable* where the input that would show such an event is not there."""
    missing = _missing_input(context, kind, who)
    return NotCheckable(asked, missing) if missing else Unmet(asked, says)


def _missing_input(context: Context, kind: str, who: Who) -> str:
    """The input that would show such an event and is not there; empty where it is there."""
    survey, ranks = context.survey, context.ranks_of(who)
    if KINDS[kind].writer is Writer.KERNEL:
        is_there = SourceKind.KERNEL_LOG in survey.source_kinds or survey.events_of(KINDS[kind])
        return "" if is_there else f"the kernel log of {context.in_words(who)}"
    if KINDS[kind].writer is Writer.SCHEDULER:
        return "" if survey.events_of(KINDS[kind]) else "the scheduler's record of the job (sacct, kubectl describe)"
    if who in ("culprit", "named-culprit", "suspects", "victims"):
        if not ranks:
            return "the name of the rank at fault"
        return "" if ranks & survey.facts.liveness.log_read else f"a log of {context.in_words(who)}"
    return "" if SourceKind.LOG in survey.source_kinds or survey.facts.liveness.log_read else "any log"


_TOPIC = ("what", "scope", "topic", "how", "bearing")
"""The fields that say what an event of its kind is about."""


@predicate(weight=0.8)
def event(
    context: Context,
    *,
    kind: KindName,
    of: Who = "anyone",
    text: tuple[str, ...] = (),
    what: tuple[str, ...] = (),
    before: When | None = None,
) -> Answer:
    """There is an event of this kind about such a rank. ``text``: its line or fields hold one of these, in any case;
    ``what``: its ``what``, ``scope``, ``topic``, ``how`` or ``bearing`` is one of these; ``before``: it comes before the first complaint.
    """
    detail = listed((*what, *(f"“{t}”" for t in text)), 4)
    about = "" if of == "anyone" else f" from {context.in_words(of)}"
    asked = f"the input shows {_LINES.get(kind, f'a {kind} line')}{f' ({detail})' if detail else ''}{about}"
    wanted = tuple(t.lower() for t in text)
    for candidate in _matching(context, KINDS[kind], of, before):
        if what and not any(getattr(candidate, name, None) in what for name in _TOPIC):
            continue
        if wanted and not any(t in context.survey.searchable_text(candidate) for t in wanted):
            continue
        return Met(asked, quoted(candidate), str(candidate.place))
    return _not_met(context, asked, kind, of)


@predicate(weight=0.85)
def exception(
    context: Context,
    *,
    of: Who = "culprit",
    type_: tuple[str, ...] = (),
    message: tuple[str, ...] = (),
    origin: Literal["own", "echo", "any"] = "own",
    caught: bool = False,
    before: When | None = None,
) -> Answer:
    """An exception about such a rank, by the last names of its type and parts of its message. ``origin`` is *own* unless said otherwise: an
    echo only repeats another rank's failure. ``caught`` asks for one that the process caught and logged.
    """
    what = listed((*type_, *(f"“{m}”" for m in message)), 4) or "an exception"
    asked = f"{context.in_words(of)} {'caught' if caught else 'raised'} {what}"
    for raised in _matching(context, ExceptionRaised, of, before):
        if origin != "any" and (raised.origin or "own") != origin:
            continue
        if caught and not raised.logged:
            continue
        if not raised.type and not context.ranks_of(of):
            continue  # a traceback that is cut before its name, of a rank that nobody can name
        if type_ and not any(f".{raised.type.replace('::', '.')}".endswith(f".{name}") for name in type_):
            continue
        if message and not any(part.lower() in f"{raised.message}\n{raised.text}".lower() for part in message):
            continue
        return Met(asked, excerpt(f"{raised.type}: {raised.message}"), str(raised.place))
    return _not_met(context, asked, "exception", of, "no such exception in the logs")


@predicate(weight=0.7)
def exit_(context: Context, *, of: Who = "culprit", code: tuple[int, ...] = (), signal: tuple[str, ...] = ()) -> Answer:
    """The launcher saw such a rank end with one of these codes or signals (``SIGKILL`` is also -9 and 137)."""
    asked = f"{context.in_words(of)} exited with {listed((*map(str, code), *signal))}"
    ends = list(_matching(context, ProcessExit, of))
    rows = [row for r in context.ranks_of(of) for row in context.survey.case.unlisted_ranks.get(r, ())]
    if 0 in code and rows and not ends:
        return Met(asked, "the launcher's table of its node leaves it out", str(rows[0].place))
    return _of_ends(asked, ends, lambda end: end.exitcode in code or (end.signal or "") in signal)


def _of_ends(asked: str, ends: Sequence[ProcessExit], is_asked: Callable[[ProcessExit], bool]) -> Answer:
    """Whether one of these ends is the one that is asked for."""
    for end in filter(is_asked, ends):
        return Met(asked, quoted(end), str(end.place))
    missing = "an exit record (the output of the launcher or the scheduler)"
    return Unmet(asked, quoted(ends[0])) if ends else NotCheckable(asked, missing)


@predicate(weight=0.7)
def exit_by_itself(context: Context, *, of: Who = "culprit") -> Answer:
    """The launcher saw such a rank end with an exit code above 0 that is not that of a signal."""
    asked = f"{context.in_words(of)} exited with an error code and no signal killed it"
    ends = list(_matching(context, ProcessExit, of))
    return _of_ends(asked, ends, lambda end: 0 < (end.exitcode or 0) < 128 and not end.signal)


@predicate(weight=0.9)
def task_failed_first(context: Context, *, stop: tuple[str, ...]) -> Answer:
    """A task of Slurm failed before such an event told its step or its launcher to stop."""
    asked = "a task of Slurm failed before the stop"
    case = context.survey.case
    stops: list[Event] = [e for e in case.of(SchedulerEvent) if e.what in stop]
    stops += [e for e in case.of(TearDown) if e.what in stop]
    first = min(stops, key=lambda e: (e.place.source, e.place.line or 0), default=None)
    failed = task_failed_above(case, first) if first is not None else None
    return (
        Met(asked, quoted(failed), str(failed.place)) if failed is not None else Unmet(asked, "no exit stands above it")
    )


@predicate(weight=0.55)
def ended_silently(context: Context, *, of: Who = "culprit") -> Answer:
    """The log of such a rank ends without an exception, and no launcher says how it ended."""
    asked = f"the log of {context.in_words(of)} stops without an error or an exit"
    ranks = context.ranks_of(of)
    read = ranks & context.survey.facts.liveness.logged
    if not read:
        return NotCheckable(asked, f"a log of {context.in_words(of)}")
    for told in (*_matching(context, ExceptionRaised, of), *_matching(context, ProcessExit, of)):
        if not isinstance(told, ExceptionRaised) or not told.logged:
            return Unmet(asked, quoted(told))
    return Met(asked, f"the log of rank {min(read)} shows no error")


@predicate(weight=0.9)
def gpu_error(context: Context, *, of: Who = "culprit-host", xid: tuple[int, ...] = (), sxid: bool = False) -> Answer:
    """The driver reported one of these Xid numbers (or any SXid) for a GPU of such a host or rank."""
    asked = (
        f"the kernel log shows Xid {listed(map(str, xid), 12)}{' or an SXid' if sxid else ''} on {context.in_words(of)}"
    )
    liveness = context.survey.facts.liveness
    software = (fault for fault in context.survey.events_of(GpuError) if fault.software)
    # only then is the first line of the job looked for, among all events
    lines = context.survey.facts.case.events if any(software) else ()
    begun = min((at for e in lines if e.rank is not None and not math.isnan(at := liveness.time(e))), default=math.nan)
    for fault in _matching(context, GpuError, of):
        if fault.software and liveness.time(fault) < begun - SLACK:
            continue  # a program before the job caused it
        if fault.xid in xid if fault.xid is not None else sxid and fault.sxid is not None:
            return Met(asked, quoted(fault), str(fault.place))
    return _not_met(context, asked, "gpu-error", of, "no such Xid in the kernel log")


@predicate(weight=0.85)
def wrong_address(context: Context, *, of: Who = "anyone") -> Answer:
    """An address that such a rank offers, or fails to reach, is out of reach for other hosts. It is that of a single link,
    the loopback address or Docker's bridge.
    """
    asked = f"an address of {context.in_words(of)} belongs to an interface that peers can't reach"
    reasons = {id(event): why for event, why in wrong_addresses(context.survey.case)}
    for event in (e for kind in (SocketError, CommInit, StoreError) for e in _matching(context, kind, of)):
        if why := reasons.get(id(event)):
            return Met(asked, f"{quoted(event)} ({why})", str(event.place))
    return _not_met(context, asked, "socket-error", of)


@predicate(weight=0.9)
def unresolved_name(context: Context, *, of: Who = "anyone") -> Answer:
    """The name of the store's host did not resolve for such a rank, which shows nothing later."""
    asked = f"the name of the store's host does not resolve for {context.in_words(of)}"
    in_vain = {id(lookup) for lookup in lookups_in_vain(context.survey.case)}
    lookup = next((e for e in _matching(context, StoreError, of) if id(e) in in_vain), None)
    return Met(asked, quoted(lookup), str(lookup.place)) if lookup else _not_met(context, asked, "store-error", of)


@predicate(weight=0.85)
def ib_error(context: Context, *, status: tuple[int, ...], of: Who = "anyone") -> Answer:
    """A work completion of InfiniBand or RoCE failed with one of these status numbers (12: the peer does not
    answer).
    """
    asked = f"the input shows InfiniBand completion status {listed(map(str, status))}"
    error = next((e for e in _matching(context, IbError, of) if e.status in status), None)
    return Met(asked, quoted(error), str(error.place)) if error else _not_met(context, asked, "ib-error", of)


@predicate(weight=0.7)
def phase(context: Context, *, what: tuple[str, ...], of: Who = "culprit", over: bool = False) -> Answer:
    """The last log line of such a rank before the first complaint begins one of these phases.
    With ``over`` it ends one. They are checkpoint, evaluation, sampling, data, compile, epoch-end, finished.
    A line without a rank counts for rank 0, which prints for all in most jobs.
    """
    asked = f"the last log line of {context.in_words(of)} {'ends' if over else 'begins'} a phase ({listed(what)})"
    ranks, last_of = context.ranks_of(of), context.survey.last_activity.items()
    activity = [e for (r, _), e in last_of if of == "anyone" or r in ranks or (r == -1 and 0 in ranks)]
    if not activity:
        return NotCheckable(asked, f"a log of {context.in_words(of)} that names its phases")
    for last in activity:
        is_it = isinstance(last, Phase) and last.what in what and last.detail.startswith("done") == over
        if is_it or (not over and isinstance(last, Progress) and phase_of_bar(last) in what):
            return Met(asked, quoted(last), str(last.place))
    kind = {Progress: "a step", Heartbeat: "a heartbeat"}.get(type(activity[0]), "a different phase")
    return Unmet(asked, f"the last line is {kind}, {quoted(activity[0])}")
