from __future__ import annotations

import gc
import io
import json
import random
import re
import time
import tracemalloc
import weakref

import pytest
from builders.logs.cpu_limit import bounded_cpu_time
from builders.logs.log_reading import Probe, events, lines, parsed
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.events import CollectiveTimeout, Event, Heartbeat, Progress
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import Line, LineParser
from nccldoctor.parsers.engine import literals, sampling
from nccldoctor.parsers.engine import scan as scanner
from nccldoctor.parsers.engine.literals import Literals, _needles, literals_of
from nccldoctor.parsers.engine.window import Buffer
from nccldoctor.parsers.line_prefix.labels import has_labels

TIMEOUT = (
    "[rank{r}]:[E921 03:35:20.399015003 ProcessGroupNCCL.cpp:607] [Rank {r}] Watchdog caught collective operation "
    "timeout: "
    "WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600017 milliseconds "
    "before timing out.\n"
)


def test_lines_have_their_numbers_and_pieces_their_text() -> None:
    found = lines("a\n\nx PROBE 1\nb\r\nc\rd PROBE 2\re\nPROBE 3")
    assert [(x.place.line, x.body) for x in found] == [(3, "x PROBE 1"), (5, "d PROBE 2"), (6, "PROBE 3")]


def test_numbers_hold_over_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "BLOCK", 200 << 10)
    monkeypatch.setattr(scanner, "HISTORY", 100 << 10)
    text = "".join(f"line {i} {'PROBE' if i % 997 == 0 else 'nothing'} {'x' * (i % 90)}\n" for i in range(40_000))
    found = lines(text)
    assert [x.place.line for x in found] == [i + 1 for i in range(0, 40_000, 997)]
    assert all(f"line {(x.place.line or 0) - 1} " in x.body for x in found)
    assert parsed(text, [Probe()]).lines == 40_000


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 4])
def test_a_literal_across_the_end_of_a_block_is_found_once(monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    monkeypatch.setattr(scanner, "BLOCK", 200 << 10)
    monkeypatch.setattr(scanner, "HISTORY", 100 << 10)
    for at in (scanner.FIRST, scanner.FIRST - (64 << 10), 300 << 10, (300 << 10) - (64 << 10)):
        text = "x" * (at + offset) + "PROBE" + "y" * (600 << 10)
        assert len(lines(text)) == 1, (at, offset)


@pytest.mark.parametrize("offset", range(-12, 13, 3))
def test_a_long_literal_across_the_end_of_a_block_is_found(monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    monkeypatch.setattr(scanner, "BLOCK", 200 << 10)
    monkeypatch.setattr(scanner, "HISTORY", 100 << 10)
    literal = "eeeeeeee ZQX rare end"
    for at in (scanner.FIRST - (64 << 10), (300 << 10) - (64 << 10)):
        text = "x" * (at + offset) + literal + "y" * (600 << 10)
        assert len(lines(text, literal)) == 1, (at, offset)


def test_every_hit_has_its_neighbours_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "BLOCK", 200 << 10)
    monkeypatch.setattr(scanner, "HISTORY", 100 << 10)

    class Around(Probe):
        def parse(self, line: Line) -> list[CollectiveTimeout]:
            number = int(line.body.split()[1])
            assert [int(x.body.split()[1]) for x in line.following(5)] == list(range(number + 1, number + 6))
            assert [int(x.body.split()[1]) for x in line.preceding(5)] == list(range(number - 1, number - 6, -1))
            assert [x.place.line for x in line.following(2)] == [number + 2, number + 3]
            assert [x.place.line for x in line.preceding(2)] == [number, number - 1]
            return []

    text = "".join(f"line {i} {'PROBE' if i % 501 == 100 else 'nothing'} {'z' * (i % 71)}\n" for i in range(20_000))
    result = parsed(text, [Around()])
    assert result.candidates == 40 and result.gaps == ()


def test_following_skips_other_writers_and_what_belongs_to_them() -> None:
    text = "[rank3]: PROBE\n  own 1\n[rank4]: foreign\n  belongs to 4\n[rank3]: own 2\n\n  own 3\n[rank4]: foreign\n"
    (line,) = lines(text)
    assert [x.body for x in line.following()] == ["  own 1", "own 2", "", "  own 3"]


def test_lines_without_a_writer_follow_lines_without_a_writer() -> None:
    text = "PROBE\none\n[rank4]: foreign\ntwo\n"
    (line,) = lines(text)
    assert [x.body for x in line.following()] == ["one", "two"]


def test_preceding_of_an_unmarked_line_finds_the_writer_it_continues() -> None:
    (line,) = lines("[rank1]: other\n[rank3]: mine\n  PROBE\n")
    assert [x.body for x in line.preceding(2)] == ["mine"]


def test_a_line_end_of_windows_is_no_empty_line() -> None:
    (line,) = lines("before\r\nPROBE\r\none\r\n\r\ntwo\r\n")
    assert [x.body for x in line.following()] == ["one", "", "two"]
    assert [(x.place.line, x.body) for x in line.preceding()] == [(1, "before")]


def test_following_ends_64_kb_away() -> None:
    (line,) = lines("PROBE\n" + "x" * 70_000 + "\nfar away\n")
    assert all("far away" not in x.body for x in line.following())


def test_neighbours_of_a_redrawn_bar_show_its_last_state() -> None:
    (line,) = lines("PROBE\n" + "\r".join(f"{i}%" for i in range(100)) + "\nend\n")
    assert [x.body for x in line.following()] == ["99%", "end"]


def test_records_glued_together_are_lines_of_their_own() -> None:
    text = TIMEOUT.format(r=1, n=5).rstrip() + " " + TIMEOUT.format(r=2, n=6)
    assert [(e.rank, e.seq) for e in events(text, "collective-timeout")] == [(1, 5), (2, 6)]  # type: ignore[attr-defined]


def test_a_bar_in_front_of_a_line_that_was_understood_is_not_missed() -> None:
    result = parsed("load:  46%|##  | 46/100 [30:06<35:21, 8.72it/s]" + TIMEOUT.format(r=1, n=5))
    assert (result.understood, result.first_unknown) == (result.candidates, "")


def test_a_record_inside_json_with_colours_and_a_bar_before_it() -> None:
    inner = "\x1b[36m 3%| | 1/9 [0:1<0:2]\x1b[0m\r" + TIMEOUT.format(r=1, n=5)
    text = json.dumps({"log": inner, "stream": "stderr", "time": "2026-04-24T07:03:34.25Z"}) + "\n"
    (event,) = events(text, "collective-timeout")
    assert (event.rank, event.place.line) == (1, 1)


def test_a_thousand_ranks_line_by_line_keep_their_groups() -> None:
    status = (
        "[rank{r}]:[E921 03:35:20.399015003 ProcessGroupNCCL.cpp:2268] [PG ID 3 PG GUID {g} Rank 0]  failure "
        "detected by watchdog at work sequence id: 5 PG status: last enqueued work: 9, last completed work: 4\n"
    )
    text = "".join(TIMEOUT.format(r=r, n=5) + status.format(r=r, g=r // 8) for r in range(1_000))
    with bounded_cpu_time():
        found = events(text, "collective-timeout")
    assert [str(e.group) for e in found] == [str(r // 8) for r in range(1_000)]


def test_counts_and_the_first_line_that_is_not_understood() -> None:
    result = parsed(
        "healthy\n" + TIMEOUT.format(r=1, n=5) + "[rank0]:[E ProcessGroupNCCL.cpp:9] [Rank 0] something new\n"
    )
    assert (result.lines, result.candidates, result.understood) == (3, 2, 1)
    assert str(result.first_unknown_at) == "job.log:3"
    assert "something new" in result.first_unknown


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_other_encodings_are_read(encoding: str) -> None:
    text = "before ü\n" + TIMEOUT.format(r=1, n=5)
    (event,) = events(text.encode(encoding), "collective-timeout")
    assert (event.rank, event.place.line) == (1, 2)


def test_utf_16_be_with_its_mark() -> None:
    content = b"\xfe\xff" + TIMEOUT.format(r=1, n=5).encode("utf-16-be")
    assert len(events(content, "collective-timeout")) == 1


def test_nul_bytes_and_bad_utf8_do_not_hide_a_record() -> None:
    content = b"\x00" * 5000 + TIMEOUT.format(r=1, n=5).encode() + b"\xff\xfe broken \x80\n"
    (event,) = events(content, "collective-timeout")
    assert event.rank == 1
    (line,) = lines(b"\xe9 PROBE\n")
    assert line.body == "\\xe9 PROBE"


class Raises(LineParser):
    literals = ("PROBE",)

    def parse(self, line: Line) -> list[CollectiveTimeout]:
        raise KeyError("bug")


def test_a_parser_that_fails_costs_its_line_and_is_told() -> None:
    result = parsed("PROBE\n" + TIMEOUT.format(r=1, n=5), [Raises(), *registry.line_parsers()])
    assert len([e for e in result.events if e.kind == "collective-timeout"]) == 1
    assert [(g.what, g.why) for g in result.gaps] == [("lines of Raises", "KeyError at job.log:1")]


class Dots(LineParser):
    """A sampled parser for the tests."""

    sampled = True
    literals = ("step=",)

    def parse(self, line: Line) -> list[Progress]:
        m = re.search(r"step=(\d+)", line.body)
        return [Progress(place=line.place, text=line.body, rank=line.mark.rank, step=int(m[1]))] if m else []


def test_small_files_are_sampled_whole() -> None:
    text = "".join(f"step={i}\n" for i in range(1_500))
    assert [e.step for e in events(text, parsers=[Dots()])] == list(range(1_500))  # type: ignore[attr-defined]


def test_of_a_bar_that_redraws_itself_the_first_and_the_last_state_count() -> None:
    text = "\r".join(f"step={i}" for i in range(500)) + "\n"
    assert [e.step for e in events(text, parsers=[Dots()])] == [0, 499]  # type: ignore[attr-defined]


def test_a_large_file_shows_head_tail_and_surroundings_of_the_first_and_last_event() -> None:
    every = [f"step={i} {'.' * 60}\n" for i in range(160_000)]
    for at in (60_000, 100_000, 110_000):
        every.insert(at, "PROBE\n")
    text = "".join(every)

    class Loud(LineParser):
        literals = ("PROBE",)

        def parse(self, line: Line) -> list[CollectiveTimeout]:
            return [CollectiveTimeout(place=line.place, text=line.body)]

    result = parsed(text, [Loud(), Dots()])
    steps = [e.step for e in result.events if isinstance(e, Progress)]
    assert steps == sorted(steps) and len(steps) <= sampling.MOST_EVENTS
    assert steps[0] == 0 and steps[-1] == 159_999
    for near in (60_000, 110_000):
        assert any(abs(s - near) < 200 for s in steps), near
    assert all(e.text == f"step={e.step} {'.' * 60}" for e in result.events if isinstance(e, Progress))
    numbers = [e.place.line or 0 for e in result.events if isinstance(e, Progress)]
    assert all(0 <= n - s - 1 <= 3 for n, s in zip(numbers, steps, strict=True))


def test_thinning_keeps_the_first_and_last_of_every_writer() -> None:
    text = "".join(f"[rank{r}]: step={i}\n" for i in range(700) for r in range(8))
    found = [e for e in events(text, parsers=[Dots()]) if isinstance(e, Progress)]
    assert len(found) <= sampling.MOST_EVENTS
    for r in range(8):
        steps = [e.step for e in found if e.rank == r]
        assert (steps[0], steps[-1]) == (0, 699)


def test_two_records_of_one_kind_are_not_run_together() -> None:
    nic = "1: host1:7:9 [0] transport/net_ib.cc"
    text = (
        f"{nic}:95 NCCL WARN NET/IB : mlx5_2:1 Got async event : port error(10)\n"
        "1: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
        "1: Last error:\n"
        "1: NET/IB: Got completion from peer 10.0.3.11<41002> with status=12 opcode=32698 len=0 vendor err 129 hca mlx5_2\n"
    )
    found = events(text, "ib-error")
    assert [(e.what, e.hca) for e in found] == [("port", "mlx5_2"), ("completion", "mlx5_2")]


def test_srun_labels_are_ranks_where_nothing_speaks_against_it() -> None:
    text = "".join(f"{r}: heartbeat step={i}\n" for i in range(3) for r in range(4))
    assert {e.rank for e in events(text, "heartbeat")} == {0, 1, 2, 3}


def test_a_label_tells_of_a_rank_of_which_no_line_is_understood() -> None:
    text = "".join(f"{r}: {'heartbeat step=1' if r < 2 else 'queue is full'}\n" for r in (0, 5, 1, 4))
    (size,) = events(text, "note")
    assert (size.what, size.detail, size.place.line) == ("least-size", "6", None)
    assert {e.rank for e in events(text, "heartbeat")} == {0, 1}


def test_srun_labels_of_one_launcher_per_node_are_no_ranks() -> None:
    text = "".join(f"{r // 4}: [rank{r}]: hello\n{r // 4}: heartbeat step=1\n" for r in range(8))
    assert {e.rank for e in events(text, "heartbeat")} == {None}


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        ("0: a\n1: b\n0: c\n", True),
        (" 6: a\n12: b\n 6: c\n", True),
        ("1: a\n2: b\n3: c\n4: d\n5: e\n", False),  # grep -n
        ("node1: a\nnode2: b\nnode1: c\nnode2: d\n", True),
        ("Error: a\nWarning: b\nError: c\n", False),
        ("3: a\nb\nc\n", False),
        ("", False),
    ],
)
def test_whether_a_file_is_labelled(head: str, answer: bool) -> None:
    assert has_labels(head.encode()) is answer


def test_literals_that_overlap_all_reach_their_owners() -> None:
    long, short, other = Probe("abcdef"), Probe("cd"), Probe("zz")
    found = Literals([long, short, other])
    assert found.owners("xxabcdefxx") == [long, short]
    assert {4, 11} <= set(found.hits(memoryview(b"xxabcdefxx zz")))


def test_one_search_over_many_lines_finds_the_owners_that_a_search_of_each_finds() -> None:
    found = Literals([Probe("abcdef"), Probe("cd"), Probe("ef gh"), Probe("→ zz")])
    texts = ["abcdef gh", "cd", "", "abc", "→ zz cd", "\x1b[1mabcdef", "ef", "gh cd cd", "é abcdef"]
    held = found.held_by([text.encode() for text in texts])
    for index, text in enumerate(texts):
        assert held[index] == (bool(found.owners(text)) or "\x1b" in text)
        for part in (text[start:] for start in range(len(text) + 1)):
            assert held.owners(index, text, part) == found.owners(part)
    coloured = texts.index("\x1b[1mabcdef")
    assert held.owners(coloured, "abcdef", "abcdef") == found.owners("abcdef"), "without its colours it is another text"


def test_many_literals_are_searched_in_several_passes_with_one_answer() -> None:
    many = [Probe(f"lit{i:03d}x") for i in range(150)]
    text = "".join(f"-- lit{i:03d}x\n" for i in range(149, -1, -1))
    hits = Literals(many).hits(memoryview(text.encode()))
    assert hits == [3 + 11 * i for i in range(150)]


def test_a_word_that_literals_share_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "_SMALL", 0)
    family = [Probe(f"{who} worker died of {why}") for who in ("one", "another", "third") for why in ("age", "rust")]
    found = Literals(family)
    text = "a worker bee\nanother worker died of rust\n"
    assert found.hits(memoryview(text.encode()))[-1] > len("a worker bee\n"), "its line is looked at"
    assert found.owners(text) == [family[3]]
    assert len(_needles(sorted(p.literals[0].encode() for p in family))) == 1


def test_a_line_that_only_shares_a_word_with_a_literal_reaches_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "_SMALL", 0)
    found = Literals([Probe("one worker died"), Probe("another worker died")])
    assert found.hits(memoryview(b"the worker died young")), "the shared word is there"
    assert not found.held_by([b"the worker died young"])[0]
    assert found.held_by([b"one worker died young"])[0]
    assert found.held_by([b"one \x1b[31mworker died"])[0], "a colour may cut a literal"


@pytest.mark.parametrize(
    "line",
    [
        " iteration      122/  250000 | consumed samples:  124928 | lm loss: 2.504220E+00 | grad norm: 0.231 |",
        "{'loss': 3.5534, 'grad_norm': 1.414, 'learning_rate': 2.0e-06, 'epoch': 0.01}",
        "node01:175985:176025 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM",
        "node01:175985:176025 [1] NCCL INFO Trees [0] 2/-1/-1->1->0 [1] 2/-1/-1->1->0",
        "node01:175985:176025 [1] NCCL INFO Connected all rings, use ring PXN 0 GDR 1",
        "[rank0]: 2026-04-05 15:48:34,242 - data - INFO - loading the next shard of the dataset from the cache",
        "INFO:trainer:saving the optimizer state of step 400 to /checkpoints/step-400",
        "Tokens per second per GPU: 3412.5, worker processes: 8",
    ],
)
def test_a_line_of_a_healthy_job_costs_no_parser_a_look(line: str) -> None:
    """Each kind of line here stands in a log a million times; a literal that is common in them costs minutes."""
    parsers = tuple(parser for parser in registry.line_parsers() if not parser.sampled)
    assert literals_of(parsers).owners(line) == []


HOSTILE = [
    b"\n" * 3_000_000,
    b"\r" * 3_000_000,
    b"x" * 5_000_000,
    b"\x00" * 3_000_000,
    (b"[rank1]:" * 400_000),
    (b"WorkNCCL(SeqNum=" * 200_000),
    (b"PROBE Watchdog caught collective op" * 60_000),
    b"[" * 2_000_000,
    (b"> " * 1_000_000) + b"aught collective op",
    b'{"log":' + b"[" * 1_000_000 + b"aught collective op",
    random.Random(1).randbytes(3_000_000),
    b"[PG ID 1 PG GUID 2(" * 100_000 + b"aught collective op",
    b"\x1b]" + b"a" * 3_000_000 + b"aught collective op",
]


def test_nothing_of_a_file_stays_in_memory_while_the_collector_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Buffer]] = []

    class Watched(Buffer):
        def __init__(self, source: Source, size: int) -> None:
            super().__init__(source, size)
            made.append(weakref.ref(self))

    monkeypatch.setattr(scanner, "Buffer", Watched)
    gc.disable()
    try:
        found = parsed("".join(f"[rank 0] Heartbeat: epoch=0 iter={n} global_step={n}\n" for n in range(99)))
        assert len(found.events) == 99 and len(made) == 1 and made[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_take_bounded_time_and_memory(content: bytes) -> None:
    source = Source(0, "x", SourceKind.LOG, len(content))
    stream = io.BytesIO(content)
    tracemalloc.start()
    begin = time.process_time()
    scanner.scan(source, stream)
    spent = time.process_time() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spent < 20, spent  # with tracing, which costs a factor of three
    assert peak < 150e6, peak


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_give_an_answer(content: bytes) -> None:
    result = parsed(content)
    assert (
        result.lines == content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
        or b"\x00" in content[:4096]
        or content[:2] in (b"\xff\xfe", b"\xfe\xff")  # marks of UTF-16: lines are counted behind them
    )
    assert result.gaps == ()


WORDS = st.sampled_from(
    [
        "[rank1]:[E921 03:35:20.399015003 ProcessGroupNCCL.cpp:607] ",
        "[Rank 1] ",
        "[PG ID 0 PG GUID 0(default_pg) Rank 1] ",
        "Watchdog caught collective operation timeout: ",
        "WorkNCCL(SeqNum=5, OpType=ALLREDUCE, ",
        "NumelIn=1, ",
        "Timeout(ms)=5) ran for 7 ",
        "failure detected by watchdog at work sequence id: 5 PG status: ",
        "last enqueued work: 5, ",
        "last completed work: 4",
        "\n",
        "\r",
        "\t",
        "Received a dump signal due to a collective timeout from  rank 2 and ",
        "Timeout at collective: ALLREDUCE, #5",
        "- [0] ",
        "12%|",
        " 3/9 [",
        "it/s",
        "Heartbeat: step=3",
        "epoch",
        "Stack trace of the failed collective: \n#0 a from b.py:3\n",
        "watchdog got stuck for 9 seconds ",
        "Saved checkpoint",
        "\x1b[31m",
        "3: ",
        "(Worker pid=3) ",
        "> ",
        '{"log":"',
        "é",
        "1" * 30,
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=40))
def test_any_mixture_of_pieces_is_read_by_every_parser_without_error(words: list[str]) -> None:
    result = parsed("".join(words))
    assert result.gaps == ()
    assert all(e.place.line and e.place.line <= max(1, result.lines) for e in result.events)


def test_same_bytes_same_events() -> None:
    text = "".join(TIMEOUT.format(r=r, n=n) for r in range(8) for n in range(5)) + "Heartbeat: rank 3 step=5\n"
    assert parsed(text) == parsed(text)
    assert isinstance(parsed(text).events[-1], Heartbeat)


def test_a_file_of_one_rank_is_sampled_thinner_than_one_of_many() -> None:
    """Nobody else's lines can be lost in it; its first and its last step are kept all the same."""
    text = "".join(f"[rank 3] Heartbeat: epoch=0 iter={n} global_step={n}\n" for n in range(2_000)).encode()
    own = scanner.scan(Source(0, "rank_3.log", SourceKind.LOG, len(text), 3), io.BytesIO(text)).events
    merged = scanner.scan(Source(0, "job.log", SourceKind.LOG, len(text)), io.BytesIO(text)).events
    assert len(merged) == 2_000
    assert 100 <= len(own) <= 120
    assert [own[0].place.line, own[-1].place.line] == [1, 2_000]


def test_before_a_failure_of_one_rank_its_last_steps_are_kept() -> None:
    steps = "".join(f"[rank 3] Heartbeat: epoch=0 iter={n} global_step={n}\n" for n in range(4_000))
    text = (steps + TIMEOUT.format(r=3, n=9)).encode()
    own = scanner.scan(Source(0, "rank_3.log", SourceKind.LOG, len(text), 3), io.BytesIO(text)).events
    lines = [event.place.line for event in own if isinstance(event, Heartbeat)]
    assert lines[-70:] == list(range(3_931, 4_001))
    assert lines[0] == 1
    assert 100 <= len(lines) <= 240


class Deaf(LineParser):
    """Asks for lines and understands none."""

    literals = ("ProcessGroupNCCL",)

    def parse(self, line: Line) -> list[Event]:
        return []


def unexplained(text: str) -> list[tuple[int | None, int | None, str]]:
    return [(u.place.line, u.rank, u.text) for u in parsed(text).unexplained]


STRANGE = "[rank{r}]:[{level} ProcessGroupNCCL.cpp:9] [Rank {r}] ncclRemoteError of another kind\n"


def test_lines_that_only_a_parser_of_progress_reads_are_understood() -> None:
    """Megatron prints a step and *number of nan iterations: 0* on one line: the one is progress, the other says nothing."""
    step = " iteration {:8}/ 1000 | elapsed time per iteration (ms): 812.4 | lm loss: 2.5E+00 | number of nan iterations:   0 |\n"
    result = parsed("".join(map(step.format, range(40, 44))))
    assert (result.understood, result.candidates, result.first_unknown) == (4, 4, "")
    assert [e.kind for e in result.events] == ["progress"] * 4
    many = parsed("".join(map(step.format, range(20_000))))
    assert (many.candidates - many.understood, many.first_unknown) == (0, "")


def test_the_last_errors_that_are_not_understood_are_kept() -> None:
    text = "".join(STRANGE.format(r=r, level="E") for r in range(9))
    found = unexplained("healthy\n" + text)
    assert [(line, rank) for line, rank, _ in found] == [(7, 5), (8, 6), (9, 7), (10, 8)]
    assert "of another kind" in found[-1][2]


def test_a_note_that_is_not_understood_is_no_failure() -> None:
    assert unexplained(STRANGE.format(r=1, level="I")) == []


@pytest.mark.parametrize(
    ("line", "is_failure"),
    [
        ("ProcessGroupNCCL: the lease of the fabric failed", True),
        ("ProcessGroupNCCL: 0 errors, nothing failed in attempt 2 of 3", False),
        ("ProcessGroupNCCL: note that a timeout is set", False),
        ("#1 ProcessGroupNCCL: the lease of the fabric failed", True),
        ("#3  0x00007f184b328fa8 in ProcessGroupNCCL::abort_failed (this=0x1) at a.cpp:3", False),
        ("#4  ProcessGroupNCCL::abort_failed (this=0x1) at a.cpp:3", False),
    ],
)
def test_lines_without_a_level_are_failures_by_their_words(line: str, is_failure: bool) -> None:
    assert bool(parsed(line + "\n", [Deaf()]).unexplained) is is_failure


def test_the_end_of_a_traceback_that_was_understood_is_no_riddle() -> None:
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/opt/train/train.py", line 3, in main\n'
        "[rank1]:     step()\n"
        "[rank1]: KeyboardInterrupt: killed\n"
    )
    assert (unexplained(text), parsed(text).understood > 0) == ([], True)


def test_the_end_of_a_traceback_and_the_rows_of_a_table_count_as_understood() -> None:
    text = (
        "E1117 09:13:05.669000 19964 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) local_rank: 1 "
        "(pid: 20002) of binary: /usr/bin/python3.11\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/train/train.py", line 8, in main\n'
        "    step()\n"
        "RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        "  rank      : 1 (local_rank: 1)\n"
        "  exitcode  : -6 (pid: 20002)\n"
        "  traceback : Signal 6 (SIGABRT) received by PID 20002\n"
    )
    read = parsed(text, registry.line_parsers())

    # the two, and the dated line above the exception, which bounds its time
    assert (read.understood, read.candidates, read.first_unknown) == (3, 3, "")


@pytest.mark.parametrize(
    "part",
    [
        '  File "/opt/vllm/executor.py", line 331, in collective_rpc',
        "",
        "The above exception was the direct cause of the following exception:",
        "frame #3: c10::Error::Error(std::string) + 0x57",
    ],
)
def test_a_logged_part_of_a_stack_is_no_unexplained_failure(part: str) -> None:
    prefix = "(EngineCore_0 pid=412) ERROR 11-05 08:47:35 [executor.py:62] "
    read = parsed(f"{prefix}{part}\n{prefix}an error of the port: 4\n", registry.line_parsers())

    assert [one.text for one in read.unexplained] == ["an error of the port: 4"]
    assert (read.understood, read.candidates) == (0, 1)


def test_the_prefix_of_a_bland_line_introduces_its_process_once() -> None:
    line = "(Worker_TP{} pid={}) INFO 05-02 10:00:0{} [model.py:7] weights are there\n"
    text = "".join(line.format(rank, 880 + rank, second) for second in range(3) for rank in range(2))
    parsed = scanner.scan(Source(0, "serve.out", SourceKind.LOG, len(text)), io.BytesIO(text.encode()))
    assert [(e.kind, e.rank, e.pid) for e in parsed.events] == [("process-id", 0, 880), ("process-id", 1, 881)]
