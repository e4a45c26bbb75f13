"""Simulates a small job on NCCL communicators, with its RAS reports, COLL lines and communicator dumps.

It plays the program on every rank: launches do not wait, a host waits where its program reads a result. Formats are those of NVIDIA/nccl
``src/ras/client_support.cc`` (v2.28.9, v2.30.7) and ``src/enqueue.cc``, and of torchcomms' ``commDump.cc``.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

WAIT = "wait"
"""A place in the program where the host waits for everything it launched."""

COUNTED = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
"""What RAS counts."""

TYPES = {"int8": 0, "int64": 4, "fp16": 6, "fp32": 7, "bf16": 9}
DTYPES = {
    "int8": "ncclInt8",
    "int64": "ncclInt64",
    "fp16": "ncclFloat16",
    "fp32": "ncclFloat32",
    "bf16": "ncclBfloat16",
}


@dataclass(frozen=True)
class Comm:
    """A communicator: its id, and its members in the order of their ranks inside."""

    name: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """One call of one rank."""

    comm: Comm
    op: str = "AllReduce"
    count: int = 4096
    dtype: str = "fp32"


Item = Launch | str
Fault = Callable[[int, int, list[Item]], list[Item]]
"""Changes what a rank does in a step: (rank, step, its items) to its items."""


@dataclass
class Rank:
    """The progress of one rank through its program."""

    todo: list[Item]
    launched: list[Launch] = field(default_factory=list)
    at: int = 0


class Job:
    """``steps`` steps of the program on every rank, with a fault."""

    def __init__(
        self, size: int, step: Callable[[int], list[Item]], steps: int = 20, fault: Fault | None = None
    ) -> None:
        self.size = size
        self.ranks = [Rank([]) for _ in range(size)]
        for number in range(steps):
            for rank, state in enumerate(self.ranks):
                items = step(rank)
                state.todo += fault(rank, number, items) if fault else items

    def run(self, turns: int = 10_000) -> Job:
        """Let every rank do one thing after the other; a rank whose program ends early hangs there."""
        for _ in range(turns):
            moved = [self._turn(rank) for rank in self.ranks]
            if True not in moved:
                break
        return self

    def _turn(self, rank: Rank) -> bool:
        if rank.at >= len(rank.todo) or rank.todo[rank.at] == "stop":
            return False
        item = rank.todo[rank.at]
        if isinstance(item, Launch):
            rank.launched.append(item)
        elif not self._finished(rank):
            return False
        rank.at += 1
        return True

    def _finished(self, rank: Rank) -> bool:
        """True when all members have launched the same calls as this rank."""
        return all(self.first_open(rank, comm) is None for comm in {one.comm for one in rank.launched})

    def first_open(self, rank: Rank, comm: Comm) -> int | None:
        """The number of a rank's first call on a communicator that cannot end."""
        calls = [self.on(self.ranks[r], comm) for r in comm.members]
        for number, mine in enumerate(self.on(rank, comm)):
            if any(len(theirs) <= number or theirs[number] != mine for theirs in calls):
                return number
        return None

    @staticmethod
    def on(rank: Rank, comm: Comm) -> list[Launch]:
        """The launches of a rank on a communicator."""
        return [one for one in rank.launched if one.comm == comm]

    def comms(self) -> list[Comm]:
        """All communicators, the largest first."""
        found = {item.comm for rank in self.ranks for item in rank.todo if isinstance(item, Launch)}
        return sorted(found, key=lambda c: (-len(c.members), c.name))


def world(size: int, name: str = "0x78db921d1c117b4a") -> Comm:
    """The communicator of the whole job."""
    return Comm(name, tuple(range(size)))


def pair_of(rank: int) -> Comm:
    """A tensor-parallel pair."""
    first = rank // 2 * 2
    return Comm(f"0xaa{first:02x}", (first, first + 1))


def plain(size: int = 8) -> Callable[[int], list[Item]]:
    """Steps of two reductions and a gather in the whole job, and a wait."""
    whole = world(size)
    return lambda rank: [Launch(whole), Launch(whole, "AllGather", 512), Launch(whole, count=1), WAIT]


def in_pairs(size: int = 8) -> Callable[[int], list[Item]]:
    """Steps of tensor-parallel pairs inside a job that reduces its gradients together."""
    whole = world(size)
    return lambda rank: [
        Launch(pair_of(rank), count=64),
        WAIT,
        Launch(pair_of(rank), "AllGather", 64),
        Launch(whole),
        WAIT,
    ]


def late(who: Iterable[int], step: int = 9, after: int = 1) -> Fault:
    """Ranks that stop within a step, behind so many items of it."""
    return lambda rank, now, items: [*items[:after], "stop"] if rank in who and now == step else items


def skips(who: int, step: int = 9, item: int = 0) -> Fault:
    """A rank that leaves out one item of a step."""
    return lambda rank, now, items: [*items[:item], *items[item + 1 :]] if rank == who and now == step else items


def instead(who: int, launch: Launch, step: int = 9, item: int = 0) -> Fault:
    """A rank that launches something else in the place of one item."""
    return lambda rank, now, items: [*items[:item], launch, *items[item + 1 :]] if (rank, now) == (who, step) else items


# --- RAS ---------------------------------------------------------------------------------------------------------


def host(rank: int) -> str:
    """The node of a rank, as RAS names it."""
    return f"10.0.0.{11 + rank // 4}"


def pid(rank: int) -> int:
    """The process of a rank."""
    return 7000 + rank


def _counts(job: Job, rank: int, comm: Comm) -> dict[str, int]:
    found = Counter(one.op for one in job.on(job.ranks[rank], comm))
    return {op: found[op] for op in COUNTED}


def ras_json(job: Job, at: str, silent: Sequence[int] = (), dead: Sequence[int] = ()) -> str:
    """One report in JSON."""
    comms = []
    for comm in job.comms():
        seats = [
            {"rank": n, "host": host(r), "pid": pid(r), "cuda_dev": r % 4, "nvml_dev": r % 4}
            for n, r in enumerate(comm.members)
        ]
        lost = [n for n, r in enumerate(comm.members) if r in (*silent, *dead)]
        status = {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
        }
        comms.append(
            {
                "hash": comm.name,
                "secondary_hash": "0x1:0x2",
                "size": len(comm.members),
                "ranks_count": len(seats) - len(lost),
                "missing_ranks_count": len(lost),
                "ranks": [
                    seat | {"status": status, "collective_counts": _counts(job, comm.members[n], comm)}
                    for n, seat in enumerate(seats)
                    if n not in lost
                ],
                "missing_ranks": [
                    seats[n] | {"status": {"unresponsive": True, "considered_dead": comm.members[n] in dead}}
                    for n in lost
                ],
            }
        )
    report: dict[str, Any] = {"nccl_version": "2.28.9", "cuda_runtime_version": 12090, "cuda_driver_version": 13000}
    report |= {"timestamp": at, "communicators_count": len(comms), "communicators": comms}
    return json.dumps(report | {"ras": {"collection_time_sec": 0.0, "timeouts_count": 0}}, indent=1) + "\n"


def ras_text(job: Job, silent: Sequence[int] = (), dead: Sequence[int] = ()) -> str:
    """One report of ``ncclras -v``: it lists outliers alone."""
    lost = [*silent, *dead]
    nodes = len({host(r) for r in range(job.size)})
    table, errors, warnings = [], [], []
    if silent:
        errors.append(
            _lost("INCOMPLETE", f"Missing communicator data from {len(silent)} job process{_es(silent)}", silent)
        )
    if dead:
        verb = "es are" if len(dead) > 1 else " is"
        says = f"{len(dead)} job process{verb} considered dead (unreachable via the RAS network)"
        errors.append(_lost("DEAD", says, dead))
    for number, comm in enumerate(job.comms()):
        title, here = f"#{number}-0 ({comm.name[2:]})", [r for r in comm.members if r not in lost]
        gone = [r for r in comm.members if r in lost]
        if gone:
            rows = [_member(comm, r) for r in gone]
            says = f"Missing communicator data from {len(gone)} rank{'s' if len(gone) > 1 else ''}"
            errors.append("\n".join([f"{title} INCOMPLETE", f"  {says}", *rows]))
        unlike = [op for op in COUNTED if len({_counts(job, r, comm)[op] for r in here}) > 1]
        warnings += ["\n".join([f"{title} MISMATCH", *_unlike(job, comm, op, here)]) for op in unlike]
        state = ",".join(["INCOMPLETE"] * bool(gone) + ["MISMATCH"] * bool(unlike)) or "OK"
        size = len(comm.members)
        table.append(f"{number:5d}{1:10d}{nodes:11d}{min(size, 4):10d}{size:10d}{len(here):10d}  RUNNING  {state}")
    return "\n".join(
        [
            "NCCL version 2.30.7 compiled with CUDA 12.8",
            "CUDA runtime version 12080, driver version 13000",
            *("", "Job summary", "===========", ""),
            "  Nodes    Processes          GPUs  Processes      GPUs",
            "  (total)   per node   per process    (total)   (total)",
            f"{nodes:7d}{4:13d}{1:14d}{job.size:11d}{job.size:10d}",
            *("", "Communicators... (0.002s)", "=============", ""),
            "Group     Comms      Nodes     Ranks     Ranks     Ranks   Status  Errors",
            "    #  in group   per comm  per node  per comm  in group",
            *table,
            *("", "Errors", "======", ""),
            *(f"{block}\n" for block in errors),
            *("", "Warnings", "========", ""),
            *(f"{block}\n" for block in warnings),
        ]
    )


def _es(ranks: Sequence[int]) -> str:
    return "es" if len(ranks) > 1 else ""


def _process(rank: int) -> str:
    return f"process {pid(rank)} on node {host(rank)}"


def _lost(title: str, says: str, ranks: Sequence[int]) -> str:
    return "\n".join([title, f"  {says}", *(f"  Process {_process(r)[8:]} managing GPU {r % 4}" for r in ranks)])


def _member(comm: Comm, rank: int, says: str = "") -> str:
    return f"  Rank {comm.members.index(rank)}{says} -- GPU {rank % 4} managed by {_process(rank)}"


def _unlike(job: Job, comm: Comm, op: str, ranks: Sequence[int]) -> list[str]:
    """The sides of a mismatch, the larger ones first; members of small ones by name."""
    sides: dict[int, list[int]] = {}
    for rank in ranks:
        sides.setdefault(_counts(job, rank, comm)[op], []).append(rank)
    out = [f"  Communicator ranks have different {op} operation counts"]
    for count, side in sorted(sides.items(), key=lambda item: (-len(item[1]), -item[0])):
        says = f" has launched up to operation {count}" if count else " has not launched any operations"
        few = 2 * len(side) < len(comm.members)
        if len(side) > 1:
            out.append(f"  {len(side)} ranks have {says[5:]}")
            out += [_member(comm, r) for r in side] if few else []
        else:
            out.append(_member(comm, side[0], says))
    return out


# --- lines and dumps ---------------------------------------------------------------------------------------------


def coll_logs(
    job: Job, *, inits: bool = True, named: Callable[[int], str] = lambda r: f"rank_{r}.log"
) -> dict[str, str]:
    """A log for each rank with its INIT and COLL lines (``NCCL_DEBUG_SUBSYS=INIT,COLL``). Pointers are private to a process."""
    out = {}
    for rank, state in enumerate(job.ranks):
        head = f"node{rank // 4}:{pid(rank)}:{pid(rank) + 40} [{rank % 4}] NCCL INFO"
        lines: list[str] = []
        numbers = Counter[str]()
        pointer = {comm.name: f"0x55{rank:02x}{number:04x}" for number, comm in enumerate(job.comms())}
        lines += [
            f"{head} ncclCommInitRank comm {pointer[comm.name]} rank {comm.members.index(rank)} nranks "
            f"{len(comm.members)} cudaDev {rank % 4} nvmlDev {rank % 4} busId {rank % 4 + 1}000 commId {comm.name} "
            "- Init COMPLETE"
            for comm in job.comms()
            if inits and rank in comm.members
        ]
        for one in state.launched:
            number = numbers[one.comm.name]
            numbers[one.comm.name] += 1
            lines.append(
                f"{head} {one.op}: opCount {number:x} sendbuff 0x7f6000000000 recvbuff 0x7f6000000000 count {one.count} "
                f"datatype {TYPES[one.dtype]} op 0 root 0 comm {pointer[one.comm.name]} [nranks={len(one.comm.members)}] "
                "stream 0x55aa"
            )
        out[named(rank)] = "\n".join(lines) + "\n"
    return out


def comm_dumps(job: Job, without: Sequence[int] = ()) -> dict[str, bytes]:
    """Recorder dumps without entries, in which NCCL dumped its communicators (NCCLX)."""
    out = {}
    for rank, state in enumerate(job.ranks):
        states = {}
        for comm in job.comms():
            calls = [
                {"collId": n, "opCount": n, "opName": one.op, "count": one.count, "dataType": DTYPES[one.dtype]}
                for n, one in enumerate(job.on(state, comm))
            ]
            if rank in comm.members:
                first = job.first_open(state, comm)
                cut = len(calls) if first is None else first
                states[comm.name[2:]] = {
                    "commHash": json.dumps(comm.name[2:]),
                    "rank": str(comm.members.index(rank)),
                    "nRanks": str(len(comm.members)),
                    "CT_pastColls": json.dumps(calls[max(0, cut - 10) : cut]),
                    "CT_currentColl": json.dumps(calls[cut] if cut < len(calls) else None),
                    "CT_pendingColls": json.dumps(calls[cut + 1 :]),
                }
        config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(job.size)))}}
        dump = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": [], "nccl_comm_state": states}
        if rank not in without:
            out[f"nccl_trace_rank_{rank}"] = pickle.dumps(dump, protocol=2)
    return out


def inspector(job: Job, short: Sequence[int] = (), pids: Callable[[int], int] = pid) -> dict[str, str]:
    """The Inspector file of each process: one record for each finished call, without the last two of ``short`` ranks."""
    out = {}
    for rank, state in enumerate(job.ranks):
        records = []
        for comm in job.comms():
            calls = job.on(state, comm)
            first = job.first_open(state, comm)
            done = calls if first is None else calls[:first]
            for number, one in enumerate(done[:-2] if rank in short else done):
                header = {"id": comm.name, "rank": comm.members.index(rank), "n_ranks": len(comm.members), "nnodes": 2}
                about = {"inspector_output_format_version": "v4.0", "hostname": f"node{rank // 4}", "pid": pids(rank)}
                told = {
                    "coll": one.op,
                    "coll_sn": number,
                    "coll_msg_size_bytes": 4 * one.count,
                    "coll_exec_time_us": 90,
                }
                records.append(json.dumps({"header": header, "metadata": about, "coll_perf": told}))
        out[f"inspector/{rank}.log"] = "\n".join(records) + "\n"
    return out


def proxy_dump(*operations: str) -> str:
    """The state dump of the proxy thread: one line for each operation under way."""
    rows = [f"[0-{number}|811| {operation}]\n|\nv" for number, operation in enumerate(operations)]
    return "\n".join(["ACTIVE OPS", *rows, "[X]\n"])
