"""Advice in notes that lie beside a job, and variables and options in its scripts.

Write-ups and scripts travel in the folders of an incident.
Advice is no setting: nothing says that it was followed. It is told apart from log lines, which give advice too, by a
line that no logger marked and by its backticks.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Note, Setting
from nccldoctor.parsers.base import Line, Need, common, reads
from nccldoctor.parsers.rows import Table, needs_of
from nccldoctor.patterns import lazy

_MOST = 40
"""Events taken from one line."""


_ADVISED = lazy(
    r"`(?:export )?(?P<name>(?:TORCH_)?NCCL_[A-Z0-9_]{2,60})(?:=(?P<value>[^`\s]{1,80}))?`(?P<rest>[^\n]{0,120})"
)
_SET_TO = lazy(r"^[:\s]{0,4}(?:[Ss]et to|[Ii]ncreased? to|=) (?P<value>[\w.]{1,20})")

_TABLE = Table(__file__)


@reads(*_TABLE.literals, needs=(_ADVISED, *needs_of(_TABLE.rows)))
def advice(line: Line) -> Iterator[Event]:
    """Variables and remedies that a note recommends: ``detail`` is ``NCCL_TIMEOUT=1200000`` or the remedy's name."""
    if line.mark.is_logged:
        return
    details = [str(row.values["what"]) for row in _TABLE.rows if row.first_match(line.body[:2000])]
    for match in _ADVISED.finditer(line.body[:4000]):
        value = match["value"] or (setting["value"] if (setting := _SET_TO.search(match["rest"])) else "")
        details.append(f"{match['name']}={value}" if value else match["name"])
    for detail in list(dict.fromkeys(details))[:_MOST]:
        yield Note(**common(line), what="advice", detail=detail)


_VARIABLE = r"(?:(?:TORCH_)?NCCL|GLOO|TORCH)_[A-Z0-9_]{2,60}"

_READING = lazy(
    rf"(?:environ\.get\(|getenv\(|environ\[)\s{{0,4}}['\"](?P<name>{_VARIABLE})['\"]\s{{0,4}}(?P<end>[,)]|\](?!\s{{0,4}}=(?!=)))"
    rf"|\$\{{?(?P<shell>{_VARIABLE})\b"
)


@reads("environ.get(", "getenv(", "environ[", "${NCCL_", "$NCCL_", "${TORCH_NCCL_", "$TORCH_NCCL_", needs=(_READING,))
def variables_read(line: Line) -> Iterator[Event]:
    """Places where the job's own code reads a variable: such a variable is not without effect, whoever else
    ignores it.
    """
    names = [match["name"] or match["shell"] for match in _READING.finditer(line.body[:4000])]
    for name in list(dict.fromkeys(names))[:_MOST]:
        yield Note(**common(line), what="reads-variable", detail=name)


_OPTIONS = (
    "find_unused_parameters",
    "broadcast_buffers",
    "bucket_cap_mb",
    "gradient_as_bucket_view",
    "static_graph",
    "device_id",
)


_OPTION = lazy(
    rf"(?<![\w.`])(?P<tick>`?)(?P<name>{'|'.join(_OPTIONS)})\s?=\s?"
    r"(?P<value>True|False|\d{1,6}|torch\.device\([^()\n]{0,80}\)|[\w.]{1,60})"
)

_SPECIFIED = "was specified"
"""What loggers say of an option that is set."""


@reads(
    *tuple(f"{name}=" for name in _OPTIONS), needs=(Need((), _OPTION, is_unlogged=True), Need((_SPECIFIED,), _OPTION))
)
def code_option(line: Line) -> Iterator[Event]:
    """Options of DistributedDataParallel, and ``device_id`` of the process group, each once. Loggers only warn of those that are set."""
    body = line.body[:4000]
    if (line.mark.is_logged and _SPECIFIED not in body) or "keyword argument" in body:
        return
    seen: set[str] = set()
    for match in _OPTION.finditer(body):
        if match["name"] not in seen:
            seen.add(match["name"])
            yield Setting(**common(line), name=match["name"], value=match["value"])
