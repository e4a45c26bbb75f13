"""What torchrun's agents and srun print about the ends of their processes, and the set-up lines of NCCL."""

from __future__ import annotations

from collections.abc import Iterator

from staged.plan import Plan
from staged.play import Played, Scene
from staged.writing.calendar import agent, at

SIGNALS = {-6: "SIGABRT", -9: "SIGKILL", -15: "SIGTERM", -11: "SIGSEGV", -7: "SIGBUS"}
SRUN = {
    -6: "Aborted (core dumped)",
    -9: "Killed",
    -15: "Terminated",
    -11: "Segmentation fault (core dumped)",
    -7: "Bus error (core dumped)",
}


def ends(plan: Plan, played: Played, scene: Scene) -> Iterator[tuple[float, str, str]]:
    """(time, host, text): the launcher's own account."""
    for after, host, text in scene.spoken:
        yield played.stall + after, host or plan.hosts[0], text
    if plan.launcher == "none" or scene.ending not in ("abort", "crash"):
        return
    for host in plan.hosts:
        local = [r for r in range(plan.world) if plan.host(r) == host]
        if host not in scene.lost_hosts:
            yield from _cancelled(plan, played, host, local)
            yield from (_srun if plan.launcher == "srun" else _torchrun)(plan, played, host, local)


def _cancelled(plan: Plan, played: Played, host: str, local: list[int]) -> Iterator[tuple[float, str, str]]:
    """Somebody cancels the step because it does not end."""
    closed = [
        f.gone_at - (30.2 if f.code == -9 else 0.3)
        for f in (played.fates[r] for r in local)
        if f.gone_at and f.by == "launcher"
    ]
    if closed and plan.launcher == "srun":
        when = min(closed)
        yield when, host, f"slurmstepd: error: *** STEP 40112.0 ON {host} CANCELLED AT {at(when):%Y-%m-%dT%H:%M:%S} ***"


def _srun(plan: Plan, played: Played, host: str, local: list[int]) -> Iterator[tuple[float, str, str]]:
    for rank in local:
        fate = played.fates[rank]
        if fate.code is not None and fate.gone_at is not None:
            text = SRUN.get(fate.code, f"Exited with exit code {fate.code}")
            yield fate.gone_at + 0.05, plan.hosts[0], f"srun: error: {host}: task {rank}: {text}"


def _torchrun(plan: Plan, played: Played, host: str, local: list[int]) -> Iterator[tuple[float, str, str]]:
    fates = {r: played.fates[r] for r in local}
    own = [(f.gone_at, r) for r, f in fates.items() if f.gone_at is not None and f.by == "itself"]
    if not own:
        return  # this agent is told to stop by the others: nothing failed here
    first_at, first = min(own)
    closed = [r for r, f in fates.items() if f.by == "launcher"]
    start = "torch/distributed/elastic/multiprocessing/api.py"

    def line(when: float, letter: str, number: int, text: str) -> tuple[float, str, str]:
        if plan.number < (2, 3):
            level = {"W": "WARNING", "E": "ERROR"}[letter]
            stamp = f"{at(when):%Y-%m-%d %H:%M:%S},{at(when).microsecond // 1000:03d}"
            return when, host, f"[{stamp}] torch.distributed.elastic.multiprocessing.api: [{level}] {text}"
        return when, host, f"{letter}{agent(when)} {990 + plan.hosts.index(host)} {start}:{number}] {text}"

    for rank in closed:
        yield line(first_at + 0.4, "W", 900, f"Sending process {plan.pid(rank)} closing signal SIGTERM")
    for rank in closed:
        if fates[rank].code == -9:
            text = f"Unable to shutdown process {plan.pid(rank)} via SIGTERM, forcefully exiting via SIGKILL"
            yield line(first_at + 30.4, "W", 919, text)
    done = max(f.gone_at for f in fates.values() if f.gone_at is not None) + 0.5
    code = fates[first].code
    text = f"failed (exitcode: {code}) local_rank: {first % plan.per_host} (pid: {plan.pid(first)}) of binary: /opt/conda/bin/python3.11"
    yield line(done, "E", 874, text)
    yield done, host, _table(plan, played, host, [first, *[r for r in local if r != first and fates[r].by == "itself"]])


def _table(plan: Plan, played: Played, host: str, failed: list[int]) -> str:
    rows = [_row(plan, played, host, i, rank) for i, rank in enumerate(failed)]
    others = rows[1:] or ["  <NO_OTHER_FAILURES>"]
    return "\n".join(
        [
            "=" * 60,
            "main.py FAILED",
            "-" * 60,
            "Failures:",
            *others,
            "-" * 60,
            "Root Cause (first observed failure):",
            rows[0],
            "=" * 60,
        ]
    )


def _row(plan: Plan, played: Played, host: str, index: int, rank: int) -> str:
    fate = played.fates[rank]
    code = fate.code or 0
    name = f" ({SIGNALS[code]})" if code in SIGNALS else ""
    why = (
        f"Signal {-code} ({SIGNALS[code]}) received by PID {plan.pid(rank)}"
        if code < 0
        else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    )
    return "\n".join(
        [
            f"[{index}]:",
            f"  time      : {at(fate.gone_at or 0):%Y-%m-%d_%H:%M:%S}",
            f"  host      : {host}",
            f"  rank      : {rank} (local_rank: {rank % plan.per_host})",
            f"  exitcode  : {code} (pid: {plan.pid(rank)}){name}",
            "  error_file: <N/A>",
            f"  traceback : {why}",
        ]
    )


def communicator(plan: Plan, rank: int) -> Iterator[tuple[float, str]]:
    """The lines of NCCL about the world's communicator: rank, host, process and bus."""
    pid, device, bus = plan.pid(rank), rank % plan.per_host, plan.bus(rank)
    head = f"{plan.host(rank)}:{pid}:{pid + 31} [{device}] NCCL INFO"
    comm = f"comm 0x{0x55D0000000 + rank * 4096:x} rank {rank} nranks {plan.world} cudaDev {device} nvmlDev {device} busId {bus:x}000"
    key = f"commId 0x{0x1C0FFEE00 + plan.seed:x}"
    api = "ncclCommInitRank " if plan.number >= (2, 5) else ""
    yield plan.start + 4, f"{head} {api}{comm} {key} - Init START"
    yield plan.start + 6, f"{head} {api}{comm} {key} - Init COMPLETE"


def calls(plan: Plan, played: Played, rank: int) -> Iterator[tuple[float, str]]:
    """What NCCL logs of each call on the world's communicator with ``NCCL_DEBUG_SUBSYS=COLL``."""
    pid, device = plan.pid(rank), rank % plan.per_host
    head = f"{plan.host(rank)}:{pid}:{pid} [{device}] NCCL INFO"
    for work in played.works[rank]:
        name = "Broadcast" if work.call.op == "broadcast" else "AllReduce"
        buffer = f"0x{0x7F0000000000 + work.place * 0x400000:x}"
        yield (
            work.created,
            (
                f"{head} {name}: opCount {work.seq - 1:x} sendbuff {buffer} recvbuff {buffer} count {work.call.n_in} "
                f"datatype {_DATATYPES[work.call.dtype]} op 0 root 0 comm 0x{0x55D0000000 + rank * 4096:x} "
                f"[nranks={plan.world}] stream 0x{0x55E000 + device:x}"
            ),
        )


_DATATYPES = {"Half": 6, "Float": 7, "Double": 8, "BFloat16": 9}
