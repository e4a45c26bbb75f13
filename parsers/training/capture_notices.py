"""What ``nccldoctor.capture`` says of itself in a rank's log: it watches, and it asks for looks (``nccldoctor/capture/session.py``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import CaptureNotice, Event
from nccldoctor.parsers.base import Line, common, finds
from nccldoctor.patterns import lazy

_SAYS = lazy(
    r"\bnccldoctor\.capture (?:watches this rank|asks all ranks for look (?P<look>20\d{6}T\d{6}Z), to be answered within (?P<s>\d{1,6}) s)"
)


@finds(_SAYS, "nccldoctor.capture ")
def capture_notices(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*capture*: the rank is under capture, or it asks all ranks for their stacks.

    The look, and how long the others have.
    """
    yield CaptureNotice(**common(line), look=hit["look"], within_s=int(hit["s"]) if hit["s"] else None)
