"""The three steps that an engineer takes first, and whether the job still runs."""

from __future__ import annotations

import shlex
import socket
import subprocess
from datetime import UTC, datetime

import pytest
from builders.remedies import fixtures_conditions
from builders.remedies.advice import BOTH, BUSY, ask, event, kernel, raised, stalled
from msgspec.structs import replace

from nccldoctor.events import (
    AbsenceReport,
    CaptureNotice,
    DumpNote,
    ExceptionRaised,
    GpuError,
    Heartbeat,
    KernelEvent,
    NcclWarn,
    Note,
    OutOfMemory,
    Phase,
    ProcessExit,
    ProcessState,
    Progress,
    RasStatus,
    SchedulerEvent,
    Setting,
    SocketError,
    TearDown,
)
from nccldoctor.model import Evidence, Family, Gap, SourceKind
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, Vocabulary
from nccldoctor.model.steps import JobState, StepKind
from nccldoctor.prescribe.job_end import job_end
from nccldoctor.prescribe.missing_files import files_to_collect, logs_of_culprits
from nccldoctor.prescribe.next_steps import _PARTS, _SIGNS, MOST, ROWS, _Row
from nccldoctor.prescribe.remote_commands import quoted_for_shell

OWN = fixtures_conditions.stack(5, "refresh_table (/opt/train/train.py:121)")
GONE = event(ProcessExit, text="exitcode: -15 (pid: 1005)", exitcode=-15, signal="SIGTERM", reporter="torchrun")


def answer(cause, *events, kinds=BOTH, case=None, **more):
    made = fixtures_conditions.case(events, kinds=kinds, **(case or {}))
    return ask(made, fixtures_conditions.finding(cause, **more))


def steps(cause, *events, **more):
    return answer(cause, *events, **more).action.steps


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (GONE, JobState.ENDED),
        (event(TearDown, what="process-down"), JobState.ENDED),
        (event(TearDown, what="comm-aborted"), JobState.RUNNING),
        (event(SchedulerEvent, None, what="cancelled"), JobState.ENDED),
        (event(OutOfMemory, None, scope="host"), JobState.ENDED),
        (event(ProcessState, state="gone"), JobState.ENDED),
        (raised("ValueError"), JobState.ENDED),
        (raised("ValueError", logged=True), JobState.RUNNING),
        (event(ExceptionRaised, type="OSError", origin="own", worker=1), JobState.RUNNING),
        (fixtures_conditions.timeout(), JobState.UNKNOWN),
        (event(RasStatus, what="OK"), JobState.RUNNING),
        (event(DumpNote, what="on-request"), JobState.RUNNING),
    ],
)
def test_any_recorded_end_ends_the_job_and_a_look_shows_that_it_ran(last, state):
    assert job_end(fixtures_conditions.case([OWN, last]), fixtures_conditions.finding()).state is state


def test_without_an_end_and_without_a_look_nothing_is_claimed():
    assert job_end(fixtures_conditions.case(), fixtures_conditions.finding()).state is JobState.UNKNOWN


def test_the_time_left_follows_from_the_start_and_the_timeout():
    since, seen = datetime(2026, 11, 22, 14, 31, tzinfo=UTC), datetime(2026, 11, 22, 14, 35, 21, tzinfo=UTC)
    call = replace(stalled(), since=since, timeout_ms=600_000)
    given = answer("not-arrived", replace(OWN, time=seen), stalled=call)
    assert given.job_end.seen == seen
    assert given.job_end.deadline == datetime(2026, 11, 22, 14, 41, tzinfo=UTC)
    assert "The call times out at 2026-11-22 14:41:00 UTC." in given.action.steps[-1].detail


def test_a_job_that_ended_keeps_the_time_of_the_newest_look():
    since, seen = datetime(2026, 11, 22, 14, 31, tzinfo=UTC), datetime(2026, 11, 22, 14, 35, 21, tzinfo=UTC)
    call = replace(stalled(), since=since, timeout_ms=600_000)
    end = answer("not-arrived", replace(OWN, time=seen), GONE, stalled=call).job_end
    assert (end.state, end.seen, end.deadline) == (JobState.ENDED, seen, None)


def test_a_running_job_is_looked_at_now():
    given = steps("not-arrived", OWN)
    assert [step.kind for step in given][-1] is StepKind.RESTART
    assert any(step.command and "1005" in step.command and step.where == "node1" for step in given)
    assert all(step.kind is not StepKind.IF_AGAIN for step in given)


def test_the_line_to_open_is_that_of_the_loader_worker_that_the_verdict_quotes():
    waits = fixtures_conditions.stack(
        5, "_try_get_data (torch/utils/data/dataloader.py:1251)", "main (/opt/train/train.py:118)"
    )
    at_work = replace(
        fixtures_conditions.stack(5, "read_shard (/opt/train/train.py:31)"),
        helper=True,
        pid=508,
        place=fixtures_conditions.at("stacks/508.txt", 5, 1),
    )
    quoted = Evidence(at_work.place, "read_shard", "Worker process 508 was in read_shard (train.py:31).")
    given = steps("not-arrived", waits, at_work, GONE, evidence=(quoted,))

    (opened,) = (step for step in given if step.kind is StepKind.OPEN)
    assert opened.text == "Open `/opt/train/train.py:31` (`read_shard`)."
    assert "worker process 508" in opened.detail
    assert steps("not-arrived", waits, at_work, evidence=(quoted,))[0] == opened, "also of a running job it comes first"


def test_after_the_end_nobody_looks_at_the_pid():
    given = steps("not-arrived", OWN, GONE)
    assert [step.kind for step in given] == [StepKind.OPEN, StepKind.RESTART, StepKind.IF_AGAIN]
    assert given[0].text == "Open `/opt/train/train.py:121` (`refresh_table`)."
    assert given[2].text.startswith("If it happens again: ")
    assert "grep -slxz RANK=5 /proc/[0-9]*/environ" in (given[2].command or "")
    assert all("1005" not in (step.command or "") for step in given)


def test_where_no_end_is_recorded_none_is_claimed():
    given = steps("not-arrived", OWN, fixtures_conditions.timeout())
    assert [step.kind for step in given] == [StepKind.OPEN, StepKind.IF_AGAIN, StepKind.RESTART]
    assert given[1].text.startswith("If it still hangs, or hangs again: ")


def test_a_value_that_is_not_known_stays_visible():
    given = steps("not-arrived", case={"rank_host": {}, "rank_pid": {}})
    command = next(step.command for step in given if step.kind is StepKind.IF_AGAIN)
    assert command is not None
    assert command.startswith("ssh HOST_OF_RANK_5 ")
    assert "RANK=5" in command


def test_a_host_from_a_log_stays_one_word_of_the_shell():
    given = steps("not-arrived", OWN, GONE, case={"rank_host": {5: "; rm -rf /"}})
    command = given[2].command
    assert command is not None
    assert shlex.split(command)[:2] == ["ssh", "; rm -rf /"]


@pytest.mark.parametrize("command", ["dmesg -T", "grep 'a b'", "echo $HOME 'x'", "echo \"a\" 'b'", "a`b`'c'", "it's"])
def test_a_quoted_command_is_one_word(command):
    word = quoted_for_shell(command)
    assert shlex.split(word) == [command]
    assert not (word.startswith('"') and set(command) & set('$`\\!"'))


def test_what_was_read_is_not_asked_for():
    log, step = kernel(GpuError, "nothing", weight="notice"), event(Progress, text="step 4", step=4)
    with_log = [step.command or "" for step in steps("died", step, GONE, log)]
    without = [step.command or "" for step in steps("died", step, GONE, kinds=(SourceKind.LOG,))]
    assert not any("dmesg" in command for command in with_log)
    assert any("dmesg" in command for command in without)


def test_a_stopped_process_is_resumed_while_it_is_there():
    stopped = event(ProcessState, text="1005 T", state="stopped")
    first = steps("frozen", stopped)[0]
    assert (first.kind, first.command) == (StepKind.FIX, "ssh node1 'kill -CONT 1005'")
    assert all("kill -CONT" not in (step.command or "") for step in steps("frozen", stopped, GONE))


def test_a_faulty_host_is_drained_first():
    given = steps("hardware", kernel(GpuError, "Xid 79", xid=79), GONE)
    assert given[0].text == "Drain node1."
    assert given[1].text == "Restart on other hosts."


def test_a_job_without_a_culprit_asks_for_files():
    given = steps("undetermined", GONE, fixtures_conditions.timeout(), ranks=(), suspects=())
    assert [step.kind for step in given] == [StepKind.SEND, StepKind.SEND, StepKind.RESTART]
    assert given[0].text == "Collect the logs of ranks 1-7."
    assert given[1].text == "Collect the flight recorder dumps of ranks 0-7, and run `nccldoctor analyze` again."
    assert given[1].command == 'mkdir -p dumps; for h in node0 node1; do scp "$h:/tmp/nccl_trace_rank_*" dumps/; done'


def test_stacks_are_asked_for_only_while_somebody_can_take_them():
    running = event(RasStatus, what="OK")
    assert steps("undetermined", running, ranks=())[0].text == "Collect the stacks of ranks 0-7."
    assert not any("stacks" in step.text for step in steps("undetermined", GONE, ranks=()))


def test_dumps_are_fetched_from_where_a_variable_put_them():
    named = event(Setting, name="TORCH_FR_DUMP_TEMP_FILE", value="/scratch/dump_")
    (dumps,) = [
        s
        for s in steps("undetermined", fixtures_conditions.timeout(), named, ranks=())
        if "flight recorder" in s.text and s.command
    ]
    assert "/scratch/dump_" in dumps.command


@pytest.mark.parametrize(
    ("seen", "tool"),
    [
        (event(ProcessExit, reporter="kubernetes", exitcode=1), "kubectl logs"),
        (event(ProcessExit, reporter="srun", exitcode=1), "slurm-*.out"),
        (event(SchedulerEvent, None, text="Node failure on n4", what="node-failure", by="slurm"), "slurm-*.out"),
        (event(SchedulerEvent, None, what="node-failure", by="ray"), "/tmp/ray/session_latest/logs"),
        (event(ProcessExit, reporter="ray", exitcode=1), "/tmp/ray/session_latest/logs"),
        (GONE, "scp -r"),
    ],
)
def test_the_command_that_gathers_logs_fits_the_launcher(seen, tool):
    assert any(tool in (step.command or "") for step in steps("undetermined", seen, ranks=()))


def test_slurm_is_asked_where_its_logs_are_if_the_one_given_has_a_name_of_its_own():
    ended = event(SchedulerEvent, None, text="CANCELLED", what="cancelled", by="slurm", job="32484.0")
    asked = [step.command or "" for step in steps("undetermined", ended, ranks=())]
    assert any("scontrol show job 32484" in command for command in asked)
    assert not any("cp slurm-" in command for command in asked)


@pytest.mark.parametrize(
    "seen",
    [
        event(SchedulerEvent, None, text="Spot ITN received", what="preempted"),
        kernel(KernelEvent, "INFO: task trainer:811 blocked for more than 245 seconds", what="blocked-task"),
        event(AbsenceReport, 2, text="JAX: tasks 1 did not join", by="JAX", what="barrier"),
    ],
)
def test_a_text_that_no_process_of_torch_wrote_asks_for_no_folder_of_torchrun(seen):
    asked = " ".join(step.command or "" for step in steps("undetermined", seen, ranks=()))
    assert "TORCHRUN_LOG_DIR" not in asked
    assert "--pid" not in asked


def test_a_killed_process_without_a_name_is_asked_for_its_memory_first():
    killed = event(
        ProcessExit, None, text="exits with return code = -9", exitcode=-9, signal="SIGKILL", reporter="deepspeed"
    )
    first, *_ = steps("died", killed, ranks=(), kinds=[SourceKind.LOG])
    assert (first.kind, "dmesg" in (first.command or "")) == (StepKind.CHECK, True)


def test_every_row_of_the_table_names_known_parts_and_the_last_fits_all():
    for row in ROWS:
        parts = [name for part in row.steps for name in ([part] if isinstance(part, str) else part)]
        assert {*parts, *row.has} <= {*_PARTS, "restart"}
        assert set(row.sign) <= set(_SIGNS)
        assert row.family is Family.NONE or row.steps.count("restart") == 1, "every job is told about the restart"
    assert ROWS[-1] == _Row(ROWS[-1].steps)


OOM = event(SchedulerEvent, None, text="Detected 2 oom_kill events in StepId=8841207.0", what="oom", job="8841207.0")


@pytest.mark.parametrize(
    ("seen", "hosts", "command"),
    [
        ([], {}, "nccldoctor live --pid all --twice 10"),
        ([], dict.fromkeys(range(8), "vm"), "nccldoctor live --pid all --twice 10"),
        ([event(Setting, 0, name="SLURM_JOB_ID", value="4711")], {}, "nccldoctor live --slurm 4711 --twice 10"),
        ([], {rank: f"node{rank // 4}" for rank in range(8)}, "for h in node0 node1; do scp"),
    ],
)
def test_a_job_that_may_still_run_is_looked_at_by_one_command_where_one_does(seen, hosts, command):
    made = fixtures_conditions.case([event(Progress, text="step 7", step=7), *seen])
    found = fixtures_conditions.finding("undetermined", ranks=())
    asked = [step.command or "" for step in ask(replace(made, rank_host=hosts), found).action.steps]
    assert any(command in each for each in asked), asked
    assert asked[0].startswith("nccldoctor live") is command.startswith("nccldoctor live")


@pytest.mark.parametrize("named", ["Python stacks (n1)", "Python stacks (n1), Python stacks (n2)"])
def test_a_look_without_a_tool_for_python_stacks_asks_for_it_first(named):
    gap = Gap(named, "py-spy is not installed (pip install py-spy)")
    made = fixtures_conditions.case([event(Progress, text="step 7", step=7)])
    found = fixtures_conditions.finding("undetermined", ranks=())
    first, second, *_ = ask(replace(made, gaps=(gap,), rank_host={}), found).action.steps
    assert (first.command, "py-spy" in first.text) == ("pip install py-spy", True)
    assert (second.command or "").startswith("nccldoctor live")
    ended = ask(replace(fixtures_conditions.case([GONE]), gaps=(gap,)), found).action.steps
    assert not any("pip" in (step.command or "") for step in ended), "the processes are gone"


def test_slurm_names_the_hosts_that_no_line_names():
    seen = [event(Progress, text="step 7", step=7), event(Setting, 0, name="SLURM_JOB_ID", value="4711")]
    made = replace(fixtures_conditions.case([*seen, fixtures_conditions.timeout()]), rank_host={})
    asked = ask(made, fixtures_conditions.finding("undetermined", ranks=())).action.steps
    (fetched,) = (step.command for step in asked if "scp" in (step.command or ""))
    assert 'for h in $(scontrol show hostnames "$(sacct -nPX -j 4711 -o NodeList)"); do scp' in fetched


def test_a_named_resource_is_checked_and_fixed_before_files_are_asked_for():
    given = steps("died", OOM, ranks=(), victims=(), kinds=(SourceKind.LOG,), stalled=None)
    assert [step.kind for step in given] == [StepKind.CHECK, StepKind.FIX, StepKind.RESTART]
    assert (given[0].command or "").startswith("sacct -j 8841207 "), "the job's number is in the input"
    assert "more host memory" in given[1].text


def test_shared_memory_that_ran_out_is_looked_at_on_the_host_that_reports_it():
    full = event(
        NcclWarn,
        None,
        text="NCCL WARN Call to posix_fallocate failed : No space left on device",
        message="Call to posix_fallocate failed : No space left on device",
        topic="shared-memory",
        host="dgx-b04",
    )
    evidence = (Evidence(full.place, full.text, "NCCL could not allocate"),)
    no_host = {"rank_host": {}, "rank_pid": {}}
    given = steps("init", full, ranks=(), victims=(), evidence=evidence, confidence="medium", case=no_host)
    assert (given[0].command or "").startswith("ssh dgx-b04 'df -h /dev/shm")
    assert "--shm-size" in given[1].detail
    assert given[2].text == "Don't restart unchanged."


@pytest.mark.parametrize(
    ("cause", "seen", "asked"),
    [
        ("undetermined", fixtures_conditions.timeout(), True),
        ("undetermined", GONE, False),
        ("init", fixtures_conditions.timeout(), False),
        ("undetermined", event(Note, what="recorder-off"), False),
        ("undetermined", event(NcclWarn, text="a line of horovod", message="x"), False),
        ("undetermined", event(Heartbeat, text="step 4", step=4), True),
    ],
)
def test_dumps_are_asked_for_only_where_a_watchdog_can_have_written_them(cause, seen, asked):
    given = steps(cause, seen, ranks=(), victims=(), kinds=(), confidence="low")
    assert any("dumps" in step.text for step in given) is asked


def test_every_command_is_one_that_a_shell_can_read():
    for cause in ("undetermined", "not-arrived", "frozen", "died", "init", "device-stalled", "network"):
        for named in ((), (5,)):
            bare = {"rank_host": {}, "rank_pid": {}}
            for step in steps(cause, fixtures_conditions.timeout(), ranks=named, case=bare):
                assert "<" not in (step.command or ""), step.command
                assert subprocess.run(["bash", "-n", "-c", step.command or "true"], check=False).returncode == 0


def test_a_process_is_found_by_its_rank_where_its_number_is_not_known():
    command = steps("not-arrived", OWN, GONE)[2].command or ""
    (inner,) = shlex.split(command)[2:]
    assert "grep -slxz RANK=5 /proc/[0-9]*/environ" in inner
    assert "py-spy dump --pid $p" in inner


def test_the_host_of_a_missing_rank_is_that_of_the_ranks_around_it():
    hosts = {rank: f"node{rank // 4}" for rank in range(8) if rank != 5}
    command = steps("init", fixtures_conditions.timeout(), case={"rank_host": hosts})[0].command or ""
    assert command.startswith("ssh node1 ")


def test_a_host_under_suspicion_is_looked_at_before_it_is_drained():
    given = steps("device-stalled", GONE, kinds=(SourceKind.LOG,))
    assert [step.kind for step in given] == [StepKind.CHECK, StepKind.DRAIN, StepKind.RESTART]
    assert "nvidia-smi" in (given[0].command or "")


def looked(state, *frames, look=1):
    """A look at rank 5, as py-spy prints it."""
    return replace(fixtures_conditions.stack(5, *frames), state=state, look=look)


@pytest.mark.parametrize(
    ("looks", "words"),
    [
        ([looked("active+gil", "f (/a/t.py:1)"), looked("active", "f (/a/t.py:1)", look=2)], "computes there"),
        ([looked("idle", "f (/a/t.py:1)"), looked("idle", "f (/a/t.py:1)", look=2)], "is blocked there"),
        ([looked("idle", "f (/a/t.py:1)"), looked("idle", "g (/a/t.py:9)", look=2)], "computes there"),
        ([looked("idle", "f (/a/t.py:1)"), event(ProcessState, state="blocked")], "is blocked there"),
    ],
)
def test_two_looks_are_not_asked_for_where_the_input_holds_them(looks, words):
    given = steps("not-arrived", *looks)
    assert not any("twice" in step.text for step in given)
    assert any(words in step.detail for step in given)


def test_after_the_end_a_stack_that_was_read_is_not_asked_for_again():
    idle = looked("idle", "f (/a/t.py:1)")
    once = steps("not-arrived", idle, GONE)
    told = steps("not-arrived", idle, looked("idle", "f (/a/t.py:1)", look=2), GONE)
    unseen = steps("not-arrived", GONE)

    assert [step.text for step in unseen if step.kind is StepKind.IF_AGAIN]
    assert [step.text for step in once if "py-spy" in (step.command or "")] == [
        "If it happens again: look at the process twice, 10 s apart."
    ]
    assert not any("dump" in f"{step.text} {step.detail} {step.command}" for step in told)
    assert told[0].detail.startswith("Rank 5 is blocked there.")


def test_a_remedy_asks_for_no_stack_that_was_read():
    inside = looked("idle", "_try_get_data (torch/utils/data/dataloader.py:1291)")
    asked = steps("not-arrived", inside, GONE)

    assert not [step for step in asked if (step.command or "").count("py-spy dump") == 1]
    assert "dump its stack" not in " ".join(f"{step.text} {step.detail}" for step in asked)


def test_one_idle_look_does_not_tell_and_a_second_is_asked_for():
    given = steps("not-arrived", looked("idle", "f (/a/t.py:1)"))
    assert "twice, 10 s apart" in given[0].text
    assert "ps -o pid,stat" in (given[0].command or "")


@pytest.mark.parametrize(
    ("inside", "asked"),
    [
        (("_try_get_data (torch/utils/data/dataloader.py:1291)",), True),
        (("lookup (/a/cache.py:22)", "load_batch (/a/t.py:40)"), False),  # a lock, in a function with a loader's name
    ],
)
def test_loader_workers_are_looked_for_where_there_is_a_loader(inside, asked):
    given = steps("not-arrived", looked("idle", *inside, "train (/a/t.py:136)"))
    assert any("loader workers" in step.text for step in given) is asked


@pytest.mark.parametrize(
    ("inside", "fix"),
    [
        (("_try_get_data (torch/utils/data/dataloader.py:1291)",), "Load the batches around"),
        (("__getitem__ (/a/rows.py:22)", "next_rows (/a/rows.py:40)"), "Unblock or speed up"),
    ],
)
def test_the_advice_for_a_loader_fits_the_loader(inside, fix):
    """``num_workers`` is an option of PyTorch's own."""
    given = answer("not-arrived", looked("idle", *inside, "train (/a/t.py:136)"), GONE)
    (remedy,) = (each for each in given.remedies if each.id == "dataloader-stall")
    assert remedy.fix[0].startswith(fix)


def test_a_function_named_fetch_is_no_data_loader():
    given = answer("not-arrived", looked("idle", "recv (/a/store.py:22)", "fetch (/a/store.py:40)"), GONE)
    assert [each.id for each in given.remedies][:1] == ["busy-elsewhere"]


def test_a_job_at_a_prompt_is_cancelled_and_the_prompt_removed():
    at_prompt = fixtures_conditions.stack(5, "interaction (pdb.py:373)", "check (/opt/train/train.py:67)")
    given = steps("not-arrived", at_prompt)
    assert [step.kind for step in given] == [StepKind.FIX, StepKind.OPEN, StepKind.RESTART]
    assert given[0].text == "Cancel the job."
    assert given[1].text == "Open `/opt/train/train.py:67` (`check`)."


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("tcp_recvmsg_locked", "waits there for data from a socket (`tcp_recvmsg_locked` in the kernel)"),
        ("rpc_wait_bit_killable", "waits there for a file system"),
        ("futex_do_wait", "a lock, file or network call"),
    ],
)
def test_the_first_step_says_what_the_process_waits_for_in_the_kernel(function, words):
    seen = event(ProcessState, state="sleeping", waits_in=function)
    given = steps("not-arrived", looked("idle", "fetch (/a/t.py:29)"), seen)
    opened = next(step for step in given if step.kind is StepKind.OPEN)
    assert words in opened.detail


def test_the_line_where_a_rank_left_its_peers_is_opened():
    peer = fixtures_conditions.stack(
        0, "all_reduce (torch/distributed/distributed_c10d.py:3252)", "sync (/a/t.py:79)", "train (/a/t.py:169)"
    )
    own = looked("active+gil", "rouge (/a/t.py:39)", "evaluate (/a/t.py:31)", "train (/a/t.py:136)")
    given = steps("not-arrived", own, peer)
    assert given[0].text == "Open `/a/t.py:136` (`train`)."
    assert "its peers are at `/a/t.py:169`" in given[0].detail
    assert "only rank 5" in given[1].text


@pytest.mark.parametrize(
    ("what", "remedy"),
    [("checkpoint", "checkpoint-save-slow"), ("evaluation", "rank0-only-work-at-barrier")],
)
def test_work_that_took_longer_than_the_timeout_gets_the_remedy_for_that_work(what, remedy):
    done = event(Phase, 0, text=f"{what} took 639.2 s", what=what, detail="done", seconds=639.2)
    got = answer("straggler", done, ranks=(0,), victims=range(1, 8))
    assert got.remedies[0].id == remedy
    assert not any(other.id == "rank0-only-work-at-barrier" for other in got.remedies[1:])
    short = replace(done, seconds=5.0)
    assert answer("straggler", short, ranks=(0,), victims=range(1, 8)).remedies[0].id != "checkpoint-save-slow"


def test_a_missing_rank_without_a_log_is_looked_at_and_its_log_collected():
    given = steps("init", fixtures_conditions.timeout(), confidence="medium")
    assert [step.kind for step in given] == [StepKind.IF_AGAIN, StepKind.SEND, StepKind.RESTART]
    assert given[1].text == "Collect the logs of rank 5, and run `nccldoctor analyze` again."


@pytest.mark.parametrize(("signal", "asked"), [("SIGKILL", False), ("SIGSEGV", True)])
def test_what_a_launcher_says_of_a_rank_is_not_its_log_and_a_killed_rank_has_no_last_word(signal, asked):
    ended = event(ProcessExit, text=f"rank 5 {signal}", signal=signal)
    given = logs_of_culprits(
        fixtures_conditions.finding("died"), fixtures_conditions.survey(fixtures_conditions.case([ended]))
    )
    assert [step.text for step in given] == ["Collect the logs of rank 5."] * asked


def test_a_healthy_job_has_no_steps():
    assert steps("none", ranks=(), victims=()) == ()


@pytest.mark.parametrize(
    "cause",
    [
        "not-arrived",
        "frozen",
        "died",
        "raised",
        "op-mismatch",
        "missed-call",
        "device-stalled",
        "network",
        "init",
        "straggler",
    ],
)
@pytest.mark.parametrize("more", [(), (GONE,), (OWN,), (event(Note, what="debugger"),)])
def test_steps_are_few_and_hold_one_answer_about_the_restart(cause, more):
    given = steps(cause, *more)
    assert 1 <= len(given) <= MOST
    assert sum(step.kind is StepKind.RESTART for step in given) == 1
    assert len(set(given)) == len(given)
    assert all(step.text.endswith((".", "!", "?")) and "{{" not in step.text + step.detail for step in given)


def test_a_strong_fix_comes_first_where_nobody_is_named():
    """The log names the setting: the files of the other ranks are asked for after it."""
    text = "socketStartConnect: connect to 169.254.3.77<41893> returned Connection refused"
    got = answer("init", event(SocketError, None, text=text, peer="169.254.3.77"), ranks=())
    check, fix, restart = got.action.steps

    assert (got.remedies[0].fit, got.remedies[0].id) == ("strong", "wrong-interface")
    assert (check.kind, fix.kind) == (StepKind.CHECK, StepKind.FIX)
    assert "routable address" in fix.text
    assert (restart.kind, got.action.restart) == (StepKind.RESTART, "after-fix")


def test_a_guess_does_not_come_before_the_files_that_would_decide():
    got = answer("init", ranks=(), confidence="medium", kinds=BOTH[:1])

    assert got.action.steps[0].kind is StepKind.SEND


def test_no_stack_is_asked_of_a_process_that_died():
    got = steps("died", event(RasStatus, None, what="OK"), case={"rank_pid": {5: 1005}})

    assert not [step for step in got if "py-spy" in (step.command or "")]


ASKED = datetime(2026, 11, 23, 20, 32, 56, tzinfo=UTC)


def look_asked_by(rank, within_s=30):
    return event(CaptureNotice, rank, time=ASKED, look="20261123T203256Z", within_s=within_s)


def answered_by(*ranks):
    place = fixtures_conditions.at("run/stacks/20261123T203256Z/rank.txt", 3, 1)
    return [replace(fixtures_conditions.stack(rank, BUSY), place=place) for rank in ranks]


def test_ranks_that_owe_a_look_of_capture_are_waited_for_first():
    given = steps("not-arrived", look_asked_by(0), *answered_by(0, 1, 2, 5, 6, 7))

    assert given[0].kind is StepKind.WAIT
    assert given[0].text == "Run `nccldoctor analyze` again after 2026-11-23 20:33:26 UTC."
    assert given[0].detail.startswith(
        "Ranks 3-4 had not answered rank 0, which asked for stacks at 2026-11-23 20:32:56"
    )
    assert given[-1].kind is StepKind.RESTART
    assert not [step for step in given if "USR1" in (step.command or "")]


@pytest.mark.parametrize(
    "left",
    [answered_by(4), [event(ProcessState, 4, state="stopped")], [event(ProcessExit, 4, exitcode=-9, signal="SIGKILL")]],
    ids=["an answer", "stopped", "killed"],
)
def test_nobody_is_waited_for_who_answered_or_cannot(left):
    given = steps("not-arrived", look_asked_by(0), *answered_by(0, 1, 2, 3, 5, 6, 7), *left)

    assert StepKind.WAIT not in {step.kind for step in given}


LEFT = [event(CaptureNotice, rank, last_words="the interpreter exits") for rank in range(8)]


def test_a_rank_that_left_is_not_asked_for_a_look_while_others_hang():
    made = fixtures_conditions.case([event(CaptureNotice, 0), answered_by(5)[0], *LEFT[:3]], kinds=BOTH)
    asked = ask(made, fixtures_conditions.finding("not-arrived")).action.steps
    assert [step.command for step in asked if "USR1" in (step.command or "")] == ["ssh node0 kill -USR1 1003"]


@pytest.mark.parametrize("cause", ["not-arrived", "undetermined"])
@pytest.mark.parametrize("last", [[answered_by(5)[0]], [GONE], LEFT], ids=["running", "ended", "left"])
def test_a_job_under_capture_is_asked_for_another_look_and_needs_no_tool_and_no_setting(cause, last):
    made = fixtures_conditions.case([event(CaptureNotice, 0), *last], kinds=BOTH)
    given = ask(made, fixtures_conditions.finding(cause))
    looks = [step.command for step in given.action.steps if "USR1" in (step.command or "")]

    assert looks == (["ssh node0 kill -USR1 1000"] if last[0] not in (GONE, LEFT[0]) else [])
    assert not [step for step in given.action.steps if "py-spy" in f"{step.text} {step.detail} {step.command}"]
    assert not [line for line in given.capture if "TORCH_" in line or "faulthandler" in line or "torchrun" in line]


def test_a_command_for_this_machine_is_typed_as_it_is(monkeypatch):
    stopped = event(ProcessState, text="1005 T", state="stopped")
    monkeypatch.setattr(socket, "gethostname", lambda: "node1.cluster")
    here = steps("frozen", stopped)[0]
    assert here.command == "kill -CONT 1005"
    assert here.where == "node1"
    made = fixtures_conditions.case([event(CaptureNotice, 0), answered_by(5)[0]], kinds=BOTH)
    monkeypatch.setattr(socket, "gethostname", lambda: "node0")
    asked = ask(made, fixtures_conditions.finding("not-arrived")).action.steps
    assert [step.command for step in asked if "USR1" in (step.command or "")] == ["kill -USR1 1000"]


def test_nobody_is_sent_by_ssh_to_localhost():
    """torchrun prints ``localhost`` for the node that it runs on, and the reader sits elsewhere."""
    stopped = event(ProcessState, text="1005 T", state="stopped")
    (step, *_) = steps("frozen", stopped, case={"rank_host": dict.fromkeys(range(8), "localhost")})
    assert step.command == "kill -CONT 1005"


def test_a_remedy_that_is_only_likely_is_no_first_step():
    """Rank 5 stopped between two steps, and nothing shows a data loader: the next stack tells, before anybody rebuilds a loader."""
    waits = fixtures_conditions.stack(0, "_engine_run_backward (torch/autograd/graph.py:979)")
    given = steps("not-arrived", event(Progress, 5, step=3), waits, GONE)
    assert [step.kind for step in given][:2] == [StepKind.RESTART, StepKind.IF_AGAIN]
    assert given[1].text == "If it happens again: dump the stack of rank 5 before it's killed."
    assert given[1].detail.startswith("No stack of rank 5 was read."), "it may not have been in a loader"


def test_files_of_this_machine_are_copied(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "node1")
    given = steps("undetermined", fixtures_conditions.timeout(), case={"rank_host": dict.fromkeys(range(8), "node1")})
    commands = " | ".join(step.command or "" for step in given)
    assert "mkdir -p dumps; cp /tmp/nccl_trace_rank_* dumps/" in commands
    assert "scp" not in commands
    assert "ssh" not in commands


def test_dumps_of_a_job_under_capture_have_the_names_that_capture_gives_them():
    named = event(Setting, 0, name="TORCH_FR_DUMP_TEMP_FILE", value="/shared/run/dumps/nccl_trace_rank_")
    given = steps("undetermined", fixtures_conditions.timeout(), named, event(CaptureNotice, 0))
    (step,) = (step for step in given if "mkdir -p dumps" in (step.command or ""))
    assert '"$h:/shared/run/dumps/*"' in (step.command or "")
    assert "fr_trace_0" in step.detail


def test_the_dumps_that_are_missing_among_others_are_asked_for_by_rank_and_first():
    heads = tuple(DumpHead(n, "dump", "dict", "2.9", 9, False, "nccl", "", (), (), True) for n in range(3))
    lone = fixtures_conditions.case(world=None, batch=Batch(heads, Calls.empty(), Vocabulary()), dump_rank=(0, 1, 3))
    asked = files_to_collect(
        fixtures_conditions.finding("unfinished"), fixtures_conditions.survey(lone), JobState.ENDED
    )
    assert asked[0].text == "Collect the flight recorder dumps of rank 2."
