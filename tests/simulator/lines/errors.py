"""Lines that tell of a cause: exceptions, broken links, device errors, kernel logs, sampled stacks."""

from __future__ import annotations

import random

from simulator.faults.scenarios import Fault
from simulator.lines.book import Book, bus_id, pid_of
from simulator.lines.c10d import CORRUPT, DOWN, Watchdog, work_text
from simulator.program import Job
from simulator.recorder import Dumps
from simulator.stacks import stack_of
from simulator.state import Work
from simulator.watchdogs import Story


def traceback_text(book: Book, rank: int | None, error: tuple[str, str, str]) -> str:
    """A traceback; since 2.4 an uncaught one has the rank in front, unless it comes before the process group."""
    kind, message, doing = error
    out = ["Traceback (most recent call last):"]
    for name, file, line in reversed(stack_of(doing)):
        out += [f'  File "{file}", line {line}, in {name}', f"    {name}(...)"]
    out.append(f"{kind}: {message}")
    head = f"[rank{rank}]: " if rank is not None and book.job.knobs.release.number >= (2, 4) else ""
    return "\n".join(head + line for line in out)


def earlier_attempt(book: Book, run_id: str) -> dict[str, str]:
    """The folders of an attempt before this one: local rank 1 of the first host could not read its configuration."""
    job = book.job
    error = ("FileNotFoundError", "[Errno 2] No such file or directory: '/srv/trainer/conf/local.yaml'", "configure")
    text = traceback_text(book, None, error)
    folder = f"{job.hosts[0]}/{run_id}/attempt_0"
    return {f"{folder}/{k}/stderr.log": text + "\n" if k == 1 else "" for k in range(job.knobs.gpus)}


def exceptions(book: Book, story: Story, fault: Fault) -> None:
    """The traceback of a rank that raised: just before it ended, or while it lingers."""
    if "error" not in fault.traits:
        return
    for rank in fault.culprits:
        host = story.sim.hosts[rank]
        text = traceback_text(book, None if fault.traits.get("lingers") else rank, fault.traits["error"])
        if fault.traits.get("lingers"):
            now = book.clock(host.since, book.job.host(rank))
            text = (
                f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} | ERROR | trainer | [rank {rank}] failed\n"
                + text
            )
        book.rank(host.since - 0.002, rank, text)


def stuck_work(story: Story, rank: int) -> Work | None:
    """The first work of a rank that never ends."""
    return next((w for w in story.sim.hosts[rank].works if w.end == float("inf")), None)


def async_error(
    book: Book, dumps: Dumps, dog: Watchdog, story: Story, rank: int, time: float, what: str, last: str
) -> None:
    """The lines of a watchdog from an NCCL error to the end of its process."""
    work = stuck_work(story, rank)
    if work is None:
        return
    release, at = book.job.knobs.release, book.job.knobs.release.lines
    inside = f"[Rank {work.call.group.members.index(rank)}] "
    meaning = {
        "remote process exited or there was a network error": "ncclRemoteError: A call failed possibly due to "
        "a network error or a "
        "remote process exiting prematurely.",
        "unhandled system error": "ncclSystemError: System call (e.g. socket, malloc) or external library call "
        "failed or device error. ",
    }[what]
    error = f"NCCL error: {what}, NCCL version {release.nccl}\n{meaning}\nLast error:\n{last}"
    if release.number >= (2, 5):
        text = f"{inside}Collective {work_text(dumps, work)} raised the following async exception: {error}"
        book.c10(time, rank, at["caught"] - 21, text)
    book.c10(time + 5e-4, rank, at["some"], inside + CORRUPT)
    book.c10(time + 8e-4, rank, at["some"] + 6, inside + DOWN)
    dog.ended(rank, time + 1e-3, work.call.group, error, "checkForNCCLErrorsInternal")


def nccl_warn(book: Book, time: float, rank: int, where: str, text: str) -> None:
    """A WARN line of NCCL: an empty line before it, a time in front since 2.26."""
    job = book.job
    host, pid = job.host(rank), pid_of(job, rank)
    stamp = ""
    if tuple(map(int, job.knobs.release.nccl.split("."))) >= (2, 26):
        stamp = f"[{book.clock(time, host):%Y-%m-%d %H:%M:%S}] "
    book.rank(time, rank, f"\n{stamp}{host}:{pid}:{pid + 310} [{job.local(rank)}] {where} NCCL WARN {text}")


def ib_text(job: Job, peer: int, status: int, device: int) -> str:
    """A completion with an error, as net_ib prints it; opcode and len mean nothing then."""
    version = tuple(map(int, job.knobs.release.nccl.split(".")))
    addr = f"10.0.3.{11 + job.hosts.index(job.host(peer))}<{41000 + peer}>"
    vendor = {12: 129, 5: 249}[status]
    gids = f"localGid fe80::1:{device} remoteGidsfe80::2:{device}"
    if version < (2, 20):
        return (
            f"NET/IB : Got completion from peer {addr} with error {status}, opcode 0, len 0, vendor err "
            f"{vendor} (Send) "
            f"localGid fe80::1 remoteGid fe80::2"
        )
    if version < (2, 22):
        return (
            f"NET/IB : Got completion from peer {addr} with status={status} opcode=0 len=0 vendor err "
            f"{vendor} (Send) {gids}"
        )
    if version < (2, 29):
        text = (
            f"NET/IB: Got completion from peer {addr} with status={status} opcode=32698 len=0 vendor err "
            f"{vendor} (Send) {gids}"
        )
        return f"{text} hca mlx5_{device}"
    name = {12: "IBV_WC_RETRY_EXC_ERR", 5: "IBV_WC_WR_FLUSH_ERR"}[status]
    text = (
        f"NET/IB: Got completion from peer {addr} with status={name}({status}) opcode=IBV_WC_SEND(0) "
        f"vendor_err={vendor} {gids}"
    )
    return f"{text} hca mlx5_{device}"


def kernel_log(book: Book, host: str, events: list[tuple[float, str]], rng: random.Random) -> str:
    """``dmesg -T`` of a host: harmless lines of the days before, then what the fault left."""
    quiet = (
        "pcieport 0000:4c:00.0: AER: Corrected error received: 0000:4d:00.0",
        "perf: interrupt took too long (2512 > 2500), lowering kernel.perf_event_max_sample_rate to 79500",
        "systemd[1]: Started Session 7 of user root.",
        "nvidia-persistenced: persistence mode enabled",
    )
    lines = [(-rng.uniform(4_000, 200_000), rng.choice(quiet)) for _ in range(rng.randrange(3, 7))]
    shown = sorted(lines + events)
    return "".join(
        f"[{book.clock(t, host):%a %b} {book.clock(t, host).day:2d} {book.clock(t, host):%H:%M:%S %Y}] {text}\n"
        for t, text in shown
    )


def oom_lines(job: Job, rank: int, time: float) -> list[tuple[float, str]]:
    """The kernel log of an out-of-memory kill."""
    pid = pid_of(job, rank)
    return [
        (time, "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
        (
            time + 1e-3,
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job,mems_allowed=0-1,oom_memcg=/job,task_memcg=/job,"
            f"task=python,pid={pid},uid=1000",
        ),
        (
            time + 2e-3,
            f"Memory cgroup out of memory: Killed process {pid} (python) total-vm:99120344kB, anon-rss:61022112kB",
        ),
    ]


def xid(job: Job, rank: int, number: int, text: str) -> str:
    """A driver line about the board of a rank."""
    return f"NVRM: Xid (PCI:0000:{bus_id(job.local(rank))}:00): {number}, pid={pid_of(job, rank)}, name=python, {text}"


def pyspy(book: Book, rank: int, doing: str, gil: bool) -> str:
    """A sampled stack in the form of py-spy, innermost frame first."""
    pid = pid_of(book.job, rank)
    state = "active+gil" if gil else "idle"
    out = [f"Process {pid}: /usr/bin/python3.11 -u /srv/trainer/run.py", "Python v3.11.9 (/usr/bin/python3.11)", ""]
    out.append(f'Thread {pid} ({state}): "MainThread"')
    for name, file, line in stack_of(doing):
        out.append(f"    {name} ({file.replace('/usr/local/lib/python3.11/site-packages/', '')}:{line})")
    out += [f'Thread {pid + 90} (idle): "Thread-1"', "    wait (threading.py:331)", "    run (threading.py:982)"]
    return "\n".join(out) + "\n"
