"""Writes commands as they are typed elsewhere: by ssh on a host, by kubectl in a pod. Each works when it is pasted.

A command for the machine that nccldoctor runs on is typed as it is: many machines let nobody in by ssh.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Mapping

from nccldoctor.model import Finding
from nccldoctor.model.hosts import short_host
from nccldoctor.prescribe.catalogue.words import fill_command
from nccldoctor.prescribe.conditions.inputs import backends_of
from nccldoctor.prescribe.conditions.survey import Survey

_PID = re.compile(r"\{\{\s*pid\s*\}\}")
_RANK_IN_OTHER_VARIABLES = frozenset({"jax", "horovod", "oneccl"})
"""Libraries whose launchers don't put a rank into the variable ``RANK``."""


_LOOPBACK = frozenset({"localhost", "127.0.0.1"})
"""What torchrun prints of a node without a name: nobody reaches it by that from elsewhere."""


def is_this_machine(host: str | None) -> bool:
    """True of the name of the machine that this runs on."""
    return host is not None and short_host(host) == short_host(socket.gethostname())


def quoted_for_shell(command: str) -> str:
    """A command as one word of the shell.

    It stands in double quotes where it has single quotes and nothing that double quotes would change.
    """
    is_plain = "'" in command and not any(sign in command for sign in '"$`\\!')
    return f'"{command}"' if is_plain else shlex.quote(command)


def on_host(
    command: str, place: str, finding: Finding, survey: Survey, values: Mapping[str, str]
) -> tuple[str, str | None]:
    """The command as it is typed elsewhere, and the host.

    ``ssh node0 'py-spy dump --pid 17081'``, or by kubectl into a pod. ``place`` is the placeholder of the host: ``host`` or
    ``waiting_host``.
    """
    inner = on_spot(command, finding, survey, values)
    pod = survey.case.rank_host.get(next(iter(finding.ranks or finding.suspects), -1), "")
    if place == "host" and survey.case.pods.is_pod(pod) and _PID.search(command):
        return f"kubectl exec {shlex.quote(pod)} -- sh -c {quoted_for_shell(inner)}", pod
    if is_this_machine(values.get(place)) or values.get(place) in _LOOPBACK:
        return inner, values.get(place)
    host, _ = fill_command(f"{{{{ {place} }}}}", values, _owner(finding))
    return f"ssh {host} {quoted_for_shell(inner)}", values.get(place)


def on_spot(command: str, finding: Finding, survey: Survey, values: Mapping[str, str]) -> str:
    """The command with its values.

    A process that is not known by number is found by its environment, as ``grep -slxz RANK=4``: torchrun sets it, and a restart
    changes the number.
    """
    ranks = finding.ranks or finding.suspects
    is_sought = not values.get("pid") and _PID.search(command) and ranks
    if is_sought and not backends_of(survey.case) & _RANK_IN_OTHER_VARIABLES:
        found = f"grep -slxz RANK={next(iter(ranks))} /proc/[0-9]*/environ | cut -d/ -f3 | sort -n | head -1"
        filled, _ = fill_command(_PID.sub("$p", command), values, _owner(finding))
        return f"p=$({found}); {filled}"
    return fill_command(command, values, _owner(finding))[0]


def _owner(finding: Finding) -> str:
    """``rank 4``: whose values the blanks of a command are."""
    ranks = finding.ranks or finding.suspects
    return f"rank {next(iter(ranks))}" if ranks else ""
