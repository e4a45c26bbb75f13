"""One adapter for each tool: which command it runs on a job, and how its output is read."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from hangbench.answers import Answer, NoAnswerError, rank_set, read_answer
from hangbench.dumps import content_of, recorder_dumps
from hangbench.jobs import BenchJob
from hangbench.processes import Finished
from nccldoctor.model.ranks import Ranks
from nccldoctor.version import __version__


class Adapter(Protocol):
    """What the benchmark asks of an adapter; :class:`NcclDoctor` is a short example."""

    name: str
    about: str
    """A sentence or two for the page of results: what the tool can say at all, and how its output is read."""

    def version(self) -> str:
        """The version of the tool; empty where it is not installed."""

    def command(self, job: BenchJob, folder: Path, scratch: Path) -> list[str] | None:
        """The command for a job whose files stand in ``folder``; None where it holds no input that the tool can read.

        ``scratch`` is an empty folder for whatever the command needs besides. An adapter looks at ``job.files``, never at its truth.
        """

    def answer(self, finished: Finished) -> Answer | None:
        """The answer that the command printed; None where it says that it has no input that it can read.

        Raises :class:`NoAnswerError` where there is none: the tool crashed.
        """


class NcclDoctor:
    """nccldoctor, by its JSON document."""

    name = "nccldoctor"
    about = (
        "It reads every file of a job and answers with ranks, a class and a confidence. `says_healthy` is its class *none*, "
        "and `suspects` are its suspects."
    )

    def version(self) -> str:
        """The version of the package."""
        return __version__

    def command(self, job: BenchJob, folder: Path, scratch: Path) -> list[str]:
        """``nccldoctor analyze FOLDER --format json``, with the Python that runs the benchmark."""
        return [sys.executable, "-m", "nccldoctor", "analyze", str(folder), "--format", "json"]

    def answer(self, finished: Finished) -> Answer:
        """The verdict of the document."""
        try:
            verdict = json.loads(finished.stdout)["verdict"]
            ranks, suspects = rank_set(verdict["ranks"]), rank_set(verdict["suspects"])
            cause, confidence = verdict["class"], verdict["confidence"]
        except (ValueError, KeyError, TypeError):
            raise NoAnswerError(f"exit code {finished.code}, and no verdict") from None
        return Answer(ranks, suspects - ranks, cause, confidence, cause == "none")


TORCHFRTRACE = """
import os, sys
from torch.distributed.flight_recorder.fr_trace import main
walk = os.walk
by_rank = lambda name: int(name.rpartition("_")[2])
os.walk = lambda top: ((at, folders, sorted(names, key=by_rank)) for at, folders, names in walk(top))
main(sys.argv[1:])
"""
"""torchfrtrace begins with the rank whose file the folder lists first, and file systems differ in that: here it is the lowest rank."""

REPORT = re.compile(
    r"^(?=Not all ranks joining collective|Input/output mismatch in the collective|Collective sequence number: \d+ has errors)",
    re.MULTILINE,
)
MISSING = re.compile(r"^missing ranks: \{([\d, ]+)\}$", re.MULTILINE)
NO_DUMP = re.compile(r"because we missed FR dumps from ranks \(\{([\d, ]+)\}\)")
CULPRIT = re.compile(r"Culprit rank (\d+); Error type: (\w+)")
TRANSFER = re.compile(r"^collective: \w+:(?:send|recv) ", re.MULTILINE)
CAUSES = {
    "COLLECTIVE_TYPE_MISMATCH": "op-mismatch",
    "SIZE_OR_SYNTAX_MISMATCH": "size-mismatch",
    "COLLECTIVE_DTYPE_MISMATCH": "dtype-mismatch",
    "COLLECTIVE_STATE_MISMATCH": "inside",
}
"""Its error types as our classes. Different states of one call that all ranks made are no class, but the family *inside*."""


def _places_of(package: str) -> list[str]:
    """The folders of a package, which is not imported; none where it is not installed."""
    spec = importlib.util.find_spec(package)
    return [] if spec is None else list(spec.submodule_search_locations or [])


class TorchFrTrace:
    """PyTorch's own analyser of recorder dumps, by the text that it prints."""

    name = "torchfrtrace"
    about = (
        "PyTorch's analyser of recorder dumps names ranks that did not join a call, and ranks whose call differs in operation, size, "
        "type or state. It is given the whole pickled dumps of a job in the recorder's format 2.0 and later (PyTorch 2.4); "
        "it can read no older dumps, no JSON dumps, no logs and no stacks. It fails on dumps without process groups (`pg_config`), as "
        "PyTorch writes them for gloo. It knows no death, device or network, states no confidence and gives no "
        "all-clear; where it prints no finding, that counts as *cannot tell*. It runs with `--allow-incomplete-ranks`, on copies of "
        "the dumps under one prefix, in the order of the ranks. Its first report is the answer, because later pairings follow from "
        "the first; ranks of later reports are suspects, and so are ranks whose dumps it misses. *Not all ranks joining* is the family "
        "*absent*, a mismatch the class of its kind, and *unmatched-p2p* for a send or a receive. A report that is printed before a "
        "failure counts."
    )

    def version(self) -> str:
        """The version of PyTorch; empty where it lacks the analyser."""
        if not any(Path(place, "distributed", "flight_recorder").is_dir() for place in _places_of("torch")):
            return ""
        without = (
            "" if importlib.util.find_spec("tabulate") else ", without tabulate, which it needs for grouped transfers"
        )
        return f"of PyTorch {importlib.metadata.version('torch')}{without}"

    def command(self, job: BenchJob, folder: Path, scratch: Path) -> list[str] | None:
        """The analyser on copies of the pickled dumps under one prefix; None where there is none."""
        dumps = {rank: job.files[path] for rank, path in recorder_dumps(job.files).items()}
        dumps = {rank: dump for rank, dump in dumps.items() if self._is_readable(content_of(dump))}
        if not dumps:
            return None
        copies = _copied(dumps, scratch)
        return [sys.executable, "-c", TORCHFRTRACE, "--allow-incomplete-ranks", "-p", PREFIX, str(copies)]

    def _is_readable(self, dump: Mapping[str, Any]) -> bool:
        """True for format 2.0 or later; it fails on any other."""
        return bool(dump) and str(dump.get("version", "0")).partition(".")[0] not in ("0", "1")

    def answer(self, finished: Finished) -> Answer:
        """The first report that it printed, and the ranks of the others."""
        printed = finished.stderr + finished.stdout
        reports = [(self._ranks(report), self._cause(report)) for report in REPORT.split(printed)[1:]]
        unseen = [_listed(found[1]) for found in NO_DUMP.finditer(printed)]
        if reports:
            first, cause = reports[0]
            return Answer(first, _union(*(ranks for ranks, _ in reports), *unseen) - first, cause)
        if finished.code != 0:
            raise _failure(finished)
        has_mismatch = not unseen and re.search(r"^MISMATCH", printed, re.MULTILINE)
        return Answer(suspects=_union(*unseen), cause="unmatched-p2p" if has_mismatch else None)

    def _ranks(self, report: str) -> Ranks:
        missing = MISSING.search(report)
        return _listed(missing[1]) if missing else Ranks(int(rank) for rank, _ in CULPRIT.findall(report))

    def _cause(self, report: str) -> str:
        if report.startswith("Not all"):
            return "absent"
        if report.startswith("Input/output"):
            return "size-mismatch"
        if TRANSFER.search(report):
            return "unmatched-p2p"
        kinds = {kind for _, kind in CULPRIT.findall(report)}
        return next((cause for kind, cause in CAUSES.items() if kind in kinds), "disagree")


def _listed(text: str) -> Ranks:
    return rank_set(text.replace(" ", ""))


def _union(*sets: Ranks) -> Ranks:
    return Ranks(rank for ranks in sets for rank in ranks)


NVRX = """
import glob, runpy, sys
listed = glob.glob
by_rank = lambda name: int(name.rpartition("_")[2])
glob.glob = lambda pattern: sorted(listed(pattern), key=by_rank)
runpy.run_module("nvidia_resiliency_ext.attribution.trace_analyzer.fr_attribution", run_name="__main__", alter_sys=True)
"""
"""NVRx takes the dumps in the order in which the folder lists them, or by name: here it is the order of the ranks."""


class Nvrx:
    """The analyser of recorder dumps in NVIDIA's resiliency extension, without its language model."""

    name = "nvrx"
    about = (
        "The analyser of recorder dumps in NVIDIA's resiliency extension (`attribution.trace_analyzer.fr_attribution`), without the "
        "language model that can be put behind it; it needs no GPU. It prints the process groups in which ranks are missing, and calls "
        "these ranks together the hanging ones: they are the answer, of the family *absent*. It knows no other class, states no "
        "confidence and gives no all-clear; where its table is empty, that counts as *cannot tell*. It is given the whole pickled dumps "
        "of a job that hold the state of each group (`pg_status`, format 2.3 and later, PyTorch 2.5), in the order of the ranks; it "
        "can read no older dumps, no JSON dumps as PyTorch writes them, no logs and no stacks. It fails on dumps without process "
        "groups, and on groups whose names are hashes."
    )

    def version(self) -> str:
        """The version of the package; empty where it lacks the analyser."""
        places = _places_of("nvidia_resiliency_ext")
        if not any(Path(place, "attribution", "trace_analyzer", "fr_attribution.py").is_file() for place in places):
            return ""
        return f"of nvidia-resiliency-ext {importlib.metadata.version('nvidia-resiliency-ext')}"

    def command(self, job: BenchJob, folder: Path, scratch: Path) -> list[str] | None:
        """The analyser on copies of the dumps under one prefix; None where there is none."""
        dumps = {rank: job.files[path] for rank, path in recorder_dumps(job.files).items()}
        dumps = {rank: dump for rank, dump in dumps.items() if "pg_status" in content_of(dump)}
        if not dumps:
            return None
        copies = _copied(dumps, scratch)
        return [sys.executable, "-c", NVRX, "--emit-stdout", "--fr-path", str(copies), "-p", f"{PREFIX}*"]

    def answer(self, finished: Finished) -> Answer:
        """The missing ranks of all groups in its table."""
        if finished.code != 0:
            raise _failure(finished)
        rows = [line.split("|") for line in finished.stdout.splitlines() if line.count("|") == 5]
        missing = _union(*(_listed(row[-1]) for row in rows if row[0].strip() != "PGID"))
        return Answer(missing, cause="absent" if missing else None)


PREFIX = "nccl_trace_rank_"


def _copied(dumps: Mapping[int, bytes], scratch: Path) -> Path:
    """A folder with the dumps under :data:`PREFIX`, and nothing else."""
    copies = scratch / "dumps"
    copies.mkdir()
    for rank, dump in dumps.items():
        (copies / f"{PREFIX}{rank}").write_bytes(dump)
    return copies


def _failure(finished: Finished) -> NoAnswerError:
    last = (finished.stderr.strip().splitlines() or ["nothing printed"])[-1]
    return NoAnswerError(f"exit code {finished.code}: {last[:160]}")


class PrintsJson:
    """Any command that prints its answer as JSON; ``{folder}`` in it stands for the folder of the job."""

    about = "A command that prints its answer as JSON."

    def __init__(self, command: str) -> None:
        self.parts = shlex.split(command)
        self.name = Path(self.parts[0]).name if self.parts else ""

    def version(self) -> str:
        """Unknown: the command itself stands on the page."""
        return f"`{shlex.join(self.parts)}`"

    def command(self, job: BenchJob, folder: Path, scratch: Path) -> list[str]:
        """The command with the folder put in; no shell sees it."""
        return [part.replace("{folder}", str(folder)) for part in self.parts]

    def answer(self, finished: Finished) -> Answer | None:
        """The JSON on stdout, whatever the exit code."""
        try:
            return read_answer(finished.stdout)
        except NoAnswerError as error:
            raise NoAnswerError(f"exit code {finished.code}: {error}") from None


BUILT_IN: tuple[type[Adapter], ...] = (NcclDoctor, TorchFrTrace, Nvrx)


def load_adapter(said: str) -> Adapter:
    """The adapter of that name, or of a class in a file, as ``mytool.py:MyTool``. Raises ValueError where there is none."""
    for known in BUILT_IN:
        if known.name == said:
            return known()
    path, _, name = said.rpartition(":")
    spec = importlib.util.spec_from_file_location("adapter_of_user", path) if path.endswith(".py") else None
    if spec is None or spec.loader is None or not Path(path).is_file():
        names = ", ".join(known.name for known in BUILT_IN)
        raise ValueError(f"no adapter {said!r}: give {names}, or FILE.py:CLASS")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    adapter: Adapter = getattr(module, name)()
    return adapter
