"""Peels off what launchers, collectors, terminals and loggers put before the message of a line.

``read_mark`` takes them in any order and number (``[pod/w-0/pytorch] 2026-04-24T07:03:34Z [rank3]:[E424 …``), because
every layer of a job may add its own. What is left is the message, with the indent that belongs to it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.line_prefix.layouts import BY_FIRST, LAYOUTS, TAILS, PartialMark, severity
from nccldoctor.parsers.line_prefix.timestamps import completed, time_since_1970
from nccldoctor.parsers.rows import Table
from nccldoctor.patterns import lazy

SEPARATOR = " / "
"""Between the parts of ``Mark.stream``: what holds several writers, then the writer."""

_PATTERNS = Table(__file__).patterns()
_CODES = _PATTERNS["codes"]
_COLOUR = _PATTERNS["colour"]
STRONG = _PATTERNS["strong"]

_NCCL, _STAMP = LAYOUTS["nccl"], LAYOUTS["stamp"]
_LAYERS = 12  # more prefixes than any job has; bounds the work on lines that are nothing but prefixes
_GLUED = _PATTERNS["glued"]
_UNENDED = _PATTERNS["unended"]
_AGENT = "torch/distributed/elastic/"
"""Where the sources of torchrun's agent stand, which has no rank."""


def without_codes(text: str) -> str:
    """The text without codes of terminals (colour, cursor, title) and without NUL characters.

    A code may also be written ``^[[A`` (by viewers) or ``#033[0m`` (by rsyslog).
    """
    if "\x1b" in text or "^[[" in text or "#033[" in text or _COLOUR.search(text):
        text = _CODES.sub("", text)
    return text.replace("\x00", "").replace("\ufeff", "") if "\x00" in text or "\ufeff" in text else text


_REPEATED = lazy(r" ?\[repeated (\d{1,9})x across cluster\](?: \(Ray deduplicates logs[^\n]{0,300}\))?\s*$")
"""Ray's note that more actors printed the same line."""

_MESSAGE_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE", "body")
_TIME_KEYS = ("time", "timestamp", "@timestamp", "ts", "asctime")
_RANK_KEYS = ("rank", "global_rank", "RANK")


def unwrapped(raw: str) -> tuple[str, str]:
    """The message inside a JSON log line, and its collector's time as text.

    A rank that a field of the record names becomes the label of the message: ``[rank3]: …``. A line that is no JSON object with a
    message is given back itself, with "".
    """
    if not raw.startswith("{") or '"' not in raw[:3]:
        return raw, ""
    try:
        record: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return raw, ""
    keys = _MESSAGE_KEYS if isinstance(record, dict) else ()
    text = next((record[k] for k in keys if isinstance(record.get(k), str)), None)
    if text is None:
        return raw, ""
    when = next((record[k] for k in _TIME_KEYS if isinstance(record.get(k), str | int | float)), "")
    rank = next((str(record[k]) for k in _RANK_KEYS if type(record.get(k)) in (int, str)), "")
    if rank.isdecimal() and len(rank) < 8 and not text.startswith("[rank"):
        text = f"[rank{rank}]: {text}"
    return text.rstrip("\n"), when if isinstance(when, str) else time_since_1970(when)


def read_mark(raw: str) -> tuple[Mark, str]:
    """Peel off everything that launchers, collectors and loggers put in front; returns the mark and the message.

    The message keeps its own indent. A NCCL prefix (``host:pid:tid [dev] NCCL``) stays in the message, its host and
    process go to the mark. Never raises.
    """
    partial = PartialMark()
    text, when = unwrapped(raw)
    if text is not raw:
        text = without_codes(text)  # inside JSON the codes were escaped
    if when:
        _peel(partial, when)
        partial.collected, partial.time = partial.time, None
    at = _peel(partial, text)
    body = text[at:] if at > 0 else text
    if "[repeated " in body and (repeated := _REPEATED.search(body)):
        partial.repeated = int(repeated[1])
        body = body[: repeated.start()]
    return _NOBODY if at < 0 and partial.repeated == 1 and not when else _mark_of(partial), body


_NOBODY = Mark()
"""The mark of a line without any prefix, as most lines of progress are."""


def _peel(partial: PartialMark, text: str) -> int:
    """Take the prefixes of a line; returns where the message begins, -1 where there are none."""
    at = -1
    for _ in range(_LAYERS):
        start = max(at, 0)
        while start < len(text) and text[start] in " \t":
            start += 1
        end = _peel_one(partial, text, start) if start < len(text) else -1
        if end < 0:
            return at
        if partial.message:
            return end
        at = end
    return at


def _peel_one(partial: PartialMark, text: str, at: int) -> int:
    """Take one prefix at exactly this position; returns where it ends, -1 where there is none."""
    first = text[at]
    row = "0" if first.isdigit() else "A" if "A" <= first <= "Z" else "a" if "a" <= first <= "z" else first
    for layout in BY_FIRST.get(row, ()):
        m = layout.pattern.match(text, at)
        if m is None or (layout.weak and not STRONG.match(text, m.end())):
            continue
        layout.note(partial, m)
        partial.message = layout.before_message
        if layout is _NCCL:
            return at
        return _peel_tail(partial, text, m.end()) if layout is _STAMP else m.end()
    return -1


def _peel_tail(partial: PartialMark, text: str, at: int) -> int:
    """Take the logger's name and level behind a time, in one of their usual layouts."""
    begin = max(at - 1, 0) if text[at - 1 : at] == " " else at
    for pattern in TAILS:
        if m := pattern.match(text, begin):
            if m["level"]:
                partial.severity = severity(m["level"])
            return m.end()
    return at


def _mark_of(partial: PartialMark) -> Mark:
    if partial.time is not None and partial.collected is not None:
        partial.time = completed(partial.time, partial.collected)
    writer = partial.process
    if not writer and partial.rank is not None:
        writer = f"rank{partial.rank}"
    elif not writer and partial.pid is not None:
        writer = f"pid{partial.pid}"
    return Mark(
        rank=partial.rank, local_rank=partial.local_rank, task=partial.task, host=partial.host or partial.pod,
        pod=partial.pod, pid=partial.pid, stream=SEPARATOR.join([*partial.places, writer] if writer else partial.places),
        severity=partial.severity, file=partial.file, line=partial.line, time=partial.time,
        collected=partial.collected, repeated=partial.repeated, actor=partial.actor,
    )  # fmt: skip


_LABELS = (
    lazy(r"\s{0,8}(\d{1,6}|[A-Za-z0-9][\w.-]{0,62}):(?: |$)"),
    lazy(r"([a-z0-9][a-z0-9.]{0,60}-[a-z0-9.-]{1,190} [a-z][a-z0-9-]{0,62})(?: |$)"),
)
_BRACKETED = (lazy(r"\[(\d{1,6})\]:(?=.)"),)  # with nothing behind it: an entry of a launcher's table


def split_label(raw: str) -> tuple[str | None, str]:
    """The label of a line and its text; None and the line where there is no label.

    For files in which every line has one: ``12: text`` (``srun --label``), ``node7: text`` (pdsh), ``[12]:text`` (torchrun
    with a template) or ``pod-7 container text`` (stern).
    """
    for pattern in _BRACKETED if raw.startswith("[") else _LABELS:
        m = pattern.match(raw)
        if m is not None:
            return m[1], raw[m.end() :]
    return None, raw


def with_label(mark: Mark, label: str) -> Mark:
    """The mark of a line behind a label: a task number, a host, or a pod with its container."""
    task, place = (int(label), f"task{label}") if label.isdigit() else (None, label.replace(" ", "/"))
    name, blank, _ = label.partition(" ")
    return replace(
        mark,
        task=task if task is not None else mark.task,
        host=mark.host or (name if task is None else None),
        pod=mark.pod or (name if blank else None),
        stream=place + SEPARATOR + mark.stream if mark.stream else place,
    )


def merged_mark(outer: Mark, inner: Mark) -> Mark:
    """The mark of a record that begins inside a line: its own, completed by that of the line.

    Nothing is taken over from the mark of the line where that names another rank.
    """
    pairs = (outer.rank, inner.rank), (outer.local_rank, inner.local_rank)
    if any(a is not None and b is not None and a != b for a, b in pairs):
        return inner
    if inner.file is not None and inner.file.startswith(_AGENT):
        outer = replace(outer, rank=None, local_rank=None, stream="")  # the label is that of the rank whose bar it is
    streams = (outer.stream, "" if outer.stream.endswith(inner.stream) else inner.stream)
    stream = SEPARATOR.join(filter(None, streams))
    return replace(
        inner,
        rank=inner.rank if inner.rank is not None else outer.rank,
        local_rank=inner.local_rank if inner.local_rank is not None else outer.local_rank,
        task=inner.task if inner.task is not None else outer.task,
        host=inner.host or outer.host,
        pod=inner.pod or outer.pod,
        pid=inner.pid or outer.pid,
        actor=inner.actor or outer.actor,
        stream=stream,
        collected=inner.collected or outer.collected,
    )


def mark_inside(outer: Mark, inner: Mark) -> Mark:
    """The mark of a line inside a collector's record: its own, completed by the record's time, node and process."""
    mark = merged_mark(outer, inner)
    if mark.time is None or mark.collected is None or inner.collected is not None:
        return mark
    return replace(mark, time=completed(mark.time, mark.collected))


def records(raw: str) -> list[tuple[Mark, str]]:
    """Every record on one line: most lines hold one, but progress bars have no line end, and copies lose theirs."""
    mark, body = _mark_of_short(raw) if len(raw) < _SHORT else read_mark(raw)
    may_be_unended = "%|" in body or "db" in body or "/n" in body or "/N]" in body  # a bar, a prompt or a question
    unended = _UNENDED.match(body) if may_be_unended else None
    if unended and STRONG.match(body, unended.end()):
        behind = [(merged_mark(mark, inner), text) for inner, text in records(body[unended.end() :])]
        return [(mark, unended[0]), *behind]
    starts = [m.start() for m in _GLUED.finditer(body)] if _can_be_glued(body) else []
    if not starts:
        return [(mark, body)]
    out = [(mark, body[: starts[0]])] if body[: starts[0]].strip() else []
    for begin, end in zip(starts, [*starts[1:], len(body)], strict=True):
        inner, text = read_mark(body[begin:end])
        out.append((merged_mark(mark, inner), text))
    return out


_SHORT = 200
_mark_of_short = lru_cache(maxsize=1 << 12)(read_mark)
"""Frames of tracebacks and stacks come again and again."""


def _can_be_glued(body: str) -> bool:
    """True where a record may begin inside: at a label of a rank, or behind a bracket."""
    if "[rank" in body:
        return True
    at = body.find("] ")
    while at >= 0:
        if body[at - 1].isdecimal():
            _, colon, number = body[max(0, at - 7) : at].rpartition(":")
            if colon and number.isdecimal():
                return True
        at = body.find("] ", at + 1)
    return False


def can_continue(stream: str, of: str) -> bool:
    """True when a line of ``stream`` may come from the writer ``of``, or from the place that holds it."""
    return stream == of or not stream or of.startswith(stream + SEPARATOR)
