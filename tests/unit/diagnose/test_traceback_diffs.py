"""Tracebacks of ranks that all gave up on gloo: one of them waited for everybody at another place than all the others."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import Ruling, read

VAIN = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 9000ms for recv operation to complete"
NORM = (41, 'dist.all_reduce(norm, group=groups["norm"])')
LOSS = (38, "dist.all_reduce(loss)")
BARRIER = (52, "dist.barrier()")
BACKWARD = (33, "loss.backward()")
PAIR = (36, "dist.all_reduce(x, group=pair)")
SENDING = (37, "dist.send(x, 3)")


def gave_up(rank: int, line: int, code: str, error: str = VAIN) -> str:
    rows = (
        "Traceback (most recent call last):",
        '  File "/opt/train/train.py", line 90, in <module>',
        "    main()",
        f'  File "/opt/train/train.py", line {line}, in main',
        f"    {code}",
        "    ^^^^^^^^^^^^^^",
        '  File "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", line 83, in wrapper',
        "    return func(*args, **kwargs)",
        f"RuntimeError: {error}",
    )
    step = f"[rank{rank}]: 2026-01-01 10:10:03,000 INFO step=3 loss=2.0\n"
    return step + "".join(f"[rank{rank}]: {row}\n" for row in rows)


def job(odd: tuple[int, str], others: tuple[int, str], at: tuple[int, ...] = (2,), size: int = 4) -> Ruling:
    settled = {"logs/env.log": f"export WORLD_SIZE={size}\n"}
    texts: dict[str, str | bytes] = {
        f"logs/rank_{r}.log": gave_up(r, *(odd if r in at else others)) for r in range(size)
    }
    return read(texts | settled)


@pytest.mark.parametrize("others", [BACKWARD, LOSS, NORM])
def test_a_barrier_that_one_rank_alone_came_to(others: tuple[int, str]) -> None:
    ruling = job(BARRIER, others)
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("op-mismatch", "2", "medium"), str(ruling)


def test_another_branch_with_another_group_is_another_order() -> None:
    ruling = job(LOSS, NORM)
    assert (ruling.cause, ruling.ranks) == ("order-inversion", "2"), str(ruling)


@pytest.mark.parametrize("odd", [PAIR, SENDING, BACKWARD])
def test_who_waits_for_some_may_be_a_victim(odd: tuple[int, str]) -> None:
    assert job(odd, LOSS).ranks == ""


def test_half_against_half_is_a_tie() -> None:
    assert job(BARRIER, LOSS, at=(2, 3)).ranks == ""


def test_three_places_tell_nothing() -> None:
    texts = {f"logs/rank_{r}.log": gave_up(r, *((BARRIER, PAIR, LOSS, LOSS)[r])) for r in range(4)}
    assert read({**texts, "logs/env.log": "export WORLD_SIZE=4\n"}).ranks == ""


def test_who_was_not_heard_may_be_the_one() -> None:
    texts = {f"logs/rank_{r}.log": gave_up(r, *(BARRIER if r == 2 else LOSS)) for r in range(4)}
    texts["logs/rank_1.log"] = ""
    assert read({**texts, "logs/env.log": "export WORLD_SIZE=4\n"}).ranks != "2"


CLOSED = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:22930: Connection reset by peer"
)
WRONG_SIZE = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /pytorch/third_party/gloo/"
    "gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 4228 vs 4. Received data size doesn't match expected size.\n"
)
BROADCAST = (44, "dist.broadcast(state, 0)")


def met_in_one_transfer(*places: tuple[int, str]) -> Ruling:
    """The last rank aborts over a size, and each of the others loses its connection at a line of its own."""
    texts: dict[str, str | bytes] = {
        f"logs/rank_{r}.log": gave_up(r, *place, error=CLOSED) for r, place in enumerate(places)
    }
    size = len(places) + 1
    last = {f"logs/rank_{len(places)}.log": WRONG_SIZE, "logs/env.log": f"export WORLD_SIZE={size}\n"}
    return read({**texts, **last})


def test_a_wrong_size_between_two_lines_of_the_program_is_two_different_calls() -> None:
    ruling = met_in_one_transfer(BACKWARD, LOSS)
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("op-mismatch", "", "medium"), str(ruling)
    assert "main (train.py:33)" in ruling.verdict["headline"], str(ruling)
    assert "main (train.py:38)" in ruling.verdict["headline"], str(ruling)


def test_the_first_step_opens_both_lines_and_the_settings_are_those_of_gloo() -> None:
    document = met_in_one_transfer(BACKWARD, LOSS).document
    assert (
        document["action"]["steps"][0]["text"]
        == "Open `/opt/train/train.py:33` (`main`) and `/opt/train/train.py:38` (`main`)."
    )
    assert any("before the 1800 s timeout" in line for line in document["capture"]), document["capture"]
    assert not any("NCCL's own" in line for line in document["capture"]), document["capture"]


def test_the_one_that_was_at_another_line_is_named() -> None:
    ruling = met_in_one_transfer(BACKWARD, BARRIER, BACKWARD, BACKWARD)
    assert (ruling.cause, ruling.ranks) == ("op-mismatch", "1"), str(ruling)


def test_one_line_that_a_rank_reached_from_another_place_had_another_size() -> None:
    """Ranks 0, 1 and 3 call it from line 90, rank 2 from line 94; rank 4 aborts over the size."""
    texts: dict[str, str | bytes] = {
        f"logs/rank_{r}.log": gave_up(r, *LOSS, error=CLOSED).replace("line 90", "line 94" if r == 2 else "line 90")
        for r in range(4)
    }
    ruling = read({**texts, "logs/rank_4.log": WRONG_SIZE, "logs/env.log": "export WORLD_SIZE=5\n"})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("size-mismatch", "2", "medium"), str(ruling)
    assert "rank 2 made the call from <module> (train.py:94)" in ruling.verdict["headline"], str(ruling)


@pytest.mark.parametrize(
    "places", [(LOSS, LOSS), (NORM, LOSS), (PAIR, BACKWARD), (BROADCAST, BACKWARD), (SENDING, BACKWARD), (LOSS,)]
)
def test_a_wrong_size_in_one_line_or_in_calls_of_other_groups_stays_a_size(places: tuple[tuple[int, str], ...]) -> None:
    """A root may leave its broadcast early, and calls of two groups rightly stand in two lines."""
    assert met_in_one_transfer(*places).cause == "size-mismatch"


def test_the_proof_says_where_the_peers_of_a_silent_rank_waited() -> None:
    texts: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, *LOSS) for r in (0, 2, 3)}
    texts["logs/rank_1.log"] = "[rank1]: 2026-01-01 10:10:03,000 INFO step=3 loss=2.0\n"
    ruling = read({**texts, "logs/env.log": "export WORLD_SIZE=4\n"})
    assert ruling.ranks == "1", str(ruling)
    said = [item["says"] for item in ruling.verdict["evidence"]]
    assert "Rank 0 waited at main (train.py:38), in dist.all_reduce(loss), and then failed." in said
