"""Whether dumps are of one run is told from all of them at once, and one by one where that does not do."""

import random

import pytest

from nccldoctor.identify.runs.separate_dumps import are_of_one_run, dump_runs
from nccldoctor.model import Source, SourceKind
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, GroupConfig, Vocabulary

NOW = 1_780_000_000
GROUPS = (("0", "default_pg"), ("1", "TENSOR"), ("1", "renamed"))


def head(number: int, form: str, members: int) -> DumpHead:
    config = (GroupConfig("0", "default_pg", tuple(range(members))),) if members else ()
    return DumpHead(number, f"rank_{number}", form, "2.10", 1, True, "nccl", "", config, (), False)


def batch_of(chance: random.Random) -> Batch:
    """Some dumps, most of them of one run: calls that only some recorded, twice or without a time, and dumps of any form."""
    columns: dict[str, list[int]] = {name: [] for name in ("dump", "group", "seq", "op", "is_p2p", "created_ns")}
    heads = []
    for number in range(chance.randint(1, 6)):
        heads.append(head(number, chance.choice(["dict"] * 9 + ["list"]), chance.choice([0, 8, 8, 8, 8, 8, 8, 9])))
        late = chance.choice([0, 0, 1, 2, 200, 290, 310, 90_000]) if chance.random() < 0.5 else 0
        first = chance.choice([1, 1, 3, 40, 300])
        for seq in sorted(chance.choices(range(first, first + 100), k=chance.randint(0, 90))):
            columns["dump"].append(number)
            columns["group"].append(chance.choice([0, 0, 1, 2, -1]))
            columns["seq"].append(chance.choice([seq] * 20 + [-1]))
            columns["op"].append(chance.choice([0, 0, 0, 1]))
            columns["is_p2p"].append(chance.random() < 0.1)
            at = NOW + seq * chance.choice([1, 1, 1, 4]) + late
            columns["created_ns"].append(at * 1_000_000_000 if chance.random() < 0.95 else 0)
    return Batch(tuple(heads), Calls.build(columns), Vocabulary(groups=GROUPS, ops=("all_reduce", "barrier")))


def sources_of(batch: Batch, ranks: list[int | None]) -> dict[int, Source]:
    named = zip(batch.dumps, ranks, strict=False)
    return {d.source: Source(d.source, d.path, SourceKind.RECORDER, 1, rank=rank) for d, rank in named}


def test_all_dumps_at_once_tell_what_one_by_one_tells() -> None:
    found = []
    for seed in range(400):
        chance = random.Random(seed)
        batch = batch_of(chance)
        sources = sources_of(batch, chance.choice([[None] * 9, list(range(9))]))
        found.append(are_of_one_run(batch, sources))
        assert found[-1] == (len(dump_runs(batch, sources)) < 2), seed
    assert 100 < sum(found) < 300


def test_two_dumps_of_one_rank_are_looked_at_one_by_one() -> None:
    batch = next(batch for seed in range(99) if len((batch := batch_of(random.Random(seed))).dumps) > 1)
    assert not are_of_one_run(batch, sources_of(batch, [3] * 9))


@pytest.mark.parametrize("count", [0, 1])
def test_no_dump_and_one_dump_are_one_run(count: int) -> None:
    batch = Batch(tuple(head(n, "dict", 8) for n in range(count)), Calls.empty(), Vocabulary(groups=GROUPS))
    assert are_of_one_run(batch, sources_of(batch, [0]))
