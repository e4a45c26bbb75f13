"""The lines of launchers: torchrun's agent and its table, srun and slurmstepd."""

from __future__ import annotations

import random
import signal

from simulator.lines.book import Book, agent_pid, pid_of
from simulator.state import NEVER
from simulator.watchdogs import Fate, Story

_API = "torch/distributed/elastic/multiprocessing/api.py"


def torchrun(book: Book, story: Story, rng: random.Random, begin: float) -> None:
    """The lines of every host's agent at the start and at the end."""
    job = book.job
    for host in job.hosts:
        pid = agent_pid(job, host)
        stars = "*" * 41
        text = (
            f"\n{stars}\nSetting OMP_NUM_THREADS environment variable for each process to be 1 in default, to "
            "avoid your system being "
            "overloaded, please further tune the variable for optimal performance in your application as "
            f"needed. \n{stars}"
        )
        book.python(begin, host, pid, text, "W", "torch/distributed/run.py:793")
        if host in story.closed_at:
            _close(book, story, host, pid)


def restarted(book: Book, begin: float) -> None:
    """The agent of the first host tells of an attempt before this one."""
    job, host = book.job, book.job.hosts[0]
    pid = agent_pid(job, host)
    text = f"failed (exitcode: 1) local_rank: 1 (pid: {pid + 9}) of binary: /usr/bin/python3.11"
    book.python(begin - 40, host, pid, text, "E", f"{_API}:874")
    text = "[default] Worker group FAILED. 3/3 attempts left; will restart worker group"
    book.python(begin - 39.9, host, pid, text, "I", "torch/distributed/elastic/agent/server/api.py:879")


def _close(book: Book, story: Story, host: str, pid: int) -> None:
    job = book.job
    at = job.hosts.index(host) * job.knobs.gpus
    fates = story.fates[at : at + job.knobs.gpus]
    when = story.closed_at[host]
    if host in story.stopped_from_outside:
        book.python(
            when - 0.02, host, pid, "Received Signals.SIGTERM death signal, shutting down workers", "W", f"{_API}:1003"
        )
    closed = [f for f in fates if f.by in ("agent", "scheduler")]
    for fate in closed:
        book.python(
            when, host, pid, f"Sending process {pid_of(job, fate.rank)} closing signal SIGTERM", "W", f"{_API}:900"
        )
    for fate in closed:
        if fate.code == -9:
            text = f"Unable to shutdown process {pid_of(job, fate.rank)} via SIGTERM, forcefully exiting via SIGKILL"
            book.python(fate.gone_at - 0.01, host, pid, text, "W", f"{_API}:922")
    end = max([when, *(f.gone_at for f in closed)]) + 0.6
    if host in story.stopped_from_outside:
        text = f"torch.distributed.elastic.multiprocessing.api.SignalException: Process {pid} got signal: 15"
        book.agent(end, host, text)
        return
    _table(book, fates, story.first_bad[host], host, pid, end)


def _table(book: Book, fates: list[Fate], first: int, host: str, pid: int, end: float) -> None:
    job = book.job
    root = next(f for f in fates if f.rank == first)
    text = (
        f"failed (exitcode: {root.code}) local_rank: {job.local(first)} (pid: {pid_of(job, first)}) of "
        "binary: /usr/bin/python3.11"
    )
    book.python(end, host, pid, text, "E", f"{_API}:874")
    bar = "=" * 60
    out = [
        "Traceback (most recent call last):",
        '  File "/usr/local/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        '  File "/usr/local/lib/python3.11/site-packages/torch/distributed/run.py", line 918, in main',
        "    run(args)",
        '  File "/usr/local/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 268, in launch_agent',
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        bar,
        "/srv/trainer/run.py FAILED",
        "-" * 60,
        "Failures:",
    ]
    others = [f for f in fates if f.rank != first and f.code]
    for fate in others:
        out += _item(book, fate, host, end)
    out += [] if others else ["  <NO_OTHER_FAILURES>"]
    out += ["-" * 60, "Root Cause (first observed failure):", *_item(book, root, host, end), bar]
    book.agent(end + 0.01, host, "\n".join(out))


def _item(book: Book, fate: Fate, host: str, end: float) -> list[str]:
    job, code, pid = book.job, fate.code or 0, pid_of(book.job, fate.rank)
    seen = min(fate.gone_at + 0.1, end)
    name = signal.Signals(-code).name if code < 0 else ""
    trace = f"Signal {-code} ({name}) received by PID {pid}" if code < 0 else "To enable traceback see: "
    trace += "" if code < 0 else "https://pytorch.org/docs/stable/elastic/errors.html"
    shown = f"{code} (pid: {pid})"
    if job.knobs.release.number >= (2, 10):
        shown += f"  ({name})" if name else " "
    return [
        f"[{job.local(fate.rank)}]:",
        f"  time      : {book.clock(seen, host):%Y-%m-%d_%H:%M:%S}",
        f"  host      : {host}",
        f"  rank      : {fate.rank} (local_rank: {job.local(fate.rank)})",
        f"  exitcode  : {shown}",
        "  error_file: <N/A>",
        f"  traceback : {trace}",
    ]


def _srun_word(code: int, oom: bool) -> str:
    if oom and code == -9:
        return "Out Of Memory"
    words = {-6: "Aborted (core dumped)", -9: "Killed", -11: "Segmentation fault (core dumped)", -15: "Terminated"}
    return words.get(code) or f"Exited with exit code {code}"


def srun(book: Book, story: Story, step_id: str, oom: set[int], lost: str | None) -> None:
    """One line per task that ended badly, and the end of the step."""
    job = book.job
    for fate in story.fates:
        if fate.code and fate.gone_at < NEVER and job.host(fate.rank) != lost:
            name = job.host(fate.rank)
            text = f"srun: error: {name}: task {fate.rank}: {_srun_word(fate.code, fate.rank in oom)}"
            book.agent(fate.gone_at + 0.05, name, text, "srun")
            if fate.rank in oom and fate.code == -9:
                text = (
                    f"slurmstepd: error: Detected 1 oom_kill event in StepId={step_id}. Some of the step tasks have "
                    "been OOM Killed."
                )
                book.agent(fate.gone_at + 0.02, name, text, "srun")
    if lost:
        book.agent(95.0, lost, f"srun: error: Node failure on {lost}", "srun")
    if story.step_ended < NEVER:
        host = job.hosts[0]
        now = book.clock(story.step_ended, host)
        if job.knobs.kill_on_exit:
            text = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."
            book.agent(story.step_ended - 0.1, host, text, "srun")
        text = f"slurmstepd: error: *** STEP {step_id} ON {host} CANCELLED AT {now:%Y-%m-%dT%H:%M:%S} ***"
        book.agent(story.step_ended, host, text, "srun")
