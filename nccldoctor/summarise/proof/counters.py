"""Sets the counters of ranks side by side, and lists the ranks that joined a communicator."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.align.nccl_counter_evidence import steady_queries
from nccldoctor.align.progress.from_dumps import GroupProgress
from nccldoctor.events import CommInit
from nccldoctor.model import CauseClass, Finding, Place
from nccldoctor.model.exhibits import CountsRow, CountsTable, Exhibit, Part
from nccldoctor.model.ranks import Ranks
from nccldoctor.summarise.proof.side_by_side import BOTH
from nccldoctor.words import names, times
from nccldoctor.words.sanitize import line

ROWS = 6

_OBSERVERS = {
    "dump": "the dumps",
    "status": "the dumps",
    "comm-dump": "the dumps",
    "ras": "RAS",
    "inspector": "NCCL's Inspector",
}
"""Observers whose counters are formatted; those of a log line are quoted."""

_COUNTS_COMPLETED = ("dump", "status")
"""Observers that count completed calls; NCCL's own count the calls that were issued."""


class _Count(Struct, frozen=True):
    """Ranks that stand at the same numbers."""

    ranks: Ranks
    own: GroupProgress


def counters_of_ranks(facts: Facts, finding: Finding) -> Exhibit | None:
    """Peers and culprits by their counters in the stalled group; of peers alone where no culprit was counted."""
    call = finding.stalled
    groups = [g for g in facts.case.groups if call is not None and g.label == call.group]
    if call is None or call.seq is None or not groups:
        return None
    counted = [own for own in facts.progress.by_group_rank.values() if own.group == groups[0].index]
    counted = [own for own in counted if own.known_by in _OBSERVERS]
    peers = _folded([own for own in counted if own.rank not in finding.blamed and own.rank in call.entered])
    behind = _folded([own for own in counted if own.rank in finding.blamed])
    if not peers or (
        behind and finding.cause is not CauseClass.DEVICE_STALLED and behind[0].own.enqueued >= peers[0].own.enqueued
    ):
        return None
    table = _counts_table(facts, groups[0].label, (*peers[: ROWS - len(behind[:2])], *behind[:2]), finding.blamed)
    claim, parts = _claim(finding, peers[0], behind[0] if behind else None)
    one = next((one for one in facts.case.nccl_counters if one.group == groups[0].index), None)
    steady = steady_queries(facts, one) if one is not None else None
    claim += f" No count changed in {times.duration(steady[1] * 1e3)}." if steady is not None else ""
    cites = tuple(f"#{own.own.enqueued}" for own in (*peers[:1], *behind[:1]))
    shown = {rank for row in table.rows for rank in row.ranks}
    numbers = tuple(n for n, item in enumerate(finding.evidence, 1) if _is_of(item.observer, item.where, shown))
    return Exhibit("", claim, parts, cites, numbers, counts=table)


def _is_of(observer: str, where: Place | None, shown: set[int]) -> bool:
    kind, _, rank = observer.partition(":")
    is_record = where is not None and where.line is None
    return is_record and (kind in ("ras", "inspector") or (rank.isdecimal() and int(rank) in shown))


def _folded(counted: Sequence[GroupProgress]) -> list[_Count]:
    """One count for all ranks at the same numbers, in the order of the first rank."""
    alike: dict[tuple[int, int, str], list[GroupProgress]] = {}
    for own in sorted(counted, key=lambda own: own.rank):
        alike.setdefault((own.enqueued, own.completed, own.known_by), []).append(own)
    return [_Count(Ranks(own.rank for own in same), same[0]) for same in alike.values()]


def _counts_table(facts: Facts, group: str, counts: Sequence[_Count], blamed: Ranks) -> CountsTable:
    has_completed = any(count.own.known_by in _COUNTS_COMPLETED for count in counts)
    rows = tuple(
        CountsRow(
            count.ranks,
            (f"#{count.own.enqueued}", _completed(count.own)) if has_completed else (f"#{count.own.enqueued}",),
            bool(count.ranks & blamed) or not blamed & {rank for one in counts for rank in one.ranks},
            _place(facts, count.own),
        )
        for count in counts
    )
    heads = ("last issued", "last completed") if has_completed else ("last issued",)
    return CountsTable(group, _OBSERVERS[counts[0].own.known_by], heads, rows)


def _completed(own: GroupProgress) -> str:
    if own.known_by not in _COUNTS_COMPLETED:
        return ""
    return f"#{own.completed}" if own.completed >= 0 else "none"


def _place(facts: Facts, own: GroupProgress) -> Place | None:
    if own.event is not None:
        return own.event.place
    dumps = zip(facts.case.dumps, facts.case.dump_rank, strict=True)
    dump = next((dump for dump, rank in dumps if rank == own.rank), None)
    return Place(dump.source, dump.path) if dump is not None else None


def _claim(finding: Finding, peer: _Count, behind: _Count | None) -> tuple[str, tuple[Part, ...]]:
    who = names.ranks_phrase(peer.ranks).capitalize()
    if behind is None:
        done = _completed(peer.own)
        ended = "completed none" if done == "none" else f"completed {done} last" if done else "no record shows its end"
        return f"{who} issued #{peer.own.enqueued}, and {ended}.", (Part.PEER,)
    culprit = names.ranks_phrase(behind.ranks).capitalize()
    if finding.cause is CauseClass.DEVICE_STALLED:
        return f"{culprit} queued calls up to #{behind.own.enqueued}, so its process kept running.", (Part.CONDITION,)
    return f"{who} issued #{peer.own.enqueued}. {culprit} stopped at #{behind.own.enqueued}.", BOTH


def joined_ranks(facts: Facts, finding: Finding) -> Exhibit | None:
    """The ranks whose log shows that they started a communicator, and the culprits, whose log does not."""
    cited = {item.where for item in finding.evidence}
    known = next((e for e in facts.case.of(CommInit) if e.what == "start" and e.place in cited), None)
    if known is None or not finding.blamed:
        return None
    begun = {
        e.rank: e
        for e in facts.case.of(CommInit)
        if e.what == "start" and e.nranks == known.nranks and e.comm_id == known.comm_id and e.rank is not None
    }
    if not begun or finding.blamed & begun:
        return None
    first = min(begun)
    rows = (
        CountsRow(Ranks(begun), (f"{begun[first].place}",), False, begun[first].place),
        CountsRow(finding.blamed, ("",), True),
    )
    who, missing = names.ranks_phrase(begun).capitalize(), names.ranks_phrase(finding.blamed)
    claim = f"{who} started the communicator of {known.nranks} ranks. No log shows that {missing} did."
    numbers = tuple(n for n, item in enumerate(finding.evidence, 1) if item.where in {e.place for e in begun.values()})
    cites = (names.few(Ranks(begun)), names.few(finding.blamed))
    return Exhibit("", claim, BOTH, cites, numbers, counts=CountsTable("", "the logs", ("started at",), rows))


def roll_call(finding: Finding, absent: Ranks) -> Exhibit | None:
    """The ranks with a record of the call, and those without; None where nobody left one."""
    call, peers = finding.awaited, (finding.inside or finding.victims) - finding.blamed
    absent -= finding.inside
    of_peers = [item.where for item in finding.evidence if item.observer.endswith(tuple(f":{rank}" for rank in peers))]
    if call is None or not peers or not absent or not of_peers:
        return None
    rows = (CountsRow(peers, (str(of_peers[0]),), False, of_peers[0]), CountsRow(absent, ("",), True))
    title = names.call_title(call.op, call.seq)
    claim = f"{names.ranks_phrase(peers, 6).capitalize()} left a record of {title}. {names.ranks_phrase(absent, 6).capitalize()} left none."
    return Exhibit("", claim, BOTH, (), (), counts=CountsTable("", "the input", (f"record of {title}",), rows))


def cited_records(finding: Finding) -> Exhibit | None:
    """The records without lines that a finding cites, such as entries of dumps, as they were read."""
    items = [
        (number, int(rank), item)
        for number, item in enumerate(finding.evidence, 1)
        if item.supports and item.where is not None and item.where.line is None
        for rank in (item.observer.partition(":")[2],)
        if rank.isdecimal()
    ][:ROWS]
    rows = tuple(CountsRow(Ranks([r]), (line(i.quote, 120),), r in finding.blamed, i.where) for _, r, i in items)
    source = "the dumps" if items and items[0][2].observer.startswith("dump") else "the stacks"
    table = CountsTable("", source, ("as recorded",), rows)
    return Exhibit("", items[0][2].says, BOTH, (), tuple(n for n, _, _ in items), counts=table) if items else None
