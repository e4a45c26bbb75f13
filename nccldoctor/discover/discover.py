"""Lists the inputs: files, folders, patterns, archives, standard input and URLs, with hints from their names.

Nothing is parsed here; the first bytes of each file decide its kind and its compression.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from nccldoctor.discover.archives import ARCHIVES, Lane, Member, Note, dumps_in, parts_in, walk
from nccldoctor.discover.bundles import Draft, read_manifests
from nccldoctor.discover.file_types import is_own_report, is_part, kind_of, packing
from nccldoctor.discover.filename_hints import OWN_RULE, PACKED, Hint, hints, rank_pattern
from nccldoctor.discover.paths import Found, find, first_bytes, printable
from nccldoctor.discover.provenance import kind_of_text
from nccldoctor.discover.remote import find_remote
from nccldoctor.discover.stack_file_names import numbered_look, stack_file_name
from nccldoctor.discover.streams import HEAD, MOST_FILES, Budget, is_loss, opened, problem_of, reader
from nccldoctor.discover.unwrapping import LARGEST, is_wrapped
from nccldoctor.model import CollectedFile, Gap, Source, SourceKind
from nccldoctor.parsers.engine.encodings import head_as_utf8
from nccldoctor.parsers.flight_recorder.dump import is_pickle
from nccldoctor.parsers.flight_recorder.pages import is_page_of_dumps
from nccldoctor.words.lists import first_of

Opener = Callable[[], BinaryIO]


class NamedFile(Struct, frozen=True):
    """What a source is made from.

    ``path`` stands in reports, hints are read from ``hint_name``. ``kind`` is that by its first bytes. ``told`` is what the manifest of
    its bundle says.
    """

    path: str
    hint_name: str
    kind: SourceKind
    size: int
    told: CollectedFile | None = None


class Input(Struct, frozen=True):
    """One file or archive member to read.

    ``open`` returns its bytes, decompressed; the stream does not raise but ends early, and ``streams.problem_of`` says why.
    ``file`` is its path on the disk, for plain files only. Inputs with the same ``lane`` (not 0) are members of one archive:
    they are read fastest by one thread and in the order of their ``turn``. ``named`` is what its source was made from.
    """

    source: Source
    open: Opener
    named: NamedFile
    file: Path | None = None
    lane: int = 0
    turn: int = 0


_PAGE = "page"
"""A page of PyTorch's debug server, whose members are the recorder dumps in it."""


_WRAPPED = "wrapped"
"""A file that holds dumps or a text inside of something else."""


class Discovered(Struct, frozen=True):
    """All inputs in the order of reports, gaps for what was not taken, and the parts among the files."""

    inputs: tuple[Input, ...]
    gaps: tuple[Gap, ...]
    parts: tuple[Found, ...] = ()


_TOLD = 4096
"""First bytes that are kept of every input: they tell a manifest."""

KEPT_IN_ALL = 32 << 20
"""Bytes of small files that stay in memory: looking at their first bytes has read them to the end."""


class _Kept:
    """Counts the bytes of small files that stay in memory, and the ``members`` of archives that may still be taken."""

    def __init__(self, members: int) -> None:
        self._left = KEPT_IN_ALL
        self.members = members

    def has_taken(self, count: int) -> bool:
        """Take so many more bytes; True where they have room."""
        has_room = count <= self._left
        self._left -= count if has_room else 0
        return has_room


class _Plain(Struct, frozen=True):
    """A file that is no archive.

    ``head`` are its first bytes, ``open`` gives all, unpacked; ``file`` is its path if it is not packed, ``problem`` says why its end is
    missing.
    """

    found: Found
    head: bytes
    open: Opener
    file: Path | None
    problem: str = ""


def discover(paths: Sequence[str | Path], rank_from: str | None = None) -> Discovered:
    """Everything under ``paths``: files, folders, quoted patterns, archives, ``-`` and URLs.

    Sources are ordered by path, whatever the order of ``paths``. ``rank_from`` is a regular expression with a group ``rank``
    that overrules the other rules for names. What cannot be read becomes a Gap.

    Raises :class:`~nccldoctor.model.errors.InputError` for a path that does not exist.
    """
    rule: re.Pattern[str] | None = rank_pattern(rank_from) if rank_from else None
    files, gaps = find(sorted(str(path) for path in paths), find_remote)
    drafts: list[Draft] = []
    parts: list[Found] = []
    kept = _Kept(MOST_FILES - len(files))
    for number, found in enumerate(files, 1):
        _look(found, number, drafts, parts, gaps, kept)
    bundled = read_manifests(drafts)
    gaps.extend(bundled.gaps)
    drafts = [draft for draft in drafts if draft.path not in bundled.left_out]
    named = [NamedFile(d.path, d.hint_name, d.kind, d.size, bundled.files.get(d.path)) for d in drafts]
    inputs = [
        Input(source, draft.open, name, draft.file, draft.lane, draft.turn)
        for source, draft, name in zip(sources_of(named, rule), drafts, named, strict=True)
    ]
    has_others = any(one.kind not in (SourceKind.EMPTY, SourceKind.UNKNOWN) for one in named)
    # beside other files in a folder a part may repeat them, so the user has to name it
    by_name = {str(path) for path in paths}
    chosen = tuple(part for part in parts if not has_others or part.file is None or str(part.file) in by_name)
    why = "a part beside other files, not read: it may hold the same files"
    gaps.extend(Gap(part.path, why) for part in parts if part not in chosen)
    return Discovered(tuple(inputs), tuple(gaps), chosen)


def sources_of(files: Sequence[NamedFile], rule: re.Pattern[str] | None = None) -> list[Source]:
    """The sources of some files, numbered from 0, with the hints that all their names together give."""
    clues = hints([one.hint_name for one in files], [one.kind is SourceKind.RECORDER for one in files], rule)
    sources = []
    for number, (one, hint) in enumerate(zip(files, clues, strict=True)):
        sources.append(_as_told(number, one, one.told, hint) if one.told is not None else _as_named(number, one, hint))
    return sources


def _as_named(number: int, one: NamedFile, hint: Hint) -> Source:
    """The source with what its name says."""
    stack = stack_file_name(one.hint_name)
    return Source(
        id=number,
        path=one.path,
        kind=one.kind,
        size=one.size,
        rank=hint.rank,
        local_rank=hint.local_rank,
        host=hint.host,
        attempt=hint.attempt,
        why=hint.why,
        look=stack.look,
        taken=stack.taken,
        pid=hint.pid or (stack.pid if hint.rank is None and hint.local_rank is None else None),
    )


def _as_told(number: int, one: NamedFile, told: CollectedFile, hint: Hint) -> Source:
    """The source with what its manifest says; only ``--rank-from`` overrules that."""
    is_ordered = hint.why == OWN_RULE
    return Source(
        id=number,
        path=one.path,
        kind=one.kind,
        size=one.size,
        rank=hint.rank if is_ordered else told.rank,
        host=told.host,
        why=hint.why if is_ordered else "manifest",
        look=numbered_look(told.look) if told.look is not None else "",
        taken=told.taken,
        pid=told.pid,
        collected=told,
    )


def _kind(head: bytes, hint_name: str) -> SourceKind:
    """The kind of a file by its first bytes, and of a text by who wrote it."""
    kind = kind_of(head)
    if kind not in (SourceKind.LOG, SourceKind.JSON):
        return kind
    text = head_as_utf8(head)
    is_json = (kind if text is head else kind_of(text)) is SourceKind.JSON
    return kind_of_text(text, hint_name, is_json=is_json) or kind


def _look(found: Found, lane: int, drafts: list[Draft], parts: list[Found], gaps: list[Gap], kept: _Kept) -> None:
    """Look at the first bytes of a file; an archive becomes its members."""
    try:
        head = first_bytes(found.file) if found.file is not None else None
        if head is None or packing(head):
            with found.open() as raw:
                first = opened(raw, Budget(found.size))
                if is_part(first.head):
                    parts.append(found)
                elif first.packing in ARCHIVES:
                    _members(found, lane, first.packing, drafts, gaps, kept)
                elif first.packing:
                    gaps.append(Gap(found.path, "packed twice, not opened"))
                else:
                    file, opener = (None, _unpacking(found)) if first.compression else (found.file, found.open)
                    _add(_Plain(found, first.head, opener, file, problem_of(first.stream)), lane, drafts, gaps, kept)
        elif is_pickle(head):
            drafts.append(Draft(found.path, found.typed, found.size, SourceKind.RECORDER, head, found.open, found.file))
        else:
            _add(_Plain(found, head, found.open, found.file), lane, drafts, gaps, kept)
    except OSError as error:
        why = f"cannot be read: {error.strerror or type(error).__name__}"
        gaps.append(Gap(found.path, why, lost=True))


def _add(one: _Plain, lane: int, drafts: list[Draft], gaps: list[Gap], kept: _Kept) -> None:
    """Add a file that is no archive, or what it holds."""
    found, head, opener = one.found, one.head, one.open
    if is_own_report(head):
        gaps.append(Gap(found.path, "a report of this tool, skipped"))
    elif not head and one.problem:
        gaps.append(Gap(found.path, one.problem, lost=True))
    else:
        is_page = is_page_of_dumps(head)
        if not is_page and is_wrapped(head, found.size, lambda: one.open().read(LARGEST)):
            _members(found, lane, _WRAPPED, drafts, gaps, kept)
            return
        kind, is_whole = _kind(head, found.typed), len(head) < HEAD and not one.problem
        if is_whole and kind is not SourceKind.RECORDER and kept.has_taken(len(head)):
            opener = partial(io.BytesIO, head)
        drafts.append(Draft(found.path, found.typed, found.size, kind, head[:_TOLD], opener, one.file))
        if is_page:
            _members(found, lane, _PAGE, drafts, gaps, kept)


def _unpacking(found: Found) -> Opener:
    return lambda: reader(opened(found.open(), Budget(found.size)).stream)


def _members(found: Found, lane: int, packing: str, drafts: list[Draft], gaps: list[Gap], kept: _Kept) -> None:
    """List an archive's members as inputs that share a lane."""
    prefix, most = "" if found.alone else f"{found.path}/", kept.members

    def start(note: Note) -> Iterator[Member]:
        budget = Budget(found.size, most)
        raw = found.seekable() if packing == "zip" else opened(found.open(), budget).stream
        if packing == _PAGE:
            return dumps_in(raw)
        if packing == _WRAPPED:
            return parts_in(raw)
        return walk(raw, packing, budget, note)

    refused: dict[str, list[str]] = {}
    listed: list[Draft] = []
    members = Lane(lambda: start(lambda name, why: None))
    for number, member in enumerate(start(lambda name, why: refused.setdefault(why, []).append(name))):
        name = printable(member.name.strip("/"))
        if any(part.startswith(".") for part in name.split("/")):
            refused.setdefault("hidden, skipped", []).append(name)
        elif is_own_report(member.head):
            refused.setdefault("a report of this tool, skipped", []).append(name)
        else:
            is_whole = len(member.head) < HEAD and not problem_of(member.stream)
            if is_whole and kept.has_taken(len(member.head)):
                opener: Opener = partial(io.BytesIO, member.head)
            else:
                opener = _member_opener(members, number)
            is_unnamed = packing == _WRAPPED and (not name or name.startswith("dump-"))
            is_joined = packing == _WRAPPED and not is_unnamed and not name.startswith("rank_")
            above = "" if is_joined else f"{PACKED.sub('', found.typed)}/"
            hint_name = found.typed if is_unnamed else above + name
            path = prefix + name if name else found.path
            kind = _kind(member.head, hint_name)
            listed.append(Draft(path, hint_name, member.size, kind, member.head[:_TOLD], opener, None, lane, number))
    kept.members -= len(listed) + sum(map(len, refused.values()))
    drafts.extend(sorted(listed, key=lambda draft: (draft.path, draft.turn)))
    for why, names in refused.items():
        first = f"{found.path}/{printable(names[0])}" if names[0] else found.path
        gaps.append(Gap(first_of([first, *names[1:]]), why, lost=is_loss(why)))


def _member_opener(lane: Lane, number: int) -> Opener:
    return lambda: reader(lane.member(number))
