"""Connections of the collectives of AWS Neuron (Trainium) that never came up.

Source: logs of libnccom in public reports (2023): NCCL's messages behind ``CCOM WARN``. The number in brackets is a core of the host.
"""

from __future__ import annotations

from nccldoctor.events import StoreError
from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import Row, RowParser


@line_parser
class NeuronSetUp(RowParser):
    """*store-error*: a process waited in vain for the connection of a peer. A wait that is repeated is none."""

    event = StoreError
    rows = (
        Row(
            " CCOM WARN ",
            r"bootstrap\.cc:\d{1,6} CCOM WARN Timeout waiting for incoming connection \(waited \d{1,6} sec\)",
            operation="set-up",
        ),
    )
