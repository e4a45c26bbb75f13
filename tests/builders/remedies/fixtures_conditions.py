"""Small cases and findings for the tests of predicates and remedies: eight ranks on two hosts, rank 5 is late."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from msgspec.structs import replace

from nccldoctor.align.facts import align
from nccldoctor.events import CollectiveTimeout, Event, Events, Setting, Stack
from nccldoctor.identify.case import Case
from nccldoctor.identify.groups import Groups
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Evidence, Finding, Place, Source, SourceKind, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.prescribe.conditions import Survey

HOSTS = {rank: f"node{rank // 4}" for rank in range(8)}
LATE_FROM, TIMEOUT_AT = 1000.0, 1600.0


def at(path: str = "train.log", line: int = 1, source: int = 0) -> Place:
    return Place(source, path, line)


def timeout(rank: int = 0, line: int = 900) -> CollectiveTimeout:
    text = "Watchdog caught collective operation timeout"
    return CollectiveTimeout(place=at(line=line), text=text, rank=rank, op="ALLREDUCE", seq=50, timeout_ms=600_000)


def stack(rank: int | None, *frames: str, main: bool = True) -> Stack:
    return Stack(
        place=at("stacks.txt", 3, 1),
        text=frames[0] if frames else "",
        rank=rank,
        frames=frames,
        main=main,
        tool="py-spy",
    )


def setting(name: str, value: str, line: int = 1, text: str = "", rank: int | None = None) -> Setting:
    return Setting(
        place=at("launch.sh", line, 2), text=text or f"export {name}={value}", name=name, value=value, rank=rank
    )


def case(
    events: Iterable[Event] = (),
    seconds: Iterable[float] | None = None,
    kinds: Iterable[SourceKind] = (SourceKind.LOG,),
    world: int | None = 8,
    **more: Any,
) -> Case:
    found = tuple(events)
    clock = list(seconds) if seconds is not None else [math.nan] * len(found)
    sources = tuple(Source(i, f"source{i}", kind, 100) for i, kind in enumerate(kinds))
    built = Case(
        sources=sources,
        readings=(),
        events=Events(found),
        batch=Batch.empty(),
        dump_rank=(),
        call_rank=np.zeros(0, np.int32),
        call_group=np.zeros(0, np.int32),
        naming=Groups((), {}, {}),
        world_size=world,
        seconds=np.array(clock, dtype=np.float64),
        rank_host=HOSTS,
        rank_pid={rank: 1000 + rank for rank in range(8)},
    )
    dumps = more.get("batch", built.batch).dumps
    return replace(built, **{"dump_rank": (None,) * len(dumps)} | more)


def survey(of: Case) -> Survey:
    """What remedies are asked of."""
    return Survey(align(of))


def finding(
    cause: str = "not-arrived",
    ranks: Iterable[int] = (5,),
    stalled: Stalled | None = None,
    confidence: str = "high",
    **more: Any,
) -> Finding:
    culprits = Ranks(ranks)
    rest = Ranks(range(8)) - culprits
    call = stalled or Stalled(
        "ALLREDUCE", 50, group="default_pg", numel_in=4096, entered=rest, missing=culprits, timeout_ms=600_000
    )
    values: dict[str, Any] = {
        "id": "F1",
        "cause": CauseClass(cause),
        "confidence_in": ConfidenceIn.same(Confidence(confidence)),
        "headline": "rank 5 did not come",
        "evidence": (Evidence(at(line=900), "timeout", "rank 0 waited for call 50"),),
        "ranks": culprits,
        "victims": rest,
        "stalled": call,
    }
    return Finding(**(values | more))


def blames(rank: int, entered: tuple[int, ...]) -> tuple[Finding, ...]:
    """A verdict as a rule would give it; which one does not matter here."""
    call = Stalled("ALLREDUCE", 4, entered=Ranks(entered), missing=Ranks([rank]))
    evidence = (Evidence(None, "", "so it is"),)
    return (
        Finding(
            "F1",
            CauseClass.NOT_ARRIVED,
            ConfidenceIn.same(Confidence.LOW),
            "x",
            evidence,
            Ranks([rank]),
            victims=Ranks(entered),
            stalled=call,
        ),
    )
