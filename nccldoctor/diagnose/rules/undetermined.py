"""Something is wrong and the input does not show what, or there is not enough to judge.

What it means: somebody complained or failed, but the input does not show who is missing or what differs. Or nothing failed in what was
read, and nothing shows that the job ended well or goes on. Coverage says which file would.
How we know: an alarm or a failure without the evidence that any other class needs, or no proof that the job is well.
What would refute it: the dumps or logs that coverage lists as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

from nccldoctor.align.facts import Facts
from nccldoctor.align.stack_activity import activity_of, is_waiting
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.citations import Citation, Line, Waiting, is_cited, written
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.missing_input import loss_words
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.sentences.ends import process_name
from nccldoctor.diagnose.signs.framework_reports import (
    devices_not_heard_of,
    open_report_headline,
    open_reports,
    peer_headline,
)
from nccldoctor.diagnose.signs.log_endings import find_broken_end
from nccldoctor.diagnose.signs.lost_peers import closed_by
from nccldoctor.diagnose.signs.silence import ranks_without_alarm
from nccldoctor.diagnose.signs.where_ranks_stand import where_they_stand
from nccldoctor.events import (
    CallTimeout,
    DesyncReport,
    DumpSignal,
    Event,
    ExceptionRaised,
    GpuError,
    Note,
    ProcessExit,
    Setting,
    Stack,
    Version,
    WorkStatus,
)
from nccldoctor.model import CauseClass, Confidence, Doubt, Evidence, Place, SourceKind, Stalled, Unexplained
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost
from nccldoctor.parsers.event_details import is_gloo_timeout
from nccldoctor.words.names import ranks_phrase, verb

MOST = 3
"""Lines of one kind that are quoted."""

LONGEST = 70
"""Characters of one line in a headline."""


@rule(CauseClass.UNDETERMINED, refuted_by="the dumps or logs that coverage lists as missing")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis:
    """The facts that are known, and that they are not enough."""
    call, first = stall.call, facts.liveness.first_alarm
    trouble, lines = find_broken_end(facts)
    exits = list(facts.case.of(ProcessExit))[:2]
    failed = [e for e in stall.health.troubles if e is not first]
    citations: list[Citation] = [*written(facts, [Waiting(call)])]
    citations += [Line(first, "the first complaint")] if first is not None else []
    citations += [Line(e, f"a process ended with {e.exitcode}", observer="launcher") for e in exits]
    citations += [Line(e, "happened too") for f in facts.failures[:3] for e in f.events[:1]]
    citations += lines
    citations += [Line(e, "the other end closed this connection") for e in closed_by(facts)[1][:MOST] if not lines]
    citations += [Line(e, "a person stopped the job here") for e in stall.health.stops[:MOST]]
    citations += [line for e in failed[:MOST] if not is_cited(line := Line(e, "nothing answers it"), citations)]
    citations += [_unexplained(line) for line in stall.health.unexplained[:MOST]]
    stacks = [] if citations else [s for s in facts.case.of(Stack) if s.main and s.frames][:4]
    citations += [Line(s, activity_of(s.frames) or "is in " + s.frames[0]) for s in stacks]
    return Hypothesis(
        _headline(facts, stall, trouble, bool(stacks)),
        citations or [_what_was_read(facts)],
        (Doubt.at_most(Confidence.CANNOT_TELL, _missing_proof(stall)),),
        suspects=_suspects(facts, stall),
        call=call,
        stalled=None if call is not None else stalled_line(facts),
    )


def _suspects(facts: Facts, stall: ObservedStall) -> Ranks:
    """The ranks that may be missing.

    Nobody where that is said of most of the ranks that are known, and the job may have more.
    """
    if stall.kind not in (StallKind.ABSENT, StallKind.HIDDEN):
        return ranks_without_alarm(facts) or devices_not_heard_of(open_reports(stall.health.troubles))
    is_most = facts.case.world_size is None and 2 * len(stall.ranks) > len(facts.case.world)
    return Ranks() if is_most else stall.ranks


def _missing_proof(stall: ObservedStall) -> str:
    """The proof that no file gives: of the missing member, of the cause, or of the health."""
    if stall.call is not None:
        return "no file shows which member is missing from the call, or what differs"
    return (
        "no file shows what caused it"
        if stall.health.troubles
        else "no file shows that the job stands, or that it is well"
    )


def _headline(facts: Facts, stall: ObservedStall, trouble: str, has_stacks: bool) -> str:
    first, troubles = facts.liveness.first_alarm, stall.health.troubles
    if stall.call is not None:
        inside = stall.call.inside
        waiting = f"{ranks_phrase(inside).capitalize()} {verb(inside, 'waits', 'wait')} in {stall.what}"
        if host := closed_by(facts)[0]:
            return f"{waiting}, and {host} closed its connection; no file shows what ended the process there"
        ends = (e for e in facts.case.of(ProcessExit) if e.exitcode is None and e.rank not in inside)
        if ended := next(ends, None):
            return f"{waiting}, and {process_name(ended)} ended; no file says how, or which came first"
        return f"{waiting}; no file shows whether the call ended, or which rank is missing from it"
    if isinstance(first, DumpSignal):
        return f"{_whose_watchdog(first)} gave up on a call that no line names; no file shows which rank it waited for"
    if waits := (peer_headline(facts) or open_report_headline(open_reports(stall.health.troubles), facts.case.world)):
        return waits
    if isinstance(first, CallTimeout) and first.op:
        return f"{_gave_up_on(first)}; no file shows which rank it waited for"
    if stall.health.stops:
        return f"A person stopped the job, and no file shows whether it stood still before{_at_that_moment(stall.health.stops)}"
    if trouble:
        return f"{trouble}, and no file shows why"
    if waited := _waited_for_peers(troubles):
        return f"{waited}; no file shows which rank it waited for"
    if troubles:
        if all(isinstance(e, Note) and e.is_prompt for e in troubles):
            return "The job stands at a prompt that nobody answers, and no line says which rank waits there"
        return f"{_what_failed(troubles)}, and no file shows what caused it"
    if stall.health.unexplained:
        return f"A line that looks like a failure was not understood: {stall.health.unexplained[0].text[:120]}"
    if has_stacks:
        return where_they_stand(facts)
    return f"There is not enough to judge: {_missing(facts)}"


def _waited_for_peers(troubles: Sequence[Event]) -> str:
    """The first rank whose wait for a peer reached its limit, and its place; empty where anything else failed."""
    waits = [e for e in troubles if isinstance(e, ExceptionRaised) and is_gloo_timeout(e)]
    if not waits or any(e.consequence is None for e in troubles):
        return ""
    first = waits[0]
    place = f" in {innermost((first.frame,))}" if first.frame else ""
    who = f"Rank {first.rank}" if first.rank is not None else "A process"
    return f"{who} waited for a peer{place} until the limit was reached"


def _what_failed(troubles: Sequence[Event]) -> str:
    """What the first troubles say, each once: ``Rank 3: ended by SIGABRT; a process: aborted its communicator; and 2 more``."""
    says = list(
        dict.fromkeys(
            f"{_whose_line(event)}: {shorten(event.phrase(), LONGEST, placeholder=' …')}"
            for event in sorted(troubles, key=lambda event: event.consequence is not None)
            if event is troubles[0] or not _is_nameless_echo(event)
        )
    )
    more = f"; and {len(says) - MOST} more" if len(says) > MOST else ""
    text = "; ".join(says[:MOST]) + more
    return text if troubles[0].rank is None and troubles[0].host is not None else text[0].upper() + text[1:]


def _is_nameless_echo(event: Event) -> bool:
    """True of the traceback of a launcher that is cut before its exception: it says nothing."""
    return isinstance(event, ExceptionRaised) and not event.type and event.origin == "echo"


def _whose_line(event: Event) -> str:
    """Who an event is about: a rank, else its process, with the host where a line names one. A host keeps its spelling."""
    if event.rank is not None:
        return f"rank {event.rank}"
    if isinstance(event, GpuError):
        board = f"{event.board} {event.device.removeprefix('GPU ')}" if event.device else f"a {event.board}"
        return f"{event.host}: {board}" if event.host is not None else board
    if event.pod is not None:
        return f"pod {event.pod}"
    pid = f" {event.pid}" if event.pid is not None else ""
    if isinstance(event, ProcessExit) and event.local_rank is not None:
        return f"{f'{event.host}: ' if event.host is not None else ''}local rank {event.local_rank}{f' (pid{pid})' if pid else ''}"
    return f"{event.host}: process{pid}" if event.host is not None else f"process{pid}" if pid else "a process"


def _at_that_moment(stops: Sequence[Event]) -> str:
    """Where the ranks stood when a person stopped them.

    Example: ``: ranks 0-1 waiting for a peer in step (train.py:41), rank 2 in load (data.py:7)``.
    """
    stood: dict[str, set[int]] = {}
    for event in stops:
        if isinstance(event, ExceptionRaised) and event.rank is not None and event.frames:
            does = "waiting for a peer in" if is_waiting(event.frames) else "in"
            stood.setdefault(f"{does} {innermost(event.frames)}", set()).add(event.rank)
    places = ", ".join(f"{ranks_phrase(Ranks(ranks))} {where}" for where, ranks in list(stood.items())[:MOST])
    return f": {places}" if places else ""


def _unexplained(line: Unexplained) -> Evidence:
    observer = f"log:{line.rank}" if line.rank is not None else f"file:{line.place.path}"
    return Evidence(
        line.place, line.text, "looks like a failure; it was not understood, and nothing answers it", True, observer
    )


def _missing(facts: Facts) -> str:
    """Says what was looked for and not found."""
    case, liveness = facts.case, facts.liveness
    kinds = {
        "log": any(s.kind is SourceKind.LOG for s in case.sources),
        "recorder dump": bool(liveness.dumped),
        "stack": any(case.of(Stack)),
        "exit record": any(case.of(ProcessExit)),
    }
    absent = [f"no {kind}" for kind, is_there in kinds.items() if not is_there]
    nothing = "no line tells of a failure, and none of a good end" if kinds["log"] else "no log tells of an end"
    lost = loss_words([gap for gap in case.gaps if gap.lost])
    more = f"; there is {' and '.join(absent)}" if absent else ""
    named = next((gap for gap in case.gaps if gap.looks_like), None)
    more += f"; {named.what} {named.why}" if named is not None else ""
    return f"{nothing}{more}" + (f"; not everything could be read: {lost}" if lost else "")


def _whose_watchdog(signal: DumpSignal) -> str:
    rank = signal.rank if signal.from_rank is None else signal.from_rank
    return f"Rank {rank}" if rank is not None and rank >= 0 else "A rank"


def _gave_up_on(event: CallTimeout) -> str:
    """The rank that gave up and its call, where the group of the call is not known."""
    inside = event.rank is None and event.group_rank is not None and event.group is not None
    who = (
        f"Rank {event.rank}"
        if event.rank is not None
        else f"Rank {event.group_rank} of group {event.group}"
        if inside
        else "A rank"
    )
    return f"{who} gave up on {event.op}{f' #{event.seq}' if event.seq is not None else ''}"


def stalled_line(facts: Facts) -> Stalled | None:
    """The call that the first complaint is about, from lines alone."""
    found: list[CallTimeout] = [
        e for e in facts.case.events if isinstance(e, CallTimeout) and (e.op or e.seq is not None)
    ]
    ordered = sorted(found, key=lambda e: (e.seq is None, e.seq or 0)) if _is_one_group(found) else found
    for event in ordered[:1]:
        entered = Ranks(e.rank for e in found if e.seq == event.seq and e.rank is not None)
        return event.stalled(entered, str(event.group) if event.group is not None else None)
    report = next((e for e in facts.case.of(DesyncReport) if e.op and e.seq is not None), None)
    if report is not None:
        return Stalled(report.op, report.seq, entered=Ranks([report.rank] if report.rank is not None else []))
    status = next((e for e in facts.case.of(WorkStatus) if e.failed is not None), None)
    if status is None:
        return None
    group = str(status.group) if status.group is not None else None
    return Stalled(None, status.failed, group=group, entered=Ranks([status.rank] if status.rank is not None else []))


def _is_one_group(found: Sequence[Event]) -> bool:
    return len({str(e.group) for e in found}) == 1


def _what_was_read(facts: Facts) -> Citation:
    """The last line that was understood, else the name of what was read."""
    said = [e for e in facts.case.events if not isinstance(e, Stack | Version | Setting)]
    if said:
        return Line(said[-1], "the last line that was understood: no complaint, and no end")
    if facts.case.sources:
        source = facts.case.sources[0]
        return Evidence(Place(source.id, source.path), "", _files_without_stall(len(facts.case.sources)))
    return Evidence(None, "", "nothing readable was found")


def _files_without_stall(files: int) -> str:
    return "the one file read shows no stall" if files == 1 else f"{files:,} files were read and none shows a stall"
