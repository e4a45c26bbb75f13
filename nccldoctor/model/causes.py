"""The classes of cause, their families, and how far a finding may be relied on."""

from __future__ import annotations

from enum import StrEnum


class Family(StrEnum):
    """What kind of trouble a class belongs to."""

    ABSENT = "absent"
    DISAGREE = "disagree"
    INSIDE = "inside"
    SETUP = "setup"
    SLOW = "slow"
    NONE = "none"
    UNDETERMINED = "undetermined"


class CauseClass(StrEnum):
    """The classes of the contract; one file in ``rules/`` each."""

    NOT_ARRIVED = "not-arrived"
    FROZEN = "frozen"
    DIED = "died"
    RAISED = "raised"
    OP_MISMATCH = "op-mismatch"
    SIZE_MISMATCH = "size-mismatch"
    DTYPE_MISMATCH = "dtype-mismatch"
    MISSED_CALL = "missed-call"
    EXTRA_CALL = "extra-call"
    ORDER_INVERSION = "order-inversion"
    UNMATCHED_P2P = "unmatched-p2p"
    DEVICE_STALLED = "device-stalled"
    UNFINISHED = "unfinished"
    NETWORK = "network"
    HARDWARE = "hardware"
    INIT = "init"
    STRAGGLER = "straggler"
    NONE = "none"
    UNDETERMINED = "undetermined"

    @property
    def family(self) -> Family:
        """The family this class belongs to."""
        return _FAMILY[self]


_FAMILY = {
    **dict.fromkeys(("not-arrived", "frozen", "died", "raised"), Family.ABSENT),
    **dict.fromkeys(
        (
            "op-mismatch",
            "size-mismatch",
            "dtype-mismatch",
            "missed-call",
            "extra-call",
            "order-inversion",
            "unmatched-p2p",
        ),
        Family.DISAGREE,
    ),
    **dict.fromkeys(("device-stalled", "unfinished", "network", "hardware"), Family.INSIDE),
    "init": Family.SETUP,
    "straggler": Family.SLOW,
    "none": Family.NONE,
    "undetermined": Family.UNDETERMINED,
}


class Confidence(StrEnum):
    """How far a finding may be relied on; *high* needs independent observers that agree."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    CANNOT_TELL = "cannot-tell"
