"""The lines of ProcessGroupNCCL and its heartbeat monitor, in the wording of each release (2.2 to 2.13)."""

from __future__ import annotations

import random

from simulator.lines.book import Book
from simulator.lines.desync import report
from simulator.program import OPS, Group, size
from simulator.recorder import Dumps
from simulator.stacks import frames_of
from simulator.state import Work
from simulator.watchdogs import Fate, Story

_FRAMES = (
    "c10::Error::Error(c10::SourceLocation, std::string) + 0x98",
    "c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<std::chrono::duration<long, std::ratio<1l, "
    "1000l> > >) + 0x2b4",
    "c10d::ProcessGroupNCCL::watchdogHandler() + 0x890",
    "c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x14d",
    "<unknown function> + 0xdbbf4",
    "clone + 0x44",
)
USAGE = (
    "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the "
    "order of collectives is "
    "not same for all ranks or the scheduled collective, for some reason, didn't run. Additionally, this can "
    "be caused by GIL deadlock "
    "or other reasons such as network errors or bugs in the communications library (e.g. NCCL), etc. "
)
CORRUPT = (
    "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent "
    "GPU operations might "
    "run on corrupted/incomplete data."
)
DOWN = "To avoid data inconsistency, we are taking the entire process down."


def pg_prefix(book: Book, group: Group, rank: int) -> str:
    """The name of a process group inside a message."""
    job, release = book.job, book.job.knobs.release.number
    inside = group.members.index(rank)
    if release < (2, 3):
        return f"[Rank {inside}] "
    desc = "" if group.desc in ("", "undefined") else group.desc
    if release < (2, 4):
        return f"[PG {group.uid} Rank {inside}] "
    if release < (2, 5):
        return f"[PG {group.uid} {f'({desc}) ' if desc else ''}Rank {inside}] "
    return f"[PG ID {job.mine(rank).index(group)} PG GUID {group.uid}{f'({desc})' if desc else ''} Rank {inside}] "


def work_text(dumps: Dumps, work: Work) -> str:
    """The work as the watchdog spells it. A batch has no sizes: 2^64-1 up to 2.5, then 0."""
    call = work.call
    seq = dumps.shown_seq(call.pieces, call.op, work.coll_seq, work.p2p_seq)
    unset = str(2**64 - 1) if dumps.knobs.release.number < (2, 6) else "0"
    sizes = (unset, unset) if call.op == "coalesced" else (str(size(call.shape_in)), str(size(call.shape_out)))
    return (
        f"WorkNCCL(SeqNum={seq}, OpType={OPS[call.op][0]}, NumelIn={sizes[0]}, NumelOut={sizes[1]}, "
        f"Timeout(ms)={call.group.timeout_ms})"
    )


def _trailer(rng: random.Random, what: str, line: int) -> str:
    lib = "/usr/local/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so"
    head = (
        f"Exception raised from {what} at "
        f"/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:{line} (most recent call first):"
    )
    body = [f"frame #{k}: {frame} (0x{rng.randrange(2**44, 2**47):x} in {lib})" for k, frame in enumerate(_FRAMES)]
    return "\n".join([head, *body, ""])


class Watchdog:
    """Prints what the watchdogs and the monitor of the ranks say."""

    def __init__(self, book: Book, story: Story, dumps: Dumps, rng: random.Random) -> None:
        self.book, self.story, self.dumps, self.rng = book, story, dumps, rng
        self.release = book.job.knobs.release
        self.at = self.release.lines

    def tell(self, fate: Fate) -> None:
        """All lines of one rank between the first timeout and its end."""
        for time, work in fate.fires:
            self._caught(fate, time, work)
        if fate.dumped:
            self._dump(fate)
        if fate.fires and fate.by == "self":
            self._down(fate)

    def _status(self, group: Group, rank: int, time: float) -> tuple[int, int]:
        status = self.dumps.status(self.story.sim.hosts[rank], group, time)
        return status["last_enqueued_collective"], status["last_completed_collective"]

    def _caught_text(self, fate: Fate, time: float, work: Work) -> str:
        # the number after [Rank is that of the first work that ever printed: of its group, fixed per process
        inside = fate.fires[0][1].call.group.members.index(fate.rank)
        ran = int((time - work.issued) * 1000)
        text = work_text(self.dumps, work)
        return (
            f"[Rank {inside}] Watchdog caught collective operation timeout: {text} ran for {ran} "
            "milliseconds before timing out."
        )

    def _caught(self, fate: Fate, time: float, work: Work) -> None:
        book, rank, release = self.book, fate.rank, self.release.number
        book.c10(time, rank, self.at["caught"], self._caught_text(fate, time, work))
        prefix = pg_prefix(book, work.call.group, rank)
        seq = self.dumps.shown_seq(work.call.pieces, work.call.op, work.coll_seq, work.p2p_seq)
        enqueued, completed = self._status(work.call.group, rank, time)
        first = work is fate.fires[0][1]
        if first and book.job.knobs.desync and release >= (2, 4) and not work.call.pieces:
            head = prefix if release < (2, 6) else f"Rank {work.call.group.members.index(rank)}"
            text = report(self.story.sim, work, self.story.first_fire)
            book.c10(time + 1e-4, rank, self.at["chain"] - 300, head + text)
        if (2, 4) <= release < (2, 6):
            text = f"Exception (either an error or timeout) detected by watchdog at work: {seq}"
            tail = f", last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
            book.c10(time + 2e-4, rank, self.at["chain"] - 45, prefix + text + tail)
        if release < (2, 6):
            return
        text = f" failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {enqueued}, "
        book.c10(time + 3e-4, rank, self.at["chain"], f"{prefix}{text}last completed work: {completed}")
        self._stack(fate, time + 5e-4, work)
        if first:
            book.c10(time + 7e-4, rank, self.at["chain"] + 40, prefix + "First PG on this rank to signal dumping.")

    def _stack(self, fate: Fate, time: float, work: Work) -> None:
        knobs = self.book.job.knobs
        line = self.at["caught"] + 47
        if knobs.recorder_on and knobs.frames and work.call.op != "coalesced":
            frames = frames_of(work.call.site, work.call.op, self.release.number)
            text = "\n".join(f"#{k} {f['name']} from {f['filename']}:{f['line']}" for k, f in enumerate(frames))
            self.book.c10(time, fate.rank, line, "Stack trace of the failed collective: \n" + text + "\n")
            return
        text = (
            "Stack trace of the failed collective not found, potentially because FlightRecorder is "
            "disabled. You can enable it by "
        )
        self.book.c10(time, fate.rank, line, text + "setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.")

    def _dump(self, fate: Fate) -> None:
        book, rank, release = self.book, fate.rank, self.release.number
        world = book.job.groups[0]
        prefix = pg_prefix(book, world, rank)
        at = fate.dump_at - 0.05
        if fate.by_hand:  # the line about the pipe is of level INFO, which is off
            book.c10(at + 0.01, rank, self.at["prepare"], prefix + "ProcessGroupNCCL preparing to dump debug info.")
            return
        enqueued, completed = self._status(world, rank, at)
        if release < (2, 4):
            source = "this local rank" if fate.dump_from is None else f"rank {fate.dump_from}"
            text = f"Received a timeout signal from {source} and will start to dump the debug info. "
            tail = f"Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
            if release >= (2, 3):
                book.c10(at, rank, self.at["signal"], prefix + text + tail)
            book.c10(at + 0.01, rank, self.at["prepare"], prefix + "ProcessGroupNCCL preparing to dump debug info.")
            return
        tail = f"Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
        if release < (2, 6):
            source = (
                "dump signal from this local rank and"
                if fate.dump_from is None
                else f"global dump signal from rank {fate.dump_from}, and"
            )
            book.c10(
                at, rank, self.at["signal"], f"{prefix}Received a {source} will start to dump the debug info. {tail}"
            )
            book.c10(at + 0.01, rank, self.at["prepare"], prefix + "ProcessGroupNCCL preparing to dump debug info.")
            return
        source = "this local rank" if fate.dump_from is None else f" rank {fate.dump_from}"
        if fate.dump_from is not None:
            text = "Observed flight recorder dump signal from another rank via TCPStore."
            book.c10(at - 2e-3, rank, self.at["signal"] - 60, prefix + text)
        text = (
            f"Received a dump signal due to a collective timeout from {source} and we will try our best to "
            "dump the debug info. "
        )
        book.c10(at, rank, self.at["signal"], prefix + text + tail + USAGE)
        text = f"ProcessGroupNCCL preparing to dump debug info. Include stack trace: {int(fate.dump_frames)}"
        text += ", only active collectives: 0" if release >= (2, 11) else ""
        book.c10(at + 0.01, rank, self.at["prepare"], prefix + text)
        if not fate.dump_frames:
            text = "Could not acquire GIL within 300 ms on exit, possible GIL induced hang"
            book.c10(at - 1.2, rank, self.at["prepare"] - 22, prefix + text)

    def _down(self, fate: Fate) -> None:
        book, rank, release = self.book, fate.rank, self.release.number
        time, work = fate.fires[0]
        end = fate.gone_at - 0.02
        prefix = pg_prefix(book, work.call.group, rank)
        inside = f"[Rank {work.call.group.members.index(rank)}] "
        if (2, 3) <= release < (2, 6):
            seq = self.dumps.shown_seq(work.call.pieces, work.call.op, work.coll_seq, work.p2p_seq)
            enqueued, completed = self._status(work.call.group, rank, time)
            text = (
                f"Timeout at NCCL work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: "
                f"{completed}."
            )
            book.c10(end - 2e-3, rank, self.at["chain"], prefix + text)
        book.c10(end, rank, self.at["some"], inside + CORRUPT)
        book.c10(end + 2e-4, rank, self.at["some"] + 6, inside + DOWN)
        self.ended(rank, end + 4e-4, work.call.group, self._caught_text(fate, time, work), "checkTimeout")

    def ended(self, rank: int, time: float, group: Group, what: str, raised: str) -> None:
        """The last words of a watchdog thread, and those of the C++ runtime."""
        prefix = pg_prefix(self.book, group, rank)
        if self.release.number < (2, 3):
            text = f"{prefix}NCCL watchdog thread terminated with exception: {what}"
        else:
            text = f"{prefix}Process group watchdog thread terminated with exception: {what}"
        trailer = _trailer(self.rng, raised, self.at["caught"] + 2)
        self.book.c10(time, rank, self.at["ended"], f"{text}\n{trailer}")
        last = f"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  {text}\n{trailer}"
        self.book.rank(time + 8e-4, rank, last)
