"""Rank labels of scripts, each in words of its own: ``[r3]``, ``3/4``, ``R3:``, ``p3``. The lines of a file teach which number is the rank.

It stands at the beginning of many messages, takes exactly the values 0 to N-1, and each value comes back until the end. A step, an
epoch or a progress grows, and what a loop counts comes in one order. ``[r3]`` is the label of rank 3 in a file in which such labels
go from 0 to 3 in front of different messages, unless a line names rank 4 or another size of the world.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.line_prefix.prefixes import SEPARATOR, records, without_codes
from nccldoctor.patterns import lazy

_FRONT = (  # names and levels that loggers leave in front of a label
    r"\s{0,4}(?:\[[A-Za-z][\w./-]{0,40}\] ?|[A-Za-z_.]{1,40} ?[:|-] {1,2}"
    r"|(?:DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL) {1,4}){0,3}?"
)
_BEHIND = r"(?=[\s\[(])[:|,> -]{0,4}"
_LABEL = lazy(
    _FRONT
    + r"(?P<open>[\[(<{#|]?)(?P<word>(?:[A-Za-z_]{1,16}[ _=:#.-]{0,2})?)(?P<number>\d{1,5})(?: ?/ ?(?P<size>\d{1,5}))?"
    r"(?P<close>[\])>}|:,]{0,2})" + _BEHIND
)
_COUNTER = lazy(
    r"(?i)(?:step|epoch|iter|batch|layer|shard|chunk|part|file|fold|attempt|retry|bucket|expert|line|seed|phase)"
)
_OF_HOST = lazy(r"(?i)local|gpu|cuda|dev|node|host|slot|worker|stage|thread|core|[dtpec]p\W*$|^it|^t\W*$")
SAYS_RANK = lazy(r"(?i)(?:global[ _]?)?(?:r|rk|rnk|rank|p|proc|process)[ _=:#.-]{0,2}(?:\d{1,5})?$")
_WORLD = lazy(r"(?i)\bworld(?:[ _-]?size)?\W{1,3}(\d{1,6})\b")
_NAMED = lazy(r"(?i)\brank\s{0,12}[:=#]?\s?(\d{1,6})\b")
_DIGITS = lazy(r"\d+")

_FIRST = 160  # lines after which a file is given up in which no number comes back
_SHARE, _UNCONFIRMED = 0.3, 0.8
"""Of the lines between the first and the last label, as messages may have several lines; and where nothing else tells of ranks."""


class _Seen(Struct):
    """One form of label: the numbers by line, sizes beside them, and what stands behind, each with its numbers."""

    at: list[int] = []
    numbers: list[int] = []
    sizes: set[int] = set()
    rests: dict[str, set[int]] = {}


def rank_label(text: bytes) -> Callable[[str], list[tuple[Mark, str]]] | None:
    """What reads the records of a line with the rank of its label; None where no label surely tells ranks."""
    forms: dict[tuple[str, str, bool, str], _Seen] = defaultdict(_Seen)
    lines = without_codes(text.decode("utf-8", "replace")).split("\n")
    named, others = {int(n) for line in lines for n in _NAMED.findall(line)}, list[int]()
    for at, raw in enumerate(lines):
        if at == _FIRST and not any(b < a for seen in forms.values() for a, b in pairwise(seen.numbers)):
            return None
        for mark, body in () if not raw.strip() or raw[0] == " " or raw.startswith("[rank") else records(raw):
            if mark.rank is not None:
                named.add(mark.rank)
                continue
            others.append(at)
            m = None if mark.is_native else _LABEL.match(body)
            is_frame = m is not None and m["open"] == "#" and not m["word"]  # "#3 step from loop.py:418" of a stack
            if m is not None and not is_frame and not _COUNTER.match(m["word"]):
                seen = forms[m["open"], m["word"], m["size"] is not None, m["close"]]
                seen.at.append(at)
                seen.numbers.append(int(m["number"]))
                seen.sizes.update([int(m["size"])] if m["size"] else ())
                seen.rests.setdefault(_DIGITS.sub("", body[m.end() : m.end() + 60]), set()).add(seen.numbers[-1])
    worlds = {int(n) for line in lines for n in _WORLD.findall(line)}
    for (start, word, has_size, close), seen in sorted(forms.items(), key=lambda item: -len(item[1].at)):
        share = len(seen.at) / sum(seen.at[0] <= at <= seen.at[-1] for at in others)
        if share >= _SHARE and _are_ranks(seen, word, bool(start or has_size or close) and share, named, worlds):
            size = r" ?/ ?\d{1,5}" if has_size else ""
            label = rf"{re.escape(start + word)}(?P<number>\d{{1,5}}){size}{re.escape(close)}"
            pattern = re.compile(_FRONT + label + _BEHIND)
            return lambda raw: [_labelled(pattern, mark, body) for mark, body in records(raw)]
    return None


def _labelled(pattern: re.Pattern[str], mark: Mark, body: str) -> tuple[Mark, str]:
    m = pattern.match(body) if mark.rank is None and not mark.is_native else None
    if m is None:
        return mark, body
    stream = SEPARATOR.join(filter(None, (mark.stream, f"r{int(m['number'])}")))
    return replace(mark, rank=int(m["number"]), stream=stream), body[m.end() :]


def _are_ranks(seen: _Seen, word: str, share: float, named: set[int], worlds: set[int]) -> bool:
    """True where these numbers can be nothing but ranks."""
    values, size = set(seen.numbers), max(seen.sizes | {max(seen.numbers) + 1})
    is_all = values == set(range(size)) or (bool(seen.sizes) and max(values) < max(seen.sizes))
    is_other_size = (bool(worlds) and size not in worlds) or max(named, default=0) >= size
    if len(values) < 2 or not is_all or len(seen.sizes) > 1 or is_other_size or len(seen.numbers) < 2 * len(values):
        return False
    says_rank = SAYS_RANK.match(word) is not None
    if not says_rank and size not in worlds and len(named) < 2:
        in_order = all(b in (a, (a + 1) % size) for a, b in pairwise(seen.numbers))
        if in_order or _OF_HOST.search(word) or share < _UNCONFIRMED:
            return False
    end = max((at for at, (a, b) in enumerate(pairwise(seen.numbers), 1) if a != b), default=0) + 1
    places = list(enumerate(seen.numbers[:end]))  # behind, one goes on alone
    last, first = {n: i for i, n in places}, {n: i for i, n in reversed(places)}
    come_back = sum(2 * (last[n] - first[n]) > len(places) for n in values)
    shared = [rest for rest, who in seen.rests.items() if len(who) > 1 and any(map(str.isalpha, rest))]
    return 2 * come_back > len(values) and len(shared) > (0 if says_rank else 1)
