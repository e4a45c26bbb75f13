"""The model of the page: one field for each block of the templates, empty without content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.attempts import Attempts, Broken
from nccldoctor.model import CauseClass, Diagnosis, Family, RemedyAdvice
from nccldoctor.model.findings import stalls_of
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Standing
from nccldoctor.model.steps import JobState, Step, StepKind
from nccldoctor.reports import dialects, ticket
from nccldoctor.reports.charts import call_strip, group_map, late_calls, rank_map, stall
from nccldoctor.reports.page import answer, facts, first_picture, open_verdict, tables
from nccldoctor.reports.page.proof import log_sides, missing_log, proof_steps
from nccldoctor.reports.parts import advice, missing_inputs, standing_titles, wording
from nccldoctor.reports.parts.tones import Tone, tone_of
from nccldoctor.words import names
from nccldoctor.words.sanitize import line

SETTINGS = 24
OTHERS = 5
FEWEST_ROWS = 2
FIXES = 3
HYPOTHESES = 6
_EXHIBITS = {Family.NONE: 0, Family.UNDETERMINED: 1}
"""Exhibits of a verdict that names nobody: a healthy job's proof stands in the table of what was checked."""
_COUNTS = ("", "one", "two", "three")


class StepRow(Struct, frozen=True):
    """A step: its sentence and why as CommonMark, and its command, which stands alone under ``key``."""

    key: str
    label: str
    text: str
    detail: str
    command: str


def build(diagnosis: Diagnosis) -> SimpleNamespace:
    """The view of a diagnosis: what the templates show, a field for each block; the same for the same diagnosis."""
    verdict = diagnosis.verdict
    is_open = verdict.family in (Family.NONE, Family.UNDETERMINED)
    best = next((r for r in diagnosis.remedies if r.fit != "weak"), None)
    rows = tuple(_rank_row(s) for s in folded(diagnosis.standings))
    attempts = Attempts()
    draw = attempts.get
    picture = draw("who waits for whom", lambda: first_picture.first_picture(diagnosis), None)
    found = (
        draw("the calls around the mismatch", lambda: call_strip.strip_picture(diagnosis.strip), None),
        draw("the lateness", lambda: late_calls.late_calls(diagnosis), None) if not is_open else None,
    )
    strips = tuple(strip for strip in found if strip is not None)
    is_told = picture is not None and picture.kind in ("gap", "fields")  # ranks in one call have equal bars
    bars = draw("the stall to scale", lambda: stall.stall_picture(diagnosis), None) if not is_open else None
    sides = draw("the last lines", lambda: log_sides(diagnosis), ()) if not is_open else ()
    ranks = draw("the map of ranks", lambda: rank_map.rank_map(diagnosis), None) if not is_open else None
    groups = draw("the map of groups", lambda: group_map.group_map(diagnosis), None) if not is_open else None
    drawn = {"first": picture, "stall": bars, "last lines": sides, **{strip.key: strip for strip in strips}}
    not_the_cause = tables.ruled_out(diagnosis.ruled_out[:HYPOTHESES]) if not is_open else ()
    shown = _numbered(diagnosis)
    left = (step for step in diagnosis.action.steps if step.kind is StepKind.RESTART and step not in shown)
    return SimpleNamespace(
        job=facts.job_line(diagnosis),
        status=answer.status_line(diagnosis),
        headline=line(verdict.headline, 400),
        lede=answer.lede(diagnosis),
        notices=diagnosis.notices,
        facts=_facts(diagnosis),
        act=_heading(diagnosis),
        steps=tuple(
            StepRow(f"c{n}", advice.LABELS[step.kind], step.text, step.detail, line(step.command or "", 600))
            for n, step in enumerate(_numbered(diagnosis), 1)
        ),
        restart=next((advice.sentence_of(step) for step in left), ""),
        checks=open_verdict.checks(diagnosis) if verdict.family is Family.NONE else (),
        known=open_verdict.known(diagnosis) if verdict.family is Family.UNDETERMINED else (),
        first=picture,
        cycle=first_picture.cycle(diagnosis) if picture is not None and picture.kind == "order" else None,
        map=ranks,
        group_map=groups,
        proof=proof_steps(diagnosis)[: _EXHIBITS.get(verdict.family)],
        unshown=tuple(part.says for part in diagnosis.unshown),
        refuted_by="" if is_open else line(verdict.refuted_by, 300),
        strips=strips,
        stall=None if is_told else bars,
        not_drawn=not_drawn(diagnosis, frozenset(n for n, what in drawn.items() if what), attempts.broken),
        last_lines=sides,
        no_log=missing_log(diagnosis),
        ranks=rows if len(rows) >= FEWEST_ROWS and not is_open else (),
        doubts=answer.why_not_surer(verdict) if not is_open else (),
        explanations=answer.explanations(verdict) if not is_open else (),
        others=tuple(o for o in wording.others(diagnosis) if o not in stalls_of(diagnosis.findings))[:OTHERS],
        fixes=_fixes(diagnosis, best),
        remedy=f"{best.title}. More in nccldoctor explain {best.id}" if best is not None else "",
        donts=advice.donts(diagnosis) if not is_open else (),
        settings=advice.idle_settings(diagnosis),
        ruled_out=not_the_cause,
        ruled_out_words=tables.ruled_out_words(not_the_cause),
        ticket="" if is_open else ticket.in_dialect(diagnosis, dialects.GITHUB),
        coverage=diagnosis.coverage,
        input_line=missing_inputs.input_line(diagnosis),
        capture=diagnosis.capture[:SETTINGS],
        footer=facts.footer(diagnosis),
    )


def _facts(diagnosis: Diagnosis) -> tuple[facts.Fact, ...]:
    family = diagnosis.verdict.family
    if family is Family.UNDETERMINED:
        return ()
    return open_verdict.healthy_facts(diagnosis) if family is Family.NONE else facts.four(diagnosis)


def _numbered(diagnosis: Diagnosis) -> tuple[Step, ...]:
    """The steps of the list; where nothing but files is asked for, only those."""
    steps = diagnosis.action.steps
    is_all = all(step.kind in (StepKind.SEND, StepKind.RESTART) for step in steps)
    return tuple(step for step in steps if step.kind is StepKind.SEND or not is_all) or steps


def _heading(diagnosis: Diagnosis) -> str:
    shown = _numbered(diagnosis)
    if not shown:
        return ""
    if any(step.kind is not StepKind.SEND for step in shown):
        return "Do now"
    return "Collect this" if len(shown) == 1 else f"Collect these {_COUNTS[len(shown)]} things"


def _fixes(diagnosis: Diagnosis, best: RemedyAdvice | None) -> tuple[str, ...]:
    """The fixes of the best remedy, without the one that stands among the steps."""
    shown = {step.text.rstrip(".") for step in diagnosis.action.steps}
    return tuple(text for text in (best.fix if best is not None else ()) if text.rstrip(".") not in shown)[:FIXES]


_STATES = {
    Tone.CULPRIT: ("▲", "at fault"),
    Tone.SUSPECT: ("△", "suspect"),
    Tone.WAITING: ("◆", "waiting"),
    Tone.BLOCKED: ("●", "behind them"),
    Tone.CROWD: ("○", ""),
    Tone.UNINVOLVED: ("-", "not involved"),
    Tone.UNKNOWN: ("?", "unknown"),
}


def _rank_row(standing: Standing) -> SimpleNamespace:
    """Ranks that stand alike, in words."""
    symbol, state = _STATES[tone_of(standing)][0], _STATES[Tone[standing.involvement.name]][1]
    place = (
        standing_titles.place_title(standing)
        if standing.call or standing.frame or standing.distance is not None
        else ""
    )
    frame = f" in {standing.frame}" if standing.call is not None and standing.frame else ""
    at = f" ({standing.frame_at})" if standing.frame else ""
    hosts = ", ".join(line(host, 40) for host in standing.hosts[:2])
    return SimpleNamespace(
        ranks=str(standing.ranks),
        label=names.few(standing.ranks, 5),
        tone=tone_of(standing),
        hosts=hosts if len(standing.hosts) <= 2 else f"{len(standing.hosts)} hosts",
        symbol=symbol,
        state=state,
        where=line(f"{place}{frame}{at}", 200),
        waits_for=names.few(standing.waits_for, 4) if standing.waits_for else "",
        end=line(standing.end, 40),
    )


ROWS = 8
"""Rows that are shown one by one; more are folded."""


def folded(standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """The rows of a table, in the order of their first standing.

    Ranks behind a stall wait in the same RECV #16117 of 200 pipelines, two to six waits away from the culprit: one row.
    """
    if len(standings) <= ROWS:
        return tuple(standings)
    alike: dict[object, list[Standing]] = {}
    for standing in standings:
        call = standing.call
        place = (call.kind, call.op, call.seq, call.site) if call is not None else standing
        alike.setdefault((standing.involvement, place), []).append(standing)
    return tuple(_joined(same) for same in alike.values())


def _joined(same: Sequence[Standing]) -> Standing:
    first = same[0]
    ranks = Ranks(rank for s in same for rank in s.ranks)
    ends = {s.end for s in same}
    calls = [s.call for s in same if s.call is not None]
    groups = tuple(dict.fromkeys(group for call in calls for group in call.groups))
    return replace(
        first,
        ranks=ranks,
        hosts=tuple(dict.fromkeys(host for s in same for host in s.hosts)),
        call=replace(calls[0], groups=groups) if calls else None,
        waits_for=Ranks(rank for s in same for rank in s.waits_for) - ranks,
        frame=first.frame if len({s.frame for s in same}) == 1 else "",
        end=first.end if len(ends) == 1 else "",
    )


_MISMATCHES = (CauseClass.OP_MISMATCH, CauseClass.SIZE_MISMATCH, CauseClass.DTYPE_MISMATCH)
_LATE = (CauseClass.NOT_ARRIVED, CauseClass.STRAGGLER)


def not_drawn(diagnosis: Diagnosis, drawn: frozenset[str], broken: Sequence[Broken] = ()) -> str:
    """``Not available: the stall to scale (no time after it began).``; "" where nothing is missing.

    ``drawn`` names what the page shows: *first*, *stall*, *last lines*, *strip*, *late*. Pictures that are ``broken`` are told too.
    """
    failed = [f"{part.what} (failed: {part.why})" for part in broken]
    is_open = diagnosis.verdict.family in (Family.NONE, Family.UNDETERMINED)
    missing = failed or ([] if is_open else [text for name, text in _wanted(diagnosis) if name not in drawn])
    return f"Not available: {', '.join(missing)}." if missing else ""


def _wanted(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """The pictures that would suit the verdict, each with why it may be missing."""
    cause = diagnosis.verdict.cause
    yield "first", "who waits for whom (no record of the waits)"
    yield "stall", "the stall to scale (no time after it began)"
    yield "last lines", "last lines (no log of a rank involved)"
    if cause in _MISMATCHES:
        yield "strip", "calls around the mismatch (no record of them)"
    if cause in _LATE:
        why = "no rank stands out" if diagnosis.run_up is not None else "no times of earlier calls"
        yield "late", f"lateness ({why})"
    if diagnosis.job_end.state is JobState.RUNNING and diagnosis.snapshots is None:
        yield "snapshots", "stacks over time (no rank at fault in two snapshots)"
