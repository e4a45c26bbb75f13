"""Finds the lines that an exhibit may quote; of a stack, the frames down to the named one.

What is quoted is chosen without its text; ``filled`` puts in the lines of the files once they were read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.exits import is_own_exit
from nccldoctor.align.facts import Facts
from nccldoctor.align.stack_activity import find_activity
from nccldoctor.events import CallTimeout, Event, ExceptionRaised, Heartbeat, Phase, ProcessExit, Progress, Stack
from nccldoctor.model import Evidence, Finding, Place
from nccldoctor.model.excerpts import Excerpts, SourceLine
from nccldoctor.model.exhibits import Exhibit, QuotedLines
from nccldoctor.model.stack_frames import innermost
from nccldoctor.patterns import lazy
from nccldoctor.summarise.proof.plans import Record, record_of
from nccldoctor.words import names

CONTEXT = 2
"""Lines before and after a quoted line that unfold."""

DEEPEST_FRAME = 60
"""Lines below the head of a stack among which the cited frame stands."""

FRAMES_SHOWN = 4, 2
"""Lines of a stack shown above the cited frame, and below it."""

REACH = 5
"""Lines above a quoted one that may hold the rest of what the claim names, such as the rank in a table of torchrun."""

HIGHEST_FRAME = 14
"""Lines above an exception among which the frame stands that raised it."""

ENDS_SHOWN = 4
"""Lines at either end of a long traceback: the frame that raised, and the error."""

KEPT = 6
"""Lines of a record that stand for it where its file cannot be read again."""

ASKED = 8
"""Culprits whose further lines may be quoted."""


class Quotable(Struct, frozen=True):
    """A line that an exhibit may quote: what it says, of which rank. ``number`` counts its evidence, None where no rule cites it."""

    record: Record
    rank: int | None
    place: Place
    says: str
    quote: str
    frame: str = ""
    raised_in: str = ""
    number: int | None = None


def quotables(facts: Facts, finding: Finding) -> tuple[Quotable, ...]:
    """The lines that speak for a finding: those it cites, then others of the stalled call and of its culprits."""
    cited = {item.where for item in finding.evidence if item.where is not None}
    events: dict[Place, list[Event]] = {}
    for event in facts.case.events:
        if event.place in cited:
            events.setdefault(event.place, []).append(event)
    first = {place: min(own, key=lambda e: [*Record].index(record_of(e))) for place, own in events.items()}
    quoted = [
        _of_evidence(finding, item, number, first.get(item.where))
        for number, item in enumerate(finding.evidence, 1)
        if item.where is not None and item.where.line is not None and item.supports
    ]
    further = ((event, *_told(facts, event)) for event in _further(facts, finding) if event.place not in cited)
    more = (Quotable(record, e.rank, e.place, says, e.text, *_frames(e, says)) for e, says, record in further)
    return (*quoted, *more)


def _of_evidence(finding: Finding, item: Evidence, number: int, event: Event | None) -> Quotable:
    assert item.where is not None
    _, _, who = item.observer.partition(":")
    is_rank = who.isdecimal() and item.observer.partition(":")[0] != "file"
    rank = int(who) if is_rank else event.rank if event is not None else None
    frames = _frames(event, item.says)
    is_alone = any(one.where == item.where for one in finding.only_here)
    return Quotable(
        Record.ALONE if is_alone else record_of(event), rank, item.where, item.says, item.quote, *frames, number
    )


def _frames(event: Event | None, says: str) -> tuple[str, str]:
    """The function at which a quoted stack ends, and that at which a quoted traceback begins."""
    if isinstance(event, Stack):
        functions = [frame.partition(" (")[0] for frame in event.frames]
        activity = find_activity(event.frames)
        shown = activity.function if activity is not None else innermost(event.frames).partition(" (")[0]
        return next((f for f in functions if f in says.split()), shown), ""
    return "", (event.frame or "").partition(" (")[0] if isinstance(event, ExceptionRaised) else ""


def _further(facts: Facts, finding: Finding) -> Iterator[Event]:
    """Lines that no rule cited: timeouts of the stalled call, and what the culprits left after the first of them.

    The end of a culprit that its launcher closed is left out: it shows the tear-down.
    """
    call, blamed = finding.stalled, finding.blamed
    if call is not None and call.seq is not None:
        members = call.members
        gave_up = [e for e in facts.case.timeouts(call.seq) if e.rank in members and e.place.line is not None]
        yield from (e for e in gave_up if e.op in (call.op, None) or e.rank in blamed)
    for rank in list(blamed)[:ASKED]:
        activity = facts.liveness.activity(rank)
        yield from (s for s in activity.stacks if s.main and s.frames and s.place.line is not None)
        # the first line about the work of a rank from after the first complaint
        kinds = (Progress, Heartbeat, Phase)
        later = [e for kind in kinds for e in facts.case.of(kind, rank) if facts.liveness.is_after_alarm(e)]
        later = [e for e in later if e.place.line is not None]
        if later:
            yield min(later, key=lambda event: (event.place.source, event.place.line or 0))
        if activity.step_event is not None and activity.step_event.place.line is not None and _is_apart(facts, rank):
            yield activity.step_event
        ends = (e for e in activity.exits if is_own_exit(facts.case, facts.liveness, activity, e))
        yield from (e for e in (*activity.dump_replies, *ends) if e.place.line is not None)


def _is_apart(facts: Facts, rank: int) -> bool:
    """False where all ranks that report steps last reported the same one: then it shows nothing of any of them."""
    by_rank = facts.liveness.by_rank
    others = {one.step for other, one in by_rank.items() if other != rank and one.step is not None}
    return others != {facts.liveness.activity(rank).step}


def _told(facts: Facts, event: Event) -> tuple[str, Record]:
    """What a line shows that no rule cited, in one sentence, and the kind of record that it is."""
    who, record = "A process" if event.rank is None else f"Rank {event.rank}", record_of(event)
    if isinstance(event, CallTimeout):
        return f"{who} timed out in {names.call_title(event.op, event.seq)}.", record
    if isinstance(event, Stack):
        return f"{who} was in {innermost(event.frames)}.", record
    if isinstance(event, ProcessExit):
        ended = f"was ended by {event.signal}" if event.signal else f"exited with code {event.exitcode}"
        return f"{who} {ended}.", record
    if isinstance(event, Heartbeat | Progress | Phase):
        if facts.liveness.is_after_alarm(event):
            return f"{who} was still logging after the first timeout.", record
        step = getattr(event, "step", None)
        return (
            f"{who} last reported step {step}." if step is not None else f"{who} last reported its work.",
            Record.LAST_STEP,
        )
    return f"{who} answered a request to dump, so it was alive.", record


def exhibit_of(item: Quotable) -> Exhibit:
    """The exhibit that quotes a line, as the first reading kept it."""
    line = item.place.line or 1
    shown = tuple(SourceLine(line + n, text) for n, text in enumerate(item.quote.split("\n")[:KEPT]))
    quoted = QuotedLines(item.place, shown, frozenset({shown[-1].number}), frame=item.frame, raised_in=item.raised_in)
    numbers = () if item.number is None else (item.number,)
    return Exhibit("", item.says, (), _marked_values(item.says, quoted, shown), numbers, lines=quoted, rank=item.rank)


def wanted_lines(exhibits: Iterable[Exhibit]) -> dict[int, set[int]]:
    """The lines to read again, by source id."""
    wanted: dict[int, set[int]] = {}
    for lines in (exhibit.lines for exhibit in exhibits):
        if lines is None or lines.where.line is None:
            continue
        first, below = lines.where.line, DEEPEST_FRAME if lines.frame else CONTEXT + KEPT
        wanted.setdefault(lines.where.source, set()).update(
            range(max(first - HIGHEST_FRAME - CONTEXT, 1), first + below + 1)
        )
    return wanted


def filled(exhibit: Exhibit, excerpts: Excerpts) -> Exhibit:
    """The exhibit with its lines and their context as they stand in the file, where that could be read again."""
    lines = exhibit.lines
    if lines is None:
        return exhibit
    shown = _stack_lines(lines, excerpts) if lines.frame else _record_lines(exhibit, lines, excerpts)
    if not shown:
        return exhibit
    source, first, last = lines.where.source, shown[0].number, shown[-1].number
    cites = _marked_values(exhibit.claim, lines, shown)
    holding = frozenset(line.number for line in shown if any(value in line.text for value in cites))
    quoted = replace(
        lines,
        shown=shown,
        marked=_frame_lines(lines, shown) or holding or frozenset({last}),
        before=excerpts.between(source, first - CONTEXT, first - 1),
        after=excerpts.between(source, last + 1, last + CONTEXT),
        is_whole=True,
    )
    return replace(exhibit, lines=quoted, cites=cites)


def _frame_lines(lines: QuotedLines, shown: Sequence[SourceLine]) -> frozenset[int]:
    """The line of the named frame, of an exception also its last line; empty where the record is neither."""
    if lines.raised_in and len(shown) > 1:
        return frozenset({shown[0].number, shown[-1].number})
    named = [line.number for line in shown[1:] if lines.frame and _is_frame(lines.frame, line)]
    return frozenset(named[:1])


def _stack_lines(lines: QuotedLines, excerpts: Excerpts) -> tuple[SourceLine, ...]:
    """The head of a stack, or the frames before the named one, that one, and its callers."""
    head = lines.where.line or 1
    below = excerpts.between(lines.where.source, head, head + DEEPEST_FRAME)
    end = next((n for n, line in enumerate(below) if n and _is_frame(lines.frame, line)), 0)
    before, after = FRAMES_SHOWN
    last = end
    while end and last < min(end + after, len(below) - 1) and below[last + 1].text[:1].isspace():
        last += 1
    return below[max(end - before, 0) : last + 1] if end else below[:1]


def _is_frame(function: str, line: SourceLine) -> bool:
    """True where a line of a stack names the function: *File "a.py", line 3 in main*, *main (a.py:3)*."""
    return function in line.text.replace("(", " ").split() or f" {function} " in line.text


def _record_lines(exhibit: Exhibit, lines: QuotedLines, excerpts: Excerpts) -> tuple[SourceLine, ...]:
    """The line itself, from the nearest line above it on that holds more of what the claim names."""
    source, number = lines.where.source, lines.where.line or 1
    own = excerpts.citing(source, number, lines.shown[0].text)
    if not own:
        return ()
    kept = "".join("".join(line.text for line in lines.shown).split())
    below = excerpts.between(source, number + 1, number + KEPT)
    own += tuple(takewhile(lambda line: _squeezed(line) != "" and _squeezed(line) in kept, below))
    held = len(cited(exhibit.claim, own))
    traceback = excerpts.between(source, number - HIGHEST_FRAME, number - 1)
    raised = [n for n, line in enumerate(traceback) if lines.raised_in and line.text.endswith(f"in {lines.raised_in}")]
    if raised:
        rows = (*traceback[raised[-1] :], *own)
        return rows if len(rows) <= 2 * ENDS_SHOWN else (*rows[:ENDS_SHOWN], *rows[-ENDS_SHOWN:])
    is_blank = not own[0].text.strip()  # a terminal wrapped the record, and the lines below hold it
    more = tuple(takewhile(lambda line: is_blank or _is_of_record(line.text, own[0].text), below[len(own) - 1 : REACH]))
    if len(cited(exhibit.claim, (*own, *more))) > held:
        return (*own, *more)
    above = excerpts.between(source, number - REACH, number - 1)
    for n in range(len(above) - 1, -1, -1):
        if not above[n].text.strip() or not _is_of_record(above[n].text, own[0].text):
            return own
        if len(cited(exhibit.claim, (*above[n:], *own))) > held:
            return (*above[n:], *own)
    return own


def _squeezed(line: SourceLine) -> str:
    """The beginning of a line without spaces: what tells whether the first reading kept it."""
    return "".join(line.text.split())[:40]


_OF_RECORD = lazy(r"\s{2,}|\[rank\d+\]:\s{2,}")
"""How lines inside a record of several lines begin: indented."""


def _is_of_record(above: str, own: str) -> bool:
    """True where a line above is of the same record: a row of its table, or a frame."""
    return bool(_OF_RECORD.match(above)) and ("File " in above or bool(_OF_RECORD.match(own)))


_VALUE = re.compile(
    r"(?<![\w.])(?:(?:(?P<word>[A-Za-z]{1,20}) )?(?P<hash>#?)(?P<number>\d{1,3}(?:,\d{3}){1,6}(?![\w,])|\d{1,20}(?!\w|[.:,]\w))"
    r"|(?P<name>\d[\w.:]{0,60}\w|[A-Z][A-Z_]{3,60}|\w{1,60}[a-z][A-Z]\w{0,60}|\w{0,60}[A-Za-z]_\w{1,60}"
    r"|[\w/-]{1,60}\.(?:py|sh|idx|log)))(?!\w)"
)
"""What a claim may name: a number with the word before it, names in capitals, with an underscore or in mixed case, files."""


_WORD = re.compile(r"[A-Za-z]{4,}")
_WHOLE = 160
"""Characters of a line that is marked as a whole."""


def _marked_values(claim: str, lines: QuotedLines, shown: Sequence[SourceLine]) -> tuple[str, ...]:
    """The values of the claim, else the function or the words that it names, else all of the last line."""
    text = "\n".join(line.text for line in shown)
    functions = [name for name in (lines.frame, lines.raised_in) if name and name in text]
    spoken = {word.lower() for word in _WORD.findall(claim)} - {
        "rank",
        "ranks",
        "process",
        "this",
        "line",
        "that",
        "error",
    }
    shared = [word for word in dict.fromkeys(_WORD.findall(shown[-1].text)) if word.lower() in spoken]
    whole = shown[-1].text.expandtabs(4).strip()
    return (
        cited(claim, shown)
        or tuple(functions)
        or tuple(shared)
        or (whole if len(whole) <= _WHOLE else whole[:_WHOLE].rpartition(" ")[0] or whole[:_WHOLE],)
    )


def cited(says: str, shown: Sequence[SourceLine]) -> tuple[str, ...]:
    """The values of the claim that the lines hold, as they stand there: *SeqNum=9* for *#9*, *rank3* for *rank 3*."""
    text = "\n".join(line.text for line in shown)
    found = [value for match in _VALUE.finditer(says) for value in _in_text(match, text)]
    return tuple(dict.fromkeys(value for value in found if value))


def _in_text(match: re.Match[str], text: str) -> Iterator[str]:
    """The number or the name of a match as the text writes it, and the operation before a number."""
    number, word = (match["number"] or "").replace(",", ""), match["word"] or ""
    name = match["name"] or (word if word.isupper() else "")
    if name:
        operation = (
            rf"(?<![A-Za-z])_?(?i:{'_?'.join(name.replace('_', ''))})\w*"  # ALLGATHER is _ALLGATHER_BASE, all_gather
        )
        held = re.search(operation if name.isupper() else rf"(?<!\w){re.escape(name)}(?!\w)", text)
        yield held.group() if held else ""
    if not number:
        return
    if match["hash"]:
        pattern = rf"{_COUNTS}\s{{0,3}}{number}(?!\w)|opCount {int(number):x}(?!\w)"
    elif len(number) > 2:
        pattern = rf"(?<![\w.]){number}(?:\.\d{{1,6}})?(?!\w)"
    elif word.lower() in ("rank", "ranks"):
        pattern = rf"{_RANK_NOUNS}\W{{0,12}}{number}(?!\w)|\[r{number}\]|\[{number}\](?= is| via| finished)"
    else:
        pattern = rf"(?<![A-Za-z_])(?i:{re.escape(word)})s?\W{{0,12}}{number}(?!\w)" if word else ""
    held = re.search(pattern, text) if pattern else None
    if held is None and len(number) == 2 and not match["hash"] and word.lower() not in ("rank", "ranks"):
        held = re.search(rf"(?<![\w.:-]){number}(?![\w.:-])", text)
    yield held.group() if held else ""


_COUNTS = r"(?:#|operation |SeqNum=|seq\w{0,20}[ :=]{1,3}|id:? |NCCL work: )"
_RANK_NOUNS = r"(?<![A-Za-z])(?i:(?:local_?)?ranks?|process|task|worker|nodes are|tp)"
"""What programs write before the number of a call, and of a rank."""
