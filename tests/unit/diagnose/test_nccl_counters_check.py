"""NCCL's own observers in the diagnosis: alone, and beside what PyTorch's watchdogs say. The jobs are played by ``nccl_job``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from builders.jobs.nccl_job import (
    WAIT,
    Fault,
    Item,
    Job,
    Launch,
    coll_logs,
    comm_dumps,
    in_pairs,
    inspector,
    instead,
    late,
    pair_of,
    plain,
    proxy_dump,
    ras_json,
    ras_text,
    skips,
    world,
)
from builders.jobs.verdicts import Ruling, gave_up, read, step_line, taken_down

import nccldoctor
from nccldoctor.model.ranks import Ranks

FIRST, SECOND = "2026-01-11 10:05:00", "2026-01-11 10:06:00"
"""Two moments in the stall of :func:`waiting`, whose calls began at 10:00."""


def job(fault: Fault | None = None, step: Callable[[int], list[Item]] | None = None, turns: int = 10_000) -> Job:
    return Job(8, step or plain(), fault=fault).run(turns)


def asked(found: Job, *times: str) -> dict[str, str | bytes]:
    """A report of RAS at each of these times."""
    return {f"ras/{number}.json": ras_json(found, at) for number, at in enumerate(times)}


def verdict(ruling: Ruling) -> tuple[str, str, str]:
    return ruling.cause, ruling.ranks, ruling.verdict["confidence"]


# --- RAS alone --------------------------------------------------------------------------------------------------


def test_one_query_is_a_lead_and_two_that_are_equal_are_more() -> None:
    found = job(late([5]))
    once, twice = read(asked(found, FIRST)), read(asked(found, FIRST, SECOND))
    assert verdict(once) == ("not-arrived", "5", "low"), str(once)
    assert verdict(twice) == ("not-arrived", "5", "medium"), str(twice)
    assert twice.verdict["stalled"]["group"] == "communicator (0x78db921d1c117b4a)"
    assert twice.verdict["stalled"]["missing"] == "5"


def test_two_queries_within_a_moment_are_one() -> None:
    ruling = read(asked(job(late([5])), FIRST, "2026-01-11 10:05:02"))
    assert verdict(ruling) == ("not-arrived", "5", "low"), str(ruling)


def test_reports_that_a_loop_appended_to_one_file_are_compared() -> None:
    found = job(late([5]))
    assert verdict(read({"ras.json": ras_json(found, FIRST) + ras_json(found, SECOND)}))[2] == "medium"
    assert verdict(read({"ras.txt": ras_text(found) + ras_text(found)})) == ("not-arrived", "5", "medium")
    assert verdict(read({"ras.txt": ras_text(found)})) == ("not-arrived", "5", "low")


def test_a_rank_that_caught_up_between_two_queries_is_late_for_nobody() -> None:
    before, after = job(late([5], step=9)), job(late([5], step=12))
    ruling = read({"a.json": ras_json(before, FIRST), "b.json": ras_json(after, SECOND)})
    assert verdict(ruling) == ("undetermined", "", "cannot-tell"), str(ruling)


def test_the_order_of_reports_is_that_of_their_times() -> None:
    before, after = job(late([5], step=9)), job(late([5], step=12))
    ruling = read(
        {
            "z.json": ras_json(before, FIRST),
            "a.json": ras_json(after, SECOND),
            "b.json": ras_json(after, "2026-01-11 10:07:00"),
        }
    )
    assert verdict(ruling) == ("not-arrived", "5", "medium"), str(ruling)


def test_equal_counts_of_a_job_that_runs_are_no_stall() -> None:
    early, later = job(turns=20), job(turns=40)
    assert read(asked(early, FIRST)).cause == "undetermined"
    assert read({"a.json": ras_json(early, FIRST), "b.json": ras_json(later, SECOND)}).cause == "undetermined"


def test_equal_counts_that_stand_still_blame_nobody() -> None:
    ruling = read(asked(job(late(range(8))), FIRST, SECOND))
    assert verdict(ruling) == ("unfinished", "", "low"), str(ruling)


def test_the_rank_behind_in_the_pair_is_the_root_not_its_peer() -> None:
    """Rank 4 is behind in the whole job as well, because it waits for rank 5 in their pair."""
    ruling = read(asked(job(late([5]), in_pairs()), FIRST, SECOND))
    assert verdict(ruling) == ("not-arrived", "5", "medium"), str(ruling)
    assert ruling.verdict["stalled"]["group"] == "communicator (0xaa04)"


def test_who_is_behind_here_and_ahead_there_has_skipped_a_call() -> None:
    ruling = read(asked(job(skips(5, item=3), in_pairs()), FIRST, SECOND))
    assert verdict(ruling) == ("missed-call", "5", "medium"), str(ruling)


def test_who_goes_on_elsewhere_between_two_queries_has_skipped_a_call() -> None:
    """The pairs of this job go on without the reduction that rank 5 left out."""

    def step(rank: int) -> list[Item]:
        return [Launch(pair_of(rank), count=64)]

    def once(rank: int, now: int, items: list[Item]) -> list[Item]:
        return [Launch(world(8)), *items] if now == 0 and rank != 5 else items

    first, second = (Job(8, step, fault=once).run(turns) for turns in (6, 9))
    ruling = read({"a.json": ras_json(first, FIRST), "b.json": ras_json(second, SECOND)})
    assert (ruling.cause, ruling.ranks) == ("missed-call", "5"), str(ruling)


@pytest.mark.parametrize("form", [ras_text, lambda found: ras_json(found, FIRST) + ras_json(found, SECOND)])
def test_a_text_that_hides_who_is_in_a_pair_names_nobody_for_it(form: Callable[[Job], str]) -> None:
    """Rank 5 skipped a call of its pair, and rank 4 waits there: behind in the whole job is the one that waits."""
    ruling = read({"ras": form(job(skips(5, item=0), in_pairs()))})
    assert not ruling.blamed, str(ruling)
    assert ruling.sure <= 1


def test_unlike_operations_with_equal_counts_are_a_mismatch() -> None:
    found = job(instead(5, Launch(world(8), "Broadcast")))
    assert verdict(read(asked(found, FIRST, SECOND))) == ("op-mismatch", "5", "medium")
    assert verdict(read(asked(found, FIRST))) == ("op-mismatch", "5", "low")


def test_half_against_half_names_nobody() -> None:
    ruling = read(asked(job(late([0, 1, 2, 3])), FIRST, SECOND))
    assert verdict(ruling) == ("undetermined", "", "cannot-tell"), str(ruling)


def test_one_that_is_ahead_of_all_is_a_suspect_and_the_others_are_not() -> None:
    ruling = read(asked(job(skips(5, item=2)), FIRST, SECOND))
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("undetermined", "", "5"), str(ruling)


def test_ranks_ahead_in_one_query_are_no_suspects() -> None:
    """A report of 32 ranks, 2 of them a call ahead: a job that runs looks the same."""
    report = (
        "    0         1         4         8        32        32   RUNNING  MISMATCH\n\n"
        "#0-0 (ca11ab1e) MISMATCH\n  Communicator ranks have different AllGather operation counts\n"
        "  30 ranks have launched up to operation 90\n  2 ranks have launched up to operation 91\n"
        "  Rank 12 -- GPU 4 managed by process 3012 on node 10.0.0.7\n"
        "  Rank 13 -- GPU 5 managed by process 3013 on node 10.0.0.7\n"
    )
    total = "  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n"
    ruling = read({"ras.txt": total + "      4          8            1         32       32\n\n" + report})
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("undetermined", "", ""), str(ruling)
    assert "2 of 32 ranks (12-13) launched AllGather #91" in str(ruling.verdict["headline"])


def test_a_process_without_an_answer_is_a_suspect() -> None:
    found = job(late([5]))
    for files in ({"ras.json": ras_json(found, FIRST, silent=[5])}, {"ras.txt": ras_text(found, silent=[5])}):
        ruling = read({**files})
        assert ruling.at != (None, 0), "no call without a count"
        assert (ruling.ranks, ruling.verdict["suspects"]) == ("", "5"), str(ruling)
        assert ruling.cause not in ("none", "not-arrived")
        assert ruling.sure <= 1


@pytest.mark.parametrize(("rank", "size"), [(5, 8), (11, 16), (30, 32)])
def test_a_report_without_its_head_names_the_rank_by_its_table(rank: int, size: int) -> None:
    """People paste it from the table on. The largest communicator holds the GPUs of all rows: its ranks are those of the job."""
    text = ras_text(Job(size, in_pairs(size), fault=late([rank], after=0)).run())
    ruling = read({"ras.txt": text[text.index("Group     Comms") :]})
    assert verdict(ruling) == ("not-arrived", str(rank), "low"), str(ruling)
    assert ruling.verdict["headline"].startswith(f"Rank {rank} (10.0.0.{11 + rank // 4})")


def test_a_block_without_the_table_names_no_rank_and_is_told() -> None:
    text = ras_text(job(late([5])))
    ruling = read({"ras.txt": text[text.index("#0-0") :]})
    assert (ruling.cause, ruling.ranks) == ("undetermined", "")
    assert "rank 5 there is process 7005 on 10.0.0.12" in ruling.verdict["headline"]


def test_a_process_that_ras_gave_up_on_died() -> None:
    ruling = read({"ras.json": ras_json(job(late([5])), FIRST, dead=[5])})
    assert verdict(ruling) == ("died", "5", "medium"), str(ruling)


def test_a_dead_process_whose_rank_is_not_known_is_told_by_its_id() -> None:
    ruling = read({"ras.txt": "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
                              "  Process 7005 on node 10.0.0.12 managing GPU 1\n"})  # fmt: skip
    assert (ruling.cause, ruling.ranks) == ("died", ""), str(ruling)
    assert "7005" in ruling.verdict["headline"]


# --- COLL lines -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inits", [True, False])
def test_the_rank_whose_lines_end_early_has_not_arrived(inits: bool) -> None:
    ruling = read({**coll_logs(job(late([5])), inits=inits)})
    assert verdict(ruling) == ("not-arrived", "5", "low"), str(ruling)
    assert ruling.at == ("ALLGATHER", 28), "opCount is hexadecimal, and is the number of the call"


def test_lines_beside_a_complaint_are_worth_more() -> None:
    files = coll_logs(job(late([5])))
    files["rank_0.log"] += (
        "[rank0]:[E111 10:10:00.000000000 ProcessGroupNCCL.cpp:1410] [PG ID 0 PG GUID 0(default_pg) Rank 0] Heartbeat monitor "
        "timed out! Process will be terminated after dumping debug info. workMetaList_.size()=3\n"
    )
    assert verdict(read({**files})) == ("not-arrived", "5", "medium")


@pytest.mark.parametrize(
    ("launch", "cause"),
    [
        (Launch(world(8), "Broadcast"), "op-mismatch"),
        (Launch(world(8), count=17), "size-mismatch"),
        (Launch(world(8), dtype="bf16"), "dtype-mismatch"),
    ],
)
def test_unlike_calls_under_one_number_are_a_mismatch(launch: Launch, cause: str) -> None:
    ruling = read({**coll_logs(job(instead(5, launch)))})
    assert (ruling.cause, ruling.ranks, ruling.at) == (cause, "5", ("ALLREDUCE", 27)), str(ruling)


def test_a_call_that_one_rank_left_out_is_no_mismatch() -> None:
    ruling = read({**coll_logs(job(skips(5, item=2)))})
    assert (ruling.cause, ruling.ranks, ruling.at) == ("missed-call", "5", ("ALLREDUCE", 29)), str(ruling)


def test_a_call_that_only_one_rank_issued_is_one_too_many() -> None:
    def more(rank: int, now: int, items: list[Item]) -> list[Item]:
        return [Launch(world(8), "Broadcast", 7), *items] if (rank, now) == (5, 9) else items

    ruling = read({**coll_logs(job(more))})
    assert (ruling.cause, ruling.ranks) == ("extra-call", "5"), str(ruling)


def test_sends_count_on_their_two_ends_alone() -> None:
    """opCount of ranks that send is higher than that of ranks that do not: neither is late."""

    def step(rank: int) -> list[Item]:
        ends = [Launch(world(8), "Send" if rank == 0 else "Recv", 8)] if rank in (0, 1) else []
        return [*ends, Launch(world(8))]

    ruling = read({**coll_logs(Job(8, step).run())})
    assert not ruling.blamed, str(ruling)
    assert ruling.cause in ("none", "undetermined")


def test_hosts_that_run_ahead_at_different_paces_are_no_stall() -> None:
    found = job()
    for rank, state in enumerate(found.ranks):
        del state.launched[40 + rank :]
    assert read({**coll_logs(found)}).cause == "undetermined"


def test_lines_that_all_end_at_one_number_are_no_stall() -> None:
    assert read({**coll_logs(job())}).cause == "undetermined"


def test_a_log_that_was_not_collected_is_not_behind() -> None:
    files = coll_logs(job(late([5])))
    del files["rank_5.log"]
    assert not read({**files}).blamed


# --- dumps of communicators -------------------------------------------------------------------------------------


def test_dumps_of_communicators_tell_where_a_recorder_was_off() -> None:
    ruling = read({**comm_dumps(job(late([5]), in_pairs()))})
    assert verdict(ruling) == ("not-arrived", "5", "medium"), str(ruling)
    assert ruling.at == ("ALLGATHER", 19)


def test_dumps_of_communicators_show_unlike_operations() -> None:
    ruling = read({**comm_dumps(job(instead(5, Launch(world(8), "Broadcast"))))})
    assert (ruling.cause, ruling.ranks) == ("op-mismatch", "5"), str(ruling)


def test_a_communicator_that_not_all_dumped_tells_nothing() -> None:
    assert not read({**comm_dumps(job(late([5])), without=[5])}).blamed


def test_calls_that_finished_everywhere_are_no_stall() -> None:
    assert not read({**comm_dumps(job())}).blamed


# --- beside the watchdogs ---------------------------------------------------------------------------------------


def waiting(*ranks: int, silent: int | None = 5) -> dict[str, str | bytes]:
    """Logs of ranks that gave up on a call of ten minutes, and of one that only trained."""
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, 50) + taken_down(r, 50) for r in ranks}
    if silent is not None:
        files[f"logs/rank_{silent}.log"] = step_line(silent, 7, "09:59:01")
    return files


SEVEN = (0, 1, 2, 3, 4, 6, 7)


def test_without_ras_it_is_open_whether_the_rank_lives() -> None:
    assert verdict(read(waiting(*SEVEN))) == ("not-arrived", "5", "low")


def test_an_independent_observer_that_agrees_makes_it_sure() -> None:
    ruling = read(waiting(*SEVEN) | asked(job(late([5])), FIRST))
    assert verdict(ruling) == ("not-arrived", "5", "high"), str(ruling)
    assert ruling.at == ("ALLREDUCE", 50), "PyTorch's own number names the call"


def test_an_observer_that_names_somebody_else_lowers_it() -> None:
    ruling = read(waiting(*SEVEN) | asked(job(late([3])), FIRST))
    assert ruling.ranks == "5"
    assert ruling.sure <= 1, str(ruling)
    assert any(not e["supports"] for e in ruling.verdict["evidence"])


def test_a_report_from_before_the_stall_says_nothing() -> None:
    for found in (job(late([5])), job(late([3]))):
        assert verdict(read(waiting(*SEVEN) | asked(found, "2026-01-11 08:05:00"))) == ("not-arrived", "5", "low")


def test_of_several_silent_ranks_ras_names_the_one_that_is_behind() -> None:
    files = waiting(0, 1, 2, 3, 4, silent=None)
    assert not read(files).blamed
    ruling = read(files | asked(job(late([5])), FIRST))
    assert verdict(ruling) == ("not-arrived", "5", "medium"), str(ruling)


def test_everybody_in_the_call_and_one_behind_contradict_each_other() -> None:
    ruling = read(waiting(*range(8), silent=None) | asked(job(late([5])), FIRST))
    assert verdict(ruling) == ("unfinished", "", "low"), str(ruling)
    assert ruling.verdict["suspects"] == "5"


def test_processes_that_went_with_the_job_did_not_die_first() -> None:
    ruling = read(
        waiting(*range(8), silent=None) | {"ras.json": ras_json(job(late(range(8))), "2026-01-11 10:25:00", dead=[0])}
    )
    assert not ruling.blamed, str(ruling)
    assert ruling.cause == "unfinished"


def test_a_single_query_of_a_job_whose_logs_are_well_is_no_stall() -> None:
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": step_line(r, 7, "10:05:01") for r in range(8)}
    ruling = read(files | asked(job(late([5])), FIRST))
    assert not ruling.blamed, str(ruling)


# --- leads: what the Inspector and the proxy thread wrote -----------------------------------------------------------


def test_the_rank_whose_last_record_is_earliest_is_a_suspect() -> None:
    files = waiting(*range(8), silent=None)
    ruling = read(files | inspector(job(late([5])), short=[5]))
    assert (ruling.ranks, ruling.verdict["suspects"]) == ("", "5"), str(ruling)
    assert any(e["where"].startswith("inspector/5.log") for e in ruling.verdict["evidence"])
    assert read(files | inspector(job(late([5])))).verdict["suspects"] == "", "equal records tell nothing"


def test_records_without_a_complaint_are_no_stall() -> None:
    ruling = read({**inspector(job(late([5])), short=[5])})
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("undetermined", "", "5"), str(ruling)


def test_records_of_a_smaller_communicator_do_not_name_ranks_of_the_job() -> None:
    """Rank 1 of a pair may be any rank of the job; without the whole job's records its process is not known."""
    pairs = Job(8, lambda rank: [Launch(pair_of(rank))]).run()
    ruling = read(
        waiting(*SEVEN)
        | {p: t for p, t in inspector(pairs, short=[3]).items() if p in ("inspector/2.log", "inspector/3.log")}
    )
    assert ruling.ranks == "5"
    assert not any("inspector" in e["where"] for e in ruling.verdict["evidence"])


def test_a_transfer_that_waits_for_the_culprit_is_evidence() -> None:
    files = waiting(*SEVEN)
    files["logs/rank_4.log"] = proxy_dump("Recv 5R/0 5R/1", "Send 6D/0") + str(files["logs/rank_4.log"])
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "5")
    assert any("wait for rank 5" in e["says"] for e in ruling.verdict["evidence"]), str(ruling)


def test_a_gpu_that_does_not_run_its_transfers_is_a_suspect() -> None:
    files = waiting(*range(8), silent=None)
    for rank in range(8):
        dump = proxy_dump("Send 4G/0 4G/1") if rank == 3 else proxy_dump(f"Recv {(rank - 1) % 8}R/0")
        files[f"logs/rank_{rank}.log"] = dump + str(files[f"logs/rank_{rank}.log"])
    ruling = read(files)
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("unfinished", "", "3"), str(ruling)


def test_neighbours_that_wait_in_a_ring_point_at_nobody() -> None:
    files = waiting(*range(8), silent=None)
    for rank in range(8):
        files[f"logs/rank_{rank}.log"] = proxy_dump(f"Recv {(rank - 1) % 8}R/0") + str(files[f"logs/rank_{rank}.log"])
    assert read(files).verdict["suspects"] == ""


def test_a_copy_for_strangers_names_no_node_of_a_report(tmp_path: Path) -> None:
    """Ranks of a small communicator are not known, and yet their nodes stand in the report."""
    report = (
        "#2-0 (78db) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  3 ranks have launched up to "
        "operation 64\n  Rank 1 has launched up to operation 60 -- GPU 3 managed by process 9 on node gpu-a77\n"
    )
    (tmp_path / "ras.txt").write_text(report, encoding="utf-8")
    copy = nccldoctor.analyze(tmp_path).redacted(["hosts", "addresses"])
    for text in (copy.to_json(), repr(copy.case)):
        assert "gpu-a77" not in text


def test_a_rank_under_which_nccl_failed_is_a_suspect_and_one_that_lost_its_peer_is_not() -> None:
    report = json.loads(ras_json(job(late(range(8))), FIRST))
    for rank, code in ((3, 1), (4, 6)):
        report["communicators"][0]["ranks"][rank]["status"] = {"init_state": 0, "async_error": code}
    ruling = read(waiting(*range(8), silent=None) | {"ras.json": json.dumps(report)})
    assert (ruling.ranks, ruling.verdict["suspects"]) == ("", "3"), str(ruling)
    alone = read({"ras.json": json.dumps(report)})
    assert alone.cause == "undetermined", "an error is no sign that all is well"
    assert alone.verdict["suspects"] == "3"


def test_a_peer_that_the_monitor_calls_dead_in_the_stall_died() -> None:
    files = waiting(*SEVEN)
    prefix = "node1:7005:7045 [1] NCCL INFO ncclCommInitRank comm 0x55 rank 5 nranks 8 cudaDev 1 nvmlDev 1 busId 2000 commId 0x7"
    files["logs/rank_5.log"] = f"{prefix} - Init COMPLETE\n" + str(files["logs/rank_5.log"])
    told = "PEER_DEAD: Process 7005 on node 10.0.0.12 managing GPU 1\n"
    ruling = read(files | {"monitor.txt": f"[2026-01-11 10:02:00] {told}"})
    assert verdict(ruling) == ("died", "5", "medium"), str(ruling)
    after = read(files | {"monitor.txt": f"[2026-01-11 10:15:00] {told}"})
    assert verdict(after) == ("not-arrived", "5", "low"), "a process that is gone when all have given up was taken down"


def test_coverage_tells_whose_calls_were_counted() -> None:
    found = job(late([5]), in_pairs())
    rows = {row["input"]: row for row in read({"ras.json": ras_json(found, FIRST, silent=[6])}).document["coverage"]}
    assert (rows["counts of NCCL"]["expected"], rows["counts of NCCL"]["found"]) == ("0-7", "0-5,7")
    rows = {row["input"]: row for row in read({"ras.txt": ras_text(found)}).document["coverage"]}
    assert [p for p in rows["counts of NCCL"]["problems"] if "0xaa04" in p]
    assert "counts of NCCL" not in {row["input"] for row in read(waiting(*SEVEN)).document["coverage"]}


def test_wait_is_part_of_the_program() -> None:
    assert job(late([5])).ranks[0].todo[job(late([5])).ranks[0].at] == WAIT, "the others wait, and launch nothing more"


def analysis(*missing: int, size: int) -> str:
    """What PyTorch's analyser prints of a call that ranks miss."""
    return (
        f"Not all ranks joining collective, sequence number: 27\ninternal record id: 26\ngroup info: 0:default_pg\n"
        f"collective: nccl:all_reduce\nmissing ranks: {set(missing)}\ninput sizes: [[4096]]\noutput sizes: [[4096]]\n"
        f"world size: {size}\nexpected ranks: {set(range(size))}\ncollective state: scheduled\n"
    )


@pytest.mark.parametrize(
    ("who", "size", "step"), [([5], 8, plain), ([11], 16, plain), ([5, 6], 8, plain), ([2], 8, in_pairs)]
)
def test_ras_beside_the_analyser_confirms_what_it_says(
    who: list[int], size: int, step: Callable[[int], Callable[[int], list[Item]]]
) -> None:
    """The analyser has PyTorch's own numbers, and RAS counts fewer calls of the same rank."""
    ras, trace = ras_text(Job(size, step(size), fault=late(who, after=0)).run()), analysis(*who, size=size)
    alone, both = read({"trace.txt": trace}), read({"trace.txt": trace, "ras.txt": ras})
    assert (alone.cause, both.cause) == ("not-arrived", "not-arrived")
    assert alone.ranks == both.ranks == str(Ranks(who)), str(both)
    assert both.sure > alone.sure
    assert both.verdict["stalled"]["seq"] == 27


def test_the_analyser_tells_who_arrived_and_the_size_of_the_job(tmp_path: Path) -> None:
    ruling = read({"trace.txt": analysis(1, size=2)})
    stalled = ruling.verdict["stalled"]
    assert (stalled["entered"], stalled["missing"], ruling.document["job"]["world_size"]) == ("0", "1", 2)
    (tmp_path / "trace.txt").write_text(
        analysis(6, size=8).replace("0:default_pg", "3:tp").replace("{0, 1, 2, 3, ", "{")
    )
    found = nccldoctor.analyze(str(tmp_path)).verdict.stalled
    assert found is not None
    assert (found.group, found.entered) == ("tp (3)", Ranks([4, 5, 7]))


# --- one call of each rank, as people paste them ------------------------------------------------------------------


def pasted(size: int, ranks: Iterable[int], odd: int | None = None, number: int = 0x1A5, **other: Any) -> str:
    """One COLL line of each of these ranks; that of ``odd`` has other values."""
    lines = []
    for rank in ranks:
        call = {"op": "AllReduce", "count": 4096, "type": 7} | (other if rank == odd else {})
        lines.append(
            f"[rank{rank}]: n1:{7000 + rank}:{7040 + rank} [{rank}] NCCL INFO {call['op']}: opCount {number:x} sendbuff 0x7f60 "
            f"recvbuff 0x7f60 count {call['count']} datatype {call['type']} op 0 root 0 comm 0x55{rank:02x} [nranks={size}] stream 0x55\n"
        )
    return "".join(lines)


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        ({"count": 99}, "size-mismatch"),
        ({"count": 99, "type": 9}, "size-mismatch"),
        ({"type": 9}, "dtype-mismatch"),
        ({"op": "AllGather", "count": 99}, "op-mismatch"),
    ],
)
@pytest.mark.parametrize(("size", "heard", "odd"), [(4, 4, 2), (6, 6, 0), (8, 8, 7), (8, 6, 3)])
def test_one_line_of_each_rank_shows_who_differs_from_most(
    other: dict[str, Any], cause: str, size: int, heard: int, odd: int
) -> None:
    ruling = read({"nccl.log": pasted(size, range(heard), odd, **other)})
    assert verdict(ruling) == (cause, str(odd), "low"), str(ruling)
    ruling = read({f"rank_{r}.log": pasted(size, [r], odd, **other) for r in range(heard)})
    assert verdict(ruling) == (cause, str(odd), "low"), str(ruling)


def test_one_line_of_each_rank_names_nobody_where_no_majority_or_no_communicator_stands() -> None:
    pages = (
        pasted(4, range(4)),
        pasted(2, range(2), 1, count=99),
        pasted(8, range(4), 1, count=99),
        pasted(4, [0, 1, 2, 7], 7, count=99),
    )
    for page in pages:
        assert read({"nccl.log": page}).blamed == set(), page
