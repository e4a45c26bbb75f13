"""What is lost lowers the confidence where it could refute the verdict, and nowhere else."""

from __future__ import annotations

import dataclasses
import gzip
import pickle
from pathlib import Path

import pytest
from builders.jobs.cases import Log, RecordedRank, case, gave_up, said, world
from builders.logs.lines import watchdog
from msgspec.structs import replace

import nccldoctor
from nccldoctor.align.facts import align
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import DumpSignal, Progress
from nccldoctor.model import CauseClass, Confidence, Finding, Gap, SourceKind
from nccldoctor.model.ranks import Ranks

CUT = "the file ends early"


def stuck(*gaps: Gap, kind: SourceKind = SourceKind.LOG, reaches: float = 20.0) -> Finding:
    """Rank 2 of 4 never came; sources 0 to 3 are the dumps, 4 to 7 the ranks' logs, 8 belongs to nobody."""
    recorded_ranks = [
        RecordedRank(r, world(4)).calls(8) if r == 2 else RecordedRank(r, world(4)).calls(8).call(done=False)
        for r in range(4)
    ]
    logs = [
        Log(f"rank_{r}.log", [said(Progress, r, 10.0, step=8), *([] if r == 2 else [gave_up(r, 9, 600.0)])], rank=r)
        for r in range(4)
    ]
    logs[2] = dataclasses.replace(logs[2], events=[*logs[2].events, said(DumpSignal, 2, 601.0)])
    other = Log("extra", [said(Progress, None, reaches, step=8)], kind=kind)
    made = case(*recorded_ranks, logs=[*logs, other])
    return diagnose(align(replace(made, gaps=(*made.gaps, *gaps)))).findings[0]


def lost(source: int | None, what: str = "a file", rank: int | None = None) -> Gap:
    return Gap(what, CUT, Ranks([rank] if rank is not None else []), source, lost=True)


def test_whole_files_give_high_confidence() -> None:
    found = stuck()
    assert (found.cause, str(found.ranks), found.confidence) == (CauseClass.NOT_ARRIVED, "2", Confidence.HIGH)


@pytest.mark.parametrize(
    ("gap", "why"),
    [
        (lost(2, rank=2), "its own dump would show the call"),
        (lost(None, "dumps/nccl_trace_rank_2"), "the name says whose it is"),
        (lost(8), "a file of nobody, read up to before the alarm"),
        (lost(None, "everything"), "nobody knows what it held"),
    ],
)
def test_a_loss_that_could_refute_it(gap: Gap, why: str) -> None:
    found = stuck(gap)
    assert found.confidence is Confidence.MEDIUM, why
    assert f"missing part of {gap.what} ({CUT})" in found.doubts[0].says


@pytest.mark.parametrize(
    ("gap", "why"),
    [
        (lost(0, rank=0), "rank 0 waits, by its own line and its peers"),
        (lost(5), "the log of rank 1, which gave up itself"),
        (lost(6), "what was read of the log of rank 2 goes on behind the alarm"),
        (lost(None, "dumps/nccl_trace_rank_3"), "rank 3 waits by its lines"),
        (replace(lost(2), lost=False), "a wrapped ring is no loss"),
    ],
)
def test_a_loss_that_could_not(gap: Gap, why: str) -> None:
    found = stuck(gap)
    assert found.confidence is Confidence.HIGH, why
    assert not any("missing part" in doubt.says for doubt in found.doubts)


def test_a_file_of_nobody_that_reaches_beyond_the_alarm() -> None:
    assert stuck(lost(8), reaches=700.0).confidence is Confidence.HIGH


def test_a_kernel_log_does_not_refute_that_a_living_rank_is_elsewhere() -> None:
    assert stuck(lost(8), kind=SourceKind.KERNEL_LOG).confidence is Confidence.HIGH


def test_the_counters_of_a_cut_dump_say_enough_of_an_absent_rank(tmp_path: Path) -> None:
    """Torch writes them before the entries: the cut took what nobody needs here."""
    for r in range(4):
        recorded = RecordedRank(r, world(4)).calls(8) if r == 2 else RecordedRank(r, world(4)).calls(8).call(done=False)
        content = recorded.content()
        whole = pickle.dumps(
            {key: content[key] for key in ("version", "pg_config", "pg_status", "entries")}, protocol=2
        )
        (tmp_path / f"nccl_trace_rank_{r}").write_bytes(whole[:-200] if r == 2 else whole)
    (tmp_path / "job.log").write_text(
        "".join(watchdog(r) for r in (0, 1, 3))
        + "[rank2]:[E202 03:20:01.050510987 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) Rank 2] ProcessGroupNCCL "
        "preparing to dump debug info.\n"
    )
    found = nccldoctor.analyze(tmp_path)
    assert "nccl_trace_rank_2" in [gap.what for gap in found.case.gaps if gap.lost]
    assert (str(found.verdict.ranks), found.verdict.confidence) == ("2", Confidence.HIGH)


def full(gap: Gap | None) -> Finding:
    """All four ranks are in call 9 and it does not end; the dump of rank 3 may be lost."""
    recorded_ranks = [RecordedRank(r, world(4)).calls(8).call(done=False) for r in range(3 if gap else 4)]
    logs = [Log(f"rank_{r}.log", [gave_up(r, 9, 600.0, world(4))], rank=r) for r in range(4)]
    made = case(*recorded_ranks, logs=logs)
    return diagnose(align(replace(made, gaps=(*made.gaps, *([gap] if gap else []))))).findings[0]


def test_that_all_are_in_a_call_needs_every_members_dump() -> None:
    """By its line rank 3 is in it; whether its calls agree would have stood in its dump."""
    assert full(None).confidence is Confidence.HIGH
    assert full(lost(None, "dumps/nccl_trace_rank_3")).confidence is not Confidence.HIGH


def test_a_log_cut_inside_its_archive(tmp_path: Path) -> None:
    """From end to end: the log of the named rank is cut while it was packed."""
    for r in range(4):
        recorded = RecordedRank(r, world(4)).calls(8) if r == 2 else RecordedRank(r, world(4)).calls(8).call(done=False)
        (tmp_path / f"nccl_trace_rank_{r}").write_bytes(recorded.data())
        (tmp_path / f"rank_{r}.log").write_text("" if r == 2 else watchdog(r))
    own = "".join(
        f"[rank2]: 2026-02-02 03:0{m}:00,600 | INFO | trainer | step {m}/50000 | loss 3.0\n" for m in range(9)
    )
    (tmp_path / "rank_2.log").write_text(own)
    whole = nccldoctor.analyze(tmp_path).verdict
    (tmp_path / "rank_2.log").unlink()
    (tmp_path / "rank_2.log.gz").write_bytes(gzip.compress(own.encode())[:-12])
    cut = nccldoctor.analyze(tmp_path).verdict
    assert (str(whole.ranks), str(cut.ranks)) == ("2", "2")
    assert (whole.confidence, cut.confidence) == (Confidence.HIGH, Confidence.MEDIUM)
    assert "rank_2.log.gz" in cut.doubts[0].says
