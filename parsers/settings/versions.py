"""Version banners of PyTorch, NCCL, CUDA, the driver and Python, wherever they are printed.

Sources: NVIDIA/nccl ``src/init.cc`` (banner) and ``src/ras`` (report), pytorch ``torch/utils/collect_env.py`` and
``ProcessGroupNCCL.cpp``, ``pip freeze``, nvidia-smi, py-spy 0.4.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Version
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_DOTTED = r"\d{1,4}\.\d{1,4}(?:\.\d{1,4})?"

_ROWS: tuple[tuple[str, str], ...] = (
    ("nccl", rf"NCCL version:? {{1,3}}\(?(?P<v>{_DOTTED})"),
    ("nccl", rf"nvidia-nccl-cu\d{{2}}(?:==| {{1,40}}){'(?P<v>' + _DOTTED + ')'}"),
    ("nccl", r"NCCL version:? {1,3}\((?P<t>\d{1,3}, ?\d{1,3}, ?\d{1,3})\)"),
    ("torch", r"(?:PyTorch|[Tt]orch)(?: version|\.__version__)?(?:==|: | {1,3}|=)v?"
     r"(?P<v>\d{1,2}\.\d{1,3}\.\d{1,3}(?:(?:a|b|rc|\.dev|\.post)\d{1,8})?(?:\+[\w.]{1,40})?)(?![\w.])"),
    ("cuda", rf"CUDA used to build PyTorch: (?P<v>{_DOTTED})"),
    ("cuda", rf"\+cuda(?P<v>{_DOTTED})"),
    ("cuda", rf"compiled with CUDA (?P<v>{_DOTTED})"),
    ("driver", r"Nvidia driver version: (?P<v>\d{3}(?:\.\d{1,4}){1,2})"),
    ("driver", r"Driver Version: (?P<v>\d{3}(?:\.\d{1,4}){1,2})"),
    ("driver", r"NVRM version: .{0,80}? {1,3}(?P<v>\d{3}(?:\.\d{1,4}){1,2})"),
    ("driver", r"NVRM: loading NVIDIA .{0,80}? {1,3}(?P<v>\d{3}(?:\.\d{1,4}){1,2})"),
    ("python", rf"Python version: (?P<v>{_DOTTED})"),
    ("python", rf"^\s{{0,8}}Python v(?P<v>{_DOTTED}) \("),
)  # fmt: skip


_COMPILED = tuple((of, lazy(pattern)) for of, pattern in _ROWS)


@line_parser
class VersionParser(LineParser):
    """At most one event of each program for a line."""

    literals = (
        "NCCL version",
        "nvidia-nccl-cu",
        "PyTorch version",
        "PyTorch: ",
        "torch==",
        "torch version",
        "Torch version",
        "torch.__version__",
        "CUDA used to build PyTorch",
        "Nvidia driver version",
        "Driver Version: ",
        "NVRM version",
        "NVRM: loading NVIDIA",
        "Python version: ",
        "Python v",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """The first version of each program that the line names."""
        seen: set[str] = set()
        for of, pattern in _COMPILED:
            hit = None if of in seen else pattern.search(line.body)
            if hit:
                seen.add(of)
                part = hit.groupdict()
                version = part.get("v") or (part.get("t") or "").replace(" ", "").replace(",", ".")
                yield Version(**common(line), of=of, version=version)
