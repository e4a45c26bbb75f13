"""Reads host and time of a kernel line in the forms of dmesg, syslog and the journal.

``[12345.678901] msg`` and ``<3>[12345.6] msg`` (seconds since boot: no time of day), ``[Sun Oct 11 18:01:05 2026]
msg`` (``dmesg -T``), ``2026-10-11T18:01:05,123456+02:00 msg`` (``dmesg --time-format iso``), ``Oct 11 18:01:05 host
kernel: msg`` (syslog, journal), ``2026-10-11T18:01:05.123+02:00 host kernel: msg`` (newer syslog). Sources:
util-linux ``sys-utils/dmesg.c``, RFC 3164, RFC 5424.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.line_prefix.timestamps import printed_time
from nccldoctor.parsers.rows import Table, for_rows
from nccldoctor.patterns import lazy

_FORMS = tuple(Table(__file__).patterns().values())
"""``dmesg -T``, syslog and journal, ISO."""


def kernel_fields(line: Line, **more: Any) -> dict[str, Any]:
    """The common fields of a kernel line's event, with its own time, and its own host or the file's."""
    mark = line.mark
    groups = next((hit.groupdict() for form in _FORMS if (hit := form.search(line.raw[:200]))), {})
    host = groups.get("host")
    return common(
        line,
        host=(host if host not in ("localhost", "kernel") else None) or mark.host or host_in_name(line.place.path),
        time=mark.time or printed_time(groups) or mark.collected,  # syslog has no year, 1900 stands for it
        rank=None,
        **more,
    )


@for_rows
def kernel_line(line: Line, hit: re.Match[str]) -> dict[str, Any]:
    """The common fields of a line of the kernel, whose process is not that of a rank."""
    return kernel_fields(line, pid=None)


_LOG_WORDS = lazy(
    r"(?:^|[._\-])(?:dmesg|kern(?:el)?|kmsg|journal(?:ctl)?|syslog|messages|log|txt|out|gz)(?=$|[._\-])", re.IGNORECASE
)


def host_in_name(path: str) -> str | None:
    """The host in the name of a kernel log: ``gpu-18.dmesg.txt``, ``dmesg_node3.log``, ``node3/dmesg``; None where
    there is none.

    Only a file that calls itself a kernel log is read this way, and only a rest with a digit is a host.
    """
    name = PurePosixPath(path).name
    if not re.search(r"dmesg|kern|kmsg|journal|syslog|messages", name, re.IGNORECASE):
        return None
    rest = name
    while (shorter := _LOG_WORDS.sub("", rest).strip("._-")) != rest:
        rest = shorter
    if any(c.isdigit() for c in rest):
        return rest
    folder = PurePosixPath(path).parent.name
    return folder if not rest and any(c.isdigit() for c in folder) else None


_STAMP = lazy(
    r"(?:<\d{1,3}>)?(?:\[ {0,6}\d{1,9}\.\d{6}\]"
    r"|\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4}\]"
    r"|(?:[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,:Z+-]{0,16}) [\w.\-]{1,120} kernel:) "
)
_SUBSYSTEM = lazy(r" {0,2}[A-Za-z][\w.\-/(): ]{0,40}(?:\[\d{1,10}\])?: ")

_NAMED = lazy(r"(?:^|[/._\-])(?:dmesg|kmsg|kern(?:el)?\.log)(?=$|[/._\-])", re.IGNORECASE)
_REFUSED = lazy(r"\s{0,9}(?:dmesg|sudo|bash|sh|ssh|cat|timeout): ")
"""What is left where nobody may read the kernel's buffer."""


def is_rest_of_kernel_log(path: str, text: str) -> bool:
    """True of a file that calls itself a kernel log, and has hardly a whole line of one.

    Most lines have neither a stamp nor a subsystem: they lost their beginnings: ``name=<unknown>, GPU has fallen off the bus.``
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or _NAMED.search(path) is None or _REFUSED.match(lines[0]):
        return False
    whole = sum(
        1 for line in lines if _SUBSYSTEM.match(line) or _STAMP.match(line) or any(f.match(line) for f in _FORMS)
    )
    return 2 * whole < len(lines)


def is_kernel_log(head: bytes) -> bool:
    """True where all whole lines have the stamps of dmesg or of a kernel's syslog, and most name a subsystem.

    What a healthy kernel says tells nothing of the job, but that it was read: ``[Tue Dec  2 01:29:45 2025] systemd[1]: Started …``.
    """
    text = head[:8192].decode("utf-8", "replace")
    whole = text if len(head) <= 8192 else text.rpartition("\n")[0]
    lines = [line for line in whole.splitlines() if line.strip()]
    stamps = [_STAMP.match(line) for line in lines]
    told = [line[stamp.end() :] for line, stamp in zip(lines, stamps, strict=True) if stamp]
    named = sum(bool(_SUBSYSTEM.match(line)) for line in told)
    return len(lines) > 1 and len(told) == len(lines) and 2 * named >= len(lines)
