"""The verdicts of one checkout: reads folders of jobs from standard input, one a line, and prints one JSON object a job.

``same_verdicts.py`` runs this file with ``PYTHONPATH`` at a checkout, which may be older than this file: it uses nothing but
``nccldoctor.analyze`` and the published JSON. The first line names the package that answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LABELS = ("truth.json", "label.json", "expected.toml", "README.md")
"""Files of a job's folder that its job did not write; no checkout is shown them."""


def shown(job: Path) -> list[str]:
    """The files and folders of a job that are evidence: the job itself where no label lies in it."""
    if not any((job / label).exists() for label in LABELS):
        return [str(job)]
    return [str(path) for path in sorted(job.iterdir()) if path.name not in LABELS]


def verdict(incident: Any) -> dict[str, Any]:
    """What two checkouts must agree on, by the names that a reader of the differences sees."""
    document = json.loads(incident.to_json())
    said = document["verdict"]
    row = {
        "class": said["class"],
        "ranks": said["ranks"],
        "confidence": said["confidence"],
        "confidence in ranks": said.get("confidence_in", {}).get("ranks"),
        "confidence in class": said.get("confidence_in", {}).get("class"),
        "headline": said["headline"],
        "first remedy": next((remedy["id"] for remedy in document["remedies"]), None),
        "findings": sorted(finding["class"] for finding in document["findings"]),
    }
    try:
        from nccldoctor.cli.exit_codes import exit_code

        row["exit code"] = exit_code(incident.unquoted)
    except (ImportError, AttributeError):  # the checkout has it elsewhere: it is not compared
        pass
    return row


def main() -> None:
    import nccldoctor

    out, sys.stdout = sys.stdout, sys.stderr  # what an analysis prints is no answer
    print(json.dumps({"package": nccldoctor.__file__}), file=out, flush=True)
    for line in sys.stdin:
        try:
            answer = verdict(nccldoctor.analyze(shown(Path(line.rstrip("\n")))))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
