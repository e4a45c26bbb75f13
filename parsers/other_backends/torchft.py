"""torchft's lighthouse, which waits until enough replica groups take part in the next step.

Source: torchft ``src/lighthouse.rs`` 0.1 (2025 to 2026).
"""

from __future__ import annotations

from nccldoctor.events import AbsenceWarning
from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import Row, RowParser


@line_parser
class Lighthouse(RowParser):
    """*absence-warning*: how many replica groups take part, and how many the lighthouse wants."""

    event = AbsenceWarning
    rows = (
        Row(
            (" quorum not ready, only have ", "No quorum, only have "),
            r"quorum(?: not ready)?, only have (?P<arrived>\d{1,7}) participants, need (?:min_replicas |at least half of )?"
            r"(?P<size>\d{1,7})",
            by="torchft",
            what="quorum",
        ),
    )
