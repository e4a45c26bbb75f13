"""Turns a result into an exit code, and a failure into a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nccldoctor.cli import terminal
from nccldoctor.model import (
    Action,
    CauseClass,
    Confidence,
    ConfidenceIn,
    Coverage,
    Diagnosis,
    Evidence,
    Finding,
    Gap,
    Job,
    SourceKind,
    SourceRole,
)
from nccldoctor.model.errors import InputError, NccldoctorError
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import attribution, json_document

NOTHING_WRONG = 0
DIAGNOSED = 1
NOTHING_READABLE = 2
CANNOT_TELL = 3

DOCUMENTS = {"json": json_document.to_json, "attribution": attribution.to_json}
"""What writes a diagnosis as a document for programs, by the names of ``--format``."""

_UNREAD = (SourceKind.EMPTY, SourceKind.UNREADABLE, SourceKind.UNKNOWN)
_ANYTHING = (SourceKind.LOG, SourceKind.JSON)
"""What any text counts as."""


def exit_code(diagnosis: Diagnosis) -> int:
    """0 shown to be well, 1 diagnosed, 2 nothing readable, 3 not enough to judge or cause open."""
    cause = diagnosis.verdict.cause
    if cause is CauseClass.NONE:
        return NOTHING_WRONG
    if cause is not CauseClass.UNDETERMINED:
        return DIAGNOSED
    # a letter or a folder of sources is of no job
    is_of_a_job = bool(diagnosis.ranks) or any(
        item.quote for finding in diagnosis.findings for item in finding.evidence
    )
    aside = _UNREAD if is_of_a_job else (*_UNREAD, *_ANYTHING)
    output = (source.kind for source in diagnosis.sources if source.kind.role is SourceRole.OUTPUT)
    readable = any(kind not in aside for kind in output)
    return CANNOT_TELL if readable else NOTHING_READABLE


def unreadable(paths: Sequence[str], gaps: Sequence[Gap]) -> InputError:
    """The error where nothing under ``paths`` could be read, with the first reasons."""
    why = "; ".join(f"{gap.what}: {gap.why}" for gap in gaps[:3])
    return InputError(
        f"nothing readable in {', '.join(paths[:3])}{f' ({why})' if why else ''}",
        "give the job's logs or flight-recorder dumps; nccldoctor inspect shows what was recognised",
    )


def failed(message: str, hint: str = "") -> Diagnosis:
    """The answer where nothing could be read: *undetermined*, with ``message`` as its only evidence.

    Programs that read the JSON get a document of the usual shape for every exit code.
    """
    finding = Finding(
        id="F1",
        cause=CauseClass.UNDETERMINED,
        confidence_in=ConfidenceIn.same(Confidence.CANNOT_TELL),
        headline=f"Nothing could be read: {message}",
        evidence=(Evidence(where=None, quote="", says=message),),
        refuted_by="A log or a flight-recorder dump of the job.",
    )
    return Diagnosis(
        findings=(finding,),
        remedies=(),
        avoid=(),
        job=Job(world_size=None, hosts=(), torch=None, nccl=None, groups=()),
        coverage=(Coverage("input", expected=Ranks(), found=Ranks(), problems=(message,)),),
        action=Action("unknown", hint or "Nothing was read."),
        ranks=(),
    )


@contextmanager
def failures_as(form: str) -> Iterator[None]:
    """Print a failure as a document where ``form`` is one, before it is raised."""
    try:
        yield
    except Exception as error:
        if form in DOCUMENTS:
            hint = error.hint if isinstance(error, NccldoctorError) else ""
            terminal.out(DOCUMENTS[form](failed(str(error), hint)), encoding="utf-8")
        raise
