"""Looks up what a name means: a remedy, a cause class, a kind of event, a setting."""

from __future__ import annotations

import difflib
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from nccldoctor.diagnose.phrases.say import compiled, outline, read_groups
from nccldoctor.diagnose.rules import load
from nccldoctor.diagnose.why import cause_table
from nccldoctor.events import KINDS, Event
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.words.lists import or_list
from nccldoctor.words.sentences import capitalized

NEAR = 0.75
"""How close a spelling must be to be suggested (0 to 1)."""


class UnknownNameError(NccldoctorError):
    """A name that nothing has."""


def explanation(name: str) -> str:
    """All that is known under ``name``, as CommonMark ending in a newline.

    Raises :class:`UnknownNameError`, with the nearest names, where nothing is.
    """
    parts = [
        text for look in (_explain_cause, _explain_kind, _explain_remedy, _explain_setting) if (text := look(name))
    ]
    if not parts:
        raise UnknownNameError(f"unknown name {name!r}", _suggestion(name))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def remedy(name: str) -> str:
    """One remedy in full, as CommonMark. Raises :class:`UnknownNameError` where there is none of that name."""
    text = _explain_remedy(name)
    if not text:
        raise UnknownNameError(f"unknown remedy {name!r}", _suggestion(name))
    return text


def _explain_cause(name: str) -> str:
    if name not in set(CauseClass):
        return ""
    cause = CauseClass(name)
    about = f"A class of the family *{cause.family}*."
    parts = (f"# {cause}", *_explanations(cause), about, *_cause_row(cause), *_doubts_about(cause))
    return "\n\n".join(parts) + "\n"


def _explanations(cause: CauseClass) -> Iterator[str]:
    """What the rules of a class say of it, the one of its own name first.

    A module that serves several classes describes none of them.
    """
    classes: dict[str, set[CauseClass]] = {}
    for rule in load():
        classes.setdefault(rule.explanation, set()).add(rule.cause)
    own = sorted(
        (rule for rule in load() if rule.cause is cause),
        key=lambda rule: not rule.judge.__module__.endswith(f".{cause.value.replace('-', '_')}"),
    )
    texts = list(dict.fromkeys(rule.explanation for rule in own))
    told = [text for text in texts if classes[text] == {cause}] or texts
    yield _with_paragraphs(told[0])
    if told[1:]:
        yield "## It is also known in other ways"
        yield from map(_with_paragraphs, told[1:])


def _with_paragraphs(text: str) -> str:
    """A docstring of a rule as CommonMark: each of its labels begins a paragraph."""
    return re.sub(r"\n(?=[A-Z][a-z]+(?: [a-z]+){1,4}: )", "\n\n", text.replace("``", "`"))


OBSERVATIONS: dict[str, str] = tomllib.loads(Path(__file__).with_name("observations.toml").read_text(encoding="utf-8"))
"""Observations of a rank in words, as the table of causes names them."""


def _cause_row(cause: CauseClass) -> Iterator[str]:
    """What speaks for a class and against it, the strongest first, and what it may be instead."""
    row = cause_table()[cause]
    weights = sorted(row.weights.items(), key=lambda item: -abs(item[1]))
    for title, sign in (("What speaks for it, the strongest first", 1), ("What speaks against it", -1)):
        shown = [f"- {capitalized(OBSERVATIONS[name])}." for name, weight in weights if weight * sign > 0]
        if shown:
            yield "\n".join((f"## {title}", "", *shown))
    if row.siblings:
        others = (f"- `{other}`. {text.format(ranks='the rank').rstrip('.')}." for other, text in row.siblings.items())
        yield "\n".join(("## What else it could be", "", *others))


def _doubts_about(cause: CauseClass) -> Iterator[str]:
    """The doubts about classes of its family: the most that each leaves, and why."""
    rows = []
    for ranks, because, says in read_groups("doubts").get(cause.family, {}).values():
        levels = [" or ".join(level for level in Confidence if level in text) for text in (ranks, because)]
        rows.append(f"- Ranks {levels[0]}, class {levels[1]} at most: {outline(compiled(says))}")
    if rows:
        yield "\n".join(("## Why we may be less sure", "", *rows))


def _explain_kind(name: str) -> str:
    event = KINDS.get(name)
    if event is None:
        return ""
    extra = [f"`{name}`" for name in event.__struct_fields__ if name not in Event.__struct_fields__]
    about = (inspect.getdoc(event) or "").replace("``", "`")
    return (
        f"# {name}\n\nKind of event.\n\n{about}\n\nFields: {', '.join(extra) or 'only those that all events have'}.\n"
    )


def _explain_remedy(name: str) -> str:
    from nccldoctor.prescribe.catalogue.overlays import in_use
    from nccldoctor.prescribe.catalogue.pages import remedy_page

    entry = in_use().catalogue.get(name)
    return remedy_page(entry) if entry else ""


def _explain_setting(name: str) -> str:
    from nccldoctor.prescribe.setting_table import describe_setting

    return describe_setting(name) or ""


SHARED = 4
"""Letters that two words must share at their start for one to be suggested for the other."""


def known_names() -> list[str]:
    """All names that :func:`explanation` knows."""
    from nccldoctor.prescribe.catalogue.overlays import in_use
    from nccldoctor.prescribe.setting_table import known

    return [*CauseClass, *KINDS, *(entry.remedy.id for entry in in_use().catalogue.entries), *known()]


def _suggestion(name: str) -> str:
    names = known_names()
    by_fold = {each.casefold(): each for each in names}
    near = [by_fold[each] for each in difflib.get_close_matches(name.casefold(), by_fold, 3, NEAR)]
    words = [word for word in name.casefold().split("-") if len(word) >= SHARED]
    near += [each for each in names if any(word in each.casefold().split("-") for word in words) and each not in near]
    if near:
        return f"did you mean {or_list(near[:3])}?"
    classes = ", ".join(CauseClass)
    return f"classes: {classes}. nccldoctor catalogue list shows the remedies"
