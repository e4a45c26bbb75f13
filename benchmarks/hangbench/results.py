"""The results of a run, as a page of Markdown and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hangbench.dumps import has_unnamed_groups_only
from hangbench.jobs import SETS, BenchJob
from hangbench.scores import SCORES, Outcome, Score, as_json, is_exact


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcomes of one tool, in the order of the jobs; ``about`` says what it can tell at all."""

    name: str
    version: str
    about: str
    outcomes: tuple[Outcome, ...]

    @property
    def readable(self) -> set[str]:
        """The names of the jobs that hold input for it."""
        return {one.job.name for one in self.outcomes if one.ending != "no input"}

    def of(self, jobs: set[str]) -> list[Outcome]:
        """The outcomes of some jobs."""
        return [one for one in self.outcomes if one.job.name in jobs]


@dataclass(frozen=True, slots=True)
class Results:
    """A whole run: day, commit and command line, fingerprint of the jobs, and tools, the first of which is the measure of cost."""

    origin: str
    fingerprint: str
    tools: tuple[ToolResult, ...]

    def as_json(self) -> str:
        """Everything that was found, job by job."""
        tools: list[dict[str, Any]] = [
            {
                "name": tool.name,
                "version": tool.version,
                "scores": {score.title: score.count(tool.of(tool.readable)) for score in SCORES},
                "outcomes": [as_json(one) for one in tool.outcomes],
            }
            for tool in self.tools
        ]
        whole = {"made": self.origin, "jobs": self.fingerprint, "tools": tools}
        return json.dumps(whole, indent=1) + "\n"

    def as_markdown(self) -> str:
        """The page."""
        sections = [
            HEAD.format(origin=self.origin),
            self._jobs(),
            "## Tools\n\n" + "\n".join(f"- **{tool.name}** {tool.version}. {tool.about}" for tool in self.tools),
            "## What each score means\n\n" + _meanings(),
            "## Each tool over the jobs that it can read\n\n" + self._own_scores(),
        ]
        if len(self.tools) > 1:
            shared = set.intersection(*(tool.readable for tool in self.tools))
            named = shared - self._unnamed()
            sections += [
                "## All tools over the jobs that each can read\n\n" + self._scores(shared),
                f"## The same without dumps of gloo alone\n\n{WITHOUT_GLOO}\n\n{self._scores(named)}",
            ]
        sections += [
            "## Each set by itself\n\n" + self._by_set(),
            "## Culprit exact, by class\n\n" + self._by_class(),
            "## Faults, by name\n\n" + self._faults(),
            TAIL,
        ]
        return "\n\n".join(sections) + "\n"

    def _jobs(self) -> str:
        jobs = [one.job for one in self.tools[0].outcomes]
        untold = [job for job in jobs if not job.truth.is_healthy and not job.truth.tells_ranks]
        rows = [
            [
                origin,
                *(str(sum(job.origin == origin for job in some)) for some in (jobs, healthy_of(jobs), untold)),
                about,
            ]
            for origin, about in SETS.items()
        ]
        return (
            f"## Jobs\n\n{len(jobs)} jobs, fingerprint `{self.fingerprint}`: equal digits stand for equal files and equal truth.\n"
            "*Not shown* are failed jobs whose files do not show who is at fault.\n\n"
            + table(["set", "jobs", "healthy", "not shown", "where they come from"], rows)
        )

    def _unnamed(self) -> set[str]:
        """The jobs of whose dumps none says who is in a process group."""
        return {one.job.name for one in self.tools[0].outcomes if has_unnamed_groups_only(one.job.files)}

    def _by_set(self) -> str:
        """A few scores of each tool in each set of which it can read a job."""
        shown = [score for score in SCORES if score.title in OF_A_SET]
        rows = []
        for origin in SETS:
            for tool in self.tools:
                found = [one for one in tool.of(tool.readable) if one.job.origin == origin]
                if found:
                    rows.append([origin, tool.name, str(len(found)), *(_share(*score.count(found)) for score in shown)])
        return table(["set", "tool", "jobs", *map(_titled, shown)], rows)

    def _own_scores(self) -> str:
        asked = [tool.of(tool.readable) for tool in self.tools]
        unread = [str(len(tool.outcomes) - len(found)) for tool, found in zip(self.tools, asked, strict=True)]
        rows = [["no input it can read", *unread], *_rows(asked), ["processor time", *map(self._cost, self.tools)]]
        return table(["", *(tool.name for tool in self.tools)], rows)

    def _scores(self, jobs: set[str]) -> str:
        return table(["", *(tool.name for tool in self.tools)], _rows([tool.of(jobs) for tool in self.tools]))

    def _cost(self, tool: ToolResult) -> str:
        """The processor time as a multiple of the first tool's, over the jobs that both answered."""
        first = self.tools[0]
        if tool is first:
            return "1"
        answered = [{one.job.name for one in each.outcomes if one.ending == "answered"} for each in (first, tool)]
        both = answered[0] & answered[1]
        spent, measure = (sum(one.cpu_s for one in each.of(both)) for each in (tool, first))
        return f"{spent / measure:.1f} times, over {len(both)} jobs" if measure else "-"

    def _by_class(self) -> str:
        exact = next(score for score in SCORES if score.judge is is_exact)
        rows = []
        for cause in sorted({one.job.truth.cause for one in self.tools[0].outcomes}):
            found = [[one for one in each.of(each.readable) if one.job.truth.cause == cause] for each in self.tools]
            counts = [exact.count(mine) for mine in found]
            if any(asked for _, asked in counts):
                rows.append([cause, *(_share(*count) for count in counts)])
        return table(["class", *(tool.name for tool in self.tools)], rows)

    def _faults(self) -> str:
        rows = []
        for score in (score for score in SCORES if score.is_fault):
            named = ((tool.name, score.names(tool.of(tool.readable))) for tool in self.tools)
            rows += [[score.title, name, ", ".join(jobs) or "none"] for name, jobs in named]
        for title, ending in ENDINGS:
            rows += [[title, tool.name, ", ".join(_complaints(tool, ending)) or "none"] for tool in self.tools]
        return table(["fault", "tool", "jobs"], rows)


HEAD = """# hangbench: tools that diagnose hung jobs, compared

{origin}.
[benchmarks/hangbench](../benchmarks/hangbench/README.md) says how to add a tool, and how to write the jobs to a folder.

**Read it with this in mind.** The jobs come from the authors of nccldoctor. Programs of others wrote the files of one set,
*recorded*; simulators and people wrote the rest in the same forms. They show which evidence a tool understands; they aren't a
sample of real failures in clusters. nccldoctor was developed against the incidents that come with it, *recorded* among them, and
against jobs of the same simulators, though not of these seeds; the kinds of *strangers* were known when it was mended. So its
figures are an upper bound, and 100 % means that jobs of this kind are easy for it, not that it never errs. A tool that reads one
kind of file alone is scored on the jobs that have it."""

WITHOUT_GLOO = """For gloo the recorder keeps no members of a process group (`pg_config`), and torchfrtrace and nvrx fail on
such dumps. Here the jobs are left out whose dumps are all of that kind: those of *recorded*."""

OF_A_SET = (
    "culprit exact",
    "class right",
    "healthy job called healthy",
    "innocent accused",
    "wrong with high confidence",
)
"""The titles of the scores that each set is shown with."""

TAIL = """## How it is run

Each tool gets a fresh folder with the files of one job and never the truth. A tool that crashes or runs out of time has no
answer, which scores like naming nobody. Processor time is that of the whole process tree, the start of Python included, as a
multiple of the first tool's over the jobs that both answered. It is the one figure here that depends on the machine."""

ENDINGS = (("crashes", "crashed"), ("out of time", "timed out"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rows(asked: Sequence[Sequence[Outcome]]) -> list[list[str]]:
    """The rows of a table of scores, with a column for the outcomes of each tool."""
    rows = [["jobs", *(str(len(found)) for found in asked)]]
    for title, ending in ENDINGS:
        rows.append([title, *(str(sum(one.ending == ending for one in found)) for found in asked)])
    return [*rows, *([_titled(score), *(_share(*score.count(found)) for found in asked)] for score in SCORES)]


def _titled(score: Score) -> str:
    return f"{score.title} (a fault)" if score.is_fault else score.title


def healthy_of(jobs: Iterable[BenchJob]) -> list[BenchJob]:
    """The jobs with which nothing is wrong."""
    return [job for job in jobs if job.truth.is_healthy]


def _meanings() -> str:
    rows = ([score.title, score.meaning, "fault" if score.is_fault else "merit"] for score in SCORES)
    return table(["score", "counts", ""], rows)


def _share(happened: int, asked: int) -> str:
    return f"{happened} / {asked} ({100 * happened / asked:.0f} %)" if asked else "-"


def _complaints(tool: ToolResult, ending: str) -> list[str]:
    return [f"{one.job.name} ({_plain(one.complaint)})" for one in tool.outcomes if one.ending == ending]


def _plain(text: str) -> str:
    """What a tool printed, as text that Markdown shows and never obeys."""
    return re.sub(r"([^\w\s.,:()'=/-]|_)", r"\\\1", " ".join(text.split()))
