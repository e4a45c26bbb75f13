"""Conditions about the start of a job and about its steps."""

from __future__ import annotations

import numpy as np
import pytest
from builders.remedies import fixtures_conditions
from builders.remedies.fixtures_conditions import LATE_FROM, at, finding

from nccldoctor.events import CollectiveTimeout, Phase, Progress
from nccldoctor.identify.case import Case
from nccldoctor.identify.groups import Groups
from nccldoctor.model import Finding, Gap, Group, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, Vocabulary
from nccldoctor.prescribe.conditions import Answer, Context, Met, NotCheckable, Unmet, ask

BACKWARD = (
    "_engine_run_backward (torch/autograd/graph.py:979)",
    "backward (torch/_tensor.py:623)",
    "main (/opt/train/t.py:9)",
)
BY_HAND = (
    "all_gather (torch/distributed/distributed_c10d.py:4280)",
    "wrapper (torch/distributed/c10d_logger.py:83)",
    "main (/opt/train/t.py:9)",
)


def look(case: Case, name: str, found: Finding | None = None, **arguments: object) -> Answer:
    return ask(Context(found or finding(), fixtures_conditions.survey(case)), name, arguments)


def recorded(*frames: str) -> Case:
    """Dumps of ranks 0 and 5 with two calls a step, the first of which rank 5 works 400 ms for; rank 5 lacks call 20."""
    rows = [(rank, seq) for rank in (0, 5) for seq in range(1, 20 + (rank == 0))]
    ranks, seqs = np.array(rows).T
    created = 10**12 + (seqs // 2 * 410 + seqs % 2 * 10) * 10**6
    columns = {
        "dump": ranks,
        "seq": seqs,
        "sizes": seqs % 2,
        "created_ns": created,
        "op": seqs * 0,
        "stack": seqs * 0 + 1,
    }
    split = tuple((f.partition(" (")[0], f.partition(" (")[2].partition(":")[0], 1) for f in frames)
    words = Vocabulary((), ("all_gather",), (), (), ((), split))
    heads = tuple(DumpHead(n, f"d{n}", "dict", "", 0, False, "nccl", "", (), (), True) for n in range(6))
    return fixtures_conditions.case(
        batch=Batch(heads, Calls.build(columns), words),
        call_rank=ranks.astype(np.int32),
        call_group=(seqs * 0).astype(np.int32),
        naming=Groups((Group(0, "0", "default_pg", Ranks(range(8)), "config"),), {}, {}),
    )


@pytest.mark.parametrize(("frames", "answer"), [(BACKWARD, Met), (BY_HAND, Unmet)])
def test_what_a_program_does_before_a_call_of_its_own_is_no_loading(
    frames: tuple[str, ...], answer: type[Answer]
) -> None:
    waited_in = finding(stalled=Stalled("ALLGATHER", 20, group="default_pg (0)"))
    assert isinstance(look(recorded(*frames), "between-steps", waited_in), answer)


def test_a_process_without_a_sign_of_life_may_stand_anywhere() -> None:
    waited_in = finding("frozen", stalled=Stalled("ALLREDUCE", 20, group="default_pg (0)"))
    assert isinstance(look(recorded(*BACKWARD), "between-steps", waited_in), NotCheckable)


@pytest.mark.parametrize(("counts", "answer"), [("work", Met), ("steps", Unmet)])
def test_a_bar_of_files_is_no_step(counts: str, answer: type[Answer]) -> None:
    bar = Progress(
        place=at(), text="Loading checkpoint shards 3/3", rank=0, step=3, total=3, label="Loading", counts=counts
    )
    first = finding("init", stalled=Stalled("BROADCAST", 1))
    assert isinstance(look(fixtures_conditions.case([bar]), "moment", first, is_="first-call"), answer)


def begun(rank: int) -> Phase:
    return Phase(place=at(f"rank_{rank}.log"), text=f"rank {rank} is up", rank=rank, what="starting")


@pytest.mark.parametrize(("later", "answer"), [(540.0, Met), (4.0, Unmet)])
def test_ranks_that_start_minutes_apart(later: float, answer: type[Answer]) -> None:
    case = fixtures_conditions.case([begun(0), begun(5)], [LATE_FROM, LATE_FROM + later])
    assert isinstance(look(case, "started-apart", seconds=60), answer)


def test_a_rank_whose_first_line_is_its_alarm_did_not_start_late() -> None:
    gave_up = CollectiveTimeout(place=at("rank_5.log"), text="timed out", rank=5)
    case = fixtures_conditions.case([begun(0), begun(1), gave_up], [LATE_FROM, LATE_FROM, LATE_FROM + 600])
    assert isinstance(look(case, "started-apart", seconds=60), Unmet)
    assert isinstance(
        look(fixtures_conditions.case([begun(0)], [LATE_FROM]), "started-apart", seconds=60), NotCheckable
    )


def test_an_earlier_attempt_is_told_by_what_was_set_apart() -> None:
    apart = Gap("earlier attempts of the job", "9 events of them are kept apart", apart=True)
    lost = Gap("rank_3.log", "cut off", lost=True)
    assert isinstance(look(fixtures_conditions.case(gaps=(apart,)), "restarted", least=1), Met)
    assert isinstance(look(fixtures_conditions.case(gaps=(lost,)), "restarted", least=1), Unmet)
