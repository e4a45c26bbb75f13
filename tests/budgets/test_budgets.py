"""Rooms keep to their budgets of lines (``budgets.toml``). As a script it lowers each to what the room has now."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = Path(__file__).with_name("budgets.toml")


def counted() -> dict[str, Counter[str]]:
    """The lines of ``python`` and ``toml`` in each room, and in ``all``; links in ``nccldoctor/`` are not followed."""
    rooms = {"all": Counter[str]()}
    for folder, apart in (
        ("nccldoctor", ("parsers", "reports", "samples")),
        ("parsers", ("wordings",)),
        ("reports", ()),
    ):
        for path in (ROOT / folder).rglob("*.*"):
            first, *more = path.relative_to(ROOT / folder).parts
            language = {".py": "python", ".toml": "toml"}.get(path.suffix)
            if language and first not in apart:
                room = folder if folder != "nccldoctor" else first if more else "top"
                rooms.setdefault(room, Counter())[language] += path.read_bytes().count(b"\n")
    rooms["all"]["python"] = sum(lines["python"] for lines in rooms.values())
    return rooms


def over(budgets: dict[str, Any], now: dict[str, Counter[str]]) -> list[str]:
    """The rooms above their budgets; what stands in no row has none."""
    return [
        f"{room} has {lines} lines of {language} instead of {most}: remove as many, or read the head of budgets.toml"
        for room, languages in now.items()
        for language, lines in languages.items()
        if lines > (most := budgets.get(room, {}).get(language, 0))
    ]


def lowered(text: str, now: dict[str, Counter[str]], slack: float) -> str:
    """The text with lower budgets of Python where a room is this share below its own; none goes below its goal."""

    def lower(row: re.Match[str]) -> str:
        most, goal = int(row[2]), int(row[3])
        least = max(goal, now.get(row[1], Counter())["python"])
        return f"{row[1]} = {{ python = {least if least <= most * (1 - slack) else most}, goal = {goal}"

    return re.sub(r"^(\w+) = \{ python = (\d+), goal = (\d+)", lower, text, flags=re.MULTILINE)


def unpaid(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """The rooms whose budget rose without new words on what was removed for it; ``all`` must not rise."""
    return {
        room
        for room, row in after.items()
        if any(row[what] > before[room].get(what, 0) for what in ("python", "toml") if room in before and what in row)
        if room == "all" or row.get("raised", "") in ("", before[room].get("raised"))
    }


def test_no_room_is_above_its_budget_and_a_smaller_room_lowers_it() -> None:
    now, text = counted(), BUDGETS.read_text(encoding="utf-8")
    assert not over(tomllib.loads(text), now)
    smaller = lowered(text, now, 0.03)
    if smaller != text:
        new = BUDGETS.with_suffix(".new")
        new.write_text(smaller, encoding="utf-8")
        new.replace(BUDGETS)
        pytest.fail("rooms are smaller now, and tests/budgets/budgets.toml has their new budgets: commit it")


def test_the_goals_are_62_000_lines_together() -> None:
    goals = {room: row["goal"] for room, row in tomllib.loads(BUDGETS.read_text(encoding="utf-8")).items()}
    assert sum(goals.values()) - goals["all"] <= goals["all"] == 62_000


@pytest.mark.parametrize("revision", ["HEAD", "HEAD~1"])
def test_growth_names_what_it_removes(revision: str) -> None:
    git = ["git", "-C", str(ROOT), "show", f"{revision}:{BUDGETS.relative_to(ROOT)}"]
    before = subprocess.run(git, capture_output=True, text=True)  # no such file, no git: nothing can have grown
    assert not unpaid(tomllib.loads(before.stdout), tomllib.loads(BUDGETS.read_text(encoding="utf-8")))


SMALL = "all = { python = 200, goal = 50 }\nlive = { python = 100, goal = 40, toml = 9 } # x\n"


@pytest.mark.parametrize(("lines", "budget"), [(98, 100), (97, 97), (50, 50), (10, 40)])
def test_a_budget_falls_with_its_room_down_to_the_goal(lines: int, budget: int) -> None:
    now = {"all": Counter(python=200), "live": Counter(python=lines)}
    assert lowered(SMALL, now, 0.03) == SMALL.replace("100, goal = 40", f"{budget}, goal = 40")


def test_growth_is_found_in_rooms_with_and_without_a_row() -> None:
    now = {"live": Counter(python=103, toml=10), "new": Counter(python=5), "all": Counter(python=200)}
    found = [line.partition(" lines")[0] for line in over(tomllib.loads(SMALL), now)]
    assert found == ["live has 103", "live has 10", "new has 5"]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("python = 100", "python = 110", {"live"}),
        ("toml = 9", "toml = 10", {"live"}),
        ("100, goal = 40", '110, goal = 40, raised = "a room less"', set()),
        ("200, goal = 50", '210, goal = 50, raised = "why not"', {"all"}),
    ],
)
def test_a_higher_budget_needs_a_reason(old: str, new: str, found: set[str]) -> None:
    assert unpaid(tomllib.loads(SMALL), tomllib.loads(SMALL.replace(old, new))) == found


if __name__ == "__main__":
    BUDGETS.write_text(lowered(BUDGETS.read_text(encoding="utf-8"), counted(), 0), encoding="utf-8")
