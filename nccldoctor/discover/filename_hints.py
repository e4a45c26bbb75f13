"""Reads rank, local rank, attempt and host from a path, and says by which rule.

Hints only: content overrules them. A number counts as a rank where the name says so (``rank_3``), or where the
name is one of a family that is numbered like ranks (``fr_0`` … ``fr_7``); the id of a process or of a job, or a date, is not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from msgspec import Struct

from nccldoctor.model.errors import InputError
from nccldoctor.parsers.rows import Table

FAMILY = "number in the name, one of a family"
"""The rule that takes such a number for a rank: it may be that of a process."""

OWN_RULE = "--rank-from"
"""The rule that the user gives."""


RAY_WORKER = "Ray's worker in the name"
"""The rule for ``worker-<id>-<job>-<pid>.out`` in the logs of a Ray session."""


class Hint(Struct, frozen=True):
    """The ranks, attempt, host and process that a path names, else None; ``why`` names the rules that matched."""

    rank: int | None = None
    local_rank: int | None = None
    attempt: int | None = None
    host: str | None = None
    why: str = ""
    pid: int | None = None


_PATTERNS = Table(__file__).patterns()

PACKED = re.compile(r"(?:\.(?:tar|tgz|tbz2?|txz|zip|gz|bz2|xz|zst|zstd))+$", re.IGNORECASE)
"""Suffixes of an archive, which stands like a folder of the name without them: ``logs.tar.gz`` is no host."""

_SUFFIX = re.compile(
    r"(?:\.(?:log|txt|out|err|json|jsonl|pkl|pickle|pt|bin|dump|trace|gz|bz2|xz|zst|stdout|stderr))+$", re.IGNORECASE
)
_OUTPUT_WORDS = r"proc(?:ess)?|task|out|log|train|r"
"""What a program's own output is named for. Such a name may carry the id of a batch job too: ``train-4.out`` of Slurm's ``%x-%j.out``."""

_FAMILY_WORDS = re.compile(
    r"(?:^|[^a-z])(?:fr|fr_?trace|dump|trace|nccl_?trace|comm_?lib_?trace|stacks?|(?:stack_?)?traces|py-?spy|pystack|gdb|flight_?rec(?:order)?"
    rf"|worker_rank|(?P<output>{_OUTPUT_WORDS}))[_.-]?$",
    re.IGNORECASE,
)

_PARTS = re.compile(r"[/_.]+")
_NUMBERED = re.compile(r"[-_.]?\d{1,20}$")
"""What numbers a folder: ``pyspy_2``."""


def rank_pattern(text: str) -> re.Pattern[str]:
    """The user's own rule (``--rank-from``): a regular expression with a group named ``rank``.

    Raises :class:`InputError` for anything else.
    """
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(
            f"--rank-from is no regular expression: {error}", hint=r"for example host\d+_(?P<rank>\d+)\.log"
        ) from None
    if "rank" not in pattern.groupindex:
        raise InputError("--rank-from has no group named rank", hint=r"for example host\d+_(?P<rank>\d+)\.log")
    return pattern


def is_host(name: str) -> bool:
    """True of a folder's name that is taken for that of a host."""
    return _PATTERNS["host"].match(name) is not None


def hosts_in_names(ranks: Mapping[str, int]) -> dict[str, str]:
    """The host that each name holds behind or before its rank: ``zeta-07`` in ``rank_3.zeta-07.log`` and ``zeta-07/rank_3.log``.

    It is the part with letters and a number that blocks of neighbouring ranks share, each of as many ranks as the others.
    """
    bare = {name: [part.strip("-") for part in _PARTS.split(_PATTERNS["rank"].sub("", name))] for name in ranks}
    for column in zip(*bare.values(), strict=False) if len({len(parts) for parts in bare.values()}) == 1 else ():
        of: dict[str, set[int]] = defaultdict(set)
        for part, rank in zip(column, ranks.values(), strict=True):
            of[part].add(rank)
        spans = {max(own) - min(own) + 1 for own in of.values()}
        is_even = 1 < len(of) < len(ranks) and spans == {len(ranks) // len(of)} == {len(own) for own in of.values()}
        if is_even and all(map(_PATTERNS["counted_host"].match, of)):
            return dict(zip(bare, column, strict=True))
    return {}


def hints(names: Sequence[str], dumps: Sequence[bool], rank_from: re.Pattern[str] | None = None) -> list[Hint]:
    """The hints of each name (a path with ``/``); ``dumps`` tells which of them are recorder dumps.

    All names are looked at together, because a number alone is judged by its siblings.
    """
    families = _families(names, dumps)
    slurm = _slurm_ranks(names)
    out = []
    for name in names:
        clues: dict[str, tuple[int | str, str]] = {}
        match = rank_from.search(name) if rank_from is not None else None
        if match is not None and (match["rank"] or "").isdecimal():
            clues["rank"] = int(match["rank"]), OWN_RULE
        # in the tree that torchrun makes the folder under ``attempt_<k>`` is the *local* rank
        # (``torch/distributed/elastic/multiprocessing/api.py``, 2.13)
        tree = _PATTERNS["torchrun"].search(name)
        if tree is not None:
            clues["local_rank"] = int(tree[2]), "torchrun folder"
        if (attempt := tree or _PATTERNS["attempt"].search(name)) is not None:
            clues["attempt"] = int(attempt[1]), "attempt folder"
        _plain(name, clues)
        if "rank" not in clues and "local_rank" not in clues:
            if name in slurm:
                clues["rank"] = slurm[name], "Slurm task in the name"
            elif name in families:
                clues["rank"] = families[name], FAMILY
        ray = _PATTERNS["ray"].search(name)
        if ray is not None:
            clues = {key: clue for key, clue in clues.items() if key == "host"} | {"pid": (int(ray[1]), RAY_WORKER)}
        out.append(_hint(clues))
    return out


def _hint(clues: dict[str, tuple[int | str, str]]) -> Hint:
    why = ", ".join(dict.fromkeys(rule for _, rule in clues.values()))
    number = {key: int(value) for key, (value, _) in clues.items() if key != "host"}
    host = str(clues["host"][0]) if "host" in clues else None
    return Hint(number.get("rank"), number.get("local_rank"), number.get("attempt"), host, why, number.get("pid"))


def _plain(name: str, clues: dict[str, tuple[int | str, str]]) -> None:
    folders, base = name.split("/")[:-1], name.rsplit("/", 1)[-1]
    host_file = _PATTERNS["host_file"].match(base)
    host = (host_file[1] or host_file[2]) if host_file else ""
    if not host and folders and _PATTERNS["tool"].match(folders[-1]):
        host = _SUFFIX.sub("", base)
    if host and _PATTERNS["host"].match(host):
        clues["host"] = host, "host in the name"
    elif folders and _PATTERNS["tool_folder"].search(folders[-1]) and _PATTERNS["host"].match(_SUFFIX.sub("", base)):
        clues["host"] = _SUFFIX.sub("", base), "host in the name"
    is_of_host = "host" in clues  # of launcher_gpu-04.log the number is a part of the host's name
    for folder in reversed(folders):
        bare = PACKED.sub("", folder)
        if "host" not in clues and _PATTERNS["host"].match(bare):
            clues["host"] = bare, "host folder" if bare == folder else "host in the archive's name"
    for part in [base, *reversed(folders)]:
        local = _PATTERNS["local"].search(part)
        if local is not None and local[2] and part is base and is_of_host:
            local = None
        if local is not None and "local_rank" not in clues and "rank" not in clues:
            clues["local_rank"] = int(local[1] or local[2]), "local rank in the name"
        rest = _PATTERNS["not_rank"].sub("", part)
        rank = _PATTERNS["rank"].search(rest)
        if rank is not None and "rank" not in clues:
            clues["rank"] = int(rank[1]), "rank in the name"


def _families(names: Sequence[str], dumps: Sequence[bool]) -> dict[str, int]:
    """Ranks by numbers at the end of names that form a family: ``fr_0`` to ``fr_7``.

    Names that are mere numbers form one if their folder says what it holds and they count from 0: ``pyspy_1/0.txt``, ``pyspy_1/1.txt``.
    Logs form one if it has a 0: the ids of batch jobs have none.
    """
    members: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    counted: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    roots: set[str] = set()
    for name, is_dump in zip(names, dumps, strict=True):
        folder, _, base = name.rpartition("/")
        stem = _SUFFIX.sub("", base)
        match = _PATTERNS["family"].match(stem)
        if match is None or (not is_dump and len(stem) == len(base) and match[1].endswith(".")):
            continue
        number = int(match[2])
        if is_dump or _FAMILY_WORDS.search(match[1]):
            members[folder, match[1], base[len(stem) :]][name] = number
            if is_dump or number == 0:
                roots.add(match[1])
        elif not match[1] and _is_of_job(folder):
            counted[folder, base[len(stem) :]][name] = number
    outputs = {stem for _, stem, _ in members if (word := _FAMILY_WORDS.search(stem)) is not None and word["output"]}
    of_ranks = (family for (_, stem, _), family in members.items() if stem in roots or stem not in outputs)
    out: dict[str, int] = {}
    whole = (f for f in counted.values() if 0 in f.values() and max(f.values()) < 2 * len(f))
    for family in chain(of_ranks, whole):
        numbers = set(family.values())
        # few or small numbers are taken for ranks
        if len(numbers) == len(family) and max(numbers) < max(1024, 16 * len(family)):
            out.update(family)
    return out


def _is_of_job(folder: str) -> bool:
    """True of a folder that says what it holds (``pyspy_1``), unless it is that of a host. A host counts its own processes."""
    parts = folder.split("/")
    is_named = _FAMILY_WORDS.search(_NUMBERED.sub("", parts[-1])) is not None
    return is_named and not any(_PATTERNS["host"].match(PACKED.sub("", part)) for part in parts)


def _slurm_ranks(names: Sequence[str]) -> dict[str, int]:
    """``%x-%j-%n-%t.out``: the task is the rank, unless every node has one task: then that starts the node's ranks."""
    jobs: dict[tuple[str, str], dict[str, tuple[int, int]]] = defaultdict(dict)
    for name in names:
        match = _PATTERNS["slurm"].search(name)
        if match is not None:
            jobs[name[: match.start()], match[1]][name] = int(match[2]), int(match[3])
    out: dict[str, int] = {}
    for tasks in jobs.values():
        if any(node != task for node, task in tasks.values()):
            out.update({name: task for name, (_, task) in tasks.items()})
    return out


_AGENT = re.compile(r"(?:^|/)([^/]+?)(?:_[a-z0-9_]{8})?/attempt_\d")
"""The folder that torchrun names for a run, behind the run id eight characters of its own for each agent."""


def run_id(path: str) -> str | None:
    """The run id under which torchrun wrote a file; None for other files."""
    match = _AGENT.search(path)
    return match[1] if match else None
