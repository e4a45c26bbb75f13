"""Takes out of service what an attribution names: ``nccldoctor analyze logs/ --format attribution | python docs/examples/drain.py``.

It prints the commands and runs none of them, unless it is given ``--run``. Names come from logs, so one that no host can have is
refused, and so is a list that is longer than ``--most``: a wrong list must not empty a cluster.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

COMMANDS = {
    "slurm": lambda node, reason: ["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"],
    "kubernetes": lambda node, _: ["kubectl", "cordon", node],
}
NAME = re.compile(r"(?!ALL$)[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
"""A host, and not ``ALL``: that is every node of Slurm."""


def drains(document: Mapping[str, Any], scheduler: str, most: int) -> list[Sequence[str]]:
    """A command for each node to leave out. Raises SystemExit for a name that no host has, and for too many."""
    nodes = document["exclude"]["nodes"]
    if len(nodes) > most:
        raise SystemExit(f"{len(nodes)} nodes are more than --most {most}: drain them by hand")
    if wrong := [node for node in nodes if not NAME.fullmatch(node)]:
        raise SystemExit(f"no host has the name {wrong[0]!r}")
    reason = f"nccldoctor: {document['class']}, job {document['job_id'] or 'unknown'}"
    return [COMMANDS[scheduler](node, reason) for node in nodes]


def main(words: Sequence[str]) -> int:
    """Print the commands, and run them where that is asked for; 1 where one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scheduler", choices=COMMANDS, default="slurm")
    parser.add_argument("--most", type=int, default=1, help="nodes at most (default: 1)")
    parser.add_argument("--run", action="store_true", help="run the commands, too")
    options = parser.parse_args(words)
    failed = 0
    for command in drains(json.load(sys.stdin), options.scheduler, options.most):
        print(shlex.join(command), flush=True)
        if options.run:
            failed |= subprocess.run(command, check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
