"""Environment variables where they are set: shells, job scripts, containers, Python, dumps of an environment.

A mention is no setting: advice in error messages (``consider passing CUDA_LAUNCH_BLOCKING=1``), comments and prose
are passed over, which is why each form is tied to the shape of its line. Only variables of libraries that take part
in distributed training count; values with secret-looking names are masked, and the event's text holds the variable
alone, not its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, Setting
from nccldoctor.parsers.base import Line, LineParser, Sample, common, line_parser
from nccldoctor.parsers.settings.assignments import MOST, assignments

_SECRET = ("TOKEN", "SECRET", "PASSW", "KEY", "CREDENTIAL", "AUTH")


def shown(name: str, value: str) -> str:
    """The value as it may be shown: without quotes, masked where the name, or a password in an address, says so."""
    text = value.strip().rstrip("\\").strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    if any(word in name for word in _SECRET):
        return "***"
    return re.sub(r"://[^/@\s]{1,200}@", "://***@", text)[:300]


@line_parser
class EnvironmentParser(LineParser):
    """One event for each variable that a line sets."""

    literals = (
        "NCCL_",
        "TORCH_",
        "TORCHELASTIC_",
        "GLOO_",
        "CUDA_",
        "FI_",
        "UCX_",
        "MASTER_",
        "SHARP_COLL_",
        "NVSHMEM_",
        "WORLD_SIZE",
        "RANK",
        "TP_SOCKET_IFNAME",
        "PYTORCH_ALLOC_CONF",
        "DEEPSPEED_TIMEOUT",
        "OMP_NUM_THREADS=",
        "TOKENIZERS_PARALLELISM=",
        "TORCHINDUCTOR_",
        "TRITON_CACHE_DIR",
    )
    samples = (
        Sample(
            "export NCCL_TIMEOUT=3600  # 1-hour timeout for debugging",
            ({"kind": "setting", "name": "NCCL_TIMEOUT", "value": "3600"},),
            "POSIX shell",
        ),
        Sample(
            "CUDA_VISIBLE_DEVICES=0,1 NCCL_DEBUG=INFO torchrun --nproc-per-node 2 train.py",
            (
                {"kind": "setting", "name": "CUDA_VISIBLE_DEVICES", "value": "0,1"},
                {"kind": "setting", "name": "NCCL_DEBUG", "value": "INFO"},
            ),
            "POSIX shell",
        ),
        Sample(
            "#SBATCH --export=ALL,NCCL_IB_DISABLE=1,NCCL_DEBUG=WARN",
            (
                {"kind": "setting", "name": "NCCL_IB_DISABLE", "value": "1"},
                {"kind": "setting", "name": "NCCL_DEBUG", "value": "WARN"},
            ),
            "Slurm sbatch(1)",
        ),
        Sample(
            'os.environ["NCCL_BLOCKING_WAIT"] = "1"',
            ({"kind": "setting", "name": "NCCL_BLOCKING_WAIT", "value": "1"},),
            "Python os.environ",
        ),
        Sample(
            'os.environ.setdefault("NCCL_DEBUG", "WARN")',
            ({"kind": "setting", "name": "NCCL_DEBUG", "value": "WARN"},),
            "Python os.environ",
        ),
        Sample(
            '        - name: NCCL_SOCKET_IFNAME\n          value: "eth0"',
            ({"kind": "setting", "name": "NCCL_SOCKET_IFNAME", "value": "eth0"},),
            "Kubernetes pod specification",
        ),
        Sample(
            "ENV NCCL_DEBUG INFO",
            ({"kind": "setting", "name": "NCCL_DEBUG", "value": "INFO"},),
            "Dockerfile reference, ENV",
        ),
        Sample(
            "mpirun -np 16 -x NCCL_DEBUG=INFO -x PATH ./train",
            ({"kind": "setting", "name": "NCCL_DEBUG", "value": "INFO"},),
            "Open MPI mpirun(1)",
        ),
        Sample(
            "environ({'HOME': '/root', 'NCCL_DEBUG': 'INFO', 'RANK': '3', 'API_TOKEN': 'x'})",
            (
                {"kind": "setting", "name": "NCCL_DEBUG", "text": "NCCL_DEBUG=INFO"},
                {"kind": "setting", "name": "RANK", "value": "3"},
            ),
            "Python repr of os.environ",
        ),
        Sample(
            "[rank0]:[I1120 09:35:10.336386705 ProcessGroupNCCL.cpp:984] [PG ID 0 PG GUID 0 Rank 0] "
            "ProcessGroupNCCL environments: NCCL version: "
            "2.21.5, TORCH_NCCL_ASYNC_ERROR_HANDLING: 3, TORCH_NCCL_DUMP_ON_TIMEOUT: 0",
            (
                {"kind": "setting", "name": "TORCH_NCCL_ASYNC_ERROR_HANDLING", "value": "3"},
                {"kind": "setting", "name": "TORCH_NCCL_DUMP_ON_TIMEOUT", "value": "0"},
            ),
            "pytorch ProcessGroupNCCL.cpp, 2.3 and later",
        ),
        Sample(
            "Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; use TORCH_NCCL_ASYNC_ERROR_HANDLING instead",
            ({"kind": "setting", "name": "NCCL_ASYNC_ERROR_HANDLING", "value": ""},),
            "pytorch torch/csrc/distributed/c10d/Utils.hpp, 2.2 and later",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """Each variable once per line, in order; the value is empty where the line says only that it is set."""
        seen: set[str] = set()
        for name, value in assignments(line):
            if name in seen:
                continue
            seen.add(name)
            told = shown(name, value)
            yield Setting(**common(line, text=f"{name}={told}"), name=name, value=told)
            if len(seen) == MOST:
                return
