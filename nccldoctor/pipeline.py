"""The pipeline: files in, an Incident out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nccldoctor.attempts import Attempts
from nccldoctor.diagnose.headlines import with_lone_lines
from nccldoctor.discover.discover import Discovered, discover
from nccldoctor.ingest import excerpts
from nccldoctor.ingest.excerpts import LineReader
from nccldoctor.ingest.ingest import Ingested, collector_off, ingest
from nccldoctor.ingest.read_before import ReadBefore
from nccldoctor.judging import Judged, identify_all, judge
from nccldoctor.model import Diagnosis
from nccldoctor.model.errors import InputError
from nccldoctor.model.findings import stalls_of
from nccldoctor.questions.last_activity import last_activity
from nccldoctor.questions.lone_lines import last_lines_of_ranks
from nccldoctor.summarise.broken_link import broken_link
from nccldoctor.summarise.call_diff import call_diff
from nccldoctor.summarise.call_strip import call_strip
from nccldoctor.summarise.coverage import broken_parts, coverage, left_out, ruled_out
from nccldoctor.summarise.event_sequence import event_sequence
from nccldoctor.summarise.field_diff import field_diff
from nccldoctor.summarise.last_lines import silences
from nccldoctor.summarise.lateness import lateness
from nccldoctor.summarise.proof.exhibits import Proof, prove
from nccldoctor.summarise.quotations import Quotations
from nccldoctor.summarise.rank_table import alarm, job, notices, rank_table, survived
from nccldoctor.summarise.stack_diff import snapshots, stack_diff
from nccldoctor.summarise.standings import standings
from nccldoctor.summarise.timeline import timeline
from nccldoctor.words.sanitize import line

if TYPE_CHECKING:
    from nccldoctor.identify.case import Case
    from nccldoctor.incident import Incident
    from nccldoctor.prescribe.catalogue.load import Collected

_LOG = logging.getLogger("nccldoctor")
_LOG.addHandler(logging.NullHandler())

Progress = Callable[[int, int], None]
"""Called with the bytes read and of all inputs, from any thread, one call at a time."""


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
    inputs = discover(paths, rank_from)
    return identify_all(_read_all(inputs, rank_from, workers, on_progress)[0])


@collector_off()
def analyze(
    paths: str | Path | Sequence[str | Path],
    *,
    rank_from: str | None = None,
    workers: int | None = None,
    catalogue: Sequence[str | Path] = (),
    scheduler: str | None = None,
    on_progress: Progress | None = None,
    before: ReadBefore | None = None,
) -> Incident:
    """Diagnose the job whose logs and dumps are under ``paths``.

    >>> import nccldoctor as nd
    >>> nd.analyze(nd.demo("dtype-mismatch"))
    <Incident dtype-mismatch, confidence high: Dtype mismatch in ALLREDUCE #7: rank 3 sent float16, ranks 0-2 sent float32.>
    >>> logs = nd.demo("died")
    >>> nd.analyze([logs / "node0", logs / "dumps"]).verdict.ranks
    Ranks('3')

    ``rank_from`` is a regular expression with a group ``rank`` for file names that no rule knows; ``catalogue`` names folders
    of further remedies; ``scheduler`` is the address of a cluster of dask or Ray whose workers read the files. Whatever can be read is
    diagnosed. To analyse a growing folder again and again, give the same ``before`` each time: only files that changed are read.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` for a path or a catalogue that does not exist or is wrong.
    """
    from nccldoctor.prescribe.catalogue.overlays import in_use

    inputs = discover([paths] if isinstance(paths, str | Path) else paths, rank_from)
    read, lines = _read_all(inputs, rank_from, workers, on_progress, before, scheduler)
    return incident_of(read, lines, in_use(catalogue))


def merge(
    parts: Iterable[bytes | str | Path],
    *,
    rank_from: str | None = None,
    workers: int | None = None,
    catalogue: Sequence[str | Path] = (),
) -> Incident:
    """Diagnose the job of which :func:`~nccldoctor.reduce` returned ``parts``, or wrote them to these files; their order does not matter.

    A part that is damaged is left out, and the coverage names it. The other arguments are those of :func:`analyze`.

    Raises :class:`~nccldoctor.model.errors.InputError` where no part is given or a path does not exist.
    """
    from nccldoctor.parts.opened import part_in_memory
    from nccldoctor.prescribe.catalogue.overlays import in_use

    given = list(parts)
    files = discover([one for one in given if not isinstance(one, bytes)]).parts
    held = (part_in_memory(f"part {n}", one) for n, one in enumerate(given) if isinstance(one, bytes))
    found = Discovered((), (), (*files, *held))
    if not found.parts:
        raise InputError("no part to merge", "reduce returns parts")
    read, lines = _read_all(found, rank_from, workers, None)
    return incident_of(read, lines, in_use(catalogue))


def _read_all(
    inputs: Discovered,
    rank_from: str | None,
    workers: int | None,
    on_progress: Progress | None,
    before: ReadBefore | None = None,
    scheduler: str | None = None,
) -> tuple[Ingested, LineReader]:
    """All that was read of the inputs, also on a cluster, and what gives the lines that reports quote."""
    if inputs.parts or scheduler is not None:
        from nccldoctor.parts.join import join

        given = inputs
        if scheduler is not None:
            from nccldoctor.parts.on_cluster import read_on_cluster

            given = read_on_cluster(inputs, scheduler, on_progress)
        return join(given, rank_from=rank_from, workers=workers, on_progress=on_progress, order=inputs.inputs)
    read = ingest(inputs, workers, on_progress, before=before)
    return read, lambda wanted: excerpts.read_excerpts(inputs.inputs, wanted)


def incident_of(read: Ingested, lines: LineReader, known: Collected) -> Incident:
    """The incident in what was read. What breaks in it is left out, and named in the coverage.

    ``lines`` gives the lines that a report quotes.
    """
    from nccldoctor.incident import Incident

    judged = judge(read)
    case = judged.facts.case
    _LOG.debug("%d files, %d events, %d recorded calls", len(case.sources), len(case.events), len(case.calls))
    for finding in judged.findings:
        _LOG.debug("%s (%s): %s", finding.cause.value, finding.confidence.value, line(finding.headline))
    attempts = Attempts()
    judged = attempts.get("the last lines of the ranks", partial(_told_by_logs, judged, lines), judged)
    quiet = attempts.get("the choice of last lines", lambda: silences(judged.facts, judged.findings[0]), ())
    diagnosis = _diagnosis(judged, known, attempts)
    coverage = (*diagnosis.coverage, *broken_parts((*judged.broken, *attempts.broken)))
    return Incident(replace(diagnosis, coverage=coverage), case, lines, Quotations(quiet))


def _told_by_logs(judged: Judged, lines: LineReader) -> Judged:
    """The verdict with what the last lines of the logs tell; some files are opened a second time for it."""
    facts, verdict = judged.facts, judged.findings[0]
    told = replace(verdict, last_activity=last_activity(facts, verdict))
    last = last_lines_of_ranks(facts, verdict)
    if last.wanted:
        told = with_lone_lines(facts, told, last.lone(lines(last.wanted)))
    return replace(judged, findings=(told, *judged.findings[1:]))


def _diagnosis(judged: Judged, known: Collected, attempts: Attempts) -> Diagnosis:
    """The findings with what to do about them, and what reports draw; no line is quoted yet."""
    facts, findings = judged.facts, judged.findings
    verdict, draw = findings[0], attempts.get
    from nccldoctor.prescribe.prescribe import NO_ADVICE, prescribe

    advice = attempts.get("the advice", lambda: prescribe(judged.findings, judged.facts, known.catalogue), NO_ADVICE)
    attempts.include(advice.broken)
    rows = draw("the table of ranks", lambda: rank_table(facts, findings), ())
    diff = draw("the calls side by side", lambda: call_diff(facts, findings), None)
    proof = draw("the proof", lambda: prove(facts, verdict, diff), Proof((), ()))
    fields = draw("the fields that differ", lambda: field_diff(facts, verdict), None)
    return Diagnosis(
        findings=findings,
        remedies=advice.remedies,
        avoid=advice.avoid,
        job=job(facts),
        coverage=(*draw("the coverage", lambda: coverage(facts), ()), *left_out(known.mistakes)),
        action=advice.action,
        ranks=rows,
        sources=facts.case.sources,
        ruled_out=draw("what is ruled out", lambda: ruled_out(facts, verdict), ()),
        capture=advice.capture,
        job_end=advice.job_end,
        alarm=draw("the first complaint", lambda: alarm(facts), None),
        catalogue=f"{len(known.catalogue.entries)} remedies",
        run_up=draw("the lateness", lambda: lateness(facts, findings), None),
        timeline=draw("the timeline", lambda: timeline(facts, findings), None),
        stacks=draw("the stacks side by side", lambda: stack_diff(facts, findings), None),
        streams=diff,
        story=draw("the events in order", lambda: event_sequence(facts, findings), ()),
        notices=(*survived(facts, verdict), *notices(facts)),
        proposals=judged.proposals,
        standings=draw(
            "where ranks stand", lambda: standings(facts, rows, [one.ranks for one in stalls_of(findings)]), ()
        ),
        proof=proof.exhibits,
        unshown=proof.unshown,
        fields=fields,
        link=draw("the broken link", lambda: broken_link(facts, verdict), None),
        snapshots=draw("the snapshots", lambda: snapshots(facts, verdict), None),
        strip=draw("the strip of calls", lambda: call_strip(facts, verdict, fields), None) if fields else None,
    )
