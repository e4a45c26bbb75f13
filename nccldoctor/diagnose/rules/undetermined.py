"""Something is wrong and the input does not show what, or there is not enough to judge.

How we know: a timeout or a failure without the evidence that any other class needs, or no proof that the job is well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from textwrap import shorten

from msgspec.structs import replace

from nccldoctor.align.descriptions import timeouts_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.stack_activity import is_waiting, shown_activity_of
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line, Waiting, is_cited, written
from nccldoctor.diagnose.missing_input import loss_words
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.ends import process_name
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import doing, rank_or_process
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.framework_reports import devices_not_heard_of, open_report_headline, peer_headline
from nccldoctor.diagnose.signs.log_endings import closed_by, find_broken_end
from nccldoctor.diagnose.signs.silence import ranks_without_alarm
from nccldoctor.diagnose.signs.still_running import is_overtaken
from nccldoctor.diagnose.signs.traceback_diffs import final_traceback, own_place, places_of_waits, ranks_apart
from nccldoctor.diagnose.signs.where_ranks_stand import known_ranks, odd_ones, where_they_stand
from nccldoctor.events import (
    CallTimeout,
    DesyncReport,
    DumpSignal,
    Event,
    ExceptionRaised,
    GpuError,
    MonitoredBarrier,
    Note,
    ProcessExit,
    Progress,
    RasStatus,
    SchedulerEvent,
    Setting,
    Stack,
    TearDown,
    Version,
    WorkStatus,
)
from nccldoctor.model import CauseClass, Evidence, Gap, Place, SourceKind, Stalled
from nccldoctor.model.ranks import Ranks, ranks_by
from nccldoctor.model.stack_frames import innermost
from nccldoctor.parsers.event_details import is_gloo_timeout
from nccldoctor.words.names import call_title, ranks_phrase
from nccldoctor.words.sanitize import line as line_of
from nccldoctor.words.sentences import sentence
from nccldoctor.words.stack_tools import PYTHON_STACKS

MOST = 3
"""Lines of one kind that are quoted."""

MOST_SUSPECTS = 4
"""Suspects that a headline names."""

LONGEST, SHORT = 70, 34
"""Characters of one line in a headline, and of one that stands for several."""


@rule(CauseClass.UNDETERMINED, refuted_by=say("refuted.missing-input-named-one"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis:
    """The facts that are known, and that they are not enough."""
    call, first = stall.call, facts.liveness.first_alarm
    trouble, lines = find_broken_end(facts)
    exits = list(facts.case.of(ProcessExit))[:2]
    failed = [e for e in stall.job.health.troubles if e is not first]
    headline = _headline(facts, stall, trouble)
    unknown = "cause-unknown" if stall.job.health.troubles else "health-unknown"
    is_about_trouble = headline == headline_of("undetermined.failed-unexplained", what=sentence(trouble))
    citations: list[Citation] = [*written(facts, [Waiting(call)])]
    citations += lines if is_about_trouble else []
    places = list(places_of_waits(facts).items())[:MOST]
    for place, ranks in places if len(places) > 1 else ():
        if (event := final_traceback(facts, min(ranks))) is not None:
            citations.append(Line(event, say("disagree.waited-at", rank=min(ranks), frame=place)))
    if first is not None:
        citations.append(Line(first, say("undetermined.first-problem", who=_whose_line(first))))
    told = [(e, say("undetermined.exited-with", who=process_name(e), code=e.exitcode)) for e in exits]
    citations += [Line(e, says) for e, says in told]
    citations += [
        Line(e, say("undetermined.failed-too", who=_whose_line(e))) for f in facts.failures[:3] for e in f.events[:1]
    ]
    citations += lines if not is_about_trouble else []
    citations += [Line(e, say("undetermined.closed-connection")) for e in closed_by(facts)[1][:MOST] if not lines]
    citations += [Line(e, say("undetermined.stopped-here")) for e in stall.job.health.stops[:MOST]]
    open_ones = [Line(e, say("undetermined.unresolved", who=_whose_line(e))) for e in failed[:MOST]]
    citations += [one for one in open_ones if not is_cited(one, citations)]
    for line in stall.job.health.unexplained[:MOST]:
        observer = f"log:{line.rank}" if line.rank is not None else f"file:{line.place.path}"
        citations.append(Evidence(line.place, line.text, say("undetermined.looks-like-failure"), True, observer))
    odd = known_ranks(odd_ones(facts)[0])
    shown = sorted((s for s in facts.case.of(Stack) if s.frames), key=lambda s: (not s.main, s.rank not in odd))[:4]
    stacks = [] if citations else [s for s in shown if s.main is shown[0].main]
    citations += [
        Line(s, say("stacks.seen", who=_whose_line(s), doing=doing(shown_activity_of(s.frames), innermost(s.frames))))
        for s in stacks
    ]
    marked = [] if stacks else _marked_errors(facts)
    if marked and (headline is None or is_about_trouble):
        who, what = _whose_line(marked[0]).removeprefix("a process"), sentence(trouble) if is_about_trouble else ""
        headline = headline_of("undetermined.marked", what=what, who=who, text=line_of(marked[0].detail, 160))
        citations += [Line(e, say("undetermined.marked-as-error")) for e in marked[:MOST]]
    return Hypothesis(
        headline if headline is not None else where_they_stand(facts) if stacks else _not_enough(facts),
        citations or [_what_was_read(facts)],
        (doubt_of("member-unknown" if call is not None else unknown),),
        suspects=_suspects(facts, stall),
        call=call,
        stalled=None if call is not None else stalled_line(facts),
    )


def _suspects(facts: Facts, stall: ObservedStall) -> Ranks:
    """The ranks that may be missing, or those whose stacks stand at a different line from most.

    Nobody where that is said of most of the ranks that are known, and the job may have more.
    """
    odd = known_ranks(odd_ones(facts)[0])
    if stall.kind not in (StallKind.ABSENT, StallKind.HIDDEN):
        return ranks_without_alarm(facts) or devices_not_heard_of(stall.job.open_reports) or ranks_apart(facts) or odd
    is_most = facts.case.world_size is None and 2 * len(stall.ranks) > len(facts.case.world)
    if is_overtaken(facts) or facts.case.fold is not None:
        return Ranks()
    return stall.ranks & odd or (Ranks() if is_most else stall.ranks)


def _files_of(facts: Facts, left_out: Gap) -> str:
    """The highest folder of files left out without one that was read, else the first of the files."""
    files = left_out.what.partition(": ")[0]
    folders = accumulate(files.partition(" and ")[0].split("/")[:-1], "{}/{}".format)
    read = [source.path for source in facts.case.sources]
    return next((one for one in folders if not any(path.startswith(f"{one}/") for path in read)), files)


def _headline(facts: Facts, stall: ObservedStall, trouble: str) -> Headline | str | None:
    """What went wrong, as far as lines and calls tell; None where nothing did."""
    first, troubles = facts.liveness.first_alarm, stall.job.health.troubles
    failed = next((gap for gap in facts.case.gaps if gap.failed), None)
    if failed is not None and stall.job.health.is_proven:
        return headline_of("undetermined.other-run-failed", files=_files_of(facts, failed))
    if stall.call is not None and is_overtaken(facts):
        return headline_of("undetermined.other-moments", inside=stall.call.inside, call=stall.what)
    if stall.call is not None:
        return _headline_of_call(facts, stall, stall.call)
    if isinstance(first, DumpSignal):
        rank = first.rank if first.from_rank is None else first.from_rank
        named = f"Rank {rank}" if rank is not None and rank >= 0 else "A rank"
        return headline_of("undetermined.timed-out-in-unnamed", who=named)
    if waited := _waited_apart(facts, troubles):
        return waited
    if waits := (peer_headline(facts) or open_report_headline(stall.job.open_reports, facts.case.world)):
        return waits
    if isinstance(first, CallTimeout) and first.op:
        return _headline_of_timeouts(facts, first)
    if stall.job.health.stops:
        return headline_of("undetermined.stopped-by-person", places=_places_at(stall.job.health.stops))
    barriers = [e for e in troubles if isinstance(e, MonitoredBarrier)]
    unanswered = Ranks(e.rank for e in barriers if e.rank)  # all but rank 0, which keeps the list
    if unanswered and not any(e.missing or e.rank == 0 for e in barriers):
        return headline_of("undetermined.barrier-unanswered", ranks=unanswered)
    waited = _waited_for_peers(troubles)
    if trouble and not (
        waited and trouble in (say("trouble.cancelled"), say("trouble.pod-stopped"), say("trouble.job-failed"))
    ):
        return headline_of("undetermined.failed-unexplained", what=sentence(trouble))
    if waited:
        return waited
    told = [e for e in facts.case.of(RasStatus) if e.what in ("MISMATCH", "INCOMPLETE") and e.comm_id is not None]
    if told and all(isinstance(e, RasStatus) for e in troubles):
        rank, host, pid = next(iter(told[-1].processes), (None, None, None))  # where its first outlier runs
        return headline_of("undetermined.ras-uneven", detail=told[-1].detail, rank=rank, host=host, pid=pid)
    own = [e for e in troubles if not (isinstance(e, TearDown) and e.is_by_launcher)]
    if own := [e for e in own if not isinstance(e, SchedulerEvent) or e.what != "stopped"]:
        if all(isinstance(e, Note) and e.is_prompt for e in own):
            return headline_of("undetermined.prompt")
        return _first_errors(own)
    if troubles:
        return headline_of("undetermined.launcher-ended")
    if stall.job.health.unexplained:
        return headline_of("undetermined.unparsed", text=line_of(stall.job.health.unexplained[0].text, 120))
    return None


def _headline_of_call(facts: Facts, stall: ObservedStall, call: StuckCall) -> Headline:
    """The ranks in the call, and what else is known of those outside."""
    has_timed_out = next(timeouts_of(facts, call), None) is not None
    waiting = say("undetermined.stuck-in", inside=call.inside, call=stall.what, has_timed_out=has_timed_out)
    if host := closed_by(facts)[0]:
        return headline_of("undetermined.peer-host-closed", first=waiting, host=host)
    ends = (e for e in facts.case.of(ProcessExit) if e.exitcode is None and e.rank not in call.inside)
    if ended := next(ends, None):
        return headline_of("undetermined.process-exited-too", first=waiting, process=process_name(ended))
    if facts.case.fold is not None:
        return headline_of("undetermined.others-folded", first=waiting)
    suspects = _suspects(facts, stall)
    if stall.kind is StallKind.ABSENT and 0 < len(suspects) <= MOST_SUSPECTS:
        return headline_of("undetermined.may-be-missing", first=waiting, suspects=[*map(str, suspects)])
    if apart := _timed_out_elsewhere(facts, call):
        other = stall.texts(apart.key).partition(" of ")[0]  # it is of the same group
        told = say(
            "undetermined.timed-out-apart", inside=call.inside, call=stall.what, others=apart.inside, other=other
        )
        return _waited_for_unknown(facts, told, many=True)
    return _waited_for_unknown(facts, waiting, many=len(call.inside) > 1)


def _timed_out_elsewhere(facts: Facts, call: StuckCall) -> StuckCall | None:
    """Another call of the group in which other ranks timed out as well."""
    if next(timeouts_of(facts, call), None) is None:
        return None
    calls = (c for c in facts.wait_graph.calls.values() if c.group == call.group and c.pair is None)
    apart = (c for c in calls if not c.inside & call.inside)
    return next((c for c in apart if next(timeouts_of(facts, c), None) is not None), None)


def _headline_of_timeouts(facts: Facts, first: CallTimeout) -> Headline:
    """The ranks that timed out in a call whose group no line names, and those in other calls."""
    oldest = _oldest_like(facts, first)
    same = (e for e in facts.case.of(CallTimeout) if e.op and e.group == oldest.group)
    others = ranks_by((call_title(e.op, e.seq), e.rank) for e in same if e.rank is not None)
    call = call_title(oldest.op, oldest.seq)
    inside = others.pop(call, Ranks())
    other, apart = next(((c, r) for c, r in others.items() if not r & inside), ("", Ranks()))
    if len(inside) < 2 and not apart:
        told = say(
            "undetermined.timed-out-in",
            rank=oldest.rank,
            group_rank=oldest.group_rank,
            group=oldest.group,
            call=call,
        )
        return _waited_for_unknown(facts, told, many=False)
    told = say("undetermined.timed-out-apart", inside=inside, call=call, others=apart, other=other)
    return _waited_for_unknown(facts, told, many=True)


def _waited_for_unknown(facts: Facts, told: str, *, many: bool) -> Headline:
    """What is told of ranks, and that the log or these files don't show whom they waited for."""
    kinds = [source.kind for source in facts.case.sources]
    logs = len(kinds) if set(kinds) == {SourceKind.LOG} else 0
    return headline_of("undetermined.waited-for-unknown", first=told, logs=logs, many=many)


def _waited_apart(facts: Facts, troubles: Sequence[Event]) -> Headline | None:
    """The ranks by the places at which they waited in vain; None where all waited at one, or anything failed."""
    places = places_of_waits(facts)
    waited = Ranks(rank for ranks in places.values() for rank in ranks)
    is_told = len(places) > 1 and not _has_other_cause(troubles, waited)
    first = list(places.items())[:MOST]
    waits = [say("undetermined.waited-in", ranks=r, place=p, is_first=not n) for n, (p, r) in enumerate(first)]
    return headline_of("undetermined.waited-apart", waits=waits) if is_told else None


def _has_other_cause(troubles: Sequence[Event], waited: Ranks) -> bool:
    """True where something may be a cause: not the end of the job, nor of ranks that waited in vain."""
    own = [e for e in troubles if e.consequence is None and not isinstance(e, SchedulerEvent)]
    return any(not (isinstance(e, ProcessExit) and e.rank in waited) for e in own)


def _waited_for_peers(troubles: Sequence[Event]) -> Headline | None:
    """The first rank whose wait for a peer timed out, and its place. None where anything else failed, except the whole job."""
    waits = [e for e in troubles if isinstance(e, ExceptionRaised) and is_gloo_timeout(e)]
    if not waits or _has_other_cause(troubles, Ranks(e.rank for e in waits if e.rank is not None)):
        return None
    return headline_of("undetermined.timed-out-waiting", who=rank_or_process(waits[0].rank), place=own_place(waits[0]))


def _first_errors(troubles: Sequence[Event]) -> Headline:
    """What the first troubles say, each once; ranks that say the same stand together."""
    by_phrase: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(troubles, key=lambda event: event.consequence is not None):
        # some do not say what failed: a traceback that is cut before its exception, or a result code on its way through NCCL
        is_cut = isinstance(event, ExceptionRaised) and not event.type
        is_echo = is_cut or (isinstance(event, Note) and event.what == "nccl-trail")
        if event is troubles[0] or not is_echo:
            by_phrase[shorten(event.phrase(), LONGEST, placeholder=" …")].append(event)
    told = []
    for phrase, events in by_phrase.items():
        ranks = Ranks(e.rank for e in events if e.rank is not None)
        told.append((ranks_phrase(ranks) if ranks else _whose_line(events[0]), phrase))
    who, phrase = told[0]
    first = say("undetermined.first-error", who=who, what=shorten(phrase, SHORT, placeholder=" …"))
    errors = [say("undetermined.first-error", who=who, what=phrase) for who, phrase in told]
    return headline_of("undetermined.first-errors", errors=errors, first=first, more=len(told) - 1 or None)


def _whose_line(event: Event) -> str:
    """Who an event is about: a rank, else its process, with the host where a line names one. A host keeps its spelling."""
    if event.rank is not None:
        return f"rank {event.rank}"
    if event.group_rank is not None:
        return f"rank {event.group_rank} of its group"
    if isinstance(event, GpuError):
        board = f"{event.board} {event.device.removeprefix('GPU ')}" if event.device else f"a {event.board}"
        return f"{event.host}: {board}" if event.host is not None else board
    if event.pod is not None:
        return f"pod {event.pod}"
    pid = f" {event.pid}" if event.pid is not None else ""
    if isinstance(event, ProcessExit) and event.local_rank is not None:
        return f"{f'{event.host}: ' if event.host is not None else ''}local rank {event.local_rank}{f' (pid{pid})' if pid else ''}"
    return f"{event.host}: process{pid}" if event.host is not None else f"process{pid}" if pid else "a process"


def _marked_errors(facts: Facts) -> list[Note]:
    """The first line marked as an error of each file; none of a file that goes on with steps."""
    last = {e.place.source: e.place.line or 0 for e in facts.case.of(Progress)}
    marked = (e for e in facts.case.of(Note) if e.what == "marked")
    return [e for e in marked if (e.place.line or 0) > last.get(e.place.source, 0)]


def _places_at(stops: Sequence[Event]) -> list[str]:
    """Where the ranks were when a person stopped them.

    Example: ``ranks 0-1 were waiting for a peer in step (train.py:41)`` and ``rank 2 was in load (data.py:7)``.
    """
    raised = (e for e in stops if isinstance(e, ExceptionRaised) and e.frames)
    stood = ranks_by(((innermost(e.frames), is_waiting(e.frames)), e.rank) for e in raised if e.rank is not None)
    found = list(stood.items())[:MOST]
    return [say("undetermined.stood-at", ranks=r, place=place, is_waiting=waits) for (place, waits), r in found]


def _not_enough(facts: Facts) -> Headline:
    """Says what was looked for and not found."""
    case = facts.case
    has_logs = any(s.kind is SourceKind.LOG for s in case.sources)
    kinds = {
        "flight recorder dump": bool(facts.liveness.dumped),
        "stack": any(case.of(Stack)),
        "exit record": any(case.of(ProcessExit)),
    }
    lost = loss_words([gap for gap in case.gaps if gap.lost])
    named = [f"{gap.what} {gap.why}" for gap in case.gaps if gap.looks_like][:1]
    unread = [gap.why for gap in case.gaps if gap.what.startswith(PYTHON_STACKS) and not any(case.of(Stack))]
    named += [say("undetermined.no-stacks", why=unread[0].partition("; ")[0].partition(", or")[0])] if unread else []
    notes = [*named, *([say("undetermined.partly-unreadable", lost=lost)] if lost else [])]
    lacks, told = [kind for kind, is_there in kinds.items() if not is_there], " ".join(map(sentence, notes))
    return headline_of("undetermined.not-enough", has_logs=has_logs, lacks=lacks, notes=told)


def stalled_line(facts: Facts) -> Stalled | None:
    """The call that the first complaint is about, from lines alone."""
    found = [e for e in facts.case.of(CallTimeout) if e.op or e.seq is not None]
    if found:
        first = facts.liveness.first_alarm
        event = _oldest_like(facts, first if isinstance(first, CallTimeout) and first.op else found[0])
        entered = Ranks(e.rank for e in found if e.seq == event.seq and e.rank is not None)
        ops = {e.op for e in found if e.seq is None}  # without numbers, operations tell calls apart
        call = replace(event, op=None) if event.seq is None and len(ops) > 1 else event
        return call.stalled(entered, str(event.group) if event.group is not None else None)
    report = next((e for e in facts.case.of(DesyncReport) if e.op and e.seq is not None), None)
    if report is not None:
        return Stalled(report.op, report.seq, entered=Ranks([report.rank] if report.rank is not None else []))
    status = next((e for e in facts.case.of(WorkStatus) if e.failed is not None), None)
    if status is None:
        return None
    group = str(status.group) if status.group is not None else None
    return Stalled(None, status.failed, group=group, entered=Ranks([status.rank] if status.rank is not None else []))


def _oldest_like(facts: Facts, first: CallTimeout) -> CallTimeout:
    """The oldest call that timed out on the same rank and group: the later ones were queued behind it."""
    same = (e for e in facts.case.of(CallTimeout) if (e.rank, e.group) == (first.rank, first.group) and e.op)
    return min(same, key=lambda e: (e.seq is None, e.seq or 0), default=first)


def _what_was_read(facts: Facts) -> Citation:
    """The last line that was understood, else the name of what was read."""
    said = [e for e in facts.case.events if not isinstance(e, Stack | Version | Setting)]
    if said:
        return Line(said[-1], say("undetermined.last-parsed"))
    if facts.case.sources:
        source = facts.case.sources[0]
        says = say("undetermined.files-without-hang", files=len(facts.case.sources))
        return Evidence(Place(source.id, source.path), "", says)
    return Evidence(None, "", say("undetermined.nothing-readable"))
