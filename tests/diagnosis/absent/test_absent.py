"""Ranks that are not in the call: not arrived, frozen, dead or gone through an exception; and what only looks so."""

from __future__ import annotations

import re

import pytest
from builders.jobs.verdicts import (
    gave_up,
    innocent,
    job,
    play,
    raised,
    read,
    right,
    step_line,
    taken_down,
    told_to_dump,
    torchrun,
)
from builders.logs.lines import watchdog

from nccldoctor.model.ranks import Ranks


def waiting(*ranks: int, seq: int = 50) -> dict[str, str | bytes]:
    """Logs of ranks that waited, gave up and were aborted by their own watchdogs."""
    return {f"logs/rank_{r}.log": gave_up(r, seq) + taken_down(r, seq) for r in ranks}


# --- not-arrived ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("scenario", ["no_data", "file_lock", "compile_skew", "slow_checkpoint"])
def test_who_is_busy_elsewhere_has_not_arrived(scenario: str, seed: int) -> None:
    right(play(scenario, seed))


@pytest.mark.parametrize("era", ["2.4", "2.6", "2.13"])
@pytest.mark.parametrize("evidence", ["fr+log", "log"])
def test_not_arrived_is_told_in_every_release(era: str, evidence: str) -> None:
    right(play("no_data", 2, era=era, evidence=evidence))


def test_two_independent_absentees_are_both_named() -> None:
    ruling = play("two_uploads", 2)
    right(ruling)
    assert len(ruling.truth["culprit_ranks"]) == 2


def test_all_ranks_of_a_host_may_be_late_without_the_host_being_lost() -> None:
    right(play("no_data_on_a_host", 2, nodes=2, gpus=4))


def test_dumps_alone_show_who_is_late_but_nobody_else_confirms_it() -> None:
    ruling = play("no_data", 2, evidence="fr")
    right(ruling, least="medium")


def test_the_stalled_call_is_the_culprits_first_not_what_most_wait_in() -> None:
    """In a job of several groups most ranks wait somewhere else, because of those who wait for the culprit."""
    ruling = play("no_data", 2, layout="tpdp")
    right(ruling)
    assert str(ruling.truth["culprit_ranks"][0]) in str(ruling.verdict["stalled"]["missing"])


def test_a_rank_that_answers_the_dump_signal_is_alive() -> None:
    files = waiting(0, 1, 2) | {
        "logs/rank_3.log": told_to_dump(3, 0, 49),
        "logs/launcher.log": torchrun(0, -6, {1: -6, 2: -6, 3: -15}),
    }
    ruling = read(files)
    assert (ruling.cause, ruling.ranks, ruling.at) == ("not-arrived", "3", ("ALLREDUCE", 50)), str(ruling)


def test_a_second_rank_without_a_record_may_be_missing_as_well() -> None:
    """Rank 3 is shown to be outside, rank 4 left an empty log: both may be at fault."""
    files = waiting(0, 1, 2) | {
        "logs/rank_3.log": told_to_dump(3, 0, 49),
        "logs/rank_4.log": "",
        "logs/launcher.log": torchrun(0, -6, {1: -6, 2: -6, 3: -15, 4: -15})
        .replace("0101", "0111")
        .replace("01-01", "01-11"),
    }
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "3"), str(ruling)
    assert ruling.verdict["confidence_in"]["ranks"] == "medium", str(ruling)
    assert ruling.verdict["suspects"] == "4"


def test_a_traceback_that_lost_its_end_leaves_the_class_open() -> None:
    cut = (
        '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/srv/job/main.py", line 310, in <module>\n'
        '[rank3]:     main()\n[rank3]:   File "/srv/job/main.py", line 64, in collate\n'
    )
    files = waiting(0, 1, 2) | {
        "logs/rank_3.log": told_to_dump(3, 0, 49) + cut,
        "logs/launcher.log": torchrun(0, -6, {1: -6, 2: -6, 3: -15}),
    }
    ruling = read(files)
    assert ruling.ranks == "3", str(ruling)
    assert ruling.verdict["confidence_in"]["class"] != "high", str(ruling)


@pytest.mark.parametrize("lost", [0, 5])
def test_a_dump_that_was_not_collected_accuses_nobody(lost: int) -> None:
    found = job("no_data", 2)
    culprit = found.truth["culprit_ranks"][0]
    assert culprit != lost
    ruling = play("no_data", 2, lost_dumps=(lost,))
    innocent(ruling)
    assert ruling.ranks == str(culprit)


def test_dumps_of_two_ranks_missing_and_nothing_else_read_names_nobody_surely() -> None:
    """Neither of two uncollected ranks is shown to be outside, and the other is not shown to be inside."""
    found = job("stopped", 2)
    culprit = found.truth["culprit_ranks"][0]
    other = (culprit + 3) % 8
    lost = (f"_{culprit}", f"_{other}")
    ruling = read({k: v for k, v in found.files.items() if isinstance(v, bytes) and not k.endswith(lost)}, found.truth)
    assert not ruling.ranks, str(ruling)


def test_all_ranks_of_a_host_that_the_launcher_closed_while_all_others_gave_up() -> None:
    """Half of the job is silent: told only where they are one host, and never as sure as of a few ranks."""
    ends = "".join(f"srun: error: node1: task {r}: Aborted (core dumped)\n" for r in (2, 3))
    ends += "".join(f"srun: error: {{}}: task {r}: Terminated\n" for r in (0, 1))
    logs = waiting(2, 3) | {f"logs/rank_{r}.log": step_line(r, 49, "10:00:00") for r in (0, 1)}
    whole = read(logs | {"slurm-7.out": ends.format("node0", "node0")})
    assert (whole.cause, whole.ranks, whole.verdict["confidence"]) == ("not-arrived", "0-1", "medium"), str(whole)
    parts = read(logs | {"slurm-7.out": ends.format("node0", "node1")})
    assert not parts.ranks, str(parts)


def test_lines_of_one_second_the_call_that_fewest_wait_in_came_first() -> None:
    """One tensor-parallel pair waits in its own call and, like everybody, in the call of the whole job that queues behind."""
    ruling = play("no_data", 2, layout="tpdp", evidence="log", era="2.9", names="megatron")
    right(ruling, least="medium")
    assert len(ruling.verdict["stalled"]["entered"].split(",")) == 1, str(ruling)


@pytest.mark.parametrize("scenario", ["stopped", "skipped", "killed", "uncaught", "never_ends"])
def test_not_every_absent_rank_has_merely_not_arrived(scenario: str) -> None:
    assert play(scenario, 2).cause != "not-arrived"


# --- frozen -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [2, 3, 4])
@pytest.mark.parametrize("scenario", ["stopped", "in_the_kernel"])
def test_who_gives_no_sign_where_others_do_is_frozen(scenario: str, seed: int) -> None:
    right(play(scenario, seed), least="medium")


def test_frozen_in_a_job_of_several_groups() -> None:
    right(play("stopped", 3, layout="fsdp", nodes=2, gpus=4), least="medium")


def test_killed_for_not_answering_sigterm_did_not_die_of_it() -> None:
    """SIGKILL after an unanswered SIGTERM is the launcher's own: the process hung before, it did not end before."""
    files = waiting(0, 1, 2) | {
        "logs/rank_3.log": step_line(3, 48, "09:59:59"),
        "logs/launcher.log": torchrun(0, -6, {1: -6, 2: -6, 3: -9}),
    }
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("frozen", "3"), str(ruling)


STOPPED = "    PID STAT WCHAN COMMAND\n   4714 T do_signal_stop python train.py\n"


def test_a_state_beside_dumps_shows_that_the_silent_rank_is_stopped() -> None:
    log = "rank=3 pid=4714 host=node0\n" + step_line(3, 48, "09:59:59")
    ruling = read(waiting(0, 1, 2) | {"logs/rank_3.log": log, "processes/rank_3.txt": STOPPED})
    assert (ruling.cause, ruling.ranks, ruling.sure) == ("frozen", "3", 3), str(ruling)
    assert "stopped by a signal" in str(ruling)


def test_a_stack_read_from_a_stopped_process_is_no_sign_of_life() -> None:
    """py-spy --nonblocking reads the memory of a process that a signal had stopped."""
    log = "rank=3 pid=4714 host=node0\n" + step_line(3, 48, "09:59:59")
    stack = (
        'Process 4714: python train.py\nPython v3.11.7\n\nThread 4714 (idle): "MainThread"\n    forward (train.py:74)\n'
    )
    files = waiting(0, 1, 2) | {"logs/rank_3.log": log, "stacks/rank_3.txt": stack}
    running = read(files | {"processes/rank_3.txt": STOPPED.replace("T do_signal_stop", "S futex_do_wait")})
    stopped = read(files | {"processes/rank_3.txt": STOPPED})
    assert (running.cause, running.ranks) == ("not-arrived", "3"), str(running)
    assert (stopped.cause, stopped.ranks) == ("frozen", "3"), str(stopped)
    assert "stopped by a signal" in str(stopped)


def test_an_error_that_nobody_understands_may_be_a_crash() -> None:
    """Rank 3 steps, and misses the call; once it printed ERROR and a reason of its own before: it may have ended by it."""
    calm = (
        step_line(3, 48, "09:59:59")
        + "2026-01-11 10:05:00,100 INFO [rank 3] epoch 2 waits\n"
        + step_line(3, 49, "10:11:00")
    )
    loud = calm.replace("INFO [rank 3] epoch 2 waits", "ERROR [rank 3] shard 7 lost")
    ruled = [read(waiting(0, 1, 2) | {"logs/rank_3.log": log}) for log in (calm, loud)]
    said = ["the error means that rank 3 logged" in str(ruling.verdict["doubts"]) for ruling in ruled]
    assert ([r.ranks for r in ruled], said) == (["3", "3"], [False, True]), str(ruled[1])


def ended(rank: int, words: str, at: str) -> str:
    """The last line of a rank's log, by its sidecar."""
    line = f"process {4711 + rank} {words}, seen by nccldoctor.capture"
    return f"2026-01-11 {at} ERROR [rank {rank}] {line}\n"


KILLED = "was killed by signal 9 (SIGKILL)"


def test_a_signal_that_ended_the_whole_job_is_no_ranks_own_end() -> None:
    words = {0: KILLED, 1: "ended without a last word", 2: KILLED, 3: KILLED}
    logs = {f"logs/rank_{r}.log": step_line(r, 48, "09:59:59") + ended(r, words[r], "10:05:00,1") for r in words}
    ruling = read(logs)
    assert ruling.ranks == "", str(ruling)


def test_a_signal_that_ended_one_rank_is_its_own_end() -> None:
    logs = {f"logs/rank_{r}.log": step_line(r, 48, "09:59:59") for r in range(4)}
    logs["logs/rank_2.log"] += ended(2, KILLED, "10:00:00,1")
    for rank in (0, 1, 3):
        logs[f"logs/rank_{rank}.log"] += ended(rank, KILLED, "10:05:00,1")
    ruling = read(logs)
    assert (ruling.cause, ruling.ranks) == ("died", "2"), str(ruling)


def test_an_abort_of_which_no_stderr_was_read_may_have_another_cause() -> None:
    logs = {f"logs/rank_{r}.log": step_line(r, 48, "09:59:59") for r in range(4)}
    logs["logs/rank_2.log"] += ended(2, "was killed by signal 6 (SIGABRT)", "10:00:00,1")
    ruling = read(logs)
    assert (ruling.cause, ruling.ranks) == ("died", "2"), str(ruling)
    assert ruling.sure < 3, "a mismatch of sizes on gloo ends so, too"


def test_a_stack_is_no_end_of_a_log() -> None:
    """The launcher's end of the log is left: why rank 2 aborted stood above, its own watchdog perhaps, and its stack is no log."""
    stack = (
        'Process 4713: python train.py\nPython v3.11.7\n\nThread 4713 (idle): "MainThread"\n    loss (train.py:74)\n'
    )
    ruling = read({"job.log": torchrun(2, -6, {0: -15, 1: -15, 3: -15}), "stacks/pyspy_rank2.txt": stack})
    assert (ruling.cause, ruling.blamed) == ("undetermined", set()), str(ruling)


@pytest.mark.parametrize("scenario", ["no_data", "compile_skew", "killed", "uncaught"])
def test_a_sign_of_life_or_an_end_is_not_frozen(scenario: str) -> None:
    assert play(scenario, 3).cause != "frozen"


def test_a_line_of_the_stall_is_a_sign_of_life_whatever_it_says() -> None:
    """Nothing knows the words of the last line, but it has a time."""
    early = "".join(step_line(3, n, f"09:59:{n:02d}") for n in range(3))
    logs = {f"logs/rank_{r}.log": step_line(r, 49, "09:59:00") + gave_up(r, 50, at="10:30:00") for r in range(3)}
    silent = read(logs | {"logs/rank_3.log": early})
    busy = read(logs | {"logs/rank_3.log": early + "2026-01-11 10:25:01,123 botocore: retrying upload (attempt 9)\n"})
    assert silent.verdict["confidence_in"]["class"] == "low", str(silent)
    assert (busy.cause, busy.ranks, busy.sure) == ("not-arrived", "3", 3), str(busy)


def test_a_job_that_the_scheduler_ended_at_its_limit_is_not_well() -> None:
    lines = "".join(f"{r}: " + step_line(r, 5, "10:00:00") for r in range(4))
    ruling = read(
        {
            "slurm-7.out": lines
            + "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-11T10:05:00 DUE TO TIME LIMIT ***\n"
        }
    )
    assert (ruling.cause, ruling.ranks) == ("died", ""), str(ruling)


def test_the_one_rank_that_left_nothing_is_named_and_why_is_open() -> None:
    found = job("stopped", 2)
    culprit = found.truth["culprit_ranks"][0]
    kept = {k: v for k, v in found.files.items() if f"_{culprit}" not in k and "launcher" not in k}
    ruling = read(kept, found.truth)
    assert (ruling.ranks, ruling.sure) == (str(culprit), 1), str(ruling)


def test_a_dump_that_cannot_be_read_is_a_sign_of_life() -> None:
    found = job("no_data", 2)
    culprit = found.truth["culprit_ranks"][0]
    dumps = {k: v for k, v in found.files.items() if isinstance(v, bytes)}
    ruling = read({k: v[:9] if k.endswith(f"_{culprit}") else v for k, v in dumps.items()}, found.truth)
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert Ranks.parse(ruling.verdict["suspects"]) == {culprit}


def test_silence_of_everybody_is_no_sign_against_one() -> None:
    """Without dumps and without answers to the dump signal a silent rank cannot be told from a dead one."""
    ruling = read(waiting(0, 1, 2))
    assert ruling.sure <= 2, str(ruling)
    assert not (ruling.cause == "frozen" and ruling.verdict["confidence"] == "high"), str(ruling)


# --- died -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["killed", "segfault", "out_of_memory"])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_a_process_that_ended_by_a_signal_died(scenario: str, seed: int) -> None:
    ruling = play(scenario, seed)
    assert (ruling.cause, ruling.verdict["confidence"]) == ("died", "high"), str(ruling)
    assert ruling.ranks == ",".join(map(str, ruling.truth["culprit_ranks"]))


def test_the_first_exit_counts_not_those_that_the_launcher_caused() -> None:
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": step_line(r, 48, "09:59:59") for r in range(4)}
    files["logs/launcher.log"] = torchrun(3, -9, {0: -15, 1: -15, 2: -15}, at="10:00:05")
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("died", "3"), str(ruling)


def test_an_abort_by_the_own_watchdog_is_no_death() -> None:
    """Exit -6 of the ranks that waited is what the timeout does, here with everybody inside."""
    files = waiting(0, 1, 2, 3) | {"logs/launcher.log": torchrun(0, -6, {1: -6, 2: -6, 3: -6})}
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("unfinished", ""), str(ruling)
    assert all(f["class"] != "died" for f in ruling.document["findings"])


def test_an_exit_with_code_0_in_the_middle_leaves_the_others_waiting() -> None:
    ended = "Process 3 exit with status code 0.\n"
    ruling = read(waiting(0, 1, 2) | {"logs/launcher.log": ended})
    assert (ruling.cause, ruling.ranks) == ("died", "3"), str(ruling)
    assert "code 0" in ruling.verdict["headline"]
    ruling = read(waiting(0, 1, 2, 3) | {"logs/launcher.log": ended})
    assert ruling.cause != "died", f"rank 3 waits as well: {ruling}"


def test_a_healthy_end_is_no_early_exit() -> None:
    assert play("healthy", 2).cause == "none"


@pytest.mark.parametrize("scenario", ["uncaught", "no_data", "stopped"])
def test_siblings_that_the_launcher_closed_did_not_die(scenario: str) -> None:
    ruling = play(scenario, 2)
    innocent(ruling)
    assert all(f["class"] != "died" for f in ruling.document["findings"]), str(ruling)


# --- raised -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", ["fr+log", "log"])
@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_an_exception_of_its_own(seed: int, evidence: str) -> None:
    ruling = play("uncaught", seed, evidence=evidence)
    assert (ruling.cause, ruling.verdict["confidence"]) == ("raised", "high"), str(ruling)
    assert ruling.ranks == ",".join(map(str, ruling.truth["culprit_ranks"]))
    assert re.search(r"Error|ran out of GPU memory", ruling.verdict["headline"])


def test_a_traceback_before_the_timeouts_of_the_others() -> None:
    files = waiting(0, 1, 2) | {
        "logs/rank_3.log": raised(3, "ValueError", "bad shard"),
        "logs/launcher.log": torchrun(3, 1, {0: -6, 1: -6, 2: -6}, at="10:00:10"),
    }
    ruling = read(files)
    assert (ruling.cause, ruling.ranks, ruling.at) == ("raised", "3", ("ALLREDUCE", 50)), str(ruling)
    assert "ValueError" in ruling.verdict["headline"]


@pytest.mark.parametrize(
    ("kind", "message", "words"),
    [
        (
            "torch.OutOfMemoryError",
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB",
            "ran out of GPU memory before ALLREDUCE #50: it tried to allocate 2.00 GiB in main",
        ),
        ("RuntimeError", "CUDA error: out of memory", "ran out of GPU memory before ALLREDUCE #50: in main"),
        ("MemoryError", "", "ran out of host memory before ALLREDUCE #50: in main"),
        (
            "RuntimeError",
            "[enforce fail at alloc_cpu.cpp:116] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes.",
            "ran out of host memory before ALLREDUCE #50: it tried to allocate 64 bytes in main",
        ),
        (
            "RuntimeError",
            "the file is out of memory-mapped pages",
            "crashed before ALLREDUCE #50: RuntimeError: the file is out of",
        ),
    ],
)
def test_want_of_memory_is_said_in_words(kind: str, message: str, words: str) -> None:
    ruling = read(waiting(0, 1, 2) | {"logs/rank_3.log": raised(3, kind, message)})
    assert (ruling.cause, ruling.ranks) == ("raised", "3"), str(ruling)
    assert words in ruling.verdict["headline"], str(ruling)


def test_an_exception_of_a_rank_that_lingers() -> None:
    right(play("lingering", 3))


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        ("    close (/srv/app/writer.py:61)", "Rank 3 did not exit: its process was in close (writer.py:61)."),
        ("    main (train.py:170)", ""),  # the raising function is still there: a stack from before
        ("    all_reduce (torch/distributed/distributed_c10d.py:2806)", ""),
    ],
)
def test_a_stack_behind_an_exception_shows_that_the_process_is_still_there(frame: str, says: str) -> None:
    files = waiting(0, 1, 2) | {"logs/rank_3.log": raised(3, "ValueError", "bad shard")}
    files["stacks/stacks_3.txt"] = (
        'Process 4003: python train.py\nPython v3.11.9 (/usr/bin/python3.11)\n\nThread 4003 (idle): "MainThread"\n'
        f"    wait (/usr/lib/python3.11/threading.py:327)\n{frame}\n    <module> (train.py:301)\n"
    )
    ruling = read(files)
    assert ruling.cause == "raised", str(ruling)
    shown = [e["says"] for e in ruling.verdict["evidence"] if "did not exit" in e["says"]]
    assert shown == ([says] if says else []), str(ruling)
    fixes = [fix for remedy in ruling.document["remedies"] for fix in remedy["fix"]]
    assert any("exit when it raises" in fix for fix in fixes) is bool(says)


def test_the_error_that_a_watchdog_throws_is_the_waiters_and_no_exception_of_its_own() -> None:
    files = waiting(0, 1, 2) | {"logs/rank_3.log": told_to_dump(3, 0, 49)}
    ruling = read(files)
    assert ruling.cause == "not-arrived", str(ruling)
    assert all(f["class"] != "raised" for f in ruling.document["findings"])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("MemoryError", "no room for the features"),
        ("RuntimeError", "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_a_rank_that_raises_for_want_of_memory_was_not_killed(kind: str, message: str) -> None:
    lost = "[/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:34028"
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": raised(r, "RuntimeError", lost) for r in (0, 1)}
    ruling = read(files | {"logs/rank_2.log": raised(2, kind, message)})
    assert (ruling.cause, ruling.ranks) == ("raised", "2"), str(ruling)


def test_a_rank_that_the_kernel_kills_for_want_of_memory_has_died() -> None:
    killed = "[rank3]: pid 4003\n[ 12.5] Out of memory: Killed process 4003 (python) total-vm:9kB, anon-rss:8kB\n"
    ruling = read(waiting(0, 1, 2) | {"logs/rank_3.log": step_line(3, 7, "10:01:00"), "dmesg.txt": killed})
    assert ruling.cause == "died", str(ruling)


def test_the_echo_of_a_dead_peer_is_not_raised() -> None:
    refused = "NCCL error in: NCCLUtils.hpp:121, remote process exited or there was a network error, NCCL version 2.27"
    files: dict[str, str | bytes] = {
        "logs/rank_0.log": raised(0, "torch.distributed.DistBackendError", refused),
        "logs/rank_1.log": step_line(1, 48, "09:59:59"),
        "logs/rank_2.log": step_line(2, 48, "09:59:59"),
        "logs/rank_3.log": step_line(3, 48, "09:59:59"),
        "logs/launcher.log": torchrun(3, -9, {0: 1, 1: -15, 2: -15}, at="10:00:05"),
    }
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("died", "3"), str(ruling)


@pytest.mark.parametrize("scenario", ["killed", "segfault", "stopped", "slow_checkpoint"])
def test_without_a_traceback_nothing_was_raised(scenario: str) -> None:
    assert play(scenario, 4).cause != "raised"


GONE_NODE: dict[str, str | bytes] = {
    **{f"logs/rank_{r}.log": step_line(r, 7, "10:00:00") + gave_up(r, 18) + taken_down(r, 18) for r in range(4)},
    **{f"logs/rank_{r}.log": step_line(r, 7, "10:00:00") for r in range(4, 8)},
}


def test_all_ranks_of_a_host_that_fell_silent_are_named() -> None:
    ruling = read(GONE_NODE)
    assert (ruling.cause, ruling.ranks) == ("died", "4-7"), str(ruling)
    assert ruling.sure < 3, "they may be frozen as well"


def test_silent_ranks_that_are_no_host_are_not_named_together() -> None:
    logs: dict[str, str | bytes] = dict(GONE_NODE)
    del logs["logs/rank_1.log"]
    assert read(logs).ranks == "", "a log that was not collected, beside four that were"


def test_a_host_of_which_no_log_was_collected_is_a_suspect() -> None:
    ruling = read({"train.log": "".join(str(GONE_NODE[f"logs/rank_{r}.log"]) for r in range(4)) + "WORLD_SIZE=8\n"})
    assert ruling.ranks == "", str(ruling)


FAILED_NODE = (
    "srun: error: Node failure on gpu3\n"
    "slurmstepd: error: *** STEP 4711.0 ON gpu0 CANCELLED AT 2026-04-04T02:33:10 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
    "srun: error: gpu0: tasks 0-3: Exited with exit code 1\nsrun: error: gpu1: tasks 4-7: Terminated\n"
)


def test_the_tasks_of_a_failed_node_are_known_from_the_launch() -> None:
    launch = "".join(
        f"srun: launching StepId=4711.0 on host gpu{n}, 4 tasks: [{4 * n}-{4 * n + 3}]\n" for n in range(4)
    )
    ruling = read({"slurm-4711.out": launch + FAILED_NODE})
    assert (ruling.cause, ruling.ranks) == ("died", "12-15"), str(ruling)


@pytest.mark.parametrize(("waiting", "placed", "named"), [(4, (7,), "4-7"), (4, (4, 5, 6, 7), "4-7"), (5, (5,), "")])
def test_missing_ranks_without_a_host_are_of_the_one_that_failed(
    waiting: int, placed: tuple[int, ...], named: str
) -> None:
    """One log of the failed host was kept, or all. Three missing ranks are no host."""
    logs: dict[str, str | bytes] = {f"logs/n1/rank{r}.txt": "world_size=8\n" + watchdog(r, 50) for r in range(waiting)}
    logs |= {f"logs/n2/rank{r}.txt": "2026-02-02 03:09:00,100 INFO trainer step 12/100 loss=1.2\n" for r in placed}
    ruling = read({**logs, "slurm.err": "srun: error: Node failure on n2\n"})
    assert (ruling.cause, ruling.ranks) == ("died" if named else "undetermined", named), str(ruling)


def test_the_host_that_prints_the_notice_is_not_the_one_that_failed() -> None:
    ruling = read({"slurm-4711.out": FAILED_NODE})
    assert (ruling.cause, ruling.ranks) == ("died", ""), str(ruling)


def test_one_task_for_each_host_is_a_launcher_and_no_rank() -> None:
    launch = "".join(f"srun: launching StepId=4711.0 on host gpu{n}, 1 tasks: [{n}]\n" for n in range(4))
    assert read({"slurm-4711.out": launch + FAILED_NODE}).ranks == ""


def test_one_line_of_srun_ends_all_tasks_of_its_list() -> None:
    """The tasks that a second line ends may have been closed for the first ones."""
    step = (
        "slurmstepd: error: Detected 2 oom_kill events in StepId=93.0. Some of the step tasks have been OOM Killed.\n"
    )
    full = "srun: error: gpu5: tasks 1-3,7: Out Of Memory\n"
    ended = read({"slurm-93.out": step + full})
    assert (ended.cause, ended.ranks) == ("died", "1-3,7"), str(ended)
    later = read({"slurm-93.out": step + full + "srun: error: gpu5: tasks 4,6: Killed\n"})
    assert (later.cause, later.ranks) == ("died", "1-3,7"), str(later)


def test_a_log_of_which_no_line_is_known_is_of_a_rank_of_the_job() -> None:
    """Ranks 0-6 of 8 gave up; rank 7 wrote words of its own script."""
    logs: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, 50) for r in range(7)}
    ruling = read({**logs, "logs/rank_7.log": "epoch 3 validating\n"})
    assert (ruling.ranks or ruling.verdict["suspects"]) == "7", str(ruling)
    ruling = read({**logs, "notes/rank_9.log": "epoch 3 validating\n"})
    assert "9" not in (ruling.ranks, ruling.verdict["suspects"]), f"another folder, another set of logs: {ruling}"


@pytest.mark.parametrize("name", ["Remote daemon: [[11377,0],1]", "  Remote daemon : [prterun-head-19@0,1]"])
def test_a_node_whose_daemon_mpirun_lost_is_named(name: str) -> None:
    said = f"PRTE has lost communication with a remote daemon.\n\n{name} on node gpu-7\n"
    ruling = read({"mpirun.log": said})
    assert ruling.cause == "died", str(ruling)
    assert any("gpu-7" in item["says"] for item in ruling.verdict["evidence"]), str(ruling)
    named = said + "prterun has exited due to process rank 2 with PID 1705 on node gpu-7 exiting improperly.\n"
    assert read({"mpirun.log": named}).ranks == "2"
