"""Jobs of which recorders and NCCL's own observers tell."""

from __future__ import annotations

from random import Random
from typing import Any

from builders.jobs.cases import RecordedRank, world
from builders.jobs.nccl_job import (
    Item,
    Job,
    Launch,
    coll_logs,
    in_pairs,
    instead,
    late,
    pair_of,
    plain,
    ras_json,
    skips,
)
from builders.jobs.nccl_job import world as whole_job
from builders.jobs.verdicts import gave_up, job, raised
from quoted.jobs import Files, Quoted, scene
from quoted.scenes.lines import CLOSED, WRONG_SIZE


def dumped(*ranks: RecordedRank) -> Files:
    return {f"fr_trace_{one.rank}": one.data() for one in ranks}


@scene("rules/slow/straggler._late_entry: slow.reached-late")
def late_entry(rng: Random) -> Quoted:
    """One rank issued the last call after the limit of its peers."""
    size, behind = rng.choice([4, 8]), rng.randrange(630, 700)
    late = rng.randrange(size)
    recorders = [
        RecordedRank(r, world(size)).calls(2).pause(5 + behind * (r == late)).call(done=False) for r in range(size)
    ]
    return Quoted("straggler", (late,), dumped(*recorders))


@scene("doubts.freed-by-timeout")
def freed_by_timeout(rng: Random) -> Quoted:
    """One rank issued the last call a second after the limit: the end of its peers may have freed it."""
    size = rng.choice([4, 8])
    late = rng.randrange(size)
    recorders = [
        RecordedRank(r, world(size)).calls(2).pause(5 + 601.5 * (r == late)).call(done=False) for r in range(size)
    ]
    return Quoted("straggler", (late,), dumped(*recorders))


@scene("doubts.as-many-early")
def late_of_two(rng: Random) -> Quoted:
    """Of two ranks one came after the limit."""
    late = rng.randrange(2)
    recorders = [
        RecordedRank(r, world(2), backend="gloo").calls(3).pause(1 + 660.0 * (r == late)).call(done=r == late)
        for r in range(2)
    ]
    return Quoted("straggler", (late,), dumped(*recorders))


SECOND = "2026-01-11 10:06:00"


def asked(job: Job, *times: str) -> Files:
    """A report of RAS at each of these times."""
    return {
        f"ras/{number}.json": ras_json(job, at) for number, at in enumerate(times or ("2026-01-11 10:05:00", SECOND))
    }


@scene(
    "rules/disagree/missed_call._one_call_fewer: disagree.one-call-fewer",
    "doubts.only-the-count",
)
def ras_counts_a_skip(rng: Random) -> Quoted:
    """RAS: a rank is a call behind in its pair, and goes on in the whole job."""
    rank = rng.randrange(8)
    return Quoted(
        "missed-call", (rank,), asked(Job(8, in_pairs(), fault=skips(rank, rng.randrange(5, 15), item=3)).run())
    )


@scene("signs/nccl_counter_diffs._by_kinds: disagree.op-mismatch")
def ras_counts_other_kinds(rng: Random) -> Quoted:
    """RAS: as many calls as all others, and one of another kind."""
    rank = rng.randrange(8)
    fault = instead(rank, Launch(whole_job(8), "Broadcast"), rng.randrange(5, 15))
    return Quoted("op-mismatch", (rank,), asked(Job(8, plain(), fault=fault).run()))


@scene("doubts.may-differ-briefly")
def ras_counts_other_kinds_once(rng: Random) -> Quoted:
    """The same in one query: a running job may differ for a moment."""
    rank = rng.randrange(8)
    fault = instead(rank, Launch(whole_job(8), "Broadcast"), rng.randrange(5, 15))
    return Quoted("op-mismatch", (rank,), asked(Job(8, plain(), fault=fault).run(), SECOND))


@scene("doubts.one-query")
def ras_asked_once(rng: Random) -> Quoted:
    """RAS: a rank is behind in one query."""
    rank = rng.randrange(8)
    return Quoted(
        "not-arrived", (rank,), asked(Job(8, plain(), fault=late([rank], rng.randrange(5, 15))).run(), SECOND)
    )


@scene("doubts.some-ahead")
def ras_counts_halves(rng: Random) -> Quoted:
    """RAS: half of the ranks are a call ahead of the other half."""
    return Quoted("undetermined", (), asked(Job(8, plain(), fault=late(range(4), rng.randrange(5, 15))).run()))


@scene("doubts.counts-alone")
def coll_lines_and_a_timeout(rng: Random) -> Quoted:
    """COLL lines: one rank launched another size, and a watchdog gave up."""
    rank = rng.randrange(1, 8)
    found = Job(8, plain(), fault=instead(rank, Launch(whole_job(8), count=2048), rng.randrange(5, 15))).run()
    logs: Files = {**coll_logs(found)}
    logs["rank_0.log"] = str(logs["rank_0.log"]) + gave_up(0, 40)
    return Quoted("size-mismatch", (rank,), logs)


@scene(
    "rules/disagree/mismatch._only_rank_without_dump: disagree.different-size-without-dump",
    "doubts.size-inferred",
)
def aborted_without_dump(rng: Random) -> Quoted:
    """gloo: a rank aborts over a wrong size and leaves no dump; all others recorded the call alike."""
    size, n = rng.choice([4, 6]), 8 * rng.randrange(2, 9)
    odd = rng.randrange(size)
    files = dumped(*(RecordedRank(r, world(size), backend="gloo").calls(6, n=n) for r in range(size) if r != odd))
    for rank in range(size):
        head = "".join(f"[rank{rank}]: 2026-01-01 10:10:0{s},000 INFO step={s} loss=2.0\n" for s in range(1, 6))
        end = WRONG_SIZE.format(got=n // 2, expected=n) if rank == odd else raised(rank, "RuntimeError", CLOSED)
        files[f"logs/rank_{rank}.log"] = head + end
    return Quoted("size-mismatch", (odd,), files)


@scene(
    "signs/nccl_counter_diffs.find_skip: counters.skipped-and-moved-on",
    "doubts.counts-alone",
)
def ras_sees_it_go_on(rng: Random) -> Quoted:
    """RAS: between two queries a rank goes on in its pair, without the first reduction of the whole job."""
    rank = rng.randrange(8)

    def fault(who: int, now: int, items: list[Item]) -> list[Item]:
        return [Launch(whole_job(8)), *items] if now == 0 and who != rank else items

    first, second = (Job(8, lambda who: [Launch(pair_of(who), count=64)], fault=fault).run(turns) for turns in (6, 9))
    return Quoted(
        "missed-call", (rank,), {"a.json": ras_json(first, "2026-01-11 10:05:00"), "b.json": ras_json(second, SECOND)}
    )


@scene("rules/disagree/missed_call._unusual_call: disagree.left-order")
def left_loop_with_short_rings(rng: Random) -> Quoted:
    """One rank evaluates already; the rings of its peers have dropped the calls that it met."""
    knobs: dict[str, Any] = {
        "era": "2.4",
        "layout": "fsdp",
        "nodes": 2,
        "gpus": 8,
        "ring": 40,
        "sync_every": 4,
        "step": 9_885,
    }
    found = job("epoch_over", rng.randrange(1, 4), evidence="fr", **knobs)
    return Quoted("missed-call", tuple(found.truth["culprit_ranks"]), dict(found.files))


@scene("rules/disagree/extra_call._one_call_more: disagree.one-call-more")
def one_more_among_equals(rng: Random) -> Quoted:
    """One rank issues one call more in a row of equal ones."""
    found = job("one_more", rng.choice([0, 2, 5]), layout="ep")
    return Quoted("extra-call", tuple(found.truth["culprit_ranks"]), dict(found.files))
