"""Names the files that would settle an open verdict, and the commands that gather them.

Nothing is asked for that cannot exist: PyTorch dumps its flight recorders only where a watchdog of NCCL fires.
"""

from __future__ import annotations

import shlex
from fnmatch import fnmatch
from pathlib import PurePosixPath

from msgspec.structs import replace

from nccldoctor.events import CallTimeout, DumpSignal, HeartbeatStuck, Note, Setting
from nccldoctor.model import Family, Finding, SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.steps import JobState, Step, StepKind
from nccldoctor.prescribe.catalogue.words import as_text
from nccldoctor.prescribe.conditions.environment import version_tuple
from nccldoctor.prescribe.conditions.findings import has_unknown_end
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.prescribe.remote_commands import is_this_machine
from nccldoctor.prescribe.under_capture import another_look, is_captured
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.sentences import sentence
from nccldoctor.words.stack_tools import PYTHON_STACKS

_HOSTS = 16
DUMPS = "/tmp/nccl_trace_rank_"
"""Where PyTorch writes the dump of a rank, its number behind it, unless a variable names another place (FlightRecorder.hpp of 2.9.1)."""
DUMP_SETTINGS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def files_to_collect(finding: Finding, survey: Survey, state: JobState) -> tuple[Step, ...]:
    """The logs, dumps and stacks that the input lacks, in the order of their worth. Dumps come first where those of some ranks are there.

    Stacks are asked for only while a job may still run: afterwards nobody can take them. They come first where it does, and where
    nobody complained and ``nccldoctor live`` brings the rest as well. Where a look found no tool for them, that tool comes before all.
    """
    case = survey.case
    world = Ranks(range(case.world_size)) if case.world_size else Ranks()
    dumped = Ranks(rank for rank in case.dump_rank if rank is not None)
    steps = []
    if not world or world - survey.facts.liveness.log_read:
        steps.append(_logs(survey, world - survey.facts.liveness.log_read))
    lacking = (world or Ranks(range(max(dumped, default=-1) + 1))) - dumped
    is_of_torch = bool(dumped) or _is_of_torch(survey)
    if (not world or lacking) and is_of_torch and can_have_dumps(finding, survey, state):
        steps.insert(0 if dumped and lacking else len(steps), _dumps(survey, lacking))
    if state is not JobState.ENDED and (not world or world - Ranks(survey.stacks)):
        live = live_command(survey)
        missing = list(another_look(finding, survey)) if is_captured(survey) else []
        if not missing and not is_captured(survey):
            missing = [_look_by(live, survey, state) if live else _stacks(survey, world - Ranks(survey.stacks))]
        is_first = state is JobState.RUNNING or (live and not any(event.is_complaint for event in case.events))
        place = 0 if is_first else len(steps)
        steps[place:place] = missing
    why = next((gap.why for gap in case.gaps if gap.what.startswith(PYTHON_STACKS)), "")
    if state is not JobState.ENDED and why:
        steps.insert(0, _PY_SPY if "py-spy" in why else Step(_PY_SPY.kind, "Let the look read stacks.", sentence(why)))
    return tuple(steps)


def logs_of_culprits(finding: Finding, survey: Survey) -> tuple[Step, ...]:
    """The logs of culprits that were not read; a killed process had no time for a last word."""
    liveness = survey.facts.liveness
    missing = Ranks(
        r for r in finding.ranks - liveness.log_read if all(e.signal != "SIGKILL" for e in liveness.activity(r).exits)
    )
    return (_logs(survey, missing),) if missing else ()


def exits_of_culprits(finding: Finding, survey: Survey) -> tuple[Step, ...]:
    """How the processes of silent ranks ended, by what started them; nothing where that is known."""
    if not has_unknown_end(finding, survey):
        return ()
    who = ranks_phrase(finding.ranks, 4)
    launcher = survey.launcher
    if launcher == "slurm":
        job = survey.case.job_id or "JOBID"
        command = f"sacct -j {shlex.quote(job)} -o JobID,State,ExitCode,NodeList > sacct.txt"
        return (Step(StepKind.SEND, f"Ask Slurm how {who} ended.", "Its steps show exit codes and signals.", command),)
    if launcher == "kubernetes":
        command = f"for p in {_pod_words(survey)}; do kubectl describe pod $p > $p.txt; done"
        return (Step(StepKind.SEND, f"Ask Kubernetes how {who} ended.", "Last State shows exit codes.", command),)
    detail = f"It shows whether {who} exited, was killed or still ran, by exit codes and the line `Sending process … closing signal`."
    return (Step(StepKind.SEND, "Collect the launcher's own output, such as torchrun's.", detail),)


def then_analyze(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps; the last that collects files says to analyze them."""
    last = max((number for number, step in enumerate(steps) if step.kind is StepKind.SEND), default=-1)
    return tuple(
        replace(step, text=f"{step.text.rstrip('.')}, and run `nccldoctor analyze` again.") if number == last else step
        for number, step in enumerate(steps)
    )


def can_have_dumps(finding: Finding, survey: Survey, state: JobState) -> bool:
    """False where no watchdog of NCCL can have dumped the calls of this job.

    It dumps when a call, or its own heartbeat, times out. A job that never came up made no call, and an error, a kill or a stop ends a
    job before any timeout. A log says where the recorder is off.
    """
    version = version_tuple(survey.case.torch) if survey.case.torch else None
    is_off = any(note.what == "recorder-off" for note in survey.events_of(Note))
    if is_off or (version is not None and version < (2, 2, 0)) or "nccl" not in survey.met_needs:
        return False
    if any(survey.events_of(kind) for kind in (DumpSignal, HeartbeatStuck)):
        return True
    if finding.family in (Family.SETUP, Family.NONE):
        return False
    return has_timed_out(survey) or state is JobState.UNKNOWN or any(rank is not None for rank in survey.case.dump_rank)


def has_timed_out(survey: Survey) -> bool:
    """True where a rank's timeout on a call is on record."""
    return bool(survey.case.events.of_kind(CallTimeout))


_PY_SPY = Step(
    StepKind.CHECK,
    "Install py-spy where the ranks run.",
    "The look found no tool there that shows Python stacks, and they show which rank its peers wait for.",
    "pip install py-spy",
)


def _missing_ranks(missing: Ranks) -> str:
    return ranks_phrase(missing, 5) if missing else "all ranks"


def _logs(survey: Survey, missing: Ranks) -> Step:
    launcher, case = survey.launcher, survey.case
    if launcher == "kubernetes":
        command = f"mkdir -p logs; for p in {_pod_words(survey)}; do kubectl logs $p > logs/$p.log; done"
    elif launcher == "slurm":
        job = shlex.quote(case.job_id) if case.job_id else ""
        given = [PurePosixPath(source.path).name for source in case.sources if source.kind is SourceKind.LOG]
        is_named_so = not job or not given or any(fnmatch(name, f"slurm-{job}*.out") for name in given)
        command = f"mkdir -p logs; cp slurm-{job}*.out logs/" if is_named_so else f"scontrol show job {job} | grep Std"
    elif launcher == "ray":
        copied = f'for h in {_host_words(survey)}; do scp -r "$h:/tmp/ray/session_latest/logs" logs/$h; done'
        command = f"mkdir -p logs; {copied}"
    elif not _is_of_torch(survey):
        command = None
    else:
        copied = f'for h in {_host_words(survey)}; do scp -r "$h:$TORCHRUN_LOG_DIR" logs/$h; done'
        if _is_here(survey):
            copied = 'cp -r "$TORCHRUN_LOG_DIR" logs/'
        command = f"TORCHRUN_LOG_DIR=/path/to/logs; mkdir -p logs; {copied}"
    detail = "A rank that hangs often logs nothing itself; its last line shows when it stopped."
    return Step(StepKind.SEND, f"Collect the logs of {_missing_ranks(missing)}.", detail, command)


def _dumps(survey: Survey, missing: Ranks) -> Step:
    """The flight recorder's dumps, from where a variable in the input says that they are."""
    named = next(
        (e.value for e in survey.events_of(Setting) if e.name in DUMP_SETTINGS and e.value and "$" not in e.value),
        DUMPS,
    )
    detail = (
        f"On NCCL, PyTorch writes them on timeout, here to {named}0 for rank 0, and so on."
        if named != DUMPS
        else f"On NCCL, PyTorch writes them on timeout, by default to {named}0 for rank 0, and so on, on every host."
    )
    if is_captured(survey) and named != DUMPS:
        named = named.rpartition("/")[0] + "/"
        detail = f"Capture has them in {named}: fr_trace_0 or nccl_trace_rank_0 for rank 0, and so on."
    at = shlex.quote(named)
    if survey.launcher == "kubernetes":
        copied = f"for p in {_pod_words(survey)}; do kubectl exec $p -- sh -c 'tar c {at}*' | tar x -C dumps/; done"
    elif _is_here(survey):
        copied = f"cp {at}* dumps/"
    else:
        copied = f'for h in {_host_words(survey)}; do scp "$h:{at}*" dumps/; done'
    text = f"Collect the flight recorder dumps of {_missing_ranks(missing)}."
    return Step(StepKind.SEND, text, detail, f"mkdir -p dumps; {copied}")


def live_command(survey: Survey) -> str:
    """The command that looks at a job of Slurm, or of one host. Empty for pods, and for several hosts without Slurm."""
    launcher, job = survey.launcher, survey.case.job_id
    if launcher == "slurm" and job:
        return look_at_slurm(job)
    is_one_host = len(survey.hosts_of(survey.case.rank_host)) < 2
    return LOOK_HERE if launcher == "ssh" and is_one_host and _is_of_torch(survey) else ""


def _is_of_torch(survey: Survey) -> bool:
    """True unless the text is another framework's, or no process of a job wrote it."""
    own = (event for event in survey.case.events if event.written_by in ("rank", "launcher"))
    is_told = any(not (isinstance(event, Note) and event.what == "pod-pending") for event in own)
    return is_told and not survey.backends & {"jax", "horovod"}


LOOK_HERE = "nccldoctor live --pid all --twice 10"
"""The command that looks at a job of the machine that it is typed on."""


def look_at_slurm(job: str) -> str:
    """The command that looks at a job of Slurm, on each of its nodes."""
    return f"nccldoctor live --slurm {shlex.quote(job)} --twice 10"


def _look_by(command: str, survey: Survey, state: JobState) -> Step:
    """To look at a job that may still run, where one command does it."""
    hosts = survey.hosts_of(survey.case.rank_host)
    where = "" if "--pid" not in command else f" on {as_text(hosts[0])}" if hosts else " on its host"
    text = f"{'Look' if state is JobState.RUNNING else 'If it still runs, look'} at all its processes{where}."
    detail = f"It takes their stacks, logs and dumps twice, and analyzes them. {PY_SPY_RIGHTS}"
    if "--pid" in command and not hosts:
        detail += " For several hosts name them with --ssh FILE."
    return Step(StepKind.CHECK, text, detail, command, hosts[0] if where and hosts else None)


def _stacks(survey: Survey, missing: Ranks) -> Step:
    detail = f"Take them while the job hangs, twice, 10 s apart. {PY_SPY_RIGHTS}"
    inner = "for p in $(pgrep -f python); do py-spy dump --pid $p; done"
    if survey.launcher == "kubernetes":
        taken = f"for p in {_pod_words(survey)}; do kubectl exec $p -- sh -c '{inner}' > stacks/$p.txt; done"
    elif _is_here(survey):
        taken = f"{inner} > stacks/all.txt"
    else:
        taken = f"for h in {_host_words(survey)}; do ssh $h '{inner}' > stacks/$h.txt; done"
    text = f"Collect the stacks of {_missing_ranks(missing)}."
    return Step(StepKind.SEND, text, detail, f"mkdir -p stacks; {taken}")


PY_SPY_RIGHTS = "py-spy needs sudo or, in a container, SYS_PTRACE."
"""What to do where the kernel refuses: it attaches to a process that is not its child."""


def _host_words(survey: Survey) -> str:
    """The known hosts as words of a shell loop.

    Where none, or too many, are known, Slurm names them, else they are plain words to replace.
    """
    names = survey.hosts_of(survey.case.rank_host)
    if 0 < len(names) <= _HOSTS:
        return " ".join(map(shlex.quote, names))
    if survey.launcher == "slurm" and (job := survey.case.job_id):
        return f'$(scontrol show hostnames "$(sacct -nPX -j {shlex.quote(job)} -o NodeList)")'
    return "HOST_0 HOST_1"


def _is_here(survey: Survey) -> bool:
    """True where all known hosts are the machine that this runs on."""
    hosts = survey.hosts_of(survey.case.rank_host)
    return bool(hosts) and all(map(is_this_machine, hosts))


def _pod_words(survey: Survey) -> str:
    """The known pods as words of a shell loop; plain words to replace where none, or too many, are known."""
    names = sorted(survey.case.pods.nodes)
    return " ".join(map(shlex.quote, names)) if 0 < len(names) <= _HOSTS else "POD_0 POD_1"
