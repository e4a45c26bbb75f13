"""The model of the page: one field for each block of the templates, empty without content."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Avoid, Condition, Confidence, Diagnosis, Family, Finding
from nccldoctor.model.exhibits import Exhibit, LastLines
from nccldoctor.model.standings import Involvement, Standing
from nccldoctor.reports import dialects, ticket
from nccldoctor.reports.charts import chain, crossed, rank_map, stall
from nccldoctor.reports.page import facts, tables
from nccldoctor.reports.parts import advice, missing_inputs, standing_titles, wording
from nccldoctor.reports.parts.listed import Listed, first
from nccldoctor.words import names, numbers, times
from nccldoctor.words.sanitize import line

SETTINGS = 24
OTHERS = 5
FEWEST_ROWS = 2
STEPS = 4
FIXES = 3
DONTS = 2
HYPOTHESES = 6


@dataclass(frozen=True, slots=True)
class Status:
    """The line above the headline: the kind of incident, its class, and how sure it is (``bars`` of 3).

    ``situation`` says what is special about it, such as two stalls that have nothing to do with each other.
    """

    tone: str
    kind: str
    situation: str
    cause: str
    class_name: str
    level: str
    bars: int
    sources: str


@dataclass(frozen=True, slots=True)
class ProofStep:
    """An exhibit with its number and its claim."""

    id: str
    claim: str
    exhibit: Exhibit
    crossed: crossed.CrossedCalls | None = None


@dataclass(frozen=True, slots=True)
class LogSide:
    """The last lines of one rank: its role in words, and the gap."""

    lines: LastLines
    role: str
    gap: str


@dataclass(frozen=True, slots=True)
class RankRow:
    """Ranks that stand alike, in words."""

    ranks: str
    label: str
    involvement: Involvement
    hosts: str
    symbol: str
    state: str
    where: str
    waits_for: str
    end: str


@dataclass(frozen=True, slots=True)
class View:
    """The whole report."""

    job: tuple[str, ...]
    status: Status
    headline: str
    lede: str
    notices: tuple[str, ...]
    facts: tuple[facts.Fact, ...]
    steps: tuple[advice.Step, ...]
    chain: chain.ChainPicture | None
    map: rank_map.RankMap | None
    proof: tuple[ProofStep, ...]
    refuted_by: str
    stall: stall.StallPicture | None
    last_lines: tuple[LogSide, ...]
    ranks: tuple[RankRow, ...]
    world: str
    doubts: tuple[str, ...]
    runner_up: str
    others: Listed[Finding]
    fixes: tuple[str, ...]
    remedy: str
    donts: tuple[Avoid, ...]
    ruled_out: tuple[Condition, ...]
    ticket: str
    coverage: tuple[tables.CoverageRow, ...]
    input_line: str
    capture: tuple[str, ...]
    footer: tuple[str, ...]


def build(diagnosis: Diagnosis) -> View:
    """The view of a diagnosis; the same for the same diagnosis."""
    verdict = diagnosis.verdict
    is_open = verdict.family in (Family.NONE, Family.UNDETERMINED)
    best = next((r for r in diagnosis.remedies if r.fit != "weak"), None)
    rows = tuple(_rank_row(s) for s in diagnosis.standings)
    return View(
        job=facts.job_line(diagnosis),
        status=_status_line(diagnosis),
        headline=line(verdict.headline, 400),
        lede=wording.summary(diagnosis),
        notices=diagnosis.notices,
        facts=() if is_open else facts.four(diagnosis),
        steps=advice.first_steps(diagnosis)[:STEPS],
        chain=chain.chain_picture(diagnosis.standings),
        map=rank_map.rank_map(diagnosis),
        proof=tuple(_proof_step(n, e) for n, e in enumerate(diagnosis.proof, 1)),
        refuted_by=missing_inputs.named(diagnosis) or line(verdict.refuted_by, 300),
        stall=stall.stall_picture(diagnosis),
        last_lines=tuple(_log_side(diagnosis, side) for side in diagnosis.last_lines),
        ranks=rows if len(rows) >= FEWEST_ROWS else (),
        world=f"{numbers.plural(len(diagnosis.ranks), 'rank')} in {numbers.plural(len(rows), 'state')}."
        if rows
        else "",
        doubts=tuple(line(d.says, 240) for d in verdict.doubts[:3])
        if verdict.confidence is not Confidence.HIGH
        else (),
        runner_up=line(wording.runner_up_words(verdict), 300),
        others=first(wording.others(diagnosis), OTHERS),
        fixes=best.fix[:FIXES] if best is not None else (),
        remedy=f"From remedy {best.id}; nccldoctor explain {best.id} tells the rest." if best is not None else "",
        donts=advice.donts(diagnosis)[:DONTS],
        ruled_out=diagnosis.ruled_out[:HYPOTHESES],
        ticket="" if is_open else ticket.in_dialect(diagnosis, dialects.GITHUB),
        coverage=tables.coverage(diagnosis),
        input_line=missing_inputs.input_line(diagnosis),
        capture=diagnosis.capture[:SETTINGS],
        footer=facts.footer(diagnosis),
    )


_KINDS = {Family.NONE: "Healthy", Family.UNDETERMINED: "Not enough to judge", Family.SETUP: "Init hang"}
_LEVELS = {
    Confidence.HIGH: ("High confidence", 3),
    Confidence.MEDIUM: ("Medium confidence", 2),
    Confidence.LOW: ("Low confidence", 1),
}


def _status_line(diagnosis: Diagnosis) -> Status:
    finding = diagnosis.verdict
    situation = wording.situation(diagnosis)
    is_kind = finding.family in _KINDS or situation.startswith("A crash")
    level, bars = _LEVELS.get(finding.confidence, ("", 0))
    agree, _ = wording.agreement(finding)
    sources = f"{agree} sources agree" if agree > 1 and bars else ""
    kind = situation if situation and is_kind else _KINDS.get(finding.family, "Hang")
    return Status(
        tone=facts.tone(finding),
        kind=kind,
        situation="" if is_kind else situation,
        cause=wording.title(finding),
        class_name=finding.cause.value,
        level=level,
        bars=bars,
        sources=sources,
    )


def _proof_step(number: int, exhibit: Exhibit) -> ProofStep:
    drawing = crossed.crossed_calls(exhibit.order) if exhibit.order is not None else None
    return ProofStep(f"E{number}", line(exhibit.claim, 240), exhibit, drawing)


def _log_side(diagnosis: Diagnosis, side: LastLines) -> LogSide:
    finding = diagnosis.verdict
    role = "at fault" if side.rank in finding.ranks else "suspect" if side.rank in finding.suspects else "waiting"
    return LogSide(side, role, times.duration(side.gap_ms) if side.gap_ms is not None else "")


_STATES = {
    Involvement.CULPRIT: ("▲", "at fault"),
    Involvement.SUSPECT: ("△", "suspect"),
    Involvement.WAITING: ("◆", "waiting"),
    Involvement.BLOCKED: ("●", "waiting behind them"),
    Involvement.UNINVOLVED: ("○", "not involved"),
    Involvement.UNKNOWN: ("?", "unknown"),
}


def _rank_row(standing: Standing) -> RankRow:
    symbol, state = _STATES[standing.involvement]
    place = (
        standing_titles.place_title(standing)
        if standing.call or standing.frame or standing.distance is not None
        else ""
    )
    frame = f" in {standing.frame}" if standing.call is not None and standing.frame else ""
    at = f" ({standing.frame_at})" if standing.frame else ""
    hosts = ", ".join(line(host, 40) for host in standing.hosts[:2])
    return RankRow(
        ranks=str(standing.ranks),
        label=names.few(standing.ranks, 6),
        involvement=standing.involvement,
        hosts=hosts if len(standing.hosts) <= 2 else f"{len(standing.hosts)} hosts",
        symbol=symbol,
        state=state,
        where=line(f"{place}{frame}{at}", 200),
        waits_for=names.few(standing.waits_for, 4) if standing.waits_for else "",
        end=line(standing.end, 40),
    )
