"""Cases and events to ask advice for."""

from __future__ import annotations

from builders.remedies import fixtures_conditions

from nccldoctor.align.facts import align
from nccldoctor.events import ExceptionRaised
from nccldoctor.model import SourceKind, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.prescribe.catalogue.load import load_catalogue
from nccldoctor.prescribe.prescribe import prescribe

CATALOGUE = load_catalogue()
BOTH = (SourceKind.LOG, SourceKind.KERNEL_LOG)


def ask(case, *findings):
    """The advice for a case."""
    return prescribe(findings or (fixtures_conditions.finding(),), align(case), CATALOGUE)


def event(cls, rank=5, line=10, text="a line", path="train.log", source=0, **fields):
    """An event of rank 5 at line 10 of a log."""
    return cls(place=fixtures_conditions.at(path, line, source), text=text, rank=rank, **fields)


def raised(type_, message="", rank=5, **more):
    """An exception of its own work."""
    return event(
        ExceptionRaised, rank=rank, text=f"{type_}: {message}", type=type_, message=message, origin="own", **more
    )


def kernel(cls, text, **fields):
    """A line of a host's kernel log."""
    return event(cls, None, 4, text, "dmesg", 1, host="node1", **fields)


def stalled(op="ALLREDUCE", seq=5000, numel=4096, missing=(5,), group="default_pg"):
    """A call that waits for one of eight ranks."""
    late = Ranks(missing)
    return Stalled(
        op, seq, group=group, numel_in=numel, entered=Ranks(range(8)) - late, missing=late, timeout_ms=600_000
    )


LOADER = "_try_get_data (torch/utils/data/dataloader.py:1251)"
BUSY = "refresh_expert_table (/app/train.py:121)"
