"""What the watchdog and the monitor of a rank print, in the wording of each release."""

from __future__ import annotations

from collections.abc import Iterator

from staged.plan import Group, Plan
from staged.play import Played, Work, open_works
from staged.writing.calendar import c10

OPS = {
    "all_reduce": "ALLREDUCE",
    "broadcast": "BROADCAST",
    "all_gather_into_tensor": "_ALLGATHER_BASE",
    "reduce_scatter_tensor": "_REDUCE_SCATTER_BASE",
    "send": "SEND",
    "recv": "RECV",
}
LINES = {"2.1": 474, "2.2": 525, "2.3": 563, "2.4": 607, "2.5": 616, "2.6": 629, "2.7": 632, "2.8": 683, "2.9": 685}


def shown_seq(plan: Plan, work: Work) -> int:
    """The number that the watchdog prints and the recorder keeps for a waiting rank."""
    return work.p2p_seq if work.call.peer is not None and plan.number >= (2, 6) else work.seq


def prefix(plan: Plan, rank: int, at: float, letter: str = "E", line: int = 0) -> str:
    """The logger's prefix of a line."""
    source = f"ProcessGroupNCCL.cpp:{line or LINES[plan.release]}"
    if plan.number < (2, 2):
        return f"[{letter} {source}] "
    if plan.number < (2, 4):
        return f"[rank{rank}]:[{letter} {source}] "
    return f"[rank{rank}]:[{letter}{c10(at)} {source}] "


def group_prefix(plan: Plan, group: Group, rank: int) -> str:
    """The process group inside the message. The rank in it is that inside the group."""
    mine, desc = group.members.index(rank), "" if group.desc == "undefined" else group.desc
    if plan.number < (2, 3):
        return f"[Rank {mine}] "
    if plan.number < (2, 4):
        return f"[PG {group.uid} Rank {mine}] "
    if plan.number < (2, 5):
        return f"[PG {group.uid} ({desc}) Rank {mine}] " if desc else f"[PG {group.uid} Rank {mine}] "
    return f"[PG ID {group.pg_id} PG GUID {group.uid}{f'({desc})' if desc else ''} Rank {mine}] "


def work_text(plan: Plan, work: Work) -> str:
    """``WorkNCCL(…)``."""
    call = work.call
    return (
        f"WorkNCCL(SeqNum={shown_seq(plan, work)}, OpType={OPS[call.op]}, NumelIn={call.n_in}, NumelOut={call.n_out}, "
        f"Timeout(ms)={call.group.timeout})"
    )


def counters(plan: Plan, row: list[Work], group: Group, at: float) -> tuple[int, int]:
    """Last enqueued and last completed of a group at that time."""
    mine = [w for w in row if w.call.group is group and w.created <= at]
    done = [w for w in mine if w.end is not None and w.end <= at]
    if not mine:
        return -1, -1
    return shown_seq(plan, mine[-1]), shown_seq(plan, done[-1]) if done else shown_seq(plan, mine[0]) - 1


def lines(plan: Plan, played: Played, rank: int) -> Iterator[tuple[float, str]]:
    """Everything c10d says about the stall in the process of a rank."""
    fate, row = played.fates[rank], played.works[rank]
    first_on_rank = True
    for at, work in fate.fires:
        yield from _fired(plan, rank, at, work, row, first_on_rank)
        first_on_rank = False
    if fate.dump_at is not None and played.first_fire is not None and plan.number >= (2, 3):
        yield from _dumped(plan, played, rank, fate.dump_at)
    if fate.fires and fate.by == "itself" and fate.gone_at is not None:
        yield from _aborted(plan, rank, fate.gone_at, fate.fires[0])


def _fired(plan: Plan, rank: int, at: float, work: Work, row: list[Work], first: bool) -> Iterator[tuple[float, str]]:
    group, own = work.call.group, work.call.group.members.index(rank)
    ran = int((at - work.created) * 1000)
    yield (
        at,
        (
            f"{prefix(plan, rank, at)}[Rank {own}] Watchdog caught collective operation timeout: {work_text(plan, work)} "
            f"ran for {ran} milliseconds before timing out."
        ),
    )
    if plan.number < (2, 3):
        return
    put, done = counters(plan, row, group, at)
    seq, tag = shown_seq(plan, work), group_prefix(plan, group, rank)
    start = prefix(plan, rank, at, line=LINES[plan.release] + 1540)
    if plan.number < (2, 6):
        if plan.number >= (2, 4):
            yield (
                at,
                (
                    f"{start}{tag}Exception (either an error or timeout) detected by watchdog at work: {seq}, last enqueued "
                    f"NCCL work: {put}, last completed NCCL work: {done}."
                ),
            )
        yield (
            at,
            f"{start}{tag}Timeout at NCCL work: {seq}, last enqueued NCCL work: {put}, last completed NCCL work: {done}.",
        )
        return
    yield (
        at,
        (
            f"{start}{tag} failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {put}, "
            f"last completed work: {done}"
        ),
    )
    if plan.dumps_on and plan.stacks_in_dumps:
        name, line = work.call.site
        text = [
            "Stack trace of the failed collective: ",
            f"#0 {work.call.op} from /opt/conda/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2810",
            f"#1 {name} from /srv/job/main.py:{line}",
            "#2 <module> from /srv/job/main.py:310",
        ]
        yield at, "\n".join(text)
    else:
        yield (
            at,
            (
                "Stack trace of the failed collective not found, potentially because FlightRecorder is disabled. You can "
                "enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value."
            ),
        )
    if first:
        yield at, f"{start}{tag}First PG on this rank to signal dumping."


def _dumped(plan: Plan, played: Played, rank: int, at: float) -> Iterator[tuple[float, str]]:
    world = plan.groups[0]
    tag, start = group_prefix(plan, world, rank), prefix(plan, rank, at, line=LINES[plan.release] + 820)
    put, done = counters(plan, played.works[rank], world, at)
    firsts = [(f.fires[0][0], r) for r, f in enumerate(played.fates) if f.fires]
    who = min(firsts)[1]
    if plan.number >= (2, 6):
        source = "this local rank" if who == rank else f" rank {who}"
        yield (
            at,
            (
                f"{start}{tag}Received a dump signal due to a collective timeout from {source} and we will try our best to "
                f"dump the debug info. Last enqueued NCCL work: {put}, last completed NCCL work: {done}.This is most likely "
                "caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the order of collectives is "
                "not same for all ranks or the scheduled collective, for some reason, didn't run."
            ),
        )
        yield at, f"{start}{tag}ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1"
        return
    source = "this local rank and will" if who == rank else f"rank {who}, and will"
    kind = "dump signal from" if who == rank else "global dump signal from"
    yield (
        at,
        (
            f"{start}{tag}Received a {kind} {source} start to dump the debug info. Last enqueued NCCL work: {put}, last "
            f"completed NCCL work: {done}."
        ),
    )
    yield at, f"{start}{tag}ProcessGroupNCCL preparing to dump debug info."


def _aborted(plan: Plan, rank: int, at: float, fire: tuple[float, Work]) -> Iterator[tuple[float, str]]:
    work = fire[1]
    own, tag = work.call.group.members.index(rank), group_prefix(plan, work.call.group, rank)
    start = prefix(plan, rank, at, line=LINES[plan.release] + 14)
    yield (
        at,
        (
            f"{start}[Rank {own}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, "
            "subsequent GPU operations might run on corrupted/incomplete data."
        ),
    )
    yield at, f"{start}[Rank {own}] To avoid data inconsistency, we are taking the entire process down."
    ran = int((fire[0] - work.created) * 1000)
    what = (
        f"[Rank {own}] Watchdog caught collective operation timeout: {work_text(plan, work)} ran for {ran} milliseconds "
        "before timing out."
    )
    head = "Process group watchdog" if plan.number >= (2, 3) else "NCCL watchdog"
    yield at, f"{start}{tag}{head} thread terminated with exception: {what}"
    text = f"{tag}{head} thread terminated with exception: {what}"
    yield at, f"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  {text}"


def stands_in(row: list[Work]) -> Work | None:
    """The first call of a rank that has not ended."""
    still = open_works(row)
    return still[0] if still else None
