"""Kinds of event about a job that runs: heartbeats, progress, phases outside the step, stacks, settings."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.events.base import Event, Writer, kind
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost


@kind("heartbeat", symbol="life")
class Heartbeat(Event):
    """A rank says that it is alive, and at which step."""

    step: int | None = None
    epoch: int | None = None

    @property
    def is_step(self) -> bool:
        """Always true: who prints it trains."""
        return True

    def _phrase(self) -> str:
        return _step(self.step)


@kind("progress", symbol="life")
class Progress(Event):
    """A progress bar or trainer line: ``total`` steps, ``rate`` in steps per second, ``label`` of the bar.

    ``counts`` is *steps*; *work* for a bar of files, shards or samples, which says nothing of training; empty for a bar without a name.
    """

    step: int | None = None
    epoch: int | None = None
    total: int | None = None
    rate: float | None = None
    label: str | None = None
    counts: str = "steps"

    @property
    def is_step(self) -> bool:
        """True where it shows that the job trains."""
        return self.counts == "steps"

    def _phrase(self) -> str:
        if not self.is_step:
            return f"progress of {self.label}" if self.label else "a progress bar"
        return _step(self.step)


def _step(step: int | None) -> str:
    return f"reported step {step}" if step is not None else "progress line"


@kind("phase", symbol="life")
class Phase(Event):
    """A rank says what it does outside the step.

    ``what`` is checkpoint, evaluation, sampling, data,
    compile, epoch-end, finished, starting, ready. ``seconds`` is how long it took, where the line says that.
    """

    what: str = ""
    detail: str = ""
    seconds: float | None = None

    @property
    def is_over(self) -> bool:
        """True of work that the line says is done."""
        return self.detail.startswith("done") or self.what == "epoch-end"

    @property
    def is_waiting(self) -> bool:
        """True where the rank says that it waits for the others at a barrier."""
        return self.detail.startswith("waits: ")

    @property
    def work(self) -> str:
        """The work as the rest of a sentence after *was*; "" of a moment."""
        return _WORK.get(self.what, "")

    def _phrase(self) -> str:
        return self.work or (f"phase: {self.what}" if self.what else "another phase")


_WORK = {
    "checkpoint": "writing a checkpoint",
    "evaluation": "evaluating",
    "sampling": "generating samples",
    "data": "preparing data",
    "compile": "compiling",
}


@kind("stack", symbol="stack")
class Stack(Event):
    """The stack of one thread, innermost frame first, each ``function (file:line)``.

    ``main`` marks the main thread, ``helper`` a process that a rank started, such as a worker of its data loader; ``state`` is idle,
    active or active+gil where the tool prints it. ``look`` counts the looks at the job from 1 on; 0 where it is not known.
    ``ident`` is the number of the thread as the tool prints it, which tells processes apart where nothing else does.
    """

    thread: str | None = None
    ident: str | None = None
    frames: tuple[str, ...] = ()
    main: bool = False
    helper: bool = False
    state: str | None = None
    tool: str = ""
    look: int = 0

    def _phrase(self) -> str:
        return f"stack: in {innermost(self.frames)}" if self.frames else "stack"


class ProcessWork(Struct, frozen=True):
    """What a process did between two looks, ``ms`` milliseconds apart.

    ``cpu`` is the processor time of its main thread in milliseconds, ``kernel`` the part of it in the kernel, ``threads`` that of its other
    threads, ``children`` that of all below it. ``waits`` and ``lost`` count how often the main thread gave its processor up, and lost it.
    ``read`` and ``written`` are bytes, those of its children among them.
    """

    ms: int
    cpu: int
    kernel: int
    threads: int
    children: int
    waits: int
    lost: int
    read: int
    written: int

    @property
    def manner(self) -> str:
        """``computes``, ``spins`` in the kernel, ``moves data``, ``polls`` and sleeps in turn, or is ``blocked``."""
        is_busy, has_moved = 2 * self.cpu >= self.ms, 1000 * (self.read + self.written) >= MOVING * self.ms
        if has_moved and not is_busy:
            return "moves data"
        if 2 * self.kernel > self.cpu and is_busy and not has_moved:
            return "spins"
        if 10 * max(self.cpu, self.children) >= self.ms:
            return "computes"
        return "polls" if POLLING * self.waits >= self.ms else "blocked"

    @property
    def is_progress(self) -> bool:
        """True of work that ends by itself, as far as one can see."""
        return self.manner in ("computes", "moves data")


MOVING, POLLING = 1 << 16, 2000
"""Bytes in a second that are work, and the most milliseconds from one wait of a thread that polls to the next."""


@kind("process-state", symbol="stack", writer=Writer.KERNEL)
class ProcessState(Event):
    """The state of a process as ``ps``, ``/proc`` or the error of a stack tool shows it.

    ``state`` is stopped (by a signal), gone, zombie, blocked (in the kernel, uninterruptible), traced, running or sleeping. ``waits_in``
    is the kernel's function, ``did`` what it did since the look before, ``parent`` the process that started it, ``elapsed`` how long it has
    run (``01:02:03``), ``tool`` who says so.
    ``look`` counts the looks at the job from 1 on; 0 where it is not known.
    """

    state: str = ""
    waits_in: str | None = None
    did: ProcessWork | None = None
    command: str | None = None
    parent: int | None = None
    elapsed: str | None = None
    tool: str = ""
    look: int = 0

    def _phrase(self) -> str:
        return f"process is {self.state}" if self.state else "process"


@kind("slow-report", symbol="trouble", causes=frozenset({CauseClass.STRAGGLER, CauseClass.UNDETERMINED}))
class SlowReport(Event):
    """A tool that times all ranks says which are slower than the others.

    ``by`` is the tool; ``slow`` are the ranks, or the numbers of the nodes where ``of`` is ``node``; none where all are alike.
    """

    by: str = ""
    of: str = "rank"
    slow: Ranks = Ranks()

    @property
    def can_cause(self) -> frozenset[CauseClass]:
        """Nothing, where no rank is slow."""
        return self.causes if self.slow else frozenset()

    def _phrase(self) -> str:
        return f"{self.by} reports {self.of} {self.slow} as slow" if self.slow else f"{self.by} finds no {self.of} slow"


@kind("process-id", wording="named its process")
class ProcessId(Event):
    """A line that holds the rank, or the local rank, of a process and its pid."""

    local_rank: int | None = None


@kind("capture", wording="is under capture", is_testimony=False)  # what it does is no part of what happened to the job
class CaptureNotice(Event):
    """A rank says that nccldoctor's capture watches it, asks all ranks for their stacks, or leaves.

    ``look`` is the time that names the look asked for, None where the rank only says that it is watched; ``within_s`` are the
    seconds in which every rank that runs answers. ``last_words`` say that its interpreter exits.
    """

    look: str | None = None
    within_s: int | None = None
    last_words: str | None = None

    def _phrase(self) -> str:
        return f"asked all ranks for look {self.look}" if self.look is not None else self.wording


@kind("setting", wording="printed a setting", is_testimony=False)  # a variable may be set in any script
class Setting(Event):
    """An environment variable, or a timeout in code, seen being set."""

    name: str = ""
    value: str = ""
