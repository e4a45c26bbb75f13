from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from builders.remedies import fixtures_conditions
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nccldoctor.events import (
    ExceptionRaised,
    FailedStack,
    GpuError,
    IbError,
    KernelEvent,
    NcclError,
    Note,
    OutOfMemory,
    Phase,
    ProcessExit,
    ProcessState,
    Progress,
    TearDown,
)
from nccldoctor.identify.groups import Groups
from nccldoctor.model import Group, SourceKind, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, Vocabulary
from nccldoctor.prescribe import conditions
from nccldoctor.prescribe.conditions import PREDICATES, Context, Met, NotCheckable, Unmet, ask
from nccldoctor.prescribe.conditions.base import catalogue_name, listed, predicate
from nccldoctor.prescribe.conditions.environment import version_tuple
from nccldoctor.prescribe.conditions.findings import operation
from nccldoctor.prescribe.conditions.stacks import is_frame_of


def test_a_list_is_cut_only_where_that_hides_two_and_more():
    assert listed("abcdef") == "a, b, c, d, e or f"
    assert listed("abcdefg") == "a, b, c, d, e or 2 more"


def look(case, finding=None, name="", **arguments):
    found = finding or fixtures_conditions.finding()
    return ask(Context(found, fixtures_conditions.survey(case), (found,)), name, arguments)


def test_every_predicate_says_what_it_asks_and_has_a_docstring():
    for entry in PREDICATES.values():
        assert entry.doc, entry.name
        assert 0 < entry.weight < 1


def test_every_predicate_of_the_folder_is_registered():
    folder = Path(conditions.__file__).parent
    decorated = {
        catalogue_name(node.name)
        for path in folder.glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and any("predicate" in ast.dump(d) for d in node.decorator_list)
    }
    assert {name for name, p in PREDICATES.items() if p.function.__module__.startswith("nccldoctor.")} == decorated
    assert len(decorated) > 20


def test_two_predicates_of_one_name_are_refused():
    with pytest.raises(ValueError, match="has a predicate setting"):

        @predicate(weight=0.5)
        def setting(context):
            return Unmet("", "")


def test_finding_asks_class_or_family():
    assert isinstance(look(fixtures_conditions.case(), name="finding", class_=("not-arrived",)), Met)
    assert isinstance(look(fixtures_conditions.case(), name="finding", family=("absent",)), Met)
    assert isinstance(look(fixtures_conditions.case(), name="finding", class_=("died",)), Unmet)


@pytest.mark.parametrize(
    ("one", "other"),
    [("_ALLGATHER_BASE", "ALLGATHER"), ("all_gather_into_tensor", "ALLGATHER"), ("ALLTOALL_BASE", "all_to_all_single")],
)
def test_operation_has_one_spelling(one, other):
    assert operation(one) == operation(other)


def test_operation_keeps_different_operations_apart():
    assert len({operation(o) for o in ("ALLREDUCE", "REDUCE", "ALLGATHER", "GATHER", "BROADCAST", "ALLTOALL")}) == 6


def test_stalled_call_compares_operation_and_size():
    one = fixtures_conditions.finding(stalled=Stalled("_ALLGATHER_BASE", 7, numel_in=1))
    assert isinstance(look(fixtures_conditions.case(), one, "stalled-call", op=("ALLGATHER",), numel=("one",)), Met)
    assert isinstance(look(fixtures_conditions.case(), one, "stalled-call", op=("ALLREDUCE",)), Unmet)
    assert isinstance(look(fixtures_conditions.case(), one, "stalled-call", numel=("more",)), Unmet)
    unsized = fixtures_conditions.finding(stalled=Stalled("ALLREDUCE", 7))
    assert isinstance(look(fixtures_conditions.case(), unsized, "stalled-call", numel=("one",)), NotCheckable)


def test_waiting_needs_to_know_who_is_in():
    assert isinstance(look(fixtures_conditions.case(), name="waiting", are="all-but-one"), Met)
    assert isinstance(look(fixtures_conditions.case(), name="waiting", are="some"), Unmet)
    unknown = fixtures_conditions.finding(stalled=Stalled("ALLREDUCE", 7))
    assert isinstance(look(fixtures_conditions.case(), unknown, "waiting", are="all-but-one"), NotCheckable)


def test_culprit_rank_zero():
    assert isinstance(
        look(fixtures_conditions.case(), fixtures_conditions.finding(ranks=[0]), "culprit-rank", is_="zero"), Met
    )
    assert isinstance(
        look(fixtures_conditions.case(), fixtures_conditions.finding(ranks=[0, 5]), "culprit-rank", is_="zero"), Unmet
    )
    assert isinstance(
        look(fixtures_conditions.case(), fixtures_conditions.finding(ranks=[]), "culprit-rank", is_="zero"),
        NotCheckable,
    )


def test_all_ranks_of_one_host():
    assert isinstance(
        look(
            fixtures_conditions.case(), fixtures_conditions.finding(ranks=range(4, 8)), "culprit-hosts", are="one-host"
        ),
        Met,
    )
    assert isinstance(
        look(fixtures_conditions.case(), fixtures_conditions.finding(ranks=[4, 5]), "culprit-hosts", are="one-host"),
        Unmet,
    )
    assert isinstance(
        look(
            fixtures_conditions.case(), fixtures_conditions.finding(ranks=[1, 5]), "culprit-hosts", are="several-hosts"
        ),
        Met,
    )


@pytest.mark.parametrize(
    ("frame", "function", "file", "holds"),
    [
        ("_try_get_data (torch/utils/data/dataloader.py:1251)", ("_try_get_data",), (), True),
        ("Trainer.save (/opt/train/loop.py:9)", ("save",), (), True),
        ("autosave (/opt/train/loop.py:9)", ("save",), (), False),
        ("cuModuleLoadDataEx (libcuda.so)", ("cuModuleLoad*",), (), True),
        ("at::native::item (libtorch.so)", ("item",), (), True),
        ("save (/opt/train/loop.py:9)", ("save",), ("torch/serialization.py",), False),
        ("write (torch/serialization.py:9)", (), ("torch/serialization.py",), True),
        ("<module> (/opt/train/loop.py:9)", (), (), False),
    ],
)
def test_a_frame_matches_whole_names(frame, function, file, holds):
    assert is_frame_of(frame, function, file) is holds


def test_stack_frame_reads_main_threads_of_the_culprit_only():
    loader = "_try_get_data (torch/utils/data/dataloader.py:1251)"
    case = fixtures_conditions.case(
        [
            fixtures_conditions.stack(5, loader),
            fixtures_conditions.stack(5, "save (x.py:1)", main=False),
            fixtures_conditions.stack(2, "evaluate (e.py:1)"),
        ]
    )
    assert isinstance(look(case, name="stack-frame", function=("_try_get_data",)), Met)
    assert isinstance(look(case, name="stack-frame", function=("save",)), Unmet)
    assert isinstance(look(case, name="stack-frame", function=("evaluate",)), Unmet)
    assert isinstance(look(case, name="stack-frame", of="victims", function=("evaluate",)), Met)


def test_stack_frame_without_a_stack_names_what_is_missing():
    answer = look(fixtures_conditions.case(), name="stack-frame", function=("save",))
    assert isinstance(answer, NotCheckable)
    assert "stack of rank 5" in answer.says


def test_call_site_reads_the_watchdogs_stack():
    failed = FailedStack(
        place=fixtures_conditions.at(), text="", rank=0, frames=("all_gather_object (d.py:1)", "evaluate (e.py:2)")
    )
    assert isinstance(look(fixtures_conditions.case([failed]), name="call-site", function=("evaluate",)), Met)
    assert isinstance(look(fixtures_conditions.case([failed]), name="call-site", function=("generate",)), Unmet)
    assert isinstance(look(fixtures_conditions.case(), name="call-site", function=("generate",)), NotCheckable)


@pytest.mark.parametrize(
    ("frames", "is_hint"),
    [
        (("all_gather (torch/distributed/distributed_c10d.py:1)", "evaluate (/job/train.py:2)"), True),
        (("evaluate (/opt/site-packages/transformers/trainer.py:9)", "evaluate (/job/train.py:2)"), False),
    ],
)
def test_a_function_of_the_users_own_is_a_guess_at_the_site_of_a_call(frames: tuple[str, ...], is_hint: bool) -> None:
    failed = FailedStack(place=fixtures_conditions.at(), text="", rank=0, frames=frames)
    answer = look(fixtures_conditions.case([failed]), name="call-site", function=("evaluate",))
    assert isinstance(answer, Met)
    assert answer.is_hint is is_hint


def test_call_site_reads_recorded_stacks_of_that_call_alone():
    words = Vocabulary(
        (("0", "default_pg"),), ("all_reduce",), (), (), ((), (("backward", "t.py", 1),), (("evaluate", "e.py", 2),))
    )
    calls = Calls.build(
        {"dump": [0, 0], "entry": [0, 1], "seq": [49, 50], "op": [0, 0], "stack": [1, 2], "group": [0, 0]}
    )
    head = DumpHead(0, "dump_0", "dict", "2.9", 2, False, "nccl", "", (), (), True)
    case = fixtures_conditions.case(
        batch=Batch((head,), calls, words),
        call_rank=np.zeros(2, np.int32),
        call_group=np.full(2, -1, np.int32),
    )
    met = look(case, name="call-site", function=("evaluate",))
    assert isinstance(met, Met)
    assert met.where == "dump_0#entries[1]"
    assert isinstance(look(case, name="call-site", function=("backward",)), Unmet)


def test_an_event_counts_for_its_rank_and_its_time():
    oom = OutOfMemory(place=fixtures_conditions.at(line=5), text="CUDA out of memory", rank=5, scope="device")
    before_timeout = fixtures_conditions.case(
        [oom, fixtures_conditions.timeout()], [fixtures_conditions.LATE_FROM, fixtures_conditions.TIMEOUT_AT]
    )
    step = Progress(place=fixtures_conditions.at(line=4), text="step 5", rank=5, step=5)
    late = fixtures_conditions.case(
        [step, oom, fixtures_conditions.timeout()],
        [fixtures_conditions.LATE_FROM, fixtures_conditions.TIMEOUT_AT + 60, fixtures_conditions.TIMEOUT_AT],
    )
    question = {"kind": "out-of-memory", "of": "culprit", "before": "timeout"}
    assert isinstance(look(before_timeout, name="event", **question), Met)
    assert isinstance(look(late, name="event", **question), Unmet)
    assert isinstance(look(before_timeout, fixtures_conditions.finding(ranks=[2]), "event", **question), NotCheckable)


def test_an_event_without_a_clock_falls_back_to_its_line():
    def raised(line):
        return ExceptionRaised(
            place=fixtures_conditions.at(line=line),
            text="KeyError",
            rank=5,
            type="KeyError",
            message="'x'",
            origin="own",
        )

    before = look(
        fixtures_conditions.case([raised(10), fixtures_conditions.timeout(line=900)]),
        name="exception",
        before="timeout",
    )
    after = look(
        fixtures_conditions.case([fixtures_conditions.timeout(line=900), raised(950)]),
        name="exception",
        before="timeout",
    )
    assert isinstance(before, Met)
    assert isinstance(after, Unmet)


@pytest.mark.parametrize(("line", "expected"), [(940, Met), (950, Unmet)])
def test_trouble_begins_with_the_first_complaint_and_not_with_the_first_timeout(line, expected):
    """Rank 2 loses its peer in line 945, rank 0 times out in line 990: what rank 5 raises in line 950 is a consequence."""
    lost = NcclError(place=fixtures_conditions.at(line=945), text="ncclRemoteError", rank=2, code="ncclRemoteError")
    own = ExceptionRaised(place=fixtures_conditions.at(line=line), text="x", rank=5, type="KeyError", origin="own")
    case = fixtures_conditions.case(sorted([lost, own, fixtures_conditions.timeout(line=990)], key=lambda e: e.place))
    assert isinstance(look(case, name="exception", before="timeout"), expected)


def test_an_echo_is_no_own_exception():
    echo = ExceptionRaised(
        place=fixtures_conditions.at(), text="", rank=5, type="DistBackendError", message="NCCL error", origin="echo"
    )
    assert isinstance(look(fixtures_conditions.case([echo]), name="exception"), Unmet)
    assert isinstance(
        look(fixtures_conditions.case([echo]), name="exception", origin="any", type_=("DistBackendError",)), Met
    )


@pytest.mark.parametrize(
    ("type_", "answer"), [("MemoryError", Unmet), ("OutOfMemoryError", Met), ("cuda.OutOfMemoryError", Met)]
)
def test_an_exception_is_known_by_its_last_name_and_not_by_a_part_of_it(type_, answer):
    full = ExceptionRaised(
        place=fixtures_conditions.at(), text="", rank=5, type="torch.cuda.OutOfMemoryError", message="x"
    )
    assert isinstance(look(fixtures_conditions.case([full]), name="exception", type_=(type_,)), answer)


def test_kernel_facts_need_a_kernel_log_of_the_right_host():
    stuck = KernelEvent(
        place=fixtures_conditions.at("dmesg", 4, 1),
        text="blocked for more than 120 seconds",
        host="node1.cluster",
        what="blocked-task",
    )
    other = replace(stuck, host="node0")
    both = (SourceKind.LOG, SourceKind.KERNEL_LOG)
    question = {"kind": "kernel", "of": "culprit-host", "what": ("blocked-task",)}
    assert isinstance(look(fixtures_conditions.case([stuck], kinds=both), name="event", **question), Met)
    assert isinstance(look(fixtures_conditions.case([other], kinds=both), name="event", **question), Unmet)
    assert isinstance(look(fixtures_conditions.case(), name="event", **question), NotCheckable)


def test_gpu_error_by_number():
    fault = GpuError(place=fixtures_conditions.at("dmesg", 4, 1), text="NVRM: Xid 79", host="node1", xid=79)
    case = fixtures_conditions.case([fault], kinds=(SourceKind.LOG, SourceKind.KERNEL_LOG))
    assert isinstance(look(case, name="gpu-error", xid=(79,)), Met)
    assert isinstance(look(case, name="gpu-error", xid=(48, 95)), Unmet)
    assert isinstance(look(case, name="gpu-error", xid=(48,), sxid=True), Unmet)


@pytest.mark.parametrize(("software", "answer"), [(True, Unmet), (False, Met)])
def test_a_faulty_program_before_the_first_line_of_the_job_is_another_one(software, answer):
    fault = GpuError(place=fixtures_conditions.at("dmesg", 4, 1), text="x", host="node1", xid=31, software=software)
    line = Note(place=fixtures_conditions.at(), text="up", rank=3)
    case = fixtures_conditions.case([fault, line], [10.0, 900.0], kinds=(SourceKind.LOG, SourceKind.KERNEL_LOG))
    assert isinstance(look(case, name="gpu-error", xid=(31,)), answer)


def test_ib_error_compares_the_status_and_not_digits_of_the_line():
    error = IbError(
        place=fixtures_conditions.at(), text="12:12:12 completion failed, status 5", rank=5, status=5, what="completion"
    )
    assert isinstance(look(fixtures_conditions.case([error]), name="ib-error", status=(12,)), Unmet)
    assert isinstance(look(fixtures_conditions.case([error]), name="ib-error", status=(5,)), Met)


def test_exit_by_code_or_signal():
    killed = ProcessExit(
        place=fixtures_conditions.at(), text="rank 5 exitcode -9", rank=5, exitcode=-9, signal="SIGKILL"
    )
    case = fixtures_conditions.case([killed])
    assert isinstance(look(case, name="exit", signal=("SIGKILL",)), Met)
    assert isinstance(look(case, name="exit", code=(0,)), Unmet)
    assert isinstance(look(fixtures_conditions.case(), name="exit", code=(0,)), NotCheckable)


def phase(what, line, detail="", rank=5):
    return Phase(
        place=fixtures_conditions.at(line=line), text=f"{what} at line {line}", rank=rank, what=what, detail=detail
    )


def test_a_phase_counts_only_while_it_is_the_last_thing_said():
    step = Progress(place=fixtures_conditions.at(line=20), text="step 40", rank=5, step=40)
    saving = phase("checkpoint", 10)
    assert isinstance(look(fixtures_conditions.case([saving]), name="phase", what=("checkpoint",)), Met)
    assert isinstance(look(fixtures_conditions.case([saving, step]), name="phase", what=("checkpoint",)), Unmet)
    assert isinstance(
        look(fixtures_conditions.case([phase("checkpoint", 10, "done: saved")]), name="phase", what=("checkpoint",)),
        Unmet,
    )
    assert isinstance(
        look(fixtures_conditions.case([step]), fixtures_conditions.finding(ranks=[2]), "phase", what=("checkpoint",)),
        NotCheckable,
    )


def test_a_phase_without_a_rank_is_rank_zeros():
    sampling = fixtures_conditions.case([phase("sampling", 10, rank=None)])
    assert isinstance(look(sampling, fixtures_conditions.finding(ranks=[0]), "phase", what=("sampling",)), Met)
    assert isinstance(look(sampling, fixtures_conditions.finding(ranks=[5]), "phase", what=("sampling",)), NotCheckable)


def test_a_bar_can_tell_a_phase():
    bar = Progress(
        place=fixtures_conditions.at(),
        text="Validation: 40%",
        rank=5,
        step=4,
        total=10,
        label="Validation DataLoader 0",
    )
    assert isinstance(look(fixtures_conditions.case([bar]), name="phase", what=("evaluation",)), Met)


def test_moment():
    def at(seq):
        return fixtures_conditions.finding(stalled=Stalled("ALLREDUCE", seq))

    assert isinstance(look(fixtures_conditions.case(), at(1), "moment", is_="first-call"), Met)
    assert isinstance(look(fixtures_conditions.case(), at(5000), "moment", is_="first-steps"), Unmet)
    assert isinstance(look(fixtures_conditions.case(), at(5000), "moment", is_="late"), Met)
    end = Progress(place=fixtures_conditions.at(), text="", rank=0, step=99, total=100)
    middle = replace(end, step=50)
    assert isinstance(look(fixtures_conditions.case([end]), name="moment", is_="epoch-end"), Met)
    assert isinstance(look(fixtures_conditions.case([middle]), name="moment", is_="epoch-end"), Unmet)


def test_setting_and_version():
    case = fixtures_conditions.case(
        [fixtures_conditions.setting("NCCL_P2P_DISABLE", '"1"')], torch="2.7.0+cu126", nccl="2.26.2"
    )
    assert isinstance(look_setting(case, "NCCL_P2P_DISABLE", ("1",)), Met)
    assert isinstance(look_setting(case, "NCCL_P2P_DISABLE", ("0",)), Unmet)
    assert isinstance(look_setting(fixtures_conditions.case(), "NCCL_P2P_DISABLE", ()), NotCheckable)
    assert isinstance(look(case, name="version", of="torch", from_="2.7.0", below="2.7.1"), Met)
    assert isinstance(look(case, name="version", of="nccl", below="2.26"), Unmet)
    assert isinstance(look(fixtures_conditions.case(), name="version", of="nccl", below="2.26"), NotCheckable)


def look_setting(case, name, value):
    found = fixtures_conditions.finding()
    return ask(Context(found, fixtures_conditions.survey(case)), "setting", {"name": (name,), "value": value})


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2.9.1+cu128", (2, 9, 1)),
        ("2.13.0a0", (2, 13, 0)),
        ("22705", (2, 27, 5)),
        ("~2.2", (2, 2, 0)),
        ("", (0, 0, 0)),
        ("x", (0, 0, 0)),
    ],
)
def test_release(text, numbers):
    assert version_tuple(text) == numbers


@given(st.text(max_size=80))
def test_release_reads_anything(text):
    assert len(version_tuple(text)) == 3


def test_suspects_stand_in_for_a_culprit_that_is_not_named():
    found = fixtures_conditions.finding(ranks=[], suspects=Ranks([3, 5]))
    case = fixtures_conditions.case([fixtures_conditions.stack(3, "save (torch/serialization.py:1)")])
    assert isinstance(look(case, found, "stack-frame", function=("save",)), Met)


@pytest.mark.parametrize("named", [0, 5])
def test_a_line_that_identify_gave_nobody_is_not_its_files_ranks(named: int) -> None:
    """The launcher prints *Killing subprocess 1005* into the one log that it has, which holds lines of one rank alone."""
    sources = (replace(fixtures_conditions.case().sources[0], rank=named),)
    kill = TearDown(
        place=fixtures_conditions.at(line=950), text="Killing subprocess", what="forced-kill", pid=1000 + named
    )
    asked = {"name": "event", "kind": "tear-down", "of": "culprit", "what": ("forced-kill",)}
    about = fixtures_conditions.finding(ranks=(named,))
    assert isinstance(look(fixtures_conditions.case([kill], sources=sources), about, **asked), Unmet)
    assert isinstance(look(fixtures_conditions.case([replace(kill, rank=named)], sources=sources), about, **asked), Met)


@pytest.mark.parametrize(
    ("pids", "hosts", "expected"),
    [
        ((1000, 1005), (None, None), Met),
        ((1000, 1000), (None, None), NotCheckable),
        ((1000, 1005), ("node1", "node1"), NotCheckable),
    ],
)
def test_a_setting_is_of_the_rank_whose_process_prints_it(pids, hosts, expected) -> None:
    """Rank 0 is process 1000 of node0, rank 5 process 1005 of node1: two processes of one name on node1 are no two ranks."""
    values = zip(pids, hosts, ("eth0", "ib0"), strict=True)
    seen = [
        replace(fixtures_conditions.setting("NCCL_SOCKET_IFNAME", v), pid=pid, host=host) for pid, host, v in values
    ]
    context = Context(fixtures_conditions.finding(), fixtures_conditions.survey(fixtures_conditions.case(seen)))
    assert isinstance(ask(context, "setting-differs", {"name": ("NCCL_SOCKET_IFNAME",)}), expected)


def test_a_possible_culprit_is_one_that_nothing_speaks_against():
    prompt = Note(place=fixtures_conditions.at(), text="(Pdb)", what="debugger", rank=None)
    asked = {"name": "event", "kind": "note", "what": ("debugger",), "of": "possible-culprit"}
    unnamed = fixtures_conditions.finding("undetermined", ranks=())
    assert isinstance(look(fixtures_conditions.case([prompt]), **asked), Met)
    of_another = fixtures_conditions.case([replace(prompt, rank=2)])
    assert isinstance(look(of_another, **asked), Unmet)
    assert isinstance(look(of_another, unnamed, **asked), Met)


def test_a_culprit_that_nobody_named_is_none():
    raised = ExceptionRaised(place=fixtures_conditions.at(), text="ValueError: x", type="ValueError", origin="own")
    unnamed = fixtures_conditions.finding("undetermined", ranks=())
    assert isinstance(look(fixtures_conditions.case([raised]), unnamed, "exception", of="culprit"), Met)
    assert isinstance(look(fixtures_conditions.case([raised]), unnamed, "exception", of="named-culprit"), NotCheckable)


@pytest.mark.parametrize(
    ("code", "signal", "holds"),
    [(3, None, True), (1, None, True), (0, None, False), (-9, "SIGKILL", False), (137, None, False)],
)
def test_an_exit_by_itself_has_a_code_of_the_program(code, signal, holds):
    end = ProcessExit(place=fixtures_conditions.at(), text="exit", rank=5, exitcode=code, signal=signal)
    died = fixtures_conditions.finding("died")
    assert isinstance(look(fixtures_conditions.case([end]), died, "exit-by-itself"), Met if holds else Unmet)
    assert isinstance(look(fixtures_conditions.case(), died, "exit-by-itself"), NotCheckable)


def test_an_end_is_silent_where_the_log_was_read_and_says_nothing():
    died, step = (
        fixtures_conditions.finding("died"),
        Progress(place=fixtures_conditions.at(), text="step 5", rank=5, step=5),
    )
    raised = ExceptionRaised(
        place=fixtures_conditions.at(), text="ValueError: x", rank=5, type="ValueError", origin="own"
    )
    assert isinstance(look(fixtures_conditions.case([step]), died, "ended-silently"), Met)
    assert isinstance(look(fixtures_conditions.case([step, raised]), died, "ended-silently"), Unmet)
    assert isinstance(look(fixtures_conditions.case(), died, "ended-silently"), NotCheckable)


def test_between_steps_by_logs_asks_for_a_step_and_a_backward_pass_of_the_others():
    step = Progress(place=fixtures_conditions.at(), text="step 5", rank=5, step=5)
    backward = fixtures_conditions.stack(0, "_engine_run_backward (torch/autograd/graph.py:979)")
    forward = fixtures_conditions.stack(0, "all_gather (torch/distributed/distributed_c10d.py:9)")
    assert isinstance(look(fixtures_conditions.case([step, backward]), name="between-steps"), Met)
    assert isinstance(look(fixtures_conditions.case([step, forward]), name="between-steps"), Unmet)
    assert isinstance(look(fixtures_conditions.case([backward]), name="between-steps"), NotCheckable)
    own = fixtures_conditions.stack(5, "readinto (socket.py:706)", "fetch (/job/train.py:29)")
    answer = look(fixtures_conditions.case([step, backward, own]), name="between-steps")
    assert isinstance(answer, Unmet), "its stack shows what the rank did"


def test_a_process_is_traced_where_every_look_shows_it_and_stopped_where_the_newest_does():
    """py-spy traces the process while it takes the stack."""

    def state(*seen):
        at = fixtures_conditions.at()
        return fixtures_conditions.case(
            [ProcessState(place=at, text=s, rank=5, state=s, look=n) for n, s in enumerate(seen, 1)]
        )

    def answer(*seen):
        return look(state(*seen), name="process-state", state=["stopped", "traced"])

    assert isinstance(answer("traced"), Met)
    assert isinstance(answer("traced", "traced"), Met)
    assert isinstance(answer("sleeping", "traced"), Unmet)
    assert isinstance(answer("sleeping", "stopped"), Met)
    assert isinstance(answer("stopped", "sleeping"), Unmet)


@pytest.mark.parametrize(("stalled_at", "holds"), [(20, True), (21, False)])
def test_between_steps_by_dumps_is_where_the_longest_pause_was(stalled_at, holds):
    """Two buckets a step: before the even calls a rank works for 400 ms, before the odd ones for 10 ms."""
    rows = [(rank, seq) for rank in (0, 5) for seq in range(1, stalled_at + (rank == 0))]
    ranks, seqs = np.array(rows).T
    created = 10**12 + (seqs // 2 * 410 + seqs % 2 * 10) * 10**6
    columns = {"dump": ranks * 0, "seq": seqs, "sizes": seqs % 2, "created_ns": created}
    calls = Calls.build({**columns, "op": seqs * 0, "stack": seqs * 0})
    head = DumpHead(0, "d", "dict", "", 0, False, "nccl", "", (), (), True)
    case = fixtures_conditions.case(
        batch=Batch((head,), calls, Vocabulary((), ("all_reduce",))),
        call_rank=ranks.astype(np.int32),
        call_group=(seqs * 0).astype(np.int32),
        naming=Groups((Group(0, "0", "default_pg", Ranks(range(8)), "config"),), {}, {}),
    )
    found = fixtures_conditions.finding(stalled=Stalled("ALLREDUCE", stalled_at, group="default_pg (0)"))
    assert isinstance(look(case, found, "between-steps"), Met if holds else Unmet)


def kernel_log(host):
    return replace(fixtures_conditions.case(kinds=[SourceKind.KERNEL_LOG]).sources[0], host=host)


@pytest.mark.parametrize(
    ("hosts", "of", "expected"),
    [
        ((), "culprit-host", Met),
        (("node1",), "culprit-host", Unmet),
        (("node0",), "culprit-host", Met),
        (("node0",), "anyone", Met),
        (("node0", "node1"), "anyone", Unmet),
        ((None,), "culprit-host", Unmet),
    ],
)
def test_a_file_is_asked_for_only_where_it_was_not_read(hosts, of, expected):
    case = replace(fixtures_conditions.case(), sources=tuple(map(kernel_log, hosts)))
    assert isinstance(look(case, None, "not-read", source=("kernel log",), of=of), expected)


def test_the_library_of_a_job_is_read_from_its_lines_and_dumps():
    def backend(*events, **more):
        return look(fixtures_conditions.case(events, **more), None, "backend", is_=("nccl",))

    nccl = ExceptionRaised(place=fixtures_conditions.at(), text="ProcessGroupNCCL.cpp:2251, unhandled system error")
    gloo = DumpHead(0, "dump", "dict", "2.9", 100, False, "gloo", "", (), (), True)
    dumped = Batch((gloo,), Calls.empty(), Vocabulary())
    assert isinstance(backend(), NotCheckable)
    assert isinstance(backend(nccl), Met)
    assert isinstance(backend(batch=dumped), Unmet)
    assert isinstance(backend(nccl, batch=dumped), Met)
