"""Turns paths, folders, patterns, standard input and URLs into files that can be opened, in a fixed order."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from nccldoctor.discover.pipes import keep
from nccldoctor.discover.streams import HEAD, MOST_FILES, reader
from nccldoctor.model import Gap
from nccldoctor.model.errors import InputError
from nccldoctor.parsers.flight_recorder.dump import is_pickle
from nccldoctor.words.lists import first_of

MOST_NAMES = 1 << 18
"""Files of a folder, all its folders included, from which those that are read are chosen."""
LARGE_HOLE = 16 << 20
"""Bytes of a hole at the end of a file that are not read."""
MOST_DEEP = 100
"""Folders inside each other that are walked."""
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0")


class Found(Struct, frozen=True):
    """A file that can be opened.

    ``path`` is shown in reports; ``typed`` has more of the folders that the user named, and gives hints. ``open`` returns its
    bytes as stored; ``seekable`` does so for archives with their directory at the end. ``alone``: it is the only input.
    """

    path: str
    typed: str
    size: int
    open: Callable[[], BinaryIO]
    seekable: Callable[[], BinaryIO]
    file: Path | None = None
    alone: bool = False


def find(paths: Sequence[str], remote: Callable[[str, bool], list[Found]]) -> tuple[list[Found], list[Gap]]:
    """All regular files under ``paths``, each once; ``remote`` finds those of a URL (and whether it is the only input).

    Raises :class:`InputError` for what does not exist.
    """
    gaps: list[Gap] = []
    files: list[Found] = []
    seen: set[tuple[int, int]] = set()
    labels = _labels([path for path in paths if "://" not in path and path not in _STANDARD_INPUT])
    alone = len(paths) == 1
    for path in paths:
        if path in _STANDARD_INPUT:
            files.append(_kept(path, "-", gaps))
        elif "://" in path:
            files.extend(remote(path, alone))
        else:
            files.extend(_local(path, "" if alone else labels[path], seen, gaps))
    return _fitting(files, MOST_FILES, gaps), gaps


def _fitting(files: list[Found], most: int, gaps: list[Gap]) -> list[Found]:
    """At most so many files: where there are more, the last ones of the fullest folders are left out.

    A folder of a million samples costs itself, and not the logs beside it.
    """
    held = Counter(_folder_of(one) for one in files)
    share, left = most, most
    for folders, count in zip(range(len(held), 0, -1), sorted(held.values()), strict=True):
        share = left // folders
        left -= min(count, share)
    gaps.extend(
        Gap(folder or "files", f"{count:,} files: the last {count - share:,} were not read", lost=True)
        for folder, count in held.items()
        if count > share
    )
    taken = Counter[str]()
    out = []
    for one in files:
        taken[_folder_of(one)] += 1
        if taken[_folder_of(one)] <= share:
            out.append(one)
    return out


def _folder_of(one: Found) -> str:
    return one.path.rpartition("/")[0]


def printable(path: str) -> str:
    """A path that can be shown: undecodable and control characters as escapes."""
    if path.isprintable():
        return path
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _labels(paths: Sequence[str]) -> dict[str, str]:
    """The shortest ends of several paths that differ: ``run1/logs`` and ``run2/logs``."""
    parts = {path: _absolute(path).parts[1:] or ("root",) for path in paths}
    wanted = len(set(parts.values()))
    longest = max(map(len, parts.values()), default=1)
    length = next((n for n in range(1, longest) if len({p[-n:] for p in parts.values()}) == wanted), longest)
    return {path: "/".join(names[-length:]) for path, names in parts.items()}


def _absolute(path: str) -> Path:
    """The whole path to what stands before the first wildcard.

    Raises :class:`InputError` for a relative one where the working directory was deleted.
    """
    try:
        return Path(os.path.normpath(_fixed(path).absolute()))
    except FileNotFoundError:
        raise InputError("the working directory no longer exists", hint="change to another folder") from None


def _fixed(path: str) -> Path:
    """The part of a pattern before its first wildcard; the path itself where it exists or has none."""
    parts = Path(path).parts
    first = next((n for n, part in enumerate(parts) if has_magic(part)), None)
    return Path(path) if first is None or os.path.lexists(path) else Path(*parts[:first])


def _local(path: str, label: str, seen: set[tuple[int, int]], gaps: list[Gap]) -> Iterator[Found]:
    """The files of one path; ``label`` is "" where it is the only one."""
    top = Path(path)
    if not os.path.lexists(top):
        if not has_magic(path):
            hint = "paths may be files, folders, patterns in quotes, archives, - and URLs"
            raise InputError(f"{path}: no such file or folder", hint=hint)
        return _pattern(path, label, seen, gaps)
    try:
        mode = top.stat().st_mode
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if stat.S_ISFIFO(mode) and path.startswith("/dev/fd/"):
        return iter([_kept(path, path.replace("/dev/fd/", "pipe "), gaps)])  # the shell's <(command)
    if stat.S_ISDIR(mode):
        return _folder(top, label, seen, gaps)
    return _file(top, label or top.name, "/".join(top.parts[-6:]), not label, seen, gaps)


def _pattern(path: str, label: str, seen: set[tuple[int, int]], gaps: list[Gap]) -> Iterator[Found]:
    """Expand a pattern that the shell left alone; paths are relative to the part before the first wildcard."""
    root = _fixed(path)
    hits = [Path(hit) for hit in sorted(glob(path, recursive=True))]  # noqa: PTH207  # Path.glob takes no absolute pattern
    if not hits:
        raise InputError(f"{path}: nothing matches", hint="** stands for folders of any depth")
    for hit in hits:
        if not hit.is_dir():
            name = hit.relative_to(root).as_posix()
            yield from _file(hit, f"{label}/{name}" if label else name, "/".join(hit.parts[-6:]), False, seen, gaps)


def _folder(top: Path, label: str, seen: set[tuple[int, int]], gaps: list[Gap]) -> Iterator[Found]:
    """Every file of a folder, by path; links are followed where they stay inside and lead to something new."""
    links: list[str] = []
    hidden: list[str] = []
    names: list[str] = []
    for folder, below, files in os.walk(top, onerror=lambda error: gaps.append(_unreadable(top, error))):
        inside = Path(folder).relative_to(top).as_posix()
        prefix = "" if inside == "." else f"{inside}/"
        hidden.extend(prefix + name for name in (*below, *files) if name.startswith("."))
        below[:] = sorted(name for name in below if not name.startswith("."))
        linked = [name for name in below if (Path(folder) / name).is_symlink()]
        links.extend(prefix + name for name in linked)
        below[:] = [name for name in below if name not in linked]
        if below and prefix.count("/") >= MOST_DEEP:
            gaps.append(Gap(printable(prefix + below[0]), f"deeper than {MOST_DEEP} folders, not read", lost=True))
            below.clear()
        for name in files:
            if not name.startswith("."):
                is_link = os.path.islink(f"{folder}{os.sep}{name}")  # noqa: PTH114  # a path object costs more than the look
                (links if is_link else names).append(prefix + name)
        if len(names) > MOST_NAMES:
            gaps.append(
                Gap(printable(prefix or "files"), f"more than {MOST_NAMES:,} files before it, not read", lost=True)
            )
            break
    start = f"{label}/" if label else ""
    if hidden:
        gaps.append(Gap(printable(f"{start}{first_of(sorted(hidden))}"), "hidden, skipped"))
    for name in sorted(names):
        yield from _file(top / name, start + name, start + name, False, seen, gaps)
    for name in sorted(links):
        yield from _link(top, name, start, seen, gaps)


def _link(top: Path, name: str, start: str, seen: set[tuple[int, int]], gaps: list[Gap]) -> Iterator[Found]:
    link = top / name
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        gaps.append(Gap(printable(start + name), "a link that leads nowhere or in a circle"))
        return
    root = top.resolve()
    if target == root or target in link.absolute().parents:
        gaps.append(Gap(printable(start + name), "a link in a circle, not followed"))
    elif root not in target.parents:
        gaps.append(Gap(printable(start + name), "a link that leads out of the folder, not followed"))
    elif target.is_file():
        yield from _file(target, start + name, start + name, False, seen, gaps)
    elif any(part.startswith(".") for part in target.relative_to(root).parts):
        # a hidden folder behind a link, as Kubernetes mounts them; other folders are walked under their own names
        for folder, below, files in os.walk(target):
            below[:] = sorted(below) if len(Path(folder).relative_to(target).parts) < MOST_DEEP else []
            for file in sorted(files):
                path = Path(folder) / file
                whole = f"{start}{name}/{path.relative_to(target).as_posix()}"
                if not path.is_symlink():
                    yield from _file(path, whole, whole, False, seen, gaps)


def _file(
    path: Path, shown: str, typed: str, alone: bool, seen: set[tuple[int, int]], gaps: list[Gap]
) -> Iterator[Found]:
    """The file, unless it was there before or is no regular file."""
    try:
        status = path.stat()
    except OSError as error:
        gaps.append(Gap(printable(shown), f"cannot be read: {error.strerror}", lost=True))
        return
    if not stat.S_ISREG(status.st_mode):
        gaps.append(Gap(printable(shown), "no regular file (a pipe, socket or device), skipped"))
        return
    identity = (status.st_dev, status.st_ino)
    if status.st_ino and identity in seen:
        return
    seen.add(identity)
    yield Found(
        printable(shown), printable(typed), status.st_size, file_opener(path), lambda: path.open("rb"), path, alone
    )


def _unreadable(top: Path, error: OSError) -> Gap:
    name = os.path.relpath(error.filename, top) if error.filename else top.name
    return Gap(printable(Path(name).as_posix()), f"cannot be read: {error.strerror}", lost=True)


def first_bytes(path: Path) -> bytes | None:
    """The :data:`HEAD` bytes by which a file is known, fewer of a pickle; None where they cannot be read."""
    try:
        descriptor = os.open(path, _READING)
        try:
            head = os.read(descriptor, 4 << 10)
            while not is_pickle(head) and len(head) < HEAD and (more := os.read(descriptor, HEAD - len(head))):
                head += more
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return head


def file_opener(path: Path) -> Callable[[], BinaryIO]:
    """Opens a regular file for its bytes at that moment: a log that grows would never end."""

    def open_file() -> BinaryIO:
        descriptor = os.open(path, _READING)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError(0, "no regular file any more")
        return reader(io.FileIO(descriptor, "rb"), limit=_without_hole(descriptor, status.st_size))

    return open_file


def _without_hole(descriptor: int, size: int) -> int:
    """The bytes of a file before a large hole at its end. That takes no room on the disk and holds zeros alone."""
    if size < LARGE_HOLE or not hasattr(os, "SEEK_HOLE"):
        return size
    hole = size
    try:
        hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
        if size - hole < LARGE_HOLE:
            return size
        os.lseek(descriptor, hole, os.SEEK_DATA)
    except OSError as error:
        return hole if error.errno == errno.ENXIO else size
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return size


def _kept(path: str, shown: str, gaps: list[Gap]) -> Found:
    """A pipe, kept in memory."""
    if path in _STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input is closed", hint="pipe a log into the command, or name files")
        kept = keep(sys.stdin.buffer)
    else:
        with Path(path).open("rb") as pipe:
            kept = keep(pipe)
    if kept.problem:
        gaps.append(Gap(shown, kept.problem, lost=True))
    return Found(shown, shown, kept.kept_bytes, lambda: reader(kept.as_stream()), kept.as_one_file, None, True)
