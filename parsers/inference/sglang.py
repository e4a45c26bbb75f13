"""SGLang's watchdogs: a scheduler that makes no step complains itself, and its parent takes the engine down.

Sources: sglang ``srt/utils/watchdog.py``, ``srt/managers/scheduler.py``, ``srt/entrypoints/engine.py`` and
``srt/entrypoints/http_server.py``, 0.4 to 0.5.
"""

from __future__ import annotations

from nccldoctor.events import AbsenceReport, AbsenceWarning, Note
from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import Row, RowParser

_WATCHDOG = r"(?:(?P<call>\w{1,60}) w|W)atchdog timeout \(self\.watchdog_timeout=(?P<seconds>\d{1,9})(?:\.\d{1,9})?"
_LITERAL = "atchdog timeout (self.watchdog_timeout="


@line_parser
class SglangWatchdog(RowParser):
    """*absence-report*, or *absence-warning* of a soft watchdog and of a health check, which leave the engine running."""

    event = AbsenceReport
    rows = (
        Row(_LITERAL, _WATCHDOG + r", self\.soft=True\)", AbsenceWarning, by="SGLang", what="step"),
        Row(_LITERAL, _WATCHDOG, by="SGLang", what="step"),
        Row(
            "Health check failed. Server couldn't get",
            r"couldn't get a response from detokenizer for last (?P<seconds>\d{1,7}) ?s",
            AbsenceWarning,
            by="SGLang",
            what="answer",
        ),
        Row(
            ("eceived sigquit from a child process", "SIGQUIT received. signum="),
            r"eceived sigquit from a child process|SIGQUIT received\. signum=",
            Note,
            what="engine-closes",
        ),
    )
