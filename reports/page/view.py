"""The model of the page: one field for each block of the templates."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Avoid, Condition, Diagnosis, Finding, RemedyAdvice
from nccldoctor.model.figures import StackDiff, StackSide
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import markdown
from nccldoctor.reports.charts import heat, progress, streams, timeline, wait_graph
from nccldoctor.reports.page import facts, tables
from nccldoctor.reports.parts import advice, event_sequence, missing_inputs, rank_rows, wording
from nccldoctor.reports.parts.listed import Listed, first
from nccldoctor.reports.parts.quotes import Piece, Quote, Reason, pieces, quotes, reasons
from nccldoctor.reports.parts.sanitize import line

LINKS = 12
"""Steps of the chain in words."""

SETTINGS = 24
"""Lines of what to capture next time."""

OTHERS = 5
"""Other findings under the verdict."""

REMEDIES = 12
HYPOTHESES = 24


@dataclass(frozen=True, slots=True)
class Verdict:
    """The block at the top; ``headline`` is cut at its key words, ``facts`` are always four."""

    finding: Finding
    tone: str
    situation: str
    headline: tuple[Piece, ...]
    summary: str
    facts: tuple[facts.Fact, ...]
    others: Listed[Finding]


@dataclass(frozen=True, slots=True)
class Chain:
    """The wait-for graph, as a drawing and in words."""

    graph: wait_graph.WaitGraph | None
    steps: Listed[str]


@dataclass(frozen=True, slots=True)
class View:
    """The whole report; a block without anything to show is None or empty."""

    meta: tuple[tuple[str, str], ...]
    notices: tuple[str, ...]
    verdict: Verdict
    steps: tuple[advice.Step, ...]
    why: tuple[Reason, ...]
    refuted_by: str
    chain: Chain
    all_ranks: progress.ProgressPicture | None
    progress: Listed[tables.RankRow]
    run_up: heat.HeatMap | None
    streams: streams.StreamChart | None
    timeline: timeline.TimeChart | None
    stacks: tuple[tuple[str, StackSide], ...]
    story: Listed[event_sequence.Row]
    remedies: Listed[RemedyAdvice]
    donts: tuple[Avoid, ...]
    quotes: Listed[Quote]
    ruled_out: tuple[Condition, ...]
    coverage: tuple[tables.CoverageRow, ...]
    capture: tuple[str, ...]
    ticket: str
    footer: tuple[str, ...]


def build(diagnosis: Diagnosis) -> View:
    """The view of a diagnosis; the same for the same diagnosis."""
    verdict = diagnosis.verdict
    shown = quotes(diagnosis)
    culprits = Ranks(rank for finding in diagnosis.findings for rank in finding.ranks)
    suspects = Ranks(rank for finding in diagnosis.findings for rank in finding.suspects) - culprits
    return View(
        meta=facts.meta(diagnosis),
        notices=diagnosis.notices,
        verdict=_verdict(diagnosis),
        steps=advice.first_steps(diagnosis),
        why=reasons(tuple(quote for quote in shown.shown if quote.finding == verdict.id)),
        refuted_by=missing_inputs.named(diagnosis) or verdict.refuted_by,
        chain=_chain(diagnosis, culprits, suspects),
        progress=tables.ranks(diagnosis),
        all_ranks=progress.picture(diagnosis, rank_rows.SINGLES),
        run_up=heat.heat_map(diagnosis.run_up, culprits),
        streams=streams.stream_chart(diagnosis.streams),
        timeline=timeline.time_chart(diagnosis.timeline, culprits),
        stacks=_stacks(diagnosis.stacks, culprits),
        story=event_sequence.rows(diagnosis),
        remedies=first(diagnosis.remedies, REMEDIES),
        donts=advice.donts(diagnosis),
        quotes=shown,
        ruled_out=diagnosis.ruled_out[:HYPOTHESES],
        coverage=tables.coverage(diagnosis),
        capture=diagnosis.capture[:SETTINGS],
        ticket=markdown.ticket(diagnosis),
        footer=facts.footer(diagnosis),
    )


def _verdict(diagnosis: Diagnosis) -> Verdict:
    finding = diagnosis.verdict
    return Verdict(
        finding=finding,
        tone=facts.tone(finding),
        situation=wording.situation(diagnosis),
        headline=pieces(line(finding.headline, 400), finding),
        summary=wording.summary(diagnosis),
        facts=facts.four(diagnosis),
        others=first(wording.others(diagnosis), OTHERS),
    )


def _chain(diagnosis: Diagnosis, culprits: Ranks, suspects: Ranks) -> Chain:
    """The chains of all findings, side by side; a step that is part of a fuller one is left out."""
    links = tuple(dict.fromkeys(link for finding in diagnosis.findings for link in finding.chain))
    needed: dict[tuple[object, ...], list[Ranks]] = {}
    for link in links:
        needed.setdefault((link.waiting, link.group, link.op, link.seq), []).append(link.for_)
    fullest = tuple(
        link
        for link in links
        if not any(link.for_ < more for more in needed[link.waiting, link.group, link.op, link.seq])
    )
    steps = first([wait_graph.in_words(link, suspects) for link in fullest], LINKS)
    return Chain(wait_graph.wait_graph(fullest, culprits, suspects), steps)


def _stacks(stacks: StackDiff | None, culprits: Ranks) -> tuple[tuple[str, StackSide], ...]:
    """None, one or two stacks, each with its heading."""
    if stacks is None:
        return ()
    role = "" if stacks.culprit.rank in culprits else "suspect "
    sides = [(f"Where {role}rank {stacks.culprit.rank} is", stacks.culprit)]
    return (*sides, *((f"Where its peer rank {side.rank} is", side) for side in (stacks.peer,) if side is not None))
