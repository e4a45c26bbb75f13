"""When a generated page was made, from which commit and by which command: the line that says so, and what is wrong with it.

The commit is the newest one that changed the product, for that is what a page measures. Commits of texts and tests change no figure.
"""

from __future__ import annotations

import datetime
import re
import subprocess
from pathlib import Path

from builders.documents.doc_blocks import ROOT

PRODUCT = ("nccldoctor", "parsers", "reports")
MOST_COMMITS = 60
"""A page is made again before so many commits have changed the product since."""

_LINE = re.compile(r"^Made on \d{4}-\d\d-\d\d from commit (?P<commit>[0-9a-f]{8,40}) by `(?P<command>[^`\n]+)`", re.M)


def made_by(command: str, root: Path = ROOT) -> str:
    """``Made on 2026-11-29 from commit 245e1de2 by `python …` `` without a full stop; the day is that of UTC.

    The line also says where the product differs from that commit, or where git knows no commit; :func:`fault` refuses both.
    """
    day = datetime.datetime.now(datetime.UTC).date()
    commit = _git(root, "log", "-1", "--abbrev=8", "--format=%h", "--", *PRODUCT)
    changed = " with changes that no commit holds" if _git(root, "status", "--porcelain", "--", *PRODUCT) else ""
    return f"Made on {day} from commit {commit or 'unknown'}{changed} by `{command}`"


def fault(page: str, root: Path = ROOT, most: int = MOST_COMMITS) -> str:
    """What is wrong with the line of a page, and what to run; empty where nothing is. Needs the whole history of ``root``."""
    line = _LINE.search(page)
    if line is None:
        return "no line says on which day, from which commit and by which command the page was made"
    commit, again = line["commit"], f"commit first, then run: {line['command']}"
    if _git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        return f"the history has no commit {commit}; {again}"
    later = int(_git(root, "rev-list", "--count", "--no-merges", f"{commit}..HEAD", "--", *PRODUCT) or 0)
    return (
        f"{later} commits have changed the product since {commit}, at most {most} may; {again}" if later > most else ""
    )


def without_history(root: Path = ROOT) -> str:
    """Why the commits of a checkout can't be counted; empty where they can."""
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return "no git checkout"
    return "a shallow clone has no history" if _git(root, "rev-parse", "--is-shallow-repository") == "true" else ""


def _git(root: Path, *words: str) -> str | None:
    """What git prints; None where it fails or isn't installed."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
