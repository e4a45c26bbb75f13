"""Reads remedy files, the built-in ones and those laid over them: all mistakes at once, each with file and line.

A later file with the id of an earlier one changes the fields that it names and keeps the others; ``disabled = true``
takes the remedy out.
"""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.model.errors import CatalogueError
from nccldoctor.prescribe.catalogue.remedy import TOPICS, Remedy, remedy_of

BUILT_IN = Path(__file__).parent
LARGEST = 256 * 1024
"""Bytes of a remedy file; a larger one is refused unread."""
MOST_FILES = 2000
"""Files of one folder that are read; more is no catalogue."""
BUILT_IN_NAME = "built-in"
_MISTAKES_SHOWN = 40

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\- ]{1,120}?)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_\-]{1,60})\s*=")
_INLINE = re.compile(r"[{,]\s*([A-Za-z0-9_\-]{1,60})\s*=")


class Entry(Struct, frozen=True):
    """A remedy with its topic (its folder) and catalogue; ``origin`` is ``ours, over built-in`` where ours changes another's remedy."""

    remedy: Remedy
    topic: str
    origin: str = BUILT_IN_NAME

    @property
    def is_discouraged(self) -> bool:
        """True for popular advice that does nothing or harms: it is no remedy, and answered where it is seen."""
        return self.topic == "folklore"


class Catalogue(Struct, frozen=True):
    """All remedies, ordered by topic and id."""

    entries: tuple[Entry, ...]

    def get(self, id_: str) -> Entry | None:
        """The entry with this id, None where there is none."""
        return next((entry for entry in self.entries if entry.remedy.id == id_), None)

    def search(self, text: str) -> tuple[Entry, ...]:
        """The entries whose words, steps included, hold every word of ``text``, in any case."""
        words = set(text.lower().split())
        texts = (_words_of(entry).lower() for entry in self.entries)
        return tuple(e for e, known in zip(self.entries, texts, strict=True) if all(word in known for word in words))


def _words_of(entry: Entry) -> str:
    """Everything that a page of the remedy says, apart from its sources."""
    remedy = entry.remedy
    steps = (*remedy.confirm, *remedy.fix, *remedy.prevent)
    told = [text for step in steps for text in (step.text, step.command, step.expect) if text]
    told += [text for warning in remedy.avoid for text in (warning.what, warning.why)]
    return " ".join((remedy.id, entry.topic, remedy.title, remedy.summary, *told))


class Folder(Struct, frozen=True):
    """A folder of remedies, ``<topic>/<id>.toml``, and the name that reports give it."""

    name: str
    path: Path


class Collected(Struct, frozen=True):
    """A catalogue without the files that have mistakes, and every mistake: ``folder/topic/id.toml:line: what``."""

    catalogue: Catalogue
    mistakes: tuple[str, ...] = ()


def load_catalogue(folders: Sequence[Path] = ()) -> Catalogue:
    """The built-in remedies with those of ``folders`` over them; raises :class:`CatalogueError` with all mistakes of all files."""
    collected = collect(*(Folder(Path(folder).name, Path(folder)) for folder in folders))
    if mistakes := collected.mistakes:
        more = [f"and {len(mistakes) - _MISTAKES_SHOWN} more"] if len(mistakes) > _MISTAKES_SHOWN else []
        listed = "\n".join((*mistakes[:_MISTAKES_SHOWN], *more))
        raise CatalogueError(f"the catalogue has mistakes:\n{listed}", hint="docs/catalogue.md describes the fields")
    return collected.catalogue


@cache
def collect(*folders: Folder) -> Collected:
    """As :func:`load_catalogue`, but a file with a mistake is left out, what it would change stays, and nothing is raised."""
    layers: dict[str, _Layers] = {}
    mistakes: list[str] = []
    for position, folder in enumerate((Folder(BUILT_IN_NAME, BUILT_IN), *folders)):
        for path in _remedy_files(folder, mistakes):
            wrong = _lay(path, folder, layers, released=position == 0)
            mistakes += [f"{one_line(folder.name)}/{text}" for text in wrong]
    entries = [layer.entry for layer in layers.values() if layer.entry is not None]
    entries.sort(key=lambda entry: (entry.topic, entry.remedy.id))
    return Collected(Catalogue(tuple(entries)), tuple(mistakes))


class _Layers(Struct, frozen=True):
    """The files of one id so far, laid over each other; no entry where the last one disabled it. ``whose``: who wrote a block."""

    data: dict[str, Any]
    entry: Entry | None
    whose: dict[str, str]


def _remedy_files(folder: Folder, mistakes: list[str]) -> list[Path]:
    """The remedy files of a folder by name, at most :data:`MOST_FILES`."""
    if not folder.path.is_dir():
        mistakes.append(f"no such folder: {one_line(str(folder.path))}")
        return []
    try:
        paths = sorted(folder.path.glob("*/*.toml"))
        flat = sorted(path.name for path in folder.path.glob("*.toml"))
    except OSError as error:
        mistakes.append(f"{one_line(folder.name)}: {error.strerror}")
        return []
    if flat:
        more = f" and {len(flat) - 1} more" if len(flat) > 1 else ""
        mistakes.append(
            f"{one_line(flat[0])}{more}: move each remedy into the folder of its topic, such as lateness/{one_line(flat[0])}"
        )
    elif not paths:
        mistakes.append(f"{one_line(folder.name)}: no remedy files (<topic>/<id>.toml)")
    if len(paths) > MOST_FILES:
        mistakes.append(f"{one_line(folder.name)}: more than {MOST_FILES} files; the rest were skipped")
    return paths[:MOST_FILES]


def _lay(path: Path, folder: Folder, layers: dict[str, _Layers], *, released: bool) -> list[str]:
    """Lay one file over what is known of its id; returns its mistakes, and changes nothing where there is one."""
    name, topic = one_line(path.relative_to(folder.path).as_posix()), path.parent.name
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise ValueError("not a regular file")  # a pipe is never opened
        if state.st_size > LARGEST:
            raise ValueError(f"larger than {LARGEST} bytes")
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except RecursionError:
        return [f"{name}:1: nested too deeply"]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        line = re.search(r"at line (\d+)", str(error))
        return [f"{name}:{line.group(1) if line else 1}: {one_line(str(reason))}"]
    before = layers.get(path.stem)
    merged, disabled = {**(before.data if before else {}), **data}, data.get("disabled", False)
    merged.pop("disabled", None)
    mistakes = list(_wrong_place(data, path, topic, text, name))
    if disabled is not True and disabled is not False:
        mistakes.append(f"{name}:{line_of(text, ('disabled',))}: disabled must be true or false")
    remedy, refused = (None, []) if disabled is True else _read_remedy(merged, text, name, released=released)
    mistakes += refused
    if not mistakes:
        over = f", over {before.entry.origin}" if before and before.entry and before.entry.origin != folder.name else ""
        whose = dict(before.whose if before else {})
        whose |= {block: folder.name for block in ("confirm", "fix", "prevent") if block in data and not released}
        # a mark on each step that came from another catalogue: we did not choose its commands
        marked = {
            block: tuple(
                replace(step, text=f"{step.text or 'Run this'} (from {one_line(name)}, not from nccldoctor)")
                for step in getattr(remedy, block)
            )
            for block, name in whose.items()
        }
        entry = Entry(replace(remedy, **marked), topic, folder.name + over) if remedy else None
        layers[path.stem] = _Layers(merged, entry, whose)
    return mistakes


def _read_remedy(data: dict[str, Any], text: str, name: str, *, released: bool) -> tuple[Remedy | None, list[str]]:
    """A remedy, or the mistakes in its fields. Files of ours are looked at closely where they do not fit, and by the tests."""
    if not released and (mistakes := _refused(data, text, name)):
        return None, mistakes
    try:
        return remedy_of(data), []
    except (KeyError, TypeError, ValueError, AttributeError):
        return None, _refused(data, text, name) or [f"{name}:1: not a remedy file"]


def _refused(data: dict[str, Any], text: str, name: str) -> list[str]:
    """All mistakes of a remedy by the schema, each with its line."""
    from nccldoctor.prescribe.catalogue.schema import mistakes_of

    return [
        f"{name}:{line_of(text, at)}: {one_line('.'.join(map(str, at)))}: {one_line(what)}"
        for at, what in mistakes_of(data)
    ]


def _wrong_place(data: dict[str, Any], path: Path, topic: str, text: str, name: str) -> Iterator[str]:
    """The file must be called by its id, in the folder of a topic."""
    if data.get("id") != path.stem:
        given = one_line(repr(data.get("id")))
        yield f"{name}:{line_of(text, ('id',))}: id is {given}, but the file is named {one_line(repr(path.stem))}"
    if topic not in TOPICS:
        yield f"{name}:1: unknown topic {one_line(repr(topic))}; known are {', '.join(TOPICS)}"


def one_line(text: str) -> str:
    """A name or message from a stranger's folder on one line, cut, without what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text[:300])


def line_of(text: str, loc: Sequence[Any]) -> int:
    """The line (from 1) of the value at ``loc``: that of its key, else that of the table around it.

    tomllib tells no places; a remedy file is plain enough to find them again by headers and keys.
    """
    best, depth = 1, 0
    for number, path in _keys(text):
        common = sum(1 for _ in takewhile(lambda pair: str(pair[0]) == pair[1], zip(loc, path, strict=False)))
        if common == len(path) and common > depth:
            best, depth = number, common
    return best


def _keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every header and key of a TOML text with its line and its path, array tables counted from 0."""
    table: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            parts = header.group(2).split(".")
            if header.group(1) == "[[":
                index = counts.get(header.group(2), -1) + 1
                counts[header.group(2)] = index
                parts = [*parts, str(index)]
            table = tuple(parts)
            yield number, table
        elif key:
            yield number, (*table, key.group(1))
            for inner in _INLINE.findall(line[key.end() :]):
                yield number, (*table, key.group(1), inner)
