"""Measures ``nccldoctor reduce`` of each part of a large job, and ``merge`` of all parts: processor time, memory, bytes.

    python benchmarks/reduce_and_merge.py [--ranks 8192] [--entries 2000] [--parts 8] [--compare 512] [--dask]

The dumps of one part are written, reduced and deleted before those of the next, so that the disk holds one part at a time. One rank
never issues the last call. Then a job of ``--compare`` ranks is analysed in one run, in parts, and with ``--dask`` on a cluster of two
workers: all three must print the same JSON. ``--scheduler`` is for a cluster that runs already, so a cluster that starts, does nothing and
ends is measured too.
"""

from __future__ import annotations

import argparse
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from recorder_load import content_of, run

NCCLDOCTOR = [sys.executable, "-m", "nccldoctor"]
CLUSTER = 'LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp")'
ON_DASK = f"""
import sys
from distributed import LocalCluster
from nccldoctor.cli.app import main
if __name__ == "__main__":
    with {CLUSTER} as cluster:
        sys.argv[1:] += ["--scheduler", cluster.scheduler_address]
        main()
"""
EMPTY_CLUSTER = f"""
from distributed import Client, LocalCluster
if __name__ == "__main__":
    with {CLUSTER} as cluster, Client(cluster.scheduler_address):
        pass
"""
"""Two workers that start, meet a client and end: the modules of ``distributed`` are imported three times."""
START_NS = 1_780_000_000_000_000_000


def stuck_dump(rank: int, world: int, entries: int) -> bytes:
    """The dump of a rank whose job hangs in the last call, which rank ``world // 3`` never issued; calls take random times."""
    content = content_of(rank, world, entries)
    rng = random.Random(rank)
    for number, entry in enumerate(content["entries"]):
        made = START_NS + number * 3_000_000 + int(rng.uniform(0, 2e6))
        entry["time_created_ns"] = made
        entry["time_discovered_completed_ns"] = made + int(rng.uniform(1e6, 9e6))
    status = content["pg_status"]["0"]
    status["last_completed_collective"] -= 1
    if rank == world // 3:
        content["entries"].pop()
        status["last_enqueued_collective"] -= 1
    else:
        content["entries"][-1] |= {"state": "scheduled", "retired": False, "time_discovered_completed_ns": None}
    return pickle.dumps(content, protocol=2)


def write_dumps(folder: Path, ranks: range, world: int, entries: int) -> None:
    """The dumps of some ranks of a job."""
    folder.mkdir()
    for rank in ranks:
        (folder / f"nccl_trace_rank_{rank}").write_bytes(stuck_dump(rank, world, entries))


def shares(world: int, parts: int) -> list[range]:
    """The ranks of each part."""
    each = -(-world // parts)
    return [range(first, min(first + each, world)) for first in range(0, world, each)]


def large(top: Path, world: int, entries: int, parts: int) -> None:
    """Reduce part by part, then merge."""
    total, worst, size = 0.0, 0, 0
    for number, ranks in enumerate(shares(world, parts)):
        dumps, part = top / "dumps", top / f"part{number}.nd"
        write_dumps(dumps, ranks, world, entries)
        cpu, peak = run(f"reduce part {number}", [*NCCLDOCTOR, "reduce", "-q", str(dumps), "-o", str(part)])
        total, worst, size = total + cpu, max(worst, peak), size + part.stat().st_size
        for dump in dumps.iterdir():
            dump.unlink()
        dumps.rmdir()
    calls = world * entries - 1
    print(f"all parts: {total:.1f} CPU-s, at most {worst / 1e6:.0f} MB, {size / calls:.2f} bytes per call")
    run("merge", [*NCCLDOCTOR, "merge", *map(str, sorted(top.glob("part*.nd"))), "-o", str(top / "report.html")])
    verdict = subprocess.run(
        [*NCCLDOCTOR, "merge", "-q", *map(str, sorted(top.glob("part*.nd")))], capture_output=True, text=True
    )
    print(verdict.stdout.strip())


def compare(top: Path, world: int, entries: int, parts: int, with_dask: bool) -> None:
    """One run, parts, and a cluster, over the same dumps."""
    folder = top / "all"
    folder.mkdir()
    for number, ranks in enumerate(shares(world, parts)):
        write_dumps(folder / f"node{number}", ranks, world, entries)
    out = ["--format", "json", "--exit-zero"]
    alone, answer = _json([*NCCLDOCTOR, "analyze", str(folder), *out], "one run")
    answers = [answer]
    names = []
    for number in range(parts):
        names.append(str(top / f"node{number}.nd"))
        command = [*NCCLDOCTOR, "reduce", "-q", str(folder / f"node{number}"), "-o", names[-1]]
        run(f"reduce part {number}", command)
    answers.append(_json([*NCCLDOCTOR, "merge", *names, *out], "merge")[1])
    if with_dask:
        script = top / "on_dask.py"
        script.write_text(ON_DASK)
        cpu, answer = _json([sys.executable, str(script), "analyze", str(folder), *out], "dask, two workers")
        answers.append(answer)
        (top / "empty.py").write_text(EMPTY_CLUSTER)
        empty, _ = run("an empty cluster", [sys.executable, str(top / "empty.py")])
        print(f"dask takes {cpu / alone:.2f} times the processor time of one run")
        print(f"without the start of the cluster {(cpu - empty) / alone:.2f} times")
    print("the same JSON" if len(set(answers)) == 1 else "DIFFERENT JSON")


def _json(command: list[str], name: str) -> tuple[float, bytes]:
    """The processor seconds of a command, and what it prints."""
    with tempfile.NamedTemporaryFile() as file:
        cpu, _ = run(name, ["sh", "-c", 'exec "$@" > "$0"', file.name, *command])
        if not (answer := Path(file.name).read_bytes()):
            sys.exit(f"{name} printed nothing")
        return cpu, answer


def main() -> None:
    """Measure both."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ranks", type=int, default=8192)
    options.add_argument("--entries", type=int, default=2000)
    options.add_argument("--parts", type=int, default=8)
    options.add_argument("--compare", type=int, default=512)
    options.add_argument("--dask", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.ranks:
            print(f"{given.ranks} ranks x {given.entries} entries in {given.parts} parts")
            large(Path(folder), given.ranks, given.entries, given.parts)
        if given.compare:
            print(f"{given.compare} ranks x {given.entries} entries")
            compare(Path(folder), given.compare, given.entries, 4, given.dask)


if __name__ == "__main__":
    main()
