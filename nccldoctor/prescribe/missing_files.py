"""Names the files that would settle an open verdict, and the commands that gather them."""

from __future__ import annotations

import shlex

from nccldoctor.events import ProcessExit, SchedulerEvent, Setting
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.steps import JobState, Step, StepKind
from nccldoctor.prescribe.conditions.environment import version_tuple
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.words.names import ranks_phrase

_HOSTS = 16
DUMPS = "/tmp/nccl_trace_rank_"
"""Where PyTorch writes the dump of a rank, its number behind it, unless a variable names another place (FlightRecorder.hpp of 2.9.1)."""
DUMP_SETTINGS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_FIRST_RECORDER = (2, 2, 0)


def files_to_send(survey: Survey, state: JobState) -> tuple[Step, ...]:
    """The logs, dumps and stacks that the input lacks, in the order of their worth.

    Stacks are asked for only while a job may still run, and first where it does: afterwards nobody can take them.
    """
    case = survey.case
    world = Ranks(range(case.world_size)) if case.world_size else Ranks()
    dumped = Ranks(rank for rank in case.dump_rank if rank is not None)
    version = version_tuple(case.torch) if case.torch else None
    steps = []
    if not world or world - survey.logged:
        steps.append(_logs(survey, world - survey.logged))
    if (not world or world - dumped) and (version is None or version >= _FIRST_RECORDER):
        steps.append(_dumps(survey, world - dumped))
    if state is not JobState.ENDED and (not world or world - Ranks(survey.stacks)):
        steps.insert(0 if state is JobState.RUNNING else len(steps), _stacks(survey, world - Ranks(survey.stacks)))
    return tuple(steps)


def _missing_ranks(missing: Ranks) -> str:
    return ranks_phrase(missing, 5) if missing else "all ranks"


def _logs(survey: Survey, missing: Ranks) -> Step:
    detail = "A rank that hangs often logs nothing itself; its last line still dates the silence."
    folder = "logs/"
    launcher = _launcher(survey)
    if launcher == "kubernetes":
        command = f"for p in <each pod>; do kubectl logs $p > {folder}$p.log; done"
    elif launcher == "slurm":
        command = "nccldoctor analyze slurm-*.out logs/"
    else:
        command = f"for h in {_host_words(survey)}; do scp -r $h:<folder of torchrun --log-dir> {folder}$h; done"
    return Step(StepKind.SEND, f"Send the logs of {_missing_ranks(missing)}.", detail, command)


def _dumps(survey: Survey, missing: Ranks) -> Step:
    """The flight recorder's dumps, from where a variable in the input says that they are."""
    named = next(
        (e.value for e in survey.events_of(Setting) if e.name in DUMP_SETTINGS and e.value and "$" not in e.value),
        DUMPS,
    )
    detail = (
        f"PyTorch writes them on timeout, here to {named}<rank>."
        if named != DUMPS
        else (f"PyTorch writes them on timeout, by default to {named}<rank> on every host.")
    )
    at = shlex.quote(named)
    if _launcher(survey) == "kubernetes":
        command = f"for p in <each pod>; do kubectl exec $p -- sh -c 'tar c {at}*' | tar x -C dumps/; done"
    else:
        command = f'for h in {_host_words(survey)}; do scp "$h:{at}*" dumps/; done'
    return Step(StepKind.SEND, f"Send the flight recorder dumps of {_missing_ranks(missing)}.", detail, command)


def _stacks(survey: Survey, missing: Ranks) -> Step:
    detail = "Take them while the job hangs, twice, 10 s apart."
    inner = "for p in $(pgrep -f <training script>); do py-spy dump --pid $p; done"
    if _launcher(survey) == "kubernetes":
        command = f"for p in <each pod>; do kubectl exec $p -- sh -c '{inner}' > stacks-$p.txt; done"
    else:
        command = f"for h in {_host_words(survey)}; do ssh $h '{inner}' > stacks-$h.txt; done"
    return Step(StepKind.SEND, f"Send the stacks of {_missing_ranks(missing)}.", detail, command)


def _host_words(survey: Survey) -> str:
    """The known hosts as words of a shell loop; a blank where none, or too many, are known."""
    case = survey.case
    names = sorted({case.pods.place(host) for host in case.rank_host.values()})
    return " ".join(map(shlex.quote, names)) if 0 < len(names) <= _HOSTS else "<each host>"


def _launcher(survey: Survey) -> str:
    """What started the job, as far as its own lines show: slurm, kubernetes, or ssh for anything else."""
    if survey.case.pods.nodes or any(e.reporter == "kubernetes" for e in survey.events_of(ProcessExit)):
        return "kubernetes"
    names = {setting.name for setting in survey.events_of(Setting)}
    by_srun = any(e.reporter == "srun" for e in survey.events_of(ProcessExit))
    is_slurm = by_srun or bool(survey.events_of(SchedulerEvent)) or any(name.startswith("SLURM_") for name in names)
    return "slurm" if is_slurm else "ssh"
