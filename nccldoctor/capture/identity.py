"""Says which rank this process is, from the variables that launchers set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
_WORLD = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
"""What torchrun, srun, Open MPI, MPICH and MVAPICH set, in this order."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of a job.

    ``rank`` is the global rank and ``world`` the number of ranks; None where no variable says it. ``attempt`` counts restarts from 0 on.
    """

    rank: int | None
    world: int | None
    host: str
    pid: int
    attempt: int | None = None

    @property
    def stem(self) -> str:
        """How its files begin: ``rank_3``, or ``pid_4711`` where the rank is not known."""
        return f"rank_{self.rank}" if self.rank is not None else f"pid_{self.pid}"

    @property
    def suffix(self) -> str:
        """How its dumps end."""
        return str(self.rank) if self.rank is not None else self.stem

    @property
    def label(self) -> str:
        """How its lines begin."""
        return f"[rank {self.rank}]" if self.rank is not None else f"[pid {self.pid}]"


def identity_of(environment: Mapping[str, str], rank: int | None = None) -> Identity:
    """Who runs here, by ``rank`` where it is given and by the launcher's variables otherwise."""
    return Identity(
        rank=rank if rank is not None else _whole_number(environment, _RANK),
        world=_whole_number(environment, _WORLD),
        host=os.uname().nodename,
        pid=os.getpid(),
        attempt=_whole_number(environment, ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")),
    )


def _whole_number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    values = (environment.get(name, "") for name in names)
    return next((int(value) for value in values if value.isascii() and value.isdecimal() and len(value) < 10), None)
