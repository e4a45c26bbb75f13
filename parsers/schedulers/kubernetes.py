"""Why Kubernetes ended a pod: ``kubectl describe``, ``kubectl get -o json|yaml``, events and kubelet lines.

Sources: kubernetes ``pkg/kubelet/eviction``, ``pkg/scheduler``, ``pkg/kubelet/kuberuntime`` (1.24 to 1.32); Kubeflow
training operator events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, ProcessExit, SchedulerEvent
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.exit_codes import exit_and_signal
from nccldoctor.parsers.rows import Table, first_fit, needs_of
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_EXIT_CODE = lazy(
    r"\b(?:Exit Code:\s{1,20}|exitCode\"?: ?|Pod: [a-z0-9-]{1,63}\.(?P<pod>[a-z0-9][\w.-]{0,252}) exited with code )(?P<code>\d{1,3})\b"
)
"""The third form is the training operator's log (``pkg/controller.v1/common/pod.go``)."""

_POD = lazy(
    r"\bpod/(?P<pod>[a-z0-9][\w.-]{0,252})|^(?P<listed>[a-z0-9][a-z0-9.-]{1,252}) {1,80}\d{1,3}/\d{1,3} {1,80}[A-Z]\w{2,40} "
)
"""The object of an event, and the name in a list of pods."""


def _pod_of(line: Line) -> dict[str, Any]:
    """The pod of a line of ``kubectl get``; it stands for the host where no node is named."""
    hit = _POD.search(line.body)
    pod = (hit["pod"] or hit["listed"]) if hit else None
    return {"pod": pod, "host": pod} if pod else {}


@reads(*_TABLE.literals, needs=(_EXIT_CODE, *needs_of(_TABLE.rows)))
def kubernetes(line: Line) -> Iterator[Event]:
    """*scheduler* with the reason, *process-exit* for a container's exit code that is not 0."""
    if fit := first_fit(_TABLE.rows, line.body):
        row, hit = fit
        event = row.event or SchedulerEvent
        fields = common(line, detail=line.body.strip()[:300]) | _pod_of(line) | row.event_fields(hit, event)
        if event is SchedulerEvent:
            fields["by"] = "kubernetes"
        yield event(**fields)
    if (match := _EXIT_CODE.search(line.body)) and int(match["code"]):
        own = {"pod": match["pod"], "host": match["pod"]} if match["pod"] else {}
        yield ProcessExit(**common(line) | own, **exit_and_signal(int(match["code"])), reporter="kubernetes")
