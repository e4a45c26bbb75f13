"""Jobs without a culprit in the program: healthy ones, slow ones, and the ones nobody can judge."""

from __future__ import annotations

from simulator.faults.scenarios import Fault, Stage, scenario
from simulator.program import Busy, Say, Stuck


@scenario("none", "nothing is wrong", restarted=False)
def healthy(stage: Stage) -> Fault:
    return Fault(hang=False)


@scenario(
    "none",
    "nothing is wrong, but the program complains at its end",
    noise=20,
    evidence=("log", "fr+log"),
    restarted=False,
)
def healthy_scary(stage: Stage) -> Fault:
    return Fault(hang=False, traits={"scary": True})


@scenario(
    "none", "dumps taken by hand while the job runs on", evidence=("fr", "fr+log"), recorder_on=True, restarted=False
)
def snapshot(stage: Stage) -> Fault:
    return Fault(hang=False, traits={"snapshot": True})


@scenario("straggler", "the device of one rank is slow; the job ends well", beat_every=(1, 0))
def slow_device(stage: Stage) -> Fault:
    rank = stage.someone()
    return Fault(culprits=(rank,), hang=False, slow={rank: 6.0}, traits={"snapshot": True})


@scenario(
    "straggler",
    "rank 0 writes longer than the limit, then comes",
    at_checkpoint=True,
    era=("2.6", "2.7", "2.9", "2.13"),
)
def late_checkpoint(stage: Stage) -> Fault:
    knobs = stage.job.knobs
    seconds = knobs.timeout_ms / 1000 + stage.rng.uniform(15, 40)
    position = next(k for k, i in enumerate(stage.step(0)) if isinstance(i, Busy) and i.doing == "save")
    steps = stage.step(0)
    wrote = Say(knobs.step, f"checkpoint of step {knobs.step} written in {seconds:.1f} s")
    stage.replace_step(0, [*steps[:position], Busy(seconds, "save"), wrote, *steps[position + 1 :]])
    return Fault(culprits=(0,), classes=("not-arrived",), traits={"late": True})


@scenario(
    "undetermined", "only the log of one waiting rank was kept", evidence="log", files="per_rank", launcher="torchrun"
)
def one_victim(stage: Stage) -> Fault:
    return _only(stage)


@scenario("undetermined", "only the dump of one waiting rank was kept", evidence="fr", recorder_on=True, dump_on=True)
def one_dump(stage: Stage) -> Fault:
    return _only(stage)


def _only(stage: Stage) -> Fault:
    rank = stage.someone()
    stage.cut(rank, stage.rng.choice(stage.issues(rank)), Stuck("step", "stopped"))
    return Fault(culprits=(rank,), traits={"only": True})
