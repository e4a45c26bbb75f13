"""Limits of collectives where code, job scripts and configurations set them.

PyTorch takes the limit from ``timeout=`` of ``init_process_group`` and ``new_group`` alone; frameworks pass their
own option on: ``ddp_timeout`` (transformers, seconds), ``distributed-timeout-minutes`` (Megatron-LM). No variable of
the environment sets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, Setting
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import Table
from nccldoctor.parsers.settings.environment import to_closing_bracket
from nccldoctor.patterns import lazy

_UNITS = {"weeks": 604800.0, "days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "milliseconds": 0.001}

_TABLE = Table(__file__)
_PATTERNS = _TABLE.patterns()
_ARGUMENT = lazy(r"\btimeout ?= ?(?P<value>[^\n#]{1,160})")
_DELTA = lazy(r"timedelta\((?P<inside>[^()]{1,120})\)")


def seconds_of(expression: str) -> float | None:
    """The seconds of ``timedelta(minutes=30)``, ``datetime.timedelta(0, 5400)`` or ``timedelta(seconds=2 * 3600)``;
    None for anything that is not a product of numbers. Nothing is evaluated.
    """
    hit = _DELTA.search(expression)
    if hit is None:
        return None
    total = 0.0
    for position, part in enumerate(hit["inside"].split(",")):
        unit, equals, amount = part.rpartition("=")
        factor = _UNITS.get(unit.strip()) if equals else (86400.0, 1.0)[position] if position < 2 else None
        number = _product(amount)
        if factor is None or number is None:
            return None
        total += factor * number
    return total


def _product(text: str) -> float | None:
    out = 1.0
    for factor in text.split("*"):
        digits = factor.strip().replace("_", "")
        if not re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", digits):
            return None
        out *= float(digits)
    return out


def _readable(expression: str) -> str:
    seconds = seconds_of(expression)
    if seconds is not None:
        return f"{seconds:.10g} s"
    return to_closing_bracket(expression, ",").strip()


@reads(*_TABLE.literals, needs=tuple(_PATTERNS.values()))
def timeout(line: Line) -> Iterator[Event]:
    """One event for each limit that a line sets, in seconds where it can be read.

    Calls may run over several lines; the first ``timeout=`` before their end counts.
    """
    body = line.body
    if body.lstrip().startswith("#") and "SBATCH" not in body[:12]:
        return
    if hit := _PATTERNS["call"].search(body):
        value = _of_call(line, hit.end())
        if value is not None:
            yield _setting(line, f"{hit['name']}(timeout=)", _readable(value))
    if hit := _PATTERNS["default"].search(body):
        yield _setting(line, "_DEFAULT_PG_TIMEOUT", _readable(hit["value"]))
    for hit in _PATTERNS["option"].finditer(body):
        name = hit["name"]
        name = "--ddp_timeout" if name.startswith("ddp") else "--" + name.replace("_", "-")
        yield _setting(line, name, hit["value"])


def _of_call(line: Line, start: int) -> str | None:
    rest = line.body[start:]
    depth = 1
    for text in (rest, *(below.body for below in line.following(12))):
        if hit := _ARGUMENT.search(text):
            return hit["value"]
        depth += text.count("(") - text.count(")")
        if depth <= 0:
            return None
    return None


def _setting(line: Line, name: str, value: str) -> Setting:
    return Setting(**common(line), name=name, value=value[:200])
