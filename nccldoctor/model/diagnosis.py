"""The whole answer: findings, the job, its ranks, and the events of the incident in order."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from nccldoctor.model.causes import CauseClass
from nccldoctor.model.exhibits import Exhibit, LastLines, Unshown
from nccldoctor.model.figures import (
    BrokenLink,
    CallDiff,
    CallStrip,
    FieldDiff,
    Lateness,
    Snapshots,
    StackDiff,
    Timeline,
)
from nccldoctor.model.findings import Avoid, Condition, ConfidenceIn, Finding, RemedyAdvice
from nccldoctor.model.inputs import Group, Place, Source
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import RankWait, Standing
from nccldoctor.model.steps import UNKNOWN_END, JobEnd, Step


class Job(Struct, frozen=True):
    """The job as a whole.

    ``world_at_least``: as many ranks there are in any case. ``world_guessed``: no line states ``world_size``, which is then one more than
    the highest rank in the input. ``id`` is what Slurm calls it.
    """

    world_size: int | None
    hosts: tuple[str, ...]
    torch: str | None
    nccl: str | None
    groups: tuple[Group, ...]
    world_guessed: bool = False
    world_at_least: int = 0
    id: str | None = None


class Coverage(Struct, frozen=True):
    """The ranks that left one kind of input, and the ranks that would have left it."""

    input: str
    expected: Ranks
    found: Ranks
    problems: tuple[str, ...] = ()


class Action(Struct, frozen=True):
    """When the job may be restarted: ``now``, ``after-fix``, ``after-replacing-node`` or ``unknown``, and what to do first.

    ``steps`` are at most three, the answer about the restart among them. ``cordon`` are hosts to take out,
    ``pods`` the pods whose hosts are not known, and ``sure`` those of both that a finding of high confidence names.
    """

    restart: str
    why: str
    cordon: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    pods: tuple[str, ...] = ()
    sure: tuple[str, ...] = ()


class Role(StrEnum):
    """The role of a rank in the incident."""

    CULPRIT = "culprit"
    SUSPECT = "suspect"
    WAITING = "waiting"
    UNINVOLVED = "not-involved"
    UNKNOWN = "unknown"


class RankState(Struct, frozen=True):
    """One row of *progress by rank*: a rank in the group that it waits in, or in its first group.

    ``completed`` and ``enqueued`` are the numbers of its last completed and enqueued calls in ``group`` (None: not known);
    ``waits_in`` is the call it waits in, in words, and ``wait`` the same with whom it waits for and how long; ``last_sign`` is the last
    thing seen of it, in words, with ``where``. ``last_line`` is when it printed last, in seconds on the job's clock; None where no line of
    it has a time.
    """

    rank: int
    role: Role
    host: str | None = None
    device: str | None = None
    pid: int | None = None
    group: str | None = None
    completed: int | None = None
    enqueued: int | None = None
    waits_in: str | None = None
    last_sign: str = ""
    where: Place | None = None
    wait: RankWait | None = None
    last_line: float | None = None


class AlarmOrder(StrEnum):
    """Whether the first complaint is shown to be the first error of the job."""

    FIRST = "first"
    TIED = "tied"
    UNKNOWN = "unknown"


class Alarm(Struct, frozen=True):
    """The first complaint in the input, most often that of a victim.

    ``order`` says how its time compares with those of all other errors: before them, at the same time as some, or not comparable.
    """

    rank: int | None
    where: Place | None = None
    time: datetime | None = None
    order: AlarmOrder = AlarmOrder.FIRST


class EventRole(StrEnum):
    """The role of an event in the incident."""

    INITIATING = "initiating"
    CASCADE = "cascade"
    TEAR_DOWN = "tear-down"
    UNRELATED = "unrelated"


class IncidentEvent(Struct, frozen=True):
    """One row of the sequence of events: ``count`` like events of ``ranks``.

    ``where`` is the place of the first of them.

    ``cause`` marks the first cause that fits the verdict; at most one row has it. ``time`` is as printed, with the year that other
    lines tell where its own has none, but for a host whose clock was found wrong and set right.
    """

    role: EventRole
    kind: str
    says: str
    where: Place
    time: datetime | None = None
    ranks: Ranks = Ranks()
    host: str | None = None
    count: int = 1
    cause: bool = False


class Proposal(Struct, frozen=True):
    """One hypothesis that was weighed for a stall, and its fate.

    ``stall`` counts the stalls from 1; ``call`` is the call in words; ``fate`` says what became of it: *verdict*, *finding F2*, or
    why it fell.
    """

    stall: int
    cause: CauseClass
    ranks: Ranks
    suspects: Ranks
    call: str
    confidence_in: ConfidenceIn
    headline: str
    fate: str


class Diagnosis(Struct, frozen=True):
    """The whole answer, as plain values; reports show this and nothing else.

    ``findings[0]`` is the verdict. ``capture`` holds the settings that would have recorded more, ready to paste; ``ruled_out`` the other
    hypotheses, with met False (ruled out) or None (not checked). ``catalogue`` counts the remedies that were tried ("42 remedies").
    Pictures are drawn from ``run_up``, ``timeline``, ``stacks`` and ``streams``, None where the input has no data for them. ``story``
    holds the events of the incident in order. ``notices`` name what the answer does not rest on: exceptions from which the ranks of a
    healthy job went on, files of other runs, and those that could not be read. ``proposals`` are all hypotheses that were weighed.
    ``standings`` say where the ranks stand, in few rows; ``proof`` holds the exhibits of the verdict, ``unshown`` the parts of the
    argument that the input cannot show, ``last_lines`` the logs of a culprit and of a waiting peer around the silence. ``job_end`` says
    whether the job still ran. ``fields``, ``link`` and ``snapshots`` are what the first picture may show. ``strip`` holds the calls
    around a mismatch.
    """

    findings: tuple[Finding, ...]
    remedies: tuple[RemedyAdvice, ...]
    avoid: tuple[Avoid, ...]
    job: Job
    coverage: tuple[Coverage, ...]
    action: Action
    ranks: tuple[RankState, ...]
    sources: tuple[Source, ...] = ()
    ruled_out: tuple[Condition, ...] = ()
    capture: tuple[str, ...] = ()
    alarm: Alarm | None = None
    catalogue: str = ""
    run_up: Lateness | None = None
    timeline: Timeline | None = None
    stacks: StackDiff | None = None
    streams: CallDiff | None = None
    story: tuple[IncidentEvent, ...] = ()
    notices: tuple[str, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    standings: tuple[Standing, ...] = ()
    proof: tuple[Exhibit, ...] = ()
    unshown: tuple[Unshown, ...] = ()
    last_lines: tuple[LastLines, ...] = ()
    job_end: JobEnd = UNKNOWN_END
    fields: FieldDiff | None = None
    link: BrokenLink | None = None
    snapshots: Snapshots | None = None
    strip: CallStrip | None = None

    def __repr__(self) -> str:
        return f"<Diagnosis {self.verdict!r}, {len(self.findings)} findings, {len(self.remedies)} remedies>"

    @property
    def verdict(self) -> Finding:
        """The first finding: what the job as a whole suffers from."""
        return self.findings[0]
