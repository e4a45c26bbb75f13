"""How a rank ended, as the sidecar of ``nccldoctor.capture`` wrote it into the rank's log (``nccldoctor/capture/sidecar.py``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, ProcessExit
from nccldoctor.parsers.base import Line, common, finds
from nccldoctor.parsers.exit_codes import exit_and_signal
from nccldoctor.patterns import lazy

_END = lazy(
    r"\bprocess (?P<pid>\d{1,10}) (?:was killed by signal (?P<signal>\d{1,2}) \(SIG\w{1,10}\)|ended with exit code (?P<code>\d{1,3})"
    r"|ended without a last word), seen by nccldoctor\.capture"
)


@finds(_END, "seen by nccldoctor.capture")
def sidecar_report(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*process-exit* of a rank that could not write its last line itself; without a code where nobody could read it.

    The end of the process that the line names.
    """
    number = -int(hit["signal"]) if hit["signal"] else int(hit["code"]) if hit["code"] else None
    yield ProcessExit(
        **common(line, pid=int(hit["pid"])),
        **(exit_and_signal(number) if number is not None else {}),
        reporter="sidecar",
    )
