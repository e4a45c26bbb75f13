"""What to do now, step by step, and whether the job still runs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from nccldoctor.model.inputs import Place


class StepKind(StrEnum):
    """What a step is for."""

    OPEN = "open"
    CHECK = "check"
    FIX = "fix"
    DRAIN = "drain"
    RESTART = "restart"
    IF_AGAIN = "if-again"
    SEND = "send"
    WAIT = "wait"


class Step(Struct, frozen=True):
    """One thing to do: ``text`` is one imperative sentence, ``detail`` says why or what to look for.

    ``command`` is a shell line that stands alone, ``where`` the host that it runs on; both are None where there is none.
    """

    kind: StepKind
    text: str
    detail: str = ""
    command: str | None = None
    where: str | None = None


class JobState(StrEnum):
    """Whether the processes of the job were still there when the newest input was written."""

    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


class JobEnd(Struct, frozen=True):
    """Whether the job has ended, and the line that shows its end; ``by_person``: somebody stopped it with SIGINT.

    ``seen`` is the time of the newest look at it while it ran, and ``deadline`` when the timeout of a running job runs out.
    """

    state: JobState
    where: Place | None = None
    seen: datetime | None = None
    deadline: datetime | None = None
    by_person: bool = False


UNKNOWN_END = JobEnd(JobState.UNKNOWN)
"""Nothing shows whether the job still ran."""
