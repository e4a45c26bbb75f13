"""An exception that stands in several files is one observation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders.jobs.cases import Log, case, said
from msgspec.structs import replace

import nccldoctor as nd
from nccldoctor.events import Event, ExceptionRaised

LIMIT = "[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete"
FRAMES = ("all_reduce (/x/torch/distributed/distributed_c10d.py:9)", "step (/job/train.py:40)")


def raised(rank: int, second: float | None = None, **more: object) -> ExceptionRaised:
    plain = said(ExceptionRaised, rank, second, type="RuntimeError", message=LIMIT, origin="echo")
    assert isinstance(plain, ExceptionRaised)
    return replace(plain, **more)


def traceback(rank: int, second: float | None = None, **more: object) -> ExceptionRaised:
    return raised(rank, second, **{"frames": FRAMES, "frame": FRAMES[-1], **more})


def exceptions(*logs: Log) -> list[ExceptionRaised]:
    return list(case(logs=logs).of(ExceptionRaised))


def log(path: str, *events: Event, rank: int | None = None) -> Log:
    return Log(path, events, rank=rank)


def test_the_traceback_of_the_log_stays_with_the_time_of_the_error_file() -> None:
    table = log("launcher.log", traceback(3, 31.0, local_rank=3))
    (one,) = exceptions(
        table, log("3/stderr.log", traceback(3), rank=3), log("3/error.json", traceback(3, 30.0), rank=3)
    )

    assert one.place.path == "3/stderr.log"
    assert one.time == said(ExceptionRaised, 3, 30.0).time, "when it raised, and not when the launcher saw the end"


def test_each_rank_has_its_own() -> None:
    assert [e.rank for e in exceptions(log("merged.log", *(traceback(r) for r in range(3))))] == [0, 1, 2]


def test_what_a_rank_raised_twice_is_two_in_every_copy() -> None:
    twice = (traceback(1, 10.0), traceback(1, 2_000.0))
    found = exceptions(log("1.log", *twice, rank=1), log("copy.log", *twice), log("1/error.json", raised(1, 2_001.0)))

    assert [e.time for e in found] == [e.time for e in twice]


@pytest.mark.parametrize(
    "other",
    [
        traceback(1, 5_000.0),
        traceback(1, frame="load (/job/data.py:7)", frames=("load (/job/data.py:7)",)),
        raised(1, message="Connection closed by peer"),
    ],
    ids=["much later", "elsewhere", "another error"],
)
def test_what_differs_is_not_a_copy(other: ExceptionRaised) -> None:
    assert len(exceptions(log("1.log", traceback(1, 10.0), rank=1), log("copy.log", other))) == 2


def test_a_job_under_torchrun_has_one_timeout_for_each_rank(tmp_path: Path) -> None:
    """Rank 0's traceback stands in its log, in the copy that ``--tee`` makes, and in ``error.json``."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 40, in step',
        "    dist.all_reduce(x)",
        '  File "/x/torch/distributed/distributed_c10d.py", line 9, in all_reduce',
        "    work.wait()",
        f"RuntimeError: {LIMIT}",
    ]
    own = tmp_path / "run" / "attempt_0" / "0"
    own.mkdir(parents=True)
    (own / "stderr.log").write_text("".join(f"[rank0]: {line}\n" for line in lines))
    (tmp_path / "train.log").write_text("".join(f"[default0]:[rank0]: {line}\n" for line in lines))
    extra = {"py_callstack": "\n".join(lines), "timestamp": "1795488868"}
    (own / "error.json").write_text(json.dumps({"message": {"message": lines[-1], "extraInfo": extra}}))
    events = nd.analyze(tmp_path).events
    (one,) = events[events.kind == "exception"].itertuples()

    assert one.path.endswith("0/stderr.log") and one.line == 6
    assert str(one.time) == "2026-11-24 02:54:28+00:00"
