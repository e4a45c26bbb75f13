"""All that templates see: plain strings, numbers and tuples, made from a Diagnosis and safe to show."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Diagnosis, Finding, Link
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import markdown
from nccldoctor.reports.charts import heat, progress, streams, timeline, wait_graph
from nccldoctor.reports.page import facts, tables
from nccldoctor.reports.parts import advice, event_sequence, missing_inputs, rank_rows, wording
from nccldoctor.reports.parts.quotes import Exhibit, Piece, Reason, exhibits, pieces, reasons
from nccldoctor.reports.parts.sanitize import line, visible

LINKS = 12
"""Steps of the chain in words."""

SETTINGS = 24
"""Lines of what to capture next time."""

OTHERS = 5
"""Findings beside the verdict."""


@dataclass(frozen=True, slots=True)
class Other:
    """A finding beside the verdict."""

    id: str
    headline: str
    title: str
    confidence: str


@dataclass(frozen=True, slots=True)
class View:
    """The whole report in plain values; one field or a few for each block of the page."""

    title: str
    tone: str
    meta: tuple[tuple[str, str], ...]
    headline: str
    headline_pieces: tuple[Piece, ...]
    tag: str
    situation: str
    cause: str
    confidence: str
    sure: bool
    lede: str
    notices: tuple[str, ...]
    facts: tuple[facts.Fact, ...]
    others: tuple[Other, ...]
    more_others: int
    steps: tuple[advice.Step, ...]
    why: tuple[Reason, ...]
    refuted_by: str
    chain: tuple[str, ...]
    more_links: int
    graph: wait_graph.WaitGraph | None
    ranks: tuple[tables.RankRow, ...]
    more_ranks: int
    fronts: progress.FrontPicture | None
    run_up: heat.HeatMap | None
    streams: streams.StreamChart | None
    timeline: timeline.TimeChart | None
    stacks: tuple[event_sequence.Side, ...]
    story: tuple[event_sequence.Row, ...]
    more_story: int
    remedies: tuple[advice.Remedy, ...]
    more_remedies: int
    donts: tuple[advice.Dont, ...]
    exhibits: tuple[Exhibit, ...]
    more_exhibits: int
    ruled_out: tuple[tables.Ruled, ...]
    coverage: tuple[tables.Read, ...]
    capture: tuple[str, ...]
    ticket: str
    footer: tuple[str, ...]


def build(diagnosis: Diagnosis) -> View:
    """The view of a diagnosis; the same for the same diagnosis."""
    verdict = diagnosis.verdict
    shown = exhibits(diagnosis)
    chain = _chain(diagnosis)
    rows, more_ranks = tables.ranks(diagnosis)
    blamed = _blamed(diagnosis)
    story, more_story = event_sequence.rows(diagnosis)
    others = wording.others(diagnosis)
    return View(
        title=line(verdict.headline, 140),
        tone=facts.tone(verdict),
        meta=facts.meta(diagnosis),
        headline=line(verdict.headline, 400),
        headline_pieces=pieces(line(verdict.headline, 400), verdict),
        tag=wording.TITLES[verdict.cause],
        situation=wording.situation(diagnosis),
        cause=verdict.cause.value,
        confidence=wording.confidence(verdict),
        sure=verdict.confidence.value in ("high", "medium"),
        lede=wording.lede(diagnosis),
        notices=tuple(line(notice, 300) for notice in diagnosis.notices),
        facts=facts.four(diagnosis),
        others=tuple(_other(f) for f in others[:OTHERS]),
        more_others=max(len(others) - OTHERS, 0),
        steps=advice.first_steps(diagnosis),
        why=reasons(tuple(e for e in shown.shown if e.finding == verdict.id)),
        refuted_by=line(missing_inputs.named(diagnosis) or verdict.refuted_by, 300),
        chain=tuple(wait_graph.in_words(link, blamed[1]) for link in chain[:LINKS]),
        more_links=max(len(chain) - LINKS, 0),
        graph=wait_graph.wait_graph(chain, *blamed),
        ranks=rows,
        more_ranks=more_ranks,
        fronts=progress.picture(diagnosis, rank_rows.SINGLES),
        run_up=heat.heat_map(diagnosis.run_up, blamed[0]),
        streams=streams.stream_chart(diagnosis.streams),
        timeline=timeline.time_chart(diagnosis.timeline, blamed[0]),
        stacks=event_sequence.sides(diagnosis.stacks, blamed[0]),
        story=story,
        more_story=more_story,
        remedies=advice.remedies(diagnosis),
        more_remedies=max(len(diagnosis.remedies) - advice.REMEDIES, 0),
        donts=advice.donts(diagnosis),
        exhibits=shown.shown,
        more_exhibits=shown.more,
        ruled_out=tables.ruled_out(diagnosis),
        coverage=tables.coverage(diagnosis),
        capture=tuple(visible(text, 400) for text in diagnosis.capture[:SETTINGS]),
        ticket=markdown.ticket(diagnosis),
        footer=facts.footer(diagnosis),
    )


def _other(finding: Finding) -> Other:
    return Other(finding.id, line(finding.headline, 300), wording.TITLES[finding.cause], wording.confidence(finding))


def _chain(diagnosis: Diagnosis) -> tuple[Link, ...]:
    """The chains of all findings: independent stalls are drawn side by side; what a fuller step says is not repeated."""
    links = dict.fromkeys(link for finding in diagnosis.findings for link in finding.chain)
    needed: dict[tuple[object, ...], list[Ranks]] = {}
    for link in links:
        needed.setdefault((link.waiting, link.group, link.op, link.seq), []).append(link.for_)
    return tuple(
        link
        for link in links
        if not any(link.for_ < more for more in needed[link.waiting, link.group, link.op, link.seq])
    )


def _blamed(diagnosis: Diagnosis) -> tuple[Ranks, Ranks]:
    culprits = Ranks(rank for finding in diagnosis.findings for rank in finding.ranks)
    return culprits, Ranks(rank for finding in diagnosis.findings for rank in finding.suspects) - culprits
