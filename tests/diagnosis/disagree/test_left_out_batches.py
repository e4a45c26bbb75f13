"""A script on gloo that swallows the exception of one batch: what its lines about steps prove, and what they do not."""

from __future__ import annotations

import pytest
from builders.jobs.cases import RecordedRank, Team, world
from builders.jobs.verdicts import Ruling, read

VAIN = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] "
    "Timed out waiting 15000ms for send operation to complete"
)
LEFT_OUT = "WARNING batch of step 30 skipped: KeyError('caption')"


def steps(rank: int, numbers: range) -> str:
    return "".join(f"[rank{rank}]: 2026-01-01 10:10:{n:02d},000 INFO step={n} loss=2.0\n" for n in numbers)


def gave_up(rank: int, line: int) -> str:
    rows = ("Traceback (most recent call last):", f'  File "/opt/train.py", line {line}, in main', "    reduce()", VAIN)
    return "".join(f"[rank{rank}]: {row}\n" for row in rows)


def job(interval: int, warning: str = "") -> Ruling:
    """Rank 3 skips calls and logs one line more than its peers, who wait for it; every ``interval``-th step is logged."""
    texts = {r: steps(r, range(interval, 4 * interval, interval)) + gave_up(r, 29) for r in range(3)}
    said = f"[rank3]: 2026-01-01 10:10:{3 * interval:02d},500 {warning}\n" if warning else ""
    last = steps(3, range(4 * interval, 4 * interval + 1))
    texts[3] = steps(3, range(interval, 4 * interval, interval)) + said + last + gave_up(3, 38)
    ready = "[rank0]: 2026-01-01 10:10:00,000 INFO process groups ready world_size=4\n"
    return read({f"logs/rank_{r}.log": (ready if r == 0 else "") + text for r, text in texts.items()})


def said(ruling: Ruling) -> list[str]:
    return [item["says"] for item in ruling.verdict["evidence"]]


def test_where_every_step_is_logged_one_more_is_one_step_ahead() -> None:
    ruling = job(1)
    assert (ruling.cause, ruling.ranks) == ("missed-call", "3"), str(ruling)
    assert ruling.verdict["headline"].endswith("is one step ahead.")
    assert "Rank 0 had only finished step 3." in said(ruling)


def test_logs_of_every_tenth_step_tell_no_number_of_steps() -> None:
    ruling = job(10)
    assert (ruling.cause, ruling.ranks) == ("missed-call", "3"), str(ruling)
    assert ruling.verdict["headline"].endswith("it logged step 40, its peers only step 30.")
    assert not any("finished" in says or "later step" in says for says in said(ruling)), said(ruling)


@pytest.mark.parametrize("interval", (1, 10))
def test_the_line_about_the_batch_is_cited_and_leads_to_the_remedy(interval: int) -> None:
    ruling = job(interval, LEFT_OUT)
    cited = {item["says"]: item["quote"] for item in ruling.verdict["evidence"]}
    assert "step 30 skipped" in cited["Rank 3 continued without a batch."]
    assert ruling.document["remedies"][0]["id"] == "exception-swallowed"


def test_a_step_that_an_exception_ended_is_not_the_last_finished_one() -> None:
    swallowed = "".join(
        f"[rank1]: WARNING step {n} skipped: RuntimeError('Timed out waiting 15000ms')\n" for n in (4, 5)
    )
    files: dict[str, str | bytes] = {
        f"logs/rank_{r}.log": steps(r, range(1, 4)) + (swallowed if r == 1 else "") + gave_up(r, 29) for r in range(4)
    }
    ranks = {row["ranks"]: row for row in read(files).document["ranks"]}
    assert "step 5" not in str(ranks), ranks


def early_metrics() -> dict[str, str | bytes]:
    """Dumps of gloo: two calls a step, and after three steps one in a group of ranks 0 and 3, which rank 3 makes two calls too early."""
    metrics = Team("1", "metrics", (0, 3))
    files: dict[str, str | bytes] = {}
    for rank in range(4):
        dump = RecordedRank(rank, world(4), metrics, backend="gloo")
        for _ in range(3):
            dump.calls(6)
            if rank in metrics.members:
                dump.call(team=metrics)
        dump.calls(4)
        dump.call(done=False) if rank != 3 else dump.call(team=metrics, done=False)
        files[f"dumps/fr_trace_{rank}"] = dump.data()
        files[f"logs/rank_{rank}.log"] = steps(rank, range(3, 4))
    return files


def recorded(warning: str) -> Ruling:
    files, said = early_metrics(), f"[rank3]: 2026-01-01 10:10:04,000 {warning}\n" if warning else ""
    return read({**files, "logs/rank_3.log": str(files["logs/rank_3.log"]) + said})


def test_who_left_its_own_order_is_sure_whether_it_skipped_the_call_or_put_it_off() -> None:
    ruling = read({name: data for name, data in early_metrics().items() if name.startswith("dumps")})
    assert (ruling.cause, ruling.ranks) == ("order-inversion", "3"), str(ruling)
    assert ruling.verdict["confidence_in"] == {"ranks": "high", "class": "medium"}, str(ruling)


def test_dumps_beside_the_line_about_the_batch_show_a_skipped_call() -> None:
    silent, told = recorded(""), recorded(LEFT_OUT)
    assert (silent.cause, silent.ranks) == ("order-inversion", "3"), str(silent)
    assert (told.cause, told.ranks, told.at) == ("missed-call", "3", ("ALLREDUCE", 23)), str(told)
    assert "Rank 3 continued without a batch." in said(told)
    assert told.document["remedies"][0]["id"] == "exception-swallowed"
