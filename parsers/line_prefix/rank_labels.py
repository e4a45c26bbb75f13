"""Rank labels of scripts, each in words of its own: ``[r3]``, ``3/4``, ``R3:``, ``p3``. The lines of a file teach which number is the rank.

It stands at the beginning of many messages, takes exactly the values 0 to N-1, and each value comes back until the end. A step, an
epoch or a progress grows, and what a loop counts comes in one order. ``[r3]`` is the label of rank 3 in a file in which such labels
go from 0 to 3 in front of different messages, unless a line names rank 4 or another size of the world.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.line_prefix.prefixes import SEPARATOR, records, without_codes
from nccldoctor.patterns import lazy

_FRONT = (
    r"\s{0,4}(?:\[[A-Za-z][\w./-]{0,40}\] ?|[A-Za-z_.]{1,40} ?[:|-] {1,2}"
    r"|(?:DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL) {1,4}){0,3}?"
)
"""What loggers leave in front of a label: names and levels."""

_BEHIND = r"(?=[\s\[(])[:|,> -]{0,4}"

_LABEL = lazy(
    _FRONT
    + r"(?P<open>[\[(<{#|]?)(?P<word>(?:[A-Za-z_]{1,16}[ _=:#.-]{0,2})?)(?P<number>\d{1,5})(?P<of>(?: ?/ ?\d{1,5})?)"
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

_FIRST = 160
"""Lines after which a file without anything that comes back is given up."""
_SHARE, _UNCONFIRMED = 0.3, 0.8
"""Of the lines between the first and the last label, as messages may have several lines; and where nothing else tells of ranks."""


class RankLabel(Struct, frozen=True):
    """The label of a file; ``records`` reads a line with it."""

    pattern: re.Pattern[str]

    def records(self, raw: str) -> list[tuple[Mark, str]]:
        """The records of a line, each with the rank of its label."""
        return [self._labelled(mark, body) for mark, body in records(raw)]

    def _labelled(self, mark: Mark, body: str) -> tuple[Mark, str]:
        m = self.pattern.match(body) if mark.rank is None and not mark.is_native else None
        if m is None:
            return mark, body
        writer = f"r{int(m['number'])}"
        stream = SEPARATOR.join(filter(None, (mark.stream, writer)))
        return replace(mark, rank=int(m["number"]), stream=stream), body[m.end() :]


class _Seen(Struct):
    """What stood behind one form of label: the place among the lines, the number, and the rest of the line."""

    at: list[int] = []
    numbers: list[int] = []
    sizes: set[int] = set()
    rests: dict[str, set[int]] = {}
    share: float = 0.0


def rank_label(text: bytes) -> RankLabel | None:
    """The label that tells the ranks of a text apart; None where nothing does for sure."""
    forms: dict[tuple[str, ...], _Seen] = defaultdict(_Seen)
    lines = without_codes(text.decode("utf-8", "replace")).split("\n")
    named, others = set[int](), list[int]()
    for at, raw in enumerate(lines):
        if at == _FIRST and not any(len(seen.numbers) > 9 and _is_mixed(seen.numbers) for seen in forms.values()):
            return None
        for mark, body in () if not raw.strip() or raw[0] == " " or raw.startswith("[rank") else records(raw):
            if mark.rank is not None:
                named.add(mark.rank)
            elif not mark.is_native and (m := _LABEL.match(body)) is not None and not _COUNTER.match(m["word"]):
                seen = forms[m["open"], m["word"], "/" if m["of"] else "", m["close"]]
                seen.at.append(at)
                seen.numbers.append(int(m["number"]))
                seen.sizes.update(map(int, _DIGITS.findall(m["of"])))
                seen.rests.setdefault(_DIGITS.sub("", body[m.end() : m.end() + 60]), set()).add(seen.numbers[-1])
            others += [at] * (mark.rank is None)
    joined = "\n".join(lines)
    named |= {int(n) for n in _NAMED.findall(joined)}
    worlds = {int(n) for n in _WORLD.findall(joined)}
    for key, seen in sorted(forms.items(), key=lambda item: -len(item[1].at)):
        seen.share = len(seen.at) / max(1, sum(seen.at[0] <= at <= seen.at[-1] for at in others))
        if _tells_ranks(seen, key, named, worlds):
            start, word, of, close = map(re.escape, key)
            size = r" ?/ ?\d{1,5}" if of else ""
            return RankLabel(re.compile(rf"{_FRONT}{start}{word}(?P<number>\d{{1,5}}){size}{close}{_BEHIND}"))
    return None


def _is_mixed(numbers: list[int]) -> bool:
    """True of numbers that come back."""
    return any(b < a for a, b in pairwise(numbers))


def _tells_ranks(seen: _Seen, key: tuple[str, ...], named: set[int], worlds: set[int]) -> bool:
    """True where these numbers can be nothing but ranks."""
    values, size = set(seen.numbers), max(seen.sizes | {max(seen.numbers) + 1})
    is_all = values == set(range(size)) or (len(seen.sizes) == 1 and max(values) < max(seen.sizes))
    if len(values) < 2 or not is_all or len(seen.sizes) > 1 or len(seen.numbers) < 2 * len(values):
        return False
    if (worlds and size not in worlds) or max(named, default=0) >= size:
        return False
    if SAYS_RANK.match(key[1]) is None and size not in worlds and len(named) < 2:
        in_order = all(b in (a, (a + 1) % size) for a, b in pairwise(seen.numbers))
        if in_order or _OF_HOST.search(key[1]) or seen.share < _UNCONFIRMED or not (key[0] + key[2] + key[3]):
            return False
    first, last = {n: i for i, n in reversed(list(enumerate(seen.numbers)))}, {n: i for i, n in enumerate(seen.numbers)}
    come_back = sum(2 * (last[n] - first[n]) > len(seen.numbers) for n in values)
    shared = [rest for rest, who in seen.rests.items() if len(who) > 1 and any(map(str.isalpha, rest))]
    kinds = 1 if SAYS_RANK.match(key[1]) is not None else 2  # of messages
    return seen.share >= _SHARE and 2 * come_back > len(values) and len(shared) >= kinds
