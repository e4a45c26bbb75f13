"""Which remedy comes first, and which must not come."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.remedies import fixtures_conditions
from builders.remedies.advice import BOTH, BUSY, CATALOGUE, LOADER, ask, event, kernel, raised, stalled
from msgspec.structs import replace

import nccldoctor
from nccldoctor.events import (
    CollectiveMismatch,
    CommInit,
    GpuError,
    HeartbeatStuck,
    IbError,
    KernelEvent,
    NcclError,
    OutOfMemory,
    Phase,
    ProcessExit,
    Progress,
    SchedulerEvent,
    StoreError,
)
from nccldoctor.model import CauseClass, SourceKind, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.prescribe.prescribe import GUESSES, SHOWN, placeholder_values

FIRST = [
    (
        "dataloader-stall",
        fixtures_conditions.finding(),
        [fixtures_conditions.stack(5, "poll (selectors.py:1)", LOADER)],
        {},
    ),
    (
        "checkpoint-save-slow",
        fixtures_conditions.finding(),
        [fixtures_conditions.stack(5, "write (io.py:1)", "_save (torch/serialization.py:9)")],
        {},
    ),
    (
        "compile-skew",
        fixtures_conditions.finding(),
        [fixtures_conditions.stack(5, "compile_fx (torch/_inductor/compile_fx.py:9)")],
        {},
    ),
    (
        "rank0-network-logging",
        fixtures_conditions.finding(ranks=[0]),
        [fixtures_conditions.stack(0, "log (wandb/sdk/wandb_run.py:9)")],
        {},
    ),
    (
        "rank0-only-work-at-barrier",
        fixtures_conditions.finding(ranks=[0], stalled=stalled(numel=1, missing=[0])),
        [event(Phase, None, text="Generating sample images...", what="sampling")],
        {},
    ),
    (
        "rank0-data-prep",
        fixtures_conditions.finding(ranks=[0], stalled=stalled(seq=1, numel=1, missing=[0])),
        [event(Phase, 0, text="Running tokenizer", what="data")],
        {},
    ),
    (
        "eval-uneven",
        fixtures_conditions.finding("missed-call", stalled=stalled("ALLGATHER", 46318, 41)),
        [event(Phase, 5, text="Validation", what="evaluation")],
        {},
    ),
    (
        "uneven-inputs-ddp",
        fixtures_conditions.finding("missed-call", stalled=stalled()),
        [event(Phase, 5, text="epoch 3 finished", what="epoch-end")],
        {},
    ),
    (
        "dataloader-worker-killed",
        fixtures_conditions.finding("raised"),
        [raised("RuntimeError", "DataLoader worker (pid 77) is killed by signal: Killed.")],
        {},
    ),
    ("fd-exhaustion", fixtures_conditions.finding("raised"), [raised("OSError", "[Errno 24] Too many open files")], {}),
    (
        "filesystem-stall",
        fixtures_conditions.finding("frozen", ranks=range(4, 8)),
        [kernel(KernelEvent, "task python blocked for more than 120 seconds", what="blocked-task")],
        {},
    ),
    ("rank-crash-first", fixtures_conditions.finding("raised"), [raised("AssertionError", "bad label")], {}),
    (
        "exception-swallowed",
        fixtures_conditions.finding("missed-call"),
        [raised("KeyError", "'x'"), fixtures_conditions.timeout()],
        {},
    ),
    (
        "rank-exited-early",
        fixtures_conditions.finding("died"),
        [event(ProcessExit, text="rank 5 exited with 0", exitcode=0)],
        {},
    ),
    ("shape-mismatch", fixtures_conditions.finding("size-mismatch", stalled=stalled("ALLGATHER")), [], {}),
    ("dtype-mismatch", fixtures_conditions.finding("dtype-mismatch"), [], {}),
    ("pg-interleave-deadlock", fixtures_conditions.finding("order-inversion"), [], {}),
    (
        "find-unused-needed",
        fixtures_conditions.finding("raised"),
        [
            raised(
                "RuntimeError", "Expected to have finished reduction in the prior iteration before starting a new one."
            )
        ],
        {},
    ),
    (
        "zero3-generate",
        fixtures_conditions.finding(stalled=stalled("_ALLGATHER_BASE")),
        [fixtures_conditions.stack(0, "generate (transformers/utils.py:1)")],
        {},
    ),
    (
        "fsdp-rank0-state-dict",
        fixtures_conditions.finding("extra-call", ranks=[0], stalled=stalled("_ALLGATHER_BASE", missing=range(1, 8))),
        [fixtures_conditions.stack(0, "state_dict (torch/nn/modules/module.py:1)")],
        {},
    ),
    (
        "cuda-oom-one-rank",
        fixtures_conditions.finding("raised"),
        [raised("OutOfMemoryError", "CUDA out of memory.")],
        {},
    ),
    (
        "host-oom-kill",
        fixtures_conditions.finding("died"),
        [kernel(OutOfMemory, "Out of memory: Killed process 1005 (python)", scope="host", process="python")],
        {},
    ),
    (
        "preemption-node-failure",
        fixtures_conditions.finding("died"),
        [event(SchedulerEvent, None, text="CANCELLED DUE TO PREEMPTION", what="preempted")],
        {},
    ),
    (  # Slurm tells of the lost node after the peers have told of their broken connections
        "preemption-node-failure",
        fixtures_conditions.finding("died"),
        [
            event(NcclError, 0, line=5, text="ncclRemoteError"),
            event(SchedulerEvent, None, text="error: Node failure on node1", what="node-failure"),
        ],
        {},
    ),
    (
        "watchdog-stuck-gil",
        fixtures_conditions.finding("frozen"),
        [event(HeartbeatStuck, seconds=480), fixtures_conditions.stack(5, "cudaEventDestroy (libcudart.so)")],
        {},
    ),
    (
        "gpu-fell-off-bus",
        fixtures_conditions.finding("hardware"),
        [kernel(GpuError, "NVRM: Xid 79, GPU has fallen off the bus", xid=79)],
        {},
    ),
    ("gpu-ecc", fixtures_conditions.finding("hardware"), [kernel(GpuError, "NVRM: Xid 95", xid=95)], {}),
    ("nvlink-error", fixtures_conditions.finding("hardware"), [kernel(GpuError, "NVRM: Xid 74", xid=74)], {}),
    ("gsp-timeout", fixtures_conditions.finding("frozen"), [kernel(GpuError, "NVRM: Xid 119", xid=119)], {}),
    (
        "ib-retry-exceeded",
        fixtures_conditions.finding("network"),
        [event(IbError, text="status=12", status=12, what="completion")],
        {},
    ),
    (
        "ib-link-flap",
        fixtures_conditions.finding("network"),
        [event(IbError, text="Got async event : port error", what="port", host="node1")],
        {},
    ),
    (
        "rank-never-joined",
        fixtures_conditions.finding("init", stalled=stalled(seq=1)),
        [event(StoreError, 0, text="timed out after 1800000ms waiting for clients", operation="clients-missing")],
        {},
    ),
    (
        "p2p-acs-iommu",
        fixtures_conditions.finding("unfinished", ranks=[], stalled=stalled(seq=1, missing=[])),
        [kernel(KernelEvent, "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0]", what="pcie")],
        {},
    ),
    (
        "duplicate-gpu",
        fixtures_conditions.finding("init"),
        [raised("RuntimeError", "Duplicate GPU detected : rank 5 and rank 4", rank=5)],
        {},
    ),
    (
        "nccl-2-20-graph-launch",
        fixtures_conditions.finding("frozen"),
        [fixtures_conditions.stack(5, "ncclLaunchKernelBefore_NoUncapturedCuda (libnccl.so)")],
        {"nccl": "2.21.5"},
    ),
]


@pytest.mark.parametrize(("id_", "found", "events", "more"), FIRST, ids=[row[0] for row in FIRST])
def test_the_right_remedy_comes_first(id_, found, events, more):
    answer = ask(fixtures_conditions.case(events, kinds=BOTH, **more), found)
    assert answer.remedies[0].id == id_, [(r.id, r.fit, r.conditions_met) for r in answer.remedies]
    assert answer.remedies[0].conditions_met == sum(c.met is True for c in answer.remedies[0].checks)
    assert answer.remedies[0].conditions == len(answer.remedies[0].checks)


NEAR = [
    (
        "dataloader-stall",
        fixtures_conditions.finding(),
        [fixtures_conditions.stack(5, "evaluate (eval.py:1)"), raised("ValueError", rank=5)],
        {},
    ),
    ("dataloader-stall", fixtures_conditions.finding("raised"), [fixtures_conditions.stack(5, LOADER)], {}),
    ("checkpoint-save-slow", fixtures_conditions.finding(), [fixtures_conditions.stack(5, LOADER)], {}),
    (
        "rank0-only-work-at-barrier",
        fixtures_conditions.finding(ranks=[5]),
        [event(Phase, 5, what="sampling", text="sampling")],
        {},
    ),
    (
        "host-oom-kill",
        fixtures_conditions.finding("died"),
        [event(SchedulerEvent, None, text="PREEMPTION", what="preempted")],
        {},
    ),
    ("gpu-fell-off-bus", fixtures_conditions.finding("hardware"), [kernel(GpuError, "Xid 95", xid=95)], {}),
    (
        "ib-retry-exceeded",
        fixtures_conditions.finding("network"),
        [event(IbError, text="12:00 status=5", status=5, what="completion")],
        {},
    ),
    (
        "watchdog-stuck-gil",
        fixtures_conditions.finding("frozen"),
        [event(HeartbeatStuck, seconds=480, line=990), fixtures_conditions.timeout()],
        {},
    ),
    ("pg-interleave-deadlock", fixtures_conditions.finding("op-mismatch"), [], {}),
    (
        "nccl-2-20-graph-launch",
        fixtures_conditions.finding("frozen"),
        [fixtures_conditions.stack(5, "ncclLaunchKernelBefore_NoUncapturedCuda")],
        {"nccl": "2.27.5"},
    ),
    ("find-unused-needed", fixtures_conditions.finding("raised"), [raised("ValueError", "other")], {}),
    ("rank-exited-early", fixtures_conditions.finding("died"), [event(ProcessExit, text="exit 1", exitcode=1)], {}),
]


@pytest.mark.parametrize(("id_", "found", "events", "more"), NEAR, ids=[f"{row[0]}-{i}" for i, row in enumerate(NEAR)])
def test_a_near_miss_is_not_offered(id_, found, events, more):
    answer = ask(fixtures_conditions.case(events, kinds=BOTH, **more), found)
    assert id_ not in {r.id for r in answer.remedies if r.fit != "weak"}


def test_a_guess_is_never_strong_and_guesses_are_few():
    answer = ask(fixtures_conditions.case())
    assert answer.remedies
    assert all(r.fit == "possible" for r in answer.remedies)
    assert len([r for r in answer.remedies if not CATALOGUE.get(r.id).remedy.general]) <= GUESSES
    for remedy in answer.remedies:
        assert any(c.met is None and c.says for c in remedy.checks), "what is missing is named"


def test_a_guess_without_its_sign_comes_behind_the_fallback():
    late = ask(
        fixtures_conditions.case(kinds=[SourceKind.RECORDER]), fixtures_conditions.finding(stalled=stalled(seq=23))
    )
    assert late.remedies[0].id == "busy-elsewhere"
    assert "rank0-data-prep" not in {r.id for r in late.remedies}, "rank 5 is not the main process"
    everybody = fixtures_conditions.finding("unfinished", ranks=[], stalled=stalled(seq=11, missing=[]))
    assert ask(fixtures_conditions.case(kinds=[SourceKind.RECORDER]), everybody).remedies[0].id == "all-in-unexplained"
    silent = fixtures_conditions.finding("frozen", ranks=[0], stalled=stalled(missing=[0]))
    assert ask(fixtures_conditions.case(kinds=[SourceKind.RECORDER]), silent).remedies[0].id == "busy-elsewhere"


def test_what_could_not_be_checked_carries_no_remedy_beside_a_fallback():
    found = fixtures_conditions.finding(stalled=stalled("ALLGATHER", 46318))
    unseen = ask(fixtures_conditions.case(kinds=[SourceKind.RECORDER]), found).remedies
    assert [r.id for r in unseen] == ["busy-elsewhere"]
    evaluates = event(Phase, 5, text="running evaluation", what="evaluation")
    seen = ask(fixtures_conditions.case([evaluates], kinds=BOTH), found).remedies
    assert seen[0].id == "eval-uneven"


def test_a_class_is_not_waived_because_the_verdict_is_open():
    open_ = fixtures_conditions.finding("undetermined", ranks=(), confidence="cannot-tell", stalled=stalled())
    apart = [event(Progress, 1, text="step 3", step=3), event(Progress, 2, text="step 3", step=3)]
    late = fixtures_conditions.case(apart, seconds=[100.0, 260.0], kinds=BOTH)
    assert not ask(late, open_).remedies, "ranks that start apart explain a start that failed, and no other call"
    assert ask(late, fixtures_conditions.finding("init")).remedies[0].id == "timeout-too-short-init"


@pytest.mark.parametrize("order", [1, -1])
def test_a_remedy_of_a_consequence_comes_behind_that_of_the_cause(order):
    taken = event(StoreError, 3, text="listen on ip[10.9.0.3] and specific port[50017] fail")
    waited = event(StoreError, 4, text="wait socket establish timeout, role[1] rank[3] timeout[120]")
    shown = ask(
        fixtures_conditions.case([taken, waited][::order], kinds=BOTH), fixtures_conditions.finding("init", ranks=())
    ).remedies
    assert [remedy.id for remedy in shown][:2] == ["stray-old-process", "hccl-timeout"]


def test_a_gather_that_never_ended_is_no_model_that_differs():
    def first(told):
        report = event(
            CollectiveMismatch,
            0,
            text=f"DDP expects same model across all ranks, but Rank 0 has 88, while rank 1 has {told}",
        )
        made = fixtures_conditions.case([report], kinds=BOTH)
        return [r.id for r in ask(made, fixtures_conditions.finding("init", ranks=())).remedies]

    assert first("inconsistent 87 params.")[0] == "models-differ"
    assert "models-differ" not in first("inconsistent 0 params.")


def test_what_is_not_known_is_told_in_words():
    unknown = ask(
        fixtures_conditions.case([raised("ValueError", rank=None)]), fixtures_conditions.finding("raised", ranks=[])
    )
    assert unknown.remedies[0].id == "rank-crash-first"
    assert "the error of the rank at fault" in unknown.remedies[0].fix[0]
    nameless = ask(fixtures_conditions.case(), fixtures_conditions.finding("op-mismatch", stalled=stalled(seq=None)))
    assert nameless.remedies[0].id == "control-flow-divergence"
    assert "before ALLREDUCE that rank 5 took" in nameless.remedies[0].fix[0]
    internal = ask(
        fixtures_conditions.case(), fixtures_conditions.finding("op-mismatch", stalled=stalled("_ALLGATHER_BASE"))
    )
    assert "before ALLGATHER #5000 that" in internal.remedies[0].fix[0]
    nowhere = ask(fixtures_conditions.case([fixtures_conditions.stack(5, BUSY)], rank_host={}, rank_pid={}))
    step = nowhere.remedies[0].confirm[0]
    assert "--pid $p" in step and "grep -slxz RANK=5 " in step, "a process is found by its rank"
    assert "on the host at fault" in step


def test_a_shown_cause_drives_out_guesses():
    answer = ask(fixtures_conditions.case([fixtures_conditions.stack(5, LOADER)], kinds=BOTH))
    assert answer.remedies[0].fit == "strong"
    assert len(answer.remedies) <= SHOWN
    for remedy in answer.remedies[1:]:
        assert sum(c.met is True for c in remedy.checks) > 1 or remedy.fit == "strong"


def test_a_fallback_steps_back_behind_a_cause_that_knows_more():
    loading = ask(fixtures_conditions.case([fixtures_conditions.stack(5, LOADER)], kinds=BOTH))
    own = ask(fixtures_conditions.case([fixtures_conditions.stack(5, "refresh (/opt/train/train.py:121)")], kinds=BOTH))
    assert "busy-elsewhere" not in {r.id for r in loading.remedies}
    assert own.remedies[-1].id == "busy-elsewhere"
    assert own.remedies[-1].fit == "strong"
    skipped = ask(fixtures_conditions.case(), fixtures_conditions.finding("missed-call"))
    assert skipped.remedies[-1].id == "control-flow-divergence"


def test_an_undetermined_verdict_allows_no_strong_fit():
    found = fixtures_conditions.finding(
        "undetermined",
        ranks=[],
        confidence="cannot-tell",
        stalled=Stalled("ALLREDUCE", 6764, numel_in=1, entered=Ranks([1])),
    )
    answer = ask(
        fixtures_conditions.case([event(Phase, None, text="Running evaluation", what="evaluation")]),
        replace(found, stalled=replace(found.stalled, op="ALLGATHER")),
    )
    assert answer.remedies[0].id == "eval-uneven"
    assert {r.fit for r in answer.remedies} <= {"possible", "weak"}


def test_a_finding_of_low_confidence_allows_no_strong_fit():
    case = fixtures_conditions.case([fixtures_conditions.stack(5, LOADER)], kinds=BOTH)
    assert ask(case).remedies[0].fit == "strong"
    assert ask(case, fixtures_conditions.finding(confidence="low")).remedies[0].fit == "possible"


def test_a_healthy_job_gets_no_remedy_and_no_restart():
    answer = ask(fixtures_conditions.case(), fixtures_conditions.finding("none", ranks=[], stalled=None))
    assert answer.remedies == ()
    assert answer.capture == ()
    assert answer.action.restart == "unknown"


def test_placeholders_are_filled_from_the_culprit():
    answer = ask(fixtures_conditions.case([fixtures_conditions.stack(5, BUSY)]))
    assert "py-spy dump --pid 1005" in answer.remedies[0].confirm[0]
    assert "node1" in answer.remedies[0].confirm[0]
    assert answer.remedies[0].fix[0].startswith("See what /app/train.py:121 waits for.")


@pytest.mark.parametrize(("ranks", "said"), [([3], "rank 3"), ([1, 2, 3, 6], "ranks 1-3, 6")])
def test_ranks_stand_in_a_sentence(ranks: list[int], said: str):
    case = fixtures_conditions.case([])
    assert (
        placeholder_values(fixtures_conditions.finding(ranks=ranks), fixtures_conditions.survey(case))["ranks"] == said
    )


@pytest.mark.parametrize(("known", "said"), [(True, "node1"), (False, "10.0.0.2")])
def test_where_nobody_is_named_the_far_end_of_a_lost_connection_is_looked_at(known: bool, said: str):
    """Not the host that reported it; by its address where no line ties that to a host."""
    inits = [event(CommInit, rank, host="node1", address="10.0.0.2<0>") for rank in range(4, 8)] if known else []
    lost = event(IbError, 2, host="node0", what="completion", status=12, peer="10.0.0.2<41014>")
    open_one = fixtures_conditions.finding("undetermined", ranks=(), stalled=None)
    values = placeholder_values(open_one, fixtures_conditions.survey(fixtures_conditions.case([*inits, lost])))
    assert (values["host"], values["hosts"]) == (said, said)


def test_each_stall_gets_its_own_remedy():
    one = fixtures_conditions.finding()
    two = fixtures_conditions.finding("hardware", ranks=[2], id="F2")
    fault = replace(kernel(GpuError, "Xid 79", xid=79), host="node0")
    answer = ask(fixtures_conditions.case([fixtures_conditions.stack(5, LOADER), fault], kinds=BOTH), one, two)
    assert {(r.id, r.finding) for r in answer.remedies if r.fit == "strong"} == {
        ("dataloader-stall", "F1"),
        ("gpu-fell-off-bus", "F2"),
    }


def test_the_same_input_gives_the_same_answer():
    case = fixtures_conditions.case(
        [fixtures_conditions.stack(5, LOADER), fixtures_conditions.setting("NCCL_TIMEOUT", "3600")]
    )
    assert ask(case) == ask(case)


def test_progress_after_a_save_takes_the_blame_from_it():
    saving = event(Phase, 5, 10, "Saving checkpoint", what="checkpoint")
    step = event(Progress, 5, 20, "step 900", step=900)
    before = ask(fixtures_conditions.case([saving]))
    after = ask(fixtures_conditions.case([saving, step]))
    assert before.remedies[0].id == "checkpoint-save-slow"
    assert before.remedies[0].fit == "strong"
    assert all(r.fit != "strong" for r in after.remedies)


def test_the_class_of_the_verdict_is_no_condition():
    for advice in ask(fixtures_conditions.case([fixtures_conditions.stack(5, LOADER)])).remedies:
        assert advice.conditions == len(advice.checks)
        assert not any("the finding is" in check.text for check in advice.checks)


def test_a_specific_sign_is_heard_where_the_class_is_open():
    """A killed process is no condition of *undetermined* in the catalogue, yet the kernel names it."""
    killed = kernel(OutOfMemory, "Killed process 1005 (python)", scope="host")
    unknown = fixtures_conditions.finding("undetermined", ranks=(), confidence="cannot-tell")
    offered = ask(fixtures_conditions.case([killed], kinds=BOTH), unknown).remedies
    assert [advice.id for advice in offered][:1] == ["host-oom-kill"]
    assert {advice.fit for advice in offered} == {"possible"}
    assert ask(fixtures_conditions.case(kinds=BOTH), unknown).remedies == ()


EAGER_FSDP = (
    "all_gather_into_tensor (torch/distributed/distributed_c10d.py:9)",
    "_fn (torch/_dynamo/eval_frame.py:929)",
)


def test_a_wrapper_of_the_compiler_in_a_stack_is_no_compilation():
    """Every hook of FSDP goes through it, compiled or not."""
    case = fixtures_conditions.case(
        [fixtures_conditions.stack(0, *EAGER_FSDP), fixtures_conditions.stack(5, *EAGER_FSDP)]
    )
    assert not {"compile-divergence", "compile-skew"} & {advice.id for advice in ask(case).remedies}


def test_the_name_of_a_users_function_makes_a_guess_and_a_library_inside_it_a_cause():
    own = "save_checkpoint_to_slow_disk (/opt/train/train.py:6)"
    named = ask(fixtures_conditions.case([fixtures_conditions.stack(5, own)]), fixtures_conditions.finding())
    assert (named.remedies[0].id, named.remedies[0].fit) == ("checkpoint-save-slow", "possible")
    assert named.remedies[0].title.endswith("(a guess)")
    assert not any("shards" in step.text for step in named.action.steps), "nothing is fixed that is not shown"
    inside = "_legacy_save (/opt/venv/lib/python3.11/site-packages/torch/serialization.py:900)"
    shown = ask(fixtures_conditions.case([fixtures_conditions.stack(5, inside, own)]), fixtures_conditions.finding())
    assert (shown.remedies[0].id, shown.remedies[0].fit) == ("checkpoint-save-slow", "strong")


def test_a_warning_alone_brings_no_remedy(tmp_path: Path) -> None:
    """Nobody complains, fails or waits: the job may be healthy, and merely run."""
    warning = (
        "[rank1]:[W202 03:00:05.112233445 ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank 1]  using GPU 1 to perform barrier as devices "
        "used by this process are currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect. Specify "
        "device_ids in barrier() to force use of a particular device, or call init_process_group() with a device_id.\n"
    )
    step = "[rank{r}]: 2026-02-02 03:00:0{s},000 | INFO | trainer | step {s}/500\n"
    (tmp_path / "job.log").write_text("".join(step.format(r=r, s=s) for s in range(1, 5) for r in range(4)) + warning)
    found = nccldoctor.analyze(tmp_path)
    assert found.verdict.cause is CauseClass.UNDETERMINED
    assert not found.diagnosis.remedies
