"""What was read against what the job would leave; silence of an input that was not there rules out nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from builders.jobs.cases import Log, RecordedRank, facts, gave_up, said
from builders.logs.lines import watchdog
from msgspec.structs import replace

from nccldoctor import analyze
from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import (
    CommInit,
    GpuError,
    Heartbeat,
    IbError,
    KernelEvent,
    OutOfMemory,
    ProcessExit,
    SocketError,
    Stack,
)
from nccldoctor.model import Coverage, Gap, SourceKind
from nccldoctor.model.inputs import CollectedFile
from nccldoctor.model.ranks import Ranks
from nccldoctor.summarise.coverage import MOST_PROBLEMS, coverage, ruled_out


def rows(found: Facts) -> dict[str, Coverage]:
    return {c.input: c for c in coverage(found)}


def stalled(*logs: Log, without: tuple[int, ...] = ()) -> Facts:
    recorded_ranks = [RecordedRank(r).calls(2) for r in range(4)]
    for recorded in recorded_ranks[:3]:
        recorded.call(done=False)
    return facts(*(t for t in recorded_ranks if t.rank not in without), logs=logs)


def verdicts(found: Facts) -> dict[str, bool | None]:
    """What was ruled out (False) or not checked (None)."""
    return {c.text: c.met for c in ruled_out(found, diagnose(found).findings[0])}


# ---- rows


def test_who_left_a_dump_and_who_did_not() -> None:
    row = rows(stalled(without=(3,)))["flight recorder"]
    assert (str(row.expected), str(row.found)) == ("0-3", "0-2")


def test_logs_and_dumps_have_a_row_even_where_there_are_none() -> None:
    found = rows(facts())
    assert set(found) == {"flight recorder", "logs"}
    assert not found["logs"].found


def test_nothing_is_expected_of_a_job_of_unknown_size() -> None:
    found = rows(facts(logs=[Log("r5.log", [said(Heartbeat, 5)], rank=5)]))
    assert (found["logs"].expected, found["logs"].found) == (Ranks(), Ranks([5]))


def test_a_row_for_each_kind_of_input() -> None:
    own = Log("rank_2.log", [said(Heartbeat, 2, host="n1", pid=102)], rank=2)
    stack = Log("stacks.txt", [said(Stack, 1, frames=("a (b.py:1)",))], kind=SourceKind.STACKS)
    kernel = Log("n1.dmesg", [said(KernelEvent, what="nfs")], host="n1", kind=SourceKind.KERNEL_LOG)
    agent = Log("agent.log", [said(ProcessExit, 3, exitcode=-9)])
    found = rows(stalled(own, stack, kernel, agent))
    assert {k: str(v.found) for k, v in found.items()} == {
        "flight recorder": "0-3",
        "logs": "2",
        "stacks": "1",
        "kernel log": "2",
        "exit records": "3",
    }


def test_what_could_not_be_read_is_named_in_its_row() -> None:
    found = rows(facts(RecordedRank(0).call(), (1, RecordedRank(1).call().data()[:30])))
    (problem,) = found["flight recorder"].problems
    assert problem.startswith("dumps/nccl_trace_rank_1: ")


def test_problems_of_no_known_kind_are_not_lost() -> None:
    found = stalled()
    gaps = (Gap("a.bin", "binary, unknown format"), Gap("b.zip", "refused"))
    found = replace(found, case=replace(found.case, gaps=gaps))
    assert rows(found)["other input"].problems == ("a.bin: binary, unknown format", "b.zip: refused")


def test_long_lists_are_cut_and_counted() -> None:
    found = stalled()
    gaps = tuple(Gap(f"f{i}", "torn", source=0) for i in range(MOST_PROBLEMS + 3))
    found = replace(found, case=replace(found.case, gaps=gaps))
    problems = rows(found)["flight recorder"].problems
    assert len(problems) == MOST_PROBLEMS + 1
    assert problems[-1] == "and 3 more"


def test_empty_files_are_one_note() -> None:
    """torchrun opens two logs for each rank, and most ranks write to one of them."""
    found = stalled()
    empty = [replace(found.case.sources[0], id=90 + i, path=f"{i}/out.log", kind=SourceKind.EMPTY) for i in (0, 1, 2)]
    gaps = tuple(Gap(f"{i}/out.log", "empty", source=90 + i) for i in (0, 1, 2))
    case = replace(found.case, sources=(*found.case.sources, *empty), gaps=gaps)
    assert rows(replace(found, case=case))["other input"].problems == ("0/out.log and 2 more: empty",)


def test_lines_that_were_not_understood_are_counted() -> None:
    found = stalled(Log("rank_0.log", [said(Heartbeat, 0)], rank=0))
    reading = replace(
        found.case.readings[-1], candidates=9, understood=2, first_unknown="odd line", first_unknown_at="rank_0.log:8"
    )
    found = replace(found, case=replace(found.case, readings=(reading,)))
    (problem,) = rows(found)["logs"].problems
    assert problem.startswith("rank_0.log: 2 of 9 lines") and "rank_0.log:8: odd line" in problem


def test_the_variables_that_our_collector_copied_are_no_gap() -> None:
    """A variable such as ``ROLE_RANK`` looks like a signal and is none."""
    found = stalled(Log("environment.txt", [said(Heartbeat, 0)], rank=0))
    reading = replace(found.case.readings[-1], candidates=9, understood=2)
    copied = [
        replace(source, collected=CollectedFile("environment"))
        for source in found.case.sources
        if source.id == reading.source
    ]
    log, own = (
        replace(found, case=replace(found.case, readings=(reading,), sources=tuple(sources)))
        for sources in (found.case.sources, copied)
    )
    assert rows(log)["logs"].problems and not rows(own)["logs"].problems


# ---- ruled out


def test_without_an_input_nothing_is_ruled_out() -> None:
    found = verdicts(stalled())
    assert found["network"] is None
    assert found["GPU fault"] is None
    assert found["storage stall"] is None
    assert found["out of memory"] is None
    assert found["mismatched calls"] is False, "the dumps agree"


def test_dumps_without_an_entry_agree_about_nothing() -> None:
    log = Log("rank_0.log", [said(Heartbeat, rank=0, step=3)])
    empty = [RecordedRank(rank).other(entries=[], pg_status={}) for rank in range(4)]
    assert verdicts(facts(*empty, logs=(log,)))["mismatched calls"] is None


def test_what_an_input_would_have_shown_is_ruled_out() -> None:
    own = [
        Log(f"rank_{r}.log", [said(Heartbeat, r, 1, host="n0"), said(CommInit, r, host="n0", nranks=4)], rank=r)
        for r in range(4)
    ]
    own[0] = dataclasses.replace(own[0], events=[*own[0].events, gave_up(0, 3)])
    kernel = Log("n0.dmesg", [said(KernelEvent, what="link-up")], host="n0", kind=SourceKind.KERNEL_LOG)
    found = verdicts(stalled(*own, kernel))
    assert found == dict.fromkeys(("network", "GPU fault", "out of memory", "mismatched calls", "storage stall"), False)


def test_what_was_seen_is_not_ruled_out() -> None:
    def told(event: object) -> dict[str, bool | None]:
        kernel = Log("n0.dmesg", [event, said(KernelEvent, what="link-up")], host="n0", kind=SourceKind.KERNEL_LOG)  # type: ignore[list-item]
        return verdicts(stalled(Log("rank_0.log", [said(Heartbeat, 0, 1, host="n0")], rank=0), kernel))

    assert "GPU fault" not in told(said(GpuError, xid=79))
    assert "GPU fault" in told(said(GpuError, xid=31, software=True, weight="software"))
    assert "network" not in told(said(IbError, 0, what="completion", status=12))
    assert "network" in told(said(SocketError, 0, echo=True))
    assert "out of memory" not in told(said(OutOfMemory, scope="host"))
    assert "storage stall" not in told(said(KernelEvent, what="nfs"))


def test_dumps_that_differ_rule_out_no_mismatch() -> None:
    recorded_ranks = [RecordedRank(r).calls(2).call(n=9 if r == 3 else 8, done=False) for r in range(4)]
    assert "mismatched calls" not in verdicts(facts(*recorded_ranks))


def test_memory_is_not_ruled_out_where_a_process_was_killed(tmp_path: Path) -> None:
    (tmp_path / "slurm-7.out").write_text(
        watchdog(0, 7, at="E101 10:00:00.1", numel=4) + "srun: error: node1: task 1: Killed\n"
    )
    said = {c.text for c in analyze(tmp_path).diagnosis.ruled_out if c.met is False}
    assert "out of memory" not in said


def test_a_hypothesis_that_was_not_checked_names_the_missing_input() -> None:
    def says(*logs: Log) -> dict[str, str]:
        found = stalled(*logs)
        return {c.text: c.says for c in ruled_out(found, diagnose(found).findings[0])}

    talks = [
        Log(f"r{r}.log", [said(Heartbeat, r, 1, host=f"n{r}"), said(CommInit, r, nranks=4)], rank=r) for r in range(4)
    ]
    kernel = Log("n0.dmesg", [said(KernelEvent, what="link-up")], host="n0", kind=SourceKind.KERNEL_LOG)
    assert says(*talks[:2])["GPU fault"].startswith("no kernel log among the ")
    assert says(*talks[:2])["network"] == "no logs from ranks 2-3"
    assert says(*talks)["network"] == "no transport error in 4 logs"
    assert says(*talks, kernel)["GPU fault"] == "no kernel log from n1, n2 and n3"
    unnamed = Log("dmesg.txt", [said(KernelEvent, what="link-up")], kind=SourceKind.KERNEL_LOG)
    assert says(*talks, unnamed)["GPU fault"] == "the kernel log doesn't name its host"
    assert says(*talks)["out of memory"].endswith("no exit record of ranks 0-3")
