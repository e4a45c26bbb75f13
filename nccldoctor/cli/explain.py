"""Looks up what people type: a message of a log, an Xid, a setting, a class, a remedy, and more."""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.diagnose.rules import load
from nccldoctor.diagnose.why import cause_table
from nccldoctor.events import KINDS, Event
from nccldoctor.model import CauseClass, Family
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.parsers.kernel.driver import describe_xid, weight
from nccldoctor.prescribe.catalogue.load import Entry
from nccldoctor.prescribe.catalogue.overlays import in_use
from nccldoctor.prescribe.catalogue.pages import advice_lines, remedy_page
from nccldoctor.prescribe.setting_table import known
from nccldoctor.prescribe.settings import describe_setting
from nccldoctor.words.lists import or_list
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import capitalized

DOCS = "https://github.com/nccldoctor/nccldoctor/blob/main/docs/"
NEAR = 0.75
"""How close a spelling must be to be suggested (0 to 1)."""
MOST = 8
"""Remedies listed at most."""


class UnknownNameError(NccldoctorError):
    """A name that nothing has."""


class Answer(Struct, frozen=True):
    """A row of ``explained.toml``: what a thing means, what to do first, and where to read on.

    ``names`` are other names of it, ``holds`` parts of messages that are about it.
    """

    means: str
    first: tuple[str, ...]
    read: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    title: str = ""


@cache
def answers() -> dict[str, Answer]:
    """The rows of ``explained.toml``."""
    text = Path(__file__).with_name("explained.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Answer])


def explanation(name: str) -> str:
    """All that is known about ``name``, as CommonMark ending in a newline.

    It is looked up as a name, else as a message of a log, else in the remedies.
    Raises :class:`UnknownNameError`, with the nearest names, where nothing is.
    """
    named = (_explain_answer, _explain_kind, _explain_remedy, _explain_setting, _explain_xid)
    for looks in (named, (_explain_message,), (_explain_line,), (_found_remedies,)):
        if parts := [text for look in looks if (text := look(name))]:
            return "\n".join(part.rstrip("\n") + "\n" for part in parts)
    raise UnknownNameError(f"nothing is known about {line(name, 80)!r}", _suggestion(name))


def remedy(name: str) -> str:
    """One remedy in full, as CommonMark. Raises :class:`UnknownNameError` where there is none of that name."""
    entry = in_use().catalogue.get(name)
    if entry is None:
        raise UnknownNameError(f"unknown remedy {name!r}", _suggestion(name))
    return remedy_page(entry)


def _explain_remedy(name: str) -> str:
    entry = in_use().catalogue.get(name)
    more = f"`nccldoctor catalogue show {name}` says when it is offered, and names the sources."
    return "\n".join((*advice_lines(entry), more, "")) if entry else ""


def _words(text: str) -> str:
    """``" xid 79 "`` of ``xid-79``: lower case, one space for all that is no letter and no digit."""
    kept = "".join(character if character.isalnum() else " " for character in text.casefold())
    return f" {' '.join(kept.split())} "


def _page(title: str, answer: Answer, *more: str) -> str:
    """A page: the meaning, what to do first, and where to read on."""
    parts = [f"# {title}", answer.means, *more]
    parts += ["## What to do first", "\n".join(f"{n}. {text}" for n, text in enumerate(answer.first, 1))]
    pages = [f"- <{DOCS}{page}>" for page in answer.read if page.endswith(".md")]
    if read := [*_listed(map(in_use().catalogue.get, answer.read)), *pages]:
        parts += ["## Read on", "\n".join(read)]
    return "\n\n".join(parts) + "\n"


def _listed(entries: Iterator[Entry | None]) -> list[str]:
    return [f"- `nccldoctor explain {entry.remedy.id}`: {entry.remedy.title}" for entry in entries if entry]


def _read_on(entries: Iterator[Entry]) -> list[str]:
    read = _listed(entries)[:MOST]
    return ["\n".join(("## Read on", "", *read))] if read else []


def _explain_answer(name: str) -> str:
    asked = _words(name).replace(" ", "")
    for key, answer in answers().items():
        if asked in {_words(each).replace(" ", "") for each in (key, *answer.names, *answer.holds)}:
            return _page(answer.title or key, answer, *_more_of_class(key))
    return ""


def _more_of_class(key: str) -> Iterator[str]:
    """What a class could be instead and what would tell, and what rules of installed packages say of it."""
    siblings = cause_table()[CauseClass(key)].siblings if key in set(CauseClass) else {}
    if siblings:
        others = (f"- `{other}`: {text.format(ranks='the rank')}" for other, text in siblings.items())
        yield "\n".join(("## What else it could be", "", *others))
    own = [rule.judge for rule in load() if rule.cause == key and not rule.judge.__module__.startswith("nccldoctor.")]
    yield from (f"## {judge.__module__} adds\n\n{inspect.getdoc(inspect.getmodule(judge)) or ''}" for judge in own)


def _explain_message(text: str) -> str:
    """The answer of which a text holds the longest part of a message."""
    held = ((part, key) for key, answer in answers().items() for part in answer.holds if _words(part) in _words(text))
    _, key = max(held, key=lambda found: len(found[0]), default=("", ""))
    return _page(answers()[key].title or key, answers()[key]) if key else ""


def _explain_xid(name: str) -> str:
    """``79`` or ``Xid 79``: the meaning, what it weighs, and the remedies that ask for it."""
    number = _words(name).replace(" xid", "").strip()
    meaning = describe_xid(int(number), "") if number.isdecimal() and len(number) < 5 else ""
    if not meaning:
        return ""
    kind = answers()[f"xid-{weight(int(number), '')}"]
    asking = (entry.remedy.id for entry in _asking("xid", int(number)))
    answer = Answer(f"{capitalized(meaning)}. {kind.means}", kind.first, (*asking, *kind.read))
    return _page(f"Xid {number}", answer)


def _asking(name: str, value: object) -> Iterator[Entry]:
    """The remedies of which a condition asks for this Xid or kind of event."""
    for entry in in_use().catalogue.entries:
        clauses = (*entry.remedy.clauses("all"), *entry.remedy.clauses("any"))
        if any(value in clause.arguments.get(name, ()) for clause in clauses):
            yield entry


def _explain_line(text: str) -> str:
    """What an analysis says of this line, bare or behind the head of PyTorch; "" where it reads neither."""
    from nccldoctor.pipeline import analyze

    for head in ("", "[rank0]:[I1120 11:32:50 ProcessGroupNCCL.cpp:632] [PG 0 (default_pg) Rank 0] "):
        with TemporaryDirectory() as folder:
            Path(folder, "message.log").write_text(f"{head}{text}\n", encoding="utf-8", errors="replace")
            incident = analyze([folder])
        verdict = incident.unquoted.verdict
        if verdict.family is not Family.UNDETERMINED:
            own = tuple(item.id for item in incident.unquoted.remedies[:MOST])
            answer = answers()[verdict.cause]
            return _page(f"As a line of a log: {verdict.headline}", replace(answer, read=own or answer.read))
        if events := sorted(incident.case.events, key=lambda event: not event.is_trouble):
            about = (inspect.getdoc(type(events[0])) or "").partition("\n\n")[0]
            return _kind_page(f"As a line of a log: {line(events[0].phrase(), 120)}", about, events[0].kind)
    return ""


def _found_remedies(text: str) -> str:
    found = _listed(iter(in_use().catalogue.search(text)))[:MOST] if text.strip() else []
    return "\n".join((f"# Remedies that mention {line(text, 80)}", "", *found)) + "\n" if found else ""


def _explain_kind(name: str) -> str:
    if name not in KINDS:
        return ""
    own = [f"`{field}`" for field in KINDS[name].__struct_fields__ if field not in Event.__struct_fields__]
    fields = f"Fields: {', '.join(own) or 'only those that all events have'}."
    return _kind_page(name, f"Kind of event.\n\n{inspect.getdoc(KINDS[name])}\n\n{fields}", name)


def _kind_page(title: str, about: str, kind: str) -> str:
    """What events of a kind mean, and the remedies that ask for them."""
    return "\n\n".join((f"# {title}", about.replace("``", "`"), *_read_on(_asking("kind", kind)))) + "\n"


def _explain_setting(name: str) -> str:
    told = describe_setting(name.upper())
    return "\n".join((told, *_read_on(iter(in_use().catalogue.search(name))))) if told else ""


def known_names() -> list[str]:
    """All names that :func:`explanation` knows."""
    return [*answers(), *KINDS, *(entry.remedy.id for entry in in_use().catalogue.entries), *known()]


def _suggestion(name: str) -> str:
    names = known_names()
    by_fold = {each.casefold(): each for each in names}
    near = [by_fold[each] for each in difflib.get_close_matches(name.casefold(), by_fold, 3, NEAR)]
    words = [word for word in _words(name).split() if len(word) > 3] if name.count(" ") < 2 else []
    near += [each for each in names if any(word in each.casefold().split("-") for word in words) and each not in near]
    if near:
        return f"did you mean {or_list(near[:3])}?"
    return "give a whole line of a log, an Xid, a setting or a class; nccldoctor catalogue list shows the remedies"
