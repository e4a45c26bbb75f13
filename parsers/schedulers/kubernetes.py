"""Why Kubernetes ended a pod: ``kubectl describe``, ``kubectl get -o json|yaml``, events and kubelet lines.

Sources: kubernetes ``pkg/kubelet/eviction``, ``pkg/scheduler``, ``pkg/kubelet/kuberuntime`` (1.24 to 1.32); Kubeflow
training operator events.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, ProcessExit, SchedulerEvent
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.exit_codes import signal_of
from nccldoctor.patterns import lazy

_REASONS = (
    ("oom", r"\bOOMKilled\b|\bOOMKilling\b"),
    (
        "evicted",
        r"\b[Rr]eason\"?:\s{0,20}\"?Evicted\b|The node was low on resource: [\w-]{1,60}|TaintManagerEviction",
    ),
    (
        "preempted",
        r"\bPreempted\s{1,10}(?:by|in order to) |\breason\"?: ?\"?Preempt(?:ed|ing|ionByScheduler)\b"
        r"|Reason:\s{1,20}Preempt",
    ),
    ("node-failure", r"\bNodeNotReady\b|\bNodeLost\b|[Nn]ode is not ready|DeletionByPodGC|NodeShutdown"),
    ("time-limit", r"\bDeadlineExceeded\b"),
    ("cancelled", r"Stopping container \S{1,120}|DeletionByTaintManager"),
)


_REASON_PATTERNS = tuple((what, lazy(pattern)) for what, pattern in _REASONS)


_EXIT_CODE = lazy(r"\b(?:Exit Code:\s{1,20}|exitCode\"?: ?)(?P<code>\d{1,3})\b")


@line_parser
class Kubernetes(LineParser):
    """*scheduler* with the reason, *process-exit* for a container's exit code that is not 0."""

    literals = (
        "OOMKill",
        "Evicted",
        "low on resource",
        "TaintManager",
        "Preempt",
        "NodeNotReady",
        "NodeLost",
        "ode is not ready",
        "DeletionByPodGC",
        "NodeShutdown",
        "DeadlineExceeded",
        "Stopping container ",
        "Exit Code: ",
        "exitCode",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """See :class:`LineParser`."""
        for what, pattern in _REASON_PATTERNS:
            if match := pattern.search(line.body):
                yield SchedulerEvent(**common(line), what=what, detail=line.body.strip()[:300] or match[0])
                break
        if (match := _EXIT_CODE.search(line.body)) and int(match["code"]):
            code = int(match["code"])
            yield ProcessExit(**common(line), exitcode=code, signal=signal_of(code), reporter="kubernetes")
