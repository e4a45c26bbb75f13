"""The book of lines: who printed what and when; clocks and prefixes of the PyTorch loggers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from simulator.program import Job
from simulator.recorder import skew_of


@dataclass(slots=True)
class Line:
    """One record of a log: text may span several physical lines. ``rank`` None: the launcher of ``host``."""

    time: float
    rank: int | None
    host: str
    stream: str  # err, out, agent, srun
    text: str
    order: int = 0


@dataclass(slots=True)
class Book:
    """Collects lines; knows the clocks of the hosts."""

    job: Job
    lines: list[Line] = field(default_factory=list)

    def rank(self, time: float, rank: int, text: str, stream: str = "err") -> None:
        self.lines.append(Line(time, rank, self.job.host(rank), stream, text, len(self.lines)))

    def agent(self, time: float, host: str, text: str, stream: str = "agent") -> None:
        self.lines.append(Line(time, None, host, stream, text, len(self.lines)))

    def sorted(self) -> list[Line]:
        return sorted(self.lines, key=lambda line: (line.time, line.order))

    def clock(self, time: float, host: str) -> datetime.datetime:
        """Local wall time of a host at a moment of the simulation."""
        return wall(self.job, time, host)

    def c10(
        self, time: float, rank: int, line: int, text: str, severity: str = "E", file: str = "ProcessGroupNCCL.cpp"
    ) -> None:
        """A line of the C++ logger of that release."""
        head = f"[rank{rank}]:[{severity} {file}:{line}] "
        if self.job.knobs.release.number >= (2, 4):
            host = self.job.host(rank)
            now = self.clock(time, host)
            # the fraction is that of the monotonic clock, not of the wall clock
            fraction = int(((time + 0.37 * (self.job.hosts.index(host) + 1)) % 1) * 1e9)
            head = f"[rank{rank}]:[{severity}{now.month}{now.day:02d} {now:%H:%M:%S}.{fraction:09d} {file}:{line}] "
        self.rank(time, rank, head + text)

    def python(self, time: float, host: str, pid: int, text: str, severity: str, place: str) -> None:
        """A line of the Python logger of torch's own modules, printed by an agent."""
        now, release = self.clock(time, host), self.job.knobs.release.number
        name = place.rpartition(":")[0].removesuffix(".py").replace("/", ".")
        level = {"W": "WARNING", "E": "ERROR", "I": "INFO"}[severity]
        millis = now.microsecond // 1000
        if release < (2, 3):
            head = f"[{now:%Y-%m-%d %H:%M:%S},{millis:03d}] {name}: [{level}] "
        elif release < (2, 4):
            head = f"{severity}{now:%m%d %H:%M:%S}.{now.microsecond:06d} {139_800_000_000_000 + pid} {place}] "
        else:
            head = f"{severity}{now:%m%d %H:%M:%S}.{millis:03d}000 {pid} {place}] "
        self.agent(time, host, "\n".join(head + part for part in text.split("\n")))


def wall(job: Job, time: float, host: str) -> datetime.datetime:
    """Local wall time of a host at a moment of the simulation; no zone of this machine enters."""
    knobs = job.knobs
    skew = skew_of(knobs.skew, job.hosts.index(host))
    moment = datetime.timedelta(seconds=knobs.epoch + skew + time, hours=knobs.tz_hours)
    return datetime.datetime(1970, 1, 1) + moment


def pid_of(job: Job, rank: int) -> int:
    """The process id of a rank, inside its host."""
    return 20_000 + 7_919 * (rank // job.knobs.gpus) + 1 + job.local(rank)


def agent_pid(job: Job, host: str) -> int:
    """The process id of the agent of a host."""
    return pid_of(job, job.hosts.index(host) * job.knobs.gpus) - 37


def bus_id(local: int) -> str:
    """The board of a local rank as the driver spells it, without the domain."""
    return ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")[local % 8]
