"""Reads the manifest of a bundle: whose each file is, what it is, and what is missing.

A manifest comes from a stranger like every input. It only says of files what their names could say as well: paths lead to members of
the same bundle alone, numbers and texts have bounds, and lines inside a file still overrule it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.discover.paths import printable
from nccldoctor.model import CollectedFile, Gap, SourceKind
from nccldoctor.model.hosts import JobHere, chosen_job, jobs_of, merged
from nccldoctor.model.ranks import Ranks

NAMES = ("manifest.json", "node.json")
"""The documents of a bundle, and of the answer of one node: the manifest is believed before the node."""

TOOLS = ("nccldoctor collect", "nccldoctor on_node")

_MOST = 64 << 20
"""Bytes of a manifest that are read."""

_MOST_TOLD = 40
"""Gaps that one manifest gives; the rest are counted."""

_KERNEL_LOG, _STACK = "kernel log", "stack"

_NO_DIGITS = str.maketrans("", "", "0123456789")


class Draft(Struct):
    """An input without number and hints; ``hint_name`` is the path from which hints are read."""

    path: str
    hint_name: str
    size: int
    kind: SourceKind
    head: bytes
    open: Callable[[], BinaryIO]
    file: Path | None = None
    lane: int = 0
    turn: int = 0


class Bundled(Struct, frozen=True):
    """What manifests say of files, by their paths; ``left_out`` are inputs that no parser reads."""

    files: Mapping[str, CollectedFile] = {}
    left_out: frozenset[str] = frozenset()
    gaps: tuple[Gap, ...] = ()


def read_manifests(drafts: Sequence[Draft]) -> Bundled:
    """The manifests among the inputs, and what they say of the others."""
    files: dict[str, CollectedFile] = {}
    left_out: set[str] = set()
    gaps: list[Gap] = []
    jobs: list[JobHere] = []
    paths = {draft.path for draft in drafts}
    found = [
        draft
        for draft in drafts
        if draft.path.rpartition("/")[2] in NAMES and any(f'"{tool}"'.encode() in draft.head[:4096] for tool in TOOLS)
    ]
    # the documents of nodes first: what the manifest above them says counts
    for draft in sorted(found, key=lambda draft: -NAMES.index(draft.path.rpartition("/")[2])):
        left_out.add(draft.path)
        document = _document(draft)
        if document is None:
            gaps.append(Gap(draft.path, "a damaged manifest: files are told apart by their names", lost=True))
            continue
        jobs += jobs_of(_objects(document, "processes"))
        folder = draft.path.rpartition("/")[0]
        told = _files(document, f"{folder}/" if folder else "")
        files |= {path: file for path, file in told if path in paths}
        is_bundle = document.get("tool") == TOOLS[0]
        if is_bundle or not any(other is not draft and _is_above(other.path, draft.path) for other in found):
            gaps.extend(_gaps(document))
    for others, about in (_of_other_jobs(files, jobs), _of_no_job(files)):
        left_out |= others
        gaps += about
    gaps += _without_doubled_ranks(files, left_out)
    # people read these beside a report; no parser does
    left_out |= {path for path, file in files.items() if file.kind in ("threads", "node")}
    return Bundled(files, frozenset(left_out), tuple(gaps))


def _of_other_jobs(told: Mapping[str, CollectedFile], seen: Iterable[JobHere]) -> tuple[set[str], list[Gap]]:
    """The files of all jobs but the chosen one, and a gap for each of them.

    Two jobs share the nodes: each has a rank 0, and the waits of one say nothing of the other.
    """
    ranks: dict[str, set[int]] = defaultdict(set)
    for file in told.values():
        if file.job and file.rank is not None:
            ranks[file.job].add(file.rank)
    running = {job.name: job.running for job in merged(seen)}
    chosen = chosen_job([JobHere(job, Ranks(ranks[job]), running.get(job, ())) for job in ranks])
    name = chosen.name if chosen is not None else ""
    others = {path for path, file in told.items() if file.job in ranks and file.job != name}
    why = f"left out, because several jobs ran here, and this report is about the one with {name}; --where names another one"
    return others, [
        Gap(f"files of the job with {job}", why, apart=True, beside=True) for job in sorted(ranks) if job != name
    ]


def _doubled_ranks(told: Mapping[str, CollectedFile]) -> Iterator[tuple[int, Mapping[tuple[str, int], Sequence[str]]]]:
    """Each rank that several processes say they are, with the files of each process.

    Anybody can start a process with ``RANK=3``, and a process of an earlier run may be left.
    """
    claims: dict[tuple[str, int], dict[tuple[str, int], list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, file in told.items():
        pid = file.pid if file.parent is None else file.parent
        if file.rank is not None and pid is not None:
            claims[file.job, file.rank][file.host or "", pid].append(path)
    yield from ((rank, claims[job, rank]) for job, rank in sorted(claims) if len(claims[job, rank]) > 1)


def _without_doubled_ranks(files: dict[str, CollectedFile], left_out: set[str]) -> Iterator[Gap]:
    """Let none of several processes speak for the rank that each says it is.

    Their stacks are those of processes without a rank; their other files are not read.
    """
    told = {path: file for path, file in files.items() if path not in left_out}
    for rank, processes in list(_doubled_ranks(told)):
        for path in (path for paths in processes.values() for path in paths):
            files[path] = replace(files[path], rank=None, local_rank=None)
            if files[path].kind != _STACK:
                left_out.add(path)
        said = f"{len(processes)} processes say that they are it ({_shown_processes(processes)}), and we believe none of them"
        yield Gap(f"which process is rank {rank}", f"{said}: name one with --pid or --where", lost=True)


def _shown_processes(processes: Iterable[tuple[str, int]]) -> str:
    shown = sorted(processes)
    named = ", ".join(f"pid {pid} on {host}" if host else f"pid {pid}" for host, pid in shown[:3])
    return named + (", …" if len(shown) > 3 else "")


def _of_no_job(told: Mapping[str, CollectedFile]) -> tuple[set[str], list[Gap]]:
    """The kernel logs, where no process of the job was found on any node."""
    if any(file.pid is not None for file in told.values()):
        return set(), []
    kernel = {path for path, file in told.items() if file.kind == _KERNEL_LOG}
    why = "no process of the job was found, so we can't tell which messages are of it"
    return kernel, [Gap(path, why) for path in sorted(kernel)]


def _is_above(manifest: str, path: str) -> bool:
    folder, _, name = manifest.rpartition("/")
    return name == NAMES[0] and path.startswith(f"{folder}/" if folder else "")


def _document(draft: Draft) -> dict[str, Any] | None:
    with draft.open() as stream:
        data = stream.read(_MOST + 1)
    try:
        document = json.loads(data) if len(data) <= _MOST else None
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and document.get("version") == 1 else None


def _objects(document: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    rows = document.get(key)
    yield from (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()


def _files(document: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, CollectedFile]]:
    default = _bounded_text(document, "host", 255)
    for row in _objects(document, "files"):
        path = _bounded_text(row, "path", 1000)
        if path is not None:
            yield (
                f"{prefix}{path}",
                CollectedFile(
                    kind=_bounded_text(row, "kind", 40) or "",
                    host=_bounded_text(row, "host", 255) or _bounded_text(row, "node", 255) or default,
                    rank=_bounded_number(row, "rank"),
                    local_rank=_bounded_number(row, "local_rank"),
                    pid=_bounded_number(row, "pid"),
                    parent=_bounded_number(row, "of"),
                    look=_bounded_number(row, "look"),
                    taken=_time(row),
                    job=_bounded_text(row, "job", 500) or "",
                    grown=_bounded_number(row, "grown"),
                    lines=_bounded_number(row, "lines"),
                ),
            )


def _bounded_text(row: Mapping[str, Any], key: str, most: int) -> str | None:
    value = row.get(key)
    return printable(value[:most]).strip() or None if isinstance(value, str) else None


def _bounded_number(row: Mapping[str, Any], key: str) -> int | None:
    value = row.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10_000_000 else None


def _time(row: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(_bounded_text(row, "time", 40) or "")
    except (ValueError, OverflowError):
        return None


def _gaps(document: Mapping[str, Any]) -> Iterator[Gap]:
    """Nodes that gave nothing or not all may hold anything; of the others, what they could not get."""
    silent = [row for row in _objects(document, "nodes") if row.get("error")]
    for row in silent[:_MOST_TOLD]:
        node = _bounded_text(row, "name", 255) or "a node"
        what = f"the rest of node {node}" if row.get("answered") is True else f"node {node}"
        yield Gap(what, f"the collector got no answer: {_bounded_text(row, 'error', 300) or 'unknown'}", lost=True)
    if len(silent) > _MOST_TOLD:
        yield Gap(f"{len(silent) - _MOST_TOLD} more nodes", "the collector got no answer", lost=True)
    nodes = {_bounded_text(row, "name", 255) for row in silent}
    missing: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in _objects(document, "missing"):
        thing, why, of = (
            _bounded_text(row, "what", 300),
            _bounded_text(row, "why", 600),
            _bounded_text(row, "node", 255),
        )
        if thing and why and not (of in nodes and thing == f"node {of}"):
            missing[why.translate(_NO_DIGITS)].append((f"{thing} ({of})" if of else thing, why))
    for count, things in enumerate(missing.values()):
        if count == _MOST_TOLD:
            yield Gap(f"{len(missing) - _MOST_TOLD} more things", "the collector could not get them")
            return
        named = [thing for thing, _ in things[:3]]
        yield Gap(", ".join(named) + (f" and {len(things) - 3} more" if len(things) > 3 else ""), things[0][1])
