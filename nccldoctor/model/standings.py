"""Where the ranks of an incident stand: the one model that all pictures, the table and the ticket draw."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from nccldoctor.model.inputs import Place
from nccldoctor.model.ranks import Ranks


class Involvement(StrEnum):
    """How a rank is involved in the incident, as pictures colour it.

    A ``waiting`` rank waits for a culprit itself; a ``blocked`` one waits for ranks that wait. Example: rank 1 never calls ALLREDUCE #9 of
    its tensor-parallel group; rank 0 waits there, and rank 2 waits for rank 0 in a data-parallel group.
    """

    CULPRIT = "culprit"
    SUSPECT = "suspect"
    WAITING = "waiting"
    BLOCKED = "blocked"
    UNINVOLVED = "not involved"
    UNKNOWN = "unknown"


class WaitedCall(Struct, frozen=True):
    """The call that ranks wait in: its kind of group (``tp``), its operation and number, None where unknown.

    ``groups`` are the labels of all such groups: 84 data-parallel groups wait in the same ALLREDUCE #2115. ``site`` is the line of the
    program that made it, ``train_step (train.py:40)``, where a traceback shows that and no file numbers the call.
    """

    kind: str
    op: str | None
    seq: int | None
    groups: tuple[str, ...] = ()
    site: str = ""


class WaitEnd(StrEnum):
    """How the end of a wait is known.

    ``timed-out``: a line with a time says so. ``timeout``: the line has none, so it is when the timeout was over. ``exit``: the process
    ended without a word. ``before-exit``: it timed out in a line without a time, and ended then at the latest.
    """

    TIMED_OUT = "timed-out"
    TIMEOUT = "timeout"
    EXIT = "exit"
    BEFORE_EXIT = "before-exit"


class WaitStart(StrEnum):
    """How the start of a wait is known.

    ``recorded``: a recorder noted when the call was issued. ``calculated``: it is the time of a timeout less what the call ran.
    ``at-latest``: the line of the timeout has no time; the wait began its timeout before the process ended, or earlier.
    """

    RECORDED = "recorded"
    CALCULATED = "calculated"
    AT_LATEST = "at-latest"


class WaitTimes(Struct, frozen=True):
    """Since when and until when one rank waited, in seconds on the job's clock; None where unknown.

    ``start`` says how ``since`` is known, and ``is_zoned`` whether what shows it names its zone. ``ran_ms`` is how long the call ran as
    the rank's own line prints it, ``timeout_ms`` its limit.
    """

    since: float | None = None
    until: float | None = None
    end: WaitEnd | None = None
    start: WaitStart | None = None
    is_zoned: bool = False
    ran_ms: float | None = None
    timeout_ms: int | None = None

    @property
    def is_calculated(self) -> bool:
        """True where no line and no record holds ``since``."""
        return self.start in (WaitStart.CALCULATED, WaitStart.AT_LATEST)

    def waited_ms(self, seen: float | None = None) -> float | None:
        """How long it waited; None where unknown.

        Of a job that still ran when it was looked at, at ``seen``, it is until then.
        """
        if self.ran_ms is not None:
            return self.ran_ms
        until = self.until if self.until is not None else seen
        if self.since is None or until is None or until < self.since:
            return None
        return round((until - self.since) * 1e3, 3)


class RankWait(Struct, frozen=True):
    """The call that one rank waits in or timed out in, with the ranks it waits for and the times.

    Example: rank 3 issued ALLREDUCE #9 at 12.0 s, rank 1 never did, and rank 3 timed out at 20.0 s: it waited 8 s for rank 1.

    ``call`` has no operation and no number where no file names them; ``waits_for`` is empty where nothing shows it.
    """

    call: WaitedCall
    waits_for: Ranks = Ranks()
    times: WaitTimes = WaitTimes()


class Standing(Struct, frozen=True):
    """Ranks that stand alike: involved alike, in the same call.

    ``hosts`` is empty where that of one of them is not known.
    ``waits_for`` are the ranks that their calls miss; empty where no input shows it. ``frame`` is the function of the job's own code
    that all their stacks stand in, ``frame_at`` its file and line.
    ``last`` is what they were last seen at outside a call. ``end`` says how the processes ended (``SIGTERM``, ``exit code 1 or
    SIGTERM``), "" where the end of one of them is not on record. ``distance`` counts the waits to a culprit: 0 for the culprit itself,
    None where no wait leads there. Times are seconds on the job's clock, None where unknown: ``since`` the first of them began to wait,
    or was last seen at work; ``until`` the last of them gave up, or ended without; ``ended`` the last of their processes ended.
    ``is_calculated``: no line holds ``since``; it is the time of a timeout less what the call ran.
    """

    ranks: Ranks
    involvement: Involvement
    hosts: tuple[str, ...] = ()
    call: WaitedCall | None = None
    waits_for: Ranks = Ranks()
    frame: str = ""
    frame_at: str = ""
    last: str = ""
    end: str = ""
    distance: int | None = None
    since: float | None = None
    until: float | None = None
    ended: float | None = None
    is_calculated: bool = False


class TrackRow(Struct, frozen=True):
    """One thing that a rank did, as ``inspect --tracks`` and ``incident.tracks`` show it.

    ``doing`` is the kind, ``what`` says it in words; ``group`` and ``seq`` are those of a call that hangs. It began not before ``earliest``
    and not after ``latest``, in seconds on the job's clock (infinite: unknown), by what ``known_by`` names. ``where`` is the line or the
    recorder entry that shows it; None in the row that says why nothing is known of a rank.
    """

    rank: int
    doing: str
    what: str
    group: str | None
    seq: int | None
    earliest: float
    latest: float
    known_by: str
    where: Place | None
