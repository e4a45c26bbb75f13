"""Chooses the smallest run that tells apart what an open verdict leaves, and writes it as a script: ``experiments.toml``."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import msgspec

from nccldoctor.align.facts import align
from nccldoctor.events import Note
from nccldoctor.identify.case import Case
from nccldoctor.model import Confidence, Family, Finding
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.prescribe.remote_commands import is_this_machine
from nccldoctor.words.sanitize import line


class Experiment(msgspec.Struct, frozen=True, rename={"class_": "class"}):
    """One row of the table."""

    id: str
    asks: str
    script: str
    how: str = "The command is the one that you start the job with."
    set: str = ""
    class_: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()


_TABLES = tomllib.loads(Path(__file__).with_name("experiments.toml").read_text(encoding="utf-8"))
EXPERIMENTS = msgspec.convert(_TABLES["experiment"], tuple[Experiment, ...])


def settling_script(verdict: Finding, case: Case, folder: Path) -> str:
    """The script of the next experiment; a comment alone where the verdict is sure, or none is left."""
    told = f"{line(verdict.headline, 400)} [{verdict.cause}, confidence {verdict.confidence}]\n"
    if verdict.family is Family.NONE or verdict.confidence is Confidence.HIGH:
        return f"# Nothing to settle: {told}"
    survey = Survey(align(case))
    row = choose(verdict, survey)
    return f"# No other run is left: {told}" if row is None else script_of(row, verdict, survey, folder)


def choose(finding: Finding, survey: Survey) -> Experiment | None:
    """The first experiment that fits and was not made yet; None where none is left."""
    done = {note.detail for note in survey.events_of(Note) if note.what == "settled"}
    made = {detail.partition("-")[0] for detail in done}
    signs = {"several-hosts" if len(_hosts_of_job(survey)) > 1 else "one-host"}
    signs |= ({"host-known"} if _suspect(finding, survey) else set()) | (survey.met_needs & {"nccl"})
    fitting = (row for row in EXPERIMENTS if row.id not in made and row.needs <= signs)
    open_ = (row for row in fitting if not row.class_ or finding.cause in row.class_)
    return next((row for row in open_ if not row.after or row.after & done), None)


def script_of(row: Experiment, finding: Finding, survey: Survey, folder: Path) -> str:
    """The experiment as a script of the shell, which writes its result to ``folder``."""
    hosts, suspect, launch = _hosts_of_job(survey) or ["localhost"], _suspect(finding, survey), _TABLES["launch"]
    is_here = hosts == ["localhost"] or all(map(is_this_machine, hosts))
    meet = f"--rdzv-backend=c10d --rdzv-endpoint={hosts[0]}:29517 --rdzv-id=settle"
    values = msgspec.structs.asdict(row) | {
        "launch": launch["here"] if is_here else launch.get(survey.launcher, launch["ssh"]),
        "each": max(len(survey.case.world) // len(hosts), 1),
        "meet": meet if len(hosts) > 1 else "--standalone",
        "results": shlex.quote(str(folder / f"settle-{row.id}.log")),
        "detail": f" without={suspect}" if row.id == "node" else "",
        "suspect": suspect,
        "backend": "gloo" if survey.backends == {"gloo"} else "nccl",
        "nodes": len(hosts),
        "list": ",".join(hosts),
        "hosts": " ".join(hosts),
    }
    script: str = (_TABLES["scripts"]["head"] + _TABLES["scripts"][row.script]).lstrip()
    for name in ("launch", "asks", "how", *values):  # these hold names themselves
        script = script.replace(f"@{name.upper()}@", str(values[name]))
    return script


def _suspect(finding: Finding, survey: Survey) -> str:
    """The first host of the ranks at fault; "" where none is known."""
    return next(filter(_is_plain, survey.machines_of(finding.blamed)), "")


def _hosts_of_job(survey: Survey) -> list[str]:
    """The hosts of the job, pods by their own names; none where a script can't hold one of the names."""
    case = survey.case
    names = {host if case.pods.is_pod(host) else case.pods.place(host) for host in case.rank_host.values()}
    return sorted(names) if all(map(_is_plain, names)) else []


def _is_plain(name: str) -> bool:
    return name[:1].isalnum() and name.replace("-", "").replace(".", "").isalnum() and name.isascii()
