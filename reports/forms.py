"""Fills the issue forms of projects. Each form is a template that :mod:`nccldoctor.reports.markdown` renders.

A fact that no file holds is a box to tick, with the command that finds it.
"""

from __future__ import annotations

from nccldoctor.events import Events, NcclWarn, ProcessExit, Setting, Version
from nccldoctor.ingest.excerpts import LineReader
from nccldoctor.model import CauseClass, Confidence, Diagnosis, Family, SourceKind
from nccldoctor.model.excerpts import SourceLine
from nccldoctor.model.inputs import SourceRole
from nccldoctor.reports import html, markdown
from nccldoctor.reports.parts import incident_facts, missing_inputs, wording
from nccldoctor.reports.parts.quoted_proof import all_quoted
from nccldoctor.reports.ticket import ticket_of
from nccldoctor.version import __version__

FORMS = tuple(sorted(path.stem for path in (html.TEMPLATES / "forms").glob("*.md") if path.stem != "fields"))
"""The forms by the names of ``--for``."""

SCRIPT_LINES = 60
"""Lines of a launch script that are shown."""

_CRASHES, _NO_HANG = (CauseClass.DIED, CauseClass.RAISED), (Family.NONE, Family.SLOW)


def filled(form: str, diagnosis: Diagnosis, events: Events, lines: LineReader | None) -> str:
    """A form of :data:`FORMS` as Markdown."""
    verdict, job = diagnosis.verdict, diagnosis.job
    prose = {source.id for source in diagnosis.sources if source.kind.role is SourceRole.PROSE}
    settings = {seen.name: seen.value for seen in events.of_kind(Setting) if seen.place.source not in prose}
    versions = {seen.of: seen.version for seen in events.of_kind(Version) if seen.place.source not in prose}
    script = next((source for source in diagnosis.sources if source.kind is SourceKind.SCRIPT), None)
    shown: tuple[SourceLine, ...] = ()
    if script is not None and lines is not None:
        shown = lines({script.id: range(1, SCRIPT_LINES + 1)}).between(script.id, 1, SCRIPT_LINES)
    is_open = verdict.family is Family.UNDETERMINED or verdict.confidence in (Confidence.LOW, Confidence.CANNOT_TELL)
    known = {
        "ticket": ticket_of(diagnosis),
        "proof": all_quoted(diagnosis),
        "missing": missing_inputs.wanted(diagnosis),
        "versions": {"torch": job.torch, "nccl": job.nccl, "cuda": "", "driver": "", "python": ""} | versions,
        "settings": [f"{name}={value}" for name, value in settings.items() if name.isidentifier()],
        "script": script.path if script is not None and shown else "",
        "script_lines": "\n".join(row.text for row in shown),
        "job": incident_facts.job(diagnosis),
        "launcher": next((end.reporter for end in events.of_kind(ProcessExit) if end.reporter), ""),
        "impact": "" if is_open or verdict.family in _NO_HANG else "crash" if verdict.cause in _CRASHES else "hang",
        "search": f'gh search issues --repo @ "{wording.title(verdict).lower()}"',
        "is_open": is_open,
        "has_nccl_lines": bool(events.of_kind(NcclWarn) or "nccl" in versions),
        "version": __version__,
    }
    return markdown.rendered(f"forms/{form}.md", d=diagnosis, f=known)
