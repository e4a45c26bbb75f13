"""Fuzzes the fields of recorder dumps by type: one field of one dump, or of all its entries, holds what it never should.

python tests/fuzz/fields.py --minutes 10 [--first 0] [--samples died,frozen]

What is odd is unknown: it breaks nothing, costs no file that can be read, and makes no other rank the culprit at high confidence. Every
case follows from its number alone: ``--first 4711 --cases 1`` repeats one.
"""

from __future__ import annotations

import argparse
import copy
import json
import pickle
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from builders.files.packing import write

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.incident import Incident
from nccldoctor.model import CauseClass, Confidence

ODD: tuple[Any, ...] = (
    *("7", "x", "", "nan", "-1", "9" * 400, "\ud800", None, True, False, -1, 0, 1, 2**31, 2**63, 10**30),
    *(float("nan"), float("inf"), -0.5, 3.0, 1e300, [], [[1]], [None], [[[7]]], {}, {"a": 1}, {"rank": [0]}),
    *(b"7", (), (1, "2", 3), "[0, 1, 99999999999]", "[0, 0, 0]", "[-1, 5]", [True, "1"]),
)
"""What no field of that name holds; JSON has no bytes, and takes a tuple for a list."""

OTHER_FACTS = {"name": ("x", "nan", "7"), "state": ("x", "nan")}
"""Odd values that are another fact in some fields: a function may be called so."""

Path_ = tuple[Any, ...]


class Case(NamedTuple):
    """A sample, its files with one value changed, and what was changed."""

    sample: str
    files: dict[str, bytes]
    is_json: bool
    what: str


@cache
def dumps_of(sample: str) -> dict[str, Any]:
    """The recorder dumps of a bundled incident, as Python sees them."""
    found = {}
    for name, data in demo.contents(sample).items():
        if data[:1] == b"\x80":
            found[name] = pickle.loads(data)  # our own
        elif data[:1] == b"{" and b'"pg_config"' in data[: 1 << 16]:
            found[name] = json.loads(data)
    return found


SAMPLES = tuple(sample.name for sample in demo.samples() if dumps_of(sample.name))


def fields_of(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The places in a dump, one for each field of like things: a list stands for its first and its last item."""
    if path:
        yield path
    if type(value) is dict:
        for key in value:
            yield from fields_of(value[key], (*path, key))
    elif type(value) is list and value and type(value[0]) in (dict, list):
        for at in sorted({0, len(value) - 1}):
            yield from fields_of(value[at], (*path, at))


def changed(dump: Any, path: Path_, value: Any, *, in_all: bool) -> Any:
    """The dump with another value in one place; ``in_all``: of an entry's field, in all entries."""
    dump = copy.deepcopy(dump)
    places = [path]
    if in_all and len(path) > 2 and path[0] == "entries":
        places = [("entries", at, *path[2:]) for at in range(len(dump["entries"]))]
    for place in places:
        holder = dump
        try:
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = copy.deepcopy(value)
        except (IndexError, KeyError, TypeError):
            continue
    return dump


def case_of(number: int, samples: tuple[str, ...] = SAMPLES) -> Case:
    """The case of a number."""
    rng = random.Random(number)
    sample, is_json = rng.choice(samples), rng.random() < 0.5
    dumps = dumps_of(sample)
    name = rng.choice(sorted(dumps))
    by_field: dict[Path_, list[Path_]] = {}
    for path in fields_of(dumps[name]):
        by_field.setdefault(tuple("*" if type(key) is int or str(key).isdigit() else key for key in path), []).append(
            path
        )
    path = rng.choice(by_field[rng.choice(sorted(by_field, key=str))])
    told = OTHER_FACTS.get(str(path[-1]), ())
    value, in_all = (
        rng.choice([value for value in ODD if not (type(value) is str and value in told)]),
        rng.random() < 0.4,
    )
    files = dict(demo.contents(sample))
    odd = changed(dumps[name], path, value, in_all=in_all)
    for one, content in ({**dumps, name: odd} if is_json else {name: odd}).items():
        files[one] = as_json(content) if is_json else pickle.dumps(content, 3)
    where = f"{sample}/{name}{'' if not is_json else ' as JSON'}"
    return Case(sample, files, is_json, f"{where}: {path}{' of all' if in_all else ''} = {value!r}"[:300])


def as_json(content: Any) -> bytes:
    """The dump as the JSON form has it."""
    return json.dumps(content, default=lambda value: value.decode()).encode()


@cache
def untouched(sample: str, is_json: bool) -> Incident:
    """The analysis of an incident as it is bundled."""
    files = dict(demo.contents(sample))
    if is_json:
        files |= {name: as_json(content) for name, content in dumps_of(sample).items()}
    return analysis(files)


def analysis(files: dict[str, bytes]) -> Incident:
    """The analysis of some files, shown in every way that reads all of it."""
    with tempfile.TemporaryDirectory() as scratch:
        incident = nccldoctor.analyze(write(Path(scratch), files))
        json.loads(incident.to_json())
        incident.to_text()
        return incident


def failures(case: Case) -> list[str]:
    """What is wrong with the analysis of a case."""
    before = untouched(case.sample, case.is_json)
    try:
        after = analysis(case.files)
    except Exception:
        return [traceback.format_exc()]
    found = [f"{gap.what}: {gap.why}" for gap in after.case.gaps if gap.why.startswith("reading it failed")]
    found += [str(row.problems) for row in after.unquoted.coverage if row.input == "nccldoctor itself"]
    found += [f"{d.path} is lost: {d.problem}" for d in after.case.dumps if d.problem.startswith(("refused", "unread"))]
    if len(after.case.dumps) < len(before.case.dumps):
        found.append(f"a dump is lost: {[str(gap)[:200] for gap in after.case.gaps]}")
    then, now = before.verdict, after.verdict
    if now.confidence_in.ranks is Confidence.HIGH and now.ranks != then.ranks:
        found.append(f"ranks {then.ranks} -> {now.ranks}, high: {now.headline}")
    if now.confidence_in.cause is Confidence.HIGH and now.cause is not then.cause:
        found.append(f"{then.cause} -> {now.cause}, high: {now.headline}")
    if now.cause is CauseClass.NONE and then.cause is not CauseClass.NONE:
        found.append(f"all clear: {now.headline}")
    return found


def run_cases(
    case_of: Callable[[int, tuple[str, ...]], Any], failures: Callable[[Any], list[str]], of: tuple[str, ...], doc: str
) -> int:
    """Run cases until the time is over; 1 where one failed."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--cases", type=int, default=1 << 40)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--samples", default=",".join(of))
    asked = options.parse_args()
    end, number, failed = time.monotonic() + 60 * asked.minutes, asked.first, 0
    while number < asked.first + asked.cases and time.monotonic() < end:
        case = case_of(number, tuple(asked.samples.split(",")))
        for problem in failures(case):
            failed += 1
            print(f"case {number}, {case.what}: {problem}", flush=True)
        number += 1
    print(f"{number - asked.first} cases, {failed} failures")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(run_cases(case_of, failures, SAMPLES, __doc__))
