"""The last sign of a rank in a reader's words, never the raw line of a library."""

import pytest
from builders import fixtures_conditions

from nccldoctor.events import KINDS, CollCall, CommInit, DumpNote, IbError, SocketError
from nccldoctor.summarise.event_phrases import sighting

RAW = "gpu-0:20008:20308 [7] NCCL INFO ncclCommInitRank comm 0xed26 rank 7 nranks 8 cudaDev 7 busId db000 - Init START"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            CommInit(place=fixtures_conditions.at(), text=RAW, what="start", nranks=8),
            "began to set up a communicator of 8 ranks",
        ),
        (CommInit(place=fixtures_conditions.at(), text=RAW, what="complete"), "its communicator came up"),
        (
            CommInit(place=fixtures_conditions.at(), text=RAW, what="complete", nranks=8),
            "its communicator of 8 ranks came up",
        ),
        (CollCall(place=fixtures_conditions.at(), text=RAW, op="AllReduce"), "issued AllReduce"),
        (SocketError(place=fixtures_conditions.at(), text="x", how="closed"), "a peer closed its connection"),
        (SocketError(place=fixtures_conditions.at(), text="x", how="other"), "a connection failed"),
        (
            IbError(place=fixtures_conditions.at(), text="x", what="port", hca="mlx5_2"),
            "InfiniBand: its port or adapter failed on mlx5_2",
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
    assert sighting(event) == words


def test_only_a_note_is_told_in_its_own_words() -> None:
    raw = [
        name
        for name, cls in KINDS.items()
        if sighting(cls(place=fixtures_conditions.at(), text=RAW)) in (RAW, RAW[:120])
    ]
    assert raw == ["note"]
