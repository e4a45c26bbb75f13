"""Pieces are joined on trial only where the bytes of a file show that lines were wrapped or cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from re._constants import LITERAL, NOT_LITERAL, RANGE  # type: ignore[attr-defined]
from re._parser import SubPattern, parse  # type: ignore[attr-defined]

import pytest
from builders.logs import damage
from builders.logs.lines import caught

from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers import registry
from nccldoctor.parsers.broken_lines import evidence, physical_lines, rejoin
from nccldoctor.parsers.broken_lines.physical_lines import STUB
from nccldoctor.parsers.engine.literals import literals_of
from nccldoctor.parsers.engine.scan import without_breaks
from nccldoctor.patterns import lazy

C10 = "[rank3]:[E417 03:28:14.050510987 ProcessGroupNCCL.cpp:632] "
STEP = "step {n}: loss {n}.25, lr 9e-06\n"
NCCL = "node03:41233:41444 [3] NCCL INFO Channel {n:02d}/0 : 3[3] -> 4[4] via P2P/CUMEM\n"
NCCL_WARN = "node03:41233:41444 [3] NCCL WARN Call to connect returned Connection refused, attempt {n}\n"
PRINTED = "{{'loss': 2.{n}, 'epoch': 0.{n}}}\n"


class Counted:
    """Counts the trials of mending a text."""

    def __init__(self, text: str, most: int = 600) -> None:
        self.trials = 0
        parsers = tuple(parser for parser in registry.line_parsers() if not parser.sampled)
        self.mended = rejoin.mend(text.encode(), literals_of(parsers), self._read, most)

    def _read(self, part: bytes) -> tuple[()]:
        self.trials += 1
        return ()


def healthy(lines: int) -> str:
    """A log in which lines with a prefix, which parsers look for, stand among lines without one."""
    chance = random.Random(1)
    forms = (STEP, STEP, PRINTED, NCCL, NCCL_WARN)
    return (
        "".join(chance.choice(forms).format(n=n % 100) for n in range(lines)) + C10 + caught(3, 7, "ALLREDUCE") + "\n"
    )


@pytest.mark.parametrize("lines", [25, 2_500])
def test_a_log_that_nobody_wrapped_is_not_read_on_trial(lines: int) -> None:
    assert Counted(healthy(lines)).trials == 0


@pytest.mark.parametrize("at", [40, 80, 97, 110, 131, 150])
def test_one_cut_among_thousands_of_lines_is_looked_at(at: int) -> None:
    record = C10 + caught(3, 7, "ALLREDUCE")
    text = healthy(2_500) + record[:at] + "\n" + record[at:] + "\n" + healthy(500)
    assert 0 < Counted(text).trials < 60
    mended = without_breaks(Source(0, "job.log", SourceKind.LOG, len(text)), text.encode(), 600)
    assert mended is not None
    assert record.encode() in mended.content


def test_trials_end_with_their_number() -> None:
    lines = damage.job(random.Random("wrapped 0"))
    text = damage.wrapped(random.Random("wrapped 0"), lines * 20).decode()
    assert 30 <= Counted(text, most=30).trials <= 40


def test_lines_of_full_width_are_evidence_also_where_every_piece_begins_alike() -> None:
    """A merged log wrapped at 80 columns: the second piece of every rank's record is the same text."""
    records = [C10.replace("rank3", f"rank{r}") + caught(r, 7, "ALLREDUCE") for r in range(10, 40)]
    text = "".join(f"{record[i : i + 80]}\n" for record in records for i in range(0, len(record), 80))
    mended = without_breaks(Source(0, "job.log", SourceKind.LOG, len(text)), text.encode(), 600)
    assert mended is not None
    assert (
        mended.content.decode().count("milliseconds before timing ou") == mended.content.decode().count("[rank") == 30
    )


def test_a_file_of_a_million_short_lines_is_read_as_it_is() -> None:
    text = (caught(3, 7, "ALLREDUCE") + "\n").encode() + b"x\n" * 600_000
    assert without_breaks(Source(0, "job.log", SourceKind.LOG, len(text)), text, 600) is None


FAILED = """\
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
    sys.exit(main())
             ^^^^^^
  File "/usr/lib/python3/dist-packages/torch/distributed/launcher/api.py", line 268, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\x20
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-02_03:04:05
  host      : n1
  rank      : 3 (local_rank: 3)
  exitcode  : -6 (pid: 77)  (SIGABRT)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 77
============================================================
"""
STACKS = """\
Thread 0x00007f4f057fa6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 1045 in _bootstrap_inner
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f4f42653b80 (most recent call first):
  File "/opt/train/train.py", line 84 in dump
"""


@pytest.mark.parametrize("text", [FAILED, STACKS], ids=["failure table", "stacks"])
def test_the_layout_of_tables_and_stacks_is_no_break(text: str) -> None:
    assert Counted(healthy(40) + text).trials <= 4
    assert Counted(text).trials <= 4


def test_a_table_that_a_terminal_wrapped_is_joined() -> None:
    rows = (f"  traceback : Signal 6 (SIGABRT) received by PID 7{n} while {'x' * 90}" for n in range(6))
    wrapped = "".join(f"{row[:80]}\n{row[80:]}\n" for row in rows)

    assert Counted(wrapped).trials > 4


@pytest.mark.parametrize(
    "pattern",
    [evidence._RULER, evidence._FRAME, evidence._LAYOUT, STUB, physical_lines._NATIVE, physical_lines._BEGINS],
)
def test_what_a_line_looks_like_does_not_hang_on_its_numbers(pattern: lazy[str]) -> None:
    """Forms of lines, with 0 for each digit, stand for all of them: no pattern may tell one digit from another."""

    def told_apart(part: object) -> Iterator[str]:
        if isinstance(part, tuple) and part[0] in (LITERAL, NOT_LITERAL):
            yield chr(part[1])
        elif isinstance(part, tuple) and part[0] is RANGE and part[1] != (ord("0"), ord("9")):
            yield from map(chr, range(part[1][0], part[1][1] + 1))
        elif isinstance(part, tuple | list | SubPattern):
            for inner in part:
                yield from told_apart(inner)

    assert not [char for char in told_apart(parse(pattern.pattern)) if char.isdigit()]
