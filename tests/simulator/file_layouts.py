"""Lays the lines of a simulated job out as launchers, collectors and people do; each layout holds the same lines.

Sources of the forms: torchrun's tee (torch/distributed/elastic/multiprocessing/tail_log.py and
LocalElasticAgent's ``log_line_prefix_template``, 2.13), sbatch's file name patterns, ``srun --label``, kubectl, the CRI's
log format, docker's json-file driver, stern, Ray's driver output and its ``[repeated …]`` note, SkyPilot's node prefixes,
pdsh, dshbak, clush.
"""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from simulator import files, jobs
from simulator.lines.book import Line, agent_pid, pid_of, wall
from simulator.program import Job

Lay = Callable[[Job, list[Line], str], dict[str, str]]


def _parts(line: Line) -> Iterator[str]:
    """The physical lines of a record; what a progress bar drew is a line of its own."""
    yield from line.text.lstrip("\r").split("\n")


def _utc(job: Job, line: Line) -> datetime.datetime:
    return wall(job, line.time, line.host) - datetime.timedelta(hours=job.knobs.tz_hours)


def _stamp(job: Job, line: Line) -> str:
    now = _utc(job, line)
    return f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond:06d}789Z"


def _one_file(name: str, prefix: Callable[[Job, Line], str]) -> Lay:
    """Every line of the job in one file, behind what ``prefix`` gives."""

    def lay(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
        return {name.format(run=run_id): "".join(f"{prefix(job, x)}{p}\n" for x in lines for p in _parts(x))}

    return lay


def _by(name: Callable[[Job, Line, str], str], prefix: Callable[[Job, Line], str]) -> Lay:
    """The lines spread over files by ``name``."""

    def lay(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
        out: dict[str, list[str]] = defaultdict(list)
        for line in lines:
            out[name(job, line, run_id)] += [f"{prefix(job, line)}{part}\n" for part in _parts(line)]
        return {path: "".join(parts) for path, parts in out.items()}

    return lay


def _bare(job: Job, line: Line) -> str:
    return ""


def _tee(job: Job, line: Line) -> str:
    return "" if line.rank is None else f"[default{job.local(line.rank)}]:"


def _tee_both(job: Job, line: Line) -> str:
    return "" if line.rank is None else f"[trainer{job.local(line.rank)}|{line.rank}]:"


def _tee_rank(job: Job, line: Line) -> str:
    return "" if line.rank is None else f"[{line.rank}]:"


def _node(job: Job, line: Line) -> int:
    return job.hosts.index(line.host)


def _label(job: Job, line: Line) -> str:
    """``srun --label`` of one task per rank; what srun itself says has no label."""
    return "" if line.rank is None else f"{line.rank:>{len(str(job.knobs.world - 1))}}: "


def _node_label(job: Job, line: Line) -> str:
    """``srun --label`` of one launcher per node: its ranks share a label, and it tees them."""
    return f"{_node(job, line)}: {_tee(job, line)}"


def _kube(job: Job, line: Line) -> str:
    return f"[pod/train-worker-{_node(job, line)}/pytorch] {_stamp(job, line)} "


def _cri(job: Job, line: Line) -> str:
    return f"{_stamp(job, line)} {'stdout' if line.stream == 'out' else 'stderr'} F "


def _stern(job: Job, line: Line) -> str:
    return f"train-worker-{_node(job, line)} pytorch "


def _ray(job: Job, line: Line) -> str:
    if line.rank is None:
        return ""
    return f"(RayTrainWorker pid={pid_of(job, line.rank)}, ip=10.4.0.{_node(job, line) + 5}) "


def _sky(job: Job, line: Line) -> str:
    node = _node(job, line)
    if not node:
        return f"(head, rank=0, pid={agent_pid(job, line.host)}) "
    return f"(worker{node}, rank={node}, pid={agent_pid(job, line.host)}, ip=10.4.0.{node + 5}) "


def _pdsh(job: Job, line: Line) -> str:
    return f"{line.host}: "


def _docker(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
    out: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        stream = "stdout" if line.stream == "out" else "stderr"
        for part in _parts(line):
            record = {"log": part + "\n", "stream": stream, "time": _stamp(job, line)}
            out[f"{line.host}/train-json.log"].append(json.dumps(record) + "\n")
    return {path: "".join(parts) for path, parts in out.items()}


def _dshbak(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
    """The layout of dshbak and ``clush -b``: one block for each node, below its name between two rules."""
    out = []
    for host in job.hosts:
        out += ["-" * 16, host, "-" * 16]
        out += [part for line in lines if line.host == host for part in _parts(line)]
    return {"nodes.txt": "\n".join(out) + "\n"}


def _repeated(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
    """Ray prints a line that several actors wrote once, and says so."""
    seen: dict[str, int] = defaultdict(int)
    for line in lines:
        seen[line.text] += line.rank is not None
    out, done = [], set()
    for line in lines:
        times = seen[line.text]
        if line.text in done:
            continue
        note = f" [repeated {times}x across cluster]" if times > 1 else ""
        done.add(line.text if times > 1 else None)
        parts = list(_parts(line))
        out += [f"{_ray(job, line)}{part}{note if part is parts[-1] else ''}\n" for part in parts]
    return {"driver.log": "".join(out)}


def _tree(job: Job, line: Line, run_id: str) -> str:
    if line.rank is None:
        return f"{line.host}/agent.log"
    return f"{line.host}/{run_id}/attempt_0/{job.local(line.rank)}/std{line.stream}.log"


def _anonymous_tree(job: Job, line: Line, run_id: str) -> str:
    """The same where the folders of the nodes are numbered, not named."""
    return _tree(job, line, run_id).replace(line.host, f"logs-{_node(job, line)}", 1)


LAYOUTS: dict[str, Lay] = {
    "merged": _one_file("job.log", _bare),
    "per-rank": _by(lambda j, x, r: "launcher.log" if x.rank is None else f"rank_{x.rank}.log", _bare),
    "tree": _by(_tree, _bare),
    "tree-unnamed": _by(_anonymous_tree, _bare),
    "tee": _by(lambda j, x, r: f"{x.host}.log", _tee),
    "tee-merged": _one_file("console.log", _tee),
    "tee-both-ranks": _one_file("console.log", _tee_both),
    "tee-global": _one_file("console.log", _tee_rank),
    "srun-label": _one_file("slurm-{run}.out", _label),
    "srun-label-nodes": _one_file("slurm-{run}.out", _node_label),
    "slurm": _one_file("slurm-{run}.out", _bare),
    "slurm-tasks": _by(
        lambda j, x, r: f"slurm-{r}.out" if x.rank is None else f"train-{r}-{_node(j, x)}-{x.rank}.out", _bare
    ),
    "kubectl": _one_file("pods.log", _kube),
    "cri": _by(lambda j, x, r: f"ns_train-worker-{_node(j, x)}_8a7/pytorch/0.log", _cri),
    "docker": _docker,
    "stern": _one_file("stern.log", _stern),
    "ray": _one_file("driver.log", _ray),
    "ray-repeated": _repeated,
    "skypilot": _one_file("run.log", _sky),
    "pdsh": _one_file("nodes.txt", _pdsh),
    "dshbak": _dshbak,
    "quoted": _one_file("issue.md", lambda j, x: "> "),
    "indented": _one_file("issue.md", lambda j, x: "    "),
}
"""Name to layout; ``merged`` and ``per-rank`` are what the others are measured against."""


def lines_of(seed: int, scenario: str, **knobs: Any) -> tuple[jobs.Job, Job, list[Line]]:
    """Keeps only the log lines of a job, all of them in the order of their times."""
    kept: list[tuple[Job, list[Line]]] = []

    def keep(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
        kept.append((job, lines))
        return {"job.log": ""}

    files.LAYOUTS["kept"] = keep
    whole = {
        "evidence": "log",
        "files": "kept",
        "spliced": False,
        "ansi": False,
        "cut": False,
        "stacks": 0,
        "dmesg": False,
    }
    played = jobs.make(seed, scenario=scenario, **{**whole, "lost_launcher": False, "lost_logs": (), **knobs})
    return played, *kept[0]


def write(folder: Path, name: str, job: Job, lines: list[Line]) -> Path:
    """Those lines in one of the layouts."""
    files.write(folder, {**LAYOUTS[name](job, lines, "4711")})
    return folder
