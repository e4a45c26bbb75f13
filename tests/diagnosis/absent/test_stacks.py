"""Jobs that were looked at while they hung or ran: stacks alone, with quiet logs, and with steps that go on."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccldoctor
from nccldoctor.incident import Incident

WAITS = (
    "all_reduce (torch/distributed/distributed_c10d.py:3252)",
    "wrapper (torch/distributed/c10d_logger.py:83)",
    "sync (job.py:40)",
    "main (job.py:90)",
)
BARRIER = (
    "barrier (torch/distributed/distributed_c10d.py:5010)",
    "wrapper (torch/distributed/c10d_logger.py:83)",
    "main (job.py:95)",
)
BACKWARD = ("_engine_run_backward (torch/autograd/graph.py:979)", "backward (torch/_tensor.py:623)", "main (job.py:88)")
READS = ("read_rows (job.py:12)", "main (job.py:85)")
PROMPT = ("cmdloop (cmd.py:126)", "interaction (pdb.py:435)", "before_step (job.py:30)", "main (job.py:85)")
MAIN = "main (job.py:85)"
EVALUATES = ("evaluate (job.py:30)", "main (job.py:85)")
COMPUTES = ("augment (job.py:20)", "main (job.py:84)")
NEW_GROUP = (
    "_new_process_group_helper (torch/distributed/distributed_c10d.py:2100)",
    "new_group (torch/distributed/distributed_c10d.py:5600)",
    "main (job.py:60)",
)
LOADER = (
    "Queue.get (multiprocessing/queues.py:113)",
    "_MultiProcessingDataLoaderIter._try_get_data (torch/utils/data/dataloader.py:1291)",
    "main (job.py:85)",
)
WORKER = (
    "open_shard (job.py:7)",
    "fetch (torch/utils/data/_utils/fetch.py:54)",
    "_worker_loop (torch/utils/data/_utils/worker.py:374)",
    "main (job.py:85)",
)


def stack(pid: int, frames: tuple[str, ...], state: str = "idle") -> str:
    head = (
        f'Process {pid}: python job.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread {pid} ({state}): "MainThread"\n'
    )
    return head + "".join(f"    {frame}\n" for frame in frames)


def look(folder: Path, *frames: tuple[str, ...], state: str = "idle") -> None:
    folder.mkdir(parents=True)
    for rank, own in enumerate(frames):
        (folder / f"rank_{rank}.txt").write_text(stack(300 + rank, own, state))


def steps(folder: Path, *seconds: int) -> None:
    lines = [
        f"2026-03-04 10:{at // 60:02d}:{at % 60:02d},000 INFO [rank 0] train: step {i} loss 0.5"
        for i, at in enumerate(seconds)
    ]
    (folder / "train.log").write_text("\n".join([*lines, ""]))


def told(incident: Incident) -> tuple[str, str, str]:
    verdict = incident.verdict
    return verdict.cause, str(verdict.ranks), verdict.confidence


def test_the_rank_outside_is_named_from_one_look_with_little_confidence(tmp_path: Path) -> None:
    look(tmp_path / "stacks", WAITS, WAITS, READS, WAITS)
    incident = nccldoctor.analyze(tmp_path)
    assert told(incident) == ("not-arrived", "2", "low")
    assert "it is in read_rows" in incident.verdict.headline
    assert "Rank 2 was in read_rows (job.py:12)." in {e.says for e in incident.verdict.evidence}


def test_the_stage_that_others_wait_for_is_named_though_their_wait_leaves_no_frame(tmp_path: Path) -> None:
    receives = (
        "_communicate (megatron/core/pipeline_parallel/p2p_communication.py:380)",
        "recv_forward (megatron/core/pipeline_parallel/p2p_communication.py:430)",
        "main (job.py:90)",
    )
    look(tmp_path / "stacks", READS, receives, receives, receives)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("not-arrived", "0")


@pytest.mark.parametrize("other", [BARRIER, BARRIER[:1], ("synchronize (torch/cuda/__init__.py:900)", *BARRIER[2:])])
def test_ranks_in_two_calls_are_not_said_to_be_in_one(tmp_path: Path, other: tuple[str, ...]) -> None:
    look(tmp_path / "stacks", WAITS, other, other, WAITS)
    incident = nccldoctor.analyze(tmp_path)
    assert told(incident)[:2] == ("undetermined", "")


def test_a_wait_for_a_gpu_apart_may_be_for_any_call(tmp_path: Path) -> None:
    look(tmp_path / "stacks", WAITS, WAITS, ("synchronize (torch/cuda/__init__.py:900)", *BARRIER[2:]), WAITS)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, str(verdict.ranks)) == ("missed-call", "2")
    assert "any call in its queue" in str(verdict.doubts)


def test_a_rank_that_waits_for_its_gpu_behind_its_peers_may_only_log(tmp_path: Path) -> None:
    logs = ("synchronize (torch/cuda/__init__.py:900)", "log_loss (job.py:50)", "main (job.py:89)")
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", logs, BARRIER, BARRIER, BARRIER)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (str(verdict.ranks), str(verdict.suspects), verdict.confidence) == ("", "0", "low")


def test_two_equal_looks_raise_the_confidence(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, READS, WAITS)
    assert told(nccldoctor.analyze(tmp_path)) == ("not-arrived", "2", "medium")


def test_ranks_of_a_job_that_was_killed_are_nowhere_any_more(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, READS, WAITS)
    assert ": it is in read_rows" in nccldoctor.analyze(tmp_path).verdict.headline
    (tmp_path / "train.out").write_text("".join(f"srun: error: node1: task {n}: Terminated\n" for n in range(4)))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert str(verdict.ranks) == "2"
    assert "waited: it was in read_rows" in verdict.headline, verdict.headline


def clockless_steps(folder: Path) -> None:
    (folder / "train.log").write_text("".join(f"step={i} loss=0.{i}5 lr=3.0e-04 t={i}.1\n" for i in range(1, 9)))


def test_steps_without_a_clock_leave_a_rank_in_everyday_work_in_doubt(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, READS, WAITS)
    clockless_steps(tmp_path)
    assert told(nccldoctor.analyze(tmp_path)) == ("not-arrived", "2", "low")


def test_steps_without_a_clock_do_not_doubt_a_prompt_seen_twice(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, PROMPT, WAITS)
    clockless_steps(tmp_path)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, str(verdict.ranks), verdict.confidence_in.ranks) == ("not-arrived", "2", "high")


@pytest.mark.parametrize(
    ("inside", "confidence"),
    [
        ((), "medium"),
        (("forward (transformers/models/llama/modeling_llama.py:400)",), "high"),
        (("tally (metrics.py:3)",), "medium"),
    ],
)
def test_the_name_of_an_own_function_does_not_make_its_work_rare(
    tmp_path: Path, inside: tuple[str, ...], confidence: str
) -> None:
    """``evaluate`` may be what every step calls, unless a library that evaluates stands in it. The looks are ten minutes apart."""
    for at in ("2026-03-04_10-00-00", "2026-03-04_10-10-00"):
        look(tmp_path / f"stacks-{at}", WAITS, WAITS, (*inside, *EVALUATES), WAITS)
    clockless_steps(tmp_path)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, str(verdict.ranks), verdict.confidence_in.ranks) == ("not-arrived", "2", confidence)


@pytest.mark.parametrize(
    "names", [("stacks-1", "stacks-2"), ("stacks-2026-03-04_10-00-00", "stacks-2026-03-04_10-01-00")]
)
@pytest.mark.parametrize("is_logged", [True, False])
def test_an_evaluation_whose_length_no_file_shows_may_end(
    tmp_path: Path, names: tuple[str, str], is_logged: bool
) -> None:
    for name in names:
        look(tmp_path / name, EVALUATES, WAITS, WAITS, WAITS)
    if is_logged:
        clockless_steps(tmp_path)
    incident = nccldoctor.analyze(tmp_path)
    assert told(incident) == ("not-arrived", "0", "low")
    assert "look again in 30 s" in str(incident.verdict.doubts)


def test_an_own_function_that_is_called_like_a_collective_may_be_none(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, ("reduce_rows (metrics.py:3)", "main (job.py:85)"), WAITS)
    assert told(nccldoctor.analyze(tmp_path)) == ("undetermined", "", "cannot-tell")


def test_one_look_at_a_prompt_is_no_certainty(tmp_path: Path) -> None:
    look(tmp_path / "stacks", WAITS, WAITS, PROMPT, WAITS)
    assert told(nccldoctor.analyze(tmp_path)) == ("not-arrived", "2", "medium")


def test_the_few_that_make_a_group_are_named_before_those_that_did_not(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", NEW_GROUP, NEW_GROUP, WAITS, WAITS, WAITS, WAITS)
    assert told(nccldoctor.analyze(tmp_path)) == ("extra-call", "0-1", "medium")


def test_the_many_that_make_a_group_wait_for_the_one_that_did_not(tmp_path: Path) -> None:
    look(tmp_path / "stacks", NEW_GROUP, NEW_GROUP, WAITS, NEW_GROUP)
    cause, ranks, _ = told(nccldoctor.analyze(tmp_path))
    assert cause != "extra-call" and ranks in ("", "2")


def test_a_rank_that_waits_itself_may_be_no_member_of_the_new_group(tmp_path: Path) -> None:
    """Three ranks disagree on which group to make; the fourth is in none of them, and waits in the next call."""
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", NEW_GROUP, NEW_GROUP, NEW_GROUP, BACKWARD)
    clockless_steps(tmp_path)
    incident = nccldoctor.analyze(tmp_path)
    assert told(incident)[2] == "low", incident.verdict.headline
    (tmp_path / "stacks-1" / "rank_3.txt").write_text(stack(303, READS))
    (tmp_path / "stacks-2" / "rank_3.txt").write_text(stack(303, READS))
    assert told(nccldoctor.analyze(tmp_path)) == ("init", "3", "medium")


def test_a_rank_whose_stack_is_missing_may_be_the_one(tmp_path: Path) -> None:
    """Ranks 0-3 of four are seen, then the stack of rank 3 is lost: who is waited for is less sure."""
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, PROMPT, WAITS)
    (tmp_path / "train.log").write_text("export WORLD_SIZE=4\n")
    whole = nccldoctor.analyze(tmp_path).verdict
    for number in (1, 2):
        (tmp_path / f"stacks-{number}" / "rank_3.txt").unlink()
    found = nccldoctor.analyze(tmp_path).verdict
    assert (str(whole.ranks), whole.confidence_in.ranks) == ("2", "high")
    assert found.confidence_in.ranks != "high"
    assert any("rank 3 stood" in doubt.says for doubt in found.doubts)


def gave_up(folder: Path, at: str) -> None:
    error = (
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 15000ms"
    )
    lines = [f"2026-03-04 10:0{m}:00,000 INFO [rank 0] train: step {m} loss 0.5" for m in (0, 1)]
    last = f"2026-03-04 {at},000 ERROR [rank 0] {error} for recv operation to complete"
    (folder / "train.log").write_text("\n".join([*lines, last, ""]))


def test_looks_before_a_complaint_that_names_no_call_name_the_rank_outside(tmp_path: Path) -> None:
    look(tmp_path / "stacks" / "10-05-00", WAITS, WAITS, READS, WAITS)
    gave_up(tmp_path, "10:06:00")
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("not-arrived", "2")


def test_looks_after_a_complaint_accuse_nobody(tmp_path: Path) -> None:
    look(tmp_path / "stacks" / "10-07-00", WAITS, WAITS, READS, WAITS)
    gave_up(tmp_path, "10:06:00")
    assert told(nccldoctor.analyze(tmp_path))[1] == ""


def test_a_rank_without_a_stack_may_be_the_one_that_is_elsewhere(tmp_path: Path) -> None:
    look(tmp_path / "stacks", WAITS, WAITS)
    stepped = (f"2026-03-04 10:00:00,000 INFO [rank {rank}] train: step 1 loss 0.5\n" for rank in range(4))
    (tmp_path / "train.log").write_text("".join(stepped))
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("undetermined", "")


def test_quiet_logs_never_turn_stacks_into_an_all_clear(tmp_path: Path) -> None:
    look(tmp_path / "stacks" / "10-05-00", BACKWARD, BACKWARD, READS)
    steps(tmp_path, 0, 1, 2, 3)
    assert told(nccldoctor.analyze(tmp_path)) == ("not-arrived", "2", "medium")


def test_steps_after_the_look_are_progress(tmp_path: Path) -> None:
    look(tmp_path / "stacks" / "10-00-02", WAITS, WAITS, READS)
    steps(tmp_path, 0, 1, 2, 3, 4)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("none", "")


def test_a_look_within_a_usual_step_accuses_nobody(tmp_path: Path) -> None:
    look(tmp_path / "stacks" / "10-01-50", WAITS, WAITS, READS)
    steps(tmp_path, 0, 30, 60, 90)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("undetermined", "")


def test_waits_that_ended_between_two_looks_are_progress(tmp_path: Path) -> None:
    look(tmp_path / "stacks-1", BACKWARD, COMPUTES, COMPUTES)
    look(tmp_path / "stacks-2", COMPUTES, BACKWARD, COMPUTES)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("none", "")


@pytest.mark.parametrize("lost", [0, 1])
def test_a_wait_whose_frames_are_lost_has_not_ended(tmp_path: Path, lost: int) -> None:
    call = "synchronize (torch/cuda/__init__.py:985)"
    looks = [(call, "finish_step (job.py:80)", MAIN), ("finish_step (job.py:80)", MAIN)]
    for name, frames in zip(("stacks-1", "stacks-2"), looks[:: 1 - 2 * lost], strict=True):
        look(tmp_path / name, frames, frames, READS, frames)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert verdict.cause != "none", verdict.headline


def test_a_rank_that_arrives_between_two_looks_shows_a_job_in_motion(tmp_path: Path) -> None:
    look(tmp_path / "stacks-1", WAITS, READS, READS, READS)
    look(tmp_path / "stacks-2", WAITS, WAITS, READS, WAITS)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("undetermined", "")


def test_all_ranks_in_one_call_name_nobody(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, WAITS)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("unfinished", "")


def test_one_rank_in_another_call_is_named(tmp_path: Path) -> None:
    look(tmp_path / "stacks", WAITS, WAITS, BARRIER, WAITS)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("missed-call", "2")


def test_one_line_may_make_calls_of_several_groups(tmp_path: Path) -> None:
    """Rank 1 waits in its pair and the others in the whole job, by one loop over groups."""
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, WAITS, WAITS)
    assert told(nccldoctor.analyze(tmp_path)) == ("unfinished", "", "medium")


def test_a_rank_that_receives_behind_its_peers_may_wait_for_any_of_them(tmp_path: Path) -> None:
    """Rank 1 did not send to rank 2, and went on with the others."""
    receives = ("recv (torch/distributed/distributed_c10d.py:2799)", "main (job.py:70)")
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, receives, WAITS)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, str(verdict.ranks), str(verdict.suspects)) == ("unmatched-p2p", "", "0-3")


def test_a_rank_that_receives_while_all_others_reduce_gets_no_message(tmp_path: Path) -> None:
    receives = ("recv (torch/distributed/distributed_c10d.py:2799)", "main (job.py:97)")
    look(tmp_path / "stacks-1", WAITS, WAITS, receives, WAITS)
    assert told(nccldoctor.analyze(tmp_path)) == ("unmatched-p2p", "2", "low")
    look(tmp_path / "stacks-2", WAITS, WAITS, receives, WAITS)
    assert told(nccldoctor.analyze(tmp_path)) == ("unmatched-p2p", "2", "medium")


def test_only_the_ranks_in_one_call_are_said_to_wait_in_it(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", BARRIER, WAITS, WAITS, READS)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (str(verdict.ranks), str(verdict.victims)) == ("3", "0-2"), verdict.headline
    assert "where ranks 1-2 wait" in verdict.headline and str(verdict.stalled.entered) == "1-2"


def test_two_calls_of_one_operation_may_both_wait_for_a_rank_without_a_stack(tmp_path: Path) -> None:
    """Rank 2 has died: rank 3 waits for it in their pair, and ranks 0-1 in the whole job."""
    other = ("all_reduce (torch/distributed/distributed_c10d.py:3252)", "forward (job.py:30)", "main (job.py:88)")
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, WAITS, other)
    assert told(nccldoctor.analyze(tmp_path)) == ("extra-call", "3", "low")
    for number in (1, 2):
        (tmp_path / f"stacks-{number}" / "rank_2.txt").unlink()
    (tmp_path / "train.log").write_text("[rank0]: world_size=4\n")
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (str(verdict.ranks), str(verdict.suspects)) == ("", "2-3"), verdict.headline
    assert verdict.confidence == "low"


def test_half_and_half_in_two_calls_name_nobody(tmp_path: Path) -> None:
    look(tmp_path / "stacks", WAITS, WAITS, BARRIER, BARRIER)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("undetermined", "")


def test_the_innermost_own_line_that_differs_is_the_exhibit(tmp_path: Path) -> None:
    """All wait in one helper; rank 1 called it from another line of ``main``."""
    look(tmp_path / "stacks", *((*WAITS[:3], f"main (job.py:{95 if rank == 1 else 90})") for rank in range(4)))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, str(verdict.ranks)) == ("missed-call", "1")
    assert "main (job.py:95)" in verdict.headline and "main (job.py:90)" in verdict.headline
    assert any("main (job.py:95)" in one.says for one in verdict.evidence), verdict.evidence


def test_two_ranks_in_one_helper_from_two_lines_name_neither(tmp_path: Path) -> None:
    look(tmp_path / "stacks", WAITS, (*WAITS[:3], "main (job.py:92)"))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, str(verdict.ranks), str(verdict.suspects)) == ("missed-call", "", "0-1"), verdict.headline


@pytest.mark.parametrize("state", ["idle", "active"])
def test_the_one_of_eight_at_another_line_is_a_suspect(tmp_path: Path, state: str) -> None:
    look(tmp_path / "stacks", *((f"step (job.py:{44 if r == 5 else 40})", *READS[1:]) for r in range(8)), state=state)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert str(verdict.ranks or verdict.suspects) == "5", verdict.headline
    assert "step (job.py:44)" in verdict.headline and "step (job.py:40)" in verdict.headline


def test_the_stack_at_another_line_is_a_suspect_beside_timeouts_of_all(tmp_path: Path) -> None:
    look(tmp_path / "stacks", *((f"step (job.py:{44 if rank == 5 else 40})", *READS[1:]) for rank in range(8)))
    for rank in range(8):
        (tmp_path / f"rank_{rank}.log").write_text(
            f"[rank{rank}]:[E1128 10:10:00.000017 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation"
            " timeout: WorkNCCL(SeqNum=18, OpType=ALLREDUCE, NumelIn=100, NumelOut=100, Timeout(ms)=600000) ran for 600017"
            " milliseconds before timing out.\n"
        )
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, str(verdict.ranks), str(verdict.suspects)) == ("unfinished", "", "5"), verdict.headline


def test_a_number_in_a_file_name_that_is_one_pid_by_chance_is_a_rank(tmp_path: Path) -> None:
    """Four pods, in each of which the rank is process 1."""
    (tmp_path / "stacks").mkdir()
    for rank in range(4):
        (tmp_path / "stacks" / f"task_{rank}.txt").write_text(stack(1, READS if rank == 1 else WAITS))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (str(verdict.ranks), str(verdict.victims)) == ("1", "0,2-3"), verdict.headline


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'Thread 4711 (idle): "writer"\n    wait (threading.py:312)\n    write_shard (ckpt.py:20)\n    _bootstrap (threading.py:1002)\n',
            "Thread writer is in write_shard",
        ),
        (
            'Thread 12 (Thread 0x7f12 (LWP 4123) "pt_nccl_watchdg"):\n#0  0x00007f18 in ?? () from /usr/lib/libcuda.so.1\n'
            "#1  0x00007f19 in cudaEventQuery () from /usr/lib/libcudart.so.12\n",
            "Thread pt_nccl_watchdg is in cudaEventQuery (libcudart.so.12)",
        ),
    ],
)
def test_a_stack_of_another_thread_alone_is_told(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "bt.txt").write_text(text)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert says in verdict.headline, verdict.headline
    assert any(says.rpartition(" ")[2] in item.says for item in verdict.evidence)


def test_a_rank_that_never_came_to_a_new_group_is_an_init(tmp_path: Path) -> None:
    look(tmp_path / "stacks", NEW_GROUP, READS, NEW_GROUP)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("init", "1")


def test_an_own_function_that_speaks_of_peers_is_taken_for_a_wait(tmp_path: Path) -> None:
    look(tmp_path / "stacks", WAITS, ("tp_reduce (job.py:14)", "main (job.py:56)"), READS)
    assert told(nccldoctor.analyze(tmp_path))[:2] == ("not-arrived", "2")


def look_with_stopped(folder: Path) -> None:
    look(folder, WAITS, WAITS, READS)
    error = "Caused by:\n    1: unexpected waitpid result PtraceEvent(Pid(302), SIGSTOP, 128) to 302\n"
    (folder / "rank_2.txt").write_text(f"Process 302: python job.py\n\nError: Failed to get stack traces\n\n{error}")


def test_a_stopped_process_is_frozen_by_the_error_of_the_tool(tmp_path: Path) -> None:
    look_with_stopped(tmp_path / "stacks")
    incident = nccldoctor.analyze(tmp_path)
    assert told(incident) == ("frozen", "2", "medium")
    assert incident.diagnosis.remedies[0].id == "process-stopped"


def test_a_process_that_two_looks_show_stopped_is_frozen_for_sure(tmp_path: Path) -> None:
    look_with_stopped(tmp_path / "stacks-1")
    look_with_stopped(tmp_path / "stacks-2")
    (tmp_path / "train.log").write_text("2026-03-04 10:00:00,000 INFO [rank 0] train: world size 3\n")
    assert told(nccldoctor.analyze(tmp_path)) == ("frozen", "2", "high")


def test_a_process_that_was_stopped_only_later_is_less_sure(tmp_path: Path) -> None:
    look(tmp_path / "stacks-1", WAITS, WAITS, READS)
    look_with_stopped(tmp_path / "stacks-2")
    (tmp_path / "train.log").write_text("2026-03-04 10:00:00,000 INFO [rank 0] train: world size 3\n")
    assert told(nccldoctor.analyze(tmp_path)) == ("frozen", "2", "medium")


@pytest.mark.parametrize("table", ["rank=1 pid=302 host=n1", "started rank 1 as pid 302"])
def test_files_named_by_pid_get_their_ranks_from_the_log(tmp_path: Path, table: str) -> None:
    (tmp_path / "stacks").mkdir()
    for pid, frames in ((301, WAITS), (302, LOADER), (303, WAITS), (377, WORKER)):
        (tmp_path / "stacks" / f"{pid}.txt").write_text(stack(pid, frames))
    lines = [table, table.replace("1", "0", 1).replace("302", "301"), table.replace("1", "2", 1).replace("302", "303")]
    (tmp_path / "train.log").write_text("\n".join([*lines, ""]))
    incident = nccldoctor.analyze(tmp_path)
    assert told(incident)[:2] == ("not-arrived", "1")
    worker = next(item.says for item in incident.verdict.evidence if "Worker process 377" in item.says)
    assert "open_shard (job.py:7)" in worker
    assert "it is waiting for the data loader" in incident.verdict.headline


def test_of_several_workers_at_work_none_is_in_the_headline(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    for pid, frames in ((301, WAITS), (302, LOADER), (303, WAITS), (377, WORKER), (378, WORKER)):
        (tmp_path / "stacks" / f"{pid}.txt").write_text(stack(pid, frames))
    assert "whose worker" not in nccldoctor.analyze(tmp_path).verdict.headline


def test_a_pid_without_a_rank_is_named_as_a_process(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    for pid, frames in ((4301, WAITS), (4302, READS), (4303, WAITS)):
        (tmp_path / "stacks" / f"{pid}.txt").write_text(stack(pid, frames))
    incident = nccldoctor.analyze(tmp_path)
    assert told(incident) == ("not-arrived", "", "low")
    assert "rocess 4302" in incident.verdict.headline


def of_faulthandler(ident: str, *frames: str) -> str:
    return f"Current thread 0x00007{ident} (most recent call first):\n" + "".join(
        f"  File {frame}\n" for frame in frames
    )


def test_processes_without_a_name_in_one_log_are_told_apart_by_their_threads(tmp_path: Path) -> None:
    in_call = (
        '"/opt/torch/distributed/distributed_c10d.py", line 3252 in all_reduce',
        '"/srv/job.py", line 32 in <module>',
    )
    reads = ('"/srv/job.py", line 11 in read_rows', '"/srv/job.py", line 32 in <module>')
    looks = [
        of_faulthandler(ident, *frames) for ident, frames in (("a1b80", in_call), ("b2b80", in_call), ("c3b80", reads))
    ]
    (tmp_path / "job.log").write_text("step=5 loss=0.5\n" + "".join(looks))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, str(verdict.ranks), verdict.confidence) == ("not-arrived", "", "low"), verdict.headline
    assert "it is in read_rows" in verdict.headline
    assert any("read_rows (job.py:11)" in item.says for item in verdict.evidence)


SINGLE = 'Thread 0x7F0001 (idle): "MainThread"\n'
ENGINE = (
    "Thread 4079 (active)\n    all_gather_into_tensor (torch/distributed/distributed_c10d.py:2709)\n"
    "    fetch (deepspeed/runtime/zero/a.py:3)\n"
)


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        (
            ("wait (threading.py:302)", "get (queue.py:170)", "__next__ (mt/data/iterators.py:64)"),
            "waiting for the data loader",
        ),
        ((*BACKWARD[:2], "main (job.py:88)"), "one of its threads waits for a peer in all_gather_into_tensor"),
        (WAITS, "is waiting in all_reduce"),
    ],
)
def test_one_stack_says_where_its_process_stands(tmp_path: Path, frames: tuple[str, ...], says: str) -> None:
    (tmp_path / "log.txt").write_text(SINGLE + "".join(f"    {frame}\n" for frame in frames) + ENGINE)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, says in verdict.headline) == ("undetermined", True), verdict.headline


def of_pystack(pid: int, *frames: str) -> str:
    rows = "".join(
        f'    (Python) File "/srv/{frame}\n        rows = self.take()\n      Arguments:\n        rows: 3\n'
        for frame in frames
    )
    return f"Traceback for thread {pid} (python) [] (most recent call last):\n" + rows


def test_a_stack_that_quotes_source_and_locals_is_no_source_and_no_configuration(tmp_path: Path) -> None:
    main = 'job.py", line 32, in <module>'
    for pid, last in (
        (41, 'torch/distributed/distributed_c10d.py", line 3252, in all_reduce'),
        (42, 'job.py", line 11, in read_rows'),
    ):
        (tmp_path / f"stack.{pid}.txt").write_text(of_pystack(pid, main, last))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert "it is in read_rows" in verdict.headline
    assert any("read_rows (job.py:11)" in item.says for item in verdict.evidence)


def test_the_python_call_names_a_native_wait(tmp_path: Path) -> None:
    native = ("c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >) (libtorch_cpu.so)", *WAITS)
    look(tmp_path / "stacks", native, native, READS, native)
    incident = nccldoctor.analyze(tmp_path)
    assert "all_reduce, where ranks 0-1, 3 wait" in incident.verdict.headline
    (row,) = (row for row in incident.to_full_text().splitlines() if row.startswith("0-1, 3  waiting"))
    assert row.split(maxsplit=5)[3:] == ["all_reduce", "2", "sync (job.py:40)"]


@pytest.mark.parametrize(
    ("frames", "state", "confidence"),
    [
        (("swap_edges (job.py:46)", "main (job.py:80)"), "idle", "medium"),
        (("halo (mesh/grid.py:46)", "main (job.py:80)"), "idle", "medium"),
        (("swap_edges (job.py:46)", "main (job.py:80)"), "active", "high"),
        (LOADER, "idle", "high"),
    ],
)
def test_an_idle_rank_of_which_no_frame_shows_what_it_calls_may_wait_for_a_peer(
    tmp_path: Path, frames: tuple[str, ...], state: str, confidence: str
) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, frames, WAITS)
        (tmp_path / f"stacks-{number}" / "rank_2.txt").write_text(stack(302, frames, state))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (str(verdict.ranks), verdict.confidence_in.ranks) == ("2", confidence)
    assert any("may be a wait for a peer" in d.says for d in verdict.doubts) is (confidence == "medium")


@pytest.mark.parametrize("working", [(COMPUTES, "active"), (LOADER, "idle")])
def test_beside_a_rank_at_work_one_that_may_wait_is_a_suspect(
    tmp_path: Path, working: tuple[tuple[str, ...], str]
) -> None:
    """Rank 1 may wait for rank 2 in ``irecv().wait()``, and rank 2 computes or reads."""
    frames, state = working
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, ("swap_edges (job.py:46)", "main (job.py:80)"), frames, WAITS)
        (tmp_path / f"stacks-{number}" / "rank_2.txt").write_text(stack(302, frames, state))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (str(verdict.ranks), str(verdict.suspects)) == ("2", "1")


def write_ended(folder: Path, *ranks: int) -> None:
    for rank in ranks:
        error = "Error: Failed to get process executable name. Check that the process is running.\n"
        (folder / f"rank_{rank}.txt").write_text(error)


def test_of_several_processes_that_ended_none_is_named(tmp_path: Path) -> None:
    """Each end breaks the calls of its peers, so that the ends of ranks 0 and 2 may follow from another one."""
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, WAITS, WAITS)
    write_ended(tmp_path / "stacks-2", 0, 2)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (str(verdict.ranks), verdict.confidence) == ("", "low")
    assert str(verdict.suspects) == "0,2"


def test_a_process_that_ended_is_no_culprit_where_another_rank_was_not_looked_at(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, WAITS)
    write_ended(tmp_path / "stacks-2", 0)
    (tmp_path / "train.log").write_text("2026-03-04 10:00:00,000 INFO [rank 0] train: world size 4\n")
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (str(verdict.ranks), str(verdict.suspects), verdict.confidence) == ("", "0,3", "low")


def test_the_one_process_that_ended_is_named(tmp_path: Path) -> None:
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", WAITS, WAITS, WAITS)
    write_ended(tmp_path / "stacks-2", 0)
    (tmp_path / "train.log").write_text("2026-03-04 10:00:00,000 INFO [rank 0] train: world size 3\n")
    assert told(nccldoctor.analyze(tmp_path)) == ("died", "0", "medium")


@pytest.mark.parametrize("method", ["__reduce__", "Tracker.__reduce_ex__"])
def test_a_special_method_of_python_is_no_wait_for_peers(tmp_path: Path, method: str) -> None:
    """Rank 1 pickles an object for ``all_gather_object``; what pickle calls ``__reduce__`` reduces nothing."""
    pickles = (
        f"{method} (tracker.py:23)",
        "_object_to_tensor (torch/distributed/distributed_c10d.py:3405)",
        "all_gather_object (torch/distributed/distributed_c10d.py:3501)",
        "gather_metrics (job.py:35)",
    )
    gathers = (
        "all_gather (torch/distributed/distributed_c10d.py:4287)",
        "all_gather_object (torch/distributed/distributed_c10d.py:3513)",
        "gather_metrics (job.py:35)",
    )
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", gathers, pickles, gathers, gathers)
    assert told(nccldoctor.analyze(tmp_path)) == ("not-arrived", "1", "medium")


@pytest.mark.parametrize(
    "waits",
    [
        "_wait_batch_p2p (torch/distributed/pipelining/schedules.py:683)",
        "foreach_all_gather_copy_out (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py:449)",
    ],
)
def test_code_of_torch_that_waits_for_a_handle_is_a_wait(tmp_path: Path, waits: str) -> None:
    """``work.wait()`` leaves no frame, so that the function of torch that calls it is the innermost one."""
    calls = [(waits, "step (torch/distributed/step.py:785)", f"main (job.py:{20 + rank})") for rank in range(3)]
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", *calls, ("forward (job.py:17)", "main (job.py:23)"))
    incident = nccldoctor.analyze(tmp_path)
    assert told(incident) == ("not-arrived", "3", "medium")
    assert ("held up ranks 0-2" in incident.verdict.headline) is ("p2p" in waits)


def test_ranks_at_several_places_are_all_in_the_headline(tmp_path: Path) -> None:
    sends = ("send (torch/distributed/distributed_c10d.py:2753)", "main (job.py:32)")
    receives = ("recv (torch/distributed/distributed_c10d.py:2799)", "main (job.py:34)")
    for number in (1, 2):
        look(tmp_path / f"stacks-{number}", BARRIER, sends, receives, BARRIER)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert verdict.cause == "undetermined"
    assert "anks 0, 3" in verdict.headline and "rank 1" in verdict.headline and "rank 2" in verdict.headline
    assert "can't say if it's moving" not in verdict.headline
