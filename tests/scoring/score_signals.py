"""Scores the parsers on labelled excerpts: ``score_signals.py FOLDER [-v] [--floor PERCENT]``.

``FOLDER`` holds ``<id>/log.txt`` and ``<id>/label.json``; the label's ``other_signals`` list what a reader sees beside
the timeouts, as ``{"kind", "rank", "line"}``. A signal counts as found when an event of a fitting kind begins on the
line that holds its text, or a few lines above it where records have several.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nccldoctor import pipeline
from nccldoctor.events import Event
from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks

EVENT_KINDS: Mapping[str, tuple[str, ...]] = {
    "abort-timeout": ("dump-note", "tear-down"),
    "blocking-wait": ("blocking-wait-timeout",),
    "comm-aborted": ("tear-down",),
    "cuda-error": ("cuda-error",),
    "cuda-oom": ("out-of-memory",),
    "desync-report": ("desync-report",),
    "desync-report-failed": ("desync-report", "note"),
    "ecc-error": ("cuda-error", "gpu-error"),
    "exitcode": ("process-exit",),
    "fingerprint-mismatch": ("collective-mismatch",),
    "fr-analysis": ("fr-analysis",),
    "garbage-counter": ("work-status",),
    "ib-completion-error": ("ib-error",),
    "nccl-abort": ("tear-down",),
    "nccl-collective-mismatch": ("collective-mismatch",),
    "nccl-error": ("nccl-error",),
    "numel-mismatch": ("collective-timeout",),
    "ofi-error": ("ib-error",),
    "progress": ("progress", "phase", "heartbeat"),
    "rank-disagreement": ("collective-timeout", "heartbeat-stuck"),
    "ras-incomplete": ("ras",),
    "ras-status": ("ras",),
    "sigterm": ("tear-down",),
    "socket-error": ("socket-error",),
    "store-error": ("store-error",),
    "terminate": ("tear-down",),
    "traceback": ("exception",),
    "truncated-timeout-line": ("collective-timeout",),
    "unhandled-exception": ("tear-down", "exception"),
    "watchdog-hang-abort": ("tear-down",),
    "zero3-trace": ("note",),
}
"""The labels' names of signals, and the kinds of events that are the same thing here."""

SPAN: Mapping[str, int] = {
    "traceback": 40,
    "desync-report": 16,
    "desync-report-failed": 4,
    "fr-analysis": 16,
    "ras-incomplete": 4,
}
"""Lines that a record of several lines may have between its first and the quoted one; 2 for all others."""

EVENTS_BELOW = ("traceback",)
"""Signals whose event may stand below the quoted line: an exception is told where its type is."""

RANK_FIELDS = ("rank", "group_rank", "left_rank", "right_rank", "local_rank")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One labelled signal: whether it was found, and whether with its rank (None where the label has none)."""

    excerpt: str
    kind: str
    line: str
    found: bool
    rank_right: bool | None


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Every labelled signal under ``folder``, in the order of the excerpts."""
    for path in sorted(folder.glob("*/label.json")):
        label = json.loads(path.read_text(encoding="utf-8"))
        if not label.get("other_signals"):
            continue
        log = path.with_name("log.txt")
        case = pipeline.read([log])
        text = log.read_text(encoding="utf-8", errors="backslashreplace").split("\n")
        for signal in label["other_signals"]:
            yield judged(path.parent.name, signal, case, text)


def judged(excerpt: str, signal: Mapping[str, Any], case: Case, text: Sequence[str]) -> Outcome:
    """Looks for one signal among the events."""
    kind, quoted = signal["kind"], str(signal["line"])
    kinds = EVENT_KINDS.get(kind, (kind,))
    places = places_of(quoted, text)
    span = SPAN.get(kind, 2)
    below = span if kind in EVENTS_BELOW else 0
    near = [
        e for e in case.events
        if e.kind in kinds and any(at - span <= (e.place.line or 0) <= at + below for at in places)
    ]  # fmt: skip
    rank = signal.get("rank")
    right = None if rank is None else any(rank in _ranks(e) for e in near)
    return Outcome(excerpt, kind, quoted, bool(near), right)


def places_of(quoted: str, text: Sequence[str]) -> list[int]:
    """The lines (1-based) that hold a quoted text; blanks do not count, and it may be broken over lines."""
    want = _squeezed(quoted)
    whole = [number for number, line in enumerate(text, 1) if want in _squeezed(line)]
    if whole:
        return whole
    eight = [_squeezed("".join(text[number : number + 8])) for number in range(len(text) + 1)]
    return [number + 1 for number in range(len(text)) if want in eight[number] and want not in eight[number + 1]]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _ranks(event: Event) -> set[int | None]:
    out = {getattr(event, name, None) for name in RANK_FIELDS}
    for name in ("missing", "laggards"):
        named = getattr(event, name, None)
        out.update(named if isinstance(named, Ranks) else ())
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where a floor is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true", help="list what was not found")
    parser.add_argument("--floor", type=float, default=0.0, help="percent of signals that must be found")
    args = parser.parse_args(arguments)
    rows = list(outcomes(args.folder))
    if not rows:
        print(f"no labelled signals below {args.folder}")
        return 1
    for name in sorted({row.kind for row in rows}):
        of = [row for row in rows if row.kind == name]
        print(f"  {name:28s} {sum(row.found for row in of):4d} / {len(of)}")
    if args.verbose:
        for row in rows:
            if not row.found or row.rank_right is False:
                print(f"  {'rank ' if row.found else ''}missed  {row.excerpt}  {row.kind}  {row.line[:100]}")
    ranked = [row for row in rows if row.rank_right is not None]
    found = 100 * sum(row.found for row in rows) / len(rows)
    print(f"signals found   {sum(row.found for row in rows):4d} / {len(rows)}  {found:5.1f} %")
    if ranked:
        right = sum(bool(row.rank_right) for row in ranked)
        print(f"with their rank {right:4d} / {len(ranked)}  {100 * right / len(ranked):5.1f} %")
    return 0 if found >= args.floor else 1


if __name__ == "__main__":
    sys.exit(main())
