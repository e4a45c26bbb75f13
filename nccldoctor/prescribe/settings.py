"""Judges the environment variables seen in the input: who reads them, in this version, in this unit, all together.

A name that is not in ``settings.csv`` is *unknown*: it is never called useless. A name that neither NCCL nor PyTorch
reads may be read by the job's own program, and is called so where the input shows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nccldoctor.events import Setting
from nccldoctor.model import Place
from nccldoctor.prescribe.setting_checks import CHECKS, Judgement, Kind, contradictions, differences, not_read, unknown
from nccldoctor.prescribe.setting_table import Known, known, look_up, nearest

_MOST = 10_000
"""Settings judged at most: an INFO log of thousands of ranks repeats some dozens."""


def judge(
    settings: Iterable[Setting], torch: str | None, nccl: str | None, readers: Mapping[str, Place] | None = None
) -> tuple[Judgement, ...]:
    """Every remark on the settings seen, in the order of their first sighting; one for each name, value and kind.

    ``torch`` and ``nccl`` are versions as printed, None where unknown: nothing is said of a version that is not known.
    ``readers`` names the variables that the job's own program was seen to read, and where.
    """
    seen = list(_distinct(settings))
    by_name: dict[str, list[Setting]] = {}
    for one in seen:
        by_name.setdefault(one.name, []).append(one)
    out: list[Judgement] = []
    for one in seen:
        row = look_up(one.name)
        if row is None:
            out += unknown(one)
        elif row.status == "not read":
            out.append(not_read(one, row, (readers or {}).get(one.name)))
        else:
            out += [j for check in CHECKS if (j := check(one, row, torch, nccl)) is not None]
    out += contradictions(by_name)
    out += differences(by_name)
    return tuple(dict.fromkeys(out))


def _distinct(settings: Iterable[Setting]) -> Iterator[Setting]:
    """The first sighting of each name, value and rank."""
    met: set[tuple[str, str, int | None]] = set()
    for one in settings:
        key = (one.name, one.value, one.rank)
        if key not in met and len(met) < _MOST:
            met.add(key)
            yield one


def explain(name: str) -> str | None:
    """A variable as CommonMark text, None where it is not known."""
    row = look_up(name)
    if row is None:
        return None
    lines = [
        f"# {name}",
        "",
        row.meaning[:1].upper() + row.meaning[1:] + ".",
        "",
        f"- status: {row.status}",
        f"- read by: {row.read_by}",
    ]
    more = (("first seen in", row.first_seen), ("last seen in", row.last_seen), ("unit", row.unit), ("note", row.notes))
    lines += [f"- {label}: {text}" for label, text in more if text]
    return "\n".join([*lines, "- must be equal on all ranks", ""] if row.same_on_all_ranks else [*lines, ""])


__all__ = ["Judgement", "Kind", "Known", "explain", "judge", "known", "look_up", "nearest"]
