"""Records real incidents for ``sample_logs/``: ``python tests/recording/record_samples.py [NAME…]`` (needs torch, 20 s each).

Each case runs ``recorded_job.py`` under two torchrun agents, as on two nodes with four ranks each, with one fault.
What comes out: the launchers' and the ranks' logs, recorder dumps, stacks. Paths and host names of the machine are
replaced by neutral ones; nothing else is changed, and ``expected.toml`` is written by hand.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from recording.neutral import Machine, Neutral

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parents[1] / "sample_logs"
NODES, LOCAL = 2, 4
LIMIT = 300.0  # seconds for one job, start-up of eight interpreters included


@dataclass(frozen=True, slots=True)
class Case:
    """One recording: the fault, the rank that has it, and how often the launcher looks at its children."""

    fault: str
    rank: int
    monitor: float = 0.1


CASES = {
    "healthy": Case("healthy", -1),
    "not-arrived": Case("stuck-loader", 6),
    "late-rank-three-groups": Case("stuck-forward", 1),
    "died": Case("killed", 3, monitor=5.0),
    "raised": Case("raised", 6, monitor=5.0),
    "size-mismatch": Case("size", 2, monitor=5.0),
    "missed-call": Case("skipped", 5, monitor=5.0),
}


def record(name: str, into: Path) -> None:
    """Run one case and put its neutral files into ``into``, which must be empty or missing."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch)
        (raw / "work").mkdir()
        port = _free_port()
        agents = [_agent(case, node, port, raw) for node in range(NODES)]
        for agent in agents:
            try:
                agent.wait(LIMIT)
            except subprocess.TimeoutExpired:
                agent.kill()
                raise
        neutral = Neutral(machine_of(raw))
        for node in range(NODES):
            neutral.keep(raw / f"agent_{node}.log", into / f"node{node}" / "torchrun.log", node)
            for log in sorted((raw / f"logs_{node}").rglob("stderr.log")):
                local = int(log.parent.name)
                neutral.keep(log, into / f"node{node}" / f"rank_{node * LOCAL + local}.log", node)
        for dump in sorted(raw.glob("work/fr_trace_*")):
            neutral.keep(dump, into / "dumps" / dump.name, _node(dump.name))
        for stacks in sorted(raw.glob("work/stacks_*.txt")):
            neutral.keep(stacks, into / "stacks" / stacks.name, _node(stacks.stem))


def machine_of(raw: Path) -> Machine:
    """This machine, with the folders of a job."""
    script = HERE / "recorded_job.py"
    folders = {str(script): "/opt/train/train.py", script.name: "train.py", str(raw / "work"): "/opt/train/run"}
    return Machine.here(folders | {str(raw): "/var/log/train"})


def _agent(case: Case, node: int, port: int, raw: Path) -> subprocess.Popen[bytes]:
    env = os.environ | {"TORCH_FR_BUFFER_SIZE": "200", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    env |= {"TORCH_SHOW_CPP_STACKTRACES": "0", "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={NODES}", f"--nproc-per-node={LOCAL}"]
    command += [f"--node-rank={node}", "--master-addr=127.0.0.1", f"--master-port={port}", "--redirects=3"]
    command += [f"--log-dir={raw / f'logs_{node}'}", f"--monitor-interval={case.monitor}"]
    command += [str(HERE / "recorded_job.py"), case.fault, f"--rank={case.rank}", f"--out={raw / 'work'}"]
    with (raw / f"agent_{node}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=raw / "work", env=env)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _node(name: str) -> int:
    return int(name.rsplit("_", 1)[1]) // LOCAL


def main() -> None:
    """Record the named cases, all by default, over what ``sample_logs/`` holds of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + ", ".join(CASES))
    parser.add_argument("--into", type=Path, default=SAMPLES)
    args = parser.parse_args()
    for name in args.names or CASES:
        target = args.into / name
        for old in ("node0", "node1", "dumps", "stacks"):
            shutil.rmtree(target / old, ignore_errors=True)
        record(name, target)
        print(f"{name}: {sum(p.is_file() for p in target.rglob('*'))} files")


if __name__ == "__main__":
    main()
