"""A job is well only where that is proved: take the proof away, or add one failure, and it is not."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import job, read, step_line

DONE = "2026-01-11 09:01:00,000 INFO training finished\n"

STEPS = {f"logs/rank_{r}.log": "".join(step_line(r, s, f"09:00:{s:02d}") for s in range(1, 30)) for r in range(4)}

FINISHED: dict[str, str | bytes] = {name: text + DONE for name, text in STEPS.items()}

FAILURES = {
    "xid": "[Sun Jan 11 09:02:00 2026] NVRM: Xid (PCI:0000:5d:00): 79, pid=88214, GPU has fallen off the bus.\n",
    "oom of the step": "slurmstepd: error: Detected 2 oom_kill events in StepId=8841207.0. "
    "Some of the step tasks have been OOM Killed.\n",
    "lost node": "srun: error: Node failure on node001\n",
    "kill": "srun: error: node001: task 3: Killed\n",
    "nccl": "node7:8123:8199 [1] NCCL WARN Error: failed to extend /dev/shm/nccl-AbCdEf to 9637892 bytes, "
    "error: No space left on device (28)\n",
}


def test_every_rank_that_says_that_it_is_done_is_proof() -> None:
    assert read(FINISHED).cause == "none"


def test_the_same_steps_without_an_end_prove_nothing() -> None:
    ruling = read({**STEPS})
    assert (ruling.cause, ruling.verdict["confidence"]) == ("undetermined", "cannot-tell"), str(ruling)
    assert ruling.verdict["headline"].startswith("Not enough to judge"), str(ruling)


@pytest.mark.parametrize("failure", ["oom of the step", "lost node", "kill", "nccl"])
def test_one_failure_after_the_last_step_forbids_it(failure: str) -> None:
    ruling = read({**STEPS, "slurm.out": FAILURES[failure]})
    assert ruling.cause != "none", str(ruling)
    assert "There is not enough" not in ruling.verdict["headline"], "it says what failed"


@pytest.mark.parametrize("failure", sorted(FAILURES))
def test_a_failure_alone_is_never_an_all_clear(failure: str) -> None:
    assert read({"messages.log": FAILURES[failure]}).cause != "none"


@pytest.mark.parametrize("seed", [0, 2])
def test_a_healthy_job_without_its_last_words_is_not_shown_to_be_well(seed: int) -> None:
    files = {k: v for k, v in job("healthy", seed).files.items() if isinstance(v, str)}
    assert read({**files}).cause == "none"
    words = ("finished", "destroy_process_group", "exit")
    cut = {k: "".join(s for s in v.splitlines(True) if not any(w in s for w in words)) for k, v in files.items()}
    assert read({**cut}).cause == "undetermined"


DONE_PROCESS = "[2026-01-11 09:01:00,000] [INFO] [launch.py:351:main] Process {pid} exits successfully.\n"


@pytest.mark.parametrize(("processes", "cause"), [(1, "undetermined"), (3, "undetermined"), (4, "none")])
def test_a_process_of_no_known_rank_that_ended_with_0_speaks_for_itself_only(processes: int, cause: str) -> None:
    size = "[2026-01-11 08:59:00,000] [INFO] [launch.py:164:main] dist_world_size=4\n"
    launcher = size + "".join(DONE_PROCESS.format(pid=41200 + n) for n in range(processes))
    assert read({"deepspeed.log": launcher}).cause == cause
    if processes == 1:
        assert read({**STEPS, "deepspeed.log": launcher}).cause == cause


@pytest.mark.parametrize(
    "record",
    [
        "srun: error: node001: task 0: Exited with exit code 1\n",
        "E0111 09:02:00.000000 4211 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 "
        "(pid: 4242) of binary: /usr/bin/python\n",
        "8841207         train      gpu      team          64     FAILED      1:0\n",
        "trainer-1 exited with code 1\n",
        "E0111 09:07:00.000000 4212 torch/distributed/elastic/agent/server/api.py:934] Error waiting on exit barrier. "
        "Elapsed: 300.1 seconds\n",
    ],
)
def test_a_record_of_a_failed_end_outweighs_what_programs_say_of_themselves(record: str) -> None:
    ruling = read({**FINISHED, "launcher.log": record})
    assert ruling.cause != "none", str(ruling)


def test_a_rank_that_came_less_far_than_the_one_that_is_done_is_not_shown_to_be_well() -> None:
    behind = "".join(step_line(3, s, f"09:00:{s:02d}") for s in range(1, 20))
    assert read({**ONE_IS_DONE, "logs/rank_3.log": behind}).cause == "undetermined"
    assert read(ONE_IS_DONE).cause == "none"


@pytest.mark.parametrize(
    "words", ["training finished with errors", "Training finished: FAILED", "Training finished iteration 12 at"]
)
def test_words_about_a_failure_or_one_of_many_steps_are_no_good_end(words: str) -> None:
    assert (
        read({"train.log": STEPS["logs/rank_0.log"] + f"2026-01-11 09:01:00,000 INFO {words}\n"}).cause
        == "undetermined"
    )


TABLE = "# Out of bounds values : {wrong} {mark}\n# Avg bus bandwidth    : 91.4027\n"


def test_wrong_results_of_a_test_are_no_good_end() -> None:
    assert read({"tests.log": TABLE.format(wrong=0, mark="OK")}).cause == "none"
    wrong = read({"tests.log": TABLE.format(wrong=17, mark="FAILED")})
    assert wrong.cause == "undetermined"
    assert "17 FAILED" in wrong.verdict["headline"]


CTRL_C = (
    "[rank{r}]: Traceback (most recent call last):\n"
    '[rank{r}]:   File "/opt/train/train.py", line {n}, in {where}\n'
    "[rank{r}]:     {code}\n"
    "[rank{r}]: KeyboardInterrupt\n"
)


def test_a_job_that_a_person_stopped_ended_well() -> None:
    stop = CTRL_C.format(r=1, n=44, where="on_step_end", code="time.sleep(0.4)")
    assert read({"train.log": STEPS["logs/rank_1.log"] + stop}).cause == "none"


def test_a_person_who_stops_a_job_after_a_complaint_stopped_a_sick_one() -> None:
    killed = FAILURES["kill"]
    stop = CTRL_C.format(r=1, n=44, where="on_step_end", code="time.sleep(0.4)")
    assert read({"train.log": STEPS["logs/rank_1.log"] + killed + stop}).cause != "none"


STRANGE = "[rank2]:[E111 09:00:40.000000000 ProcessGroupNCCL.cpp:9] [Rank 2] a message of a release to come\n"

ONE_IS_DONE: dict[str, str | bytes] = {**STEPS, "logs/rank_0.log": STEPS["logs/rank_0.log"] + DONE}


def test_an_error_that_was_not_understood_forbids_it_and_is_quoted() -> None:
    assert read(ONE_IS_DONE).cause == "none", "rank 0 speaks for the others"
    ruling = read({**ONE_IS_DONE, "logs/rank_2.log": STEPS["logs/rank_2.log"] + STRANGE})
    assert ruling.cause == "undetermined", str(ruling)
    assert "a release to come" in ruling.verdict["headline"]


@pytest.mark.parametrize(
    "files",
    [
        {**ONE_IS_DONE, "logs/rank_2.log": STRANGE + STEPS["logs/rank_2.log"]},
        {**FINISHED, "logs/rank_2.log": STEPS["logs/rank_2.log"] + DONE + STRANGE},
        {**ONE_IS_DONE, "logs/rank_2.log": STEPS["logs/rank_2.log"] + STRANGE.replace(":[E111", ":[I111")},
    ],
    ids=["steps follow it", "every rank is done", "it is a note"],
)
def test_an_error_that_was_not_understood_is_answered(files: dict[str, str | bytes]) -> None:
    assert read(files).cause == "none"


RECEIVED = (
    "W0101 09:{at}.180000 27587 torch/distributed/elastic/agent/server/api.py:753] Received 2 death signal, "
    "shutting down workers\n"
)
BACKWARD = (
    "[rank{r}]: Traceback (most recent call last):\n"
    '[rank{r}]:   File "/opt/train/train.py", line 83, in train_epoch\n'
    "[rank{r}]:     loss.backward()\n"
    '[rank{r}]:   File "/opt/env/lib/python3.11/site-packages/torch/autograd/graph.py", line 979, in _engine_run_backward\n'
    "[rank{r}]:     return Variable._execution_engine.run_backward(\n"
    "[rank{r}]: KeyboardInterrupt\n"
)


def interrupted(at: str, before: str = "") -> str:
    steps = "".join(f"[rank{r}]: " + step_line(r, s, f"09:00:{s:02d}") for s in range(1, 20) for r in range(4))
    tracebacks = "".join(BACKWARD.format(r=r) for r in (0, 1, 3))
    late = CTRL_C.format(r=2, n=14, where="open_shard", code='with open(path, "rb") as f:')
    return steps + before + RECEIVED.format(at=at) + late + tracebacks


def test_a_person_who_stops_a_job_that_stands_leaves_a_look_at_every_rank() -> None:
    ruling = read({"train.log": interrupted("05:40")})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("not-arrived", "2", "medium"), str(ruling)


def test_a_person_who_stops_a_job_that_runs_finds_its_ranks_anywhere() -> None:
    assert read({"train.log": interrupted("00:20")}).cause == "none"


def test_the_look_of_a_person_who_came_after_a_complaint_is_not_taken() -> None:
    assert read({"train.log": interrupted("05:40", FAILURES["kill"])}).cause != "not-arrived"


PROMPT = "{who}> /opt/train/train.py(67)check()->None\n{who}-> pdb.set_trace()\n{who}(Pdb) "


def test_an_open_prompt_of_a_debugger_names_the_rank_that_its_file_belongs_to() -> None:
    ruling = read({**STEPS, "logs/rank_3.log": STEPS["logs/rank_3.log"] + PROMPT.format(who="")})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("not-arrived", "3", "low"), str(ruling)


def test_an_open_prompt_of_nobody_forbids_an_all_clear() -> None:
    assert read({**ONE_IS_DONE}).cause == "none"
    ruling = read({**ONE_IS_DONE, "console.txt": PROMPT.format(who="")})
    assert ruling.cause == "undetermined", str(ruling)
    assert "prompt" in ruling.verdict["headline"]


def test_a_prompt_that_was_answered_is_no_trouble() -> None:
    text = PROMPT.format(who="") + "\n" + STEPS["logs/rank_3.log"] + DONE
    assert read({**FINISHED, "logs/rank_3.log": text}).cause == "none"


def test_a_rank_that_waits_at_the_last_barrier_is_not_done() -> None:
    waits = "2026-01-11 09:01:00,000 INFO training loop done after 30 steps, waiting at the final barrier\n"
    files: dict[str, str | bytes] = {name: text + waits for name, text in STEPS.items()}
    assert read(files).cause != "none"
    assert read({name: str(text) + DONE for name, text in files.items()}).cause == "none"


NOT_DESTROYED = (
    "[rank0]:[W111 09:01:00.204488215 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before "
    "program exit, which can leak resources. For more info, please see https://pytorch.org/docs/stable/distributed.html#shutdown "
    "(function operator())\n"
)

TORN_DOWN = {
    "exit code": "E0111 09:01:01.791000 10689 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) "
    "local_rank: 0 (pid: 10754) of binary: /usr/bin/python3\n",
    "closing signal": "W0111 09:01:01.837000 10689 torch/distributed/elastic/multiprocessing/api.py:858] "
    "Sending process 10755 closing signal SIGTERM\n",
}


def test_groups_left_open_show_neither_a_failure_nor_a_good_end() -> None:
    """torch prints the line on any way out of the program, behind an error as well."""
    text = step_line(0, 1, "09:00:30")
    assert read({"train.log": text + NOT_DESTROYED}).cause == "undetermined"
    assert read({"train.log": text + DONE + NOT_DESTROYED}).cause == "none"


@pytest.mark.parametrize("sign", ["", *sorted(TORN_DOWN)])
def test_groups_left_open_are_a_good_end_beside_another_unless_the_launcher_saw_a_failure(sign: str) -> None:
    left_open = {name: f"{text}{NOT_DESTROYED.replace('rank0', name[5:10])}" for name, text in STEPS.items()}
    files: dict[str, str | bytes] = {**left_open, "logs/rank_0.log": f"{STEPS['logs/rank_0.log']}{DONE}"}
    ruling = read({**files, "agent.log": TORN_DOWN.get(sign, "torchrun: started\n")})
    assert (ruling.cause == "none") is (not sign), str(ruling)


WAITS = (
    "INFO - torch.distributed.distributed_c10d - Waiting in store based barrier to initialize process group for rank: {r}, "
    "key: store_based_barrier_key:1 (world_size=4, worker_count=2, timeout=0:30:00)\n"
)
PASSED = (
    "INFO - torch.distributed.distributed_c10d - Rank {r}: Completed store-based barrier "
    "for key:store_based_barrier_key:1 with 4 nodes.\n"
)


def test_ranks_that_waited_at_the_store_are_up_once_the_barrier_is_passed() -> None:
    waited = WAITS.format(r=3) + WAITS.format(r=1)
    assert read({"train.log": waited}).cause == "init"
    assert read({"train.log": waited + PASSED.format(r=0)}).cause == "undetermined"
    assert read({"train.log": PASSED.format(r=0) + waited}).cause == "init", "the next attempt waits again"


@pytest.mark.parametrize(("second", "cause"), [(15, "none"), (50, "undetermined")])
def test_steps_and_a_good_end_answer_for_a_process_that_is_no_rank(second: int, cause: str) -> None:
    killed = (
        f"[Thu Jan  1 09:00:{second} 2026] Out of memory: Killed process 6021 (firefox) total-vm:9kB, anon-rss:9kB\n"
    )
    files = {**STEPS, "logs/rank_0.log": STEPS["logs/rank_0.log"] + DONE.replace("-11", "-01"), "dmesg.txt": killed}
    assert read({**files}).cause == cause
