"""Tidy pandas frames of a case and its diagnosis: real dtypes, ``<NA>`` for unknown values.

Rank sets are text (``0-3,7``); times are UTC; durations and limits end in ``_ms``. A place is a ``path`` with a ``line`` (from 1) or an
``entry`` of a dump (from 0). No column has the name of a method of a frame: hence ``global_rank``, since ``frame.rank`` is one. Pandas
is imported when a frame is asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Struct

from nccldoctor.identify.case import Case
from nccldoctor.identify.event_times import YEARLESS
from nccldoctor.model import Diagnosis, Family, Finding, Place, RankState, SourceKind, Stalled
from nccldoctor.model.errors import OutputError
from nccldoctor.model.operations import OP_TYPES, op_type
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED, STATES, Frame, Shape
from nccldoctor.model.stack_frames import is_library
from nccldoctor.model.standings import RankWait, WaitedCall, WaitEnd, WaitStart, WaitTimes
from nccldoctor.words.names import call_title
from nccldoctor.words.sanitize import encodable
from nccldoctor.words.secrets import masked, masked_fields

_RANKS = (
    "rank:Int64 role.value:category host:string device:string pid:Int64 group:string completed:Int64 enqueued:Int64 "
    "waits_in:string last_sign:string"
)
_FINDINGS = (
    "id:string family.value:category cause.value:category confidence.value:category confidence_in.ranks:category "
    "confidence_in.cause:category headline:string ranks:string "
    "suspects:string victims:string"
)
_EVIDENCE = "says:string supports:bool quote:string observer:string"
_GROUPS = "uid:string desc:string label:string members:string learned:category"
_HYPOTHESES = (
    "stall:Int64 cause.value:category ranks:string suspects:string call:string confidence_in.ranks:category "
    "confidence_in.cause:category headline:string fate:string"
)
_COVERAGE = "input:string expected:string found:string"
_REMEDIES = "id:string title:string finding:string fit:category conditions_met:Int64 conditions:Int64"
"""Columns of the frames: the attribute and its dtype."""

_NAMES = {
    "cause": "class",
    "confidence_in.ranks": "confidence_in_ranks",
    "confidence_in.cause": "confidence_in_class",
    "uid": "id",
    "desc": "description",
    "rank": "global_rank",
}
"""Columns that are called otherwise than their attribute: as in the JSON, and ``rank``, which is a method of frames."""


def _columns(items: Iterable[object], columns: str) -> dict[str, Any]:
    """``_columns(ranks, "rank:Int64 role.value:category")`` has a column ``rank`` and a column ``role``."""
    rows, out = list(items), {}
    for path, _, dtype in (column.partition(":") for column in columns.split()):
        name = _NAMES.get(path) or path.partition(".")[0]
        values = map(attrgetter(path), rows)
        out[_NAMES.get(name, name)] = _series(
            [None if v is None else str(v) for v in values] if dtype == "string" else values, dtype
        )
    return out


def _series(values: Iterable[Any], dtype: str) -> Any:
    return pd.Series([_storable_text(v) if isinstance(v, str) else v for v in values], dtype=dtype)


def _rank_sets(sets: Sequence[Ranks]) -> Any:
    """Rank sets as text; thousands of ranks that wait in one call share one set."""
    texts = {ranks: str(ranks) or None for ranks in set(sets)}
    return _series((texts[ranks] for ranks in sets), "string")


def _masked_field(value: Any) -> Any:
    """A field of an event, with every text in it masked."""
    if isinstance(value, str):
        return _storable_text(value)
    if isinstance(value, dict):
        return {key: _masked_field(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_masked_field, value))
    return value


def _storable_text(text: str) -> str:
    """A text without secrets that UTF-8 can hold, as Arrow's columns and files ask for."""
    return encodable(masked(text))


def _integers(column: npt.NDArray[Any]) -> Any:
    """Nullable integers; -1 stands for missing in our tables."""
    values = np.asarray(column, dtype=np.int64)
    return pd.arrays.IntegerArray(values, values < 0)


def _times(column: npt.NDArray[np.int64]) -> Any:
    """UTC times of nanoseconds since the epoch; 0 is no time."""
    values = column.astype("datetime64[ns]")
    values[column == 0] = np.datetime64("NaT", "ns")
    return pd.Series(values).dt.tz_localize("UTC")


def _moments(seconds: npt.NDArray[np.float64]) -> Any:
    """UTC times of seconds since the epoch, to the microsecond. NaN is no time, and so is a year that nanoseconds do not reach."""
    known = np.isfinite(seconds) & (np.abs(seconds) < 9e9)  # nanoseconds reach to the year 2255
    values = np.full(len(seconds), "NaT", dtype="datetime64[ns]")
    values[known] = np.round(seconds[known] * 1e6).astype("datetime64[us]")
    return pd.Series(values).dt.tz_localize("UTC")


def _as_printed(time: datetime | None) -> str | None:
    """A time as the line has it: without a year where it has none."""
    if time is None:
        return None
    return time.isoformat()[5:] if time.year == YEARLESS else time.isoformat()


def _place_columns(places: Sequence[Place | None]) -> dict[str, Any]:
    """The columns ``path``, ``line`` and ``entry`` of places."""
    return {
        "path": pd.Series([_storable_text(place.path) if place else None for place in places], dtype="category"),
        "line": _series((place.line if place else None for place in places), "Int64"),
        "entry": _series((place.entry if place else None for place in places), "Int64"),
    }


def _spread(case: Case) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Milliseconds from the first issue of the same call to this one, and from this one to the last.

    NaN where one rank alone recorded the call; the wait also where nobody finished the call and a member has not issued it. The same
    call: one number of one group, and no send or receive, whose two ends have no number in common.
    """
    table = case.calls
    late = np.full(len(table), np.nan)
    wait = late.copy()
    rows = np.flatnonzero((case.call_group >= 0) & (table.seq >= 0) & (table.created_ns > 0) & ~table.is_p2p)
    if not len(rows):
        return late, wait
    rows = rows[np.lexsort((table.seq[rows], case.call_group[rows]))]
    group, seq, rank, issued = (
        column[rows] for column in (case.call_group, table.seq, case.call_rank, table.created_ns)
    )
    starts = np.flatnonzero(np.r_[True, (group[1:] != group[:-1]) | (seq[1:] != seq[:-1])])
    sizes = np.diff(np.r_[starts, len(rows)])
    first, last = (np.repeat(of.reduceat(issued, starts), sizes) for of in (np.minimum, np.maximum))
    shared = np.repeat(np.minimum.reduceat(rank, starts) != np.maximum.reduceat(rank, starts), sizes)
    late[rows] = np.where(shared, (issued - first) / 1e6, np.nan)
    members = np.array([len(of.members) for of in case.groups])[group]
    is_done = np.repeat(np.logical_or.reduceat(table.retired[rows] | (table.state[rows] == COMPLETED), starts), sizes)
    wait[rows] = np.where(shared & (is_done | (sizes.repeat(sizes) >= members)), (last - issued) / 1e6, np.nan)
    return late, wait


def _category(codes: npt.NDArray[Any], names: Sequence[str]) -> Any:
    """A categorical of our codes; different codes may read alike, so categories are joined by name."""
    names = [_storable_text(name) for name in names]
    unique = {name: number for number, name in enumerate(dict.fromkeys(name for name in names if name))}
    joined = np.array([unique.get(name, -1) for name in names] + [-1], dtype=np.int64)
    known = np.where((codes >= 0) & (codes < len(names)), codes, len(names))
    return pd.Categorical.from_codes(joined[known], categories=pd.Index(list(unique), dtype=object))


def calls(case: Case) -> pd.DataFrame:
    """One row per recorded call.

    ``global_rank`` Int64 · ``group`` category, as people call it · ``seq``, ``p2p_seq`` Int64 · ``op`` category, as the watchdog calls
    it and all frames do (``ALLREDUCE``) · ``recorded_op`` category, as the dump has it (``all_reduce``, ``send 0->1``) · ``sizes``,
    ``data_types`` category, inputs -> outputs · ``numel_in``, ``numel_out`` Int64 · ``state`` category · ``retired`` bool ·
    ``created``, ``started``, ``completed`` UTC · ``lateness_ms`` float, how long after the first member it was issued · ``wait_ms``
    float, how long it waited for the last member to issue it, NaN where one never did · ``duration_ms`` float · ``timeout_ms`` Int64 ·
    ``frame`` category, the innermost frame of the user's own code · ``path`` category, ``entry`` Int64, its place.

    ``incident.calls.attrs["remark"]`` says why the frame is empty, else it is "".
    """
    table, words = case.calls, case.vocabulary
    late, wait = _spread(case)
    frame = pd.DataFrame(
        {
            "global_rank": _integers(case.call_rank),
            "group": _category(case.call_group, [group.label for group in case.groups]),
            "seq": _integers(table.seq),
            "p2p_seq": _integers(table.p2p_seq),
            "op": _category(table.op, [op_type(name) for name in words.ops]),
            "recorded_op": _category(table.op, words.ops),
            "sizes": _category(table.sizes, [_pair(_shape(a), _shape(b)) for a, b in words.sizes]),
            "data_types": _category(table.dtypes, [_pair(", ".join(a), ", ".join(b)) for a, b in words.dtypes]),
            "numel_in": _integers(table.numel_in),
            "numel_out": _integers(table.numel_out),
            "state": _category(table.state, STATES),
            "retired": pd.Series(table.retired),
            "created": _times(table.created_ns),
            "started": _times(table.started_ns),
            "completed": _times(table.completed_ns),
            "lateness_ms": pd.Series(late),
            "wait_ms": pd.Series(wait),
            "duration_ms": pd.Series(table.duration_ms),
            "timeout_ms": _integers(table.timeout_ms),
            "frame": _category(table.stack, [_own(stack) for stack in words.stacks]),
            "path": _category(table.dump, [dump.path for dump in case.dumps]),
            "entry": _integers(table.entry),
        }
    )
    unread = "the flight recorder dumps hold no call" if case.dumps else "no flight recorder dump was read"
    frame.attrs["remark"] = "" if len(frame) else unread
    return frame


def events(case: Case) -> pd.DataFrame:
    """One row per event.

    ``kind`` category · ``global_rank``, ``group_rank`` Int64 · ``group`` text · ``time`` UTC, on the one clock of the case, NaT where the
    line prints none: ``events.groupby("path").time.ffill()`` takes that of the line above · ``tz_known`` bool: the line names its zone;
    without one, recorder dumps show it, else it counts as UTC, and a year that no source names is 2000 · ``clock`` text, the time as
    printed · ``host``, ``pod`` text · ``pid`` Int64 · ``path``, ``line``, ``entry`` its place · ``text`` text · ``fields`` object, a
    dictionary of the fields of that kind.
    """
    items = case.events
    return pd.DataFrame(
        {
            "kind": pd.Categorical([event.kind for event in items]),
            **_columns(items, "rank:Int64 group_rank:Int64 group:string"),
            "time": _moments(np.asarray(case.seconds, dtype=np.float64)),
            "tz_known": pd.Series(
                [event.time is not None and event.time.tzinfo is not None for event in items], dtype=bool
            ),
            "clock": _series((_as_printed(event.time) for event in items), "string"),
            **_columns(items, "host:string pod:string pid:Int64"),
            **_place_columns([event.place for event in items]),
            "text": _series((event.text for event in items), "string"),
            "fields": pd.Series(
                [_masked_field(masked_fields(event.details(), event.text)) for event in items], dtype=object
            ),
        }
    )


def ranks(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per rank.

    ``global_rank`` Int64 · ``role`` category, as on the page: culprit, suspect, waiting, blocked, not-involved or unknown · ``host``,
    ``device`` text · ``pid`` Int64 · ``group`` text, that in which it waits, else its first · ``completed``, ``enqueued`` Int64, the
    numbers of its last collectives there · ``waits_in`` text, the call · ``waits_for`` text, the ranks that this call misses ·
    ``waited_ms`` float, from when this rank began to wait until it timed out or ended, or was last looked at · ``last_sign`` text, what
    was seen of it last · ``last_line`` UTC, the time of its newest line; a zone that the line does not name counts as UTC · ``path``,
    ``line``, ``entry`` the place of ``last_sign``.
    """
    items = diagnosis.ranks
    own, seen = [state.wait for state in items], _newest_look(diagnosis)
    columns = _columns(items, _RANKS)
    roles = {rank: standing.involvement.value for standing in diagnosis.standings for rank in standing.ranks}
    last_sign = columns.pop("last_sign")
    return pd.DataFrame(
        {
            **columns,
            "role": pd.Categorical([roles.get(state.rank, state.role).replace(" ", "-") for state in items]),
            "waits_for": _rank_sets([one.waits_for if one else Ranks() for one in own]),
            "waited_ms": _series((one.times.waited_ms(seen) if one else None for one in own), "float64"),
            "last_sign": last_sign,
            "last_line": _last_lines(items),
            **_place_columns([state.where for state in items]),
        }
    )


def tracks(case: Case) -> pd.DataFrame:
    """One row per thing that a rank did, rank by rank, oldest first.

    ``global_rank`` Int64 · ``doing`` category, such as *in call*, *gave up* or *ended* · ``what`` text · ``group`` text and ``seq``
    Int64 of a call that hangs · ``earliest``, ``latest`` UTC, the bounds of when it began, ``<NA>`` where nothing bounds it · ``known_by``
    text, what the bounds rest on: recorder, own timer, silent timer, line or order · ``path``, ``line``, ``entry`` where it is shown.
    """
    from nccldoctor.summarise.standings import track_rows

    rows = list(track_rows(case))
    bounds = {name: [getattr(row, name) for row in rows] for name in ("earliest", "latest")}
    return pd.DataFrame(
        {
            **_columns(rows, "rank:Int64 doing:category what:string group:string seq:Int64"),
            **{name: _moments(np.array(values, dtype=np.float64)) for name, values in bounds.items()},
            **_columns(rows, "known_by:string"),
            **_place_columns([row.where for row in rows]),
        }
    )


def _last_lines(states: Iterable[RankState | None]) -> Any:
    """The times of the newest lines of some ranks."""
    times = [math.nan if state is None or state.last_line is None else state.last_line for state in states]
    return _moments(np.array(times, dtype=np.float64))


def _newest_look(diagnosis: Diagnosis) -> float | None:
    """When the job was last looked at while it ran, in seconds of its clock."""
    seen = diagnosis.job_end.seen
    if seen is None:
        return None
    return (seen if seen.tzinfo is not None else seen.replace(tzinfo=UTC)).timestamp()


class Arrival(StrEnum):
    """Whether a rank made a call: it *entered*, it is *missing*, or nothing shows which (*unseen*)."""

    ENTERED = "entered"
    MISSING = "missing"
    UNSEEN = "unseen"


class _Wait(Struct, frozen=True):
    """One rank of a call that stalled.

    ``finding`` is None of a call that only waits for another one. ``own`` is what the rank waits in where that is this call, and
    ``elsewhere`` where it is an earlier one.
    """

    finding: str | None
    group: str | None
    op: str | None
    seq: int | None
    timeout_ms: int | None
    rank: int
    arrival: Arrival
    waits_for: Ranks
    own: RankWait | None
    elsewhere: RankWait | None
    seen: float | None

    @property
    def since(self) -> float | None:
        """When it began to wait, in seconds of the job's clock."""
        return self.own.times.since if self.own is not None else None

    @property
    def has_zone(self) -> bool:
        """Whether what shows ``since`` names its zone."""
        return self.own is not None and self.own.times.is_zoned

    @property
    def waited_ms(self) -> float | None:
        """How long it waited."""
        return self.own.times.waited_ms(self.seen) if self.own is not None else None

    @property
    def remark(self) -> str | None:
        """Why values are missing in its row, or less sure."""
        if self.arrival is Arrival.MISSING:
            return "did not make this call, and waits for no rank in it"
        if self.arrival is Arrival.UNSEEN:
            return "no file tells if it made this call"
        remarks = []
        if self.seq is None:
            lacks = "names" if self.op is None else "numbers"
            by_verdict = ": waits_for is by the verdict" if self.finding and self.waits_for else ""
            remarks.append(f"no file {lacks} the call{by_verdict}")
        if not self.waits_for:
            remarks.append("nothing shows for which rank it waits")
        if self.elsewhere is not None:
            remarks.append(f"its own wait is in {call_title(self.elsewhere.call.op, self.elsewhere.call.seq)}")
        else:
            remarks += self._remarks_on_times()
        return "; ".join(remarks) or None

    def _remarks_on_times(self) -> Iterator[str]:
        times = self.own.times if self.own is not None else WaitTimes()
        if times.since is None:
            yield "nothing shows when it began to wait; last_line is when it printed last"
        elif times.start is WaitStart.CALCULATED:
            yield "since is calculated from its timeout"
        elif times.start is WaitStart.AT_LATEST:
            yield "its line about the timeout has no time: since is its timeout before its process ended, at the latest"
        if self.waited_ms is None:
            yield "nothing shows until when it waited"
        elif times.ran_ms is None and times.until is None:
            yield "no end is recorded: waited_ms is until the newest look"
        elif times.ran_ms is None and times.end is WaitEnd.TIMEOUT:
            yield "its line about the timeout has no time: waited_ms is the timeout"
        elif times.ran_ms is None and times.end is WaitEnd.BEFORE_EXIT:
            yield "its line about the error has no time: waited_ms is until its process ended"


def waits(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per rank of each call that stalled, also for a rank that never made the call.

    ``finding`` text, of which this is the stalled call; ``<NA>`` of a call whose ranks wait for ranks that wait themselves, and of a call
    in which a rank timed out · ``group``, ``op`` text, ``seq`` Int64, the call · ``global_rank`` Int64 · ``arrival`` category, entered,
    missing (it did not make the call, or not before its peers timed out) or unseen (nothing shows which) · ``waits_for`` text, the ranks
    that it waits for · ``timeout_ms`` Int64, the limit of the call · ``since`` UTC, when it began to wait · ``tz_known`` bool: the recorder
    or a line shows the zone of ``since``; else the clock of the lines counts as UTC · ``waited_ms`` float, until it timed out or ended, or
    was last looked at · ``last_line`` UTC, when the rank printed its newest line: one that is silent since then waits from a later moment
    on · ``remark`` text, why a value is ``<NA>``, open or calculated.

    ``incident.waits.attrs["remark"]`` says why the frame is empty, or what was not collected; it is "" where nothing lacks.
    """
    rows = _waits(diagnosis)
    frame = pd.DataFrame(
        {
            **_columns(rows, "finding:string group:string op:string seq:Int64 rank:Int64 arrival.value:category"),
            "waits_for": _rank_sets([row.waits_for for row in rows]),
            **_columns(rows, "timeout_ms:Int64"),
            "since": _moments(np.array([row.since for row in rows], dtype=np.float64)),
            "tz_known": pd.Series([row.has_zone for row in rows], dtype=bool),
            **_columns(rows, "waited_ms:float64"),
            "last_line": _last_lines(
                map({state.rank: state for state in diagnosis.ranks}.get, (row.rank for row in rows))
            ),
            **_columns(rows, "remark:string"),
        }
    )
    frame.attrs["remark"] = _remark_on_waits(diagnosis, bool(rows))
    return frame


def _waits(diagnosis: Diagnosis) -> list[_Wait]:
    """The stalled calls of the findings, each once, then the other calls that ranks wait in."""
    waits = {state.rank: state.wait for state in diagnosis.ranks}
    seen = _newest_look(diagnosis)
    awaited = [(finding, call) for finding in diagnosis.findings if (call := finding.awaited) is not None]
    calls = {(call.group, call.op, call.seq): finding for finding, call in reversed(awaited)}
    rows = [row for f in diagnosis.findings if f in calls.values() for row in _of_finding(f, waits, seen)]
    told = {row.rank for row in rows if row.own is not None}
    others = [(rank, wait) for rank, wait in waits.items() if wait is not None and rank not in told]
    return rows + [
        _Wait(
            finding=None,
            group=next(iter(wait.call.groups), None),
            op=_op(wait.call.op),
            seq=wait.call.seq,
            timeout_ms=wait.times.timeout_ms,
            rank=rank,
            arrival=Arrival.ENTERED,
            waits_for=wait.waits_for,
            own=wait,
            elsewhere=None,
            seen=seen,
        )
        for rank, wait in others
    ]


def _of_finding(finding: Finding, waits: Mapping[int, RankWait | None], seen: float | None) -> Iterator[_Wait]:
    """The members of the stalled call of a finding, by rank."""
    call = finding.awaited
    if call is None:
        return
    of_arrival = ((Arrival.ENTERED, call.entered), (Arrival.MISSING, call.missing), (Arrival.UNSEEN, call.unseen))
    for rank, arrival in sorted((rank, arrival) for arrival, ranks in of_arrival for rank in ranks):
        is_in = arrival is Arrival.ENTERED
        wait = waits.get(rank) if is_in else None
        own = wait if wait is not None and _is_in(wait.call, call) else None
        if finding.stalled is None and wait is not None and own is None:
            continue  # its own lines name the call
        needs = (call.missing if finding.stalled is not None or own is None else Ranks()) or (
            own.waits_for if own is not None else Ranks()
        )
        limit = own.times.timeout_ms if own is not None else None
        yield _Wait(
            finding=finding.id,
            group=call.group,
            op=_op(call.op or (own.call.op if own is not None else None)),
            seq=call.seq,
            timeout_ms=limit or call.timeout_ms,
            rank=rank,
            arrival=arrival,
            waits_for=needs if is_in else Ranks(),
            own=own,
            elsewhere=wait if own is None else None,
            seen=seen,
        )


def _op(name: str | None) -> str | None:
    """The operation as all frames spell it; a stack names the function instead, ``all_reduce``."""
    return OP_TYPES.get(name, name) if name is not None else None


def _is_in(own: WaitedCall, call: Stalled) -> bool:
    """True where a rank waits in a call that it entered: its own wait names this call, or none."""
    is_group = not own.groups or call.group is None or call.group in own.groups
    return is_group and (own.seq == call.seq or (own.seq is None and own.op in (None, call.op)))


def _remark_on_waits(diagnosis: Diagnosis, has_rows: bool) -> str:
    """Why the frame of waits is empty, or what it lacks."""
    if diagnosis.verdict.family is Family.NONE and not has_rows:
        return "no rank waits: nothing hangs"
    has_dumps = any(source.kind is SourceKind.RECORDER for source in diagnosis.sources)
    has_stacks = any(source.kind is SourceKind.STACKS for source in diagnosis.sources)
    own = "lines and stacks" if has_stacks else "lines"
    lacks = "" if has_dumps else f"no flight recorder dump: a rank is known by its own {own} alone"
    if has_rows:
        return lacks
    if not diagnosis.ranks:
        return "no line shows of which rank it is"
    return f"no file names a call that ranks wait in{'; ' if lacks else ''}{lacks}"


def findings(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per finding, the verdict first.

    ``id`` · ``family``, ``class`` · ``confidence``, the lower of ``confidence_in_ranks`` and ``confidence_in_class`` · ``headline`` ·
    ``ranks`` at fault, ``suspects``, ``victims`` · ``op``, ``seq``, ``group`` of the stalled call · ``agree`` and ``contradict`` count its
    evidence.
    """
    items = diagnosis.findings
    calls = [finding.stalled for finding in items]
    return pd.DataFrame(
        {
            **_columns(items, _FINDINGS),
            "op": _series((_op(call.op) if call else None for call in calls), "string"),
            "seq": _series((call.seq if call else None for call in calls), "Int64"),
            "group": _series((call.group if call else None for call in calls), "string"),
            "agree": _series((sum(e.supports for e in finding.evidence) for finding in items), "Int64"),
            "contradict": _series((sum(not e.supports for e in finding.evidence) for finding in items), "Int64"),
        }
    )


def hypotheses(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per hypothesis that was weighed.

    ``stall``, its number · ``class`` · ``ranks``, ``suspects`` · ``call``, that stalled · ``confidence_in_ranks``,
    ``confidence_in_class`` · ``headline`` · ``fate``, why it became the verdict or not.
    """
    return pd.DataFrame(_columns(diagnosis.proposals, _HYPOTHESES))


def evidence(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per piece: ``finding``, ``id`` (``E2``), ``says``, ``supports``, ``quote``, ``observer``, ``path``, ``line``, ``entry``."""
    pieces = [
        (finding.id, f"E{number}", item)
        for finding in diagnosis.findings
        for number, item in enumerate(finding.evidence, 1)
    ]
    return pd.DataFrame(
        {
            "finding": _series((name for name, _, _ in pieces), "string"),
            "id": _series((number for _, number, _ in pieces), "string"),
            **_columns((item for _, _, item in pieces), _EVIDENCE),
            **_place_columns([item.where for _, _, item in pieces]),
        }
    )


def groups(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per process group: ``id``, ``description``, ``label``, ``members``, ``member_count``, ``learned``."""
    items = diagnosis.job.groups
    frame = pd.DataFrame(_columns(items, _GROUPS))
    frame.insert(4, "member_count", _series((len(group.members) for group in items), "Int64"))
    return frame


def coverage(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per kind of input: ``input``, ``expected``, ``found``, ``problems``."""
    problems = _series(("; ".join(row.problems) for row in diagnosis.coverage), "string")
    return pd.DataFrame({**_columns(diagnosis.coverage, _COVERAGE), "problems": problems})


def remedies(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per remedy.

    ``id``, ``title``, ``finding``, ``fit``, ``conditions_met``, ``conditions``, and the texts ``confirm``, ``fix``, ``prevent``.
    """
    items = diagnosis.remedies
    texts = {
        name: _series(("\n".join(getattr(remedy, name)) for remedy in items), "string")
        for name in ("confirm", "fix", "prevent")
    }
    return pd.DataFrame({**_columns(items, _REMEDIES), **texts})


def write_parquet(frames: Mapping[str, pd.DataFrame], folder: Path) -> list[Path]:
    """Write each frame as NAME.parquet; dictionaries become JSON text. Raises as :meth:`~nccldoctor.incident.Incident.to_parquet` does."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths, as_json = [], partial(json.dumps, default=str, sort_keys=True)
        for name, frame in frames.items():
            paths.append(folder / f"{name}.parquet")
            texts = {str(c): frame[c].map(as_json) for c in frame.columns if frame[c].dtype == object}
            frame.assign(**texts).to_parquet(paths[-1], index=False)
    except ImportError as error:
        raise OutputError("writing parquet needs pyarrow", "pip install 'nccldoctor[parquet]'") from error
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}", "choose another folder") from error
    return paths


def _pair(left: str, right: str) -> str:
    return f"{left} -> {right}" if left or right else ""


def _shape(shape: Shape) -> str:
    return " ".join("x".join(str(n) for n in sizes) or "scalar" for sizes in shape)


def _own(stack: tuple[Frame, ...]) -> str:
    """The innermost frame that is no library's, else the innermost one."""
    for function, file, line in stack:
        if not is_library(file):
            return f"{function} ({file}:{line})"
    return "{} ({}:{})".format(*stack[0]) if stack else ""
