"""Kinds of jobs on which an earlier build erred, with what became of the files. None of these jobs stands in any measurement."""

from __future__ import annotations

import pickle
import random
import re
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

from staged.plan import Plan, Program, draw, healthy
from staged.play import Scene, run
from staged.scenes.absent import own_exception
from staged.scenes.others import finished
from staged.scenes.stage import Make, Stage, strange
from staged.scenes.strange import ANSWERED, busy, first_step
from staged.writing.layouts import Files, collect

CLOCK = re.compile(r"\b(\d\d):(\d\d):(\d\d)\b")
KERNEL_STAMP = re.compile(r"^\[(\w{3} \w{3} \d\d \d\d:\d\d:\d\d \d{4})\]", re.MULTILINE)
KERNEL_FORM = "%a %b %d %H:%M:%S %Y"
OUTPUTS = ("train.log", "console.txt", "slurm-40112.out")
"""Names of the one file that a merged output goes to."""


@strange(**ANSWERED, hosts=[1, 2], launcher="none")
def rank_without_a_file(stage: Stage) -> Scene:
    """Of the rank at fault there is no file; the dumps of its peers say how many ranks there are."""
    out, _ = busy(stage)
    (culprit,) = out.culprits

    def lose(files: Files) -> None:
        for name in [name for name in files if rank_of(name) == culprit]:
            del files[name]

    return replace(out, also=("undetermined",), twist=lose)


@strange(sources="logs", layout="per_rank", shape="tp_dp", release=["2.5", "2.6", "2.7"], hosts=[2, 4], launcher="srun")
def lines_without_their_group(stage: Stage) -> Scene:
    """Somebody kept the timeouts of every second rank alone, without the lines that name its group."""
    out, _ = busy(stage, told=(True, False))

    def sift(files: Files) -> None:
        for name, content in files.items():
            if isinstance(content, str) and (rank_of(name) or 0) % 2:
                files[name] = "".join(row for row in content.splitlines(keepends=True) if "[PG ID " not in row)

    return replace(out, twist=sift)


@strange(sources="dumps", shape=["ddp", "fsdp"], release=["2.5", "2.6", "2.7", "2.9"], hosts=[1, 2])
def empty_dump(stage: Stage) -> Scene:
    """The rank at fault never made a call: its dump is empty, beside dumps with a first call that timed out."""
    stage.plan.dump_json = False
    out, culprit = first_step(stage, Scene("not-arrived", (stage.someone(),), told=(True, True)), "loader")

    def add(files: Files) -> None:
        name, content = next((name, content) for name, content in files.items() if isinstance(content, bytes))
        empty = pickle.loads(content) | {"entries": [], "pg_status": {}}
        files[re.sub(r"\d+$", str(culprit), name)] = pickle.dumps(empty, protocol=2)

    return replace(out, twist=add)


@strange(sources="dumps", shape=["ddp", "fsdp"], release=["2.4", "2.6", "2.7", "2.9"], hosts=[1, 2])
def retired_that_is_no_bool(stage: Stage) -> Scene:
    """In the dump of an innocent rank the field ``retired`` holds numbers, or nothing."""
    stage.plan.dump_json = False
    out, peer = busy(stage)
    holds = stage.rng.choice([int, lambda _: None])

    def retype(files: Files) -> None:
        for name in [name for name, content in files.items() if isinstance(content, bytes) and rank_of(name) == peer]:
            held = pickle.loads(files[name])
            for entry in held["entries"]:
                entry["retired"] = holds(entry["retired"])
            files[name] = pickle.dumps(held, protocol=2)

    return replace(out, twist=retype)


@strange(
    sources="logs", layout="per_host", shape="ddp", release=["2.6", "2.7", "2.8"], hosts=[2, 3], launcher="torchrun"
)
def clock_ahead(stage: Stage) -> Scene:
    """The clock of the host with the rank at fault is six seconds ahead."""
    out, _ = busy(stage)
    name = f"{stage.plan.host(out.culprits[0])}.log"

    def shift(files: Files) -> None:
        files[name] = CLOCK.sub(lambda found: _later(found, 6), str(files[name]))

    return replace(out, twist=shift)


@strange(sources="logs", layout="merged", shape="ddp", release=["2.6", "2.7", "2.8"], hosts=[1, 2], launcher="torchrun")
def earlier_run_in_the_same_file(stage: Stage) -> Scene:
    """Two hours before, a run of the same job ended by an exception of another rank; its output stands above in the file."""
    out, _ = busy(stage)
    draws = (random.Random(f"before {stage.plan.seed} {number}") for number in count())
    before = (replace(stage.plan, start=stage.plan.start - 7200, rng=rng) for rng in draws)
    runs = (_another(plan, [list(program) for program in stage.programs], own_exception) for plan in before)
    earlier = next(files for blamed, files in runs if blamed != out.culprits)
    above = next(str(content) for name, content in earlier.items() if name in OUTPUTS)

    def put_above(files: Files) -> None:
        name = next(name for name in files if name in OUTPUTS)
        files[name] = f"{above}{files[name]}"

    return replace(out, twist=put_above)


@strange(**ANSWERED, hosts=[2, 3])
def two_jobs_in_a_folder(stage: Stage) -> Scene:
    """Beside the job stands another of other hosts and size, which ended well in the same hours."""
    out, _ = busy(stage)
    other = draw(
        stage.plan.seed, "another", {**ANSWERED, "hosts": 1, "release": stage.plan.release, "launcher": "none"}
    )
    other = replace(other, start=stage.plan.start + 300, hosts=[f"lab-{n}" for n, _ in enumerate(other.hosts)])
    _, beside = _another(other, healthy(other), finished)

    def merge(files: Files) -> None:
        own = {f"run_a/{name}": content for name, content in files.items()}
        files.clear()
        files.update(own | {f"run_b/{name}": content for name, content in beside.items()})

    return replace(out, twist=merge)


@strange(
    sources="all",
    layout="per_rank",
    shape=["ddp", "fsdp"],
    release=["2.4", "2.6", "2.7", "2.9"],
    hosts=[2, 3],
    nccl_info=True,
)
def kernel_log_in_local_time(stage: Stage) -> Scene:
    """A device falls off the bus; the kernel's log is eight hours ahead of all others."""
    rank = stage.someone()
    out = stage.leave(Scene("hardware", (rank,), told=(True, True), frozen={rank}), rank, "driver")
    bus = f"PCI:0000:{stage.plan.bus(rank):02x}:00"
    text = f"NVRM: Xid ({bus}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    out.kernel.append((0.0, stage.plan.host(rank), text))

    def shift(files: Files) -> None:
        for name in [name for name in files if name.startswith("dmesg/")]:
            files[name] = KERNEL_STAMP.sub(_eight_hours_later, str(files[name]))

    return replace(out, twist=shift)


@strange(**ANSWERED, hosts=[1, 2])
def error_torn_by_a_bar(stage: Stage) -> Scene:
    """Half the name of an exception stands in a progress bar of an innocent rank, which goes on."""
    out, peer = busy(stage)
    out.said.append((-20.0, peer, "RuntimeErr 45%|####5     | 18/40 [00:03<00:04,  4.90it/s]"))
    out.said.append((-15.0, peer, "reading shards:  60%|######    | 24/40 [00:05<00:03,  4.92it/s]"))
    return out


@strange(
    sources="logs",
    layout="per_rank",
    shape=["ddp", "fsdp"],
    release=["2.3", "2.4", "2.5"],
    hosts=[1, 2],
    launcher="srun",
)
def log_cut_in_mid_line(stage: Stage) -> Scene:
    """The log of the rank at fault ends in the middle of a line: what came after is not known."""
    out, _ = busy(stage, told=(True, False))
    (culprit,) = out.culprits
    out.said.append((-30.0, culprit, f"rank {culprit}: 4096 samples loaded"))
    out.said.append((0.2, culprit, f"rank {culprit}: packing sequences of shard 17 of 40"))

    def cut(files: Files) -> None:
        for name in [name for name in files if rank_of(name) == culprit]:
            files[name] = str(files[name]).partition(" of shard 17")[0]

    return replace(out, twist=cut)


def rank_of(name: str) -> int | None:
    """The rank that a file's name ends in, or its folder where every rank has one."""
    found = re.search(r"(\d+)(?:\.json|\.log|\.err|\.txt|\.out)?$|/(\d+)/stderr\.log$", name)
    return int(found[1] or found[2]) if found and not name.startswith("slurm") else None


def _another(plan: Plan, programs: list[Program], maker: Make) -> tuple[tuple[int, ...], Files]:
    """The ranks at fault of another run, and its files."""
    scene = replace(maker(Stage(plan, programs, max(1, plan.steps - 2))), told=(True, True))
    return scene.culprits, collect(plan, run(plan, programs, scene), scene)[0]


def _later(found: re.Match[str], seconds: int) -> str:
    hours, minutes, rest = map(int, found.groups())
    moved = (hours * 3600 + minutes * 60 + rest + seconds) % 86_400
    return f"{moved // 3600:02d}:{moved // 60 % 60:02d}:{moved % 60:02d}"


def _eight_hours_later(found: re.Match[str]) -> str:
    return f"[{datetime.strptime(found[1], KERNEL_FORM) + timedelta(hours=8):{KERNEL_FORM}}]"
