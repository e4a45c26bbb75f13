"""Describes a process of the job: which rank it is, or whose worker."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timezone
from typing import Any

from nccldoctor.collect.on_node.masking import masked_command
from nccldoctor.collect.on_node.variables import (
    JOB_VARIABLES,
    LOCAL_RANKS,
    NODE_RANKS,
    RANK_VARIABLES,
    first_number,
    number_in,
)

LAUNCHER = re.compile(
    r"(?:(?:\S*/)?(?:python|pypy)\S* (?:-[XW] \S+ |-\w*[^\Wc] )*)?"
    r"(?:\S*/)?(?:(?:torchrun|torch_distributed_run|deepspeed|accelerate-launch|mpirun|mpiexec[^\s/]*|orterun|prte|srun"
    r"|slurmstepd:?|horovodrun|ray|jsrun|accelerate launch"
    r"|(?:torch[./]distributed[./](?:run|launch)|accelerate[./]commands[./]\w+|deepspeed[./]launcher[./]\w+)(?:\.py)?) )"
)
"""Commands that start ranks and are none, although they may have a rank in their environment: by what runs, not by arguments."""


SIDECAR = re.compile(r"(?:^|/)nccldoctor/capture/sidecar\.py$")
"""The program that ``nccldoctor.capture`` runs beside each rank; its last word says where the rank leaves its files."""


class CaptureFolder:
    """Where capture keeps the files of one rank: ``top`` is the folder that all ranks share.

    ``stem`` is how its files begin: ``rank_3``, or ``pid_4711`` where the rank is not known. ``pid`` is the rank's.
    """

    def __init__(self, top: str, stem: str, pid: int) -> None:
        self.top = top
        self.pid = pid
        self.stem = stem
        self.rank = number_in(stem[len("rank_") :]) if stem.startswith("rank_") else None

    @classmethod
    def told_by(cls, words: list[str]) -> CaptureFolder | None:
        """What the command line of a sidecar tells; None for that of any other program."""
        if not any(SIDECAR.search(word) for word in words[:6]):
            return None
        try:
            told = json.loads(words[-1])
            log, stem, pid = str(told["log"]), str(told["stem"]), int(told["pid"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        is_plain = os.path.isabs(log) and os.path.normpath(log) == log
        is_ours = is_plain and re.fullmatch(r"(?:rank|pid)_[0-9]{1,9}", stem) and os.path.basename(log) == f"{stem}.log"
        return cls(os.path.dirname(log), stem, pid) if is_ours else None


class Process:
    """A process of the job: a rank, or a worker that a rank has started, whose pid is ``of``."""

    def __init__(self, seen: dict[str, Any]) -> None:
        self.pid: int = seen["pid"]
        self.parent: int = seen["parent"]
        self.started: float = seen["started"]
        self.user: int = seen["user"]
        self.state: str = seen["state"]
        self.comm: str = seen["comm"]
        self.words: list[str] = seen["words"]
        self.exe: str = seen["exe"]
        self.env: dict[str, str] = seen["env"]
        self.secrets: list[str] = seen["secrets"]
        self.wchan: str | None = None
        self.of: int | None = None
        self.has_ended = False
        self.capture: CaptureFolder | None = None
        self.job = " ".join(f"{name}={self.env[name]}" for name in JOB_VARIABLES if self.env.get(name))[:500]
        self.looks: list[dict[str, Any]] = []
        self.work: list[int] = []
        self.rank, self.world_size = self._identity()
        self.local_rank = first_number(self.env, LOCAL_RANKS)
        if self.local_rank is None:
            hit = re.search(r"--local[-_]rank[= ]([0-9]{1,9})\b", " ".join(self.words))
            self.local_rank = int(hit.group(1)) if hit else None

    def _identity(self) -> tuple[int | None, int | None]:
        for names in RANK_VARIABLES:
            rank, size, *more = (number_in(self.env.get(name, "")) for name in names)
            if rank is not None and size is not None and None not in more and (names[0] != "LOCAL_RANK" or more == [0]):
                return rank, size
        return None, None

    @property
    def identity(self) -> tuple[Any, ...]:
        """What a worker has in common with its rank, and two ranks have not."""
        return self.rank, self.world_size, self.local_rank

    @property
    def name(self) -> str:
        """How messages call it."""
        if self.of is not None:
            return (
                f"worker {self.pid} of rank {self.rank}"
                if self.rank is not None
                else f"worker {self.pid} of process {self.of}"
            )
        return f"rank {self.rank} (pid {self.pid})" if self.rank is not None else f"pid {self.pid}"

    @property
    def is_python(self) -> bool:
        """True where its executable is a Python."""
        names = [os.path.basename(name) for name in (self.exe, *self.words[:1])]
        return any(re.match(r"(?:python|pypy|pt_main_thread|VLLM|sglang|ray::)", name) for name in names)

    @property
    def is_launcher(self) -> bool:
        """True of torchrun and its like, by the program: a rank may have such a name in an argument."""
        return LAUNCHER.match(" ".join([*self.words[:9], ""])) is not None

    @property
    def is_collector(self) -> bool:
        """True of this program in another process: ``srun`` gives it the variables of a rank."""
        return self.words[1:4] == ["-I", "-", "--pid"]

    @property
    def is_beside(self) -> bool:
        """True of what capture and Python's multiprocessing run beside a rank, and no work of it waits for."""
        return any(SIDECAR.search(word) or "resource_tracker" in word for word in self.words[:6])

    def gpu(self) -> str | None:
        """The device that it uses, by CUDA_VISIBLE_DEVICES and its local rank."""
        visible = self.env.get("CUDA_VISIBLE_DEVICES") or self.env.get("HIP_VISIBLE_DEVICES") or ""
        devices = [name.strip() for name in visible.split(",") if name.strip()]
        if len(devices) == 1:
            return devices[0]
        if devices and self.local_rank is not None and self.local_rank < len(devices):
            return devices[self.local_rank]
        return None

    def row(self) -> dict[str, Any]:
        """Its row in ``node.json``."""
        return {
            "pid": self.pid,
            "rank": self.rank,
            "job": self.job,
            "ended": self.has_ended,
            "local_rank": self.local_rank,
            "world_size": self.world_size,
            "node_rank": first_number(self.env, NODE_RANKS),
            "master_addr": self.env.get("MASTER_ADDR"),
            "gpu": self.gpu(),
            "state": self.state,
            "wchan": self.wchan,
            "command": masked_command(self.words),
            "of": self.of,
            "started": datetime.fromtimestamp(self.started, timezone.utc).astimezone().isoformat(timespec="seconds"),
            "looks": self.looks,
        }
