"""What ``nccldoctor.capture`` says of itself in a rank's log: it watches, and it asks for looks (``nccldoctor/capture/session.py``)."""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import CaptureNotice, Event
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_SAYS = lazy(
    r"\bnccldoctor\.capture (?:watches this rank|asks all ranks for look (?P<look>20\d{6}T\d{6}Z), to be answered within (?P<s>\d{1,6}) s)"
)


@line_parser
class CaptureNotices(LineParser):
    """*capture*: the rank is under capture, or it asks all ranks for their stacks."""

    literals = ("nccldoctor.capture ",)

    def parse(self, line: Line) -> Iterator[Event]:
        """The look, and how long the others have."""
        if (hit := _SAYS.search(line.body)) is not None:
            yield CaptureNotice(**common(line), look=hit["look"], within_s=int(hit["s"]) if hit["s"] else None)
