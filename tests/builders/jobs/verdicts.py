"""Jobs put before the whole pipeline, and what every verdict must keep to, whatever it says."""

from __future__ import annotations

import json
import pickle
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from builders.logs.lines import caught
from simulator import jobs

import nccldoctor
from nccldoctor.model.ranks import Ranks

SCALE = ("cannot-tell", "low", "medium", "high")

WHOLE: dict[str, Any] = {
    "evidence": "fr+log",
    "era": "2.9",
    "layout": "ddp",
    "nodes": 1,
    "gpus": 8,
    "launcher": "torchrun",
    "files": "per_rank",
    "progress": "logger",
    "step": 120,
    "ring": 500,
    "noise": 3,
    "timeout_ms": 600_000,
    "sub_timeout_ms": 600_000,
    "only_active": False,
    "dump_json": False,
    "recorder_on": True,
    "dump_on": True,
    "desync": False,
    "nccl_info": False,
    "restarted": False,
    "spliced": False,
    "cut": False,
    "stacks": 0,
    "lost_launcher": False,
    "lost_dumps": (),
    "torn_dumps": (),
    "lost_logs": (),
}
"""Everything was kept, nothing is odd."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The published result, what is true where the job was played, and the files that were read."""

    document: dict[str, Any]
    truth: dict[str, Any]
    files: dict[str, str | bytes]

    @property
    def verdict(self) -> dict[str, Any]:
        verdict: dict[str, Any] = self.document["verdict"]
        return verdict

    @property
    def cause(self) -> str:
        return str(self.verdict["class"])

    @property
    def ranks(self) -> str:
        return str(self.verdict["ranks"])

    @property
    def at(self) -> tuple[str | None, int | None]:
        stalled = self.verdict["stalled"] or {}
        return stalled.get("op"), stalled.get("seq")

    @property
    def sure(self) -> int:
        return SCALE.index(self.verdict["confidence"])

    @property
    def blamed(self) -> set[int]:
        return {rank for finding in self.document["findings"] for rank in Ranks.parse(finding["ranks"])}

    def __str__(self) -> str:
        return f"{self.ranks!r} {self.cause} ({self.verdict['confidence']}) at {self.at}: {self.verdict['headline']}"


def read(files: dict[str, str | bytes], truth: dict[str, Any] | None = None) -> Ruling:
    """Analyse these files; places and ranks of the answer are checked here, for every test alike."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        jobs.write_files(folder, files)
        found = Ruling(json.loads(nccldoctor.analyze(folder).to_json()), truth or {}, files)
    check(found)
    return found


@cache
def _played(scenario: str, seed: int, knobs: tuple[tuple[str, Any], ...]) -> Ruling:
    job = jobs.make(seed, scenario=scenario, **dict(knobs))
    return read(job.files, job.truth)


def job(scenario: str, seed: int = 2, without: tuple[str, ...] = (), **knobs: Any) -> jobs.Job:
    """A job whose files are all there unless ``knobs`` say otherwise; ``without`` leaves knobs to the seed."""
    needs = jobs.SCENARIOS[scenario].needs
    keep = {k: v for k, v in WHOLE.items() if k not in needs and k not in without}
    if "at_checkpoint" in needs:
        keep.pop("step")
    return jobs.make(seed, scenario=scenario, **{**keep, **knobs})


def play(scenario: str, seed: int = 2, without: tuple[str, ...] = (), **knobs: Any) -> Ruling:
    """The verdict about such a job."""
    needs = jobs.SCENARIOS[scenario].needs
    keep = {k: v for k, v in WHOLE.items() if k not in needs and k not in without}
    if "at_checkpoint" in needs:
        keep.pop("step")
    return _played(scenario, seed, tuple(sorted({**keep, **knobs}.items())))


def check(ruling: Ruling) -> None:
    """Evidence names places that exist and quotes what stands there; nobody is culprit and victim at once."""
    for finding in ruling.document["findings"]:
        assert finding["evidence"], finding
        for item in finding["evidence"]:
            if item["where"] is not None:
                stands(ruling.files, item["where"], item["quote"])
        blamed, victims = Ranks.parse(finding["ranks"]), Ranks.parse(finding["victims"])
        assert not blamed & victims, f"culprit and victim: {blamed & victims}"
        assert not blamed & Ranks.parse(finding["suspects"])
        if finding["confidence"] == "high":
            assert len(finding["evidence"]) >= 2, "high needs two observers"
        world_size = ruling.document["job"]["world_size"]
        if world_size is not None:
            assert blamed <= set(range(world_size)), f"no rank of this job: {blamed}"


def stands(files: dict[str, str | bytes], where: str, quote: str) -> None:
    """The place is in the files, and the quote stands there."""
    if "#entries[" in where:
        path, _, index = where.removesuffix("]").partition("#entries[")
        content = files[path]
        assert isinstance(content, bytes)
        loaded = json.loads(content) if content[:1] == b"{" else pickle.loads(content)  # the test's own dump
        entries = loaded if isinstance(loaded, list) else loaded["entries"]
        assert int(index) < len(entries), where
        return
    path, _, line = where.rpartition(":")
    if where in files:
        return
    content = files[path]
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    lines = text.split("\n")
    assert 1 <= int(line) <= len(lines), where
    near = " ".join(lines[max(0, int(line) - 9) : int(line) + 8])  # a quote may join the rows of one record
    for word in quote.strip("… ")[:80].split()[:-1]:
        assert word.rstrip(":") in near, f"{where} does not say {word!r} of {quote[:80]!r}"


def right(ruling: Ruling, *, least: str = "high") -> None:
    """Class, ranks and call are the true ones, and it is said with at least that confidence."""
    truth, told = ruling.truth, str(ruling)
    assert ruling.cause == truth["class"], told
    wanted = [truth["culprit_ranks"], *truth["acceptable_rank_sets"]]
    assert sorted(Ranks.parse(ruling.ranks)) in wanted, told
    assert ruling.sure >= SCALE.index(least), told
    if truth["hang"] and truth["stalled"]:
        assert ruling.at[1] in truth["stalled"]["seqs"], told
        assert ruling.at[0] == truth["stalled"]["op"], told


def innocent(ruling: Ruling) -> None:
    """No finding names anybody who is not at fault."""
    allowed = set(ruling.truth["culprit_ranks"]).union(*ruling.truth["acceptable_rank_sets"])
    assert ruling.blamed <= allowed, str(ruling)


# --- lines of torch 2.9, by hand -------------------------------------------------------------------------------


def gave_up(
    rank: int,
    seq: int,
    op: str = "ALLREDUCE",
    numel: int = 4096,
    *,
    at: str = "10:10:00",
    completed: int | None = None,
    enqueued: int | None = None,
) -> str:
    """A watchdog's two lines about a call of the default group that timed out."""
    head = f"[rank{rank}]:[E111 {at}.{rank:09d} ProcessGroupNCCL.cpp"
    return (
        f"{head}:683] {caught(rank, seq, op, numel=numel)}\n"
        f"{head}:2252] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: "
        f"{seq} PG status: last enqueued work: {seq if enqueued is None else enqueued}, last completed work: "
        f"{seq - 1 if completed is None else completed}\n"
    )


def taken_down(rank: int, seq: int, op: str = "ALLREDUCE", numel: int = 4096, *, at: str = "10:11:00") -> str:
    """The last lines of a process whose watchdog aborts it."""
    return (
        f"[rank{rank}]:[E111 {at}.{rank:09d} ProcessGroupNCCL.cpp:750] [Rank {rank}] To avoid data inconsistency, we "
        "are taking the entire process down.\n"
        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
        f"  what():  [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with "
        f"exception: {caught(rank, seq, op, numel=numel)}\n"
    )


def told_to_dump(rank: int, by: int, done: int, *, at: str = "10:10:01") -> str:
    """A rank whose monitor answers the dump signal of another."""
    return (
        f"[rank{rank}]:[E111 {at}.{rank:09d} ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        f"Received a dump signal due to a collective timeout from  rank {by} and we will try our best to dump the "
        f"debug info. Last enqueued NCCL work: {done}, last completed NCCL work: {done}.This is most likely caused by "
        "incorrect usages of collectives\n"
    )


def torchrun(failed: int, code: int, others: dict[int, int], *, at: str = "10:11:01", host: str = "node0") -> str:
    """The launcher's lines and table: ``failed`` ended first, ``others`` (rank: exit code) afterwards."""
    pid = 4000
    api = f"W0101 {at}.100000 3900 torch/distributed/elastic/multiprocessing/api.py"
    asked = [r for r, c in sorted(others.items()) if c in (-15, -9)]
    lines = [f"{api}:900] Sending process {pid + r} closing signal SIGTERM" for r in asked]
    lines += [
        f"{api}:919] Unable to shutdown process {pid + r} via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL"
        for r in asked
        if others[r] == -9
    ]
    lines += [
        f"E0101 {at}.900000 3900 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {code}) "
        f"local_rank: {failed} (pid: {pid + failed}) of binary: /usr/bin/python3.11",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "train.py FAILED",
        "-" * 60,
        "Failures:",
    ]
    for index, (rank, end) in enumerate(sorted(others.items()), start=1):
        lines += _row(index, rank, end, pid, at, host)
    lines += ["-" * 60, "Root Cause (first observed failure):", *_row(0, failed, code, pid, at, host), "=" * 60]
    return "\n".join(lines) + "\n"


def _row(index: int, rank: int, code: int, pid: int, at: str, host: str) -> list[str]:
    names = {-6: "SIGABRT", -9: "SIGKILL", -11: "SIGSEGV", -15: "SIGTERM"}
    signal = f"Signal {-code} ({names.get(code)}) received by PID {pid + rank}"
    return [
        f"[{index}]:",
        f"  time      : 2026-01-01_{at}",
        f"  host      : {host}",
        f"  rank      : {rank} (local_rank: {rank})",
        f"  exitcode  : {code} (pid: {pid + rank})",
        "  error_file: <N/A>",
        f"  traceback : {signal if code < 0 else 'To enable traceback see: docs'}",
    ]


def raised(rank: int, kind: str, message: str) -> str:
    """A traceback as the interpreter prints it, with the prefix of that rank."""
    rows = (
        "Traceback (most recent call last):",
        '  File "/srv/job/train.py", line 88, in <module>',
        "    main()",
        '  File "/srv/job/train.py", line 61, in main',
        "    loss = step(batch)",
        f"{kind}: {message}",
    )
    return "".join(f"[rank{rank}]: {row}\n" for row in rows)


def step_line(rank: int, step: int, at: str) -> str:
    """A progress line of a training script."""
    return f"2026-01-01 {at},000 - trainer - INFO - rank {rank} step {step} loss 2.31\n"
