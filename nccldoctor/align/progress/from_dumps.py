"""Reads the progress of each rank from recorder dumps: their entries, and the counters of each group.

Some calls failed although their recorder counts them as ended: gloo retires a call also when it fails, and so do the recorder's hooks
for other backends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.liveness import is_failed_wait
from nccldoctor.events import Event, ExceptionRaised
from nccldoctor.identify.case import Case
from nccldoctor.model.operations import has_varying_sizes, plain_op
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED, STARTED, Calls, GroupStatus

Mask = npt.NDArray[np.bool_]


class Transfer(Struct, frozen=True):
    """A send, a receive or a batch of them that did not complete.

    ``group`` is the index of the group, ``row`` the row in the table of calls, ``position`` its place in the order of ``rank``.
    ``sends`` are the global ranks that it sends to, ``receives`` those that it receives from. ``started``: its kernel ran.
    """

    group: int
    rank: int
    row: int
    position: int
    sends: tuple[int, ...]
    receives: tuple[int, ...]
    started: bool


def p2p_masks(case: Case, calls: Calls) -> tuple[Mask, Mask]:
    """Two masks over the rows: sends and receives (with closing entries), and members of a batch.

    The recorder writes ``send 0->1`` and ``recv 1<-0`` with ranks inside the group. A batch (``batch_isend_irecv``) is recorded as its
    members, whose state never changes, and right behind them the ``coalesced`` entry that closes it (pytorch, FlightRecorder).
    """
    if not len(calls):
        return np.empty(0, dtype=bool), np.empty(0, dtype=bool)
    names = case.vocabulary.ops
    is_p2p_name = np.array([n.startswith(("send", "recv")) for n in names], dtype=bool)
    closing_name = np.array([n.lower().endswith("coalesced") for n in names], dtype=bool)
    single = calls.is_p2p | is_p2p_name[calls.op]
    closing = closing_name[calls.op]
    if not closing.any():
        return single, np.zeros(len(calls), dtype=bool)
    base = (calls.dump.astype(np.int64) << 40) ^ (calls.pg_id.astype(np.int64) << 32)
    p2p_key = base ^ np.where(calls.p2p_seq >= 0, calls.p2p_seq, calls.seq)
    seq_key = base ^ calls.seq
    follows = np.zeros(len(calls), dtype=bool)  # a transfer of the same dump
    follows[1:] = (single & ~closing)[:-1] & (calls.dump[1:] == calls.dump[:-1])
    batch_of_p2p = closing & np.isin(p2p_key, p2p_key[single & ~closing]) & follows
    p2p = (single & ~closing) | batch_of_p2p
    member = (p2p & ~closing & np.isin(p2p_key, p2p_key[batch_of_p2p])) | (
        ~p2p & ~closing & np.isin(seq_key, seq_key[closing & ~batch_of_p2p])
    )
    return p2p, member


def completed_by_counters(case: Case, calls: Calls, single: Mask) -> Mask:
    """A mask of the transfers that their group's counters call completed, in dumps of active calls only.

    Such a dump leaves out the completed entry that closed a batch and keeps its members. The counters are those of sends and
    receives where the group issues nothing else.
    """
    out = np.zeros(len(calls), dtype=bool)
    for dump, rows in calls.by_dump() if single.any() else ():
        if bool((calls.state[rows] == COMPLETED).any()) or not bool(single[rows].any()):
            continue
        for status in case.dumps[dump].status:
            own = calls.pg_id[rows] == status.pg_id
            if status.completed > 0 and bool(own.any()) and not bool((own & ~single[rows]).any()):
                out[rows] |= own & (calls.p2p_seq[rows] >= 0) & (calls.p2p_seq[rows] <= status.completed)
    return out


def open_transfers(case: Case, calls: Calls, open_: Mask, member: Mask) -> dict[int, tuple[Transfer, ...]]:
    """The unfinished sends and receives by rank; a batch is its closing entry with the peers of its members."""
    by_rank: dict[int, list[Transfer]] = defaultdict(list)
    for row in np.flatnonzero(open_).tolist():
        names = [case.vocabulary.ops[calls.op[row]]]
        if names[0].lower().endswith("coalesced"):
            names = list(batch_names(case, row, member))
        group = case.groups[case.call_group[row]]
        sends, receives = _peers(names, list(group.members))
        rank = int(case.call_rank[row])
        by_rank[rank].append(
            Transfer(group.index, rank, row, int(calls.entry[row]), sends, receives, int(calls.state[row]) == STARTED)
        )
    return {rank: tuple(transfers) for rank, transfers in by_rank.items()}


def batch_names(case: Case, row: int, member: Mask) -> Iterable[str]:
    """The recorded names of a batch's members, which stand right before its closing entry."""
    calls, at = case.calls, row - 1
    while at >= 0 and member[at] and calls.dump[at] == calls.dump[row] and calls.pg_id[at] == calls.pg_id[row]:
        if calls.p2p_seq[at] != calls.p2p_seq[row]:
            break
        yield case.vocabulary.ops[calls.op[at]]
        at -= 1


def _peers(names: Iterable[str], members: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The global ranks that these calls send to and receive from; ``members`` are those of their group."""
    sends: list[int] = []
    receives: list[int] = []
    for name in names:
        kind, _, ends = name.partition(" ")
        _, _, other = ends.replace("<-", "->").partition("->")
        if other.strip().isdigit() and int(other) < len(members):
            (sends if kind == "send" else receives).append(members[int(other)])
    return tuple(sorted(set(sends))), tuple(sorted(set(receives)))


UNORDERED = 1 << 60
"""Position of a call that only a log line names: after everything that was recorded."""


class GroupProgress(Struct, frozen=True):
    """How far one rank has come in one group, in sequence numbers of that group.

    ``enqueued`` is the last call that its host issued, ``completed`` the last one that its device finished (-1: none). ``pending``
    is the first call that did not complete (None: all did) and ``row`` its row in the table of calls (-1: known from a line or a
    counter only). ``position`` is its place in the rank's own order over all groups, ``started`` is true when its kernel is known
    to run. ``oldest`` is the first number that the ring still holds. ``known_by`` is ``dump``, ``status`` (counters of a dump),
    ``log``, or the observer that counted calls; ``event`` is the line it was learned from.

    Rank 3 issued #18 and completed #16: ``enqueued`` is 18, ``completed`` 16, ``pending`` 17.
    """

    group: int
    rank: int
    enqueued: int
    completed: int
    pending: int | None = None
    row: int = -1
    position: int = UNORDERED
    started: bool = False
    oldest: int = 0
    known_by: str = "dump"
    event: Event | None = None


def progress_from_entries(
    case: Case, calls: Calls, collective: Mask, completed: Mask
) -> dict[tuple[int, int], GroupProgress]:
    """The progress that recorder entries show, by (group, rank), in one pass over the table of calls."""
    rows = np.flatnonzero(collective)
    if not len(rows):
        return {}
    ranks = int(case.call_rank.max()) + 1
    pair = case.call_group[rows].astype(np.int64) * ranks + case.call_rank[rows]
    order = np.argsort(pair, kind="stable")
    rows, pair = rows[order], pair[order]
    starts = np.concatenate([[0], np.flatnonzero(pair[1:] != pair[:-1]) + 1])
    seq, finished = calls.seq[rows], completed[rows]
    enqueued = np.maximum.reduceat(seq, starts)
    last_done = np.maximum.reduceat(np.where(finished, seq, -1), starts)
    oldest = np.minimum.reduceat(seq, starts)
    pending = _first_pending(calls, rows[~finished], pair[~finished])
    progress: dict[tuple[int, int], GroupProgress] = {}
    for i, at in enumerate(starts.tolist()):
        group, rank = divmod(int(pair[at]), ranks)
        done = int(last_done[i])
        own = GroupProgress(group, rank, int(enqueued[i]), max(done, -1), oldest=int(oldest[i]))
        row = pending.get(int(pair[at]))
        if row is not None:
            number = int(calls.seq[row])
            own = replace(
                own,
                completed=max(min(done, number - 1) if done >= 0 else number - 1, -1),
                pending=number,
                row=row,
                position=int(calls.entry[row]),
                started=int(calls.state[row]) == STARTED,
            )
        progress[group, rank] = own
    return progress


def _first_pending(calls: Calls, rows: npt.NDArray[np.int64], pair: npt.NDArray[np.int64]) -> dict[int, int]:
    """The unfinished row with the lowest number for each pair of group and rank."""
    order = np.lexsort((calls.entry[rows], calls.seq[rows], pair))
    pairs, starts = np.unique(pair[order], return_index=True)
    return dict(zip(pairs.tolist(), rows[order][starts].tolist(), strict=True))


def ranks_with_timing(case: Case, calls: Calls) -> frozenset[int]:
    """Ranks whose recorder noted kernel starts (``TORCH_NCCL_ENABLE_TIMING``): there *scheduled* means *not started*.

    Without timing nobody counts started calls either (pytorch, ``WorkNCCL::isStarted``).
    """
    dumps = zip(case.dumps, case.dump_rank, strict=True)
    counting = (r for d, r in dumps if r is not None and not d.only_retires and any(s.started > 0 for s in d.status))
    noted = np.unique(case.call_rank[(calls.state == STARTED) | (calls.started_ns > 0)]).tolist() if len(calls) else ()
    return frozenset((*counting, *(rank for rank in noted if rank >= 0)))


def add_counters(case: Case, progress: dict[tuple[int, int], GroupProgress], calls: Calls, p2p: Mask) -> None:
    """Adds what ``pg_status`` counts, for groups whose calls left the ring or were never written (active calls only).

    Not for groups with sends, since newer releases mix both counters there. Not where calls
    are only retired: there the counters count sends too.
    """
    mixed = {int(g) for g in np.unique(case.call_group[p2p]).tolist()} if len(calls) else set()
    for dump, rank in zip(case.dumps, case.dump_rank, strict=True):
        if rank is None or dump.only_retires:
            continue
        for status in dump.status:
            group = case.naming.by_pg_id.get((rank, status.pg_id))
            if group is None or group in mixed or status.enqueued < 0:
                continue
            own = progress.get((group, rank))
            issued, done = status.enqueued, status.completed
            if own is None:
                pending = done + 1 if issued > done else None
                own = GroupProgress(group, rank, issued, done, pending, oldest=issued + 1, known_by="status")
            else:
                own = _with_evicted(own if own.enqueued >= issued else replace(own, enqueued=issued), status)
            progress[group, rank] = own


def _with_evicted(own: GroupProgress, status: GroupStatus) -> GroupProgress:
    """The progress by the counters, where the ring no longer holds the first unfinished call.

    Counters begin with 1. The ring of rank 2 begins with #40 and its counters say that #30 completed: #31 is pending.
    """
    first = max(status.completed, 0) + 1
    if first > status.enqueued or first >= own.oldest or (status.completed < 0 and own.pending != own.oldest):
        return own
    started = status.started >= first
    own = replace(own, completed=status.completed, pending=first, started=started)
    return replace(own, row=-1, position=-1, known_by="status")


FEWEST_WITNESSES = 3
"""Ranks that must have ended in one call for it to count as the one in which they lost a peer."""

ROOTED = ("gather", "scatter")
"""Operations that need a tensor on one member only."""

UNEVEN_END = ("broadcast", "reduce", "gather", "scatter", "send", "recv")
"""Operations that one member may complete while another is still in them."""


def last_rows(case: Case) -> dict[int, int]:
    """The newest recorded call of each rank."""
    rank = case.call_rank
    if not len(rank):
        return {}
    last = np.flatnonzero(np.concatenate([rank[1:] != rank[:-1], [True]]))
    return {int(rank[i]): int(i) for i in last.tolist() if rank[i] >= 0}


def abandoned_calls(case: Case, done: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """A mask of the calls that are ``done`` by their record, but cannot have completed.

    Such a backend retires a call also when it fails because a peer is gone. Only the last calls of ranks count. Such a call cannot have
    completed where

    - other ranks wait, and a member that left a dump never issued it, or another member never completed it while some rank
      left no dump;
    - all members that dumped completed it and a member without a dump may be the missing one: in a group of two always, in a
      larger one when all ended in this one call and had issued its like before. Ranks of a running job stand in different
      calls, and a job that is over ends with a call of its own.

    Ranks 0-2 end in ALLREDUCE #18, which each of them issued every step, and rank 3 left no dump: #18 failed.
    """
    abandoned = np.zeros(len(case.calls), dtype=bool)
    calls, words = case.calls, case.vocabulary
    dumped = {r for r, d in zip(case.dump_rank, case.dumps, strict=True) if r is not None and d.entries}
    ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in last_rows(case).values():
        if case.dumps[calls.dump[row]].only_retires and case.call_group[row] >= 0:
            ends[int(case.call_group[row]), int(calls.seq[row])].append(row)
    waiting = any(not done[row] for rows in ends.values() for row in rows)
    for (group, seq), rows in ends.items():
        undumped = case.groups[group].members - dumped
        if undumped and (len(case.groups[group].members) == 2 or _has_common_end(case, group, rows, undumped)):
            of_group = (case.call_group == group) & (calls.seq <= seq)
            first = int(calls.seq[of_group & ~done].min(initial=seq))
            abandoned[of_group & (calls.seq >= first)] = True  # what one member never completed failed on the others
        elif not any(plain_op(words.ops[calls.op[r]]).rpartition(":")[2] in UNEVEN_END for r in rows):
            unfinished = bool(case.world - dumped) and not done[rows].all()
            abandoned[rows] = unfinished or (waiting and _is_missing_from_dump(case, group, seq))
    return abandoned


def _is_missing_from_dump(case: Case, group: int, seq: int) -> bool:
    """True when a member's dump ends right before call ``seq``; one that ends earlier may be older."""
    of_group = case.call_group == group
    return any(
        int(case.calls.seq[of_group & (case.call_rank == r)].max(initial=0)) == seq - 1
        for r in np.unique(case.call_rank[of_group & (case.call_rank >= 0)]).tolist()
    )


def _has_common_end(case: Case, group: int, rows: list[int], undumped: Ranks) -> bool:
    """True when all members that dumped ended in this one call, and each had issued its like before.

    At most a third of the members may lack a dump. The call before must have had equal sizes everywhere: a receiver that got more
    than it expected ends as well, and is not to blame.
    """
    members, calls = case.groups[group].members, case.calls
    whole = len(rows) == len(members - undumped) >= FEWEST_WITNESSES and 3 * len(undumped) <= len(members)
    number = int(calls.seq[rows[0]])
    before = np.flatnonzero((case.call_group == group) & (calls.seq == number - 1))
    alike = len({int(calls.sizes[r]) for r in rows}) == 1 and len({int(calls.sizes[r]) for r in before}) == 1
    return whole and alike and all(_is_repeated(case, r) for r in rows)


def _is_repeated(case: Case, row: int) -> bool:
    """True when the rank had issued the same operation before: same call site, group and sizes."""
    calls = case.calls
    alike = (case.call_rank[:row] == case.call_rank[row]) & (case.call_group[:row] == case.call_group[row])
    for column in (calls.stack, calls.op, calls.sizes):
        alike &= column[:row] == column[row]
    return bool(alike.any())


def failed_calls(case: Case) -> npt.NDArray[np.bool_]:
    """A mask of the recorded calls that failed.

    They are the last calls of their ranks, no member of the group issued a later one, and they raised or differ from each other.
    """
    failed = np.zeros(len(case.calls), dtype=bool)
    if not any(dump.only_retires for dump in case.dumps) or not len(case.calls):
        return failed
    rank, group, seq = case.call_rank, case.call_group, case.calls.seq
    last = [row for row in last_rows(case).values() if group[row] >= 0]
    furthest = {g: int(seq[group == g].max()) for g in {int(group[row]) for row in last}}
    raised = {e.rank: e.frame for e in case.of(ExceptionRaised) if e.frame and is_failed_wait(e)}
    together: dict[int, list[int]] = defaultdict(list)
    for row in last:
        if int(seq[row]) == furthest[int(group[row])] and case.dumps[case.calls.dump[row]].only_retires:
            together[int(group[row])].append(row)
    for rows in together.values():
        unequal = len({_signature(case, row) for row in rows}) > 1
        for row in rows:  # other exceptions came from a send, or from a later call than the dump holds
            stack, frame = case.vocabulary.stacks[case.calls.stack[row]], raised.get(int(rank[row]))
            failed[row] = unequal or any(f"{name} ({file}:{line})" == frame for name, file, line in stack)
    return failed


def _signature(case: Case, row: int) -> tuple[object, ...]:
    """What must be equal on all members of a call."""
    calls, words = case.calls, case.vocabulary
    name = plain_op(words.ops[calls.op[row]])
    if name in ROOTED or has_varying_sizes(name) or "coalesced" in name:
        return (name,)
    return name, int(calls.numel_in[row]), words.dtypes[calls.dtypes[row]] if calls.dtypes[row] >= 0 else None
