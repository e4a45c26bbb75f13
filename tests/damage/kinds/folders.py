"""Folders from which files are missing, in which they have other names, or other files beside them; archives."""

from __future__ import annotations

import gzip
import pickle
import posixpath
import random
import re
from collections.abc import Callable

from builders.files.packing import tar_of, zip_of
from damage.kinds.dumps import dump_an_hour_apart
from damage.kinds.registry import (
    Files,
    NotApplicable,
    dumps,
    entries_of,
    load,
    of_files,
    one_of,
    texts,
    with_entries,
    without,
)

FILES, NAMES, BESIDE, ARCHIVE = "files lost", "names", "files beside", "archive"

_RANK = re.compile(r"(?:rank|trace|fr|dump|stacks?|worker|default)[_.-]?(\d{1,4})(?!\d)|^(\d{1,4})$", re.I)


def rank_in(path: str) -> int | None:
    """The rank that the last part of a path names, if any."""
    for part in reversed(path.split("/")):
        for word in (part, part.split(".")[0]):
            hit = _RANK.search(word)
            if hit:
                return int(hit[1] or hit[2])
    return None


def _lost(files: Files, gone: list[str]) -> Files:
    if not gone or len(gone) == len(files):
        raise NotApplicable
    return without(files, gone)


@of_files(FILES)
def a_rank_lost(rng: random.Random, files: Files) -> Files:
    """All files of one rank are gone."""
    ranks = sorted({rank for rank in map(rank_in, files) if rank is not None})
    if not ranks:
        raise NotApplicable
    gone = rng.choice(ranks)
    return _lost(files, [path for path in files if rank_in(path) == gone])


@of_files(FILES)
def half_of_the_files_lost(rng: random.Random, files: Files) -> Files:
    """Any half of the files is gone."""
    return _lost(files, rng.sample(sorted(files), len(files) // 2))


@of_files(FILES)
def a_dump_lost(rng: random.Random, files: Files) -> Files:
    """One dump is gone."""
    return _lost(files, one_of(rng, dumps(files)))


@of_files(FILES)
def half_of_the_dumps_lost(rng: random.Random, files: Files) -> Files:
    """Any half of the dumps is gone."""
    return _lost(files, rng.sample(dumps(files), (len(dumps(files)) + 1) // 2))


@of_files(FILES)
def all_dumps_lost(rng: random.Random, files: Files) -> Files:
    """Only texts are left."""
    return _lost(files, dumps(files))


@of_files(FILES)
def one_dump_left(rng: random.Random, files: Files) -> Files:
    """One dump and all texts are left."""
    keep = one_of(rng, dumps(files))
    return _lost(files, [path for path in dumps(files) if path not in keep])


@of_files(FILES)
def all_texts_lost(rng: random.Random, files: Files) -> Files:
    """Only dumps are left."""
    return _lost(files, texts(files))


@of_files(FILES)
def a_text_lost(rng: random.Random, files: Files) -> Files:
    """One text is gone."""
    return _lost(files, one_of(rng, texts(files)))


@of_files(FILES)
def one_text_left(rng: random.Random, files: Files) -> Files:
    """One text is left, and nothing else."""
    keep = one_of(rng, texts(files))
    return _lost(files, [path for path in files if path not in keep]) if keep else _lost(files, [])


@of_files(FILES)
def a_folder_lost(rng: random.Random, files: Files) -> Files:
    """One folder is gone, as where a node was not asked."""
    folders = sorted({posixpath.dirname(path) for path in files})
    gone = rng.choice(folders)
    return _lost(files, [path for path in files if posixpath.dirname(path) == gone])


@of_files(FILES)
def stacks_lost(rng: random.Random, files: Files) -> Files:
    """The stacks are gone."""
    return _lost(files, [path for path in files if "stack" in path])


@of_files(FILES)
def a_file_emptied(rng: random.Random, files: Files) -> Files:
    """One file is empty."""
    return {**files, rng.choice(sorted(files)): b""}


@of_files(FILES)
def half_of_the_files_emptied(rng: random.Random, files: Files) -> Files:
    """Half of the files are empty, as on a full disk."""
    return {**files, **dict.fromkeys(rng.sample(sorted(files), (len(files) + 1) // 2), b"")}


@of_files(FILES)
def files_of_one_byte(rng: random.Random, files: Files) -> Files:
    """Half of the files have one byte."""
    return {**files, **{path: files[path][:1] for path in rng.sample(sorted(files), (len(files) + 1) // 2)}}


@of_files(NAMES)
def names_without_rank(rng: random.Random, files: Files) -> Files:
    """All files have names that say nothing."""
    letters = str.maketrans("0123456789", "ghijklmnop")
    names = [f"{number:x}".translate(letters) for number in rng.sample(range(0xA00000, 0xFFFFFF), len(files))]
    return {name: files[path] for name, path in zip(names, sorted(files), strict=True)}


@of_files(NAMES)
def dumps_without_rank(rng: random.Random, files: Files) -> Files:
    """Dumps have names that say nothing."""
    if not dumps(files):
        raise NotApplicable
    out = without(files, dumps(files))
    names = rng.sample("abcdefghijklmnopqrstuvwxyz", 26)
    return out | {f"dump-{names[n % 26]}{names[n // 26]}": files[path] for n, path in enumerate(dumps(files))}


@of_files(NAMES)
def one_folder_for_all(rng: random.Random, files: Files) -> Files:
    """All files lie in one folder; of the same name one is left, the others are numbered as browsers do."""
    out: Files = {}
    for path, content in sorted(files.items()):
        name, copy = posixpath.basename(path), 0
        while name in out:
            copy += 1
            stem, dot, end = posixpath.basename(path).partition(".")
            name = f"{stem} ({copy}){dot}{end}"
        out[name] = content
    return out


@of_files(NAMES)
def folders_in_names(rng: random.Random, files: Files) -> Files:
    """Folders became a part of the names, as some download pages do."""
    return {path.replace("/", "_"): content for path, content in files.items()}


@of_files(NAMES)
def names_in_capitals(rng: random.Random, files: Files) -> Files:
    """Names are in capitals, as a file system without cases gives them."""
    return {path.upper(): content for path, content in files.items()}


@of_files(NAMES)
def names_with_endings(rng: random.Random, files: Files) -> Files:
    """A mail program put ``.txt`` behind every name."""
    return {f"{path}.txt": content for path, content in files.items()}


def _exchanged(files: Files, pair: list[str]) -> Files:
    if len(pair) < 2:
        raise NotApplicable
    return {**files, pair[0]: files[pair[1]], pair[1]: files[pair[0]]}


@of_files(NAMES)
def two_dumps_exchanged(rng: random.Random, files: Files) -> Files:
    """Two dumps have each other's name."""
    return _exchanged(files, rng.sample(dumps(files), min(2, len(dumps(files)))))


@of_files(NAMES)
def two_texts_exchanged(rng: random.Random, files: Files) -> Files:
    """Two texts of one folder have each other's name."""
    by_folder: dict[str, list[str]] = {}
    for path in texts(files):
        by_folder.setdefault(posixpath.dirname(path), []).append(path)
    several = [paths for paths in by_folder.values() if len(paths) > 1]
    return _exchanged(files, rng.sample(rng.choice(several), 2) if several else [])


def _interleaved(rng: random.Random, parts: list[list[bytes]]) -> bytes:
    out, left = [], [list(part) for part in parts if part]
    while left:
        part = rng.choices(left, [len(one) for one in left])[0]
        out.append(part.pop(0))
        left = [one for one in left if one]
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in out)


@of_files(NAMES)
def texts_interleaved(rng: random.Random, files: Files) -> Files:
    """The lines of all logs stand in one file, in any order that keeps each log's own."""
    logs = [path for path in texts(files) if "stack" not in path]
    if len(logs) < 2:
        raise NotApplicable
    joined = _interleaved(rng, [files[path].splitlines(keepends=True) for path in logs])
    return {**without(files, logs), "all.log": joined}


@of_files(NAMES)
def texts_in_one_file(rng: random.Random, files: Files) -> Files:
    """All texts stand in one file, one behind the other."""
    if len(texts(files)) < 2:
        raise NotApplicable
    joined = b"".join(files[path].rstrip(b"\n") + b"\n" for path in texts(files))
    return {**without(files, texts(files)), "all.log": joined}


@of_files(NAMES)
def texts_in_one_file_with_names(rng: random.Random, files: Files) -> Files:
    """What ``tail -n +1 *`` prints: all texts in one file, with their names above them."""
    if len(texts(files)) < 2:
        raise NotApplicable
    joined = b"\n".join(
        b"==> " + path.encode() + b" <==\n" + files[path].rstrip(b"\n") + b"\n" for path in texts(files)
    )
    return {**without(files, texts(files)), "all.log": joined}


def _rotated(files: Files, keep: Callable[[int], bool]) -> Files:
    if not texts(files):
        raise NotApplicable
    out = without(files, texts(files))
    for path in texts(files):
        lines = files[path].splitlines(keepends=True)
        third = len(lines) // 3 + 1
        for age, part in enumerate((lines[2 * third :], lines[third : 2 * third], lines[:third])):
            if part and (keep(age) or len(lines) < 3):
                out[path + (f".{age}" if age else "")] = b"".join(part)
    return out


@of_files(FILES)
def rotated(rng: random.Random, files: Files) -> Files:
    """Texts are rotated: ``x.log``, ``x.log.1``, ``x.log.2``."""
    return _rotated(files, lambda age: True)


@of_files(FILES)
def rotated_oldest_lost(rng: random.Random, files: Files) -> Files:
    """Texts are rotated, the oldest part is gone."""
    return _rotated(files, lambda age: age < 2)


@of_files(FILES)
def rotated_middle_lost(rng: random.Random, files: Files) -> Files:
    """Texts are rotated, the middle part is gone."""
    return _rotated(files, lambda age: age != 1)


@of_files(FILES)
def rotated_newest_lost(rng: random.Random, files: Files) -> Files:
    """Texts are rotated, the newest part is gone."""
    return _rotated(files, lambda age: age > 0)


@of_files(BESIDE)
def copies_beside(rng: random.Random, files: Files) -> Files:
    """A copy of every file lies in another folder."""
    return files | {f"backup/{path}": content for path, content in files.items()}


@of_files(BESIDE)
def earlier_dumps_beside(rng: random.Random, files: Files) -> Files:
    """Dumps of the same job, taken earlier, lie beside: the newest entries are not in them yet."""
    if not dumps(files):
        raise NotApplicable
    out = dict(files)
    for path in dumps(files):
        dump = load(files[path])
        entries = entries_of(dump)
        out[f"earlier/{path}"] = pickle.dumps(with_entries(dump, entries[: len(entries) // 2]), protocol=2)
    return out


@of_files(BESIDE)
def a_stale_dump_beside(rng: random.Random, files: Files) -> Files:
    """One dump is left from a run of the day before, in the place of a newer one."""
    if len(dumps(files)) < 2:
        raise NotApplicable
    path = rng.choice(dumps(files))
    dump = load(files[path])
    for _ in range(24):
        dump = dump_an_hour_apart(random.Random(1), dump)
    entries = entries_of(dump)
    old = with_entries(dump, entries[: max(1, len(entries) // 3)])
    return {**files, path: pickle.dumps(old, protocol=2)}


@of_files(ARCHIVE)
def each_gzipped(rng: random.Random, files: Files) -> Files:
    """Every file is compressed."""
    return {f"{path}.gz": gzip.compress(content, mtime=0) for path, content in files.items()}


@of_files(ARCHIVE)
def each_gzip_cut(rng: random.Random, files: Files) -> Files:
    """Every file is compressed, and cut in its second half."""
    out = {}
    for path, content in files.items():
        packed = gzip.compress(content, mtime=0)
        out[f"{path}.gz"] = packed[: rng.randrange(len(packed) // 2, len(packed))]
    return out


@of_files(ARCHIVE)
def one_gzip_cut(rng: random.Random, files: Files) -> Files:
    """One file is compressed and cut."""
    path = rng.choice(sorted(files))
    packed = gzip.compress(files[path], mtime=0)
    return {**without(files, [path]), f"{path}.gz": packed[: rng.randrange(len(packed) // 2, len(packed))]}


def _sorted(files: Files) -> Files:
    return dict(sorted(files.items()))


@of_files(ARCHIVE)
def zipped(rng: random.Random, files: Files) -> Files:
    """All files in a zip."""
    return {"job.zip": zip_of(_sorted(files))}


@of_files(ARCHIVE)
def zip_cut(rng: random.Random, files: Files) -> Files:
    """All files in a zip, which is cut in its second half."""
    packed = zip_of(_sorted(files))
    return {"job.zip": packed[: rng.randrange(len(packed) // 2, len(packed))]}


@of_files(ARCHIVE)
def tar_gz_cut(rng: random.Random, files: Files) -> Files:
    """All files in a ``.tar.gz``, which is cut in its second half."""
    packed = gzip.compress(tar_of(_sorted(files)), mtime=0)
    return {"job.tar.gz": packed[: rng.randrange(len(packed) // 2, len(packed))]}


@of_files(ARCHIVE)
def tar_damaged(rng: random.Random, files: Files) -> Files:
    """All files in a tar of which a block in the middle is NULs."""
    packed = tar_of(_sorted(files))
    at = rng.randrange(len(packed) // 4, len(packed) // 2) // 512 * 512
    return {"job.tar": packed[:at] + bytes(512) + packed[at + 512 :]}
