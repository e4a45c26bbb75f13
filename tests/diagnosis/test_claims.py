"""Sentences of bundled incidents that their own files must not contradict."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.logs.lines import watchdog
from msgspec.structs import replace

import nccldoctor
from nccldoctor.model import Diagnosis
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.page import facts, view
from nccldoctor.reports.parts import wording

SAMPLES = Path(__file__).parents[2] / "sample_logs"


def diagnosed(sample: str) -> Diagnosis:
    return nccldoctor.analyze(SAMPLES / sample).diagnosis


def test_a_rank_that_raised_the_same_timeout_reached_the_barrier_late() -> None:
    """Process 1 of JAX raised what its peers raised: that it never called the barrier is refuted by its own log."""
    verdict = diagnosed("jax-barrier").verdict
    assert "didn't reach the barrier checkpoint_saved::0 in time" in verdict.headline
    assert any("Rank 1 raised the same timeout" in evidence.says for evidence in verdict.evidence)
    assert verdict.refuted_by == "that rank had reached the call before its peers timed out"


def test_a_call_that_is_only_queued_has_not_arrived() -> None:
    """The GPU of rank 2 stands in #6, so that #7 waits in its queue."""
    found = diagnosed("device-stalled")
    assert found.verdict.stalled is not None
    assert wording.arrived(found, found.verdict.stalled) == "3 of 4 ranks arrived, queued on rank 2, not started"
    assert view.build(found).status.situation == ""


def test_ranks_that_issue_calls_in_different_orders_have_not_all_arrived() -> None:
    assert "4 of 4 ranks issued it, in different orders" in facts.four(diagnosed("order-inversion"))[1].detail


def test_a_call_that_a_rank_never_issued_was_not_issued_in_different_orders() -> None:
    found = diagnosed("order-inversion")
    call = found.verdict.stalled
    assert call is not None
    one = Ranks([min(call.entered)])
    three = replace(call, entered=call.entered - one, missing=one)
    assert wording.arrived(found, three) == "3 of 4 ranks arrived"


def test_what_is_ruled_out_is_no_summary_of_its_own() -> None:
    found = diagnosed("not-arrived")
    assert "Ruled out" in wording.summary(found)
    silent = replace(found, findings=(replace(found.verdict, victims=Ranks(), stalled=None),), alarm=None)
    assert "Ruled out" not in wording.summary(silent), wording.summary(silent)


@pytest.mark.parametrize("sample", ["two-rank-loader", "died"])
def test_nobody_is_said_to_have_failed_first_where_times_do_not_show_it(sample: str) -> None:
    """Neither log of the two-rank job has times; the exceptions of the other have none either."""
    assert "first error" not in wording.summary(diagnosed(sample))


def test_the_rank_that_alone_printed_no_timeout_is_told_by_that(tmp_path: Path) -> None:
    """Seven of eight ranks of one log gave up; the launcher sent SIGTERM to the process of rank 5."""
    started = [f"[rank {rank}] device cuda:{rank} pid {61200 + rank} world 8\n" for rank in range(8)]
    gave_up = [watchdog(rank, 9) for rank in range(8) if rank != 5]
    agent = "W0202 03:20:06.101000 61188 site-packages/torch/distributed/elastic/multiprocessing/api.py:897]"
    closed = f"{agent} Sending process 61205 closing signal SIGTERM\n"
    (tmp_path / "log.txt").write_text("".join([*started, *gave_up, closed]))

    verdict = nccldoctor.analyze(tmp_path).verdict

    assert (verdict.cause.value, str(verdict.ranks)) == ("frozen", "5")
    assert "never exited" not in verdict.headline
    claims = [evidence.says for evidence in verdict.evidence]
    assert "Rank 5 logged no timeout, and this line is its last. 7 of 8 ranks timed out." in claims


@pytest.mark.parametrize(("sample", "size"), [("rank0-sampling", 4), ("two-rank-loader", 2)])
def test_a_size_that_a_file_states_is_not_told_as_a_guess(sample: str, size: int) -> None:
    """A launch script says ``--nproc_per_node=4``, a log ``World size: 2``."""
    job = diagnosed(sample).job
    assert (job.world_size, job.world_guessed) == (size, False)


def test_a_dump_that_lines_only_ask_for_is_no_dump_that_was_written() -> None:
    """The recorder of the bundled GPU failure was off: its ranks were told to dump, and wrote nothing."""
    picture = view.build(diagnosed("hardware")).stall
    assert picture is not None
    labels = [flag.label for flag in picture.flags]
    assert any("dump requested" in label for label in labels)
    assert not any("written" in label for label in labels)


def test_causes_that_were_not_checked_are_not_listed_as_ruled_out() -> None:
    words = view.build(diagnosed("hardware")).ruled_out_words
    assert words.startswith("Ruled out: ")
    assert "Not checked: Mismatched calls" in words or "Not checked: mismatched calls" in words
    assert words.count("Not checked") == 1


def test_two_queries_of_ras_tell_for_how_long_no_count_changed() -> None:
    found = diagnosed("ras-queries")
    assert any(exhibit.claim.endswith("No count changed in 60 s.") for exhibit in found.proof)
    assert found.verdict.refuted_by.startswith("a query after 2026-01-11 10:06:00")


def test_a_rank_that_counted_the_call_is_not_waited_for_there() -> None:
    """Ranks 0-4 and 6-7 counted ALLREDUCE #5; only rank 5 did not. Five communicators are five groups."""
    found = diagnosed("ras-queries")
    waiting = {str(row.ranks): str(row.waits_for) for row in found.standings}
    assert waiting["0-3,6-7"] == "5"
    assert {fact.label: fact.detail for fact in facts.four(found)}["Blocked"] == "2 of 5 groups"
