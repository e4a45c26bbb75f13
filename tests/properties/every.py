"""All properties by name, in the order of the page."""

from __future__ import annotations

from properties import clocks, consequence, healthy, monotone, names, packaging, scale, stranger, wording
from properties.verdicts import Property

PROPERTIES: dict[str, Property] = {
    one.name: one
    for one in (
        Property(
            "consequence",
            "lines of innocent ranks after their alarm: tracebacks of closed connections, SIGSEGV in abort, warnings of the tear-down",
            "unchanged",
            consequence.pairs,
        ),
        Property(
            "monotone",
            "one file left out: the answer with it against the answer without it",
            "no worse with the file",
            monotone.pairs,
        ),
        Property(
            "a stranger's file",
            "a log of another job, of yesterday, of the attempt before",
            "unchanged",
            stranger.pairs,
        ),
        Property("names", "ranks exchanged, hosts renamed, the numbers of all calls higher", "unchanged", names.pairs),
        Property(
            "clocks",
            "the clock of one host 1 s, 40 s or 8 h ahead; times without dates",
            "same ranks, never surer",
            clocks.pairs,
        ),
        Property("wording", "the same job in the wording of another release", "true", wording.pairs),
        Property(
            "packaging",
            "the lines of files by rank in the form of another launcher or collector",
            "same ranks, never surer",
            packaging.pairs,
        ),
        Property("scale", "the same fault in a job of four times the hosts", "true", scale.pairs),
        Property(
            "healthy",
            "a healthy job with warnings that healthy jobs print, or looked at while it runs",
            "nothing wrong",
            healthy.pairs,
        ),
    )
}
