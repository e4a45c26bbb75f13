"""Gathers the files somebody would have after the job: logs, dumps, stacks, kernel logs, and what got lost."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from simulator.faults.scenarios import Fault
from simulator.files import pack
from simulator.lines import chatter as chatter
from simulator.lines import errors as errors
from simulator.lines import launchers as launch
from simulator.lines.book import Book, bus_id  # noqa: F401
from simulator.lines.c10d import Watchdog
from simulator.lines.causes import tell
from simulator.recorder import Dumps
from simulator.state import NEVER
from simulator.truth.truth import Kept
from simulator.watchdogs import Story


@dataclass(slots=True)
class Files:
    """Path → content, and what they show."""

    content: dict[str, str | bytes] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)


def gather(rng: random.Random, story: Story, fault: Fault, dumps: Dumps) -> Files:
    """Make all files of the job and lose what the knobs say."""
    files = Files()
    knobs = story.job.knobs
    if knobs.cut and story.first_fire < NEVER:
        files.kept.until = story.first_fire + rng.uniform(1.0, 1.8)
    if "fr" in knobs.evidence:
        _dumps(rng, story, fault, dumps, files)
    if "log" in knobs.evidence or not files.content:
        _logs(rng, story, fault, dumps, files)
        _stacks(rng, story, fault, files)
        _kernel(rng, story, fault, files)
    if fault.traits.get("only"):
        _keep_one(rng, story, fault.culprits, files)
    return files


def _dumps(rng: random.Random, story: Story, fault: Fault, dumps: Dumps, files: Files) -> None:
    knobs = story.job.knobs
    folder = rng.choice(["fr", "dumps", "flight_recorder", "traces"])
    stem = rng.choice([knobs.release.stem, knobs.release.stem, "fr_", "trace_", "nccl_dump."])
    suffix = ".json" if knobs.dump_json and rng.random() < 0.7 else ""
    if fault.traits.get("snapshot"):
        when = story.sim.hosts[0].works[len(story.sim.hosts[0].works) * 2 // 3].issued
        for fate in story.fates:
            fate.dump_at, fate.by_hand = when + rng.uniform(0.0, 0.3), True
    for fate in story.fates:
        # Who asks every rank by hand keeps all dumps; where one is missing and nothing else is read, a hang looks the same.
        lost = fate.rank in knobs.lost_dumps and not (fate.by_hand and knobs.evidence == "fr")
        if not fate.dumped or lost:
            continue
        data = dumps.dump(fate.rank, fate.dump_at, fate.dump_frames)
        if fate.rank in knobs.torn_dumps:
            data = data[: int(len(data) * rng.uniform(0.2, 0.9))]
        elif knobs.recorder_on:
            files.kept.dumps.add(fate.rank)
            files.kept.entries |= dumps.recorded(fate.rank, fate.dump_at)
        else:
            files.kept.bare_dumps.add(fate.rank)
        files.content[f"{folder}/{stem}{fate.rank}{suffix}"] = data


def _logs(rng: random.Random, story: Story, fault: Fault, dumps: Dumps, files: Files) -> None:
    job, knobs = story.job, story.job.knobs
    book = Book(job)
    begin = -1.05 * 8 * max(knobs.print_every, 1) - 30
    dog = Watchdog(book, story, dumps, rng)
    if fault.cls != "init":
        if knobs.nccl_info:
            chatter.nccl_start(book, begin + 5, rng)
        chatter.training(book, story.sim, dumps.first, rng)
        chatter.noise(book, story, begin, rng)
    tell(book, story, fault, dumps, dog)
    for fate in story.fates:
        dog.tell(fate)
    chatter.goodbye(book, story, bool(fault.traits.get("scary")), rng)
    gone = [fate.gone_at for fate in story.fates]
    book.lines = [line for line in book.lines if line.rank is None or line.time <= gone[line.rank] + 0.01]
    run_id = f"run{rng.randrange(10**6):06d}"
    if knobs.restarted and knobs.files == "tree":
        launch.restarted(book, begin)
    if knobs.launcher == "torchrun":
        launch.torchrun(book, story, rng, begin)
    else:
        oom = set(fault.culprits) if fault.traits.get("oom") else set()
        launch.srun(book, story, f"{rng.randrange(10_000, 99_999)}.0", oom, fault.traits.get("host"))
    packed = pack(book, run_id, rng, files.kept.until)
    if knobs.restarted and knobs.files == "tree":
        packed = {name.replace("/attempt_0/", "/attempt_1/"): text for name, text in packed.items()}
        packed.update(errors.earlier_attempt(book, run_id))
    files.content.update(packed)
    files.kept.logs = set(range(knobs.world)) - (set(knobs.lost_logs) if knobs.files in ("per_rank", "tree") else set())
    files.kept.launcher = not knobs.lost_launcher
    if knobs.launcher == "srun" and "host" in fault.traits:
        files.kept.failed_hosts = set(fault.culprits)


def _stacks(rng: random.Random, story: Story, fault: Fault, files: Files) -> None:
    """Stacks of some ranks, taken while the job hung; a stopped or dead process gives none."""
    job, knobs = story.job, story.job.knobs
    if not knobs.stacks or not fault.hang or fault.cls == "init":
        return
    wanted = set(fault.culprits[:1]) | set(rng.sample(range(knobs.world), min(knobs.stacks, knobs.world)))
    for rank in sorted(wanted):
        host = story.sim.hosts[rank]
        if host.how in ("stopped", "ended"):
            continue
        files.content[f"stacks/pyspy_rank{rank}.txt"] = errors.pyspy(
            Book(job), rank, host.doing or "log_step", host.how == "gil"
        )
        files.kept.stacks.add(rank)


def _kernel(rng: random.Random, story: Story, fault: Fault, files: Files) -> None:
    job, knobs = story.job, story.job.knobs
    if not knobs.dmesg:
        return
    book = Book(job)
    for name in job.hosts:
        events: list[tuple[float, str]] = []
        for rank in fault.culprits:
            if job.host(rank) == name and fault.traits.get("oom"):
                events += errors.oom_lines(job, rank, story.sim.hosts[rank].since)
                files.kept.kernel.add(rank)
            if job.host(rank) == name and "xids" in fault.traits:
                when = min(story.sim.hosts[rank].since, story.fates[rank].gone_at) - 0.5
                events += [(when + 0.01 * k, errors.xid(job, rank, *x)) for k, x in enumerate(fault.traits["xids"])]
                files.kept.kernel.add(rank)
        files.content[f"dmesg/{name}.dmesg.txt"] = errors.kernel_log(book, name, events, rng)


def _keep_one(rng: random.Random, story: Story, culprits: tuple[int, ...], files: Files) -> None:
    victims = sorted(files.kept.dumps) or [f.rank for f in story.fates if f.fires]
    rank = rng.choice(victims or [r for r in sorted(files.kept.logs) if r not in culprits])
    stems = (f"rank_{rank}", f"_{rank}", f".{rank}", f"_{rank}.json", f".{rank}.json", f"rank_{rank}.log")
    files.content = {k: v for k, v in files.content.items() if k.endswith(stems)}
    files.kept = Kept(dumps={rank} & files.kept.dumps, logs={rank} & files.kept.logs, until=files.kept.until)
