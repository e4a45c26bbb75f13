"""Nothing wrong, or not enough to tell: what must be said then, and the innocent that shout."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from builders.files.dumps import dump, entry
from builders.jobs.cases import Log, facts
from builders.jobs.verdicts import gave_up, innocent, job, play, read, step_line, taken_down, told_to_dump, torchrun
from builders.remedies import fixtures_conditions
from simulator.jobs import Job

import nccldoctor
from nccldoctor.cli.exit_codes import exit_code
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import Stack

TRAIN = {f"logs/rank_{r}.log": "".join(step_line(r, s, f"09:00:{s:02d}") for s in range(1, 30)) for r in range(4)}

STUCK = (
    "[rank{r}]:[F111 10:18:00.000000000 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank {r}] "
    "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives. "
    "This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog, and could be "
    "triggered by another thread holding the GIL inside a CUDA api, or other deadlock-prone behaviors.\n"
)


def sized(ended_well: Job) -> dict[str, str | bytes]:
    """The files of a job whose rank 0 prints the world size."""
    said = f"world_size={ended_well.knobs.world}\n{ended_well.files['logs/rank_0.log']!s}"
    return {**ended_well.files, "logs/rank_0.log": said}


# --- none -------------------------------------------------------------------------------------------------------


def test_an_abort_that_hangs_at_the_end_of_a_job_is_no_good_end() -> None:
    """It began when the abort did, and answers no dump signal."""
    files: dict[str, str | bytes] = {
        name: f"{text}[rank{r}]: 2026-01-11 09:00:31,000 INFO trainer Training finished\n"
        for r, (name, text) in enumerate(TRAIN.items())
    }
    stuck = "[PG ID 0 PG GUID 0(default_pg) Rank 1] Future for ProcessGroup abort timed out after 600000 ms\n"
    files["logs/rank_1.log"] = (
        f"{files['logs/rank_1.log']!s}[rank1]:[E111 09:10:33.000000000 ProcessGroupNCCL.cpp:1025] {stuck}"
    )
    ruling = read(files)
    assert ruling.cause == "undetermined"
    assert ruling.verdict["headline"].startswith("Rank 1 hung in the abort of a process group.")


@pytest.mark.parametrize("scenario", ["healthy", "healthy_scary"])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_a_job_that_ended_well(scenario: str, seed: int) -> None:
    ruling = read(sized(job(scenario, seed)))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("none", "", "high"), str(ruling)
    assert ruling.verdict["stalled"] is None


THREAD = (
    'Exception in thread Thread-3 (serve):\nTraceback (most recent call last):\n  File "/usr/lib/python3.12/threading.py", line 1073, in '
    '_bootstrap_inner\n    self.run()\n  File "/opt/site/stats.py", line 44, in serve\n    sock.bind(port)\nOSError: [Errno 98] Address '
    "already in use\n"
)
CAUGHT = (
    'Traceback (most recent call last):\n  File "/opt/site/notify.py", line 9, in post\n    send(text)\n'
    "ValueError: no webhook is set\n"
)
SRUN = (
    "srun: launching StepId=11.0 on host n1, 4 tasks: [0-3]\nsrun: launch/slurm: _task_finish: Received task exit notification for 4 tasks "
    "of StepId=11.0 (status=0x0000).\nsrun: launch/slurm: _task_finish: n1: tasks 0-3: Completed\n"
)


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        (
            THREAD,
            "1 exception in a thread on rank 2, after which the run continued: OSError: [Errno 98] Address already in use "
            "(logs/rank_2.log:8)",
        ),
        (
            CAUGHT,
            "1 exception on rank 2, after which the run continued: ValueError: no webhook is set (logs/rank_2.log:5)",
        ),
    ],
    ids=["in a thread", "caught"],
)
def test_the_all_clear_tells_the_exceptions_that_ranks_went_on_from(trace: str, told: str) -> None:
    logs = {name: "world_size=4\n" + text for name, text in TRAIN.items()}
    logs["logs/rank_2.log"] = logs["logs/rank_2.log"].replace("\n", "\n" + trace, 1)
    ruling = read({**logs, "train-11.out": SRUN})
    assert (ruling.cause, ruling.verdict["confidence"]) == ("none", "high"), str(ruling)
    assert ruling.document["notices"] == [told]
    stopped = read({**logs, "train-11.out": SRUN.replace("Completed", "Killed").replace("0000", "0009")})
    assert stopped.cause != "none" and told not in stopped.document["notices"], (
        "of a job that failed, findings tell its exceptions"
    )


def test_a_traceback_before_a_single_step_may_be_that_of_a_crash() -> None:
    """Lines of one file may be mixed up by a few seconds."""
    logs = {name: "world_size=4\n" + text.splitlines(keepends=True)[0] for name, text in TRAIN.items()}
    logs["logs/rank_2.log"] = logs["logs/rank_2.log"].replace("\n", "\n" + CAUGHT, 1)
    assert (read(logs).cause, read(logs).ranks) == ("raised", "2")


def test_exit_records_that_an_all_clear_rests_on_are_a_source_of_it() -> None:
    ended = {name: "world_size=4\n" + text + "Training finished\n" for name, text in TRAIN.items()}
    assert {e["observer"].partition(":")[0] for e in read(ended).verdict["evidence"]} == {"log"}
    ruling = read({**ended, "train-11.out": SRUN})
    assert "launcher" in {e["observer"] for e in ruling.verdict["evidence"]}
    assert "Rank 0 exited with code 0." in [e["says"] for e in ruling.verdict["evidence"]]
    assert ruling.document["notices"] == []


def test_parts_that_were_not_read_lower_the_confidence() -> None:
    found = job("healthy", 2)
    files = {k: v for k, v in found.files.items() if not k.endswith(("rank_3.log", "launcher.log"))}
    files = {k: v for k, v in files.items() if isinstance(v, str)}
    ruling = read(files)
    assert ruling.cause == "none", str(ruling)
    assert ruling.sure < 3, str(ruling)


CUT = gzip.compress("".join(TRAIN.values()).encode())[:-40]
NOTES = gzip.compress(b"".join(b"shard %d copied\n" % n for n in range(999)))[:-40]


def cut_tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("notes.txt")
        info.size = len(NOTES)
        archive.addfile(info, io.BytesIO(NOTES))
    return out.getvalue()[:-60]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("logs/worker.log.gz", NOTES, "logs/worker.log.gz (damaged)"),
        ("logs/empty.log.gz", NOTES[:12], "logs/empty.log.gz (damaged)"),
        ("logs/more.tar.gz", cut_tar(), "logs/more.tar.gz"),
        ("nccl_trace_rank_3", dump(*[entry(seq) for seq in range(1, 9)])[:-40], "nccl_trace_rank_3 (truncated)"),
        (
            "nccl_trace_rank_3",
            "\ufffd\x02}q\x00(X\ufffd entries\n".encode("utf-16"),
            "nccl_trace_rank_3 (none of its lines",
        ),
    ],
    ids=["cut log", "nothing left", "archive", "dump", "dump that a shell redirected as text"],
)
def test_nothing_is_called_clean_where_a_file_is_cut(name: str, data: bytes, says: str) -> None:
    healthy = {k: v for k, v in sized(job("healthy", 2)).items() if isinstance(v, str)}
    assert read(healthy).verdict["confidence"] == "high"
    ruling = read(healthy | {name: data})
    verdict = ruling.verdict
    assert (ruling.cause, verdict["confidence"]) == ("none", "low"), str(ruling)
    assert "part of the input is unreadable" in verdict["headline"]
    assert says in verdict["headline"]


def test_what_is_left_aside_on_purpose_costs_no_confidence() -> None:
    healthy = {k: v for k, v in sized(job("healthy", 2)).items() if isinstance(v, str)}
    ruling = read(healthy | {"logs/.hidden": "x\n", "logs/empty.log": "", "logs/model.bin": bytes(range(256)) * 9})
    assert (ruling.cause, ruling.verdict["confidence"]) == ("none", "high"), str(ruling)


def test_the_terminal_and_the_ticket_tell_of_the_cut_file(tmp_path: Path) -> None:
    (tmp_path / "worker.log.gz").write_bytes(CUT)
    found = nccldoctor.analyze(tmp_path)
    for shown in (found.to_text(), found.to_markdown()):
        assert "worker.log.gz" in shown
        assert "Clean run" not in shown
        assert "Part of the input is unreadable: worker.log.gz (damaged)" in " ".join(shown.split())
    assert exit_code(found.diagnosis) == 3


def ended(steps: int, *more: str) -> dict[str, str | bytes]:
    """Four ranks that report steps and end well; rank 0 writes ``more``."""
    done = {r: "".join(step_line(r, s, f"09:00:{s:02d}") for s in range(1, steps + 1)) for r in range(4)}
    done[0] += "".join(f"{line}\n" for line in more)
    files = {
        f"logs/rank_{r}.log": f"[rank{r}]: world_size=4\n{text}[rank{r}]: training finished\n"
        for r, text in done.items()
    }
    return dict(files)


def test_a_late_rank_would_not_show_in_three_steps() -> None:
    few, many = read(ended(3)), read(ended(4))
    assert few.cause == many.cause == "none", f"{few} {many}"
    says = few.verdict["doubts"]
    assert "No rank has 4 steps on record, so a straggler wouldn't show." in says
    assert not any("straggler" in doubt for doubt in many.verdict["doubts"])


def test_ranks_that_report_each_twentieth_step_report_their_own() -> None:
    rare = {
        r: f"[rank{r}]: world_size=4\n{step_line(r, 0, '09:00:00')}{step_line(r, 20, '09:00:20')}" for r in range(4)
    }
    says = read({f"logs/rank_{r}.log": f"{text}[rank{r}]: training finished\n" for r, text in rare.items()}).verdict[
        "doubts"
    ]
    assert "No rank has 4 steps on record, so a straggler wouldn't show." in says


@pytest.mark.parametrize(
    ("told", "sure", "says"), [("", 2, "may have more ranks"), ("world_size: 4\n", 3, "all 4 ranks finished")]
)
def test_only_the_ranks_that_were_read_are_known_to_be_well(told: str, sure: int, says: str) -> None:
    ruling = read({name: told + text + "training finished\n" for name, text in TRAIN.items()})
    assert (ruling.cause, ruling.sure) == ("none", sure), str(ruling)
    assert says in ruling.verdict["headline"]


def test_a_loss_that_is_no_number_is_no_clean_run() -> None:
    ruling = read(ended(6, "[rank0]: loss is nan, checking the weights"))
    assert (ruling.cause, ruling.verdict["confidence"]) == ("none", "low"), str(ruling)
    assert ruling.verdict["headline"].endswith("but the loss is no longer a number.")
    assert read(ended(6, "[rank0]: loss is nano-scaled")).verdict["confidence"] != "low"


def test_steps_and_nothing_else_prove_nothing() -> None:
    ruling = read(dict(TRAIN))
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), "a job that stands leaves the same lines"
    assert ruling.verdict["headline"].startswith("Not enough to judge"), str(ruling)


@pytest.mark.parametrize("seed", range(5))
def test_dumps_of_a_running_job_blame_nobody(seed: int) -> None:
    ruling = play("snapshot", seed, evidence="fr+log")
    assert not ruling.blamed, str(ruling)


STORE_GONE = (
    "[W528 22:26:49.170670168 TCPStore.cpp:138] [c10d] recvValueWithTimeout failed on SocketImpl(fd=3, "
    "addr=[::ffff:10.0.0.2]:54888, remote=[::ffff:10.0.0.1]:29500): Failed to recv, got 0 bytes. Connection was likely "
    "closed. Did the remote server shutdown or crash?\n"
    "E0528 22:26:49.837000 812 torch/distributed/elastic/agent/server/api.py:1004] {says}\n"
    "E0528 22:26:49.837000 812 torch/distributed/elastic/agent/server/api.py:1004] Traceback (most recent call last):\n"
    "E0528 22:26:49.837000 812 torch/distributed/elastic/agent/server/api.py:1004]     store.wait([last_member_key])\n"
    "E0528 22:26:49.837000 812 torch/distributed/elastic/agent/server/api.py:1004] torch.distributed.DistNetworkError: "
    "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?\n"
)


WORLD_OF_FOUR = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}


def parting(open_on: frozenset[int], end: str = "training finished", says: str = "bye") -> dict[str, str | bytes]:
    """Four ranks that finish, each a dump written before, where the last call of ``open_on`` is not yet retired."""
    pending = {"state": "scheduled", "retired": False, "time_discovered_completed_ns": None}
    files: dict[str, str | bytes] = {"torchrun.log": STORE_GONE.format(says=says)}
    for rank in range(4):
        calls = [
            entry(seq, "gloo:all_reduce", **(pending if seq == 8 and rank in open_on else {})) for seq in range(1, 9)
        ]
        files[f"dumps/fr_trace_{rank}"] = dump(*calls, pg_config=WORLD_OF_FOUR, pg_status={})
        files[f"rank_{rank}.log"] = f"2026-05-28 22:26:42,314 INFO [rank {rank}] train: {end}\n"
    return files


@pytest.mark.parametrize("says", ["Error waiting on exit barrier. Elapsed: 3.7 seconds", "Unhandled at the end"])
@pytest.mark.parametrize("open_on", [frozenset(), frozenset({1}), frozenset({0, 1, 2, 3})])
def test_a_job_that_finished_holds_no_stall(open_on: frozenset[int], says: str) -> None:
    ruling = read(parting(open_on, says=says))
    assert (ruling.cause, ruling.verdict["confidence"]) == ("none", "high"), str(ruling)


def test_an_end_without_a_time_may_be_older_than_the_open_calls_of_the_dumps() -> None:
    files = parting(frozenset({0, 1, 2, 3}))
    undated = {f"rank_{r}.log": f"[rank {r}] train: step 7\n[rank {r}] train: training finished\n" for r in range(4)}
    ruling = read({k: v for k, v in files.items() if k.startswith("dumps")} | undated)
    assert not ruling.blamed
    assert ruling.verdict["confidence"] != "high", str(ruling)


def test_all_in_one_call_and_nobody_complains_is_not_surely_stuck() -> None:
    files = {k: v for k, v in parting(frozenset({0, 1, 2, 3})).items() if k.startswith("dumps")}
    before = {f"rank_{r}.log": f"2026-05-28 22:26:38,100 INFO [rank {r}] train: step=7 loss=0.5\n" for r in range(4)}
    ruling = read(files | before)
    assert not ruling.blamed
    assert ruling.sure < 2, str(ruling)


@pytest.mark.parametrize("end", ["evaluation starts", "step=8 loss=0.5"])
def test_a_store_that_goes_before_the_end_is_a_complaint(end: str) -> None:
    assert read(parting(frozenset({1, 2}), end)).cause != "none"


def test_a_call_issued_after_the_work_was_done_still_hangs() -> None:
    files = parting(frozenset({0, 1, 2, 3}))
    early = {f"rank_{r}.log": f"2026-05-28 22:20:00,314 INFO [rank {r}] train: training finished\n" for r in range(4)}
    ruling = read({k: v for k, v in files.items() if k != "torchrun.log"} | early)
    stack = "Current thread 0x00007f6b04aa6b80 (most recent call first):\n" + "".join(
        f'  File "{path}", line 9 in {name}\n'
        for path, name in (
            ("/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", "all_reduce"),
            ("/opt/train/train.py", "evaluate"),
        )
    )
    stuck = read(files | {f"stacks/stacks_{r}.txt": stack for r in range(4)})
    assert ruling.verdict["confidence"] != "high", str(ruling)
    assert stuck.cause != "none", str(stuck)


TORCH = "/opt/venv/lib/python3.11/site-packages/torch/"
BUSY = (("/opt/train/train.py", "evaluate"), ("/opt/train/train.py", "main"))
WAITING = ((f"{TORCH}distributed/distributed_c10d.py", "barrier"), ("/opt/train/train.py", "main"))


def looked_at(done: dict[int, int], made: dict[int, int], last: str, busy: int) -> dict[str, str | bytes]:
    """Gloo ranks that made and finished so many calls, an undated stack of each, and steps that end at a time of 2026-05-28."""
    files: dict[str, str | bytes] = {}
    begin = 1_780_007_200_000_000_000  # 22:26:40
    for rank, calls in made.items():
        gloo = {"state": "scheduled", "time_discovered_completed_ns": None}
        times = {
            seq: {"time_created_ns": begin + seq * 10**8, "retired": seq <= done[rank]} for seq in range(1, calls + 1)
        }
        entries = [entry(seq, "gloo:all_reduce", **gloo, **at) for seq, at in times.items()]
        files[f"dumps/fr_trace_{rank}"] = dump(*entries, pg_config=WORLD_OF_FOUR, pg_status={})
        frames = "".join(f'  File "{path}", line 9 in {name}\n' for path, name in (BUSY if rank == busy else WAITING))
        files[f"stacks/stacks_{rank}.txt"] = f"Current thread 0x00007f6b04aa6b80 (most recent call first):\n{frames}"
        steps = (f"2026-05-28 {at} INFO [rank {rank}] train: step={n}\n" for n, at in enumerate(_until(last)))
        files[f"rank_{rank}.log"] = "".join(steps)
    return files


def _until(last: str) -> list[str]:
    return [
        at for at in (f"22:26:{second:02d},{tenth}00" for second in range(38, 50) for tenth in (1, 4, 7)) if at <= last
    ]


def test_steps_after_the_dumps_answer_a_stack_without_a_time() -> None:
    """Rank 2 evaluated when the files were written, and all ranks log steps for seconds behind that."""
    ruling = read(looked_at(dict.fromkeys(range(4), 7), {0: 8, 1: 8, 2: 7, 3: 8}, "22:26:48,000", busy=2))
    assert (ruling.cause, ruling.ranks) == ("none", ""), str(ruling)


def test_a_look_of_unknown_length_at_an_evaluation_is_no_sure_hang() -> None:
    """The same, where the logs end with the step before: the job may go on in ten seconds."""
    ruling = read(looked_at(dict.fromkeys(range(4), 7), {0: 8, 1: 8, 2: 7, 3: 8}, "22:26:40,700", busy=2))
    assert (ruling.ranks, ruling.verdict["confidence_in"]["ranks"]) == ("2", "low"), str(ruling)


def test_dumps_of_other_moments_show_no_rank_absent_and_no_device_stopped() -> None:
    """Rank 2 finished #8 to #10, for which ranks 0 and 3 are needed: their dumps, which end at #8, are older."""
    files = looked_at({0: 6, 1: 12, 2: 10, 3: 8}, {0: 8, 1: 12, 2: 12, 3: 8}, "22:26:40,700", busy=3)
    for kept in (files, {name: data for name, data in files.items() if not name.endswith(".log")}):
        ruling = read(kept)
        assert not ruling.blamed and not ruling.verdict["suspects"], str(ruling)


def test_a_stack_without_a_frame_tells_nothing() -> None:
    empty = Stack(place=fixtures_conditions.at(), text="Thread 0x00007f (most recent call first):", main=True)
    assert diagnose(facts(logs=[Log("stacks.txt", (empty,))])).findings[0].cause == "undetermined"


def test_one_timeout_is_enough_to_be_not_well() -> None:
    ruling = read(TRAIN | {"logs/rank_2.log": TRAIN["logs/rank_2.log"] + gave_up(2, 50)})
    assert ruling.cause != "none", str(ruling)


@pytest.mark.parametrize("scenario", ["no_data", "killed", "other_size", "never_ends", "silent_start"])
def test_trouble_is_never_none(scenario: str) -> None:
    ruling = play(scenario, 2)
    assert all(f["class"] != "none" for f in ruling.document["findings"]), str(ruling)


# --- undetermined -----------------------------------------------------------------------------------------------


def test_text_that_has_nothing_to_do_with_a_job() -> None:
    ruling = read({"notes.txt": "buy milk\n"})
    assert ruling.verdict["confidence"] in ("cannot-tell", "low")
    assert (ruling.ranks, ruling.verdict["suspects"]) == ("", "")


@pytest.mark.parametrize("scenario", ["one_victim", "one_dump"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
def test_one_waiting_rank_accuses_nobody(scenario: str, seed: int) -> None:
    ruling = play(scenario, seed)
    assert ruling.ranks == "", str(ruling)
    assert ruling.sure <= 1, str(ruling)


def test_one_victim_still_tells_the_call() -> None:
    ruling = read({"logs/rank_0.log": gave_up(0, 50)})
    assert ruling.at == ("ALLREDUCE", 50), str(ruling)


def test_what_was_cut_off_before_the_stall_is_not_invented() -> None:
    """A log that ends in the middle of the first complaint."""
    ruling = read({"logs/rank_0.log": gave_up(0, 50)[:120]})
    assert ruling.sure <= 1, str(ruling)
    assert not ruling.ranks


def test_what_is_complete_is_not_undetermined() -> None:
    for scenario in ("no_data", "stopped", "killed", "other_size", "never_ends", "uncaught"):
        assert play(scenario, 2).cause != "undetermined"


# --- who shouts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shouter", [0, 1, 2])
def test_the_first_timeout_is_a_victims(shouter: int) -> None:
    """Whoever gives up first, and whoever the launcher therefore calls the root cause, only waited."""
    times = {r: "10:10:00" if r == shouter else "10:10:20" for r in (0, 1, 2)}
    files: dict[str, str | bytes] = {
        f"logs/rank_{r}.log": gave_up(r, 50, at=t) + taken_down(r, 50) for r, t in times.items()
    }
    files["logs/rank_3.log"] = told_to_dump(3, shouter, 49)
    files["logs/launcher.log"] = torchrun(shouter, -6, {r: -6 for r in (0, 1, 2) if r != shouter} | {3: -15})
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "3"), str(ruling)
    assert ruling.blamed == {3}


def test_a_watchdog_that_hangs_after_a_timeout_is_a_consequence() -> None:
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, 50) + STUCK.format(r=r) for r in (0, 1, 2)}
    files["logs/rank_3.log"] = told_to_dump(3, 0, 49)
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "3"), str(ruling)
    assert ruling.blamed == {3}


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
@pytest.mark.parametrize("scenario", ["no_data", "stopped"])
def test_aborted_and_closed_siblings_are_victims(scenario: str, launcher: str) -> None:
    files = {"torchrun": "per_rank", "srun": "srun"}[launcher]
    ruling = play(scenario, 2, launcher=launcher, files=files, kill_on_exit=True)
    innocent(ruling)
    assert ruling.ranks == str(ruling.truth["culprit_ranks"][0]), str(ruling)


def test_an_earlier_attempt_is_another_story() -> None:
    """The first attempt failed through an exception; the one under inquiry stalled."""
    for seed in (0, 1, 2):
        ruling = play("stopped", seed, files="tree", restarted=True)
        assert ruling.cause == "frozen", str(ruling)
        innocent(ruling)


def test_an_absent_host_is_not_called_late() -> None:
    """No file of a whole host was collected: its ranks are at most suspects."""
    found = job("never_ends", 2, nodes=2, gpus=4)
    lost = tuple(f"{stem}{rank}{end}" for stem in "_." for rank in range(4, 8) for end in ("", ".log"))
    files = {k: v for k, v in found.files.items() if not k.endswith(lost)}
    ruling = read(files, found.truth)
    assert not ruling.ranks, str(ruling)
    assert ruling.verdict["confidence"] != "high", str(ruling)
