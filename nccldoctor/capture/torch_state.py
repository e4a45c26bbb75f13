"""Reads from torch what a rank has done: groups, sequence numbers, steps, recorded calls. Nothing is patched, and nothing is imported.

Torch is looked at once the job itself has imported it: a script may set variables before that. A count of calls is the sequence
number of a group (``ProcessGroup._get_sequence_number_for_group``), steps are those of the first optimizer that steps
(``torch.optim.optimizer.register_optimizer_step_post_hook``).
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nccldoctor.capture.evidence import RECORDERS, Scratch


@dataclass(frozen=True, slots=True)
class Group:
    """One process group of this rank; ``timeout_s`` is None where its backend does not say."""

    name: str
    desc: str
    ranks: tuple[int, ...]
    backend: str
    timeout_s: float | None

    def to_line(self) -> str:
        """The group as its line in the log says it."""
        more = f", timeout {self.timeout_s:g} s" if self.timeout_s is not None else ""
        return f"process group {self.name} ({self.desc}): backend {self.backend}, ranks {list(self.ranks)}{more}"


def loaded(name: str) -> Any:
    """A module that the job has imported to its end; None for others."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return None if module is None or getattr(spec, "_initializing", False) else module


class TorchState:
    """What torch knows about this rank. Before the job imports torch, everything is empty."""

    def __init__(self) -> None:
        self.optimizer_steps = 0
        self._lead: int | None = None
        self._hook: Any = None

    def attach(self) -> None:
        """Count optimizer steps from now on, once torch is there."""
        optimizer = loaded("torch.optim.optimizer")
        register = getattr(optimizer, "register_optimizer_step_post_hook", None)
        if self._hook is None and register is not None and loaded("torch") is not None:
            self._hook = register(self._count_step)

    def detach(self) -> None:
        """Stop counting."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _count_step(self, optimizer: object, args: object, kwargs: object) -> None:
        if self._lead is None:
            self._lead = id(optimizer)
        if self._lead == id(optimizer):
            self.optimizer_steps += 1

    def calls(self) -> tuple[int, ...]:
        """The sequence number of each group, in the order in which the groups were made."""
        return tuple(_sequence_number(group) for group in _handles())

    def signs(self) -> tuple[int, ...]:
        """What changes as the rank goes on: calls, and modules while it still imports."""
        return (len(sys.modules), *self.calls())

    def groups(self) -> list[Group]:
        """The groups that this rank is a member of."""
        c10d = loaded("torch.distributed.distributed_c10d")
        return [_described(c10d, handle) for handle in _handles()]

    @property
    def has_group(self) -> bool:
        """True between the making of the first process group and the end of the last."""
        return bool(_handles())


def versions() -> Iterator[str]:
    """Lines as ``torch.utils.collect_env`` prints them; without torch that of Python alone."""
    yield "Python version: {}.{}.{}".format(*sys.version_info[:3])
    torch = loaded("torch")
    if torch is None:
        return
    yield f"PyTorch version: {torch.__version__}"
    if torch.version.cuda:
        yield f"CUDA used to build PyTorch: {torch.version.cuda}"
    with suppress(Exception):
        yield "NCCL version {}".format(".".join(map(str, torch.cuda.nccl.version()[:3])))


def recorder_dumps() -> Iterator[tuple[str, bytes]]:
    """The recorders of this process as pickles, by the stem of their files: NCCL's, then the others'.

    A recorder without entries is left out.
    """
    c10d = getattr(loaded("torch._C"), "_distributed_c10d", None)
    for stem, name in zip(RECORDERS, ("_dump_nccl_trace", "_dump_fr_trace"), strict=True):
        dump = getattr(c10d, name, None)
        if dump is not None:
            content = dump()
            if b"profiling_name" in content:
                yield stem, content


def ask_torch_for_dump(scratch: Scratch, rank: int | None) -> None:
    """Write into the pipe that a thread of torch's NCCL process group serves, where there is one."""
    pipe = Path(f"{scratch.pipe_stem}{rank}.pipe")
    with suppress(OSError):
        if stat.S_ISFIFO(pipe.stat().st_mode):
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(descriptor, b"1")
            finally:
                os.close(descriptor)


def _handles() -> list[Any]:
    world = getattr(loaded("torch.distributed.distributed_c10d"), "_world", None)
    return list(getattr(world, "pg_map", ()))


def _sequence_number(group: Any) -> int:
    try:
        return int(group._get_sequence_number_for_group())
    except Exception:  # a backend without sequence numbers
        return -1


def _described(c10d: Any, handle: Any) -> Group:
    world = c10d._world
    return Group(
        name=str(world.pg_names.get(handle, "?")),
        desc=str(getattr(handle, "group_desc", "") or "undefined"),
        ranks=tuple(sorted(world.pg_group_ranks.get(handle, ()))),
        backend=str(world.pg_map.get(handle, ("?",))[0]),
        timeout_s=_timeout(handle),
    )


def _timeout(handle: Any) -> float | None:
    """The shortest timeout of the group's backends in seconds."""
    found = []
    for device in getattr(handle, "_device_types", ()):
        with suppress(Exception):
            found.append(handle._get_backend(device).options._timeout.total_seconds())
    return min(found, default=None)
