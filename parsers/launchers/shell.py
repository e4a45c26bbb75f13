"""What a shell prints when a command died by a signal (bash ``jobs.c``, dash, zsh)."""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, ProcessExit
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.exit_codes import WORDS, number_of, signal_named
from nccldoctor.patterns import lazy

_SHELL = lazy(
    rf"(?:: line \d{{1,7}}: {{1,6}}(?P<pid>\d{{1,10}}) (?P<signal>{WORDS})\b"
    rf"|^(?:\S{{1,100}}: )?(?P<alone>{WORDS})(?: \(core dumped\))?\s*$)"
)


@line_parser
class Shell(LineParser):
    """What a shell prints when a command died by a signal; *Killed* alone is often the host's memory."""

    literals = (
        "Killed",
        "Aborted",
        "Segmentation fault",
        "Bus error",
        "Illegal instruction",
        "Floating point exception",
        "Terminated",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """See :class:`LineParser`."""
        match = _SHELL.search(line.raw) if "line " in line.raw else _SHELL.search(line.body)
        if match is None:
            return
        signal = signal_named(match["signal"] or match["alone"])
        number = number_of(signal) if signal else None
        pid = int(match["pid"]) if match["pid"] else None
        code = 128 + number if number is not None else None
        yield ProcessExit(**common(line, pid=pid), exitcode=code, signal=signal, reporter="shell")
