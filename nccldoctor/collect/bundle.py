"""Writes ``bundle.tar.zst``: the files of all nodes, and a manifest that says whose they are.

``manifest.json`` stands behind the files, whose folders are ``nodes/NAME/``::

    {"version": 1, "tool": "nccldoctor collect", "created": TIME, "command": "nccldoctor collect --ssh hosts.txt",
     "nodes": [{"name": "gpu-a07", "host": "gpu-a07.cluster", "answered": true, "error": null, "seconds": 4.1, "ranks": [0, 1]}],
     "files": [{"path": "nodes/gpu-a07/rank-0/stack-1.txt", "node": "gpu-a07", "host": "gpu-a07.cluster", "kind": "stack", "rank": 0,
                "local_rank": 0, "pid": 4711, "time": TIME, "look": 1}],
     "missing": [{"node": "gpu-a08", "what": "node gpu-a08", "why": "ssh: connect to host gpu-a08 port 22: Connection timed out"}]}

A node's answer is the stream of :mod:`nccldoctor.collect.on_node`. Nothing in it is believed: members that are no regular files, or
whose names lead out of their folder, are left out, and an answer of rubbish costs itself alone. Answers are read from front to back,
a block at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from nccldoctor.collect.node_stream import node_files
from nccldoctor.model.errors import OutputError
from nccldoctor.model.hosts import JobHere, jobs_of, merged
from nccldoctor.model.ranks import Ranks

VERSION = 1
"""The version of the manifest."""

MOST_MEMBERS = 20_000
"""Files taken from one answer."""

_MOST_MISSING, _MOST_HOST = 2_000, 253
"""Rows of what a node lacks, and characters of its name."""

_NAME = re.compile(r"(?!\.)[\w.+=-]{1,120}(?:/(?!\.)[\w.+=-]{1,120}){0,4}")
_TEXTS = ("kind", "time", "tool", "source", "job")
_NUMBERS = ("rank", "local_rank", "pid", "of", "look", "cut", "grown", "lines")


class Answer(Struct, frozen=True):
    """What one node gave. ``error`` is why it failed, None where it did not; ``stream`` is None of nothing; it took ``seconds``."""

    node: str
    stream: Path | None
    error: str | None
    seconds: float


class NodeResult(Struct, frozen=True):
    """What became of one answer; ``error`` is why it is not whole.

    ``ranks`` have at least one file; ``missing`` are pairs of what could not be had, and why. ``jobs`` are those
    that its processes name.
    """

    name: str
    host: str | None
    ranks: Ranks
    files: int
    missing: tuple[tuple[str, str], ...]
    error: str | None
    seconds: float
    jobs: tuple[JobHere, ...] = ()

    @property
    def has_answered(self) -> bool:
        """True where at least one of its files came."""
        return self.files > 0


class BundleResult(Struct, frozen=True):
    """The bundle, its size in bytes, and what became of each answer. Without any answer nothing is written, and the size is 0."""

    path: Path
    size: int
    nodes: tuple[NodeResult, ...]

    @property
    def ranks(self) -> Ranks:
        """All ranks with at least one file."""
        return Ranks(rank for node in self.nodes for rank in node.ranks)

    @property
    def jobs(self) -> tuple[JobHere, ...]:
        """The jobs on all nodes."""
        return merged(job for node in self.nodes for job in node.jobs)


def write_bundle(target: Path, answers: Iterable[Answer], command: str) -> BundleResult:
    """Write all answers, in the order of their names, to ``target``: whole, or not at all.

    Where no node has answered, a file that is there stays as it is. Raises :class:`OutputError` where it cannot be written.
    """
    import zstandard

    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    nodes: list[NodeResult] = []
    rows: list[dict[str, Any]] = []
    try:
        with (
            os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
            zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False) as out,
        ):
            for folder, answer in _folders(answers):
                nodes.append(_add_answer(out, folder, answer, rows))
            _write_member(out, "manifest.json", _manifest(command, nodes, rows))
            out.write(b"\0" * (2 * tarfile.BLOCKSIZE))
        size = part.stat().st_size if any(node.has_answered for node in nodes) else 0
        if size:
            part.replace(target)
    except OSError as error:
        raise OutputError(
            f"cannot write {target}: {error.strerror or error}", "choose another place with -o"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return BundleResult(target, size, tuple(nodes))


def _folders(answers: Iterable[Answer]) -> Iterator[tuple[str, Answer]]:
    """Each answer with the name of its folder: that of the node, which may be any text."""
    used: set[str] = set()
    for answer in sorted(answers, key=lambda answer: answer.node):
        plain = re.sub(r"[^\w.-]", "_", answer.node).lstrip(".")[:100] or "node"
        name = next(n for n in (f"{plain}-{i}" if i else plain for i in count()) if n not in used)
        used.add(name)
        yield f"nodes/{name}", answer


def _add_answer(out: Any, folder: str, answer: Answer, rows: list[dict[str, Any]]) -> NodeResult:
    """Copy the files of one answer; ``rows`` gets what the manifest says of them."""
    told: dict[str, Any] = {}
    paths: list[str] = []
    error = answer.error
    if answer.stream is not None:
        told, is_whole = _copy(out, folder, answer.stream, paths)
        if not is_whole:
            error = error or ("its answer ends early" if paths else "its answer is no tar archive")
    if error is None and told.get("ended") is None:
        error = "its answer ends early" if paths else "its answer is empty"
    host = told["host"][:_MOST_HOST] if isinstance(told.get("host"), str) else None
    known = {row["path"]: row for row in _dicts(told.get("files")) if isinstance(row.get("path"), str)}
    mine = [_file_row(folder, path, known[path], answer.node, host) for path in paths if path in known]
    rows.extend(mine)
    missing = islice(_dicts(told.get("missing")), _MOST_MISSING)
    return NodeResult(
        name=answer.node,
        host=host,
        ranks=Ranks(row["rank"] for row in mine if row.get("rank") is not None),
        files=len(paths),
        missing=tuple((str(row.get("what", ""))[:300], str(row.get("why", ""))[:600]) for row in missing),
        error=error,
        seconds=round(answer.seconds, 1),
        jobs=jobs_of(_dicts(told.get("processes"))),
    )


def _copy(out: Any, folder: str, answer: Path, paths: list[str]) -> tuple[dict[str, Any], bool]:
    """Copy the files of a stream and note their paths. Returns its last ``node.json``, {} without one, and whether it is whole."""
    told: dict[str, Any] = {}
    newest, is_whole = b"", False
    seen: set[str] = set()
    with answer.open("rb") as stream, contextlib.suppress(tarfile.TarError, EOFError):
        for name, data, is_complete in node_files(stream):
            if name == "node.json":
                read = _parsed(data) if is_complete and len(data) <= 16 << 20 else None
                told, newest = (told, newest) if read is None else (read, data)
            elif _NAME.fullmatch(name) and name not in seen and len(paths) < MOST_MEMBERS:
                seen.add(name)
                _write_member(out, f"{folder}/{name}", data)
                paths.append(name)
        is_whole = True
    if newest:
        _write_member(out, f"{folder}/node.json", newest)
    return told, is_whole


def _parsed(data: bytes) -> dict[str, Any] | None:
    """A document whose top is an object; None for anything else."""
    with contextlib.suppress(ValueError, RecursionError):
        read = json.loads(data)
        return read if isinstance(read, dict) else None
    return None


def _write_member(out: Any, path: str, data: bytes) -> None:
    """Write one file of the bundle, without a time: equal answers give equal bytes."""
    info = tarfile.TarInfo(path)
    info.size = len(data)
    out.write(info.tobuf(tarfile.GNU_FORMAT))
    out.write(data)
    out.write(b"\0" * (-len(data) % tarfile.BLOCKSIZE))


def _file_row(folder: str, path: str, told: dict[str, Any], node: str, host: str | None) -> dict[str, Any]:
    """One row of ``files``: what the node says of the file, as far as it has the right types."""
    row: dict[str, Any] = {"path": f"{folder}/{path}", "node": node, "host": host}
    row |= {key: value[:1000] for key in _TEXTS if isinstance(value := told.get(key), str)}
    row |= {key: value for key in _NUMBERS if type(value := told.get(key)) is int and 0 <= value < 10_000_000}
    return row


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    yield from (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def _manifest(command: str, nodes: list[NodeResult], rows: list[dict[str, Any]]) -> bytes:
    missing = [{"node": node.name, "what": f"node {node.name}", "why": node.error} for node in nodes if node.error]
    missing += [{"node": node.name, "what": what, "why": why} for node in nodes for what, why in node.missing]
    document = {
        "version": VERSION,
        "tool": "nccldoctor collect",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "nodes": [
            {
                "name": node.name,
                "host": node.host,
                "answered": node.has_answered,
                "error": node.error,
                "seconds": node.seconds,
                "ranks": list(node.ranks),
            }
            for node in nodes
        ],
        "files": rows,
        "missing": missing,
    }
    return json.dumps(document, indent=1).encode()
