"""Reads notices of clouds that take a machine away: spot interruption, host maintenance, limits of a service.

Sources: EC2 instance metadata ``spot/instance-action`` and its EventBridge event; aws-node-termination-handler
``pkg/monitor/spotitn``; Karpenter ``disruption`` events; Compute Engine ``maintenance-event`` and audit-log names; SageMaker's
``SecondaryStatus``; the messages of Azure ML and Vertex AI.
"""

from __future__ import annotations

from nccldoctor.events import SchedulerEvent
from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import RowParser, Table


@line_parser
class CloudNotice(RowParser):
    """*scheduler* with what the cloud does to a machine, or to the job."""

    event = SchedulerEvent
    rows = Table(__file__).rows
    longest = 8_000
