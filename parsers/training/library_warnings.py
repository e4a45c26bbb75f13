"""Lines of libraries that foretell a hang without being an error of their own.

Sources: ``huggingface/tokenizers`` (``bindings/python/src/lib.rs``), PyTorch's ``distributed_c10d.py``
(2.0 to 2.13), Linux ``drivers/iommu``, nvidia-smi.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_OMENS: tuple[tuple[str, str, str], ...] = (
    ("forked", "just got forked", r"The current process just got forked"),
    ("not-a-member", "belong to the given group", r"(?:does|do) not belong to the given group"),
    ("clocks-held", "Slowdown  ", r"\b(?:HW|SW)(?: Thermal| Power Brake)? Slowdown\s{1,60}: Active"),
    ("power-capped", "SW Power Cap  ", r"\bSW Power Cap\s{1,60}: Active"),
    ("arm-host", "aarch64 GNU/Linux", r"\baarch64 GNU/Linux\b"),
    ("arm-host", "-aarch64-with-", r"\bLinux-[\w.+-]{1,80}-aarch64-with-"),
    ("arm-host", "(aarch64)", r"\bOS: [^\n]{1,80} \(aarch64\)"),
    ("iommu-fault", "IO_PAGE_FAULT", r"AMD-Vi: Event logged \[IO_PAGE_FAULT.{0,200}"),
    ("iommu-fault", "DMAR: ", r"DMAR: \[(?:DMA|INTR)[^\]]{0,20}\] .{0,200}fault"),
)


_PATTERNS = tuple((what, lazy(pattern)) for what, _, pattern in _OMENS)


@line_parser
class Omens(LineParser):
    """One *note* for each such line; ``what`` is ``forked``, ``not-a-member``, ``clocks-held``, ``power-capped`` (usual
    under full load), ``arm-host`` or ``iommu-fault``.
    """

    sampled = True
    literals = tuple(dict.fromkeys(literal for _, literal, _ in _OMENS))

    def parse(self, line: Line) -> Iterator[Event]:
        """The first that the line says."""
        body = line.body[:4000]
        what = next((name for name, pattern in _PATTERNS if pattern.search(body)), None)
        if what is not None:
            yield Note(**common(line), what=what, detail=body.strip()[:300])
