"""Whose file it is: one rank's, a launcher's, or many ranks'; by what its lines say, then by folders and names."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from nccldoctor.census import OUTSIDE, Census, short
from nccldoctor.events import ProcessExit, SchedulerEvent
from nccldoctor.model import Gap, Source, SourceKind
from nccldoctor.parsers.base import Parsed
from nccldoctor.ranks import Ranks


def _folder(source: Source) -> str:
    return source.path.rpartition("/")[0]


def source_ranks(parsed: Sequence[Parsed], census: Census) -> tuple[dict[int, int | None], dict[int, str], list[Gap]]:
    """The rank of each file that one rank wrote, None for merged files and launchers' own logs; how it is known where
    the name does not say it; and where name and lines contradict each other.
    """
    out: dict[int, int | None] = {}
    known: dict[int, str] = {}
    gaps: list[Gap] = []
    for one in parsed:
        source = one.source
        own = Counter(e.rank for e in one.events if e.rank is not None and not isinstance(e, OUTSIDE))
        named = source.rank if source.local_rank is None else None
        if own and named is not None and named not in own:
            gaps.append(_contradiction(source, Ranks(own)))
        if not own:
            out[source.id] = named
        elif len(own) > 1 or (source.rank is None and source.local_rank is None and _many_writers(one)):
            out[source.id] = None
        else:
            (out[source.id],) = own
            known[source.id] = "its lines"
            gaps += _launched(source, out[source.id], census)
    _spread_over_folders(parsed, out, known)
    _map_local_ranks(parsed, out, known, census)
    return out, known, gaps


def _contradiction(source: Source, own: Ranks) -> Gap:
    word = "rank" if len(own) == 1 else "ranks"
    return Gap(f"{source.path} is named for rank {source.rank}", f"its lines say {word} {own}", own, source.id)


def _launched(source: Source, rank: int | None, census: Census) -> list[Gap]:
    """Where the launcher says of this local rank of this host that it is another rank than the lines say."""
    at = (short(source.host), source.local_rank) if source.host and source.local_rank is not None else None
    told = census.by_local.get(at) if at is not None else None
    if told is None or told == rank:
        return []
    what = f"{source.path} is local rank {source.local_rank} of {source.host}, rank {told} by the launcher"
    return [Gap(what, f"its lines say rank {rank}", Ranks([told] if rank is None else [told, rank]), source.id)]


def _many_writers(one: Parsed) -> bool:
    """Whether a file without a rank in its name is a launcher's or a merged log that happens to quote one rank only."""
    return any(isinstance(e, ProcessExit | SchedulerEvent) for e in one.events) or any(
        e.rank is None and e.group_rank is not None for e in one.events
    )


def _spread_over_folders(parsed: Sequence[Parsed], out: dict[int, int | None], known: dict[int, str]) -> None:
    """stdout.log and stderr.log of one local rank stand in one folder: what one says holds for the other."""
    told: dict[tuple[str, int], set[int]] = defaultdict(set)
    for one in parsed:
        rank = out[one.source.id]
        if one.source.local_rank is not None and rank is not None:
            told[_folder(one.source), one.source.local_rank].add(rank)
    for one in parsed:
        if one.source.local_rank is None:
            continue
        ranks = told.get((_folder(one.source), one.source.local_rank), set())
        if out[one.source.id] is None and len(ranks) == 1:
            out[one.source.id] = next(iter(ranks))
            known[one.source.id] = "lines of the other stream"


def _map_local_ranks(
    parsed: Sequence[Parsed], out: dict[int, int | None], known: dict[int, str], census: Census
) -> None:
    """Local ranks by the launcher's own table, else by equal blocks in the order of the host folders, if nothing contradicts."""
    open_ = [one.source for one in parsed if one.source.local_rank is not None and out[one.source.id] is None]
    for source in open_:
        if source.host and source.local_rank is not None:
            out[source.id] = census.by_local.get((short(source.host), source.local_rank))
            if out[source.id] is not None:
                known[source.id] = "what the launcher says of the local rank"
    locals_: dict[str, set[int]] = defaultdict(set)
    for one in parsed:
        if one.source.local_rank is not None:
            locals_[one.source.host or ""].add(one.source.local_rank)
    sizes = {len(found) for found in locals_.values()}
    if len(sizes) != 1 or any(max(found) + 1 != len(found) for found in locals_.values()):
        return
    block = sizes.pop()
    base = {host: i * block for i, host in enumerate(sorted(locals_, key=_natural))}
    guess = {
        o.source.id: base[o.source.host or ""] + o.source.local_rank for o in parsed if o.source.local_rank is not None
    }
    if all(out[i] in (None, rank) for i, rank in guess.items()):
        known.update({i: "local ranks in the order of the hosts" for i in guess if out[i] is None})
        out.update({i: rank for i, rank in guess.items() if out[i] is None})


def _natural(host: str) -> list[tuple[int, str]]:
    """A key that puts node2 before node10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", host)]


def local_names(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """``node0/rank_0.log`` beside ``node1/rank_0.log``: no rank runs on two hosts, such names count the ranks of a host."""
    hosts: dict[int, set[str]] = defaultdict(set)
    for one in parsed:
        if one.source.rank is not None and one.source.host is not None and one.source.kind is SourceKind.LOG:
            hosts[one.source.rank].add(one.source.host)
    if not any(len(found) > 1 for found in hosts.values()):
        return parsed
    return [
        replace(
            one,
            source=replace(one.source, rank=None, local_rank=one.source.rank, why=f"{one.source.why} (of the host)"),
        )
        if one.source.rank is not None and one.source.host is not None and one.source.kind is SourceKind.LOG
        else one
        for one in parsed
    ]


def hosts_of_trees(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """Torchrun makes ``LOG_DIR/RUN/attempt_K/LOCAL_RANK``: several such ``LOG_DIR`` stand for as many hosts, whatever they are called."""
    above = {
        one.source.id: one.source.path.partition("/attempt_")[0].split("/")[:-1]
        for one in parsed
        if one.source.local_rank is not None and one.source.host is None and "/attempt_" in one.source.path
    }
    trees = {tuple(folders) for folders in above.values()}
    at = next((i for i, names in enumerate(zip(*trees, strict=False)) if len(set(names)) > 1), None)
    if at is None or len({tree[at] for tree in trees}) < len(trees):
        return parsed
    return [
        replace(one, source=replace(one.source, host=above[one.source.id][at])) if one.source.id in above else one
        for one in parsed
    ]
