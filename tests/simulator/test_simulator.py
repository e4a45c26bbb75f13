"""The simulator itself: same seed same bytes, dumps load, truth is consistent with what was written."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from simulator import jobs, knobs
from simulator.discrete_events import Sim
from simulator.program import make_job
from simulator.state import NEVER
from simulator.steps import make_model, programs

ERAS = sorted(knobs.ERAS)
# every dump is there, whole, and in pickle form
WHOLE: dict[str, Any] = {
    "evidence": "fr",
    "era": "2.9",
    "recorder_on": True,
    "dump_on": True,
    "dump_json": False,
    "only_active": False,
    "lost_dumps": (),
    "torn_dumps": (),
}


class Strict(pickle.Unpickler):
    """A dump needs no class and no function to load."""

    def find_class(self, module: str, name: str) -> object:
        raise AssertionError(f"{module}.{name}")


def load(data: str | bytes) -> list | dict:
    assert isinstance(data, bytes)
    if data[:1] == b"{":
        return json.loads(data)
    import io

    return Strict(io.BytesIO(data)).load()


def dumps_of(job: jobs.Job) -> dict[int, list | dict]:
    out = {}
    for name, data in job.files.items():
        folder, _, last = name.partition("/")
        if folder in ("fr", "dumps", "flight_recorder", "traces"):
            rank = int("".join(c for c in last.removesuffix(".json") if c.isdigit()))
            if rank not in job.knobs.torn_dumps:
                out[rank] = load(data)
    return out


def entries(dump: list | dict) -> list[dict]:
    return dump if isinstance(dump, list) else dump.get("entries", [])


@pytest.mark.parametrize("layout", ["ddp", "fsdp", "tpdp", "3d", "ep"])
@pytest.mark.parametrize("batched", [True, False])
def test_a_healthy_program_runs_to_its_end(layout: str, batched: bool) -> None:
    job = make_job(knobs.Knobs(layout=layout, nodes=2, gpus=4, p2p_batched=batched, step=3))
    model = make_model(random.Random(1), job)
    sim = Sim(job, programs(job, model, range(2, 6)), 2).run()

    assert {host.how for host in sim.hosts} == {"done"}
    assert all(work.end < NEVER for host in sim.hosts for work in host.works)


@pytest.mark.parametrize("seed", range(0, 40, 7))
def test_same_seed_same_bytes(seed: int) -> None:
    one, other = jobs.make(seed), jobs.make(seed)

    assert one.truth == other.truth
    assert one.files == other.files


def test_seeds_differ() -> None:
    assert len({json.dumps(jobs.make(seed, scenario="stopped").truth) for seed in range(6)}) == 6


@pytest.mark.parametrize("name", sorted(jobs.SCENARIOS))
def test_every_scenario_plays(name: str) -> None:
    job = jobs.make(11, scenario=name)
    truth = job.truth

    assert job.files
    assert truth["class"] in truth["acceptable_classes"]
    assert set(truth["culprit_ranks"]) <= set(range(truth["world_size"]))
    if truth["hang"] and truth["class"] != "init":
        assert truth["stalled"], "something waits"
        assert truth["stalled"]["seq"] in truth["stalled"]["seqs"]
        assert not set(truth["stalled"]["entered"]) & set(truth["stalled"]["missing"])


@pytest.mark.parametrize("era", ERAS)
def test_dumps_load_and_count_on(era: str) -> None:
    job = jobs.make(
        3, scenario="other_op", era=era, evidence="fr", recorder_on=True, dump_json=False, lost_dumps=(), torn_dumps=()
    )
    loaded = dumps_of(job)

    assert sorted(loaded) == list(range(job.knobs.world))
    assert (era == "2.2") == isinstance(loaded[0], list)
    for dump in loaded.values():
        held = entries(dump)
        assert 0 < len(held) <= job.knobs.ring
        key = "seq_id" if "seq_id" in held[0] else "collective_seq_id"
        in_world = [e[key] for e in held if e["pg_id"] == 0]
        assert in_world == list(range(in_world[0], in_world[0] + len(in_world)))
        if isinstance(dump, dict):
            ids = [e["record_id"] for e in held]
            assert ids == list(range(ids[0], ids[0] + len(ids)))


@pytest.mark.parametrize("seed", range(8))
def test_absent_rank_did_not_record_the_stalled_call(seed: int) -> None:
    job = jobs.make(
        seed,
        scenario="no_data",
        evidence="fr",
        recorder_on=True,
        dump_on=True,
        era="2.9",
        dump_json=False,
        torn_dumps=(),
        lost_dumps=(),
    )
    stalled, loaded = job.truth["stalled"], dumps_of(job)

    def has(rank: int) -> bool:
        return any(
            e["process_group"][0] == stalled["group"] and e["collective_seq_id"] == stalled["seq"] and not e["is_p2p"]
            for e in entries(loaded[rank])
        )

    if stalled["kind"] == "collective":
        assert [rank for rank in stalled["members"] if not has(rank)] == stalled["missing"]
    assert job.truth["determinable"]


@pytest.mark.parametrize("era", ERAS)
def test_watchdog_lines_name_the_stalled_call(era: str) -> None:
    job = jobs.make(
        2,
        scenario="no_data",
        layout="ddp",
        nodes=1,
        gpus=8,
        era=era,
        evidence="log",
        files="merged",
        launcher="torchrun",
        cut=False,
    )
    text = str(job.files["job.log"])
    stalled = job.truth["stalled"]

    assert (
        f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={stalled['seq']}, OpType={stalled['op']},"
        in text
    )
    assert ("[rank" in text) and (("Timeout at NCCL work" in text) == (era in ("2.3", "2.4", "2.5")))
    assert ("failure detected by watchdog" in text) == (knobs.ERAS[era].number >= (2, 6))


def test_the_launcher_kills_what_does_not_answer() -> None:
    job = jobs.make(
        5, scenario="stopped", layout="ddp", nodes=1, gpus=4, launcher="torchrun", files="merged", evidence="log"
    )
    culprit = job.truth["culprit_ranks"][0]

    assert job.truth["exits"][str(culprit)] == -9
    assert {code for rank, code in job.truth["exits"].items() if int(rank) != culprit} <= {-6, -15}


def test_a_tie_names_nobody() -> None:
    for seed in range(4):
        truth = jobs.make(seed, scenario="other_size_tie").truth
        assert truth["culprit_ranks"] == []
        assert len(truth["suspects"]) == 2


def test_a_healthy_job_has_no_exit_but_zero() -> None:
    assert set(jobs.make(1, scenario="healthy").truth["exits"].values()) == {0}


def test_write_puts_every_file_below_the_folder(tmp_path: Path) -> None:
    job = jobs.make(4, evidence="fr+log")
    job.write(tmp_path)

    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()} == set(job.files)


def test_seeds_are_of_the_class() -> None:
    assert all(jobs.make(seed).truth["class"] == "died" for seed in jobs.seeds("died", 3))


def test_a_late_rank_says_so_before_it_is_closed() -> None:
    job = jobs.make(
        1, scenario="late_checkpoint", layout="ddp", nodes=1, gpus=4, files="merged", evidence="log", cut=False
    )
    text = str(job.files["job.log"])

    assert text.index("Watchdog caught") < text.index("written in ")
    assert job.truth["exits"]["0"] in (-15, -9)


def test_the_desync_report_names_who_is_behind() -> None:
    job = jobs.make(
        4,
        scenario="no_data",
        layout="ddp",
        nodes=1,
        gpus=4,
        files="merged",
        evidence="log",
        desync=True,
        era="2.9",
        step=300,
        cut=False,
    )
    seq, culprit = job.truth["stalled"]["seq"], job.truth["culprit_ranks"]

    assert f"{culprit} finished collective #{seq - 1}, but didn't join collective #{seq}" in str(job.files["job.log"])


def test_an_earlier_attempt_has_its_own_folder() -> None:
    job = jobs.make(4, scenario="stopped", files="tree", launcher="torchrun", evidence="log", restarted=True)

    assert any("/attempt_0/1/stderr.log" in name for name in job.files)
    assert any("/attempt_1/" in name for name in job.files)


def test_lost_files_are_not_there_and_torn_ones_do_not_load() -> None:
    job = jobs.make(
        9, scenario="file_lock", layout="ddp", gpus=8, nodes=1, **{**WHOLE, "lost_dumps": (2,), "torn_dumps": (3,)}
    )
    ranks = {int("".join(c for c in name.rpartition("/")[2] if c.isdigit())): data for name, data in job.files.items()}

    assert 2 not in ranks
    with pytest.raises((EOFError, pickle.UnpicklingError)):
        load(ranks[3])


def test_a_recorder_that_is_off_leaves_dumps_without_entries() -> None:
    job = jobs.make(
        3,
        scenario="file_lock",
        era="2.9",
        evidence="fr",
        recorder_on=False,
        dump_on=True,
        dump_json=False,
        torn_dumps=(),
        stacks=0,
    )

    assert [entries(dump) for dump in dumps_of(job).values()] == [[]] * len(dumps_of(job))
    assert not job.truth["determinable"]


def test_members_of_a_batch_never_change_state() -> None:
    job = jobs.make(
        6,
        scenario="healthy",
        layout="3d",
        evidence="fr",
        era="2.9",
        p2p_batched=True,
        recorder_on=True,
        step=50,
        only_active=False,
    )
    job = jobs.make(6, scenario="snapshot", layout="3d", p2p_batched=True, step=50, **WHOLE)
    held = [e for dump in dumps_of(job).values() for e in entries(dump)]
    members, closings = [e for e in held if e["is_p2p"]], [e for e in held if e["profiling_name"] == "nccl:coalesced"]

    assert {e["state"] for e in members} == {"scheduled"}
    assert "completed" in {e["state"] for e in closings}


def test_a_stopped_device_completes_less_than_its_peers() -> None:
    for seed in range(6):
        job = jobs.make(seed, scenario="device_stopped", layout="ddp", **WHOLE)
        done = {
            rank: max(e["collective_seq_id"] for e in entries(dump) if e["state"] == "completed")
            for rank, dump in dumps_of(job).items()
        }
        culprit = job.truth["culprit_ranks"][0]
        assert all(done[culprit] < last for rank, last in done.items() if rank != culprit)


def test_a_broken_link_is_reported_by_both_ends() -> None:
    job = jobs.make(1, scenario="link_down", evidence="log", files="merged", launcher="torchrun", nodes=2, gpus=4)
    text = str(job.files["job.log"])

    assert text.count("NCCL WARN NET/IB") >= 5
    assert "port error" in text


def test_an_order_inversion_is_a_cycle() -> None:
    job = jobs.make(3, scenario="swapped", layout="tpdp", nodes=1, gpus=8, step=200, **WHOLE)
    culprit = job.truth["culprit_ranks"][0]
    order = {
        rank: [e["process_group"][0] == "0" for e in entries(dump) if e["state"] != "completed"][:1]
        for rank, dump in dumps_of(job).items()
    }

    assert all(first != order[culprit] for rank, first in order.items() if rank != culprit)
