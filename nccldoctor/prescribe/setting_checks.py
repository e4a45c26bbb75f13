"""What may be the matter with one setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nccldoctor.events import Setting
from nccldoctor.model import Place
from nccldoctor.model.ranks import Ranks
from nccldoctor.prescribe.conditions.environment import version_tuple
from nccldoctor.prescribe.setting_table import Known, look_up, nearest

_PAIRS = (
    ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
    ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
)
_NEEDS_WATCHDOG = (
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_NCCL_DESYNC_DEBUG",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_DESYNC_DEBUG",
)
_NEEDS_IB = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "NCCL_IB_TC", "NCCL_IB_SL")


def contradictions(by_name: Mapping[str, list[Setting]]) -> Iterator[Judgement]:
    """Settings of which one makes the other pointless."""

    def first(name: str, holds: Callable[[str], bool]) -> Setting | None:
        return next((s for s in by_name.get(name, ()) if holds(s.value)), None)

    blocking = next((s for name in BLOCKING if (s := first(name, switched_on)) is not None), None)
    if blocking is not None:
        for name in _NEEDS_WATCHDOG:
            if (other := first(name, lambda v: number(v) != 0)) is not None:
                cause = f"{blocking.name}={blocking.value} ({blocking.place})"
                says = f"the watchdog acts on it, and {cause} leaves no watchdog"
                yield Judgement(Kind.CONTRADICTING, other.name, other.value, says, other.place)
    monitor = first("TORCH_NCCL_ENABLE_MONITORING", lambda v: number(v) == 0)
    dump = first("TORCH_NCCL_DUMP_ON_TIMEOUT", switched_on)
    if monitor is not None and dump is not None:
        says = f"the monitor writes the dump, and {monitor.name}=0 ({monitor.place}) turns it off"
        yield Judgement(Kind.CONTRADICTING, dump.name, dump.value, says, dump.place)
    for new, old in _PAIRS:
        one, other = first(new, bool), first(old, bool)
        if one is not None and other is not None and one.value != other.value:
            says = f"{old}={other.value} ({other.place}) is the same setting under its old name, with another value"
            yield Judgement(Kind.CONTRADICTING, one.name, one.value, says, one.place)
    no_ib = first("NCCL_IB_DISABLE", switched_on)
    if no_ib is not None:
        for name in _NEEDS_IB:
            if (other := first(name, bool)) is not None:
                says = f"no effect with NCCL_IB_DISABLE={no_ib.value} ({no_ib.place})"
                yield Judgement(Kind.CONTRADICTING, other.name, other.value, says, other.place)


def differences(by_name: Mapping[str, list[Setting]]) -> Iterator[Judgement]:
    """Settings that must be equal on all ranks and are not; the last value that a rank shows is its value."""
    for name, assigned in by_name.items():
        row = look_up(name)
        if row is None or not row.same_on_all_ranks:
            continue
        last = {s.rank: s for s in assigned if s.rank is not None}
        values = sorted({s.value for s in last.values()})
        if len(values) < 2:
            continue
        groups = {value: Ranks(r for r, s in last.items() if s.value == value) for value in values}
        minority = min(values, key=lambda value: (len(groups[value]), value))
        listed = ", ".join(f"{value} on ranks {groups[value]}" for value in values[:5])
        place = last[next(iter(groups[minority]))].place
        yield Judgement(
            Kind.DIFFERS, name, minority, f"must be equal on all ranks, and is {listed}", place, True, groups[minority]
        )


class Kind(StrEnum):
    """What is the matter with a setting."""

    NOT_READ = "not-read"
    OWN = "read-by-program"
    RENAMED = "renamed"
    VERSION = "not-in-version"
    UNIT = "wrong-unit"
    HARMFUL = "harmful"
    NEEDLESS = "needless"
    CONTRADICTING = "contradicting"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One remark on one setting. ``avoid`` says that it belongs among the advice against: it has no effect, or
    harms.
    """

    kind: Kind
    name: str
    value: str
    says: str
    place: Place
    avoid: bool = False
    ranks: Ranks = field(default_factory=Ranks)


def unknown(one: Setting) -> Iterator[Judgement]:
    """A name of the libraries that is not in the table, with the nearest one that is; never called useless."""
    if not one.name.startswith(("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "GLOO_")):
        return
    near = nearest(one.name)
    hint = f"; the nearest known name is {near}" if near else ""
    yield Judgement(
        Kind.UNKNOWN,
        one.name,
        one.value,
        f"not a name we know; it may belong to a plug-in or to the program{hint}",
        one.place,
    )


def not_read(one: Setting, row: Known, reader: Place | None) -> Judgement:
    """A name that no library reads: without effect, unless the program itself reads it at ``reader``."""
    if reader is not None:
        says = f"neither NCCL nor PyTorch reads it; the program itself does ({reader})"
        return Judgement(Kind.OWN, one.name, one.value, says, one.place)
    says = f"no effect: {row.meaning}" + (f"; {row.notes}" if row.notes else "")
    private = "a program may" in row.read_by and row.name != "NCCL_TIMEOUT"
    return Judgement(Kind.NOT_READ, one.name, one.value, says, one.place, avoid=not private)


Check = Callable[[Setting, Known, str | None, str | None], Judgement | None]


def _version(one: Setting, row: Known, torch: str | None, nccl: str | None) -> Judgement | None:
    """A name that the version in use does not read yet, or no longer."""
    used = nccl if row.read_by == "nccl" else torch if row.read_by == "torch" else None
    if used is None:
        return None
    reader = "NCCL" if row.read_by == "nccl" else "PyTorch"
    first = row.first_seen.split(" ")[0].lstrip("~")
    # Torch's first releases are approximate in the table, so only the exact ones are held against a setting.
    if first[:1].isdigit() and not row.first_seen.startswith("~") and version_tuple(used) < version_tuple(first):
        return Judgement(
            Kind.VERSION,
            one.name,
            one.value,
            f"no effect: {reader} reads it from {first} on, this is {used}",
            one.place,
            True,
        )
    if row.status == "removed" and row.last_seen and version_tuple(used) > version_tuple(row.last_seen):
        return Judgement(
            Kind.VERSION,
            one.name,
            one.value,
            f"no effect: {reader} read it up to {row.last_seen}, this is {used}",
            one.place,
            True,
        )
    return None


def _renamed(one: Setting, row: Known, torch: str | None, nccl: str | None) -> Judgement | None:
    if row.status != "renamed, still read":
        return None
    return Judgement(
        Kind.RENAMED, one.name, one.value, f"PyTorch reads it under its old name: {row.meaning}", one.place
    )


def number(text: str) -> int | None:
    """A whole number as C's strtoll reads it, None where there is none."""
    try:
        return int(text.strip().strip("'\""), 0)
    except ValueError:
        return None


_RANGES: dict[str, tuple[int, int, str]] = {
    "NCCL_IB_TIMEOUT": (
        0,
        31,
        "an exponent from 0 to 31: 20 is 4.3 s, 22 is 17 s for each try; it limits no collective",
    ),
    "NCCL_IB_RETRY_CNT": (0, 7, "a count; the hardware allows 7 at most"),
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": (0, 3, "a mode from 0 to 3"),
    "NCCL_ASYNC_ERROR_HANDLING": (0, 3, "a mode from 0 to 3"),
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": (
        10,
        86_400,
        "seconds; more than a day hides every stall, less than ten kills healthy jobs",
    ),
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": (1000, 3_600_000, "milliseconds; a dump needs seconds"),
    "TORCH_FR_BUFFER_SIZE": (0, 1_000_000, "a number of calls, not of bytes"),
    "TORCH_NCCL_TRACE_BUFFER_SIZE": (0, 1_000_000, "a number of calls, not of bytes"),
    "DEEPSPEED_TIMEOUT": (1, 1440, "minutes"),
    "NCCL_PROXY_DUMP_SIGNAL": (-1, 64, "a signal number"),
    "NCCL_RAS_TIMEOUT_FACTOR": (1, 1000, "a factor, not a time"),
    "NCCL_CROSS_NIC": (0, 2, "a mode: 0, 1 or 2"),
}


def _unit(one: Setting, row: Known, torch: str | None, nccl: str | None) -> Judgement | None:
    """A value that cannot be meant: out of range, not a number, or no word of those that are read."""
    value = one.value.strip().strip("'\"")
    if not value or value.startswith(("$", "<", "%")):
        return None
    held = number(value)
    if row.name in _RANGES:
        low, high, unit = _RANGES[row.name]
        if held is None or not low <= held <= high:
            return Judgement(Kind.UNIT, one.name, one.value, f"it takes {unit}", one.place, avoid=True)
    elif "|" in row.unit:
        words = (*row.unit.split("|"), "ABORT") if row.name == "NCCL_DEBUG" else tuple(row.unit.split("|"))
        if value.upper() not in words:
            return Judgement(Kind.UNIT, one.name, one.value, f"it takes {', '.join(words)}", one.place, avoid=True)
    elif row.unit in ("bytes", "ms", "s", "ns", "us", "count", "entries") and held is None:
        return Judgement(Kind.UNIT, one.name, one.value, f"it takes a whole number ({row.unit})", one.place, avoid=True)
    return None


BLOCKING = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")


def switched_on(value: str) -> bool:
    """Whether PyTorch takes a value for *on*: 1, y, yes, t, true."""
    return value.strip().strip("'\"").lower() in ("1", "y", "yes", "t", "true", "on")


def _harmful(one: Setting, row: Known, torch: str | None, nccl: str | None) -> Judgement | None:
    """What blinds the next diagnosis."""
    says = ""
    if one.name in BLOCKING and switched_on(one.value):
        says = "turns off watchdog, heartbeat monitor and every automatic dump in current PyTorch: remove it first"
    elif one.name == "TORCH_NCCL_ENABLE_MONITORING" and number(one.value) == 0:
        says = "nothing then ends a process whose watchdog is stuck, nor dumps for other ranks: the job hangs on"
    elif one.name == "TORCH_INCLUDE_ONLY_ACTIVE" and switched_on(one.value):
        says = "leaves finished calls out of the dumps; ranks can then not be compared"
    elif one.name == "NCCL_RAS_ENABLE" and number(one.value) == 0:
        says = "turns off the one service that answers who is missing while a job hangs"
    return Judgement(Kind.HARMFUL, one.name, one.value, says, one.place, avoid=True) if says else None


_DEFAULTS = {
    "NCCL_IB_DISABLE": 0,
    "NCCL_P2P_DISABLE": 0,
    "NCCL_SHM_DISABLE": 0,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": 3,
    "TORCH_NCCL_ENABLE_MONITORING": 1,
    "NCCL_RAS_ENABLE": 1,
}


def _needless(one: Setting, row: Known, torch: str | None, nccl: str | None) -> Judgement | None:
    if one.name in _DEFAULTS and number(one.value) == _DEFAULTS[one.name]:
        return Judgement(Kind.NEEDLESS, one.name, one.value, "that is the default", one.place)
    return None


CHECKS: tuple[Check, ...] = (_version, _renamed, _unit, _harmful, _needless)
