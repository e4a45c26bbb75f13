"""NCCL errors as PyTorch prints them: a few lines, in an exception, a watchdog's last words or ``what()``.

pytorch ``torch/csrc/distributed/c10d/NCCLUtils.cpp`` and ``.hpp`` (1.8 to 2.13); strings from NCCL ``src/init.cc``. Others name
the function that failed: horovod ``common/ops/nccl_operations.cc``, xla ``backends/gpu/collectives/nccl_errors.h``; TensorFlow
(``core/nccl/nccl_manager.cc``) only says ``NCCL: …``.
The errors of ``raised the following async exception`` are told where the watchdog's lines are read.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, NcclError
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.nccl.topics import topic_of
from nccldoctor.parsers.rows import Table, for_rows
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_STRINGS: dict[str, str] = _TABLE.data["codes"]
_ELSEWHERE = ("following async exception", "found async exception", "Received NCCL errors for")
_HEADS = ("NCCL error", "NCCL timeout", "NCCL Error", *_ELSEWHERE)
_MESSAGE = 400

_PATTERNS = _TABLE.patterns()
_BEGINS = _PATTERNS["begins"]
_LAST = lazy(r"Last NCCL warning\(error\) log entry \(may be unrelated\) '(?P<last>[^']{1,300})'")
"""The last warning of the process, as XLA adds it to its error."""

_HEADLESS = lazy(r"\bnccl(?:UnhandledCuda|System|Internal|InvalidArgument|InvalidUsage|Remote)(?:Error)?: (?=[A-Z])")
"""The second line of an error, where the first one is cut off."""

_REPORTER = lazy(r"\bRank (\d{1,7})\] [^\[\]]{0,200}$")


@reads(*_TABLE.literals, needs=(_BEGINS, _HEADLESS))
def nccl_errors(line: Line) -> Iterator[Event]:
    """``last_error`` is the last warning of that process and may be older. ``ncclRemoteError`` (before NCCL 2.13
    ``ncclSystemError``) says that a peer or the network went away: who prints it is a victim.
    """
    match = _BEGINS.search(line.body)
    if match is None and not any(head in above.body for above in line.preceding(6) for head in _HEADS):
        match = _HEADLESS.search(line.body)
    if match is None or _is_told(line) or _is_repeated(line, match[0]):
        return
    code, last = code_and_last_error(line)
    if last is None and (added := _LAST.search(line.body)):
        last = added["last"]
    here = _PATTERNS["code"].search(match[0])
    if code is None:
        code = here[0] if here else code_of_words(match[0])
    if code is None and "timeout in" in match[0]:
        code = "ncclTimeout"
    inside = _REPORTER.search(line.body[: match.start()])
    group_rank = int(inside[1]) if inside else None
    yield NcclError(
        **common(line, group_rank=group_rank),
        code=code,
        message=match[0].strip()[:_MESSAGE],
        last_error=last,
        topic=topic_of(last or ""),
    )


@for_rows
def code_of_words(text: str) -> str | None:
    """The code behind the words of ``ncclGetErrorString``: ``ncclSystemError`` for *unhandled system error*."""
    low = text.lower()
    return next((name for words, name in _STRINGS.items() if words in low), None)


def _is_told(line: Line) -> bool:
    """True when another parser reads this error: its announcement stands here, or up to two lines above."""
    above = (other.body for other in line.preceding(2)) if line.body.lstrip().startswith("NCCL error") else ()
    return any(words in text for text in (line.body, *above) for words in _ELSEWHERE)


def _is_repeated(line: Line, message: str) -> bool:
    """True for the ``what()`` of an exception that the same process printed just before."""
    return "what():" in line.body and any(message in earlier.body for earlier in line.preceding(60))


def code_and_last_error(line: Line) -> tuple[str | None, str | None]:
    """The code and the last error on the lines below; both end where the C++ stack begins."""
    code = last = None
    awaiting = False
    for below in line.following(8):
        text = below.body.strip()
        if text.startswith(("Exception raised from", "frame #", "Traceback ")) or below.mark.severity is not None:
            break
        if awaiting and text:
            last = text[:_MESSAGE]
            break
        if "Last error:" in text:
            rest = text.partition("Last error:")[2].strip()
            last = rest[:_MESSAGE] or None
            awaiting = not rest
        elif code is None and (match := _PATTERNS["code"].search(text)):
            code = match[0]
        if last:
            break
    return code, None if last == "Unknown NCCL Error" else last
