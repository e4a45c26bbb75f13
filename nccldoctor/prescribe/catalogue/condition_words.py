"""Conditions of remedies in words: the first sentence of the predicate, with whom and what it asks about."""

from __future__ import annotations

from typing import Any

from nccldoctor.prescribe.catalogue.remedy import Clause
from nccldoctor.prescribe.conditions import PREDICATES
from nccldoctor.prescribe.conditions.base import catalogue_name
from nccldoctor.words.lists import or_list
from nccldoctor.words.sentences import capitalized

_WHO = {
    "culprit": "the culprit",
    "suspects": "a suspect",
    "victims": "a waiting rank",
    "culprit-host": "the culprit's host",
    "anyone": "any rank",
    "named-culprit": "the named culprit",
    "possible-culprit": "a possible culprit",
}


def condition_sentence(clause: Clause) -> str:
    """``A stack of the culprit shows one of these functions: next_data or get_data.``"""
    said = PREDICATES[clause.name].doc.replace("``", "").partition(". ")[0].rstrip(".")
    who = _WHO.get(str(clause.arguments.get("of", "culprit")), "the culprit")
    for noun in ("such a rank", "such a host or rank"):
        said = said.replace(noun, who).replace(capitalized(noun), capitalized(who))
    given = {name: value for name, value in clause.arguments.items() if not (name == "of" and value in _WHO)}
    values = [
        _value(value) if len(given) == 1 else f"{catalogue_name(n)} {_value(value)}" for n, value in given.items()
    ]
    return f"{said}{' - ' if ': ' in said and values else ': ' if values else ''}{'; '.join(values)}."


def _value(value: Any) -> str:
    return or_list([str(item) for item in value]) if isinstance(value, tuple) else str(value)
