"""Finds where a report contradicts itself or its input: ``violations(job, page, timed_out)``.

The page alone is asked, as a sceptic would: do the headline, the graph, the bars and the table say the same, does each exhibit show
what it claims, is anything called unknown that stands a few lines lower? Only the ranks that timed out come from the input.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scoring.pages import page_parts
from scoring.pages.page_parts import Exhibit, Graph, Page, Row, ranks_of

from nccldoctor.incident import Incident


@dataclass(frozen=True)
class Violation:
    """One contradiction: the job, the check that found it, and what stands against what."""

    job: str
    check: str
    detail: str


def violations(job: str, html: str, timed_out: frozenset[int] = frozenset()) -> tuple[Violation, ...]:
    """What the checks find on a page; ``timed_out`` are the ranks that the input shows to have timed out."""
    page = page_parts.read(html)
    found = ((name, detail) for name, check in CHECKS.items() for detail in check(page, timed_out))
    return tuple(Violation(job, name, detail) for name, detail in found)


def timed_out(incident: Incident) -> frozenset[int]:
    """The ranks that the input shows to have timed out."""
    return frozenset(e.rank for e in incident.case.events if e.symbol == "timeout" and e.rank is not None)


_CALL = re.compile(r"\b([A-Z][A-Z_]{2,}) #(\d+)")
_RANKS = r"[Rr]anks? (?P<ranks>\d[\d, -]*)(?: and (?P<more>\d+))?"
_CALLED = re.compile(
    _RANKS
    + r"(?: \([^)]*\))? (?:probably )?(?:called|issued|entered|made|(?:is|are|was|were) (?:stuck )?in|stopped in) "
    r"(?P<op>[A-Z][A-Z_]{2,})(?: #(?P<seq>\d+))?"
)
_LACKS = re.compile(
    _RANKS + r"(?: \([^)]*\))? (?:probably )?(?:never reached|skipped|missed|left out) (?P<op>[A-Z_]{3,}) #(?P<seq>\d+)"
)


def _named(match: re.Match[str]) -> frozenset[int]:
    return ranks_of(match["ranks"]) | ranks_of(match["more"] or "")


def _call_in(text: str) -> tuple[str, str] | None:
    found = _CALL.search(text)
    return (found[1], found[2]) if found else None


def same_call(page: Page, _: frozenset[int]) -> Iterator[str]:
    """The call of a culprit is the same in the table, the bar, the graph and the headline."""
    for rank in sorted(page.blamed):
        row = page.row_of(rank)
        shapes = (("bar", page.bars), ("graph", page.graph.boxes if page.graph else ()))
        places = {"table": row.cells.get("Where", "")} if row else {}
        places |= {name: s.text for name, shown in shapes for s in shown if rank in s.ranks and "…" not in s.text}
        calls = {name: _call_in(text) for name, text in places.items()}
        if len(set(calls.values())) > 1 and "in several calls" not in places.get("graph", ""):
            yield f"rank {rank}: {', '.join(f'{name} {call}' for name, call in calls.items())}"
        known = next((call for call in calls.values() if call), None)
        if known is None:
            continue
        said = [m for m in _CALLED.finditer(page.headline) if rank in _named(m)]
        if said and not any(m["op"] == known[0] and m["seq"] in (known[1], None) for m in said):
            yield f"rank {rank}: headline {said[0]['op']} #{said[0]['seq']}, else {known}"
        lacking = [m for m in _LACKS.finditer(page.headline) if rank in _named(m)]
        if any((m["op"], m["seq"]) == known and _is_same_group(page, row, m) for m in lacking):
            yield f"rank {rank}: never reached {known} and stands in it"


def _is_same_group(page: Page, row: Row | None, match: re.Match[str]) -> bool:
    group = page.headline[match.end() :].removeprefix(" of ")
    where = row.cells.get("Where", "") if row else ""
    return group.startswith(where.split(" · ")[0]) or " of " not in page.headline[match.end() : match.end() + 4]


_WAITING = ("waiting", "blocked", "crowd")


def blocked_count(page: Page, _: frozenset[int]) -> Iterator[str]:
    """As many ranks are blocked as stand in rows that are neither at fault nor uninvolved; one call is theirs where it says so."""
    value, detail = page.facts.get("Blocked", ("", ""))
    rows = [row for row in page.rows if row.tone in _WAITING]
    waiting = sum(len(row.ranks) for row in rows)
    number = re.match(r"([\d,]+)", value)
    if page.rows and value not in ("", "the whole group") and detail != "in calls that differ":
        told = int(number[1].replace(",", "")) if number else 0
        if told != waiting:
            yield f"{value}, and {waiting} ranks wait in the table"
        parts = re.search(r"([\d,]+) directly, ([\d,]+) behind", detail)
        if parts and sum(int(n.replace(",", "")) for n in parts.groups()) != told:
            yield f"{value}, and {parts[0]}"
    lede = re.search(r"([\d,]+) ranks? (?:was|were|is|are) blocked (in or behind|in) ([A-Z_]+ #\d+)", page.lede)
    if lede and page.rows and int(lede[1].replace(",", "")) != waiting and "independent hangs" not in page.status:
        yield f"lede {lede[1]} ranks, table {waiting}"
    if lede and lede[2] == "in":
        others = [c for row in rows if (c := _CALL.search(row.cells.get("Where", ""))) and c[0] != lede[3]]
        yield from (f"lede all in {lede[3]}, table {other[0]}" for other in others[:1])


def timed_out_is_involved(page: Page, timed_out: frozenset[int]) -> Iterator[str]:
    """No rank that timed out is called uninvolved."""
    for row in page.rows:
        if row.tone == "uninvolved" and row.ranks & timed_out:
            yield f"ranks {sorted(row.ranks & timed_out)[:8]} timed out"


def graph_parts(page: Page, _: frozenset[int]) -> Iterator[str]:
    """The graph falls into as many parts as there are hangs; ranks may join two, if each hang has victims of its own."""
    if page.graph is None:
        return
    said = re.search(r"(\d+) independent hangs", f"{page.status} {page.headline}")
    hangs, parts = int(said[1]) if said else 1, _parts(page.graph)
    if parts > hangs or (parts < hangs and not _has_own_victims(page.graph, hangs)):
        yield f"{parts} parts for {hangs} hangs: {[box.text for box in page.graph.boxes]}"


def _has_own_victims(graph: Graph, hangs: int) -> bool:
    """True where each of so many culprits has a box that waits, in the end, for it alone."""
    culprits, reach = {n for n, box in enumerate(graph.boxes) if box.is_blamed}, _reach(graph)
    own = [any(there & culprits == {culprit} for there in reach.values()) for culprit in culprits]
    return len(own) >= hangs and all(own)


def _parts(graph: Graph) -> int:
    part = list(range(len(graph.boxes)))
    for here, there in graph.arrows:
        old, new = part[here], part[there]
        part = [new if one == old else one for one in part]
    return len(set(part))


def _exit_shown(page: Page) -> bool:
    rows = [row for rank in page.culprits if (row := page.row_of(rank))]
    return any(row.cells.get("Ended by") for row in rows) or any(
        re.search(r"exit ?code|exited with", e.quote) and _shows(e, page.culprits) for e in page.exhibits
    )


def _has_later_line(page: Page) -> bool:
    return any(side.rank in page.culprits and side.has_later for side in page.last_lines)


def _has_call(page: Page) -> bool:
    said = re.search(r"(?:record of|entry for|entry for the|reached) ([A-Z_]+ #\d+)", page.refuted_by)
    rows = [row for rank in page.culprits if (row := page.row_of(rank))]
    return said is not None and any(said[1] in row.cells.get("Where", "") for row in rows)


def _raised_by_others(page: Page) -> bool:
    names = [set(re.findall(r"\b\w+(?:Error|Exception)\b", e.quote)) for e in page.exhibits]
    of_others = [n for n, e in zip(names, page.exhibits, strict=True) if not _shows(e, page.culprits)]
    of_culprits = [n for n, e in zip(names, page.exhibits, strict=True) if _shows(e, page.culprits)]
    return any(a & b for a in of_others for b in of_culprits)


REFUTED: tuple[tuple[str, Callable[[Page], bool]], ...] = (
    (r"an exit record$|or an exit record", _exit_shown),
    (r"exited before the stall", lambda page: bool(re.search(r"exited|was killed|ended by", page.headline))),
    (r"left a line, a dump or a stack from after the (?:stall began|exit)|left a line", _has_later_line),
    (r"a shift by one", lambda page: bool(re.search(r"also match|off by one", page.text.replace(page.refuted_by, "")))),
    (r"(?:record of|entry for|reached) [A-Z_]+ #\d+", _has_call),
    (r"raised it, too|hit it and kept", _raised_by_others),
    (r"the rank never reached", lambda page: "never reached" in page.headline),
    (r"a log of any of these ranks", lambda page: any(side.rank in page.culprits for side in page.last_lines)),
)
"""What a page may say would prove it wrong, and when the page itself shows that."""


def _is_full(count: str) -> bool:
    found, _, expected = count.partition(" / ")
    return found == expected


def refuted(page: Page, _: frozenset[int]) -> Iterator[str]:
    """Nothing that would prove the verdict wrong is true on the page."""
    for pattern, is_true in REFUTED:
        if re.search(pattern, page.refuted_by) and is_true(page):
            yield f"{page.refuted_by}: the page shows it"


def unknown_but_shown(page: Page, _: frozenset[int]) -> Iterator[str]:
    """Nothing is called unknown or unseen that another line of the page shows."""
    rows = [row for rank in sorted(page.blamed) if (row := page.row_of(rank))]
    detail = next(iter(page.facts.values()), ("", ""))[1]
    if "host unknown" in detail and (hosts := [row.cells["Hosts"] for row in rows if row.cells.get("Hosts")]):
        yield f"host unknown, and {hosts[0]} in the table"
    about = {e.id: re.search(_RANKS, e.claim) for e in page.exhibits}
    stacked = [e for e in page.exhibits if (m := about[e.id]) and _named(m) & page.blamed and _is_stack(e)]
    for text in re.findall(r"\bNo (?:file|stack|log line)[^.]*\bshows?[^.]*\.", page.text):
        if stacked and re.search(r"what rank|doing|silent", text):
            yield f"{text.strip()} Exhibit {stacked[0].id} shows a stack"
        if "silent" in text and _has_later_line(page):
            yield f"{text.strip()} The last lines show a later one"
        if "exit record" in text and rows and any(row.cells.get("Ended by") for row in rows) and "No stack" in text:
            yield f"{text.strip()} The table shows an exit"
    quoted = {rank for side in page.last_lines for rank in [side.rank]}
    for text in re.findall(r"We parsed no log line of [^.]*\.", page.text):
        about = ranks_of("".join(re.findall(r"ranks? ([\d, -]+)", text)))
        named = [(e, re.match(_RANKS, e.claim)) for e in page.exhibits if not e.is_table]
        logs = [e for e, match in named if match is not None and _named(match) & about]
        if about & quoted or any(re.search(r"\.(?:log|out|err|txt)\b", e.source) and not _is_stack(e) for e in logs):
            yield f"{text} Exhibit {logs[0].id if logs else ''} quotes one"
    stalled = page.facts.get("Stalled for", ("", ""))
    if stalled[0] == "unknown" and re.search(
        r"timed out after|blocked for \d|\bfor \d+ (?:s|min|h)\b", f"{page.headline} {page.lede}"
    ):
        yield f"stalled for unknown, and {page.lede}"
    if page.facts.get("Blocked", ("", ""))[0] == "unknown" and any(row.tone in _WAITING for row in page.rows):
        yield "blocked unknown, and the table has ranks that wait"


def _is_stack(exhibit: Exhibit) -> bool:
    return bool(re.search(r'^\s*File "[^"]+", line \d|Thread (?:0x|\d+ \()|^\s+\w+ \(\S+:\d+\)', exhibit.quote, re.M))


def cycle_only(page: Page, _: frozenset[int]) -> Iterator[str]:
    """What is called a cycle has one; ranks that wait for each other are not the same ranks."""
    graph = page.cycle or page.graph
    titles = [title for title in page.headings if re.search(r"\bcycle\b|\bdeadlock\b", title, re.I)]
    if page.cycle is not None and any("cycle" in t.lower() for t in titles) and not _has_cycle(page.cycle):
        yield f"{titles[0]}: {page.cycle.sub}"
    if graph is None or not (both := re.match(r"(.+) and (.+) wait for each other", graph.sub)):
        return
    if both[1].lower() == both[2].lower():
        yield graph.sub
    if not _has_cycle(graph):
        yield f"{graph.sub} No arrow leads back"


def _has_cycle(graph: Graph) -> bool:
    return any(here in there for here, there in _reach(graph).items())


def _reach(graph: Graph) -> dict[int, set[int]]:
    """The boxes that each box waits for, directly or behind others."""
    reach = {here: {b for a, b in graph.arrows if a == here} for here in range(len(graph.boxes))}
    for _ in graph.boxes:
        reach = {here: there | {c for b in there for c in reach[b]} for here, there in reach.items()}
    return reach


def _shows(exhibit: Exhibit, ranks: frozenset[int]) -> bool:
    """True where the exhibit is about one of these ranks, by its claim or what stands around the quote."""
    named = [m for text in (exhibit.claim, exhibit.context) for m in re.finditer(_RANKS, text)]
    return bool(ranks & frozenset(rank for m in named for rank in _named(m)))


MANY = 3
"""Culprits that a proof of three exhibits can show one by one."""


def exhibits_of_culprits(page: Page, _: frozenset[int]) -> Iterator[str]:
    """Every culprit has an exhibit, or many share one."""
    culprits = sorted(page.culprits)
    if len(culprits) > MANY:
        culprits = culprits if not any(_shows(e, frozenset(culprits)) for e in page.exhibits) else []
    without = [
        rank
        for rank in culprits
        if not any(_shows(e, frozenset([rank])) or _holds_rank(e, rank) for e in page.exhibits)
    ]
    if without:
        yield f"no exhibit of rank {without[0]} among {[e.claim for e in page.exhibits]}"


_DTYPES = ("float16", "float32", "float64", "bfloat16", "int32", "int64", "Half", "BFloat16")


def marked_values(page: Page, _: frozenset[int]) -> Iterator[str]:
    """Every exhibit has a mark, shows every value of its claim, and marks those that stand in its lines."""
    for e in page.exhibits:
        marks = "\n".join(e.marks)
        if not marks.strip():
            yield f"{e.id}: no mark for: {e.claim}"
        for rank in _ranks_of_claim(e.claim):
            in_quote = bool(re.search(_rank_pattern(rank), e.quote))
            is_prefixed = bool(re.search(rf"(?m:^\W?{rank}: )", e.quote))
            if not (in_quote or is_prefixed or _names_rank(e, rank)):
                yield f"{e.id}: lacks rank {rank} of: {e.claim}"
            elif in_quote and not e.is_table and not re.search(_rank_pattern(rank), marks):
                yield f"{e.id}: doesn't mark rank {rank} of: {e.claim}"
        for value, pattern in _values(re.sub(r"\bfloat\d+\b", "", e.claim) if "datatype" in e.quote else e.claim):
            if not re.search(pattern, f"{e.quote}\n{e.context}"):
                yield f"{e.id}: lacks {value} of: {e.claim}"
            elif not e.is_table and re.search(pattern, e.quote) and not re.search(pattern, marks):
                yield f"{e.id}: doesn't mark {value} of: {e.claim}"


def _names_rank(exhibit: Exhibit, rank: int) -> bool:
    """True where the path, the heads of a table or a note name the rank; a note by a value that stands in the quote."""
    numbered = rf"[/_.-]0*{rank}(?!\d)|(?i:rank|process){rank}(?!\d)"  # files, and pods and hosts in a quote
    if re.search(numbered, exhibit.source) or re.search(rf"[a-z\d]-{rank}\.[a-z]", exhibit.quote):
        return True
    note = re.search(rf"Rank {rank} is ([^.]*(?:\.\d[^.]*)*)\.", exhibit.context)
    if note:
        return any(value in f"{exhibit.quote} {exhibit.source}" for value in re.findall(r"[\w:.-]*\d[\w:.-]*", note[1]))
    return rank in {r for m in re.finditer(_RANKS, exhibit.context) for r in _named(m)} or (
        exhibit.is_table and bool(re.search(rf"rank {rank}\b", exhibit.context))
    )


def _holds_rank(exhibit: Exhibit, rank: int) -> bool:
    return bool(re.search(_rank_pattern(rank), exhibit.quote)) or _names_rank(exhibit, rank)


def _rank_pattern(rank: int) -> str:
    nouns = r"(?:(?:local)?ranks?|process(?:es)?|worker|tasks?|names|nodes are|TP)"
    return (
        rf"(?i:(?<![A-Za-z]){nouns}[^\w\n]{{0,12}}(?:\d+[, -]+)*{rank}(?![\d.]))|(?:rank|\[r){rank}(?!\d)"
        rf"|\[{rank}\] (?=is|via|finished)|(?m:\[{rank}\]$)"
    )


def _ranks_of_claim(claim: str) -> list[int]:
    """The single ranks that a claim says something of, without those that it misses somewhere."""
    matches = re.finditer(r"(?<!not )" + _RANKS, re.sub(r"\(rank \d+ of [^)]*\)", "", claim))
    return [rank for match in matches for rank in _named(match) if len(_named(match)) == 1]


def _values(claim: str) -> Iterator[tuple[str, str]]:
    """The numbers, operations and data types that a claim states, each with what a record writes for it."""
    for number in re.findall(r"(?<!group )#(\d+)", claim):
        yield f"#{number}", rf"(?<!\d)(?:{number}|{int(number):,}|(?:opCount |0x){int(number):x})(?![\w,]\d)"
    for op in re.findall(r"\b[A-Z][A-Z_]{3,}\b(?= #\d| of)", claim):
        yield op, "(?i:" + "_?".join(op.replace("_", "")) + ")"
    for dtype in _DTYPES:
        if re.search(rf"\b{dtype}\b", claim):
            yield dtype, rf"(?i:{dtype})"


def commands_once(page: Page, _: frozenset[int]) -> Iterator[str]:
    """No command and no step stands twice, and no fix repeats a step."""
    for texts in ([s.command for s in page.steps if s.command], [s.text for s in page.steps]):
        yield from (f"twice: {text}" for text, count in Counter(texts).items() if count > 1)
    said = {s.text.rstrip(".") for s in page.steps} | {s.detail.rstrip(".") for s in page.steps if s.detail}
    yield from (f"repeats a step: {text}" for text in page.fixes if text.rstrip(".") in said)


_HOSTS = (r"^([a-z][\w.-]*):\d+:\d+ \[\d+\] NCCL", r"^\s*host\s+: ([\w.-]+)", r"remote=\[([a-z][\w.-]*)\]:\d+")


def host_is_used(page: Page, _: frozenset[int]) -> Iterator[str]:
    """No command asks for the host of a rank that the page names."""
    for rank in {int(n) for n in re.findall(r"HOST_OF_RANK_(\d+)", page.text)}:
        row = page.row_of(rank)
        about = [e for e in page.exhibits if _shows(e, frozenset([rank]))]
        hosts = [m for e in about for p in _HOSTS for m in re.findall(p, e.quote, re.M)]
        hosts += [row.cells["Hosts"]] if row and row.cells.get("Hosts") else []
        if hosts:
            yield f"HOST_OF_RANK_{rank}, and the page names {hosts[0]}"


def nothing_asked_again(page: Page, _: frozenset[int]) -> Iterator[str]:
    """No step asks for a file that was read already."""
    shown = "\n".join([page.headline, *(e.quote for e in page.exhibits), *(side.text for side in page.last_lines)])
    for step in page.steps:
        told = f"{step.text} {step.detail}"
        fetch = re.search(
            r"(?:Collect|Send|Fetch|Get) (?:these files: )?the (logs?|dumps?|stacks?)\b.*?of " + _RANKS, step.text
        )
        if fetch:
            row = next(
                (
                    v
                    for k, v in page.inputs.items()
                    if k.startswith({"l": "logs", "d": "flight", "s": "stack"}[fetch[1][0]])
                ),
                "",
            )
            if row and " / " in row and _is_full(row) and "more" not in step.text:
                yield f"{step.text} Input: {row}"
        if re.search(r"whether the kernel killed|for an OOM kill", told) and re.search(
            r"(?i)oom-kill|Out of memory: Kill", shown
        ):
            yield f"{step.text} A quoted line shows it"
        if re.search(r"Read the log .*first error", told) and re.search(r"Traceback|\w+Error:", shown):
            yield f"{step.text} An exhibit is that error"
        stack = re.search(
            r"No stack of "
            + _RANKS
            + r"|No file shows what "
            + _RANKS.replace("?P<ranks>", "").replace("?P<more>", ""),
            told,
        )
        if stack and any(_is_stack(e) and _shows(e, page.blamed) for e in page.exhibits):
            yield f"{step.text} An exhibit is a stack"


def more_than_one_exhibit(page: Page, _: frozenset[int]) -> Iterator[str]:
    """High confidence in ranks at fault shows two exhibits or more."""
    if "High confidence" in page.status and page.culprits and len(page.exhibits) < 2:
        yield f"{len(page.exhibits)} exhibits: {[e.claim for e in page.exhibits]}"


def no_empty_words(page: Page, _: frozenset[int]) -> Iterator[str]:
    """No picture is labelled with the absence of a record."""
    count = page.text.count("no record of a call")
    if count:
        yield f"{count} times"


Check = Callable[[Page, frozenset[int]], Iterator[str]]

CHECKS: dict[str, Check] = {
    "same call": same_call,
    "blocked count": blocked_count,
    "timed out": timed_out_is_involved,
    "parts of the graph": graph_parts,
    "refuted by": refuted,
    "unknown but shown": unknown_but_shown,
    "cycle": cycle_only,
    "exhibit of a culprit": exhibits_of_culprits,
    "marked values": marked_values,
    "command twice": commands_once,
    "host": host_is_used,
    "asked again": nothing_asked_again,
    "one exhibit": more_than_one_exhibit,
    "no record of a call": no_empty_words,
}
"""Each check by its name."""
