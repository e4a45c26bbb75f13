"""Scores diagnoses of real jobs: ``python tests/scoring/score_live.py [--runs 3] [--only NAME,…] [--keep FOLDER]`` (needs torch).

Each fault of ``nccldoctor.rehearsal`` is run, captured, collected from while it hangs, and analysed: the evidence of capture alone, that
of the collector alone, and all of it. Printed are the verdicts, and for each evidence the shares of exact culprits and right classes,
how often a healthy job was accused, and the processes that were left.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import nccldoctor
from nccldoctor.cli.live.rehearsing import COLLECT_S, PATIENCE_S
from nccldoctor.collect.gather import gather_bundle
from nccldoctor.collect.node_options import NodeOptions
from nccldoctor.collect.reach.this_machine import ThisMachine
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.rehearsal.faults import FAULTS, Fault
from nccldoctor.rehearsal.launch import rehearsed

EVIDENCE = {"capture": ("capture",), "bundle": ("bundle.tar.zst",), "all": ("capture", "logs", "bundle.tar.zst")}


def verdicts(fault: Fault, folder: Path) -> dict[str, tuple[str, str, str]]:
    """Class, ranks and confidence by kind of evidence, of one run."""
    with rehearsed(fault, folder) as job:
        job.is_shown_within(fault, PATIENCE_S)
        if job.pids:
            options = NodeOptions(pid=",".join(map(str, job.pids)), seconds=COLLECT_S)
            gather_bundle(ThisMachine(), options, folder / "bundle.tar.zst", python=sys.executable)
        out = {}
        for kind, names in EVIDENCE.items():
            paths = [folder / name for name in names if (folder / name).exists()]
            if paths:
                out[kind] = _verdict(paths)
    return out


def _verdict(paths: list[Path]) -> tuple[str, str, str]:
    try:
        found = nccldoctor.analyze(paths).verdict
    except NccldoctorError as error:
        return "error", str(error)[:60], ""
    return str(found.cause), str(found.ranks), str(found.confidence)


ENDING_S = 5.0
"""Seconds that sidecars have to see that their rank is gone."""


def left_running(folder: Path) -> list[str]:
    """Processes of a run that is over, after the time that they have to end."""
    end = time.monotonic() + ENDING_S
    while (left := _naming(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def _naming(folder: Path) -> list[str]:
    """Processes whose command line names a folder."""
    left = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command and "score_live" not in command:
            left.append(command[:100])
    return left


def main() -> None:
    """Run all faults and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="names of faults, with commas")
    parser.add_argument("--keep", type=Path, help="folder for the evidence")
    args = parser.parse_args()
    chosen = [fault for fault in FAULTS if not args.only or fault.name in args.only.split(",")]
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for run in range(args.runs):
            for fault in chosen:
                folder = (args.keep or Path(scratch)) / f"{fault.name}-{run}"
                for kind, found in verdicts(fault, folder.absolute()).items():
                    _count(counts, kind, fault, found)
                left = left_running(folder.absolute())
                counts["jobs", "left running"] += len(left)
                print(*left, sep="\n", end="", flush=True)
    for (kind, what), number in sorted(counts.items()):
        print(f"{kind:<8} {what:<18} {number}")


def _count(counts: Counter[tuple[str, str]], kind: str, fault: Fault, found: tuple[str, str, str]) -> None:
    wanted = "" if fault.rank is None else str(fault.rank)
    is_exact, is_right = found[1] == wanted, found[0] in fault.classes
    mark = "ok" if is_exact and is_right else "WRONG"
    print(f"{fault.name:<16} {kind:<8} {found[0]:<16} ranks {found[1] or '-':<6} {found[2]:<8} {mark}", flush=True)
    counts[kind, "runs"] += 1
    counts[kind, "culprit exact"] += is_exact
    counts[kind, "class right"] += is_right
    counts[kind, "healthy accused"] += fault.rank is None and bool(found[1])
    counts[kind, "wrong and high"] += found[2] == "high" and not (is_exact and is_right)


if __name__ == "__main__":
    main()
