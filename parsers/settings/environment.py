"""Environment variables where they are set: shells, job scripts, containers, Python, dumps of an environment.

A mention is no setting: advice in error messages (``consider passing CUDA_LAUNCH_BLOCKING=1``), comments and prose
are passed over, which is why each form is tied to the shape of its line. Only variables of libraries that take part
in distributed training count; values with secret-looking names are masked, and the event's text holds the variable
alone, not its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nccldoctor.events import Event, Setting
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import Table
from nccldoctor.words.secrets import MASK, is_secret, masked

_TABLE = Table(__file__)
_FORMS = _TABLE.patterns()
_NEEDED = ("assignment", "python", "mapping", "listed", "yaml", "spaced", "deprecated", "named")
"""Patterns of which one matches each line that sets a variable."""

_MOST = 400
"""Variables taken from one line, such as a printed ``os.environ``."""

_SCRIPT_COMMENTS = ("#SBATCH", "#PBS", "#BSUB", "#$ ", "#FLUX")
_PROSE: list[str] = _TABLE.data["prose"]
"""Words before an ``export`` that is advice."""


def shown_value(name: str, value: str) -> str:
    """The value without quotes, and masked where the name looks like a secret or an address holds a password."""
    text = value.strip().rstrip("\\").strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return MASK if is_secret(name) else masked(text)[:300]


@reads(*_TABLE.literals, needs=tuple(_FORMS[name] for name in _NEEDED))
def environment(line: Line) -> Iterator[Event]:
    """One event for each variable that a line sets, in order. The value is empty where the line says only that it is set."""
    seen: set[str] = set()
    for name, value in _assignments(line):
        if name in seen:
            continue
        seen.add(name)
        shown = shown_value(name, value)
        yield Setting(**common(line, text=f"{name}={shown}"), name=name, value=shown)
        if len(seen) == _MOST:
            return


def _assignments(line: Line) -> Iterator[tuple[str, str]]:
    """Names and values as written, in no particular order and perhaps twice; comments of scripts are passed over."""
    body = line.body
    if body.lstrip().startswith("#") and not body.lstrip().startswith(_SCRIPT_COMMENTS):
        return
    yield from _leading(body)
    for flag in _FORMS["flagged"].finditer(body):
        words = body[: flag.start()][-40:].lower().replace("`", " ").split()
        if flag[0][0] != "e" or (words[-1] if words else "") not in _PROSE:
            yield from _run(body, flag.end())[0]
    if "--export" in body and (hit := _FORMS["exported"].search(body)):
        for part in hit["list"].split(","):
            if assigned := _FORMS["assignment"].match(part.strip("\"'")):
                yield assigned["name"], assigned["value"]
    if "env" in body and (hit := _FORMS["python"].search(body)):
        yield hit["name"], hit["value"] if hit["value"][:1] in "\"'" else to_closing_bracket(hit["value"])
    for pair in _FORMS["mapping"].finditer(body):
        yield pair["name"] or pair["name2"], pair["value"] or pair["value2"]
    if "environments:" in body:
        yield from ((hit["name"], hit["value"]) for hit in _FORMS["listed"].finditer(body))
    for pattern in (_FORMS["yaml"], _FORMS["spaced"], _FORMS["deprecated"]):
        if hit := pattern.search(body[:1200]):
            yield hit["name"], hit.groupdict().get("value") or ""
    if hit := _FORMS["named"].search(body[:400]):
        values = (found["value"] for below in line.following(2) if (found := _FORMS["value"].search(below.body)))
        if value := next(values, None):
            yield hit["name"], value


def _leading(body: str) -> Iterable[tuple[str, str]]:
    """Assignments that begin the line and are followed by nothing, a comment, or a command."""
    lead = _FORMS["lead"].match(body)
    start = lead.end() if lead else 0
    pairs, end = _run(body, start)
    rest = body[end : end + 400].strip().strip('"')
    command = not rest or rest[0] in "#;&|\\" or _FORMS["commands"].match(rest) is not None
    if not pairs or not ((lead is not None and lead["word"]) or command):
        return ()
    return () if not rest and pairs[-1][1].endswith((".", ",")) else pairs


def _run(body: str, at: int) -> tuple[list[tuple[str, str]], int]:
    """Assignments one after the other from ``at`` on, and where they end."""
    pairs: list[tuple[str, str]] = []
    while len(pairs) < _MOST and (hit := _FORMS["assignment"].match(body, at)):
        pairs.append((hit["name"], hit["value"]))
        at = hit.end()
        while at < len(body) and body[at] in " \t":
            at += 1
    return pairs, at


def to_closing_bracket(value: str, ends: str = "") -> str:
    """A Python expression up to the bracket that closes the call around it. ``ends`` are signs that end it too."""
    depth = 0
    for at, char in enumerate(value):
        depth += (char in "([{") - (char in ")]}")
        if depth < 0 or (depth == 0 and char in ends):
            return value[:at]
    return value
