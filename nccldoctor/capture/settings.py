"""The variables that capture sets before torch makes its first process group, reports, and warns about.

What the user set is never changed. Names and readers: pytorch ``FlightRecorder.hpp`` and ``ProcessGroupNCCL.hpp`` of 2.2 to 2.13. From
2.8 the recorder looks at the first name of a pair and then at the second; before, and in parts of ProcessGroupNCCL up to 2.9, only the
second is read. A release that knows the first warns about the second, once in each rank: 2.10 and newer are not given it.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from nccldoctor.words.secrets import is_secret, masked

ENTRIES = "2000"
"""Calls that the recorder keeps, PyTorch 2.13's own default."""

_SAME_SETTING = (
    ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
    ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
)

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_OFF = ("0", "n", "no", "f", "false", "off")
_ON = ("1", "y", "yes", "t", "true", "on")


def torch_release() -> tuple[int, int] | None:
    """The release of the torch that an import would load; None where no file tells."""
    with suppress(Exception):
        found = importlib.util.find_spec("torch")
        file = Path(found.origin).with_name("version.py") if found is not None and found.origin else None
        hit = _RELEASE.search(file.read_text(encoding="utf-8")) if file is not None else None
        return (int(hit[1]), int(hit[2])) if hit is not None else None
    return None


_RELEASE = re.compile(r"^__version__ = ['\"](\d{1,3})\.(\d{1,3})\b", re.MULTILINE)


def recorder_variables(
    environment: Mapping[str, str], dumps: Path, pipe_stem: Path, release: tuple[int, int] | None = None
) -> dict[str, str]:
    """What to set so that ``release`` records calls and dumps them, None for any release.

    Nothing that is set already is set again.

    A setting with two names gets the value that the user gave to either. Torch appends the
    rank to ``pipe_stem``.
    """
    wanted = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1", PIPE: str(pipe_stem)}
    # torch appends the global rank
    for names, usual in zip(_SAME_SETTING, (ENTRIES, str(dumps / "nccl_trace_rank_")), strict=True):
        given = next((environment[name] for name in names if name in environment), usual)
        is_new = release is not None and release >= (2, 10)  # from here on nothing reads the second names alone
        wanted |= dict.fromkeys(names[:1] if is_new else names, given)
    return {name: value for name, value in wanted.items() if name not in environment}


_UNREAD = (
    *("NCCL_TIMEOUT", "NCCL_TIMEOUT_MS", "TORCH_NCCL_TIMEOUT", "TORCH_DIST_TIMEOUT", "NCCL_P2P_TIMEOUT"),
    *("GLOO_TIMEOUT", "TORCH_GLOO_TIMEOUT", "TORCH_NCCL_FLIGHT_RECORDER_ENABLED", "TORCH_NCCL_DUMP_ON_EXCEPTION"),
)
"""Names that neither NCCL nor PyTorch reads (no such text in the libraries of 2.13)."""


def defeating(environment: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each setting that keeps evidence from being written, or has no effect."""
    for name in _SAME_SETTING[0]:
        if environment.get(name, "").strip() == "0":
            yield f"{name}=0 turns the flight recorder off: no call is recorded"
    if _is_one_of(environment, "TORCH_NCCL_DUMP_ON_TIMEOUT", _OFF):
        yield "TORCH_NCCL_DUMP_ON_TIMEOUT=0 keeps the watchdog from writing a dump at a timeout"
    if _is_one_of(environment, "TORCH_NCCL_ENABLE_MONITORING", _OFF):
        yield "TORCH_NCCL_ENABLE_MONITORING=0 turns off the thread that writes dumps"
    for name in ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"):
        if _is_one_of(environment, name, _ON):
            yield f"{name}={environment[name]} turns off the watchdog and every dump it writes"
    if _is_one_of(environment, "TORCH_INCLUDE_ONLY_ACTIVE", _ON):
        yield "TORCH_INCLUDE_ONLY_ACTIVE leaves finished calls out of the dumps, so that ranks can't be compared"
    for name in _UNREAD:
        if name in environment:
            yield f"nothing reads {name}: the timeout of a group is the argument of init_process_group and new_group"


def _is_one_of(environment: Mapping[str, str], name: str, words: tuple[str, ...]) -> bool:
    return environment.get(name, "").strip().lower() in words


_SHOWN = re.compile(
    r"(?:NCCL|TORCH_NCCL|TORCH_FR|TORCH_DIST|GLOO|UCX|FI|OFI_NCCL|SHARP_COLL|NVSHMEM)_[A-Z0-9_]{1,80}"
    r"|TORCH_DISTRIBUTED_DEBUG|TORCHELASTIC_RESTART_COUNT|CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING|CUDA_DEVICE_MAX_CONNECTIONS"
    r"|MASTER_ADDR|MASTER_PORT|WORLD_SIZE|LOCAL_WORLD_SIZE|RANK|LOCAL_RANK|GROUP_RANK|OMP_NUM_THREADS|PYTORCH(?:_CUDA)?_ALLOC_CONF"
    r"|TOKENIZERS_PARALLELISM"
)


def shown(environment: Mapping[str, str] | None = None) -> list[str]:
    """``NAME=value`` of the variables that matter for collectives, by name; others, and names of secrets, are left out."""
    taken = sorted((os.environ if environment is None else environment).items())
    return [
        f"{name}={masked(' '.join(value.split()))[:300]}"
        for name, value in taken
        if _SHOWN.fullmatch(name) and not is_secret(name)
    ]
