"""The file of a part: a zip whose members are listed, with their sizes and checksums, in a manifest.

One file holds one part, or several that were joined: each stands in a folder of its own, ``0/manifest``, ``1/manifest``. A part has
the identity of its manifest, so that a part that is given twice is read once. Members are zstd frames.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec
import zstandard
from msgspec import Meta, Struct
from msgspec.structs import asdict

from nccldoctor.discover.file_types import PART_HEAD
from nccldoctor.model import Gap
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.model.ranks import Ranks
from nccldoctor.parts.masked_values import masked_values
from nccldoctor.version import __version__

FORMAT = 2
"""Raised by each change after which older parts mean something else."""

MOST_RAW = 512 << 20
"""Bytes of one member when it is unpacked."""

FREE_RAW, MOST_RATIO = 1 << 30, 400
"""Unpacked bytes of all members of a part: so many in any case, above that so many times its packed size."""

MOST_RANKS = 1_000_000
"""Ranks in one set, and the largest number of one, is ten times that."""

_D = TypeVar("_D", bound=Struct)
Count = Annotated[int, Meta(ge=0, lt=1 << 50)]
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_MANIFEST = re.compile(r"(\d{1,6})/manifest")


class PartError(NccldoctorError):
    """A part that cannot be read; the message says why, without the name of its file."""


class _Head(Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    nccldoctor: str


class Member(Struct, frozen=True, forbid_unknown_fields=True):
    """One member: ``raw`` bytes unpacked, about the inputs from ``first`` on, ``count`` of them."""

    name: Annotated[str, Meta(pattern=r"^[a-z]{1,20}-[0-9]{1,6}\Z")]
    raw: Annotated[int, Meta(ge=0, le=MOST_RAW)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    first: Count
    count: Count


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """What a part holds: ``inputs`` files with ``rows`` recorded calls, ``gaps`` of no file that was read."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^/]+\Z")]
    inputs: Annotated[int, Meta(ge=0, le=1_000_000)]
    rows: Annotated[int, Meta(ge=0, le=200_000_000)]
    gaps: tuple[Gap, ...]
    members: tuple[Member, ...]


class PartWriter:
    """Writes one part; members as they come, the manifest at the end."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._zip = _started(file)
        self._name = name
        self._members: list[Member] = []
        self._packer = zstandard.ZstdCompressor(level=3, write_content_size=True)

    def add_member(self, kind: str, raw: bytes, first: int, count: int) -> None:
        """Add a member about ``count`` inputs from ``first`` on. Raises :class:`PartError` where it is too large to be read again."""
        if len(raw) > MOST_RAW:
            raise PartError(f"more than {MOST_RAW >> 20} MB of {kind} in one piece")
        packed = self._packer.compress(raw)
        number = sum(member.name.startswith(f"{kind}-") for member in self._members)
        member = Member(
            name=f"{kind}-{number}", raw=len(raw), sha256=hashlib.sha256(packed).hexdigest(), first=first, count=count
        )
        self._members.append(member)
        _store(self._zip, f"0/{member.name}", packed)

    def close(self, inputs: int, rows: int, gaps: Sequence[Gap]) -> None:
        """Write the manifest and the directory of the zip."""
        manifest = Manifest(name=self._name, inputs=inputs, rows=rows, gaps=tuple(gaps), members=tuple(self._members))
        _store(self._zip, "0/manifest", self._packer.compress(written_document(manifest)))
        self._zip.close()


class StoredPart:
    """One part in an open file."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        self._zip = archive
        self._folder = folder
        self._packed = _stored_bytes(archive, f"{folder}/manifest")
        self.digest = hashlib.sha256(self._packed).hexdigest()
        self.manifest = read_document(Manifest, _unpacked(self._packed, MOST_RAW))
        kept = {f"{folder}/{member.name}" for member in self.manifest.members}
        self._left = max(FREE_RAW, MOST_RATIO * sum(i.file_size for i in archive.infolist() if i.filename in kept))
        if sum(member.raw for member in self.manifest.members) > self._left:
            raise PartError("it unpacks to more than a part of its size should")

    def of_kind(self, kind: str) -> list[Member]:
        """The members of one kind, in order."""
        return [member for member in self.manifest.members if member.name.startswith(f"{kind}-")]

    def read_member(self, member: Member) -> bytes:
        """The bytes of a member. Raises :class:`PartError` where they are not those that were written."""
        packed = _stored_bytes(self._zip, f"{self._folder}/{member.name}")
        if hashlib.sha256(packed).hexdigest() != member.sha256:
            raise PartError("its checksums do not fit: it is damaged")
        raw = _unpacked(packed, member.raw)
        if len(raw) != member.raw:
            raise PartError("its sizes do not fit: it is damaged")
        return raw

    def copy_to(self, target: zipfile.ZipFile, folder: str) -> None:
        """Copy all members as they are into a folder of another file."""
        for name in (*(member.name for member in self.manifest.members), "manifest"):
            _store(target, f"{folder}/{name}", _stored_bytes(self._zip, f"{self._folder}/{name}"))


def stored_parts(file: BinaryIO) -> list[StoredPart]:
    """The parts in a file. Raises :class:`PartError` where it is none, or damaged."""
    try:
        archive = zipfile.ZipFile(file)
        content = archive.read(_info(archive, PART_HEAD))
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise PartError(f"damaged ({type(error).__name__})") from None
    try:
        found = msgspec.json.decode(content, type=_Head)
    except (ValueError, RecursionError):
        found = None
    if found is None or found.format != FORMAT:
        other = f"nccldoctor {found.nccldoctor[:40]}" if found else "another program"
        raise PartError(f"written by {other}, which this version doesn't read")
    folders = [match[1] for name in archive.namelist() if (match := _MANIFEST.fullmatch(name))]
    if not folders or len(folders) > 100_000:
        raise PartError("it holds no part")
    return [StoredPart(archive, folder) for folder in folders]


def write_joined(file: BinaryIO, parts: Iterable[AbstractContextManager[StoredPart]]) -> None:
    """Write several parts to one file, each as it is; each is open only while it is copied."""
    archive = _started(file)
    for number, part in enumerate(parts):
        with part as stored:
            stored.copy_to(archive, str(number))
    archive.close()


def written_document(document: Struct) -> bytes:
    """A document of a part, without secrets."""
    return json.dumps(document, default=as_json, separators=(",", ":")).encode()


def read_document(kind: type[_D], raw: bytes) -> _D:
    """A document of a part. Raises :class:`PartError` where a field is missing, unknown or of another type."""
    try:
        return msgspec.json.decode(raw, type=kind, dec_hook=ranks_of)
    except (ValueError, RecursionError) as error:
        raise PartError(f"damaged: {error}"[:200]) from None


def ranks_of(form: type, value: Any) -> Any:
    """A value of a type that JSON does not have: a set of ranks."""
    if form is not Ranks:
        raise TypeError(f"an unknown type {form.__name__}")
    return _ranks_in(value)


def as_json(value: Any) -> Any:
    """A value of an event as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Ranks):
        return str(value)
    if isinstance(value, Struct):
        return masked_values(asdict(value))
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f"a part cannot hold a {type(value).__name__}")


def _ranks_in(text: Any) -> Ranks:
    """The ranks in ``0-3,7``. Raises :class:`PartError` where they are too many."""
    if type(text) is not str:
        raise PartError("damaged: no set of ranks")
    out: list[int] = []
    for part in filter(None, text.split(",")):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or len(low) > 8 or len(high) > 8:
            raise PartError("damaged: no set of ranks")
        first, last = int(low), int(high or low)
        if last >= 10 * MOST_RANKS or last - first + len(out) > MOST_RANKS:
            raise PartError("damaged: a set of too many ranks")
        out.extend(range(first, last + 1))
    return Ranks(out)


def _started(file: BinaryIO) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(file, "w")
    _store(archive, PART_HEAD, json.dumps({"format": FORMAT, "nccldoctor": __version__}).encode())
    return archive


def _store(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    archive.writestr(info, content)


def _info(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    info = archive.getinfo(name) if name in archive.NameToInfo else None
    if info is None or info.compress_type != zipfile.ZIP_STORED or info.file_size > MOST_RAW:
        raise zipfile.BadZipFile(name)
    return info


def _stored_bytes(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(_info(archive, name))
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise PartError(f"damaged ({type(error).__name__})") from None


def _unpacked(packed: bytes, most: int) -> bytes:
    """The content of one zstd frame, which must say its size."""
    try:
        size = zstandard.get_frame_parameters(packed).content_size
        if size > most or size == zstandard.CONTENTSIZE_UNKNOWN:
            raise PartError("its sizes do not fit: it is damaged")
        return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompress(packed, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise PartError(f"damaged ({type(error).__name__})") from None
