"""Kinds of damage: each takes the files of a job and gives those that somebody else gets to see."""

from __future__ import annotations

import io
import json
import pickle
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

Files = dict[str, bytes]
"""The files of a job by path."""

Damage = Callable[[random.Random, Files], Files]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of damage: its name, the family that the report counts it under, what it does in a sentence, and how."""

    name: str
    family: str
    about: str
    damage: Damage


KINDS: dict[str, Kind] = {}
"""All kinds by name."""


class NotApplicable(Exception):
    """A job has nothing that this kind could damage."""


def _register(family: str, name: str, about: str | None, damage: Damage) -> None:
    assert about, f"{name} says what it does"
    assert name not in KINDS, name
    KINDS[name] = Kind(name, family, about.split("\n")[0].rstrip("."), damage)


def _named(work: Callable[..., object]) -> str:
    return work.__name__.strip("_").replace("_", "-")


def of_files(family: str) -> Callable[[Damage], Damage]:
    """Registers what acts on all files of a job."""

    def add(work: Damage) -> Damage:
        _register(family, _named(work), work.__doc__, work)
        return work

    return add


Rewrite = Callable[[random.Random, bytes], bytes]


def of_texts(family: str, *, one_too: bool = False) -> Callable[[Rewrite], Rewrite]:
    """Registers what acts on the bytes of every text; with ``one_too`` a second kind that damages one text of them."""
    return _of_bytes(family, texts, ("one-text", "One text") if one_too else None)


def of_dump_bytes(family: str, *, one_too: bool = False) -> Callable[[Rewrite], Rewrite]:
    """Registers what acts on the bytes of every recorder dump, and of one of them."""
    return _of_bytes(family, dumps, ("one", "One dump") if one_too else None)


def _of_bytes(
    family: str, choose: Callable[[Files], list[str]], one: tuple[str, str] | None
) -> Callable[[Rewrite], Rewrite]:
    """Registers what acts on the chosen files. ``one`` begins name and sentence of a second kind that damages one of them."""

    def add(work: Rewrite) -> Rewrite:
        name, about = _named(work), work.__doc__ or ""
        _register(family, name, about, lambda rng, files: _rewritten(rng, files, choose(files), work))
        if one:
            _register(
                family,
                f"{one[0]}-{name}",
                f"{one[1]}: {about}",
                lambda rng, files: _rewritten(rng, files, one_of(rng, choose(files)), work),
            )
        return work

    return add


Change = Callable[[random.Random, Any], Any]


def of_dump_values(family: str, *, one_too: bool = False) -> Callable[[Change], Change]:
    """Registers what acts on the content of every recorder dump, and of one of them. Dumps keep their format."""

    def add(work: Change) -> Change:
        def rewrite(rng: random.Random, content: bytes) -> bytes:
            dump = load(content)
            if content[:1] == b"\x80":
                return pickle.dumps(work(rng, dump), protocol=2)
            return json.dumps(work(rng, dump)).encode()

        rewrite.__name__, rewrite.__doc__ = work.__name__, work.__doc__
        of_dump_bytes(family, one_too=one_too)(rewrite)
        return work

    return add


def _rewritten(rng: random.Random, files: Files, paths: Sequence[str], work: Rewrite) -> Files:
    """The files with some of them rewritten; those that the work cannot damage stay as they are."""
    out = dict(files)
    for path in paths:
        with suppress(NotApplicable):
            out[path] = work(rng, files[path])
    return out


def one_of(rng: random.Random, paths: Sequence[str]) -> list[str]:
    return [rng.choice(paths)] if paths else []


def without(files: Files, gone: Sequence[str]) -> Files:
    """The files but some."""
    return {path: content for path, content in files.items() if path not in gone}


class _PlainValues(pickle.Unpickler):
    """A dump holds plain values: nothing of it is imported."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"{module}.{name}")


def load(content: bytes) -> Any:
    """The content of a recorder dump, pickle or JSON. Raises :class:`NotApplicable` for one that the job left cut off."""
    try:
        return _PlainValues(io.BytesIO(content)).load() if content[:1] == b"\x80" else json.loads(content)
    except (pickle.UnpicklingError, ValueError, EOFError, KeyError, IndexError):
        raise NotApplicable from None


def is_dump(content: bytes) -> bool:
    if content[:1] == b"\x80":
        return True
    return content[:1] == b"{" and (b'"pg_config"' in content[:200_000] or b'"entries"' in content[:200_000])


def dumps(files: Files) -> list[str]:
    """The recorder dumps among the files."""
    return [path for path, content in sorted(files.items()) if is_dump(content)]


def texts(files: Files) -> list[str]:
    """The texts among the files."""
    return [
        path for path, content in sorted(files.items()) if content and not is_dump(content) and b"\0" not in content
    ]


def entries_of(dump: Any) -> list[dict[str, Any]]:
    """The recorded calls of a dump of either form."""
    found = dump if isinstance(dump, list) else dump.get("entries", [])
    return [entry for entry in found if isinstance(entry, dict)]


def with_entries(dump: Any, entries: list[Any]) -> Any:
    """A dump of either form with other recorded calls."""
    return entries if isinstance(dump, list) else {**dump, "entries": entries}
