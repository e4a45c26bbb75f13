"""Sentences by their keys: ``say("inside.queued-but-unfinished", rank=2, queued=27, number=6)``.

A key is the name of a file and of a row in it. docs/voice.md tells how a row is written. Files are read at first use.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sized
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, Union

from msgspec import Struct

from nccldoctor.diagnose.phrases.headline import Basis, Headline, whole
from nccldoctor.model import Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.lists import and_list, or_list
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.sentences import capitalized
from nccldoctor.words.times import duration

_MARKS = re.compile(r"([\[\]|]|\{[^{}]*\})")


class Field(Struct, frozen=True):
    """A place to fill in: ``{ranks}``, ``{Ranks}``, ``{steps:,}``, ``{is/are:ranks}``; ``{?late}`` and ``{?count=1}`` only ask."""

    name: str
    spec: str = ""
    forms: tuple[str, ...] = ()
    is_capital: bool = False
    is_question: bool = False

    def is_there(self, value: Any) -> bool:
        """True where the value is there, or is the one that is asked for; 0 is there."""
        if self.is_question and self.spec:
            return str(value) == self.spec
        return bool(self.forms or value or (value == 0 and value is not False))

    def value_in_words(self, value: Any) -> str:
        """The value in words."""
        if self.is_question:
            return ""
        if self.forms:
            number = len(value) if isinstance(value, Sized) else value
            return self.forms[value if isinstance(value, bool) else number != 1]
        text = _worded(value, self.spec)
        return capitalized(text) if self.is_capital else text


Text: TypeAlias = tuple[Union[str, Field, "Choice"], ...]


class Choice(Struct, frozen=True):
    """The first of several texts whose values are all there: ``[ on rank {rank}]``, ``[Rank {rank}|A process]``."""

    texts: tuple[Text, ...]


def say(key: str, /, **values: object) -> str:
    """The sentence of a key with its values. Raises KeyError where there is no such row, or a value was not given."""
    return fill_in(_read_row(key)[""], values)


def headline_of(key: str, /, **values: object) -> Headline:
    """The headline of a key with its values; a row of one text holds at every confidence."""
    row = _read_row(key)
    if "" in row:
        return whole(fill_in(row[""], values))
    texts = {part: fill_in(text, values) for part, text in row.items()}
    basis = Basis(texts.pop("basis", Basis.RANKS_AND_CLASS))
    briefs = (texts.pop("brief"),) if "brief" in texts else ()
    return Headline(**texts, basis=basis, briefs=briefs)


def doubt_of(key: str, /, **values: object) -> Doubt:
    """The doubt of a row of ``doubts.toml`` with its values; what it leaves of a confidence may depend on them.

    Example: *a row of its own in the launcher's table is missing* leaves the ranks at high where no other rank is left.
    """
    ranks, cause, says = (fill_in(text, values) for text in _read_row(f"doubts.{key}").values())
    return Doubt(says, Confidence(ranks), Confidence(cause), key)


@cache
def _read_row(key: str) -> Mapping[str, Text]:
    """The parts of a row, compiled: those of a headline, or one without a name."""
    book, _, name = key.partition(".")
    row = read_book(book)[name]
    if isinstance(row, str):
        parts = {"": row}
    elif isinstance(row, list):
        parts = dict(zip(("ranks", "cause", "says"), row, strict=True))
    else:
        parts = {"who": "{who}", "did": "", **row}
    return {part: compiled(text) for part, text in parts.items()}


@cache
def read_book(book: str) -> dict[str, Any]:
    """The rows of a file by name, without the groups that they stand in."""
    groups = tomllib.loads(Path(__file__).with_name(f"{book}.toml").read_text(encoding="utf-8"))
    return {name: row for group in groups.values() for name, row in group.items()}


def compiled(text: str) -> Text:
    """The parts of a text. Raises ValueError where a bracket has no other end."""
    marks = iter(_MARKS.split(text))
    texts, end = _parsed(marks)
    if end or len(texts) > 1:
        raise ValueError(f"a {end or '|'} without its [ in {text!r}")
    return texts[0]


def _parsed(marks: Iterator[str]) -> tuple[tuple[Text, ...], str]:
    """The alternatives up to the end of a bracket, and that end."""
    texts: list[list[str | Field | Choice]] = [[]]
    for mark in marks:
        if mark == "]":
            return tuple(map(tuple, texts)), mark
        if mark == "[":
            inner, end = _parsed(marks)
            if not end:
                raise ValueError("a [ without its ]")
            texts[-1].append(Choice(inner))
        elif mark == "|":
            texts.append([])
        elif mark:
            texts[-1].append(_field(mark[1:-1]) if mark.startswith("{") else mark)
    return tuple(map(tuple, texts)), ""


def _field(written: str) -> Field:
    name, _, spec = written.partition(":")
    if "/" in name:
        return Field(spec, forms=tuple(name.split("/")))
    if name.startswith("?"):
        name, _, wanted = name[1:].partition("=")
        return Field(name, wanted, is_question=True)
    return Field(name[:1].lower() + name[1:], spec, is_capital=name[:1].isupper())


def fill_in(text: Text, values: Mapping[str, object]) -> str:
    """The text with its values. Raises KeyError where one is not given that stands outside brackets."""
    return "".join(_part(part, values) for part in text)


def _part(part: str | Field | Choice, values: Mapping[str, object]) -> str:
    if isinstance(part, Field):
        return part.value_in_words(values[part.name])
    if isinstance(part, Choice):
        asked = ((text, (field for field in text if isinstance(field, Field))) for text in part.texts)
        whole = (text for text, fields in asked if all(each.is_there(values.get(each.name)) for each in fields))
        return next((fill_in(text, values) for text in whole), "")
    return part


def _worded(value: Any, spec: str) -> str:
    if isinstance(value, Ranks):
        return str(value) if spec == "numbers" else str(len(value)) if spec == "count" else ranks_phrase(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(value) if spec == "," else or_list(value) if spec == "or" else and_list(value)
    return duration(value * 1000) if spec == "duration" else format(value, spec)
