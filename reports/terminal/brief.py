"""The terminal summary in brief: what happened, where, when, how sure, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.model import Diagnosis, Family
from nccldoctor.reports.parts import incident_facts, incident_time, wording
from nccldoctor.reports.parts.independent_sources import source_names
from nccldoctor.reports.parts.quoted_proof import QuotedProof, all_quoted, decisive_line
from nccldoctor.reports.terminal.layout import DIM, POINTER, Line, Span, paragraph
from nccldoctor.words import lists, names, numbers
from nccldoctor.words.sanitize import shortened

INDENT = 6


def first_place(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """Where the first exhibit stands, and the line of it that decides: first what became of the culprit."""
    shown = _first(diagnosis)
    if shown is None:
        return
    own = names.ranks_phrase(diagnosis.verdict.blamed)
    row = next((row for row in shown.lines if row.gutter == own), decisive_line(shown))
    room, whose = width - INDENT, f"{row.gutter}: " if shown.is_formatted and row.gutter else ""
    where = shown.place if len(shown.place) <= room else "…" + shown.place[1 - room :]
    if len(where) + len(whose) + len(row.text) + 2 <= room:
        yield Span("  --> ", POINTER), Span(f"{where}  {whose}{row.text}")
    else:
        yield Span("  --> ", POINTER), Span(where)
        yield (Span(f"{' ' * INDENT}{whose}{row.cropped(room - len(whose)).text}"),)


def _first(diagnosis: Diagnosis) -> QuotedProof | None:
    proofs = all_quoted(diagnosis)
    return next((proof for proof in proofs if proof.is_of_culprit), next(iter(proofs), None))


def what_is_known(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """Who and where, since when, how many are blocked and how sure that is; and what only the culprit printed."""
    finding = diagnosis.verdict
    sources = len(source_names(finding))
    sure = finding.confidence.value if incident_facts.confidence_line(diagnosis) else ""
    counted = f", {numbers.plural(sources, 'source')}" if sure and sources else ""
    told = (
        incident_facts.where(diagnosis),
        incident_time.began_and_lasted(diagnosis) if finding.family is not Family.NONE else "",
        _blocked(diagnosis),
        f"confidence {sure}{counted}" if sure else "",
    )
    shown = _first(diagnosis)
    is_quoted = shown is not None and any(one.quote in decisive_line(shown).text for one in finding.only_here[:1])
    alone = "" if is_quoted else wording.only_here(diagnosis) or incident_time.activity_before(diagnosis)
    for text in filter(None, (" · ".join(filter(None, told)), alone)):
        yield from paragraph(text, width, head=(Span(" " * INDENT),), indent=INDENT)


def _blocked(diagnosis: Diagnosis) -> str:
    """``7 of 8 ranks blocked in ALLREDUCE #9``: without the call where the headline names it."""
    waiting, world = wording.waiting_ranks(diagnosis), diagnosis.job.world_size or 0
    if not waiting:
        return ""
    who = f"{len(waiting):,} of {world:,} ranks" if world >= len(waiting) else names.ranks_phrase(waiting)
    call = wording.stalled_name(diagnosis.verdict.stalled) if diagnosis.verdict.stalled is not None else ""
    return f"{who} blocked" + (f" in {call}" if call and call not in diagnosis.verdict.headline else "")


def more(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """Where the rest is: the proof, the ranks and the doubts, the page, and the ticket."""
    ids = [proof.id for proof in all_quoted(diagnosis)]
    proof = f"proof {ids[0]}" + (f"-{ids[-1]}" if len(ids) > 1 else "") if ids else "input"
    behind = lists.and_list([proof, "ranks", *(["doubts"] if incident_facts.doubts(diagnosis, 1) else [])])
    text = f"nccldoctor -v prints {behind}; -o report.html the page; --format slack a ticket"
    yield (Span(shortened(text, width), DIM),)
