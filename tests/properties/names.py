"""Names mean nothing: ranks exchanged, hosts renamed and numbers of calls shifted move the verdict likewise."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from damage.kinds.registry import Files, NotApplicable, is_dump, load
from properties.jobs import Job
from properties.verdicts import Pair

NEW_HOSTS = ("kestrel", "avocet", "merlin", "plover", "dunlin", "godwit", "curlew", "whimbrel")

_GLOBAL = re.compile(rb'(?i)((?<![a-z_])rank(?:"?\s{0,8}[:= ]?\s{0,2}|_))(\d{1,4})(?![\d.])')
_LOCAL = re.compile(
    rb'(?i)(local_rank"?\s{0,8}[:= ]\s{0,2}|\[default|cudaDev |nvmlDev |:\d+ \[(?=\d+\] NCCL))(\d{1,4})(?!\d)'
)
_LABEL = re.compile(rb"(?m)^( {0,3})(\d{1,3})(?=: )")
_TASK = re.compile(rb"(task )(\d{1,4})(?=:)")
_FILE = re.compile(
    r"((?:(?<!local_)rank|trace|worker|job|fr|dump|stacks?|default)[_.-]?)(\d{1,4})(?!\d)|(attempt_0/|pyspy_\d/)(\d{1,4})(?=[/.])"
)
_LISTS = re.compile(
    rb"(?i)ranks?[^\n\[]{0,30}\[\d+(?:, \d+| - \d+)|(?<![\w.])\[\d+(?:, ?\d+)+\]|tasks \d|finished collective|lagging|ranks? \d+[-,]|ranks "
)
_OTHER_GROUP = re.compile(rb"PG (?:ID )?[1-9]\d*[ (]|PG [0-9a-f]{12}")

_NUMBER = re.compile(
    rb"(SeqNum=|last (?:enqueued|completed|started)(?: NCCL)? work: |(?:NCCL work|at work|sequence id): |"
    rb"last (?:enqueued|completed) collective: )(-?\d+)"
)
SHIFT = 4096


def pairs(rng: Random, job: Job) -> Iterator[Pair]:
    """Each change of names that the files allow."""
    with suppress(NotApplicable):
        yield _permuted(rng, job)
    with suppress(NotApplicable):
        yield _renamed(rng, job)
    with suppress(NotApplicable):
        yield _shifted(job)


def _permuted(rng: Random, job: Job) -> Pair:
    """Ranks exchanged in the same way on every host; the first of each host keeps its place, since rank 0 has duties."""
    size = len(next(iter(job.hosts.values()), []))
    if size < 3 or any(len(ranks) != size for ranks in job.hosts.values()) or not _has_one_group(job):
        raise NotApplicable
    local = dict(enumerate([0, *rng.sample(range(1, size), size - 1)]))
    if all(a == b for a, b in local.items()):
        local = {**local, 1: 2, 2: 1}
    whole = {rank: rank - rank % size + local[rank % size] for ranks in job.hosts.values() for rank in ranks}
    if any(_LISTS.search(job.files[path]) for path in job.files if not is_dump(job.files[path])):
        raise NotApplicable
    files: Files = {}
    for path, content in job.files.items():
        names = local if re.search(r"attempt_0/\d", path) and len(job.hosts) > 1 else whole
        files[_FILE.sub(lambda hit, n=names: _moved_name(hit, n), path)] = (
            content if is_dump(content) else _moved_text(content, whole, local)
        )
    if len(files) != len(job.files):
        raise NotApplicable
    sets = job.truth.rank_sets
    truth = (
        job.truth if sets is None else replace(job.truth, rank_sets=tuple(frozenset(whole[r] for r in s) for s in sets))
    )
    return Pair("ranks exchanged", files, truth, moved=whole)


def _has_one_group(job: Job) -> bool:
    for content in job.files.values():
        if not is_dump(content):
            if _OTHER_GROUP.search(content):
                return False
            continue
        groups = load(content).get("pg_config", {}) if isinstance(load(content), dict) else {}
        if len(groups) > 1 or b"nccl:send" in content or b"nccl:recv" in content:
            return False
    made = job.made
    shape = getattr(getattr(made, "knobs", None), "layout", "") or getattr(getattr(made, "plan", None), "shape", "ddp")
    return shape in ("ddp", "fsdp")


def _moved_name(hit: re.Match[str], names: dict[int, int]) -> str:
    front, number = (hit[1], hit[2]) if hit[2] else (hit[3], hit[4])
    return f"{front}{names.get(int(number), int(number))}"


def _moved_text(text: bytes, whole: dict[int, int], local: dict[int, int]) -> bytes:
    def by(names: dict[int, int]) -> Any:
        return lambda hit: hit[1] + b"%d" % names.get(int(hit[2]), int(hit[2]))

    text = _LOCAL.sub(by(local), _GLOBAL.sub(by(whole), _TASK.sub(by(whole), text)))
    if len(_LABEL.findall(text)) * 2 < text.count(b"\n"):
        return text
    width = len(str(max(whole)))
    return _LABEL.sub(lambda hit: b"%*d" % (width, whole.get(int(hit[2]), int(hit[2]))), text)


def _renamed(rng: Random, job: Job) -> Pair:
    """Hosts with names in another order."""
    olds = sorted(job.hosts, key=len, reverse=True)
    if not olds or len(olds) > len(NEW_HOSTS):
        raise NotApplicable
    names = dict(zip(olds, rng.sample(NEW_HOSTS, len(olds)), strict=True))
    stem = re.match(r"\D*", olds[0])
    if stem and any(stem[0].encode() + b"[" in content for content in job.files.values()):
        raise NotApplicable  # a list like node[1-4]
    any_host = re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(map(re.escape, olds)) + r")(?![A-Za-z0-9])")
    of_bytes = re.compile(any_host.pattern.encode())
    files = {
        any_host.sub(lambda hit: names[hit[0]], path): content
        if is_dump(content)
        else of_bytes.sub(lambda hit: names[hit[0].decode()].encode(), content)
        for path, content in job.files.items()
    }
    if files == job.files or len(files) != len(job.files):
        raise NotApplicable
    return Pair("hosts renamed", files, job.truth)


def _shifted(job: Job) -> Pair:
    """The numbers of all calls higher by 4,096; a job that has only begun is left, for its first numbers mean something."""
    numbers = [
        int(hit[2]) for content in job.files.values() if not is_dump(content) for hit in _NUMBER.finditer(content)
    ]
    loaded = {path: load(content) for path, content in job.files.items() if is_dump(content)}
    numbers += [value for dump in loaded.values() for value in _numbers(dump)]
    if not numbers or min(numbers) < 20:
        raise NotApplicable
    if any(b"collective #" in content or b"- [" in content for content in job.files.values() if not is_dump(content)):
        raise NotApplicable  # a report of the desync debugger counts in words of its own
    files: Files = {}
    for path, content in job.files.items():
        if path in loaded:
            dump = _raised(loaded[path])
            files[path] = pickle.dumps(dump, protocol=2) if content[:1] == b"\x80" else json.dumps(dump).encode()
        else:
            files[path] = _NUMBER.sub(lambda hit: hit[1] + b"%d" % (int(hit[2]) + SHIFT), content)
    return Pair("numbers of calls shifted", files, job.truth)


_COUNTED = (
    "collective_seq_id",
    "p2p_seq_id",
    "seq_id",
    "last_enqueued_collective",
    "last_started_collective",
    "last_completed_collective",
)


def _is_number(key: object, value: object) -> bool:
    return key in _COUNTED and not isinstance(value, bool) and str(value).isdigit()


def _numbers(dump: Any) -> Iterator[int]:
    if isinstance(dump, dict):
        for key, value in dump.items():
            if _is_number(key, value) and not (str(key).startswith("p2p") and not value):
                yield int(value)
            else:
                yield from _numbers(value)
    elif isinstance(dump, list):
        for value in dump:
            yield from _numbers(value)


def _raised(dump: Any) -> Any:
    if isinstance(dump, dict):
        return {
            key: type(value)(int(value) + SHIFT) if _is_number(key, value) and int(value) else _raised(value)
            for key, value in dump.items()
        }
    return [_raised(value) for value in dump] if isinstance(dump, list) else dump
