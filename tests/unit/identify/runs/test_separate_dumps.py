"""Which dumps are of one run, by their sizes, their times and the calls that they share."""

import pytest

from nccldoctor.identify.runs.separate_dumps import dump_runs
from nccldoctor.model import Source, SourceKind
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, GroupConfig, Vocabulary

NOW = 1_780_000_000


def runs(*dumps: tuple[int, range, int], rank: int | None = None) -> list[list[int]]:
    """The dumps by run, each of them told by its world size, the numbers of its calls and when it made number 0."""
    heads, columns = [], {name: [] for name in ("dump", "group", "seq", "op", "is_p2p", "created_ns")}
    for number, (members, numbers, began) in enumerate(dumps):
        config = (GroupConfig("0", "default_pg", tuple(range(members))),)
        heads.append(DumpHead(number, f"rank_{number}", "dict", "2.10", 1, True, "nccl", "", config, (), False))
        for seq in numbers:
            row = (number, 0, seq, 0, False, (NOW + began + seq) * 1_000_000_000)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    words = Vocabulary(groups=(("0", "default_pg"),), ops=("all_reduce",))
    sources = {n: Source(n, f"rank_{n}", SourceKind.RECORDER, 1, rank=rank) for n in range(len(dumps))}
    return sorted(sorted(run.dumps) for run in dump_runs(Batch(tuple(heads), Calls.build(columns), words), sources))


@pytest.mark.parametrize("count", [0, 1])
def test_no_dump_and_one_dump_are_no_two_runs(count: int) -> None:
    assert runs(*[(8, range(5), 0)] * count) == [[0]] * count


def test_a_straggler_is_of_the_run_of_its_peers() -> None:
    assert runs((8, range(40), 0), (8, range(30), 290)) == [[0, 1]]


@pytest.mark.parametrize(
    "other", [(9, range(40), 0), (8, range(40), 310), (8, range(50, 60), 9000), (8, range(400, 500), 0)]
)
def test_another_size_time_or_number_is_of_another_run(other: tuple[int, range, int]) -> None:
    assert runs((8, range(40), 0), other) == [[0], [1]]


def test_two_dumps_of_one_rank_with_the_same_calls_at_other_times_are_of_two_runs() -> None:
    assert runs((8, range(40), 0), (8, range(40), 20), rank=3) == [[0], [1]]
    assert runs((8, range(40), 0), (8, range(40), 20)) == [[0, 1]]
