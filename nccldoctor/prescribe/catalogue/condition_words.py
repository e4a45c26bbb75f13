"""Conditions of remedies in words: what each predicate asks where nothing is known yet."""

from __future__ import annotations

from functools import cache

from nccldoctor.align.facts import align
from nccldoctor.identify.identify import identify
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Evidence, Finding
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.prescribe.catalogue.remedy import Clause
from nccldoctor.prescribe.conditions.base import Context, ask
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.words.sentences import sentence


def condition_sentence(clause: Clause) -> str:
    """``A stack of the rank at fault shows _next_data or get_data.``"""
    return sentence(ask(_nothing_known(), clause.name, clause.arguments).asked)


@cache
def _nothing_known() -> Context:
    """A finding about an empty input: predicates then speak of *the rank at fault*."""
    nothing = Finding(
        id="F0",
        cause=CauseClass.UNDETERMINED,
        confidence_in=ConfidenceIn.same(Confidence.CANNOT_TELL),
        headline="the input is empty",
        evidence=(Evidence(None, "", "the input is empty"),),
    )
    return Context(nothing, Survey(align(identify(Ingested((), Batch.empty(), ())))))
