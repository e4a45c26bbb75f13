"""Labels and local ranks in front of the lines of a file (``srun --label``, pdsh, ``torchrun --tee``), and their ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise

from msgspec.structs import replace

from nccldoctor.events import Event, ExceptionRaised, Note, ProcessExit, Writer
from nccldoctor.parsers.base import Line, Mark
from nccldoctor.parsers.line_prefix.prefixes import STRONG, records, split_label, with_label, without_codes
from nccldoctor.parsers.line_prefix.rank_labels import SAYS_RANK, rank_label

_SAMPLE = 400  # lines looked at
_UNLABELLED = ("srun: ", "slurmstepd: ")  # what Slurm itself writes among the labelled lines
_ENOUGH = 0.95  # of them must carry a label: tools that add one add it to every line
_SHARE = 0.5  # of all lines: a script prints before it starts the tool, and after; and of torchrun's, which puts no
# label before what it says itself
_FEWEST = 2  # local ranks whose rank must be known before the others follow from them


def has_labels(head: bytes) -> bool:
    """True when the lines at the beginning of a file carry labels.

    Lines before the first and behind the last labelled one do not count. Numbers that only grow are line numbers of
    ``grep -n``; names must hold a digit, or ``Error: `` would be a host; two words are pod and container only in front of
    something that ordinary text does not begin with.
    """
    text = without_codes(head.decode("utf-8", "replace"))
    lines = [x for x in text.split("\n")[:_SAMPLE] if x.strip() and not x.startswith(_UNLABELLED)]
    split: list[tuple[int, str, str]] = []
    for n, (label, rest) in enumerate(map(split_label, lines)):
        if label is not None and any(map(str.isdigit, label)):
            split.append((n, label, rest))
        elif n + 1 - len(split) > (1 - _SHARE) * len(lines):
            return False
    enough = _SHARE if all(lines[n].startswith("[") for n, _, _ in split) else _ENOUGH
    if len(split) < max(2, _SHARE * len(lines)) or len(split) < enough * (split[-1][0] - split[0][0] + 1):
        return False
    labels = [label for _, label, _ in split]
    numbers = [int(x) for x in labels if x.isdigit()]
    if len(numbers) == len(labels):
        return len(numbers) < 4 or any(b <= a for a, b in pairwise(numbers))
    if any(" " in x for x in labels) and not any(STRONG.match(rest) for _, _, rest in split):
        return False
    return not numbers and not all(map(SAYS_RANK.match, labels)) and len(set(labels)) <= max(1, len(labels) // 2)


def behind_label(raw: str) -> list[tuple[Mark, str]]:
    """The records of a line in a file where ``srun --label`` or pdsh wrote ``label: `` before every line."""
    label, rest = split_label(raw)
    marked = records(rest)
    return marked if label is None else [(with_label(mark, label), body) for mark, body in marked]


def reader_of(text: bytes) -> Callable[[str], list[tuple[Mark, str]]]:
    """What reads the records of a line among several writers, with the rank that its label tells."""
    if not has_labels(text):
        return rank_label(text) or records
    labels = Labels()
    labels.study(text)
    return _behind_rank if labels.are_ranks() else behind_label


def _behind_rank(raw: str) -> list[tuple[Mark, str]]:
    marked = behind_label(raw)
    return [(replace(mark, rank=mark.task) if mark.rank is None else mark, body) for mark, body in marked]


class Labels:
    """Learns from the lines what a task number means, and gives it to events that name no rank.

    A task is one rank unless a line behind a label names another rank. Where no line names one: unless a launcher,
    several local ranks or several processes stand behind one label (``srun`` then started one launcher per node).
    """

    def __init__(self) -> None:
        self._task: dict[int, int] = {}  # by the number of the line
        self._glued: dict[int, int] = {}  # the process that the label of a line means, where another wrote behind it
        self._local_ranks = _LocalRanks()
        self._highest = -1
        self._launchers: set[int] = set()
        self._ranks: dict[int, set[int]] = defaultdict(set)  # these three by task
        self._locals: dict[int, set[int]] = defaultdict(set)
        self._pids: dict[int, set[int]] = defaultdict(set)

    def note(self, line: Line, events: Collection[Event]) -> None:
        """Learn from the label of a line that parsers were offered, and remember it for the events that they found."""
        if line.mark.local_rank is not None:
            self._local_ranks.note(line, events)
        if line.mark.task is not None and line.place.line is not None:
            if events:
                self._task[line.place.line] = line.mark.task
                if line.mark.pid is not None and line.body.count(" NCCL ") > 1:
                    self._glued[line.place.line] = line.mark.pid
            self._learn(line.mark)

    def __len__(self) -> int:
        return len(self._task) + len(self._local_ranks.local)

    def forget_others(self, lines: Collection[int | None]) -> None:
        """Forget the labels of all lines but these; what they taught stays."""
        self._task = {line: task for line, task in self._task.items() if line in lines}
        self._glued = {line: pid for line, pid in self._glued.items() if line in lines}
        self._local_ranks.local = {line: who for line, who in self._local_ranks.local.items() if line in lines}

    def study(self, head: bytes) -> None:
        """Learn from the beginning of a labelled file what its labels mean."""
        for raw in without_codes(head.decode("utf-8", "replace")).split("\n")[:_SAMPLE]:
            for mark, _ in behind_label(raw):
                self._learn(mark)

    def _learn(self, mark: Mark) -> None:
        if mark.task is None:
            return
        self._highest = max(self._highest, mark.task)
        if mark.file is not None and mark.file.startswith("torch/distributed/") and mark.rank is None:
            self._launchers.add(mark.task)
        if mark.rank is not None:
            self._ranks[mark.task].add(mark.rank)
        if mark.local_rank is not None:
            self._locals[mark.task].add(mark.local_rank)
        if mark.pid is not None and mark.file is None:
            self._pids[mark.task].add(mark.pid)

    def are_ranks(self) -> bool:
        """True when nothing speaks against one task per rank."""
        if self._ranks:
            return all(ranks == {task} for task, ranks in self._ranks.items())
        several = any(len(seen) > 1 for by_task in (self._locals, self._pids) for seen in by_task.values())
        return not (self._launchers or several)

    def resolved(self, events: Iterable[Event]) -> list[Event]:
        """The events, with the task as rank where it is one, else with the rank that their local rank means."""
        if not self._task or not self.are_ranks():
            return self._local_ranks.resolved(events)
        rows = [
            replace(event, rank=self._task[event.place.line])
            if event.rank is None and event.place.line in self._task and not self._is_glued(event)
            else event
            for event in events
        ]
        heard = max((event.rank for event in rows if event.rank is not None), default=self._highest)
        whole = (
            replace(rows[0].place, line=None) if heard < self._highest else None
        )  # no line of that rank is understood
        return [Note(place=whole, text="", what="least-size", detail=str(self._highest + 1)), *rows] if whole else rows

    def _is_glued(self, event: Event) -> bool:
        """True of what another process wrote into a labelled line."""
        return event.pid is not None and self._glued.get(event.place.line or 0, event.pid) != event.pid


_Launcher = str | None
"""The host or the task in front of a line: what tells the launchers of a merged file apart."""


class _LocalRanks:
    """Learns the ranks behind local ranks (``torchrun --tee``: ``[default3]:``), and gives them to events that name none.

    A launcher gives the ranks of one node consecutive numbers: ``[default0]:[rank4]:`` and ``[default3]:[rank7]:`` make
    ``[default1]:`` rank 5. A file into which the launchers of several nodes wrote shows two such beginnings, and then
    the local rank tells nothing.
    """

    def __init__(self) -> None:
        self.local: dict[int, tuple[_Launcher, int]] = {}  # by the number of the line
        self._known: dict[_Launcher, set[tuple[int, int]]] = defaultdict(set)  # local rank and rank

    def note(self, line: Line, events: Collection[Event]) -> None:
        """Remember the local rank in front of a line with events, and the rank if the line names one too."""
        mark = line.mark
        if mark.local_rank is None or line.place.line is None:
            return
        launcher = f"task{mark.task}" if mark.task is not None else mark.host
        if events:
            self.local[line.place.line] = (launcher, mark.local_rank)
        if mark.rank is not None:
            self._known[launcher].add((mark.local_rank, mark.rank))

    def resolved(self, events: Iterable[Event]) -> list[Event]:
        """The events, with the rank of the process that wrote them where its local rank tells it.

        An exception of a local rank of which no line names the rank keeps the local rank: ``[default2]:`` beside
        ``[default3]:[rank7]:`` is not of rank 7.
        """
        rows = list(events)
        if not self.local:
            return rows
        first = {launcher: self._first_rank(launcher, rows) for launcher in {who for who, _ in self.local.values()}}
        for i, event in enumerate(rows):
            launcher, local = self.local.get(event.place.line or 0, (None, None))
            base = first.get(launcher)
            if event.rank is None and event.written_by is Writer.RANK and local is not None and base is not None:
                rows[i] = replace(event, rank=base + local)
            elif isinstance(event, ExceptionRaised) and event.rank is None and self._is_nameless(launcher, local):
                rows[i] = replace(event, local_rank=local)
        return rows

    def _is_nameless(self, launcher: _Launcher, local: int | None) -> bool:
        """True of a local rank whose rank no line names, while lines name that of another one."""
        known = {number for number, _ in self._known.get(launcher, ())}
        return local is not None and bool(known) and local not in known

    def _first_rank(self, launcher: _Launcher, events: list[Event]) -> int | None:
        """The rank of local rank 0; None where too little is known or it contradicts itself."""
        exits = (e for e in events if isinstance(e, ProcessExit) and launcher in (None, e.host))
        pairs = {(e.local_rank, e.rank) for e in exits if e.local_rank is not None and e.rank is not None}
        pairs |= self._known.get(launcher, set())
        bases = {rank - local for local, rank in pairs}
        return bases.pop() if len(bases) == 1 and len(pairs) >= _FEWEST else None
