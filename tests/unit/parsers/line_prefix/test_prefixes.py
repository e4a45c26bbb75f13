from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.line_prefix.prefixes import (
    can_continue,
    read_mark,
    records,
    split_label,
    with_label,
    without_codes,
)


def told(mark: Mark) -> dict[str, object]:
    """What a mark says, without what it does not say."""
    empty = Mark()
    return {
        k: getattr(mark, k) for k in Mark.__struct_fields__ if getattr(mark, k) != getattr(empty, k) and k != "stream"
    }


T = datetime
CASES: list[tuple[str, str, dict[str, object]]] = [
    # the c10 logger in its three eras
    (
        "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog",
        "[Rank 3] Watchdog",
        {"severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 475},
    ),
    (
        "[rank1]:[E ProcessGroupNCCL.cpp:563] x",
        "x",
        {"rank": 1, "severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 563},
    ),
    (
        "[rank97]:[E1206 23:59:01.123456789 ProcessGroupNCCL.cpp:632] x",
        "x",
        {"rank": 97, "severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 632, "time": T(1900, 12, 6, 23, 59, 1)},
    ),
    (
        "[W111 09:35:10.336386705 TCPStore.cpp:138] [c10d] recv",
        "[c10d] recv",
        {"severity": "W", "file": "TCPStore.cpp", "line": 138, "time": T(1900, 1, 11, 9, 35, 10)},
    ),
    (
        "W721 02:10:44.118302771 ProcessGroupNCCL.cpp:981] Warning",
        "Warning",
        {"severity": "W", "file": "ProcessGroupNCCL.cpp", "line": 981, "time": T(1900, 7, 21, 2, 10, 44)},
    ),
    (
        "[rank3[]:[E508 10:00:00.000000001 ProcessGroupNCCL.cpp:9] x",
        "x",
        {"rank": 3, "severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 9, "time": T(1900, 5, 8, 10)},
    ),
    # glog
    (
        "E0927 12:07:22.643702 1012209 ProcessGroupNCCL.cpp:1356] x",
        "x",
        {"severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 1356, "time": T(1900, 9, 27, 12, 7, 22, 643702)},
    ),
    (
        "E20240927 12:07:22.643702 7 ProcessGroupNCCL.cpp:1] x",
        "x",
        {"severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 1, "time": T(2024, 9, 27, 12, 7, 22, 643702)},
    ),
    (
        "trainer/0 [3]:E0927 12:07:22.643702 7 ProcessGroupNCCL.cpp:1] x",
        "x",
        {
            "local_rank": 3,
            "severity": "E",
            "file": "ProcessGroupNCCL.cpp",
            "line": 1,
            "time": T(1900, 9, 27, 12, 7, 22, 643702),
        },
    ),
    # the Python loggers of torch
    ("WARNING:torch.distributed.elastic.multiprocessing.api:Sending process", "Sending process", {"severity": "W"}),
    (
        "[2024-05-28 14:04:27,954] torch.distributed.elastic.multiprocessing.api: [WARNING] Sending",
        "Sending",
        {"severity": "W", "time": T(2024, 5, 28, 14, 4, 27, 954000)},
    ),
    (
        "W0216 13:04:08.104644 139999514572608 torch/distributed/run.py:779] x",
        "x",
        {
            "severity": "W",
            "pid": 139999514572608,
            "file": "torch/distributed/run.py",
            "line": 779,
            "time": T(1900, 2, 16, 13, 4, 8, 104644),
        },
    ),
    (
        "[rank2]:W0703 04:20:23.950000 99742 torch/_dynamo/x.py:8] y",
        "y",
        {
            "rank": 2,
            "severity": "W",
            "pid": 99742,
            "file": "torch/_dynamo/x.py",
            "line": 8,
            "time": T(1900, 7, 3, 4, 20, 23, 950000),
        },
    ),
    # tracebacks, launchers
    ("[rank1]: Traceback (most recent call last):", "Traceback (most recent call last):", {"rank": 1}),
    ('[rank1]:   File "train.py", line 3, in main', '  File "train.py", line 3, in main', {"rank": 1}),
    (
        "[rank1]:             [rank1]:[E111 10:00:00.000000001 a.cpp:5] z",
        "z",
        {"rank": 1, "severity": "E", "file": "a.cpp", "line": 5, "time": T(1900, 1, 11, 10)},
    ),
    ("[default6]:Epoch 1", "Epoch 1", {"local_rank": 6}),
    ("[default1]:[rank9]: RuntimeError: boom", "RuntimeError: boom", {"local_rank": 1, "rank": 9}),
    ("[1,3]<stderr>:text", "text", {"rank": 3}),
    # PRRTE: tag-fullname, tag-detailed (prte_iof, 3.0)
    ("[prterun-n17-4242@1,3]<stdout>: text", "text", {"rank": 3}),
    ("Fri Aug 11 12:31:45 2023[1,3]<stdout>:text", "text", {"rank": 3, "time": T(2023, 8, 11, 12, 31, 45)}),
    ("[1,3][n17:5150]<stderr>: text", "text", {"rank": 3, "host": "n17", "pid": 5150}),
    ("[1,3][unknown:unknown]<stderr>: text", "text", {"rank": 3}),
    # syslog on the wire: RFC 3164 and 5424, and the kernel's own
    (
        "<13>Nov 22 07:51:04 n17 python[5150]: text",
        "text",
        {"time": T(1900, 11, 22, 7, 51, 4), "host": "n17", "pid": 5150},
    ),
    (
        '<165>1 2026-11-22T07:51:04.003Z n17.example.org train 5150 - [id@1 a="b"] [rank3]: text',
        "text",
        {"time": T(2026, 11, 22, 7, 51, 4, 3000, UTC), "host": "n17.example.org", "pid": 5150, "rank": 3},
    ),
    ("<14>1 - - train - - - text", "text", {}),
    ("<html> text", "<html> text", {}),
    # Ray before 2.0 named no actor
    ("(pid=5150, ip=10.0.0.3) text", "text", {"host": "10.0.0.3", "pid": 5150, "actor": ANY}),
    (
        "12: [rank96]:[E ProcessGroupNCCL.cpp:563] x",
        "x",
        {"task": 12, "rank": 96, "severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 563},
    ),
    ("3: ordinary text", "3: ordinary text", {}),
    ("(WorkerDict pid=218844, ip=10.1.101.236) x", "x", {"pid": 218844, "host": "10.1.101.236", "actor": ANY}),
    (
        "\x1b[36m(Actor[rank=31] pid=3264030, ip=10.1.101.236)\x1b[0m x [repeated 6x across cluster]",
        "x",
        {"rank": 31, "pid": 3264030, "host": "10.1.101.236", "repeated": 6, "actor": ANY},
    ),
    ("(worker1, rank=1, pid=77) x", "x", {"task": 1}),  # the process is the shell that started the launcher
    ("(node-0, worker1, rank=1, pid=77, ip=10.1.0.6) x", "x", {"task": 1, "host": "10.1.0.6"}),
    ("[trainer0|8]: x", " x", {"local_rank": 0, "rank": 8}),
    ("1776396495.123456 x", "x", {"time": T(2026, 4, 17, 3, 28, 15, 123456, UTC)}),
    ("[1776396495123] x", "x", {"time": T(2026, 4, 17, 3, 28, 15, 123000, UTC)}),
    ("2026-04-17 03:28:15 EDT x", "x", {"time": T(2026, 4, 17, 3, 28, 15, 0, timezone(timedelta(hours=-4)))}),
    ("Fri Apr 17 03:28:15 CEST 2026: x", "x", {"time": T(2026, 4, 17, 3, 28, 15, 0, timezone(timedelta(hours=2)))}),
    ("Fri 2026-04-17 03:28:15 UTC node1 x", "x", {"time": T(2026, 4, 17, 3, 28, 15, 0, UTC), "host": "node1"}),
    ("[NeMo W 2026-04-17 03:28:15 nemo_logging:349] x", "x", {"time": T(2026, 4, 17, 3, 28, 15), "severity": "W"}),
    (
        "INFO 2026-04-17 03:28:15,123 trainer.py:12 -- x",
        "x",
        {"time": T(2026, 4, 17, 3, 28, 15, 123000), "severity": "I"},
    ),
    ('{"ts":1776396495.12,"msg":"x"}', "x", {"collected": T(2026, 4, 17, 3, 28, 15, 120000, UTC)}),
    (
        "(WorkerDict pid=5) [2025-03-07 10:18:22,341 E 218844 219460] logging.cc:113: Unhandled",
        "Unhandled",
        {"pid": 218844, "severity": "E", "time": T(2025, 3, 7, 10, 18, 22, 341000), "actor": "WorkerDict pid=5"},
    ),
    (
        "[pod/train-worker-0/pytorch] 2026-04-24T07:03:34.253781080Z [rank 2] starting on node17",
        "starting on node17",
        {"rank": 2, "host": "train-worker-0", "pod": "train-worker-0", "time": T(2026, 4, 24, 7, 3, 34, 253781, UTC)},
    ),
    (
        "[pod/train-worker-1/pytorch] 2026-04-24T07:03:39.243020296Z W0424 07:03:39.243000 66850 "
        "torch/distributed/run.py:793] s",
        "s",
        {
            "host": "train-worker-1",
            "pod": "train-worker-1",
            "pid": 66850,
            "severity": "W",
            "file": "torch/distributed/run.py",
            "line": 793,
            "time": T(2026, 4, 24, 7, 3, 39, 243000, UTC),
            "collected": T(2026, 4, 24, 7, 3, 39, 243020, UTC),
        },
    ),
    (
        "train-worker-0 pytorch [rank3]: Traceback (most recent call last):",
        "Traceback (most recent call last):",
        {"rank": 3, "host": "train-worker-0", "pod": "train-worker-0"},
    ),
    (
        "2026-04-24T07:03:34.25Z stderr F [rank3]: boom",
        "boom",
        {"rank": 3, "collected": T(2026, 4, 24, 7, 3, 34, 250000, UTC)},
    ),
    (
        '{"log":"[rank3]: boom\\n","stream":"stderr","time":"2026-04-24T07:03:34.25Z"}',
        "boom",
        {"rank": 3, "collected": T(2026, 4, 24, 7, 3, 34, 250000, UTC)},
    ),
    (
        "10.0.0.10: node10:901144:901380 [0] transport/net_ib.cc:1038 NCCL WARN NET/IB",
        "node10:901144:901380 [0] transport/net_ib.cc:1038 NCCL WARN NET/IB",
        {"host": "node10", "pid": 901144},
    ),
    ("node7: [rank1]: x", "x", {"host": "node7", "rank": 1}),
    ("ValueError: [rank1]: x", "ValueError: [rank1]: x", {}),
    ("stderr: [rank1]: x", "x", {"rank": 1}),
    ("[stderr] text", "text", {}),
    ("> > [rank1]: x", "x", {"rank": 1}),
    (
        " `(RayWorkerVllm pid=2210) [E ProcessGroupNCCL.cpp:475] [Rank 3] W",
        "[Rank 3] W",
        {"pid": 2210, "severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 475, "actor": "RayWorkerVllm pid=2210"},
    ),
    (
        "  | [rank0]:[E ProcessGroupNCCL.cpp:563] x",
        "x",
        {"rank": 0, "severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 563},
    ),
    ("[61207] [rank0]: x", "x", {"rank": 0}),
    (
        "15:44:20.731 [rank4]:[E129 15:44:20.137076254 ProcessGroupNCCL.cpp:1870] x",
        "x",
        {"rank": 4, "severity": "E", "file": "ProcessGroupNCCL.cpp", "line": 1870, "time": T(1900, 1, 29, 15, 44, 20)},
    ),
    # logging layouts of user code
    (
        "2026-04-05 15:48:34,242 - name - INFO - text",
        "text",
        {"severity": "I", "time": T(2026, 4, 5, 15, 48, 34, 242000)},
    ),
    ("[2026-04-05 15:49:25] INFO train: text", "text", {"severity": "I", "time": T(2026, 4, 5, 15, 49, 25)}),
    (
        "2026-04-05T15:49:25+02:00 INFO text",
        "text",
        {"severity": "I", "time": T(2026, 4, 5, 15, 49, 25, tzinfo=timezone(timedelta(hours=2)))},
    ),
    (
        "[rank0]: 2026-11-20 09:31:16,910 ERROR node0 RuntimeError: boom",
        "node0 RuntimeError: boom",
        {"rank": 0, "severity": "E", "time": T(2026, 11, 20, 9, 31, 16, 910000)},
    ),
    (
        "2026-11-20 09:31:16,910 ERROR RuntimeError: boom",
        "RuntimeError: boom",
        {"severity": "E", "time": T(2026, 11, 20, 9, 31, 16, 910000)},
    ),
    (
        "[2024-12-11 10:27:36,118][root][INFO] - Validate epoch: 1",
        "Validate epoch: 1",
        {"severity": "I", "time": T(2024, 12, 11, 10, 27, 36, 118000)},
    ),
    (
        "[2024-01-01 12:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=100",
        "step=100",
        {"rank": 0, "severity": "I", "time": T(2024, 1, 1, 12)},
    ),
    (
        "2024-01-01 12:00:00.123 | INFO     | train:main:12 - text",
        "text",
        {"severity": "I", "time": T(2024, 1, 1, 12, 0, 0, 123000)},
    ),
    (
        "[rank0]:[titan] 2025-01-01 12:00:00,123 - root - INFO - step: 10",
        "step: 10",
        {"rank": 0, "severity": "I", "time": T(2025, 1, 1, 12, 0, 0, 123000)},
    ),
    (
        "INFO 08-19 04:51:30 multiproc_worker_utils.py:123] Killing",
        "Killing",
        {"severity": "I", "file": "multiproc_worker_utils.py", "line": 123, "time": T(1900, 8, 19, 4, 51, 30)},
    ),
    (
        "Oct 11 18:01:05 node01 kernel: NVRM: Xid",
        "kernel: NVRM: Xid",
        {"host": "node01", "time": T(1900, 10, 11, 18, 1, 5)},
    ),
    ("[Sun Oct 11 18:01:05 2026] NVRM: Xid", "NVRM: Xid", {"time": T(2026, 10, 11, 18, 1, 5)}),
    ("node01:175984:176024 [0] NCCL INFO x", "node01:175984:176024 [0] NCCL INFO x", {"host": "node01", "pid": 175984}),
    ("[Rank 5] Saving", "Saving", {"rank": 5}),
    ("[1,mpirank:3,algo-1]<stdout>:text", "text", {"rank": 3}),
    (
        "2024-01-01 12:00:00,000: rank3[1234][MainThread]: INFO: composer.trainer: text",
        "text",
        {"rank": 3, "pid": 1234, "time": T(2024, 1, 1, 12)},
    ),
    ("2022-09-01 12:00:00 | INFO | train | epoch 001", "epoch 001", {"severity": "I", "time": T(2022, 9, 1, 12)}),
    ("[36m(Worker pid=7)[0m [1;31mtext[0m", "text", {"pid": 7, "actor": "Worker pid=7"}),
    # what must stay as it is
    ("took [30 minutes, [5m] left", "took [30 minutes, [5m] left", {}),
    ("[Rank 0]: Rank 3 failed to pass monitoredBarrier", "[Rank 0]: Rank 3 failed to pass monitoredBarrier", {}),
    ("[Rank 1] Work WorkNCCL(SeqNum=1", "[Rank 1] Work WorkNCCL(SeqNum=1", {}),
    ("[0]:", "[0]:", {}),
    ("  time      : 2026-07-03_05:22:59", "  time      : 2026-07-03_05:22:59", {}),
    ("    return fn(x)", "    return fn(x)", {}),
    ("[Rank 3] Watchdog caught", "[Rank 3] Watchdog caught", {}),
    ("RuntimeError: [Rank 1] Caught", "RuntimeError: [Rank 1] Caught", {}),
    ("{'loss': 3.5, 'epoch': 0.01}", "{'loss': 3.5, 'epoch': 0.01}", {}),
    ("", "", {}),
]


@pytest.mark.parametrize(("raw", "body", "says"), CASES, ids=[f"{i}-{c[0][:30]!r}" for i, c in enumerate(CASES)])
def test_every_form_of_prefix(raw: str, body: str, says: dict[str, object]) -> None:
    mark, rest = read_mark(without_codes(raw))
    assert rest == body
    assert told(mark) == says


def test_an_impossible_date_is_no_time_but_still_a_prefix() -> None:
    mark, body = read_mark("[rank0]:[E1332 10:00:00.000000001 a.cpp:5] z")
    assert body == "z" or body.startswith("[E1332")
    assert mark.time is None


def test_fraction_of_the_native_logger_is_not_wall_time() -> None:
    mark, _ = read_mark("[rank0]:[E921 03:35:20.399015003 a.cpp:5] z")
    assert mark.time == datetime(1900, 9, 21, 3, 35, 20)


def test_own_time_takes_zone_from_a_collector_an_hour_off() -> None:
    mark, _ = read_mark("[pod/w-0/c] 2026-04-24T07:03:39.90Z [rank0]:[E424 09:03:39.399015003 a.cpp:5] z")
    assert mark.time == datetime(2026, 4, 24, 9, 3, 39, tzinfo=timezone(timedelta(hours=2)))


def test_own_time_far_from_the_collectors_gets_no_zone() -> None:
    mark, _ = read_mark("[pod/w-0/c] 2026-04-24T07:10:39.90Z [rank0]:[E424 07:03:39.399015003 a.cpp:5] z")
    assert mark.time == datetime(2026, 4, 24, 7, 3, 39)


@pytest.mark.parametrize(
    ("raw", "stream"),
    [
        ("[rank3]:[E ProcessGroupNCCL.cpp:5] x", "rank3"),
        ("[rank 3] Heartbeat", "rank3"),
        ("[default1]:x", "default1"),
        ("[default1]:[rank9]: x", "default1"),
        ("[pod/w-0/c] [rank9]: x", "w-0/c / rank9"),
        ("node1:7:8 [0] NCCL INFO x", "node1:7"),
        ("plain", ""),
    ],
)
def test_stream_tells_writers_apart(raw: str, stream: str) -> None:
    assert read_mark(raw)[0].stream == stream


def test_continues_goes_from_the_place_to_its_writers_only() -> None:
    assert can_continue("", "rank3")
    assert can_continue("w-0/c", "w-0/c / rank9")
    assert not can_continue("w-0/c / rank8", "w-0/c / rank9")
    assert not can_continue("rank1", "rank10")


def test_records_glued_to_a_bar_and_to_each_other_come_apart() -> None:
    raw = (
        "  2%|▏ | 12/604 [01:02<49:27,  4.97s/it][rank0]:[E1116 03:15:20.511672418 ProcessGroupNCCL.cpp:607] [Rank 0] "
        "one "
        "[rank2]:[E1116 03:15:21.511672418 ProcessGroupNCCL.cpp:607] [Rank 2] two"
    )
    found = [(m.rank, body) for m, body in records(raw)]
    assert found == [(None, "  2%|▏ | 12/604 [01:02<49:27,  4.97s/it]"), (0, "[Rank 0] one "), (2, "[Rank 2] two")]


def test_a_glued_record_without_rank_keeps_the_launchers_word() -> None:
    found = records("(Worker pid=7, ip=1.2.3.4) 3%| | 1/9 [0:1<0:2][E ProcessGroupNCCL.cpp:475] [Rank 1] x")
    assert [(m.pid, m.host, m.file, body) for m, body in found][1:] == [
        (7, "1.2.3.4", "ProcessGroupNCCL.cpp", "[Rank 1] x")
    ]


BAR = "[default0]:train:   0%|      | 22/900 [00:04<1:01, 5.43it/s, loss=0.71]"


@pytest.mark.parametrize(
    ("behind", "who", "text"),
    [
        ("[default0]:epoch 0 done", {"local_rank": 0}, "epoch 0 done"),
        ("[default3]:epoch 0 done", {"local_rank": 3}, "epoch 0 done"),
        ("[rank3]: Traceback (most recent call last):", {"rank": 3}, "Traceback (most recent call last):"),
    ],
)
def test_a_line_behind_a_bar_belongs_to_the_writer_that_it_names(behind: str, who: dict[str, int], text: str) -> None:
    bar, line = records(BAR + behind)
    assert (bar[0].local_rank, bar[1]) == (0, BAR.removeprefix("[default0]:"))
    assert {name: getattr(line[0], name) for name in who} == who
    assert line[1] == text


def test_the_agents_line_behind_the_bar_of_a_rank_is_not_that_ranks() -> None:
    agent = "W1122 15:45:01.986000 7690 torch/distributed/elastic/agent/server/api.py:753] Received 2 death signal"
    line = records(BAR + agent)[1]
    assert (line[0].rank, line[0].local_rank, line[0].pid, line[1]) == (None, None, 7690, "Received 2 death signal")


@pytest.mark.parametrize("prompt", ["(Pdb) ", "out exists, overwrite? [y/N] "])
def test_a_line_behind_a_prompt_keeps_its_time(prompt: str) -> None:
    asked, line = records(prompt + "2026-11-22 15:44:58,122 - trainer - INFO - saved")
    assert asked[1] == prompt
    assert line[0].time == T(2026, 11, 22, 15, 44, 58, 122000)


def test_an_answer_behind_a_prompt_stays_with_it() -> None:
    assert [body for _, body in records("overwrite? [y/N] no")] == ["overwrite? [y/N] no"]


def test_labels() -> None:
    label, rest = split_label(" 6: [rank48]: x")
    assert (label, rest) == ("6", "[rank48]: x")
    mark = with_label(read_mark(rest)[0], "6")
    assert (mark.task, mark.rank, mark.stream) == (6, 48, "task6 / rank48")
    assert with_label(Mark(), "node7").host == "node7"
    assert split_label("no label") == (None, "no label")


def test_terminal_codes_go_also_as_text() -> None:
    assert without_codes("#033[34mNCCL#033[0m #033 #0331") == "NCCL #033 #0331"
    assert without_codes("\x1b[36m(a)\x1b[0m b\x1b]0;title\x07c^[[A^[[Ad\x00e\ufefff") == "(a) bcdef"


@given(st.text(max_size=300))
def test_any_text_is_read_without_error_and_nothing_is_invented(raw: str) -> None:
    mark, body = read_mark(without_codes(raw))
    assert body in raw.replace("\x00", "") or "\x1b" in raw or "^[[" in raw or raw.startswith("{") or "\ufeff" in raw
    assert mark.repeated >= 1
    assert records(without_codes(raw))


PARTS = st.sampled_from([c[0].replace("text", "") for c in CASES])


@given(st.lists(PARTS, min_size=1, max_size=5))
def test_prefixes_in_any_order_never_raise(parts: list[str]) -> None:
    assert records(without_codes(" ".join(parts)))


@pytest.mark.parametrize(
    ("record", "rank"),
    [
        ('{"message": "boom", "rank": 3}', 3),
        ('{"msg": "boom", "global_rank": "12", "level": "error"}', 12),
        ('{"log": "[rank5]: boom\\n", "rank": 3}', 5),
        ('{"message": "boom", "rank": true}', None),
        ('{"message": "boom", "rank": "first"}', None),
        ('{"message": "boom", "local_rank": 3}', None),
    ],
)
def test_rank_in_a_field_of_a_json_record(record: str, rank: int | None) -> None:
    mark, body = read_mark(record)
    assert (mark.rank, body) == (rank, "boom")
