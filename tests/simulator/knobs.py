"""Draws the properties of one simulated job: release, size, launcher, layout of files, lost files.

Facts about releases (wordings, recorder formats, defaults) are those of PyTorch 2.2 to 2.13 as published; line numbers
of source files between known releases are approximations.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Era:
    """One PyTorch release as far as its traces differ."""

    name: str
    recorder: str  # "list", or the version string inside the dump
    nccl: str
    dump_default: bool  # dumps on a timeout unless told otherwise
    recorder_default: bool  # the recorder itself holds entries unless told otherwise
    stem: str  # file name of a dump before the rank
    abort_delay: float  # seconds from the first timeout line to the abort
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.name.split("."))


def _lines(caught: int, signal: int, prepare: int, chain: int, some: int, ended: int) -> dict[str, int]:
    return {"caught": caught, "signal": signal, "prepare": prepare, "chain": chain, "some": some, "ended": ended}


ERAS = {
    era.name: era
    for era in (
        Era("2.2", "list", "2.19.3", False, False, "nccl_trace_rank_", 1.2, _lines(523, 1108, 1176, 1182, 537, 1182)),
        Era("2.3", "1.5", "2.20.5", False, False, "nccl_trace_rank_", 1.5, _lines(563, 1231, 1291, 1537, 577, 1414)),
        Era("2.4", "2.1", "2.20.5", False, False, "nccl_trace_rank_", 2.0, _lines(607, 1346, 1400, 1709, 621, 1515)),
        Era("2.5", "2.3", "2.21.5", False, False, "nccl_trace_rank_", 2.0, _lines(616, 1422, 1480, 1834, 630, 1595)),
        Era("2.6", "2.4", "2.21.5", False, False, "nccl_trace_rank_", 62.0, _lines(629, 1672, 1484, 2168, 681, 1895)),
        Era("2.7", "2.5", "2.26.2", True, False, "nccl_trace_rank_", 62.0, _lines(632, 1746, 1536, 2271, 684, 1902)),
        Era("2.8", "2.9", "2.27.3", True, False, "nccl_trace_rank_", 61.0, _lines(683, 1858, 1575, 2241, 744, 2068)),
        Era(
            "2.9", "2.10", "2.27.5", True, False, "comm_lib_trace_rank_", 61.0, _lines(683, 1870, 1589, 2252, 744, 2068)
        ),
        Era(
            "2.13", "2.10", "2.29.3", True, True, "comm_lib_trace_rank_", 61.0, _lines(686, 1914, 1628, 2301, 747, 2104)
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Knobs:
    """Everything that varies between two jobs apart from the fault itself."""

    era: str = "2.7"
    nodes: int = 1
    gpus: int = 8
    layout: str = "ddp"  # ddp, fsdp, tpdp, 3d, ep
    launcher: str = "torchrun"  # torchrun, srun
    files: str = "per_rank"  # merged, per_rank, tree, srun, kube
    evidence: str = "fr+log"  # fr, log, fr+log
    timeout_ms: int = 600_000
    sub_timeout_ms: int = 600_000
    dump_on: bool = True
    recorder_on: bool = True
    ring: int = 500
    timing: bool = False
    frames: bool = True
    only_active: bool = False
    dump_json: bool = False
    p2p_batched: bool = True
    names: str = "megatron"  # megatron, mesh, none
    hashed: bool = False
    sync_every: int = 1
    step: int = 400  # the step in which the fault happens, counted from 1
    ckpt_every: int = 100
    micro: int = 4
    progress: str = "logger"  # logger, hf, megatron, tqdm
    print_every: int = 10
    beat_every: int = 0
    noise: int = 8  # warnings per rank
    nccl_info: bool = False
    ansi: bool = False
    tz_hours: int = 0
    skew: float = 0.0  # largest clock error of a host, seconds
    epoch: int = 1_770_000_000
    host_stem: str = "node"
    host_base: int = 0
    host_width: int = 2
    kill_on_exit: bool = True  # srun ends the step when one task ends badly
    lost_dumps: tuple[int, ...] = ()
    torn_dumps: tuple[int, ...] = ()
    lost_logs: tuple[int, ...] = ()
    lost_launcher: bool = False
    cut: bool = False  # the collected log ends before the tear-down
    stacks: int = 0  # ranks whose stack was taken, the culprit included when > 0
    dmesg: bool = False
    desync: bool = False  # TORCH_NCCL_DESYNC_DEBUG
    restarted: bool = False  # an earlier attempt of the launcher failed for another reason
    spliced: bool = False  # lines of two ranks run together now and then

    @property
    def world(self) -> int:
        return self.nodes * self.gpus

    @property
    def release(self) -> Era:
        return ERAS[self.era]


def _sizes(rng: random.Random, layout: str) -> tuple[int, int]:
    if layout == "3d":
        return rng.choice([(1, 8), (2, 4), (2, 8)])
    return rng.choice([(1, 4), (1, 8), (1, 8), (2, 4), (2, 8), (4, 4)])


def draw(rng: random.Random, **fixed: Any) -> Knobs:
    """Draw the knobs of one job; what is given in ``fixed`` is kept, the rest fits it."""
    layout = fixed.get("layout") or rng.choice(["ddp", "ddp", "fsdp", "tpdp", "3d", "ep"])
    nodes, gpus = _sizes(rng, layout)
    launcher = fixed.get("launcher") or rng.choice(["torchrun", "torchrun", "srun"])
    files = "srun" if launcher == "srun" else rng.choice(["merged", "per_rank", "per_rank", "tree", "kube"])
    evidence = rng.choice(["fr+log", "fr+log", "fr+log", "fr", "log", "log"])
    era = rng.choice(list(ERAS))
    timeout = rng.choice([300_000, 600_000, 600_000, 1_800_000, 3_600_000])
    drawn = {
        "era": era,
        "layout": layout,
        "nodes": nodes,
        "gpus": gpus,
        "launcher": launcher,
        "files": files,
        "evidence": evidence,
        "timeout_ms": timeout,
        "sub_timeout_ms": rng.choice([timeout, timeout, 600_000]),
        "ring": rng.choice([40, 200, 200, 500, 500, 1000]),
        "timing": rng.random() < 0.35,
        "frames": rng.random() < 0.85,
        "only_active": rng.random() < 0.05 and ERAS[era].number >= (2, 8),
        "dump_json": rng.random() < 0.1 and ERAS[era].number >= (2, 6),
        "recorder_on": rng.random() < 0.9 or ERAS[era].recorder_default,
        "dump_on": rng.random() < 0.95,
        "p2p_batched": rng.random() < 0.7,
        "names": rng.choice(["megatron", "mesh", "none"]),
        "hashed": rng.random() < 0.3,
        "sync_every": rng.choice([1, 1, 1, 2, 4]),
        "step": rng.choice([1, 2, rng.randrange(3, 60), rng.randrange(60, 20_000), rng.randrange(60, 20_000)]),
        "ckpt_every": rng.choice([50, 100, 250]),
        "micro": rng.choice([2, 4]),
        "progress": rng.choice(["logger", "hf", "megatron", "tqdm"]),
        "print_every": rng.choice([1, 10]),
        "beat_every": rng.choice([0, 0, 1, 5]),
        "noise": rng.choice([0, 3, 8, 20]),
        "nccl_info": rng.random() < 0.4,
        "ansi": rng.random() < 0.15,
        "tz_hours": rng.choice([0, 0, -7, 1, 8]),
        "skew": rng.choice([0.0, 0.0, 0.05, 2.5]),
        "epoch": rng.randrange(1_735_000_000, 1_790_000_000),
        "host_stem": rng.choice(["node", "gpu-", "worker", "dgx-a"]),
        "host_base": rng.choice([0, 1, 17]),
        "host_width": rng.choice([1, 2, 3]),
        "kill_on_exit": rng.random() < 0.6,
        "lost_launcher": rng.random() < 0.12,
        "cut": rng.random() < 0.08,
        "stacks": rng.choice([0, 0, 0, 3]),
        "dmesg": rng.random() < 0.25,
        "desync": rng.random() < 0.08,
        "restarted": rng.random() < 0.15 and files == "tree",
        "spliced": rng.random() < 0.08,
    }
    drawn.update({key: value for key, value in fixed.items() if value is not None})
    if drawn["layout"] == "3d" and drawn["nodes"] * drawn["gpus"] < 8:
        drawn["gpus"] = 8 // drawn["nodes"]
    return _lose(rng, Knobs(**drawn), fixed)


def _lose(rng: random.Random, knobs: Knobs, fixed: dict[str, Any]) -> Knobs:
    """Lose some of the evidence, as it happens when somebody gathers files from many nodes."""
    world = range(knobs.world)
    change: dict[str, Any] = {}
    if "lost_dumps" not in fixed and rng.random() < 0.12:
        change["lost_dumps"] = tuple(sorted(rng.sample(world, rng.choice([1, 1, 2]))))
    if "torn_dumps" not in fixed and rng.random() < 0.06:
        change["torn_dumps"] = (rng.choice(world),)
    if "lost_logs" not in fixed and knobs.files in ("per_rank", "tree") and rng.random() < 0.12:
        change["lost_logs"] = (rng.choice(world),)
    if knobs.only_active and knobs.release.number < (2, 8):
        change["only_active"] = False
    if knobs.desync:
        change["timing"] = True
    return replace(knobs, **change)
