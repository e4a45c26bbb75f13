"""Reaches the pods of a job: ``kubectl exec -i``, which closes standard input when the collector was sent."""

from __future__ import annotations

import json
from typing import Any

from nccldoctor.collect.reach.way import NODE, Command, LookUp, Target, Way, checked_name
from nccldoctor.model.errors import InputError


class Pods(Way, frozen=True):
    """The pods that a label selector such as ``job-name=train`` names.

    ``namespace`` and ``container`` are those of the current context and of the pod where they are empty.
    """

    selector: str
    namespace: str = ""
    container: str = ""

    def __post_init__(self) -> None:
        if not self.selector.strip():
            raise InputError("--k8s needs the label of the job's pods", "add -l job-name=train")
        for name, of in ((self.namespace, "a namespace"), (self.container, "a container")):
            if name:
                checked_name(name, of)

    def listing(self) -> tuple[Command, ...]:
        """One command that lists the pods with their phases."""
        return (("kubectl", "get", "pods", f"--selector={self.selector}", *self._namespace_option(), "--output=json"),)

    def find_targets(self, look_up: LookUp, python: Command) -> tuple[Target, ...]:
        """One ``kubectl exec`` for each pod that runs; the others keep their phase as the problem."""
        try:
            items: list[dict[str, Any]] = json.loads(look_up(self.listing()[0]))["items"]
            found = [(str(item["metadata"]["name"]), str(item.get("status", {}).get("phase", ""))) for item in items]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError("kubectl get pods printed no list of pods as JSON") from error
        pods = sorted((checked_name(name, "the name of a pod"), phase[:40]) for name, phase in found)
        if not pods:
            where = f" in namespace {self.namespace}" if self.namespace else ""
            raise InputError(
                f"no pod has the label {self.selector}{where}", "kubectl get pods --show-labels lists them"
            )
        return tuple(self._target(name, phase, python) for name, phase in pods)

    def planned_targets(self, python: Command) -> tuple[Target, ...]:
        """One ``kubectl exec``, in ``NODE``."""
        return (self._target(NODE, "Running", python),)

    def _target(self, name: str, phase: str, python: Command) -> Target:
        if phase != "Running":
            return Target(name, problem=f"the pod is {phase or 'in an unknown phase'}")
        container = (f"--container={self.container}",) if self.container else ()
        return Target(name, ("kubectl", "exec", "--stdin", *self._namespace_option(), *container, name, "--", *python))

    def _namespace_option(self) -> Command:
        return (f"--namespace={self.namespace}",) if self.namespace else ()
