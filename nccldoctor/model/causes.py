"""The classes of cause, their families, and how far a finding may be relied on."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Family(StrEnum):
    """The kind of trouble that a class of causes belongs to."""

    ABSENT = "absent"
    DISAGREE = "disagree"
    INSIDE = "inside"
    SETUP = "setup"
    SLOW = "slow"
    NONE = "none"
    UNDETERMINED = "undetermined"


class CauseClass(StrEnum):
    """The classes of the contract, each with a rule in ``diagnose/rules/``, in the room of its family.

    Rules are asked in the order of this list, the most telling first: the first one that holds explains a stall. An Xid on rank 7,
    say, comes before "rank 7 never issued ALLREDUCE #18", which only describes what followed from it.
    """

    INIT = "init"
    HARDWARE = "hardware"
    NETWORK = "network"
    RAISED = "raised"
    EXTRA_CALL = "extra-call"
    MISSED_CALL = "missed-call"
    OP_MISMATCH = "op-mismatch"
    SIZE_MISMATCH = "size-mismatch"
    DTYPE_MISMATCH = "dtype-mismatch"
    DIED = "died"
    DEVICE_STALLED = "device-stalled"
    ORDER_INVERSION = "order-inversion"
    UNMATCHED_P2P = "unmatched-p2p"
    STRAGGLER = "straggler"
    NOT_ARRIVED = "not-arrived"
    UNFINISHED = "unfinished"
    FROZEN = "frozen"
    NONE = "none"
    UNDETERMINED = "undetermined"

    @property
    def family(self) -> Family:
        """The family this class belongs to."""
        return _FAMILY[self]


_FAMILIES = {
    Family.ABSENT: ("not-arrived", "frozen", "died", "raised"),
    Family.DISAGREE: (
        *("op-mismatch", "size-mismatch", "dtype-mismatch", "missed-call", "extra-call"),
        *("order-inversion", "unmatched-p2p"),
    ),
    Family.INSIDE: ("device-stalled", "unfinished", "network", "hardware"),
    Family.SETUP: ("init",),
    Family.SLOW: ("straggler",),
    Family.NONE: ("none",),
    Family.UNDETERMINED: ("undetermined",),
}
_FAMILY = {cause: family for family, causes in _FAMILIES.items() for cause in causes}


class Confidence(StrEnum):
    """The degree to which a finding is reliable, the highest first; *high* needs independent observers that agree."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    CANNOT_TELL = "cannot-tell"

    @property
    def depth(self) -> int:
        """The number of steps below *high*: 0 for high, 3 for cannot-tell."""
        return _DEPTH[self]

    @classmethod
    def lowest(cls, levels: Iterable[Confidence]) -> Confidence:
        """The lowest of some levels; *high* where there are none."""
        return max(levels, key=lambda level: level.depth, default=cls.HIGH)


_DEPTH = {level: depth for depth, level in enumerate(Confidence)}
