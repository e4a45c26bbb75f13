"""Late but alive: stragglers, and absent ranks that never come."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from builders.files.dumps import content, entry
from builders.jobs.cases import RecordedRank, Team, world
from builders.jobs.verdicts import innocent, play, read
from builders.logs.lines import caught, old_watchdog, watchdog

import nccldoctor
from nccldoctor.model import CauseClass
from nccldoctor.model.steps import JobState

DAY = 1_780_000_000


def arrived(rank: int, late_s: float) -> bytes:
    """A dump in which the last of three calls was entered ``late_s`` after midnight of that day."""
    rows: list[dict[str, Any]] = [
        entry(n, time_created_ns=(DAY + 10 * n) * 10**9, time_discovered_completed_ns=(DAY + 10 * n + 1) * 10**9)
        for n in (1, 2)
    ]
    rows.append(
        entry(
            3,
            time_created_ns=int((DAY + 40 + late_s) * 10**9),
            time_discovered_completed_ns=None,
            state="scheduled",
            retired=False,
        )
    )
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    status = {"0": {"last_enqueued_collective": 3, "last_started_collective": -1, "last_completed_collective": 2}}
    return pickle.dumps(content(*rows, pg_config=groups, pg_status=status), protocol=2)


def dumps_of(late: dict[int, float]) -> dict[str, str | bytes]:
    return {f"fr/comm_lib_trace_rank_{r}": arrived(r, late.get(r, 0.01 * r)) for r in range(4)}


def test_who_came_after_the_limit_is_late_not_stuck() -> None:
    ruling = read(dumps_of({2: 630.0}))
    assert (ruling.cause, ruling.ranks, ruling.at) == ("straggler", "2", ("ALLREDUCE", 3)), str(ruling)


def test_a_second_late_is_no_straggler() -> None:
    ruling = read(dumps_of({2: 1.0}))
    assert (ruling.cause, ruling.ranks) == ("unfinished", ""), str(ruling)


def test_half_of_the_ranks_late_is_nobodys_fault() -> None:
    ruling = read(dumps_of({2: 630.0, 3: 630.0}))
    assert ruling.cause != "straggler" or not ruling.ranks, str(ruling)


def paired(late: dict[int, float], jobs: int) -> dict[str, str | bytes]:
    """Dumps of gloo in which pairs 0-1 and 2-3 reduce, then all four do; ``late`` ranks enter the last call of their pair later."""
    teams = [Team(str(n + 1), "tp", (2 * n, 2 * n + 1)) for n in range(jobs)]
    files: dict[str, str | bytes] = {}
    for rank in range(2 * jobs):
        team, all_ranks = teams[rank // 2], world(2 * jobs)
        recorder = (
            RecordedRank(rank, all_ranks, team, backend="gloo").call(team=team).call().pause(1 + late.get(rank, 0.0))
        )
        recorder.call(team=team, done=rank in late or rank // 2 not in {one // 2 for one in late})
        if rank // 2 not in {one // 2 for one in late}:
            recorder.call(done=False)
        files[f"dumps/fr_trace_{rank}"] = recorder.data()
    return files


def test_the_late_rank_of_a_pair_is_named_by_the_rest_of_the_job() -> None:
    ruling = read(paired({2: 660.0}, 2))
    assert (ruling.cause, ruling.ranks, ruling.at) == ("straggler", "2", ("ALLREDUCE", 2)), str(ruling)


def test_of_two_ranks_the_later_one_is_named_with_doubt() -> None:
    ruling = read(paired({1: 660.0}, 1))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("straggler", "1", "medium"), str(ruling)


def test_an_entry_just_after_the_timeout_may_be_its_consequence() -> None:
    soon, later = read(dumps_of({2: 601.5})), read(dumps_of({2: 630.0}))
    assert any("may have freed it" in doubt for doubt in soon.verdict["doubts"]), str(soon)
    assert soon.verdict["confidence_in"]["class"] == "medium"
    assert not any("may have freed it" in doubt for doubt in later.verdict["doubts"]), str(later)


@pytest.mark.parametrize("seed", [0, 3])
def test_work_that_finishes_after_the_others_gave_up(seed: int) -> None:
    ruling = play("late_checkpoint", seed)
    assert (ruling.cause, ruling.ranks) == ("straggler", "0"), str(ruling)


@pytest.mark.parametrize("scenario", ["slow_checkpoint", "no_data", "stopped", "killed"])
def test_who_never_comes_is_no_straggler(scenario: str) -> None:
    ruling = play(scenario, 2)
    assert ruling.cause != "straggler", str(ruling)
    innocent(ruling)


def test_a_healthy_job_has_no_straggler() -> None:
    assert play("healthy", 2, beat_every=1).cause == "none"


BAR = "  Class  Images: {:3d}% {}/32 [01:03<00:27,  2.76s/it]"


@pytest.mark.parametrize(("later", "ranks"), [(24, "0"), (23, "")])
def test_a_bar_that_goes_on_after_the_others_gave_up_is_of_rank_0(tmp_path: Path, later: int, ranks: str) -> None:
    gave_up = "".join(old_watchdog(r, None, "BROADCAST", limit_ms=60_000, ran_ms=66_412) for r in (1, 2, 3))
    bars = [BAR.format(*at) + "\n" for at in ((70, 22), (73, 23), (77, later))]
    (tmp_path / "train.log").write_text("".join((*bars[:2], gave_up, bars[2])))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert str(verdict.ranks) == ranks
    assert (verdict.cause is CauseClass.STRAGGLER) == bool(ranks)


# ---- late to call after call, and nobody gives up


def stepping(late: dict[int, float], steps: int = 20, *, done: bool = True) -> dict[str, str | bytes]:
    """Dumps and logs of four ranks that finish; in each step of a second some issue their call later."""
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    status = {
        "0": {"last_enqueued_collective": steps, "last_started_collective": -1, "last_completed_collective": steps}
    }
    out: dict[str, str | bytes] = {}
    for rank in range(4):
        rows = []
        for n in range(1, steps + 1):
            behind = late.get(rank, 0.0) * (n % 2) + 0.001 * ((rank + n) % 3)
            end = n + max(late.values(), default=0.0) * (n % 2) + 0.01
            rows.append(
                entry(
                    n,
                    time_created_ns=int((DAY + n + behind) * 1e9),
                    time_discovered_completed_ns=int((DAY + end) * 1e9),
                    duration_ms=1000 * (end - n - behind),
                )
            )
        out[f"fr/trace_{rank}"] = pickle.dumps(content(*rows, pg_config=groups, pg_status=status), protocol=2)
        out[f"log/rank_{rank}.log"] = f"[rank{rank}] step {steps} done\n" + "training finished\n" * done
    return out


@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_is_late_in_every_step_of_a_job_that_ends_is_a_straggler(rank: int) -> None:
    ruling = read(stepping({rank: 0.6}))
    assert (ruling.cause, ruling.ranks) == ("straggler", str(rank)), str(ruling)
    assert ruling.verdict["confidence"] == "high"


def written(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.mark.parametrize("measure", ["durations", "host times"])
def test_a_straggler_is_proved_by_the_calls_to_which_it_was_late(measure: str, tmp_path: Path) -> None:
    files = stepping({2: 0.6}) if measure == "durations" else issued({2: 0.6}, "gloo", state="scheduled", retired=True)
    exhibit, *_ = nccldoctor.analyze(written(tmp_path, files)).diagnosis.proof
    assert "10 of 20 calls" in exhibit.claim
    assert exhibit.counts is not None
    peers, late = exhibit.counts.rows
    assert (str(peers.ranks), str(late.ranks), late.lags) == ("0-1,3", "2", True)
    assert all(598 <= float(cell.split()[0]) <= 602 for cell in late.cells), late.cells
    assert all(float(cell.split()[0]) <= 3 for cell in peers.cells), peers.cells


def test_clocks_that_hide_the_lateness_of_a_rank_prove_nothing(tmp_path: Path) -> None:
    """Its host's clock is 0.6 s behind: the dumps show it beside its peers, and what cancels that is no record."""
    files = issued({2: 0.6}, "gloo", state="scheduled", retired=True)
    path = "fr/trace_2"
    dump = files[path]
    assert isinstance(dump, bytes)
    whole = pickle.loads(dump)
    for row in whole["entries"]:
        row["time_created_ns"] -= 600_000_000
    files[path] = pickle.dumps(whole, protocol=2)
    diagnosis = nccldoctor.analyze(written(tmp_path, files)).diagnosis
    assert not any("20 calls" in exhibit.claim for exhibit in diagnosis.proof), diagnosis.proof


STACK = 'Thread 0x00007fd32bc1eb80 (most recent call first):\n  File "/opt/train/train.py", line 32 in training_step\n'


@pytest.mark.parametrize(("done", "state"), [(True, JobState.ENDED), (False, JobState.RUNNING)])
def test_a_slow_job_whose_training_finished_did_not_hang(done: bool, state: JobState, tmp_path: Path) -> None:
    files = stepping({2: 0.6}, done=done) | {"stacks/stacks_2.txt": STACK}
    diagnosis = nccldoctor.analyze(written(tmp_path, files)).diagnosis
    assert diagnosis.verdict.cause is CauseClass.STRAGGLER
    assert diagnosis.job_end.state is state
    assert "late again in" in diagnosis.action.why, diagnosis.action


@pytest.mark.parametrize(("late", "confidence"), [(0.6, "medium"), (0.0, "high")])
def test_one_look_at_a_rank_that_is_always_late_cannot_show_that_it_will_not_come(late: float, confidence: str) -> None:
    """The others have issued the next call, and the log ends before it shows that the job went on."""
    files = stepping({2: late}, done=False)
    for rank in (0, 1, 3):
        dump = files[f"fr/trace_{rank}"]
        assert isinstance(dump, bytes)
        whole = pickle.loads(dump)
        open_call = {"time_discovered_completed_ns": None, "state": "started", "retired": False, "duration_ms": None}
        whole["entries"].append(entry(21, time_created_ns=(DAY + 21) * 10**9, **open_call))
        whole["pg_status"]["0"]["last_enqueued_collective"] = 21
        files[f"fr/trace_{rank}"] = pickle.dumps(whole, protocol=2)
    ruling = read(files | {"stacks/stacks_2.txt": STACK})
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "2"), str(ruling)
    assert ruling.verdict["confidence_in"] == {"ranks": "high", "class": confidence}, str(ruling)


def issued(late: dict[int, float], name: str, **fields: Any) -> dict[str, str | bytes]:
    """Dumps of a job that ends, in which nothing but the times of the hosts is recorded."""
    files = stepping(late)
    for path, dump in files.items():
        if isinstance(dump, bytes):
            whole = pickle.loads(dump)
            for row in whole["entries"]:
                row.pop("duration_ms", None)
                row.update(profiling_name=f"{name}:all_reduce", time_discovered_completed_ns=None, **fields)
            files[path] = pickle.dumps(whole, protocol=2)
    return files


@pytest.mark.parametrize("name", ["gloo", "xyz"])
def test_hosts_run_ahead_only_of_devices(name: str) -> None:
    """A backend whose calls are merely retired has none, and its name does not matter."""
    ruling = read(issued({2: 0.6}, name, state="scheduled", retired=True))
    assert (ruling.cause, ruling.ranks) == ("straggler", "2"), str(ruling)
    assert not any("hosts run ahead" in doubt for doubt in ruling.verdict["doubts"])
    device = read(issued({2: 0.6}, "nccl", state="completed", retired=True))
    assert any("hosts run ahead" in doubt for doubt in device.verdict["doubts"]), str(device)


@pytest.mark.parametrize("late", [{}, {2: 0.002}, {2: 0.05}, {2: 0.4, 3: 0.4}, {1: 0.3, 2: 0.4, 3: 0.5}])
def test_a_little_late_or_half_of_the_ranks_late_is_nobodys_fault(late: dict[int, float]) -> None:
    ruling = read(stepping(late))
    assert (ruling.cause, ruling.ranks) == ("none", ""), str(ruling)


def test_a_straggler_is_not_the_cause_of_what_others_complain_of() -> None:
    files = stepping({2: 0.6})
    files["log/rank_1.log"] = watchdog(1, 21) + "".join(watchdog(r, 21) for r in (2, 3))
    ruling = read(files)
    assert ruling.cause != "straggler", str(ruling)


# ---- work that ends after the others gave up


def merged(told: str, ran_ms: int = 60_012) -> dict[str, str | bytes]:
    """One log of four ranks: ranks 1-3 gave up after 60 s, rank 0 was doing something else. Its lines have no prefix."""
    gave_up = "".join(
        f"[rank{r}]:[E202 03:20:0{r}.050510987 ProcessGroupNCCL.cpp:632] {caught(r, 9, limit_ms=60_000, ran_ms=ran_ms)}\n"
        for r in (1, 2, 3)
    )
    ready = "[rank0]: 2026-02-02 03:18:00,000 INFO node0 process groups ready world_size=4\n"
    return {"train.log": ready + gave_up + told}


@pytest.mark.parametrize(
    ("told", "is_late"),
    [
        ("Saved checkpoint to /data/step_500 in 72.4 s\n", True),
        ("Validation took 2 min 3 s\n", True),
        ("Saved checkpoint to /data/step_500\n", False),
        ("Saving checkpoint to /data/step_500\n", False),
        ("", False),
    ],
)
def test_a_line_without_a_rank_is_of_the_only_rank_that_did_not_wait(told: str, is_late: bool) -> None:
    ruling = read(merged(told))
    assert (ruling.cause == "straggler", ruling.ranks) == (is_late, "0"), str(ruling)


# ---- an order of two hosts


def on_two_hosts(ahead: int, seconds: int, steps: int = 1, peers: bool = False) -> dict[str, str | bytes]:
    """Ranks 0-2 gave up at 03:20:00. Rank 3, on another host, printed a step some seconds after that, by its clock.

    ``ahead`` says how wrong that clock is; with ``peers``, rank 2 is on that host too.
    """
    step = "[rank{r}]: 2026-02-02 {at},600 | INFO | trainer | step {n}/500 | loss 3.0\n"
    out = {}
    for rank in range(4):
        late = ahead if rank == 3 or (peers and rank == 2) else 0
        text = "".join(step.format(r=rank, at=f"03:0{n}:{10 + late}", n=n) for n in range(steps))
        if rank == 3:
            text += step.format(r=3, at=f"03:{20 + seconds // 60}:{seconds % 60:02d}", n=9)
        else:
            text += watchdog(rank, 9, at=f"E202 03:20:{late:02d}.050510987")
        out[f"node{int(late > 0)}/rank_{rank}.log"] = text
    return out


@pytest.mark.parametrize(
    ("ahead", "seconds", "steps", "peers", "cause", "most"),
    [
        (6, 3, 1, False, "not-arrived", "high"),  # nothing compares the clocks, and they differ by less than they may
        (40, 37, 1, False, "straggler", "low"),
        (40, 170, 1, False, "straggler", "medium"),
        (6, 3, 5, False, "not-arrived", "high"),  # the steps say that its clock is ahead
        (6, 3, 1, True, "not-arrived", "high"),  # a rank of its own host gave up later
        (6, 40, 1, True, "straggler", "high"),
        (6, 60, 5, False, "straggler", "high"),
    ],
)
def test_clocks_of_two_hosts_show_an_order_only_where_they_are_compared(
    ahead: int, seconds: int, steps: int, peers: bool, cause: str, most: str
) -> None:
    ruling = read(on_two_hosts(ahead, seconds, steps, peers))
    assert (ruling.cause, ruling.ranks) == (cause, "3"), str(ruling)
    assert ruling.verdict["confidence_in"]["class"] == most or cause == "not-arrived"
