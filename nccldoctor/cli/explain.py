"""Looks up what a name means: a remedy, a cause class, a kind of event, a setting."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import fields

from nccldoctor.diagnose.rules import load
from nccldoctor.diagnose.why import cause_table
from nccldoctor.events import KINDS, Event
from nccldoctor.model import CauseClass
from nccldoctor.model.errors import NccldoctorError


class UnknownNameError(NccldoctorError):
    """A name that nothing is called."""


def explanation(name: str) -> str:
    """All that is known under ``name``, as text ending in a newline.

    Raises :class:`UnknownNameError`, with the nearest names, where nothing is.
    """
    parts = [
        text for look in (_explain_cause, _explain_kind, _explain_remedy, _explain_setting) if (text := look(name))
    ]
    if not parts:
        raise UnknownNameError(f"nothing is called {name!r}", _suggestion(name))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def remedy(name: str) -> str:
    """One remedy in full. Raises :class:`UnknownNameError` where there is none of that name."""
    text = _explain_remedy(name)
    if not text:
        raise UnknownNameError(f"no remedy is called {name!r}", _suggestion(name))
    return text


def _explain_cause(name: str) -> str:
    if name not in set(CauseClass):
        return ""
    cause = CauseClass(name)
    explanations = dict.fromkeys(rule.explanation for rule in load() if rule.cause is cause)
    return "\n\n".join((f"{cause} (cause class, family {cause.family})", *explanations, _cause_row(cause))) + "\n"


def _cause_row(cause: CauseClass) -> str:
    """The class's row of the table of causes: the weights of observations, and what separates it from its siblings."""
    row = cause_table()[cause]
    weights = sorted(row.weights.items(), key=lambda item: -item[1])
    lines = ["Observations of the named rank that speak for it (+) and against it (-):"] if weights else []
    lines += [f"  {weight:+.1f}  {name}" for name, weight in weights]
    lines += [f"Instead it may be {other}; to separate the two: {text}." for other, text in row.siblings.items()]
    return "\n".join(lines)


def _explain_kind(name: str) -> str:
    event = KINDS.get(name)
    if event is None:
        return ""
    common = {field.name for field in fields(Event)}
    own = [field.name for field in fields(event) if field.name not in common]
    return f"{name} (kind of event)\n\n{inspect.getdoc(event)}\n\nFields: {', '.join(own) or 'none of its own'}.\n"


def _explain_remedy(name: str) -> str:
    from nccldoctor.prescribe.catalogue.overlays import in_use
    from nccldoctor.prescribe.catalogue.pages import remedy_page

    entry = in_use().catalogue.get(name)
    return remedy_page(entry) if entry else ""


def _explain_setting(name: str) -> str:
    from nccldoctor.prescribe.setting_table import describe_setting

    return describe_setting(name) or ""


def _suggestion(name: str) -> str:
    from nccldoctor.prescribe.catalogue.overlays import in_use
    from nccldoctor.prescribe.setting_table import known

    names = [*CauseClass, *KINDS, *(entry.remedy.id for entry in in_use().catalogue.entries), *known()]
    near = difflib.get_close_matches(name, names, 3, 0.5)
    return (
        f"did you mean {', '.join(near)}?"
        if near
        else "nccldoctor catalogue list shows the remedies; causes, kinds of event and settings have names too"
    )
