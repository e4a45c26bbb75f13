"""Why Kubernetes ended a pod: ``kubectl describe``, ``kubectl get -o json|yaml``, events and kubelet lines.

Sources: kubernetes ``pkg/kubelet/eviction``, ``pkg/scheduler``, ``pkg/kubelet/kuberuntime`` (1.24 to 1.32); Kubeflow
training operator events.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, ProcessExit, SchedulerEvent
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.exit_codes import exit_and_signal
from nccldoctor.parsers.rows import Table, first_fit
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_EXIT_CODE = lazy(r"\b(?:Exit Code:\s{1,20}|exitCode\"?: ?)(?P<code>\d{1,3})\b")


@line_parser
class Kubernetes(LineParser):
    """*scheduler* with the reason, *process-exit* for a container's exit code that is not 0."""

    literals = _TABLE.literals

    def parse(self, line: Line) -> Iterator[Event]:
        if fit := first_fit(_TABLE.rows, line.body):
            row, hit = fit
            event = row.event or SchedulerEvent
            yield event(**common(line, detail=line.body.strip()[:300]) | row.event_fields(hit, event))
        if (match := _EXIT_CODE.search(line.body)) and int(match["code"]):
            yield ProcessExit(**common(line), **exit_and_signal(int(match["code"])), reporter="kubernetes")
