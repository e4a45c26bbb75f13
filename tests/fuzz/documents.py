"""Fuzzes the JSON documents that other programs than PyTorch's recorder write, field by field: RAS, profilers, stacks, collectors.

python tests/fuzz/documents.py --minutes 10 [--first 0] [--samples ras,clog]

What is odd is unknown: it breaks nothing, makes no verdict high that was not so, and a document that tells nothing any more is named. Every
case follows from its number alone, as in ``fields.py``, whose odd values it takes.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from builders.files.other_recorders import clog, profile
from builders.jobs.nccl_job import Job, comm_dumps, inspector, late, plain, ras_json
from damage.harness import Answer, Files, answer_of, silent, told_by
from damage.kinds import collectors
from fuzz.fields import ODD, Path_, analysis, changed, run_cases

from nccldoctor.cli import demo
from nccldoctor.model import Confidence

WHOLE_FILES = Path(__file__).resolve().parents[1] / "whole_files"

ODD_HERE = (*(value for value in ODD if type(value) is not bytes and value != "\ud800"), 10**400, -(10**400), "1e400")
"""Odd values as JSON can hold them."""


def _stacks() -> Files:
    """Three of four ranks wait in an all-reduce, and rank 2 reads data, as ``py-spy dump --json`` shows them."""
    files: dict[str, bytes] = {}
    for rank in range(4):
        waits = (("all_reduce", "torch/distributed/distributed_c10d.py", 2501), ("step", "/srv/train.py", 40))
        frames = (("read", "/srv/data.py", 7),) if rank == 2 else waits
        told = [{"name": name, "filename": file, "short_filename": file, "line": line} for name, file, line in frames]
        thread = {"pid": 100 + rank, "thread_id": 9, "thread_name": "MainThread", "os_thread_id": 100 + rank}
        thread |= {"active": rank == 2, "owns_gil": False, "frames": told, "process_info": None}
        files[f"stacks/rank_{rank}.json"] = json.dumps([thread]).encode()
    return files


def _sampled() -> Files:
    """The same as speedscope's documents."""
    files: dict[str, bytes] = {}
    for path, content in _stacks().items():
        (thread,) = json.loads(content)
        frames = [{"name": f["name"], "file": f["filename"], "line": f["line"]} for f in thread["frames"][::-1]]
        shown = {"type": "sampled", "name": f'Process {thread["pid"]} Thread 1 "MainThread"', "unit": "seconds"}
        shown |= {"startValue": 0.0, "endValue": 5.0, "samples": [[*range(len(frames))]] * 9, "weights": [0.5] * 9}
        document = {"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": frames}}
        files[path] = json.dumps({**document, "profiles": [shown], "exporter": "py-spy@0.4.0"}).encode()
    return files


def _error_files() -> Files:
    """The file that one worker wrote when it raised, beside the logs of the others."""
    stack = 'Traceback (most recent call last):\n  File "/srv/train.py", line 40, in step\n    x[7]\nKeyError: 7\n'
    told = {"message": "KeyError: 7", "extraInfo": {"py_callstack": stack, "timestamp": "1771270263"}}
    log = b"2026-02-16 19:31:00 step 10 loss 2.1\n2026-02-16 19:31:02 step 11 loss 2.0\n"
    logs = {f"{rank}/stdout.log": log for rank in range(4)}
    return logs | {"2/error.json": json.dumps({"message": told}).encode()}


def _collected(write: Callable[[random.Random, bytes], bytes]) -> Callable[[], Files]:
    """The logs of a job as a collector hands them out."""
    return lambda: {path: write(random.Random(0), data) for path, data in demo.contents("jax-late-start").items()}


def _beside(*paths: str) -> Callable[[], Files]:
    """Documents of other programs beside a job."""
    documents = {path: (WHOLE_FILES / path).read_bytes() for path in paths}
    return lambda: {**demo.contents("missed-call"), **documents}


def _played(write: Callable[[Job], dict[str, Any]]) -> Callable[[], Files]:
    """What NCCL's own observers show of a job in which rank 5 is late."""
    return lambda: {
        path: data if isinstance(data, bytes) else data.encode()
        for path, data in write(Job(8, plain(), fault=late([5])).run(10_000)).items()
    }


def _of_ranks(write: Callable[[int], str], name: str) -> Callable[[], Files]:
    return lambda: {name.format(rank=rank): write(rank).encode() for rank in range(4)}


JOBS: dict[str, Callable[[], Files]] = {
    "ras": _played(lambda job: {f"ras/{n}.json": ras_json(job, f"2026-01-11 10:0{n}:00") for n in (5, 6)}),
    "inspector": _played(lambda job: inspector(job, short=[5])),
    "states": _played(comm_dumps),
    "profiler": _of_ranks(lambda rank: profile(rank, misses=rank == 2), "trace-{rank}.json"),
    "clog": _of_ranks(lambda rank: clog(rank, 4, misses=rank == 2), "clog_{rank}.log"),
    "py-spy": _stacks,
    "speedscope": _sampled,
    "error-file": _error_files,
    "docker": _collected(collectors.docker_json),
    "journal": _collected(collectors.journal_json),
    "loki": _collected(collectors.loki_answer),
    "cloudwatch": _collected(collectors.cloudwatch),
    "elastic": _collected(collectors.elastic),
    "beside": _beside(
        "nccl/torch_profile_rank1.json",
        "kernel/dcgmi-diag.json",
        "training/straggler_report_step_20.json",
    ),
}
"""Jobs with such documents."""


class Case(NamedTuple):
    """A job, its files with one value changed, and what was changed."""

    job: str
    files: Files
    what: str


@cache
def files_of(job: str) -> Files:
    """The files of a job as their programs write them."""
    return JOBS[job]()


def _documents(data: bytes) -> tuple[list[Any], str]:
    """The documents in a file, and what stands between them; none where it holds something else."""
    try:
        return [json.loads(data)], ""
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in data.decode().splitlines()], "\n"
    except ValueError:
        return [], ""


def _places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The places of a document; of a long list the first, the second and the last items stand for all."""
    if path:
        yield path
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else sorted({*range(len(value))[:2], *range(len(value))[-1:]})
        for key in keys:
            yield from _places(value[key], (*path, key))


def _with_odd_token(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    """A text of fields between bars with another value in one field."""
    lines = data.decode().split("\n")
    at = rng.randrange(len(lines) - 1)
    fields = lines[at].split("|")
    place = rng.randrange(len(fields))
    name, is_named, _ = fields[place].partition("=")
    value = str(rng.choice(ODD_HERE))[:400]
    fields[place] = f"{name}={value}" if is_named else value
    lines[at] = "|".join(fields)
    return "\n".join(lines).encode("utf-8", "replace"), f"line {at + 1}: {lines[at][:150]}"


def case_of(number: int, jobs: tuple[str, ...] = tuple(JOBS)) -> Case:
    """The case of a number."""
    rng = random.Random(number)
    job = rng.choice(jobs)
    files = dict(files_of(job))
    is_of_states = job == "states"
    changeable = [path for path, data in files.items() if is_of_states or data[:2] == b"V|" or _documents(data)[0]]
    name = rng.choice(sorted(changeable))
    if files[name][:2] == b"V|":
        files[name], what = _with_odd_token(rng, files[name])
        return Case(job, files, f"{job}/{name}: {what}")
    if is_of_states:
        files[name], what = _with_odd_state(rng, files[name])
        return Case(job, files, f"{job}/{name}: {what}")
    documents, between = _documents(files[name])
    at, value = rng.randrange(len(documents)), rng.choice(ODD_HERE)
    by_field: dict[Path_, list[Path_]] = {}
    for path in _places(documents[at]):
        by_field.setdefault(tuple("*" if type(key) is int else key for key in path), []).append(path)
    place = rng.choice(by_field[rng.choice(sorted(by_field, key=str))])
    documents[at] = changed(documents[at], place, value, in_all=False)
    files[name] = between.join(map(json.dumps, documents)).encode()
    return Case(job, files, f"{job}/{name}: document {at + 1}, {place} = {value!r}"[:300])


def _with_odd_state(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    """A recorder dump with another value in what NCCL itself dumped of a communicator, whose fields are JSON in texts."""
    dump = pickle.loads(data)  # our own
    name = rng.choice(sorted(dump["nccl_comm_state"]))
    state = dump["nccl_comm_state"][name]
    field, value = rng.choice(sorted(state)), rng.choice(ODD_HERE)
    told = json.loads(state[field])
    places = list(_places(told))
    place = rng.choice(places) if places else ()
    state[field] = json.dumps(changed(told, place, value, in_all=False) if place else value)
    return pickle.dumps(dump, 2), f"{field} {place} = {value!r}"[:200]


@cache
def untouched(job: str) -> Answer:
    """What is said of a job as its programs wrote it."""
    return answer_of(told_by(analysis(files_of(job)), files_of(job)))


def failures(case: Case) -> list[str]:
    """What is wrong with the analysis of a case."""
    before = untouched(case.job)
    try:
        incident = analysis(case.files)
        after = answer_of(told_by(incident, case.files))
    except Exception:
        return [traceback.format_exc()]
    high, verdict = Confidence.HIGH.value, incident.verdict
    found = list(after.broken)
    found += [f"{path} tells nothing" for path in silent(files_of(case.job), case.files, before, after)]
    if after.in_ranks == high and (before.in_ranks != high or after.ranks != before.ranks):
        found.append(f"ranks {before.ranks} -> {after.ranks}, high: {verdict.headline}")
    if after.in_class == high and (before.in_class != high or after.cause != before.cause):
        found.append(f"{before.cause} -> {after.cause}, high: {verdict.headline}")
    if after.cause == "none" != before.cause:
        found.append(f"all clear: {verdict.headline}")
    return found


if __name__ == "__main__":
    sys.exit(run_cases(case_of, failures, tuple(JOBS), __doc__))
