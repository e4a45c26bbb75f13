"""Tests what reports say against what is true: ``claims.py [--by staged] [--seeds A-B] [-v]``.

Every statement that the state of a simulated job can settle is taken from the report: the stalled call with who entered it and who did
not, the chain, victims, the table of ranks, coverage, what is ruled out, and the sentences of headlines and evidence that follow a pattern.
A statement that is wrong is a violation, however low the confidence: what is not known is to be called unknown.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from scoring.score_simulator import AUTHORS, ranks
from simulator import jobs as simulator
from simulator.program import OPS
from simulator.state import NEVER
from staged import jobs as staged
from staged.writing import c10d

from nccldoctor.model import Diagnosis, Family, Role
from nccldoctor.words.names import group_title


@dataclass(frozen=True)
class Issued:
    """A call that a rank really made: complete before anybody gave up, or made only later."""

    rank: int
    group: str
    op: str
    seqs: frozenset[int]
    is_complete: bool
    is_late: bool


@dataclass(frozen=True)
class World:
    """The state of a job when its files were written."""

    size: int
    groups: dict[str, frozenset[int]]
    issued: tuple[Issued, ...]
    culprits: frozenset[int]
    cause: str
    scenario: str
    is_hung: bool
    dumped: frozenset[int]
    logged: frozenset[int]
    gave_up: frozenset[int]
    codes: dict[int, int | None]
    stood: frozenset[int] = frozenset()

    def made(self, rank: int, group: str | None, seq: int) -> list[Issued]:
        """The calls of that number that the rank issued; of any group where the group has no true name."""
        return [
            i
            for i in self.issued
            if i.rank == rank and seq in i.seqs and (i.group == group or group not in self.groups)
        ]

    def has_issued(self, rank: int, group: str | None, seq: int) -> bool:
        """True where the rank made the call before anybody gave up."""
        return any(not i.is_late for i in self.made(rank, group, seq))

    def stands_in(self, rank: int, group: str | None, seq: int) -> bool:
        """True where the rank made the call and it did not complete."""
        return any(not i.is_complete for i in self.made(rank, group, seq))

    def waits(self, rank: int) -> bool:
        """True where some call of the rank did not complete, or its stack was written as one that waits."""
        return rank in self.stood or any(i.rank == rank and not i.is_complete for i in self.issued)


def world_of(job: simulator.Job | staged.Job) -> World:
    """The true state of a job of either author."""
    return _of_staged(job) if isinstance(job, staged.Job) else _of_simulated(job)


def _of_staged(job: staged.Job) -> World:
    plan, played, kept = job.plan, job.played, job.kept
    alarm = played.first_fire or NEVER
    issued = [
        Issued(
            w.rank,
            w.call.group.uid,
            c10d.OPS[w.call.op],
            frozenset({c10d.shown_seq(plan, w), *([] if w.call.peer is None else [w.p2p_seq])}),
            w.end is not None and w.end < alarm,
            w.created > alarm,
        )
        for row in played.works
        for w in row
    ]
    return World(
        plan.world,
        {g.uid: frozenset(g.members) for g in plan.groups},
        tuple(issued),
        frozenset(job.truth["culprit_ranks"]),
        job.truth["class"],
        job.truth["scenario"],
        job.truth["hang"],
        frozenset(kept.dumps),
        frozenset(kept.logs),
        frozenset(r for r, fate in enumerate(played.fates) if fate.fires),
        {r: fate.code for r, fate in enumerate(played.fates)},
        frozenset(kept.stacks - set(job.truth["culprit_ranks"])) if job.truth["hang"] else frozenset(),
    )


def _of_simulated(job: simulator.Job) -> World:
    story, kept = job.story, job.kept
    issued = [
        Issued(
            w.rank,
            w.call.group.uid,
            OPS[w.call.op][0],
            frozenset(
                {
                    job.dumps.shown_seq(w.call.pieces, w.call.op, w.coll_seq, w.p2p_seq),
                    *([w.p2p_seq] if w.call.pieces else []),
                }
            ),
            w.end < min(story.first_fire, story.fates[w.rank].dump_at),
            w.issued > min(story.first_fire, story.fates[w.rank].dump_at),  # a dump by hand may come before any alarm
        )
        for host in story.sim.hosts
        for w in host.works
    ]
    return World(
        job.knobs.world,
        {i.call.group.uid: frozenset(i.call.group.members) for host in story.sim.hosts for i in host.works},
        tuple(issued),
        frozenset(job.truth["culprit_ranks"]),
        job.truth["class"],
        job.truth["scenario"],
        job.truth["hang"],
        frozenset(kept.dumps | kept.bare_dumps | set(job.knobs.torn_dumps)),
        frozenset(kept.logs),
        frozenset(f.rank for f in story.fates if f.fires),
        {f.rank: f.code for f in story.fates},
    )


Claim = tuple[str, str, bool]
"""What kind of statement, the statement, and whether it is true."""


def claims(diagnosis: Diagnosis, world: World) -> Iterator[Claim]:
    """Every statement of a report that can be tested."""
    names = {group.label: group.uid for group in diagnosis.job.groups}
    for finding in diagnosis.findings:
        usual = finding.stalled.group if finding.stalled is not None else None
        yield from _of_stalled(finding.stalled, names, world)
        for link in finding.chain:
            for rank in link.waiting if link.seq is not None else ():
                said = f"rank {rank} waits in {link.op} #{link.seq} of {link.group}"
                yield "chain", said, world.stands_in(rank, names.get(link.group), link.seq or 0)
        if finding.family is not Family.SETUP:
            yield from (("victims", f"rank {r} only waits", world.waits(r)) for r in finding.victims)
        yield from _sentences("headline", finding.headline, usual, names, world)
        for item in finding.evidence:
            if item.supports:
                yield from _sentences("evidence", item.says, usual, names, world)
    yield from _of_table(diagnosis, names, world)
    yield from _of_input(diagnosis, world)


def _of_stalled(call: object, names: dict[str, str], world: World) -> Iterator[Claim]:
    from nccldoctor.model.findings import Stalled

    if not isinstance(call, Stalled) or call.seq is None:
        return
    group, name = names.get(call.group or ""), f"{call.op} #{call.seq} of {call.group}"
    for rank in call.entered:
        yield "entered", f"rank {rank} entered {name}", bool(world.made(rank, group, call.seq))
    for rank in call.missing if call.kind == "collective" else ():  # each end of a transfer counts its own
        yield "missing", f"rank {rank} did not enter {name}", not world.has_issued(rank, group, call.seq)
    if call.entered:
        still = any(world.stands_in(rank, group, call.seq) for rank in call.entered)
        yield "stalled", f"{name} does not complete", still
    ops = {i.op for rank in call.entered for i in world.made(rank, group, call.seq)}
    if call.op and ops:
        yield "operation", f"#{call.seq} is {call.op}, in truth {ops}", call.op in ops


def _of_table(diagnosis: Diagnosis, names: dict[str, str], world: World) -> Iterator[Claim]:
    for row in diagnosis.ranks:
        if row.role is Role.UNINVOLVED:
            idle = not world.waits(row.rank) and row.rank not in world.gave_up | world.culprits
            yield "not involved", f"rank {row.rank} is not involved", idle or not world.is_hung
        number = re.match(r"(\S+) #(\d+)(?: of (.+))?", row.waits_in or "")
        if number:
            standing = world.stands_in(row.rank, names.get(number[3] or ""), int(number[2]))
            if number[1] in ("SEND", "RECV", "COALESCED"):
                standing = world.waits(row.rank)  # each end of a transfer counts its own
            yield "waits in", f"rank {row.rank} waits in {row.waits_in}", standing
        group = names.get(row.group or "")
        if group in world.groups and row.enqueued is not None and row.enqueued > 0:
            last = {max(i.seqs) for i in world.issued if i.rank == row.rank and i.group == group}
            yield (
                "enqueued",
                f"rank {row.rank} enqueued #{row.enqueued}",
                row.enqueued <= max(last, default=row.enqueued),
            )


def _of_input(diagnosis: Diagnosis, world: World) -> Iterator[Claim]:
    left = {"flight recorder": world.dumped, "logs": world.logged | world.gave_up}
    for cover in diagnosis.coverage:
        if cover.input == "flight recorder":
            yield "coverage", f"{cover.input} of {cover.found}", set(cover.found) <= left[cover.input]
    if diagnosis.job.world_size is not None and not diagnosis.job.world_guessed:
        yield "world", f"{diagnosis.job.world_size} ranks", diagnosis.job.world_size == world.size
    for row in diagnosis.ruled_out:
        if row.met is False and row.text in FALSE_FOR:
            yield "ruled out", f"{row.text}: {row.says}", not FALSE_FOR[row.text](world)


DISAGREE = (
    "op-mismatch",
    "size-mismatch",
    "dtype-mismatch",
    "missed-call",
    "extra-call",
    "order-inversion",
    "unmatched-p2p",
)
FALSE_FOR: dict[str, Callable[[World], bool]] = {
    "network": lambda world: world.cause == "network",
    "GPU fault": lambda world: world.cause == "hardware",
    "out of memory": lambda world: ("memory" in world.scenario and world.cause == "died") or "oom" in world.scenario,
    "mismatched calls": lambda world: world.cause in DISAGREE,
}
"""When a hypothesis that is ruled out is the truth."""

OF = r"(?: of (?P<group>[^\s;,:]+(?: [#\w]+)?))?"
"""The group behind a call, where a sentence names it."""

WHO = r"[Rr]anks? ([\d, -]*\d)(?: \([^)]{1,80}\))?"
"""Ranks with their host and process."""

Test = Callable[[re.Match[str], str | None, World], bool]


def _each(text: str, test: Callable[[int], bool]) -> bool:
    return all(test(rank) for rank in sorted(ranks(text)))


SAYS: tuple[tuple[str, Test], ...] = (
    (rf"{WHO} (?:probably )?never reached \w+ #(\d+){OF}",
     lambda m, g, w: _each(m[1], lambda r: not w.has_issued(r, g, int(m[2])))),
    (rf"{WHO} entered \w+ #(\d+){OF} and (?:none finished|never finished it)",
     lambda m, g, w: _each(m[1], lambda r: w.stands_in(r, g, int(m[2])))),
    (rf"{WHO} (?:is|are) stuck in \w+ #(\d+){OF}",
     lambda m, g, w: _each(m[1], lambda r: w.stands_in(r, g, int(m[2])))),
    (rf"{WHO} timed out in \w+ #(\d+){OF}",
     lambda m, g, w: _each(m[1], lambda r: r in w.gave_up and w.stands_in(r, g, int(m[2])))),
    (rf"[Rr]ank (\d+)'s dump has no entry for \w+ #(\d+){OF}",
     lambda m, g, w: not w.has_issued(int(m[1]), g, int(m[2]))),
    (rf"GPU of rank (\d+)(?: \([^)]*\))? (?:probably )?stopped in \w+ #(\d+){OF}",
     lambda m, g, w: w.stands_in(int(m[1]), g, int(m[2]))),
    (rf"{WHO} left neither a dump nor a log",
     lambda m, g, w: not ranks(m[1]) & (w.dumped - w.culprits)),
    (rf"{WHO} (?:was|were) (?:probably )?killed by SIG(KILL|SEGV|BUS)",
     lambda m, g, w: _each(m[1], lambda r: w.codes.get(r) in (-9, -11, -7, None) and r in w.culprits)),
)  # fmt: skip
"""Sentences whose truth the state of the job settles."""


def _sentences(kind: str, text: str, usual: str | None, names: dict[str, str], world: World) -> Iterator[Claim]:
    """``usual`` is the group that a sentence means which names none."""
    for pattern, is_true in SAYS:
        for match in re.finditer(pattern, text):
            label = match.groupdict().get("group")
            is_denial = "never reached" in match[0] or "no entry" in match[0]
            group = _named_group(label, names) if label else names.get(usual if is_denial and usual else "")
            yield kind, text, is_true(match, group, world)


def _named_group(title: str, names: dict[str, str]) -> str | None:
    """``TP 1`` in ``TP 1 and it``: a title has one word or two."""
    titles = {group_title(label): uid for label, uid in names.items()}
    title = title.rstrip(".;,:")
    return titles.get(title) or titles.get(title.split(" ")[0])


def lint(author: str, seed: int) -> list[Claim]:
    """The claims of the report about one job."""
    from nccldoctor import pipeline

    job = AUTHORS[author].make(seed)
    with tempfile.TemporaryDirectory() as scratch:
        job.write(Path(scratch))
        return list(claims(pipeline.analyze([scratch]).diagnosis, world_of(job)))


def show(counted: Counter[str], wrong: Counter[str]) -> str:
    """Claims and violations by kind."""
    rows = [f"{kind:14s} {number:7d} claims {wrong[kind]:5d} wrong" for kind, number in counted.most_common()]
    return "\n".join([*rows, f"{'all':14s} {counted.total():7d} claims {wrong.total():5d} wrong"])


def main(argv: Iterable[str] | None = None) -> int:
    """Print the counts, and with ``-v`` every violation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by", choices=AUTHORS, nargs="*", default=list(AUTHORS))
    parser.add_argument("--seeds", default="0-199", help="A-B, both included, of each author")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the violations")
    args = parser.parse_args(None if argv is None else list(argv))
    first, _, last = args.seeds.partition("-")
    counted: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for author in args.by:
        for seed in range(int(first), int(last or first) + 1):
            for kind, said, is_true in lint(author, seed):
                counted[kind] += 1
                wrong[kind] += not is_true
                if not is_true and args.verbose:
                    print(f"{author} {seed} {kind}: {said}")
    print(show(counted, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
