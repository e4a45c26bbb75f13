"""Ranks that issue something else than their peers: each class, its neighbours, and ties."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders.jobs.cases import RecordedRank, world
from builders.jobs.verdicts import Ruling, gave_up, innocent, job, play, read, right
from hypothesis import given, settings
from hypothesis import strategies as st

import nccldoctor.samples
from nccldoctor.model.ranks import Ranks

PEERS = ("op-mismatch", "size-mismatch", "dtype-mismatch")
SHIFTED = ("missed-call", "extra-call")


@pytest.mark.parametrize("evidence", ["fr+log", "fr"])
@pytest.mark.parametrize("scenario", ["other_op", "other_size", "other_dtype"])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_one_call_differs_and_those_around_it_fit(scenario: str, seed: int, evidence: str) -> None:
    right(play(scenario, seed, evidence=evidence))


@pytest.mark.parametrize("scenario", ["other_op", "other_size"])
def test_lines_alone_show_operation_and_size(scenario: str) -> None:
    right(play(scenario, 2, evidence="log"), least="medium")


def test_lines_show_no_data_type() -> None:
    """A watchdog prints sizes and the operation: what it cannot show is not claimed."""
    ruling = play("other_dtype", 2, evidence="log")
    assert ruling.cause != "dtype-mismatch", str(ruling)
    innocent(ruling)


@pytest.mark.parametrize("scenario", ["other_op_tie", "other_size_tie"])
@pytest.mark.parametrize("evidence", ["fr+log", "fr"])
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_tie_names_nobody(scenario: str, evidence: str, seed: int) -> None:
    ruling = play(scenario, seed, evidence=evidence, layout="tpdp")
    assert (ruling.cause, ruling.ranks) == (ruling.truth["class"], ""), str(ruling)
    assert ruling.at[1] in ruling.truth["stalled"]["seqs"]
    assert {int(r) for r in ruling.verdict["suspects"].replace("-", ",").split(",")} <= set(ruling.truth["suspects"])


def test_a_tie_in_lines_names_nobody() -> None:
    ruling = read({"logs/rank_0.log": gave_up(0, 50), "logs/rank_1.log": gave_up(1, 50, "BROADCAST")})
    assert (ruling.cause, ruling.ranks) == ("op-mismatch", ""), str(ruling)


def test_the_minority_is_named_not_whoever_differs_from_the_first_rank() -> None:
    """Rank 0 itself is the odd one."""
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, 50) for r in (1, 2, 3)}
    files["logs/rank_0.log"] = gave_up(0, 50, numel=64)
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("size-mismatch", "0"), str(ruling)


def test_an_all_to_all_of_other_sizes_is_legal() -> None:
    ruling = read({f"logs/rank_{r}.log": gave_up(r, 50, "ALLTOALL_BASE", 64 + r) for r in range(4)})
    assert ruling.cause not in PEERS, str(ruling)
    assert not ruling.ranks


@given(
    numbers=st.lists(st.integers(1, 60), min_size=2, max_size=4, unique=True),
    calls=st.lists(
        st.tuples(st.sampled_from(["ALLREDUCE", "_ALLGATHER_BASE", "BARRIER"]), st.sampled_from([1, 64, 4096])),
        min_size=4,
        max_size=4,
    ),
    queued=st.integers(0, 8),
)
@settings(max_examples=15, deadline=None)
def test_calls_with_different_numbers_are_never_compared(
    numbers: list[int], calls: list[tuple[str, int]], queued: int
) -> None:
    """Ranks that wait in #18 and #20 are out of step: that their sizes and operations differ says nothing."""
    files: dict[str, str | bytes] = {
        f"logs/rank_{rank}.log": gave_up(rank, seq, *calls[rank], enqueued=seq + queued)
        for rank, seq in enumerate(numbers)
    }
    ruling = read(files)
    assert all(finding["class"] not in PEERS for finding in ruling.document["findings"]), str(ruling)
    assert ruling.sure <= 1, str(ruling)


def test_a_call_that_another_rank_counts_as_completed_shows_ranks_out_of_step() -> None:
    ruling = read({"logs/rank_0.log": gave_up(0, 50), "logs/rank_3.log": gave_up(3, 52, "BARRIER", 1)})
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("missed-call", "", "0,3"), str(ruling)
    assert (ruling.at, ruling.sure) == (("ALLREDUCE", 50), 1), str(ruling)


@pytest.mark.parametrize(
    ("caller", "is_told"), [("transformers/trainer_callback.py", True), ("work/own_loop.py", False)]
)
def test_the_hook_of_a_framework_in_which_a_rank_differs_is_named(caller: str, is_told: bool) -> None:
    """A user's ``on_step_end`` is a hook where the Trainer calls it; a function of that name alone says nothing."""
    stack = (
        'Process 4003: python train.py\nThread 4003 (active): "MainThread"\n'
        "    barrier (torch/distributed/distributed_c10d.py:4159)\n"
        "    on_step_end (/job/train.py:30)\n"
        f"    call_event (/usr/lib/python3/site-packages/{caller}:519)\n"
        "    main (/job/train.py:90)\n"
    )
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, 50) for r in (0, 1, 2)}
    files |= {"logs/rank_3.log": gave_up(3, 50, "BARRIER"), "stacks/rank_3.txt": stack}
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("op-mismatch", "3"), str(ruling)
    assert (" of the Trainer" in ruling.verdict["headline"]) is is_told, str(ruling)


def test_an_operation_goes_before_a_size() -> None:
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, 50) for r in (0, 1, 2)}
    files["logs/rank_3.log"] = gave_up(3, 50, "BROADCAST", 64)
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("op-mismatch", "3"), str(ruling)


def test_a_neighbour_that_gloo_aborts_need_not_be_the_one_that_differs() -> None:
    what = (
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
        "  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 24 vs 16. "
        "Received data size doesn't match expected size\n"
    )
    files: dict[str, str | bytes] = {"logs/rank_1.log": what, "logs/rank_0.log": "", "logs/rank_2.log": ""}
    ruling = read(files)
    assert ruling.cause == "size-mismatch", str(ruling)
    assert ruling.ranks == "", str(ruling)


def sizes_from(*places: tuple[str, int]) -> Ruling:
    """Two ranks of four left a dump: their last calls differ in size, and come from these functions and lines."""
    files: dict[str, str | bytes] = {}
    for rank, (function, line) in enumerate(places):
        here = [{"name": function, "filename": "/job/train.py", "line": line}]
        own = RecordedRank(rank, world(4), backend="gloo").calls(6, frames=here)
        files[f"dumps/fr_trace_{rank}"] = own.call(n=8 if rank else 64, done=False, frames=here).data()
    return read(files)


@pytest.mark.parametrize(
    ("places", "remedy"),
    [
        ((("train", 38), ("evaluate", 21)), "control-flow-divergence"),
        ((("train", 38), ("train", 40)), "shape-mismatch"),
        ((("train", 38), ("train", 38)), "shape-mismatch"),
    ],
)
def test_sizes_that_differ_in_two_functions_are_two_calls_of_the_program(
    places: tuple[tuple[str, int], ...], remedy: str
) -> None:
    ruling = sizes_from(*places)
    assert (ruling.cause, ruling.ranks) == ("size-mismatch", ""), str(ruling)
    assert ruling.document["remedies"][0]["id"] == remedy
    is_told = [f" in {name}" in ruling.verdict["headline"] for name, _ in places]
    assert all(is_told) if remedy == "control-flow-divergence" else not any(is_told), ruling.verdict["headline"]


@pytest.mark.parametrize(
    ("places", "opened"),
    [
        ((("train", 38), ("evaluate", 21)), "Open `/job/train.py:38` (`train`) and `/job/train.py:21` (`evaluate`)."),
        ((("train", 38), ("train", 40)), "Open `/job/train.py:38` (`train`) and `/job/train.py:40` (`train`)."),
        ((("train", 38), ("train", 38)), "Open `/job/train.py:38` (`train`)."),
    ],
)
def test_the_first_step_opens_every_line_that_made_the_call(places: tuple[tuple[str, int], ...], opened: str) -> None:
    steps = sizes_from(*places).document["action"]["steps"]
    assert steps[0]["text"] == opened, steps


def test_the_lines_to_open_are_those_at_which_ranks_parted() -> None:
    """Rank 1 made its call in ``evaluate``, which line 42 of ``main`` had called: the branch stands between lines 38 and 42."""
    files: dict[str, str | bytes] = {}
    for rank, path in enumerate([[("main", 38)], [("evaluate", 21), ("main", 42)]]):
        here = [{"name": name, "filename": "/job/train.py", "line": line} for name, line in (*path, ("<module>", 48))]
        own = RecordedRank(rank, world(4), backend="gloo").calls(6, frames=here)
        files[f"dumps/fr_trace_{rank}"] = own.call(n=8 if rank else 64, done=False, frames=here).data()
    step = read(files).document["action"]["steps"][0]
    assert step["text"] == "Open `/job/train.py:38` (`main`) and `/job/train.py:42` (`main`)."
    assert step["detail"].startswith("Rank 0 called from line 38 and rank 1 called from line 42.")


def test_a_tie_is_proved_by_the_calls_of_both_sides() -> None:
    shown = sizes_from(("train", 38), ("evaluate", 21)).document["proof"][0]
    assert shown["claim"] == "Ranks 0 and 1 both issued #7, with different sizes."
    assert shown["where"] == ["dumps/fr_trace_0#entries[6]", "dumps/fr_trace_1#entries[6]"]


# --- out of step ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["skipped", "one_more"])
@pytest.mark.parametrize(("layout", "seed"), [("ddp", 1), ("fsdp", 1), ("fsdp", 2), ("tpdp", 2)])
def test_a_stream_that_fits_when_shifted(scenario: str, layout: str, seed: int) -> None:
    right(play(scenario, seed, layout=layout))


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_an_extra_call_at_the_end_of_a_step(seed: int) -> None:
    right(play("metric_of_one", seed, evidence="fr"))


@pytest.mark.parametrize("scenario", ["other_op", "other_size", "other_dtype"])
@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_one_odd_call_is_no_shift(scenario: str, layout: str) -> None:
    assert play(scenario, 2, layout=layout).cause not in SHIFTED


@pytest.mark.parametrize("scenario", ["skipped", "one_more"])
@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_a_shift_is_no_lone_mismatch(scenario: str, layout: str) -> None:
    assert play(scenario, 1, layout=layout).cause not in PEERS


@pytest.mark.parametrize("scenario", ["no_data", "slow_checkpoint"])
def test_who_stopped_before_the_call_did_not_skip_it(scenario: str) -> None:
    assert play(scenario, 2).cause not in SHIFTED


# --- order ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["3d", "ep"])
@pytest.mark.parametrize("seed", [0, 2, 5])
def test_one_more_among_equal_calls_shows_by_the_count(layout: str, seed: int) -> None:
    """Nothing tells which of a row of equal calls came on top, but the rank is one ahead at every later call of other groups."""
    right(play("one_more", seed, layout=layout), least="medium")


@pytest.mark.parametrize("layout", ["3d", "tpdp"])
def test_one_skipped_in_a_pair_is_told_by_the_other_pairs(layout: str) -> None:
    """Of two members either may be wrong; ranks of the same stage in sister groups say which."""
    right(play("skipped_tensor", 1, layout=layout, names="megatron"), least="medium")


@pytest.mark.parametrize("evidence", ["fr+log", "fr"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_two_groups_in_another_order(seed: int, evidence: str) -> None:
    ruling = play("swapped", seed, layout="tpdp", evidence=evidence)
    right(ruling)
    chain = ruling.verdict["chain"]
    culprit = set(Ranks.parse(ruling.ranks))
    assert any(culprit & set(Ranks.parse(link["waiting"])) for link in chain), "a circle is shown: it waits itself"
    assert any(culprit & set(Ranks.parse(link["for"])) for link in chain)


@pytest.mark.parametrize("scenario", ["no_data", "stopped", "other_size", "never_ends"])
def test_waiting_in_two_groups_is_no_circle(scenario: str) -> None:
    ruling = play(scenario, 3, layout="tpdp")
    assert all(f["class"] != "order-inversion" for f in ruling.document["findings"]), str(ruling)


# --- point to point ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scenario", "end"), [("missing_send", "SEND"), ("missing_receive", "RECV")])
@pytest.mark.parametrize("seed", [2, 3])
def test_an_end_that_is_not_there_and_whose_owner_went_on(scenario: str, end: str, seed: int) -> None:
    ruling = play(scenario, seed, layout="3d")
    right(ruling)
    said = rf"Rank {ruling.ranks}(?: \([^)]+\))? (?:probably )?never posted the {end} that rank \d+ "
    assert re.match(said, ruling.verdict["headline"]), str(ruling)


@pytest.mark.parametrize("scenario", ["no_data", "stopped", "other_size"])
def test_a_pipeline_that_waits_for_its_neighbour_is_no_unmatched_pair(scenario: str) -> None:
    ruling = play(scenario, 2, layout="3d")
    innocent(ruling)
    assert ruling.cause != "unmatched-p2p", str(ruling)


def test_each_of_these_jobs_has_one_culprit() -> None:
    """The tests above would pass for the wrong reason if the played job had none."""
    for scenario in ("skipped", "one_more", "swapped", "missing_send", "other_op"):
        layout = {"swapped": "tpdp", "missing_send": "3d"}.get(scenario, "ddp")
        assert len(job(scenario, 2, layout=layout).truth["culprit_ranks"]) == 1


def test_whoever_recorded_the_call_entered_it_whether_it_ended_for_them_or_not() -> None:
    stalled = nccldoctor.analyze(Path(nccldoctor.samples.__path__[0]) / "size-mismatch").verdict.stalled
    assert stalled is not None
    assert (str(stalled.entered), str(stalled.missing)) == ("0-7", "")


# ---- counters of watchdogs that are apart


@pytest.mark.parametrize(
    ("calls", "ranks", "suspects"),
    [
        ({0: 18, 1: 18, 2: 18, 3: 19}, "3", ""),
        ({0: 19, 1: 18, 2: 19, 3: 19}, "1", ""),
        ({0: 18, 1: 18, 2: 19, 3: 19}, "", "0-3"),
        ({0: 18, 1: 19}, "", "0-1"),
        ({r: 40 + (r in (2, 5)) for r in range(8)}, "2,5", ""),
    ],
)
@pytest.mark.parametrize("ahead", ["ALLREDUCE", "BROADCAST", "_ALLGATHER_BASE"])
def test_the_fewer_are_out_of_step_by_counters_whatever_they_call(
    calls: dict[int, int], ranks: str, suspects: str, ahead: str
) -> None:
    """Nobody finishes an ALLREDUCE that others are still in: those ahead count something else under its number."""
    oldest = min(calls.values())
    ruling = read(
        {f"rank_{r}.log": gave_up(r, seq, "ALLREDUCE" if seq == oldest else ahead) for r, seq in calls.items()}
    )
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("missed-call", ranks, suspects), str(ruling)
    assert ruling.verdict["confidence"] == "low"
    assert ruling.at == ("ALLREDUCE", oldest)


def test_a_broadcast_that_others_have_left_is_no_proof() -> None:
    files = {f"rank_{r}.log": gave_up(r, 18 + (r == 3), "BROADCAST" if r < 3 else "ALLREDUCE") for r in range(4)}
    assert read({**files}).cause != "missed-call", "its root leaves it early"


def test_ranks_behind_that_have_queued_more_are_no_stopped_devices_where_they_are_most() -> None:
    files = {f"rank_{r}.log": gave_up(r, 40, enqueued=44) if r != 5 else gave_up(5, 41, "BROADCAST") for r in range(8)}
    assert (read({**files}).cause, read({**files}).ranks) == ("missed-call", "5")


# ---- sizes of which a part of a side was heard


@pytest.mark.parametrize(
    ("heard", "other", "ranks"),
    [
        (range(8), [9], ""),  # of 16 ranks: seven more may have sent what rank 9 did
        (range(8, 16), [3], ""),
        (range(15), [15], "15"),
        (range(7), [7], "7"),
        (range(3), [3], "3"),
        (range(12), [14], "14"),
    ],
)
def test_a_side_is_the_smaller_one_also_with_all_that_printed_nothing(
    heard: range, other: list[int], ranks: str
) -> None:
    files = {f"rank_{r}.log": gave_up(r, 18, numel=2048 if r in other else 4096) for r in [*heard, *other]}
    ruling = read({**files})
    assert (ruling.cause, ruling.ranks) == ("size-mismatch", ranks), str(ruling)
    assert "2,048" in ruling.verdict["headline"]
