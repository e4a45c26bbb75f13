"""Every kind of event says itself who writes it, what it can mean and how it reads."""

import subprocess
import sys
from pathlib import Path

import pytest
from builders.remedies import fixtures_conditions

from nccldoctor.events import KINDS, CollCall, CommInit, DumpNote, IbError, OutOfMemory, SocketError, TearDown, Writer
from nccldoctor.model import CauseClass
from nccldoctor.reports.plotly.timeline import MARKS

ROOT = Path(__file__).resolve().parents[3]
RAW = "gpu-0:20008:20308 [7] NCCL INFO ncclCommInitRank comm 0xed26 rank 7 nranks 8 cudaDev 7 busId db000 - Init START"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            CommInit(place=fixtures_conditions.at(), text=RAW, what="start", nranks=8),
            "started communicator init of 8 ranks",
        ),
        (CommInit(place=fixtures_conditions.at(), text=RAW, what="complete"), "finished communicator init"),
        (
            CommInit(place=fixtures_conditions.at(), text=RAW, what="complete", nranks=8),
            "finished communicator init of 8 ranks",
        ),
        (CollCall(place=fixtures_conditions.at(), text=RAW, op="AllReduce"), "issued AllReduce"),
        (SocketError(place=fixtures_conditions.at(), text="x", how="closed"), "a peer closed its connection"),
        (SocketError(place=fixtures_conditions.at(), text="x", how="other"), "a connection failed"),
        (
            IbError(place=fixtures_conditions.at(), text="x", what="port", hca="mlx5_2"),
            "InfiniBand: its port failed on mlx5_2",
        ),
        (
            IbError(place=fixtures_conditions.at(), text="x", what="completion", status=12),
            "InfiniBand: a transfer failed, status 12",
        ),
        (
            DumpNote(place=fixtures_conditions.at(), text="x", what="written"),
            "logged that it dumps its flight recorder",
        ),
    ],
)
def test_a_line_in_a_readers_words(event, words) -> None:
    assert event.phrase() == words


def bare(cls):
    return cls(place=fixtures_conditions.at(), text=RAW)


def test_only_a_note_is_told_in_its_own_words() -> None:
    assert [name for name, cls in KINDS.items() if bare(cls).phrase() in (RAW, RAW[:120])] == ["note"]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_has_a_writer_and_a_symbol_that_is_drawn(name) -> None:
    event = bare(KINDS[name])
    assert event.written_by in Writer
    assert event.symbol in ("", *MARKS)
    assert event.worded_by in ("", *event.details())
    assert set(event.can_cause) <= set(CauseClass)


def test_what_somebody_else_writes_is_no_sign_of_life() -> None:
    others = {name for name, cls in KINDS.items() if cls.writer is not Writer.RANK}
    assert others == {"process-exit", "gpu-error", "rendezvous-error", "scheduler", "kernel", "ras", "process-state"}
    assert OutOfMemory(place=fixtures_conditions.at(), text="", scope="host").written_by is Writer.KERNEL
    assert OutOfMemory(place=fixtures_conditions.at(), text="", scope="device").written_by is Writer.RANK
    assert TearDown(place=fixtures_conditions.at(), text="", what="forced-kill").is_sign_of_life is False


NEW_KIND = """
from nccldoctor.events import KINDS, Event, kind
@kind("flood", wording="water in the rack")
class Flood(Event):
    "Water in the rack."
    depth: int | None = None
from nccldoctor.model import Place
event = KINDS["flood"](place=Place(0, "a.log", 1), text="x", depth=3)
print(event.phrase(), event.details())
from nccldoctor.cli.explain import explanation
print("`depth`" in explanation("flood"))
"""


def test_a_new_kind_is_its_class_alone() -> None:
    out = subprocess.run([sys.executable, "-c", NEW_KIND], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert out == "water in the rack {'depth': 3}\nTrue\n"
