"""What may be the matter with several settings together: one makes another pointless, or ranks disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from nccldoctor.events import Setting
from nccldoctor.ranks import Ranks
from nccldoctor.setting_checks import BLOCKING, Judgement, Kind, number, switched_on
from nccldoctor.setting_table import look_up

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
    for name, sightings in by_name.items():
        row = look_up(name)
        if row is None or not row.same_on_all_ranks:
            continue
        last = {s.rank: s for s in sightings if s.rank is not None}
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
