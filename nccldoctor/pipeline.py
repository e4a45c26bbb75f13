"""The pipeline: files in, an Incident out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nccldoctor.align.facts import Facts, align
from nccldoctor.diagnose.decide import Judgement
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.diagnose.headlines import with_headline
from nccldoctor.diagnose.jackknife import doubted_by_damage
from nccldoctor.discover.discover import discover
from nccldoctor.identify.case import Case
from nccldoctor.identify.identify import identify
from nccldoctor.identify.runs.separate_jobs import one_job
from nccldoctor.identify.runs.stale_dumps import newest_case
from nccldoctor.ingest.ingest import Ingested, collector_off, ingest
from nccldoctor.model import Diagnosis, Finding
from nccldoctor.summarise.broken_link import broken_link
from nccldoctor.summarise.call_diff import call_diff
from nccldoctor.summarise.call_strip import call_strip
from nccldoctor.summarise.coverage import coverage, left_out, ruled_out
from nccldoctor.summarise.event_sequence import event_sequence
from nccldoctor.summarise.field_diff import field_diff
from nccldoctor.summarise.last_lines import silences
from nccldoctor.summarise.lateness import lateness
from nccldoctor.summarise.proof.exhibits import prove
from nccldoctor.summarise.quotations import Quotations
from nccldoctor.summarise.rank_table import alarm, job, notices, rank_table
from nccldoctor.summarise.snapshots import snapshots
from nccldoctor.summarise.stack_diff import stack_diff
from nccldoctor.summarise.standings import standings
from nccldoctor.summarise.timeline import timeline

if TYPE_CHECKING:
    from nccldoctor.incident import Incident
    from nccldoctor.prescribe.catalogue.load import Collected

_LOG = logging.getLogger("nccldoctor")
_LOG.addHandler(logging.NullHandler())

Progress = Callable[[int, int], None]
"""Called with the number of inputs read and of all inputs."""


@collector_off()
def read(
    paths: Sequence[str | Path],
    *,
    rank_from: str | None = None,
    workers: int | None = None,
    on_progress: Progress | None = None,
) -> Case:
    """Everything that the input says, nothing judged: what ``inspect`` shows.

    Raises :class:`~nccldoctor.model.errors.InputError` for a path that does not exist.
    """
    return identify(ingest(discover(paths, rank_from), workers, on_progress))


@collector_off()
def analyze(
    paths: str | Path | Sequence[str | Path],
    *,
    rank_from: str | None = None,
    workers: int | None = None,
    catalogue: Sequence[str | Path] = (),
    on_progress: Progress | None = None,
) -> Incident:
    """Diagnose the job whose logs and dumps are under ``paths``.

    ``rank_from`` is a regular expression with a group ``rank`` for file names that no rule knows; ``catalogue`` names folders
    of further remedies. Whatever can be read is diagnosed.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` for a path or a catalogue that does not exist or is wrong.
    """
    from nccldoctor.incident import Incident
    from nccldoctor.prescribe.catalogue.overlays import in_use

    inputs = discover([paths] if isinstance(paths, str | Path) else paths, rank_from)
    read = one_job(ingest(inputs, workers, on_progress))
    case = newest_case(read)
    facts = align(case)
    _LOG.debug("%d files, %d events, %d recorded calls", len(case.sources), len(case.events), len(case.calls))
    judged = diagnose(facts)
    verdict = doubted_by_damage(judged.findings[0], case, read, _judged_again)
    judged = replace(judged, findings=with_headline((verdict, *judged.findings[1:]), case))
    for finding in judged.findings:
        _LOG.debug("%s (%s): %s", finding.cause.value, finding.confidence.value, finding.headline)
    return Incident(_diagnosis(facts, judged, in_use(catalogue)), case, inputs, Quotations(silences(facts, verdict)))


def _judged_again(read: Ingested) -> Finding:
    return diagnose(align(newest_case(read))).findings[0]


def _diagnosis(facts: Facts, judged: Judgement, known: Collected) -> Diagnosis:
    """The findings with what to do about them, and what reports draw; no line is quoted yet."""
    from nccldoctor.prescribe.prescribe import prescribe

    findings = judged.findings
    prescription = prescribe(findings, facts.case, known.catalogue)
    rows = rank_table(facts, findings)
    diff = call_diff(facts, findings)
    proof = prove(facts, findings[0], diff)
    fields = field_diff(facts, findings[0])
    return Diagnosis(
        findings=findings,
        remedies=prescription.remedies,
        avoid=prescription.avoid,
        job=job(facts),
        coverage=(*coverage(facts), *left_out(known.mistakes)),
        action=prescription.action,
        ranks=rows,
        sources=facts.case.sources,
        ruled_out=ruled_out(facts, findings[0]),
        capture=prescription.capture,
        job_end=prescription.job_end,
        alarm=alarm(facts),
        catalogue=f"{len(known.catalogue.entries)} remedies",
        run_up=lateness(facts, findings),
        timeline=timeline(facts, findings),
        stacks=stack_diff(facts, findings),
        streams=diff,
        story=event_sequence(facts, findings),
        notices=notices(facts),
        proposals=judged.proposals,
        standings=standings(facts, findings, {row.rank: row.role for row in rows}),
        proof=proof.exhibits,
        unshown=proof.unshown,
        fields=fields,
        link=broken_link(facts, findings[0]),
        snapshots=snapshots(facts, findings[0]),
        strip=call_strip(facts, findings[0], fields) if fields is not None else None,
    )
