import gzip
import io
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from builders.files.dumps import dump, entry, list_dump
from builders.logs.lines import watchdog

from nccldoctor.discover import discover as discover_module
from nccldoctor.discover.archives import Lane
from nccldoctor.discover.discover import discover
from nccldoctor.discover.streams import HEAD
from nccldoctor.events import Heartbeat
from nccldoctor.ingest import ingest as ingest_module
from nccldoctor.ingest.ingest import Ingested, ingest
from nccldoctor.model import Place, SourceKind
from nccldoctor.parsers.base import FileParser, Parsed
from nccldoctor.parsers.engine import effort

TIMEOUT = watchdog(3, 7, at="E1108 12:00:00.000000001", ran_ms=600_010).encode()


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def read(root: Path, **more: Any) -> Ingested:
    return ingest(discover([root]), **more)


def shape(found: Ingested) -> list[tuple[str, SourceKind, list[str]]]:
    return [(p.source.path, p.source.kind, [e.kind for e in p.events]) for p in found.parsed]


def gaps(found: Ingested) -> dict[str, str]:
    return {gap.what: gap.why for gap in found.gaps}


def test_each_file_goes_to_who_understands_it(tmp_path: Path):
    write(
        tmp_path,
        {
            "a_empty.log": b"",
            "b_core": b"\x7fELF" + bytes(500),
            "c_model.pkl": b"\x80\x02cos\nsystem\n.",
            "d_rank_3.log": b"starting\n" + TIMEOUT,
            "e_rank_4": dump(),
            "f_steps.jsonl": b'{"collective_seq_id": 5, "text": "ok"}\n{"collective_seq_id": 6}\n',
            "g_rank_5": list_dump(),
        },
    )
    found = read(tmp_path)
    assert shape(found) == [
        ("a_empty.log", SourceKind.EMPTY, []),
        ("b_core", SourceKind.UNKNOWN, []),
        ("c_model.pkl", SourceKind.UNKNOWN, []),
        ("d_rank_3.log", SourceKind.LOG, ["collective-timeout"]),
        ("e_rank_4", SourceKind.RECORDER, []),
        ("f_steps.jsonl", SourceKind.LOG, []),
        ("g_rank_5", SourceKind.RECORDER, []),
    ]
    assert [p.source.id for p in found.parsed] == list(range(7))
    assert found.parsed[3].lines == 2
    assert gaps(found) == {
        "a_empty.log": "empty",
        "b_core": "looks like a core dump or a program, a format we don't read",
        "c_model.pkl": "not a recorder dump: a pickle that wants os.system to run",
        "f_steps.jsonl": "none of its lines has a known format",
    }


def test_what_is_recognised_and_not_understood_is_named(tmp_path: Path):
    lines = {
        "a.log": "E0705 10:15:03.100000 12 libtpu_client.cc:5] slice builder: 3 of 4 hosts\n",
        "b.log": "milk, bread\n",
        "c.bin": b"\xd4\xc3\xb2\xa1" + bytes(500),
        "d.log": b"HCCL and more\n" + TIMEOUT,
    }
    found = read(
        write(tmp_path, {name: text if isinstance(text, bytes) else text.encode() for name, text in lines.items()})
    )
    assert gaps(found) == {
        "a.log": "looks like a TPU or XLA log; none of it was parsed",
        "b.log": "none of its lines has a known format",
        "c.bin": "looks like a recording of network packets, a format we don't read",
    }


def test_the_calls_of_all_dumps_make_one_table(tmp_path: Path):
    ops = ("barrier", "broadcast", "all_reduce")
    write(tmp_path, {f"rank_{n}": dump(*(entry(k, f"nccl:{op}") for k in range(1, n + 2))) for n, op in enumerate(ops)})
    found = read(tmp_path)
    calls, words = found.batch.calls, found.batch.vocabulary
    assert [(d.source, d.path, d.entries) for d in found.batch.dumps] == [
        (0, "rank_0", 1),
        (1, "rank_1", 2),
        (2, "rank_2", 3),
    ]
    assert calls.dump.tolist() == [0, 1, 1, 2, 2, 2]
    assert calls.entry.tolist() == [0, 0, 1, 0, 1, 2]
    assert [words.ops[c] for c in calls.op] == [ops[0], *2 * ops[1:2], *3 * ops[2:]]


def test_a_refused_dump_stays_in_the_table_with_its_reason(tmp_path: Path):
    write(tmp_path, {"rank_0": dump()[:-20], "rank_1": dump()})
    found = read(tmp_path)
    assert [d.problem[:9] for d in found.batch.dumps] == ["truncated", ""]
    assert found.parsed[0].source.kind is SourceKind.RECORDER


def test_nothing_to_read(tmp_path: Path):
    found = read(tmp_path)
    assert (found.parsed, len(found.batch.calls), found.gaps) == ((), 0, ())


def test_the_result_does_not_depend_on_who_finishes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ingest_module, "WORTH_A_THREAD", 1)
    for n in range(40):
        write(
            tmp_path, {f"rank_{n}.log": TIMEOUT * (40 - n), f"fr/rank_{n}": dump(*(entry(s) for s in range(1, 42 - n)))}
        )
    one, many = read(tmp_path, workers=1), read(tmp_path, workers=6)
    assert one.parsed == many.parsed
    assert one.batch.dumps == many.batch.dumps
    assert one.batch.vocabulary == many.batch.vocabulary
    assert one.batch.calls.seq.tolist() == many.batch.calls.seq.tolist()


def test_archives_read_like_the_folder_in_them(tmp_path: Path):
    files = {"fr/rank_0": dump(), "fr/rank_1": dump(), "rank_0.log": TIMEOUT, "rank_1.log": TIMEOUT}
    write(tmp_path / "folder", files)
    with tarfile.open(tmp_path / "job.tar.gz", "w:gz") as archive:
        for name in sorted(files, reverse=True):
            archive.add(tmp_path / "folder" / name, name)
    folder, packed = read(tmp_path / "folder"), read(tmp_path / "job.tar.gz")
    assert shape(folder) == shape(packed)
    assert [p.events for p in folder.parsed] == [p.events for p in packed.parsed]
    assert folder.batch.dumps == packed.batch.dumps


@pytest.mark.parametrize(("in_memory", "walked"), [(0, 2), (discover_module.KEPT_IN_ALL, 0)])
def test_an_archive_is_unpacked_once_to_list_it_and_once_for_each_kind(
    in_memory: int, walked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Small members stay in memory from the first time, as far as there is room."""
    with tarfile.open(tmp_path / "job.tar.gz", "w:gz") as archive:
        for n in range(20):
            for name, data in ((f"rank_{n}.log", TIMEOUT), (f"fr/rank_{n}", dump()), (f"rank_{n}.out", b"hello\n")):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    walks: list[int] = []
    begin = Lane.__init__

    def counted(lane: Lane, start: Any) -> None:
        def counting() -> Iterator[Any]:
            walks.append(1)
            return start()

        begin(lane, counting)

    monkeypatch.setattr(Lane, "__init__", counted)
    monkeypatch.setattr(ingest_module, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(discover_module, "KEPT_IN_ALL", in_memory)
    found = read(tmp_path / "job.tar.gz", workers=4)
    assert len(found.batch.dumps) == 20
    assert sum(len(p.events) for p in found.parsed) == 20
    assert len(walks) == walked


def test_a_packed_log_that_is_cut_is_read_as_far_as_it_goes(tmp_path: Path):
    noise = b"".join(b"%d step %d\n" % (n, n * 7919 % 10_007) for n in range(40_000))
    whole = gzip.compress(TIMEOUT + noise)
    found = read(write(tmp_path, {"rank_3.log.gz": whole[:-1000]}))
    assert [e.kind for e in found.parsed[0].events] == ["collective-timeout"]
    assert found.parsed[0].lines > 10_000
    assert gaps(found)["rank_3.log.gz"].startswith("damaged (EOFError)")


def test_a_file_that_vanished_is_a_gap(tmp_path: Path):
    listed = discover([write(tmp_path, {"a.log": TIMEOUT * (HEAD // len(TIMEOUT) + 1), "b.log": TIMEOUT})])
    (tmp_path / "a.log").unlink()
    found = ingest(listed)
    assert gaps(found) == {"a.log": "cannot be read: No such file or directory"}
    assert [p.source.kind for p in found.parsed] == [SourceKind.UNREADABLE, SourceKind.LOG]


def test_many_files_of_one_fault_are_not_all_named(tmp_path: Path):
    found = read(write(tmp_path, {f"{n:03}.log": b"" for n in range(50)}))
    assert len(found.gaps) == 21
    assert (found.gaps[-1].what, found.gaps[-1].why) == ("30 more files", "empty")


class _Whole(FileParser):
    def claims(self, head: bytes, path: str) -> bool:
        return head.startswith(b"WHOLE") or (head.startswith(b"CLAIM") and 1 // 0 > 0)

    def parse(self, source: Any, content: bytes) -> Parsed:
        if b"bad" in content:
            raise KeyError("bad")
        place = Place(source.id, source.path, line=1)
        return Parsed(source, events=(Heartbeat(place=place, text="", step=len(content)),), lines=1)


def test_file_parsers_get_the_whole_file_and_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ingest_module.registry, "file_parsers", lambda: [_Whole()])
    monkeypatch.setattr(ingest_module, "LARGEST_WHOLE", 200_000)
    write(
        tmp_path,
        {
            "a": b"WHOLE " + b"x" * 150_000,
            "b": b"WHOLE bad",
            "c": b"CLAIM\n" + TIMEOUT,
            "d": b"WHOLE\n" + TIMEOUT * 1000,
        },
    )
    found = read(tmp_path)
    assert [event.step for event in found.parsed[0].events if isinstance(event, Heartbeat)] == [150_006]
    assert gaps(found) == {"b": "reading it failed: KeyError"}
    assert found.parsed[2].events[0].kind == "collective-timeout", (
        "a parser that fails on the head does not own the file"
    )
    assert found.parsed[3].lines == 1001, "too large to be read whole: read as text, from its beginning"


def test_a_scanner_that_fails_costs_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def failing(source: Any, stream: Any, **_: Any) -> Parsed:
        if source.path == "b.log":
            raise RuntimeError("bug")
        return Parsed(source, lines=1)

    monkeypatch.setattr(ingest_module, "scan", failing)
    found = read(write(tmp_path, {"a.log": TIMEOUT, "b.log": TIMEOUT, "c.log": TIMEOUT}))
    assert gaps(found)["b.log"] == "reading it failed: RuntimeError"
    assert [p.lines for p in found.parsed] == [1, 0, 1]


def test_of_many_logs_fewer_lines_of_progress_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(effort, "SAMPLED_IN_ALL", 600)
    steps = "".join(f"[rank 0] Heartbeat: epoch=0 iter={n} global_step={n}\n" for n in range(400)).encode()
    alone = read(write(tmp_path / "one", {"a.log": steps})).parsed[0].events
    among = read(write(tmp_path / "ten", {f"{n}.log": steps for n in range(10)})).parsed[0].events
    assert len(alone) == 400 and 100 < len(among) <= 3 * 600 / 10
    assert among[-1].place.line == 400


def test_texts_are_read_while_dumps_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    order: list[str] = []
    scan, loading = ingest_module.scan, ingest_module.loading

    def scanned(*args: Any, **more: Any) -> Parsed:
        order.append("text")
        return scan(*args, **more)

    @contextmanager
    def begun(*args: Any) -> Iterator[Any]:
        order.append("begun")
        with loading(*args) as batches:
            yield lambda: order.append("waited") or batches()

    monkeypatch.setattr(ingest_module, "scan", scanned)
    monkeypatch.setattr(ingest_module, "loading", begun)
    found = read(write(tmp_path, {"rank_0": dump(), "a.log": TIMEOUT}))
    assert order == ["begun", "text", "waited"]
    assert len(found.batch.calls) == 2


def test_progress_counts_bytes(tmp_path: Path):
    seen: list[tuple[int, int]] = []
    write(
        tmp_path, {"rank_0": dump(), "rank_1": b"\x80\x02K\x01.", "a.log": TIMEOUT, "b.jsonl": b'{"pg_status": 1}\n{}'}
    )
    read(tmp_path, on_progress=lambda done, total: seen.append((done, total)))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert seen[-1] == (size, size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) >= 4


def test_a_large_log_tells_its_progress_on_the_way(tmp_path: Path):
    seen: list[int] = []
    write(tmp_path, {"a.log": TIMEOUT * (3_000_000 // len(TIMEOUT))})
    read(tmp_path, on_progress=lambda done, _: seen.append(done))
    assert len(seen) > 10
    assert max(later - earlier for earlier, later in pairwise(seen)) <= 1 << 20


@pytest.mark.parametrize("cores", [1, 2])
def test_who_presses_ctrl_c_waits_for_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    """The interrupt reaches the thread that reports; what the others read ends at their next block."""
    monkeypatch.setattr(ingest_module, "WORTH_A_THREAD", 1)
    sizes = {f"{n}.log": TIMEOUT * (400_000 // len(TIMEOUT)) for n in range(20)}
    write(tmp_path, sizes)
    told: list[int] = []

    def interrupted(done: int, total: int) -> None:
        told.append(done)
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(discover([tmp_path]), workers=cores, on_progress=interrupted)
    assert told[-1] < sum(map(len, sizes.values())) / 2
    assert [thread for thread in threading.enumerate() if "ThreadPool" in thread.name] == []


def test_the_collector_is_on_again(tmp_path: Path):
    import gc

    assert gc.isenabled()
    read(write(tmp_path, {"a.log": TIMEOUT}))
    assert gc.isenabled()


def test_the_rest_of_a_kernel_log_is_a_loss(tmp_path: Path):
    (tmp_path / "node3.dmesg").write_text("name=<unknown>, GPU has fallen off the bus.\n")
    read = ingest(discover([tmp_path]))
    assert [(one.source.kind, gap.lost) for one in read.parsed for gap in one.gaps] == [(SourceKind.KERNEL_LOG, True)]
