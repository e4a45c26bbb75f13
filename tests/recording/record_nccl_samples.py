"""Records real NCCL incidents with capture and the collector: ``python tests/recording/record_nccl_samples.py [NAME…] [--into FOLDER]``.

Needs a machine with one or more GPUs, torch with CUDA, and py-spy; two to three minutes for each case. ``--backend gloo`` is a dry run
of the same jobs on a CPU, which tries all but NCCL itself. Each case becomes a folder like those of ``sample_logs/``, with
``expected.toml`` and neutral names; one that did not show what it should, or still names the machine, is removed and fails the run.

NCCL refuses two ranks on one GPU of one host ("Duplicate GPU detected", ``init.cc``), also under MPS. It compares hosts by a hash,
which ``NCCL_HOSTID`` overrides. Where there are fewer GPUs than ranks, each rank gets a host id of its own and the transport of other
hosts, sockets; a job without a fault is tried first. Where that fails, too, each GPU has one rank. One rank alone can only have the
cases that need no peer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from recording.neutral import Machine, Neutral, leaks

import nccldoctor
from nccldoctor.collect.gather import gather_bundle
from nccldoctor.collect.node_options import NodeOptions
from nccldoctor.collect.reach.this_machine import ThisMachine
from nccldoctor.model.ranks import Ranks

SCRIPT = Path(__file__).with_name("gpu_job.py")
RANKS = 3
"""With three, a majority shows which of two sizes is wrong."""
STALL_S = 8
"""Seconds without progress after which capture looks: long before the timeout of the groups."""

START_S, END_S = 180.0, 240.0
"""Seconds until the fault shows, and until a job has ended by its own watchdog and heartbeat monitor."""

SETTINGS = {
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "60",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "NCCL_DEBUG": "WARN",
}
SHARED_GPU = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One incident: its truth, and the text that its logs must hold on NCCL. ``alone``: one rank suffices."""

    about: str
    classes: tuple[str, ...]
    on_gloo: tuple[str, ...]
    shows: str = "Watchdog caught collective operation timeout"
    alone: bool = False


_LATE = ("not-arrived",)
_DEVICE = ("device-stalled", "not-arrived", "unfinished")
CASES = {
    "late-loader": Case("One rank waits for a data shard; the watchdog times out and dumps", _LATE, _LATE),
    "endless-kernel": Case("A kernel of one rank never ends", _DEVICE, _LATE, alone=True),
    "stuck-heartbeat": Case(
        "A kernel of one rank never ends, and its watchdog is stuck in the driver",
        _DEVICE,
        _LATE,
        shows="watchdog got stuck|detects no heartbeat|[Hh]eartbeat monitor timed out",
        alone=True,
    ),
    "wrong-shape": Case("One rank reduces a tensor of another size", ("size-mismatch",), ("size-mismatch",)),
    "missing-rank": Case("One rank is never started", ("init",), ("init",), shows=r"(?i)timed? ?out"),
    "killed": Case("One rank is killed by SIGKILL", ("died",), ("died",), shows=""),
}
"""All cases; the last rank of a job has the fault."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How ranks are placed: on which backend, on how many GPUs."""

    backend: str
    ranks: int
    gpus: int = 0

    def variables(self, rank: int, port: int, fault: str) -> dict[str, str]:
        """The environment of a rank; the last one has the fault. No command line tells it: the collector reads those."""
        told = {
            "JOB_FAULT": fault if rank == self.ranks - 1 else "",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.ranks),
            "LOCAL_WORLD_SIZE": str(self.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join(
                [str(Path(nccldoctor.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
            ),
        }
        if self.backend == "gloo":
            return told | {"GLOO_SOCKET_IFNAME": "lo"}
        told |= SETTINGS | {"CUDA_VISIBLE_DEVICES": str(rank % self.gpus)}
        return told | (SHARED_GPU | {"NCCL_HOSTID": f"host{rank}"} if self.gpus < self.ranks else {})

    def can_have(self, case: Case) -> bool:
        """False where the case needs a peer and there is none."""
        return self.ranks > 1 or case.alone


@dataclass(slots=True)
class Job:
    """Ranks that run, by number, how many there should be, and the folder with ``logs/`` and ``capture/``."""

    folder: Path
    ranks: int
    processes: dict[int, subprocess.Popen[bytes]]

    @property
    def pids(self) -> list[int]:
        """The processes that have not ended."""
        return [process.pid for process in self.processes.values() if process.poll() is None]

    def has_shown(self) -> bool:
        """True once a look came after the last step, or no process is left."""
        logs = list((self.folder / "capture").glob("rank_*.log"))
        beats = [log.stat().st_mtime for log in logs if "heartbeat: step=" in log.read_text(errors="replace")]
        looks = [look.stat().st_mtime for look in (self.folder / "capture" / "stacks").glob("*/rank_*.txt")]
        is_late = bool(looks) and max(looks) > max(beats, default=0.0) and (bool(beats) or len(logs) < self.ranks)
        return is_late or not self.pids

    def text(self) -> str:
        """All logs of the ranks."""
        return "\n".join(log.read_text(errors="replace") for log in sorted((self.folder / "logs").glob("*.log")))


@contextmanager
def running(plan: Plan, fault: str, folder: Path) -> Iterator[Job]:
    """A job with that fault on its last rank; when the block is left, none of its processes is."""
    for name in ("logs", "work"):
        (folder / name).mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    job = Job(folder, plan.ranks, {})
    try:
        for rank in range(plan.ranks - (fault == "missing-rank")):
            command = [sys.executable, "-m", "nccldoctor.capture", "--to", str(folder / "capture")]
            command += ["--stall-after", str(STALL_S), str(SCRIPT), plan.backend]
            with (folder / "logs" / f"rank_{rank}.log").open("wb") as log:
                job.processes[rank] = subprocess.Popen(
                    command,
                    cwd=folder / "work",
                    env=os.environ | plan.variables(rank, port, fault),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        yield job
    finally:
        for process in job.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def is_so_within(seconds: float, is_so: Callable[[], bool]) -> bool:
    """Ask again and again; False where the time is over."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def gpu_count() -> int:
    """The GPUs that torch sees here, 0 without any. A process of its own asks, since CUDA does not survive a fork."""
    asked = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.stdout.strip().isdecimal() else 0


def make_plan(backend: str, ranks: int) -> Plan:
    """Where ranks stand. Raises :class:`SystemExit` where NCCL has no GPU."""
    if backend == "gloo":
        return Plan(backend, ranks)
    gpus = gpu_count()
    if not gpus:
        raise SystemExit("torch sees no GPU here; --backend gloo is a dry run")
    if gpus < ranks and not runs_well(Plan(backend, ranks, gpus)):
        print(f"NCCL does not share a GPU here: one rank on each of {gpus}")
        return Plan(backend, gpus, gpus)
    return Plan(backend, ranks, gpus)


def runs_well(plan: Plan) -> bool:
    """True where a job without a fault comes to its end."""
    with tempfile.TemporaryDirectory() as scratch, running(plan, "none", Path(scratch)) as job:
        is_over = is_so_within(START_S, lambda: not job.pids)
        return is_over and all(process.returncode == 0 for process in job.processes.values())


def record(name: str, plan: Plan, into: Path) -> str:
    """Run one case and write its sample to ``into``, a new folder; what is wrong with it, or ""."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as scratch, running(plan, name, Path(scratch)) as job:
        if not is_so_within(START_S, job.has_shown):
            return f"the fault did not show within {START_S:.0f} s"
        if job.pids:
            options = NodeOptions(pid=",".join(map(str, job.pids)), twice=3.0, seconds=30.0)
            gather_bundle(ThisMachine(), options, job.folder / "bundle.tar.zst", python=sys.executable)
        if plan.backend == "nccl":
            if not is_so_within(END_S, lambda: not job.pids):
                print(f"{name}: the job has not ended within {END_S:.0f} s; its files until then are kept")
            if not re.search(case.shows, job.text()):
                return f"no log holds {case.shows!r}"
        machine = machine_of(job.folder, into)
        write_sample(job.folder, into, Neutral(machine))
    (into / "expected.toml").write_text(truth(name, plan, versions()))
    if left := list(leaks(into, machine)):
        shutil.rmtree(into)
        return "still names this machine: " + "; ".join(left[:20])
    return ""


def machine_of(folder: Path, into: Path) -> Machine:
    """This machine, with the folders of a job and of its sample."""
    folders = {str(SCRIPT): "/opt/train/train.py", SCRIPT.name: "train.py", str(folder / "work"): "/opt/train/run"}
    return Machine.here(folders | {str(folder): "/var/log/train", str(into.parent): "/opt/train/samples"})


KEPT_OF_NODE = ("processes", "versions", "ras")
"""Kinds of files of a whole node that a sample keeps: the others tell of the machine, or are the output of this script."""


def write_sample(folder: Path, into: Path, neutral: Neutral) -> None:
    """Neutral copies of the logs, of what capture left, and of the bundle as a folder."""
    for part in ("logs", "capture"):
        for path in sorted(path for path in (folder / part).rglob("*") if path.is_file()):
            neutral.keep(path, into / part / path.relative_to(folder / part), node=0)
    if (folder / "bundle.tar.zst").exists():
        unpacked = folder / "unpacked"
        unpack(folder / "bundle.tar.zst", unpacked)
        keep_bundle(unpacked, into / "bundle", neutral)


def unpack(bundle: Path, into: Path) -> None:
    """The files of a bundle of ours."""
    import zstandard

    with (
        bundle.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        archive.extractall(into, filter="data")


def keep_bundle(unpacked: Path, into: Path, neutral: Neutral) -> None:
    """The files of ranks and the manifest, which names what is kept alone."""
    manifest = json.loads((unpacked / "manifest.json").read_text())
    rows = [row for row in manifest["files"] if row.get("rank") is not None or row.get("kind") in KEPT_OF_NODE]
    for row in rows:
        neutral.keep(unpacked / row["path"], into / neutral.text(row["path"], 0), node=0)
    told: dict[str, Any] = neutral.value(manifest | {"files": rows}, 0)
    (into / "manifest.json").write_text(json.dumps(told, indent=1) + "\n")


def versions() -> str:
    """Torch, NCCL, the driver and the GPU, as far as they are there."""
    asked = (
        "import torch; c = torch.cuda; print('torch', torch.__version__, *(['NCCL', '.'.join(map(str, c.nccl.version())),"
        " c.get_device_name(0)] if c.is_available() else ['on CPU with gloo']))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def truth(name: str, plan: Plan, versions: str) -> str:
    """The text of ``expected.toml``: what is known because the fault was made."""
    case, culprit = CASES[name], plan.ranks - 1
    classes = case.on_gloo if plan.backend == "gloo" else case.classes
    shared = "several ranks share a GPU under NCCL_HOSTID" if plan.gpus < plan.ranks else "each rank has a GPU"
    placed = shared if plan.gpus else "no GPU"
    innocent = Ranks(range(culprit))
    quoted = ", ".join(f'"{word}"' for word in classes)
    return f"""about = "{case.about}"

[origin]
kind = "recorded"
how = "tests/recording/record_nccl_samples.py {name}"
versions = "{versions}"
notes = "{plan.ranks} ranks on one host, {placed}. Looked at by nccldoctor.capture and nccldoctor collect before the timeout; paths, \
host and user names replaced by neutral ones."

[verdict]
class = [{quoted}]
ranks = "{culprit}"

[must_not_find]
classes = []
blamed = "{innocent}"
"""


def main() -> None:
    """Record the named cases, all that the machine can have by default, and tell the verdict on each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + ", ".join(CASES))
    parser.add_argument(
        "--into", type=Path, default=Path("nccl-samples"), help="folder for the samples; each is replaced"
    )
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--ranks", type=int, default=RANKS)
    args = parser.parse_args()
    if unknown := set(args.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    plan = make_plan(args.backend, args.ranks)
    has_failed = False
    for name in args.names or [name for name, case in CASES.items() if plan.can_have(case)]:
        target = args.into / f"nccl-{name}"
        shutil.rmtree(target, ignore_errors=True)
        problem = record(name, plan, target.absolute())
        has_failed = has_failed or bool(problem)
        print(f"{name}: {problem or told_of(target)}", flush=True)
    sys.exit(1 if has_failed else 0)


def told_of(sample: Path) -> str:
    """How many files a sample has, and what an analysis says of them."""
    count = sum(path.is_file() for path in sample.rglob("*"))
    evidence = [path for name in ("logs", "capture", "bundle") if (path := sample / name).exists()]
    found = nccldoctor.analyze(evidence).verdict
    return f"{count} files; {found.cause}, ranks {found.ranks or '-'}, {found.confidence}: {found.headline}"


if __name__ == "__main__":
    main()
