"""Questions about the input itself: which files it holds, and which library carried the collectives."""

from __future__ import annotations

from typing import Annotated, Literal

from nccldoctor.model import SourceKind
from nccldoctor.prescribe.conditions.base import Context, OneOf, Who, listed, predicate
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet
from nccldoctor.questions.backends import BACKENDS

SourceName = Annotated[str, OneOf(tuple(kind.value for kind in SourceKind))]


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
    seen = context.survey.backends
    if not seen:
        return NotCheckable(asked, "a dump or a line of the library that carries the collectives")
    return (Met if seen & set(is_) else Unmet)(asked, f"it uses {', '.join(sorted(seen))}")
