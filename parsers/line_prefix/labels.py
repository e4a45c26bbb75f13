"""Labels in front of every line of a file (``srun --label``, pdsh, ``torchrun --tee``), and whether their number is a rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from nccldoctor.events import Event
from nccldoctor.parsers.base import Line, Mark
from nccldoctor.parsers.line_prefix.launcher_prefixes import STRONG
from nccldoctor.parsers.line_prefix.local_ranks import LocalRanks
from nccldoctor.parsers.line_prefix.prefixes import labelled, plain, records, split_label

_SAMPLE = 400  # lines looked at
_UNLABELLED = ("srun: ", "slurmstepd: ")  # what Slurm itself writes among the labelled lines
_ENOUGH = 0.95  # of them must carry a label: tools that add one add it to every line
_SHARE = 0.5  # of all lines: a script prints before it starts the tool, and after; and of torchrun's, which puts no
# label before what it says itself


def has_labels(head: bytes) -> bool:
    """Whether the lines at the beginning of a file carry labels, but for what stands before the first and behind the last.

    Numbers that only grow are line numbers of ``grep -n``; names must hold a digit, or ``Error: `` would be a host; two
    words are pod and container only where something that no text begins with stands behind them.
    """
    lines = [
        x
        for x in plain(head.decode("utf-8", "replace")).split("\n")[:_SAMPLE]
        if x.strip() and not x.startswith(_UNLABELLED)
    ]
    split = [(label if any(map(str.isdigit, label or "")) else None, rest) for label, rest in map(split_label, lines)]
    at = [n for n, (label, _) in enumerate(split) if label is not None]
    found = [label for label, _ in split if label is not None]
    enough = _SHARE if all(lines[n].startswith("[") for n in at) else _ENOUGH
    if len(found) < max(2, _SHARE * len(lines)) or len(found) < enough * (at[-1] - at[0] + 1):
        return False
    numbers = [int(x) for x in found if x.isdigit()]
    if len(numbers) == len(found):
        return len(numbers) < 4 or any(b <= a for a, b in pairwise(numbers))
    if any(" " in x for x in found) and not any(STRONG.match(rest) for label, rest in split if label is not None):
        return False
    return not numbers and len(set(found)) <= max(1, len(found) // 2)


def behind_label(raw: str) -> list[tuple[Mark, str]]:
    """The records of a line in a file where ``srun --label`` or pdsh wrote ``label: `` before every line."""
    label, rest = split_label(raw)
    found = records(rest)
    return found if label is None else [(labelled(mark, label), body) for mark, body in found]


class Labels:
    """Learns from the lines what a task number means, and gives it to events that name no rank.

    A task is one rank unless a line behind a label names another rank. Where no line names one: unless a launcher,
    several local ranks or several processes stand behind one label (``srun`` then started one launcher per node).
    """

    def __init__(self) -> None:
        self._task: dict[int, int] = {}
        self._by_local = LocalRanks()
        self._launchers: set[int] = set()
        self._ranks: dict[int, set[int]] = {}
        self._locals: dict[int, set[int]] = {}
        self._pids: dict[int, set[int]] = {}

    def note(self, line: Line) -> None:
        """Remember the label of a line that parsers were offered, and what the line says about it."""
        self._by_local.note(line)
        if line.mark.task is not None and line.place.line is not None:
            self._task[line.place.line] = line.mark.task
            self._learn(line.mark)

    def study(self, head: bytes) -> None:
        """Learn from the beginning of a labelled file what its labels mean."""
        for raw in plain(head.decode("utf-8", "replace")).split("\n")[:_SAMPLE]:
            for mark, _ in behind_label(raw):
                self._learn(mark)

    def _learn(self, mark: Mark) -> None:
        if mark.task is None:
            return
        if mark.file is not None and mark.file.startswith("torch/distributed/") and mark.rank is None:
            self._launchers.add(mark.task)
        if mark.rank is not None:
            self._ranks.setdefault(mark.task, set()).add(mark.rank)
        if mark.local_rank is not None:
            self._locals.setdefault(mark.task, set()).add(mark.local_rank)
        if mark.pid is not None and mark.file is None:
            self._pids.setdefault(mark.task, set()).add(mark.pid)

    def are_ranks(self) -> bool:
        """Whether nothing speaks against one task per rank."""
        several = (self._locals, self._pids)
        if any(ranks != {task} for task, ranks in self._ranks.items()):
            return False
        return bool(self._ranks) or not (
            self._launchers or any(len(seen) > 1 for table in several for seen in table.values())
        )

    def resolved(self, events: Iterable[Event]) -> list[Event]:
        """The events, with the task as rank where that is what it is, else with the rank behind the local one."""
        if not self._task or not self.are_ranks():
            return self._by_local.resolved(events)
        return [
            replace(event, rank=self._task[event.place.line])
            if event.rank is None and event.place.line in self._task
            else event
            for event in events
        ]
