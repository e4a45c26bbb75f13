"""Writes commands as they are typed elsewhere: by ssh on a host, by kubectl in a pod. Each works when it is pasted.

A command for the machine that nccldoctor runs on is typed as it is: many machines let nobody in by ssh.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Mapping, Sequence

from msgspec import Struct

from nccldoctor.events import ProcessExit
from nccldoctor.model import Finding
from nccldoctor.model.hosts import short_host
from nccldoctor.prescribe.catalogue.words import fill_command
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.prescribe.values import probable_host
from nccldoctor.words.names import ranks_phrase

_PID = re.compile(r"\{\{\s*pid\s*\}\}")
_MPI = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_VARIABLES = {
    "horovod": ("HOROVOD_RANK", *_MPI),
    "oneccl": ("RANK", *_MPI),
    "jax": ("SLURM_PROCID", *_MPI, "JOB_COMPLETION_INDEX"),
    "torchrun": ("RANK",),
    "mpirun": ("RANK", *_MPI),
    "slurm": ("RANK", "SLURM_PROCID"),
}
"""Where launchers put a rank, by the library or the launcher that tells: the first that a process has counts."""
_RANKS, _PLACES = 8, 4
"""Ranks and hosts that one command is for at most."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1"})
"""What torchrun prints of a node without a name: nobody reaches it by that from elsewhere."""


def is_this_machine(host: str | None) -> bool:
    """True of the name of the machine that this runs on."""
    return host is not None and short_host(host) == short_host(socket.gethostname())


def quoted_for_shell(command: str) -> str:
    """A command as one word of the shell.

    It stands in double quotes where it has single quotes and nothing that double quotes would change.
    """
    is_plain = "'" in command and not any(sign in command for sign in '"$`\\!')
    return f'"{command}"' if is_plain else shlex.quote(command)


def on_host(
    command: str, place: str, finding: Finding, survey: Survey, values: Mapping[str, str]
) -> tuple[str, str | None]:
    """The command as it is typed elsewhere, for all culprits, and the hosts.

    ``ssh node0 'py-spy dump --pid 17081'``, or by kubectl into a pod. ``place`` is the placeholder of the host: ``host`` or
    ``waiting_host``. A process on an unknown host is sought on all hosts of the job.
    """
    scene, known = _Scene(finding, survey, values), values.get(place, "")
    if place == "host" and _PID.search(command):
        return scene.at_processes(command)
    inner = scene.typed(command)
    hosts = values.get("hosts", "").split(", ")[:_PLACES] if place == "host" and known else [known]
    sought = scene.culprits if place == "host" and not known else ()
    names = dict.fromkeys(survey.case.rank_host[rank] for rank in sought if rank in survey.case.rank_host)
    pods = [pod for pod in names if survey.case.pods.machine(pod) is None][:_PLACES]
    if pods:
        return _by_ssh([scene.ask(pod, ".status.hostIP") for pod in pods], inner), None
    if all(map(_is_here, hosts)):
        return inner, ", ".join(hosts)
    return _by_ssh(list(map(scene.word, hosts)), inner), ", ".join(hosts) or None


def on_spot(command: str, finding: Finding, survey: Survey, values: Mapping[str, str]) -> str:
    """The command with its values, for the processes of all culprits."""
    scene = _Scene(finding, survey, values)
    return scene.for_processes(command, scene.culprits)


def take_out(hosts: Sequence[str], pods: Sequence[str], finding: Finding, survey: Survey) -> str | None:
    """The command that takes nodes out of service: of Slurm or of Kubernetes, None where neither ran the job.

    Of a pod whose node no line names, the command finds it.
    """
    nodes = [shlex.quote(host) for host in hosts if not host.startswith("-")]
    if survey.launcher == "slurm" and nodes and not any("." in short_host(host) or ":" in host for host in hosts):
        whose = f", {ranks_phrase(finding.ranks, 4)}" if finding.ranks else ""
        return f'scontrol update nodename={",".join(nodes)} state=drain reason="nccldoctor: {finding.cause}{whose}"'
    nodes += [_Scene(finding, survey, {}).ask(pod, ".spec.nodeName") for pod in pods[:_PLACES]]
    return f"kubectl cordon {' '.join(nodes)}" if survey.launcher == "kubernetes" and nodes else None


class _Scene(Struct, frozen=True):
    """What the commands for one finding are written from; ``values`` are those of the placeholders."""

    finding: Finding
    survey: Survey
    values: Mapping[str, str]

    @property
    def culprits(self) -> tuple[int, ...]:
        return tuple(self.finding.blamed)[:_RANKS]

    def typed(self, command: str, **more: str) -> str:
        whose = f"rank {self.culprits[0]}" if self.culprits else ""
        return fill_command(command, {**self.values, **more}, whose)[0]

    def word(self, host: str) -> str:
        """A name as a word of the shell; ``HOST_OF_RANK_4`` where it is not known, or would be an option."""
        return self.typed("{{ host }}", host=host)

    def ask(self, pod: str, field: str) -> str:
        """A word of the shell that asks Kubernetes on which node a pod runs."""
        return f'"$(kubectl get pod {self.word(pod)} -o jsonpath={{{field}}})"'

    def at_processes(self, command: str) -> tuple[str, str | None]:
        """The command at the processes of all culprits, host by host and pod by pod."""
        ranks, case, said = self.culprits, self.survey.case, []
        by_place: dict[str, list[int]] = {}
        for rank in ranks:
            name = case.rank_host.get(rank) or probable_host(rank, self.survey) or ""
            name = name if case.pods.is_pod(name) else case.pods.place(name)
            by_place.setdefault(name or (self.values.get("host", "") if len(ranks) == 1 else ""), []).append(rank)
        unplaced = by_place.pop("", None if ranks else [])
        for place in list(by_place)[:_PLACES]:
            inner, word = self.for_processes(command, by_place[place]), self.word(place)
            in_pod = f"kubectl exec {word} -- sh -c {quoted_for_shell(inner)}"
            said.append(in_pod if case.pods.is_pod(place) else inner if _is_here(place) else _by_ssh([word], inner))
        said += [self.sought(command, unplaced)] if unplaced is not None else []
        return "; ".join(said), ", ".join(list(by_place)[:_PLACES]) or None

    def sought(self, command: str, ranks: Sequence[int]) -> str:
        """The command at processes of which no line tells the host: on all known hosts of the job."""
        case, job = self.survey.case, self.survey.case.job_id
        hosts = self.survey.hosts_of(case.rank_host)
        if ranks and job is not None and self.survey.launcher == "slurm":
            once = f"srun --overlap --jobid={shlex.quote(job)} --ntasks-per-node=1"
            return f"{once} sh -c {quoted_for_shell(self.for_each(command, ranks))}"
        if ranks and 1 < len(hosts) <= 2 * _RANKS and not any(map(case.pods.is_pod, hosts)):
            return _by_ssh(list(map(self.word, hosts)), self.for_each(command, ranks))
        return _by_ssh([self.word("")], self.for_processes(command, ranks))

    def for_processes(self, command: str, ranks: Sequence[int]) -> str:
        """The command with the processes of these ranks, found by their environment where no number is known."""
        known = self.survey.case.rank_pid
        pids = [str(known[rank]) for rank in ranks if rank in known] if self.values.get("pid") else []
        if not ranks or not _PID.search(command) or len(pids) == len(ranks) == 1:
            return self.typed(command, **({"pid": pids[0]} if pids else {}))
        if len(pids) == len(ranks):
            return f"for p in {' '.join(pids)}; do {self.typed(_PID.sub('$p', command))}; done"
        if len(ranks) == 1:
            return f"p=$({self.finder(str(ranks[0]))}); {self.typed(_PID.sub('$p', command))}"
        return self.for_each(command, ranks)

    def for_each(self, command: str, ranks: Sequence[int]) -> str:
        """The command at those of these ranks that run where it is typed."""
        each = f'p=$({self.finder("$r")}); if [ "$p" ]; then {self.typed(_PID.sub("$p", command))}; fi'
        return f"for r in {' '.join(map(str, ranks))}; do {each}; done"

    def finder(self, rank: str) -> str:
        """The command that prints the process of a rank. A task of srun or mpirun may be a shell."""
        told = {end.reporter for end in self.survey.events_of(ProcessExit)} | {self.survey.launcher}
        told |= self.survey.backends
        names = next((names for sign, names in _VARIABLES.items() if sign in told), ("RANK",))
        if len(names) == 1:
            return f"grep -slxz {names[0]}={rank} /proc/[0-9]*/environ | cut -d/ -f3 | sort -n | head -1"
        each = f"grep -slxz $v={rank} /proc/[0-9]*/environ | cut -d/ -f3 | sort -n"
        is_python = "readlink /proc/$q/exe | grep -q python"
        return f"for v in {' '.join(names)}; do {each}; done | while read q; do {is_python} && echo $q; done | head -1"


def _is_here(host: str) -> bool:
    return host in _LOOPBACK or is_this_machine(host)


def _by_ssh(hosts: Sequence[str], inner: str) -> str:
    """``ssh node0 uptime``, or a loop over several words for hosts."""
    if len(hosts) == 1:
        return f"ssh {hosts[0]} {quoted_for_shell(inner)}"
    return f"for h in {' '.join(hosts)}; do ssh $h {quoted_for_shell(inner)}; done"
