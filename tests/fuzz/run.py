"""Fuzzes the whole analysis: files of bundled incidents, some of them damaged, packed or renamed, in as many cases as fit a time:

python tests/fuzz/run.py --minutes 10 [--first 0]

Every case follows from its number alone: ``--first 4711 --cases 1`` repeats one. There is no guidance by coverage: atheris needs clang and
has no wheels for Python 3.14, so that nobody could run it from a plain checkout.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from builders.files.packing import write, zip_of
from fuzz.mutations import damaged

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.discover.paths import printable
from nccldoctor.incident import Incident

SAMPLES = tuple(sample.name for sample in demo.samples())


def samples_of(number: int) -> tuple[str, ...]:
    """The incidents whose files a case has: one, now and then two."""
    return _drawn(random.Random(number))


def _drawn(rng: random.Random) -> tuple[str, ...]:
    first = rng.choice(SAMPLES)
    return (first, rng.choice(SAMPLES)) if rng.random() < 0.1 else (first,)


def case_of(number: int) -> dict[str, bytes]:
    """The files of a case: one incident, of whose files up to three are damaged; now and then packed, or of two incidents."""
    rng = random.Random(number)
    files = {name: data for sample in _drawn(rng) for name, data in demo.contents(sample).items()}
    for name in rng.sample(sorted(files), min(len(files), rng.randrange(1, 4))):
        files[name] = damaged(rng, files[name])
    if rng.random() < 0.1:
        packed = zip_of(dict(sorted(files.items())), zipfile.ZIP_STORED)
        files = {"logs.zip": damaged(rng, packed)}
    return files


def failures(number: int) -> list[str]:
    """What is wrong with the analysis of a case: a traceback, a part that broke, a file of which nothing is said."""
    with tempfile.TemporaryDirectory() as scratch:
        files = case_of(number)
        folder = write(Path(scratch), files)
        try:
            incident = nccldoctor.analyze(folder)
            document = incident.to_json()
            incident.to_text()
            json.loads(document)
        except Exception:
            return [traceback.format_exc()]
        broken = [f"{gap.what}: {gap.why}" for gap in incident.case.gaps if gap.why.startswith("reading it failed")]
        broken += [str(row.problems) for row in incident.unquoted.coverage if row.input == "nccldoctor itself"]
        return broken + [f"{name}: nothing is said of it" for name in unmentioned(incident, files)]


def unmentioned(incident: Incident, files: Iterable[str]) -> list[str]:
    """The files of which neither the list of inputs nor a gap says anything. *And 3 more* speaks for three."""
    gaps = [gap.what for gap in incident.case.gaps]
    told = [source.path for source in incident.unquoted.sources] + gaps
    folders = tuple(f"{re.split(' and |: ', what)[0]}/" for what in gaps)
    silent = [
        name for name in files if not name.startswith(folders) and not any(printable(name) in one for one in told)
    ]
    counted = sum(int(number) for what in gaps for number in re.findall(r" and (\d+) more", what))
    return silent[counted:]


def main() -> int:
    """Run cases until the time is over; 1 where one failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--cases", type=int, default=1 << 40)
    options.add_argument("--first", type=int, default=0)
    asked = options.parse_args()
    end, number, failed = time.monotonic() + 60 * asked.minutes, asked.first, 0
    slowest = (0.0, 0)
    while number < asked.first + asked.cases and time.monotonic() < end:
        start = time.process_time()
        for problem in failures(number):
            failed += 1
            print(f"case {number}: {problem}", flush=True)
        slowest = max(slowest, (time.process_time() - start, number))
        number += 1
    print(
        f"{number - asked.first} cases, {failed} failures; the slowest took {slowest[0]:.1f} s of CPU (case {slowest[1]})"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
