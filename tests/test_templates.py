"""Every wording of PyTorch, NCCL, the driver, the kernel and the schedulers that is known is recognised as what it is.

``signal_templates.tsv`` holds one wording a row: the kinds of events it must give (``kind`` or ``kind:what``), and
the text, with
``\\n`` and ``\\t`` where it has several lines.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from log_reading import parsed

ROWS = [
    row.split("\t", 1)
    for row in Path(__file__).with_name("signal_templates.tsv").read_text(encoding="utf-8").splitlines()
]


def told(text: str) -> list[str]:
    found = parsed(text.replace("\\n", "\n").replace("\\t", "\t") + "\n").events
    return [f"{e.kind}:{what}" if (what := getattr(e, "what", "")) else e.kind for e in found]


@pytest.mark.parametrize(("kinds", "text"), ROWS, ids=[f"{i}-{kinds.split(' ')[0]}" for i, (kinds, _) in enumerate(ROWS)])
def test_the_wording_is_recognised(kinds: str, text: str) -> None:
    assert sorted(set(told(text))) == kinds.split(" ")


@pytest.mark.parametrize(("kinds", "text"), ROWS[::3])
def test_a_rank_prefix_changes_nothing(kinds: str, text: str) -> None:
    """A launcher's prefix in front of every line hides no wording, and makes no second event of it."""
    if text.startswith(("[rank", "[E ", "[W ", "[W1", "[E1", "E0", "W0", "I0", "D0", "WARNING:", "[20")):
        return  # has a writer's prefix of its own
    several = text.replace("\\n", "\n").split("\n")
    labelled = "\\n".join(f"[default3]:{line}" for line in several)
    assert sorted(set(told(labelled))) == kinds.split(" ")
