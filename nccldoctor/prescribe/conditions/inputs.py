"""Questions about the input itself: which files it holds, and which library carried the collectives."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Literal

from nccldoctor.events import (
    AbsenceReport,
    AbsenceWarning,
    CollectiveTimeout,
    CommInit,
    ExceptionRaised,
    NcclError,
    NcclWarn,
    Note,
    PeerTimeout,
    StoreError,
    WorkStatus,
)
from nccldoctor.identify.case import Case
from nccldoctor.model import SourceKind
from nccldoctor.prescribe.conditions.base import Context, OneOf, Who, listed, predicate
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet

SourceName = Annotated[str, OneOf(tuple(kind.value for kind in SourceKind))]

BACKENDS = {"horovod": "horovod", "hccl": "hccl", "oneccl": "ccl_error|", "jax": "jax", "gloo": "gloo", "nccl": "nccl"}
"""Libraries that carry collectives, each with what its lines hold, in lower case; the first that fits a line is meant."""

_WRITERS = (
    NcclWarn,
    NcclError,
    CommInit,
    CollectiveTimeout,
    WorkStatus,
    PeerTimeout,
    AbsenceReport,
    AbsenceWarning,
    ExceptionRaised,
    StoreError,
)
"""Events whose lines come from such a library, or quote it."""
_LINES = 2_000
"""Lines of each kind that are looked at: a library that is in use says so early."""


@predicate(weight=0.1)
def not_read(context: Context, *, source: tuple[SourceName, ...], of: Who = "anyone") -> Answer:
    """The input holds no file of these kinds for the host of such a rank. For *anyone* that is every host of the job.
    A step with this condition asks for nothing that was read.
    """
    survey = context.survey
    asked = f"the input holds no {listed(source)} of {'every host' if of == 'anyone' else context.in_words(of)}"
    files = [file for file in survey.case.sources if file.kind.value in source]
    ranks = survey.case.rank_host if of == "anyone" else context.ranks_of(of)
    hosts = set(survey.hosts_of(ranks))
    if not files:
        return Met(asked, f"no {listed(source)} in the input")
    if (missing := hosts - {file.host for file in files}) and all(file.host for file in files):
        return Met(asked, f"none of {listed(sorted(missing))}")
    return Unmet(asked, f"{files[0].path} is one")


@predicate(weight=0.1)
def log_read(context: Context, *, is_: Literal["yes", "no"], of: Who = "culprit") -> Answer:
    """A log of such a rank was read, or none was. A step with this condition fits what the reader can open."""
    asked = f"a log of {context.in_words(of)} {'was' if is_ == 'yes' else 'was not'} read"
    ranks = context.ranks_of(of)
    is_there = bool(ranks & context.survey.facts.liveness.logged) or not ranks
    says = "it was read" if is_there else f"no line of {context.in_words(of)} in the input"
    return (Met if is_there == (is_ == "yes") else Unmet)(asked, says)


@predicate(weight=0.1)
def backend(context: Context, *, is_: tuple[Annotated[str, OneOf(tuple(BACKENDS))], ...]) -> Answer:
    """One of these libraries carried the collectives, by flight recorder dumps and the lines of the libraries."""
    asked = f"the job uses {listed(is_)}"
    seen = backends_of(context.survey.case)
    if not seen:
        return NotCheckable(asked, "a dump or a line of the library that carries the collectives")
    return (Met if seen & set(is_) else Unmet)(asked, f"it uses {', '.join(sorted(seen))}")


def backends_of(case: Case) -> frozenset[str]:
    """The libraries of :data:`BACKENDS` that the input shows at work, and others that recorded calls name.

    Empty where none is shown. Where only the build of PyTorch tells, it is gloo.
    """
    seen = {dump.backend.lower() for dump in case.dumps if dump.entries and dump.backend}
    for kind in _WRITERS:
        for event in islice(case.of(kind), _LINES):
            text = f"{event.text} {getattr(event, 'by', '')}|".lower().replace(" xla|", " jax")
            seen |= {next((name for name, sign in BACKENDS.items() if sign in text), "")}
    for note in islice(case.of(Note), _LINES):
        if note.what == "backend":
            seen |= {name for name in BACKENDS if name in note.detail}
    is_without_gpus = (case.torch or "").endswith("+cpu")  # such a build of PyTorch has no NCCL
    return frozenset(seen - {""} or ({"gloo"} if is_without_gpus else ()))
