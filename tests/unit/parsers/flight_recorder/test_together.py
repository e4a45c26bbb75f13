"""Several dumps that the child reads as one table are what each is by itself."""

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.files.dumps import FRAME, content, dump, entry
from msgspec.structs import replace

from nccldoctor.model.recorded_calls import Batch, merge
from nccldoctor.parsers.flight_recorder.child import APART, load_dump, load_together
from nccldoctor.parsers.flight_recorder.process import Limits
from nccldoctor.parsers.flight_recorder.sandbox import DumpFile, loading
from nccldoctor.parsers.flight_recorder.wire import Packed, Unpacker, pack


def rank_dump(rank: int) -> bytes:
    """A dump in groups, sizes and stacks that only some ranks share; of 64 and more entries for every other rank."""
    rows = [
        entry(
            n,
            process_group=(str(1 + rank // 2), "TENSOR") if n % 3 else ("0", "default_pg"),
            input_sizes=[[n % 2 + rank % 3, 4]],
            frames=[{**FRAME, "line": n % 5 + rank % 2}],
            record_id=n + rank % 2,
            time_created_ns=1_780_000_000_000_000_000 + n * 1000 + rank,
        )
        for n in range(1, 150 if rank % 2 else 20)
    ]
    return dump(*rows)


def alone(data: bytes, number: int) -> Batch:
    return Unpacker().unpack(pack(load_dump(data)), number, f"rank_{number}")


def assert_same(one: Batch, other: Batch) -> None:
    """The same heads, rows and words, in the same order."""
    assert one.dumps == other.dumps
    assert one.vocabulary == other.vocabulary
    for name in one.calls.__struct_fields__:
        np.testing.assert_array_equal(getattr(one.calls, name), getattr(other.calls, name), name)


def dump_of_same_calls(rank: int) -> bytes:
    """A dump whose calls differ from those of other ranks in numbers and groups alone; rank 3 did not finish its last one."""
    rows = [
        entry(
            n,
            process_group=(str(rank // 2), "TENSOR"),
            input_sizes=[[n, 4]],
            time_created_ns=1_780_000_000_000_000_000 + n * 1000 + rank,
            duration_ms=n + rank / 8,
            state="started" if (n, rank) == (9, 3) else "completed",
        )
        for n in range(1, 10)
    ]
    return dump(*rows)


@pytest.mark.parametrize("make", [rank_dump, dump_of_same_calls])
def test_dumps_read_together_are_the_dumps_read_one_by_one(make: Callable[[int], bytes]) -> None:
    dumps = [make(rank) for rank in range(9)]
    reply = load_together(dumps, sum(map(len, dumps)))
    assert reply != APART
    batches = Unpacker().unpack_together(reply, [Packed(n, f"rank_{n}") for n in range(len(dumps))])
    assert batches is not None
    each = [alone(data, n) for n, data in enumerate(dumps)]
    assert [batch.dumps for batch in batches] == [batch.dumps for batch in each]
    assert [batch.vocabulary.groups for batch in batches] == [batch.vocabulary.groups for batch in each]
    assert_same(merge(batches), merge(each))


ODD = {
    "other fields": content(entry(1, thread_id=4)),
    "fewer fields": content({k: v for k, v in entry(1).items() if k != "is_p2p"}),
    "another backend": content(entry(1, "gloo:all_reduce")),
    "no backend": content(entry(1, "all_reduce")),
    "no entries": {**content(entry(1)), "entries": []},
    "a value out of range": content(entry(1, time_created_ns=1 << 80)),
    "an unknown state": content(entry(1, state="lost")),
    "an entry that is none": {**content(entry(1)), "entries": [entry(1), 7]},
    "a list": [entry(1)],
    "no dump": {"model": [1.0]},
}
BYTES = {
    **{name: pickle.dumps(shape, 2) for name, shape in ODD.items()},
    "JSON": json.dumps(content(entry(1))).encode(),
    "a cut file": rank_dump(1)[:-400],
    "code to run": b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.",
}


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES.keys())
def test_a_dump_unlike_the_others_is_read_by_itself(data: bytes) -> None:
    assert load_together([rank_dump(0), data, rank_dump(2)], 10_000) == APART


def test_one_bad_file_among_many_costs_itself_alone(tmp_path: Path) -> None:
    endless = b"\x80\x02}" + b"(" + b"(ttt" * 3 + b"Ns."
    contents = [rank_dump(rank) for rank in range(64)]
    contents[20], contents[41] = endless, BYTES["a value out of range"]
    files = []
    for number, data in enumerate(contents):
        path = tmp_path / f"{number:02d}"
        path.write_bytes(data)
        files.append(DumpFile(number, f"rank_{number}", lambda path=path: path.open("rb"), path))

    def loaded(some: list[DumpFile], **options: Any) -> list[Batch]:
        with loading(some, **options) as batches:
            return batches()

    together = loaded(files, workers=2)
    each = [loaded([file])[0] for file in files]
    assert together[20].dumps[0].problem
    assert together[41].dumps[0].problem.startswith("1 of 1 entries left out")
    assert_same(merge(together), merge(each))


def test_files_that_need_too_much_memory_together_are_read_by_themselves(tmp_path: Path) -> None:
    """Members of an archive, in one question: the child gets the room of all of them, and one of them takes it."""
    greedy = b"\x80\x02" + b"Nr\xff\xff\xff\x1f."
    contents = [rank_dump(rank) for rank in range(16)]
    contents[3] = greedy
    files = [DumpFile(n, f"rank_{n}", lambda data=data: io.BytesIO(data)) for n, data in enumerate(contents)]
    with loading(files, limits=replace(Limits(), cpu_seconds=5)) as batches:
        found = batches()
    assert [bool(batch.dumps[0].problem) for batch in found] == [n == 3 for n in range(16)]


def test_a_case_of_one_dump_holds_its_calls_and_no_part_of_a_table() -> None:
    """The rules read the calls of a case many times, so reading them must not slice the table again."""
    case = merge([alone(rank_dump(0), 0)])
    assert case.calls is case.calls
    assert len(case.calls) == case.dumps[0].entries
