import io
import os
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from builders.files.dumps import content, dump, entry, list_dump
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.flight_recorder import process, sandbox
from nccldoctor.parsers.flight_recorder.child import load_dump
from nccldoctor.parsers.flight_recorder.dump import NOT_A_DUMP
from nccldoctor.parsers.flight_recorder.process import Clock, Limits
from nccldoctor.parsers.flight_recorder.sandbox import DumpFile, loading

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processor time")
IMPATIENT = Limits(cpu_seconds=1, wall_seconds=20.0)
TUPLE_OF_ITSELF = b"\x80\x02)" + b"2\x86" * 60

BOMBS = {
    "a memo of 8 GB in 9 bytes": (b"\x80\x02}r\x00\x00\x00\x20.", "refused: needs more memory"),
    "a memo of 15 GB in 16 bytes": (b"\x80\x02}p1000000000\n.", "refused: needs more memory"),
    "a shell command": (
        b"\x80\x02cos\nsystem\nX\x09\x00\x00\x00touch owned\x85R.",
        "not a recorder dump: a pickle that wants os.system",
    ),
    "a stack global": (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "not a recorder dump: a pickle that wants os.system"),
    "an instance": (b"\x80\x02(ios\nsystem\n.", "not a recorder dump: a pickle that wants os.system"),
    "a persistent id": (b"\x80\x02P1\n.", "not a recorder dump: a pickle that wants a persistent id"),
    "an extension": (b"\x80\x02\x82\x01.", "refused"),
    "a tuple of itself": (TUPLE_OF_ITSELF + b".", NOT_A_DUMP),
    "a tuple of itself for entries": (
        b"\x80\x02}X\x07\x00\x00\x00entries" + TUPLE_OF_ITSELF[2:] + b"s.",
        "recorder off",
    ),
    "a million tuples": (b"\x80\x02N" + b"\x85" * 1_000_000 + b".", NOT_A_DUMP),
    "a million open lists": (b'{"pg_config":' + b"[" * 1_000_000, "refused: nested too deep"),
    "an absurd length": (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx.", "refused"),
    "a number of 5,000 digits": (b'{"pg_config": ' + b"9" * 5000 + b"}", NOT_A_DUMP),
    "nothing": (b"", NOT_A_DUMP),
    "two bytes": (b"\x80\x02", NOT_A_DUMP),
    "a text": (b"rank 3 died", NOT_A_DUMP),
    "a checkpoint": (pickle.dumps({"model": [1.0], "step": 3}, 2), NOT_A_DUMP),
    "an old checkpoint": (pickle.dumps(0x1950A86A20F9469CFC6C, 2), NOT_A_DUMP),
}


def files_in(folder: Path, contents: dict[str, bytes]) -> list[DumpFile]:
    out = []
    for number, (name, data) in enumerate(contents.items()):
        path = folder / f"dump_{number}"
        path.write_bytes(data)
        out.append(DumpFile(number, name, lambda path=path: path.open("rb"), path))
    return out


def load_dumps(*args: Any, **options: Any) -> list[Batch]:
    with loading(*args, **options) as batches:
        return batches()


def problems(batches: list[Batch]) -> dict[str, str]:
    return {batch.dumps[0].path: batch.dumps[0].problem for batch in batches}


@linux
def test_hostile_files_cost_themselves_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    contents = {}
    for name, (data, _) in BOMBS.items():
        contents |= {name: data, f"healthy after {name}": dump()}

    batches = load_dumps(files_in(tmp_path, contents), limits=IMPATIENT)

    found = problems(batches)
    for name, (_, problem) in BOMBS.items():
        assert found[name].startswith(problem), name
        assert found[f"healthy after {name}"] == ""
    assert [len(b.calls) for b in batches[1::2]] == [2] * len(BOMBS)
    assert not (tmp_path / "owned").exists()


@linux
def test_a_hash_that_never_ends_is_stopped_by_its_processor_time(tmp_path: Path):
    never = b"\x80\x02}" + TUPLE_OF_ITSELF[2:] + b"Ns."
    batches = load_dumps(
        files_in(tmp_path, {"never": never, "healthy": dump()}), limits=Limits(cpu_seconds=1, wall_seconds=600)
    )
    assert problems(batches) == {"never": "refused: took longer to load than a file of its size should", "healthy": ""}


def test_the_clock_stops_what_nothing_else_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The first file gets half a second, the next one all the time that a busy machine needs."""
    start, given = Clock.start, iter([0.5])
    monkeypatch.setattr(Clock, "start", lambda self, process, seconds: start(self, process, next(given, 600.0)))
    never = b"\x80\x02}" + TUPLE_OF_ITSELF[2:] + b"Ns."
    files = files_in(tmp_path, {"never": never, "healthy": dump()})
    batches = load_dumps(files, workers=1, limits=Limits(cpu_seconds=600, wall_seconds=0.5))
    assert problems(batches) == {"never": "refused: took more than 0.5 s to load", "healthy": ""}


@linux
def test_memory_follows_the_size_of_the_file(tmp_path: Path):
    braces = b"\x80\x02" + b"}" * 15_000_000 + b"."  # about 75 bytes of memory for each byte of the file
    batches = load_dumps(files_in(tmp_path, {"braces": braces, "healthy": dump()}), limits=Limits(wall_seconds=60))
    assert problems(batches)["braces"].startswith("refused: needs more memory")
    assert problems(batches)["healthy"] == ""


def test_files_beyond_the_limit_are_not_loaded(tmp_path: Path):
    batches = load_dumps(files_in(tmp_path, {"large": dump() + b" " * (2 << 20)}), limits=Limits(file_bytes=1 << 20))
    assert problems(batches) == {"large": "refused: larger than 1 MB"}


def test_a_file_that_went_away(tmp_path: Path):
    files = files_in(tmp_path, {"gone": dump(), "there": dump()})
    (tmp_path / "dump_0").unlink()
    assert problems(load_dumps(files)) == {"gone": "unreadable: it went away or may not be read", "there": ""}


def test_a_stream_that_fails(tmp_path: Path):
    def broken() -> io.BytesIO:
        raise OSError("no")

    assert problems(load_dumps([DumpFile(0, "x", broken)])) == {"x": "unreadable: OSError"}


def test_bytes_that_are_no_file_on_the_disk_go_through_the_pipe():
    (batch,) = load_dumps([DumpFile(5, "a.tar.gz/rank_0", lambda: io.BytesIO(dump()))])
    assert (batch.dumps[0].source, batch.dumps[0].path, len(batch.calls)) == (5, "a.tar.gz/rank_0", 2)


def test_results_come_in_the_order_of_the_files_from_several_children(tmp_path: Path):
    contents = {f"rank_{n}": dump(*(entry(seq) for seq in range(1, n + 2))) for n in range(40)}
    done: list[int] = []
    batches = load_dumps(files_in(tmp_path, contents), workers=3, on_done=done.append)
    assert [len(b.calls) for b in batches] == list(range(1, 41))
    assert [b.dumps[0].source for b in batches] == list(range(40))
    assert sorted(done) == list(range(40))


def test_members_of_archives_are_opened_in_their_turn():
    opened: list[int] = []

    def opener(number: int) -> io.BytesIO:
        opened.append(number)
        return io.BytesIO(dump())

    turns = [3, 1, 2, 0] * 10
    files = [DumpFile(n, str(n), lambda n=n: opener(n), turn=(n // 4, turn)) for n, turn in enumerate(turns)]
    load_dumps(files, workers=4)
    assert opened == sorted(range(40), key=lambda n: (n // 4, turns[n]))


def test_who_does_not_wait_for_the_dumps_leaves_the_rest_unread():
    opened: list[int] = []

    def slow(number: int) -> io.BytesIO:
        opened.append(number)
        time.sleep(0.05)
        return io.BytesIO(dump())

    files = [DumpFile(n, str(n), lambda n=n: slow(n)) for n in range(32)]
    with pytest.raises(KeyboardInterrupt), loading(files):
        raise KeyboardInterrupt
    left = len(opened)
    time.sleep(0.3)
    assert len(opened) <= left + 1 < 32


def test_modules_that_lie_beside_the_logs_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("json", "pickle", "nccldoctor", "gc", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("open('owned', 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.fspath(tmp_path))
    assert problems(load_dumps(files_in(tmp_path, {"x": dump()}))) == {"x": ""}
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("data", [dump(), list_dump(), pickle.dumps(content(), 4)], ids=["dict", "list", "protocol 4"])
def test_a_dump_cut_at_any_byte_is_refused_with_a_reason(data: bytes):
    for end in range(len(data)):
        found = load_dump(data[:end])
        assert found.problem, end
        assert found.entries.rows == 0


def test_a_cut_dump_keeps_the_counters_that_stand_before_the_entries():
    shape = content(*(entry(n) for n in range(1, 50)))
    data = pickle.dumps(shape, 2)
    found = load_dump(data[: len(data) * 3 // 4])
    assert found.problem.startswith("truncated: the file ends early, ")
    assert 20 < int(found.problem.split(" early, ")[1].split()[0]) < 49
    assert found.version == "2.10"
    assert found.status == [(0, 2, -1, 2)]
    assert found.config == [("0", "default_pg", [(0, 2, 1), (5, 5, 1)])]


def test_a_cut_json_dump_is_truncated():
    import json

    data = json.dumps(content()).encode()
    assert load_dump(data[:-30]).problem.startswith("truncated")


@settings(max_examples=8, deadline=None)
@given(
    damage=st.lists(
        st.tuples(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 400)), min_size=20, max_size=30
    )
)
def test_no_bytes_get_out_of_the_sandbox(damage: list[tuple[bytes, int, int]]):
    whole = dump()
    contents = [b"\x80\x02" + data for data, _, _ in damage]
    contents += [whole[:at] + data + whole[at + cut :] for data, cut, at in damage]
    files = [DumpFile(n, str(n), lambda data=data: io.BytesIO(data)) for n, data in enumerate([*contents, whole])]
    batches = load_dumps(files, workers=1, limits=IMPATIENT)
    assert all(batch.dumps[0].problem or len(batch.calls) for batch in batches)
    assert len(batches[-1].calls) == 2


def test_who_does_not_wait_for_the_dumps_leaves_no_child():
    """The reading of a file is under way when the interrupt comes: it asks its child all the same, and finds none."""
    begun, interrupted = threading.Event(), threading.Event()
    children: list[process.Child] = []

    class Watched(process.Child):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            children.append(self)

    def opener() -> io.BytesIO:
        begun.set()
        interrupted.wait()
        return io.BytesIO(dump())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "Child", Watched)
        stop = sandbox._Work.stop
        patch.setattr(sandbox._Work, "stop", lambda work: (stop(work), interrupted.set()))
        with pytest.raises(KeyboardInterrupt), loading([DumpFile(0, "0", opener)]):
            begun.wait()
            raise KeyboardInterrupt
    assert [child.process for child in children] == [None]


def test_a_child_that_is_killed_at_work_ends_and_none_follows():
    clock = process.Clock()
    child = process.Child(Limits(), clock)
    assert b"refused" not in child.pack_of(dump())
    running = child.process
    assert running is not None and running.poll() is None
    child.kill()
    assert running.wait() != 0
    assert b"refused" in child.pack_of(dump())
    assert child.process is running
    clock.stop()
