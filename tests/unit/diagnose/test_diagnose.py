"""The whole way from a Case to findings: it never fails, and the order of the input never matters."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from builders.jobs.cases import WORLD, Log, RecordedRank, Team, case, facts, gave_up, group_named, said
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nccldoctor
from nccldoctor.align.facts import align
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import (
    KINDS,
    AbortStuck,
    AbsenceReport,
    AbsenceWarning,
    BlockingWaitTimeout,
    CollectiveMismatch,
    CollectiveTimeout,
    CommInit,
    CudaError,
    DesyncReport,
    DumpSignal,
    Event,
    ExceptionRaised,
    GpuError,
    GroupRef,
    Heartbeat,
    HeartbeatStuck,
    IbError,
    KernelEvent,
    MonitoredBarrier,
    NcclError,
    OutOfMemory,
    PeerTimeout,
    Phase,
    ProcessExit,
    Progress,
    RasStatus,
    SchedulerEvent,
    SocketError,
    Stack,
    StoreError,
    TearDown,
    WorkStatus,
)
from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass, Confidence, SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.summarise.coverage import coverage, ruled_out
from nccldoctor.summarise.rank_table import alarm, job, rank_table

TP_LOW, TP_HIGH = Team("1", "tp", (0, 1)), Team("2", "tp", (2, 3))
DP_EVEN, DP_ODD = Team("3", "dp", (0, 2)), Team("4", "dp", (1, 3))
TEAMS = (WORLD, TP_LOW, TP_HIGH, DP_EVEN, DP_ODD)

# ---- facts as a whole


def test_the_first_call_of_an_absent_rank_is_the_one_it_would_have_issued_next() -> None:
    # each step is tp then dp; 3 stopped before tp, and its dp partner 1 waits for it too
    recorded_ranks = [RecordedRank(r, *TEAMS) for r in range(4)]
    for step in range(4):
        for recorded in recorded_ranks:
            tp, dp = recorded.teams[1], recorded.teams[2]
            if step == 3 and recorded.rank == 3:
                continue
            recorded.call(team=tp, done=step < 3 or recorded.rank < 2)
            if step < 3 or recorded.rank < 2:
                recorded.call("reduce_scatter", team=dp, done=step < 3)
    found = facts(*recorded_ranks)
    stall = next(s for s in found.stalls if 3 in s.ranks)
    assert stall.kind is StallKind.ABSENT
    assert stall.call is not None
    assert found.case.groups[stall.call.group].uid == "2"


def test_calls_known_from_lines_are_ordered_by_when_they_were_issued() -> None:
    logs = [
        Log("r0.log", [gave_up(0, 3, 700, team=TP_LOW)], rank=0),
        Log("r2.log", [gave_up(2, 9, 650, team=TP_HIGH)], rank=2),
    ]
    found = align(case(logs=logs))
    by_seq = {found.wait_graph.calls[k].seq: when for k, when in found.issued_at.items()}
    assert by_seq[9] < by_seq[3]
    assert by_seq[3] - by_seq[9] == pytest.approx(50)


def test_recorded_calls_are_ordered_by_the_recorder() -> None:
    found = facts(*(RecordedRank(r).pause(5).call(done=False) for r in range(4)))
    ((_, when),) = found.issued_at.items()
    assert when == pytest.approx(1_780_000_005, abs=0.001)


def test_a_healthy_job_has_no_stalls() -> None:
    found = facts(*(RecordedRank(r).calls(9) for r in range(4)))
    assert found.stalls == ()
    (verdict,) = diagnose(found).findings
    assert verdict.cause is CauseClass.NONE
    assert not verdict.ranks


def test_an_empty_case_is_undetermined() -> None:
    verdict = diagnose(facts()).findings[0]
    assert verdict.cause in (CauseClass.UNDETERMINED, CauseClass.NONE)
    assert verdict.confidence in (Confidence.LOW, Confidence.CANNOT_TELL)


def test_one_dump_of_many_names_nobody() -> None:
    verdict = diagnose(facts(RecordedRank(0).calls(2).call(done=False))).findings[0]
    assert not verdict.ranks
    assert verdict.confidence is not Confidence.HIGH


# ---- any valid case

OPS = ("all_reduce", "broadcast", "all_gather", "barrier", "all_to_all")
STATES = ({}, {"state": "started"}, {"retired": True})


@st.composite
def recorded_ranks(draw: st.DrawFn) -> list[RecordedRank]:
    """Dumps of some ranks, with calls of any kind in any order."""
    backend = draw(st.sampled_from(("nccl", "nccl", "gloo")))
    out = []
    for rank in draw(st.lists(st.integers(0, 3), unique=True, max_size=4)):
        recorded = RecordedRank(rank, *TEAMS, backend=backend)
        for _ in range(draw(st.integers(0, 7))):
            team = draw(st.sampled_from(recorded.teams))
            done = draw(st.booleans())
            more: dict[str, Any] = dict(draw(st.sampled_from(STATES))) if not done and backend == "nccl" else {}
            others = [m for m in team.members if m != rank]
            match draw(st.integers(0, 5)):
                case 0:
                    recorded.send(draw(st.sampled_from(others)), team, done=done, **more)
                case 1:
                    recorded.recv(draw(st.sampled_from(others)), team, done=done, **more)
                case 2:
                    ends = draw(
                        st.lists(
                            st.tuples(st.sampled_from(("send", "recv")), st.sampled_from(others)),
                            min_size=1,
                            max_size=3,
                        )
                    )
                    recorded.batch(*ends, team=team, done=done)
                case _:
                    recorded.call(
                        draw(st.sampled_from(OPS)), team, done=done, n=draw(st.sampled_from((8, 8, 9, 0))), **more
                    )
        if draw(st.integers(0, 5)) == 0:
            recorded.kept(draw(st.integers(1, 3)))
        if draw(st.integers(0, 5)) == 0:
            recorded.other(pg_config={})
        if draw(st.integers(0, 7)) == 0:
            recorded.other(entries=[])
        if draw(st.integers(0, 7)) == 0:
            recorded.other(pg_status={})
        out.append(recorded)
    return out


REFS = (
    None,
    GroupRef(),
    GroupRef(pg_id=0, uid="0"),
    GroupRef(pg_id=1),
    *(t.ref for t in TEAMS),
    GroupRef(uid="77", desc="cp"),
)
SOME = st.sampled_from((Ranks(), Ranks([0]), Ranks([3]), Ranks([1, 2])))
NUMBER = st.sampled_from((None, -1, 0, 1, 3, 7, 1 << 60))
SEQ = st.sampled_from((None, 0, 1, 3, 7, 1 << 60))
"""Numbers of calls; counters may be -1."""

ABSENCE: dict[str, st.SearchStrategy[Any]] = {
    "by": st.sampled_from(("JAX", "Horovod", "vLLM")),
    "what": st.sampled_from(("set-up", "barrier", "collective", "answer", "step", "quorum")),
    "missing": SOME,
    "reached": SOME,
    "arrived": NUMBER,
    "size": NUMBER,
}
FIELDS: dict[type[Event], dict[str, st.SearchStrategy[Any]]] = {
    CollectiveTimeout: {
        "op": st.sampled_from((None, "ALLREDUCE", "SEND")),
        "seq": SEQ,
        "numel_in": NUMBER,
        "ran_ms": st.sampled_from((None, 600_000)),
    },
    BlockingWaitTimeout: {"op": st.just("BROADCAST"), "seq": SEQ},
    WorkStatus: {"failed": SEQ, "last_enqueued": NUMBER, "last_completed": NUMBER},
    AbortStuck: {"ran_ms": NUMBER},
    DumpSignal: {"last_enqueued": NUMBER, "last_completed": NUMBER, "from_rank": st.sampled_from((None, 0, 9))},
    HeartbeatStuck: {},
    DesyncReport: {"laggards": SOME, "seq": NUMBER},
    MonitoredBarrier: {"missing": SOME, "reached": SOME, "seq": NUMBER},
    CollectiveMismatch: {
        "left_rank": NUMBER,
        "right_rank": NUMBER,
        "aspects": st.sampled_from(((), ("op",), ("shape", "dtype"), ("size",))),
        "op": st.sampled_from((None, "ALLREDUCE")),
        "seq": NUMBER,
    },
    ProcessExit: {
        "exitcode": st.sampled_from((None, 0, 1, -9, -6, -15, 137)),
        "first": st.booleans(),
        "local_rank": st.sampled_from((None, 0, 5)),
        "task": st.sampled_from((None, 1)),
    },
    ExceptionRaised: {
        "type": st.just("ValueError"),
        "message": st.sampled_from(("", "Connection closed by peer")),
        "origin": st.sampled_from(("own", "echo", "")),
        "logged": st.booleans(),
    },
    OutOfMemory: {"scope": st.sampled_from(("host", "device"))},
    NcclError: {"code": st.sampled_from((None, "ncclRemoteError"))},
    IbError: {
        "what": st.sampled_from(("completion", "port", "notice")),
        "status": st.sampled_from((None, 5, 12)),
        "peer": st.sampled_from((None, "10.0.0.1")),
    },
    SocketError: {"echo": st.booleans()},
    GpuError: {
        "xid": st.sampled_from((None, 79, 31)),
        "software": st.booleans(),
        "device": st.sampled_from((None, "0000:1a:00", "?")),
    },
    CudaError: {"software": st.booleans()},
    StoreError: {
        "operation": st.sampled_from(("wait", "recv", "clients-missing", "unique-id")),
        "missing": NUMBER,
        "peer": NUMBER,
    },
    SchedulerEvent: {"what": st.sampled_from(("preempted", "node-failure", "cancelled", "oom"))},
    KernelEvent: {"what": st.sampled_from(("nfs", "link-down", "blocked-task"))},
    TearDown: {"what": st.sampled_from(("closing-signal", "forced-kill", "watchdog-terminated"))},
    Heartbeat: {"step": NUMBER},
    Progress: {"step": NUMBER, "rate": st.sampled_from((None, 0.0, 2.5))},
    Phase: {"what": st.sampled_from(("checkpoint", "finished", "epoch-end", "evaluation"))},
    Stack: {
        "frames": st.sampled_from(((), ("all_reduce (x/torch/d.py:1)",), ("load (a.py:2)",))),
        "main": st.booleans(),
    },
    CommInit: {
        "what": st.sampled_from(("start", "complete", "abort")),
        "nranks": st.sampled_from((None, 4, 2)),
        "comm_id": st.sampled_from((None, "c1")),
        "bus_id": st.sampled_from((None, "1a000", "zz")),
    },
    RasStatus: {"missing": SOME},
    AbsenceReport: ABSENCE,
    AbsenceWarning: ABSENCE,
    PeerTimeout: {"op": st.sampled_from((None, "ALLREDUCE")), "peer": NUMBER, "size": NUMBER},
}
"""What the fields of an event may hold."""


@st.composite
def events(draw: st.DrawFn) -> Event:
    kind = draw(st.sampled_from(sorted(FIELDS, key=lambda k: k.kind)))
    second = draw(st.sampled_from((None, 1.0, 100.0, 600.0, 603.0, 1200.0)))
    common = {
        "group": draw(st.sampled_from(REFS)),
        "group_rank": draw(st.sampled_from((None, 0, 1, 3))),
        "host": draw(st.sampled_from((None, "n0", "n1.x"))),
        "pid": draw(st.sampled_from((None, 100, 103))),
    }
    rank = draw(st.sampled_from((None, 0, 1, 2, 3, 3)))
    return said(kind, rank, second, **common, **{name: draw(values) for name, values in FIELDS[kind].items()})


@st.composite
def logs(draw: st.DrawFn) -> list[Log]:
    return [
        Log(
            f"log_{number}",
            draw(st.lists(events(), max_size=5)),
            rank=draw(st.sampled_from((None, 0, 1, 3))),
            host=draw(st.sampled_from((None, "n0", "n1"))),
            local_rank=draw(st.sampled_from((None, None, 0, 1))),
            kind=draw(st.sampled_from((SourceKind.LOG, SourceKind.LOG, SourceKind.KERNEL_LOG, SourceKind.STACKS))),
        )
        for number in range(draw(st.integers(0, 4)))
    ]


def whole(found: Case) -> None:
    """Everything that is made from a case, checked for what always holds."""
    aligned = align(found)
    findings = diagnose(aligned).findings
    assert [f.id for f in findings] == [f"F{i}" for i in range(1, len(findings) + 1)]
    for finding in findings:
        assert finding.evidence
        assert finding.headline
        assert not finding.ranks & finding.suspects
        assert not finding.ranks & finding.victims, finding
    verdict = findings[0]
    assert not (verdict.cause is CauseClass.NONE and verdict.ranks)
    assert {s.rank for s in rank_table(aligned, findings)} == set(found.world)
    assert coverage(aligned)
    ruled_out(aligned, verdict)
    job(aligned)
    alarm(aligned)
    for call in aligned.wait_graph.calls.values():
        sets = [call.inside, call.queued, call.missing, call.unknown, call.completed]
        assert sum(map(len, sets)) == len(Ranks().union(*sets)), "each member stands in one place"
        assert call.inside
    for stall in aligned.stalls:
        assert stall.proven_absent <= stall.ranks


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(recorded_ranks())
def test_any_dumps_are_diagnosed(some: list[RecordedRank]) -> None:
    whole(case(*some))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(recorded_ranks(), logs())
def test_any_dumps_and_lines_are_diagnosed(some: list[RecordedRank], lines: list[Log]) -> None:
    whole(case(*some, logs=lines))


def test_no_kind_of_event_is_left_out_of_that_by_accident() -> None:
    quiet = {
        "capture",
        "dump-note",
        "failed-stack",
        "nccl-warn",
        "rendezvous-error",
        "setting",
        "coll-call",
        "version",
        "fr-analysis",
        "inspector",
        "note",
        "proxy-dump",
        "process-state",
        "process-id",
        "slow-report",
    }
    assert {k.kind for k in FIELDS} | quiet >= set(KINDS)


# ---- files


TIMEOUT = (
    "[rank{r}]:[E530 10:00:0{r}.000000001 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) "
    "ran for 600011 milliseconds before timing out.\n"
)


def written(folder: Path) -> list[Path]:
    """A stalled job in files: rank 3 never comes to the third call."""
    dumps = [RecordedRank(r).calls(2) for r in range(4)]
    out = []
    for recorded in dumps:
        if recorded.rank < 3:
            recorded.call(done=False)
        path = folder / "fr" / f"nccl_trace_rank_{recorded.rank}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(recorded.data())
        out.append(path)
    for rank in range(3):
        path = folder / "logs" / f"rank_{rank}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text(TIMEOUT.format(r=rank))
        out.append(path)
    path = folder / "logs" / "rank_3.log"
    path.write_text("[rank 3] step=41 loss=2.5\n[rank 3] Saving checkpoint to /ckpt/step_41\n")
    return [*out, path]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_paths_does_not_change_the_answer(tmp_path: Path, seed: int) -> None:
    paths = written(tmp_path)
    sorted_ = json.loads(nccldoctor.analyze(sorted(paths)).to_json())
    random.Random(seed).shuffle(paths)
    mixed = json.loads(nccldoctor.analyze(paths).to_json())
    for key in ("class", "ranks", "suspects", "victims", "stalled", "confidence", "headline", "chain"):
        assert mixed["verdict"][key] == sorted_["verdict"][key], key
    for key in ("coverage", "job", "action"):
        assert mixed[key] == sorted_[key], key
    verdict = sorted_["verdict"]
    assert (verdict["ranks"], verdict["victims"], verdict["stalled"]["seq"]) == ("3", "0-2", 3)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_who_finishes_first_never_changes_a_byte(tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nccldoctor.ingest.ingest.WORTH_A_THREAD", 1)
    written(tmp_path)
    assert nccldoctor.analyze(tmp_path, workers=workers).to_json() == nccldoctor.analyze(tmp_path, workers=3).to_json()


def test_the_answer_does_not_depend_on_where_the_files_stand(tmp_path: Path) -> None:
    answers = []
    for name in ("a", "somewhere/else"):
        folder = tmp_path / name / "incident"
        folder.mkdir(parents=True)
        written(folder)
        answers.append(nccldoctor.analyze(folder).to_json())
    assert answers[0] == answers[1]
    assert str(tmp_path) not in answers[0]


def test_groups_are_the_same_whoever_is_read_first() -> None:
    some = [RecordedRank(r, *TEAMS).call(team=TEAMS[1 + r // 2]) for r in range(4)]
    first, second = case(*some), case(*reversed(some))
    assert {(g.uid, str(g.members)) for g in first.groups} == {(g.uid, str(g.members)) for g in second.groups}
    assert group_named(first, "0") == group_named(second, "0") == 0
