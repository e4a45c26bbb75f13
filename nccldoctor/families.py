"""Members of groups that only their callers tell: sister groups show where a silent rank belongs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from nccldoctor.ranks import Ranks


def complete(present: Mapping[tuple[str, str], Ranks], silent: Ranks) -> dict[tuple[str, str], Ranks]:
    """Members of groups that only their callers tell, with the silent ranks put where the family of groups has a hole.

    Groups of one description (all tensor-parallel groups) have one size and share no rank: a group that is short by as many
    as are silent in its family takes those that fit the others' stride.
    """
    out = dict(present)
    families: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in present:
        families[key[1]].append(key)
    for desc, keys in families.items():
        if not silent or desc in ("", "undefined"):
            continue
        size = max(len(present[k]) for k in keys)
        full = [present[k] for k in keys if len(present[k]) == size]
        for key in keys:
            lacking = size - len(present[key])
            if lacking:
                fits = _fitting(present[key], silent, size, full)
                if fits is not None:
                    out[key] = present[key] | fits
    return out


def _fitting(known: Ranks, silent: Ranks, size: int, full: Sequence[Ranks]) -> Ranks | None:
    """The silent ranks that give ``known`` the same strides as the complete groups; None where none or several do."""
    strides = {tuple(b - a for a, b in zip(list(g), list(g)[1:], strict=False)) for g in full}
    anchor = next(iter(known))
    found: set[Ranks] = set()
    for stride in strides:
        for at in range(size):
            start = anchor - sum(stride[:at])
            group = Ranks(start + sum(stride[:i]) for i in range(size))
            if frozenset(known) <= group and frozenset(group - known) <= silent:
                found.add(group - known)
    return found.pop() if len(found) == 1 else None
