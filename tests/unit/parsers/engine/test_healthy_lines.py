"""Lines of healthy jobs cost nothing: no parser is offered them in vain, and those of progress see a sample."""

from __future__ import annotations

import io
import random
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from nccldoctor.events import Event
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import Line, LineParser, Parsed
from nccldoctor.parsers.engine import literals
from nccldoctor.parsers.engine.effort import SAMPLED_AT_MOST
from nccldoctor.parsers.engine.literals import Literals
from nccldoctor.parsers.engine.scan import _Scan, scan

TABLE = tomllib.loads(Path(literals.__file__).with_name("healthy_lines.toml").read_text(encoding="utf-8"))
IN_VAIN = 1 / 10_000
"""Share of healthy lines that may be offered to one parser for nothing."""

TOLERATED = ("LOCAL_RANK: ",)
"""Of starts: once a rank, and with names of settings, which are looked at wherever they stand."""

WATCHDOG = (
    "[rank3]:[E405 03:35:02.399 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=122, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds."
)


def with_other_numbers(chance: random.Random, line: str) -> str:
    return re.sub(r"\d{2,}", lambda hit: str(chance.randrange(1, 10 ** len(hit[0]))), line)


def healthy_log(rounds: int) -> list[str]:
    """All steps behind all fronts, each time with other numbers."""
    chance = random.Random(7)
    steps = [line for lines in TABLE["steps"].values() for line in lines]
    lines = [front + line for _ in range(rounds) for front in TABLE["fronts"] for line in steps]
    chance.shuffle(lines)
    return [with_other_numbers(chance, line) for line in lines]


def scanned(content: str) -> Parsed:
    data = content.encode()
    return scan(Source(0, "a.log", SourceKind.LOG, len(data)), io.BytesIO(data))


def unsampled() -> list[LineParser]:
    return [parser for parser in registry.line_parsers() if not parser.sampled]


def test_no_step_is_offered_to_a_parser() -> None:
    log = healthy_log(10)
    assert len(log) > 10_000
    text = "\n".join(log)
    owners = [(literal, type(parser).__name__) for parser in unsampled() for literal in parser.literals]
    hits = {(name, literal): sum(literal in line for line in log) for literal, name in owners if literal in text}
    assert {who: count for who, count in hits.items() if count > len(log) * IN_VAIN} == {}


def test_the_search_passes_over_steps() -> None:
    log = healthy_log(10)
    assert len(Literals(unsampled()).hits(memoryview("\n".join(log).encode()))) <= len(log) * IN_VAIN


@pytest.mark.parametrize("line", [line for lines in TABLE["starts"].values() for line in lines])
def test_a_line_of_a_start_that_is_looked_at_tells_something(line: str) -> None:
    is_looked_at = any(literal in line for parser in unsampled() for literal in parser.literals)
    assert not is_looked_at or line.startswith(TOLERATED) or scanned(line + "\n").events


def test_of_steps_some_are_offered_to_parsers_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: dict[bool, list[str]] = {True: [], False: []}
    offer = _Scan.offer

    def counted(self: _Scan, line: Line, owners: Sequence[LineParser]) -> list[Event]:
        for is_sampled in {parser.sampled for parser in owners}:
            offered[is_sampled].append(line.raw)
        return offer(self, line, owners)

    monkeypatch.setattr(_Scan, "offer", counted)
    log = healthy_log(35)
    log.insert(len(log) // 2, WATCHDOG)
    assert scanned("\n".join(log)).lines > 40_000
    regions = 4  # the beginning, the end, and before and around the watchdog
    assert 0 < len(offered[True]) <= regions * SAMPLED_AT_MOST
    others = [text for text in offered[False] if not text.startswith(WATCHDOG)]
    assert offered[False] and not others, "the alarm alone; trials of joining look at it again with what follows"
