import pickle
import random
from typing import Any

import numpy as np
import pytest

from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.flight_recorder.child import load_dump
from nccldoctor.parsers.flight_recorder.outlines import MOST
from nccldoctor.parsers.flight_recorder.repeats import RepeatFinder
from nccldoctor.parsers.flight_recorder.wire import Packed, Unpacker, pack

FRAMES = [{"name": f"step_{n}", "filename": "train.py", "line": n} for n in range(3)]
STATES = ("completed", "completed", "started", "scheduled")


def entry(number: int, chance: random.Random, **changes: Any) -> dict[str, Any]:
    """An entry with numbers of every width that a pickle knows."""
    kind = number % 5
    out = {
        "frames": FRAMES[kind % 3 :],
        "record_id": number,
        "pg_id": kind % 2,
        "process_group": (str(kind % 2), "default_pg" if kind % 2 == 0 else "tp"),
        "collective_seq_id": number * 40,
        "p2p_seq_id": 0,
        "op_id": chance.choice([number, 70_000 + number, -number - 1]),
        "profiling_name": f"nccl:{'all_reduce' if kind else 'broadcast'}",
        "time_created_ns": 1_780_000_000_000_000_000 + number * 1_000_003,
        "input_sizes": [[4, kind]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4, kind]],
        "output_dtypes": ["Float"],
        "state": STATES[kind % 4],
        "time_discovered_started_ns": chance.choice([None, 1 << 37, 1_780_000_000_000_000_000 + number]),
        "time_discovered_completed_ns": None if kind == 3 else 1_780_000_000_500_000_000 + number,
        "retired": kind == 0,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "duration_ms": number / 7,
        "thread_id": number * 17,
    }
    return out | changes


def dump(entries: list[dict[str, Any]], protocol: int = 2) -> bytes:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return pickle.dumps({"version": "2.10", "pg_config": config, "entries": entries}, protocol=protocol)


def whole(data: bytes) -> Batch:
    return Unpacker().unpack(pack(load_dump(data)), 0, "rank_0")


def by_sorts(data: bytes, finder: RepeatFinder | None = None) -> Batch | None:
    """The batch where the reader sees one entry of each sort; None where it has to see all."""
    repeats = (finder or RepeatFinder()).find_repeats(data)
    if repeats is None:
        return None
    assert len(repeats.rest) < len(data)
    batches = Unpacker().unpack_together(pack(load_dump(repeats.rest)), [Packed(0, "rank_0", repeats)])
    return None if batches is None else batches[0]


def assert_same(one: Batch, other: Batch) -> None:
    assert one.dumps == other.dumps
    assert one.vocabulary == other.vocabulary
    for name in one.calls.__struct_fields__:
        here, there = getattr(one.calls, name), getattr(other.calls, name)
        assert here.dtype == there.dtype
        np.testing.assert_array_equal(here, there, err_msg=name)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_dump_read_by_sorts_is_the_dump_read_whole(seed: int, protocol: int) -> None:
    chance = random.Random(seed)
    data = dump([entry(n, chance) for n in range(1500)], protocol)
    read = by_sorts(data)
    assert read is not None
    assert_same(read, whole(data))


def test_the_child_sees_one_entry_of_each_sort() -> None:
    data = dump([entry(n, random.Random(1), op_id=7, time_discovered_started_ns=None) for n in range(1000, 1500)])
    repeats = RepeatFinder().find_repeats(data)
    assert repeats is not None
    assert repeats.sorts < 20
    assert len(load_dump(repeats.rest).entries.columns["entry"]) == repeats.sorts


def test_layouts_learned_from_one_dump_serve_the_next_and_change_nothing() -> None:
    finder = RepeatFinder()
    for seed in range(4):
        chance = random.Random(seed)
        data = dump([entry(n, chance) for n in range(seed, 300 + seed)])
        read = by_sorts(data, finder)
        assert read is not None
        assert_same(read, whole(data))


def test_other_keys_under_the_same_memo_numbers_are_told_apart() -> None:
    """The second dump swaps two keys of equal length: its bytes differ from the first one's only in the first entry."""
    finder = RepeatFinder()
    for first, second in (("op_id", "pg_ix"), ("pg_ix", "op_id")):
        rows = [
            {
                "record_id": n + 1,
                first: n + 1,
                second: 2 * n + 1,
                "profiling_name": "nccl:all_reduce",
                "state": "completed",
            }
            for n in range(300)
        ]
        data = pickle.dumps({"entries": rows}, protocol=2)
        read = by_sorts(data, finder)
        assert read is not None
        assert_same(read, whole(data))


@pytest.mark.parametrize(
    "rows",
    [
        [entry(n, random.Random(n)) for n in range(40)],
        [entry(n, random.Random(n), input_sizes=[[n]]) for n in range(400)],
    ],
    ids=["few entries", "all entries differ"],
)
def test_dumps_with_few_repeats_are_read_whole(rows: list[dict[str, Any]]) -> None:
    assert RepeatFinder().find_repeats(dump(rows)) is None


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x02", b"\x80\x04\x95", b"{}", b"\x80\x02X\x07\x00\x00\x00entries](}(X\x01\x00\x00\x00a"]
)
def test_what_is_no_dump_has_no_repeats(data: bytes) -> None:
    assert RepeatFinder().find_repeats(data) is None


def test_an_entry_with_an_unknown_state_sends_the_whole_file() -> None:
    rows = [entry(n, random.Random(n)) for n in range(400)]
    rows[200]["state"] = "paused"
    assert by_sorts(dump(rows)) is None


def test_dumps_of_two_backends_are_read_whole() -> None:
    rows = [
        entry(n, random.Random(n), profiling_name="gloo:all_reduce" if n % 2 else "nccl:all_reduce") for n in range(400)
    ]
    assert by_sorts(dump(rows)) is None


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(300))
def test_a_changed_byte_gives_what_the_whole_file_gives(seed: int) -> None:
    """Whatever is broken, reading by sorts either gives up or agrees with the reader of whole files."""
    chance = random.Random(seed)
    data = bytearray(dump([entry(n, chance, op_id=n) for n in range(300)]))
    for _ in range(chance.choice([1, 1, 3])):
        place = chance.randrange(len(data))
        data[place] = chance.choice([chance.randrange(256), data[chance.randrange(len(data))]])
    read = by_sorts(bytes(data))
    if read is not None:
        assert_same(read, whole(bytes(data)))


def of_rank(rank: int, **changes: Any) -> bytes:
    """The dump of a rank that issues the same calls as the others, at times of its own."""
    own = [
        {
            "time_created_ns": 1_780_000_000_000_000_000 + n * 1_000_003 + rank,
            "duration_ms": rank + n / 7,
            "op_id": 70_000 + rank,
        }
        for n in range(300)
    ]
    rows = [entry(n, random.Random(n), time_discovered_started_ns=None, **own[n]) for n in range(300)]
    rows[200] |= changes
    return dump(rows)


def test_a_dump_like_that_of_another_rank_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = RepeatFinder()
    assert by_sorts(of_rank(0), finder) is not None
    monkeypatch.setattr(RepeatFinder, "_look_at_entries", lambda *_: None)
    for rank in range(1, 4):
        read = by_sorts(of_rank(rank), finder)
        assert read is not None
        assert_same(read, whole(of_rank(rank)))
    assert by_sorts(of_rank(4, state="started"), finder) is None
    assert by_sorts(of_rank(4, profiling_name="nccl:all_gather"), finder) is None


def test_only_some_outlines_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = RepeatFinder()
    names = [f"nccl:{letter}ll_reduce" for letter in "abcdefghij"]
    for name in names:
        assert by_sorts(of_rank(0, profiling_name=name), finder) is not None
    monkeypatch.setattr(RepeatFinder, "_look_at_entries", lambda *_: None)
    known = [by_sorts(of_rank(1, profiling_name=name), finder) is not None for name in names]
    assert known == [True] * MOST + [False] * (len(names) - MOST)


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(200))
def test_a_changed_byte_is_not_taken_for_that_of_another_rank(seed: int) -> None:
    chance, finder = random.Random(seed), RepeatFinder()
    assert by_sorts(of_rank(0), finder) is not None
    data = bytearray(of_rank(1))
    data[chance.randrange(len(data))] = chance.randrange(256)
    read = by_sorts(bytes(data), finder)
    if read is not None:
        assert_same(read, whole(bytes(data)))
