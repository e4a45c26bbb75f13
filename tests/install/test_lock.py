"""The lock file for development holds what pyproject.toml asks for, each version with hashes, and names no index."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "packaging" / "requirements-dev.txt").read_text(encoding="utf-8")
_PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<extras>[a-z0-9,_-]+)\])?==(?P<version>\S+)(?: ; .*?)?"
    r"(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
    re.M,
)


def asked_for() -> Iterator[Requirement]:
    """Dependencies and groups of pyproject.toml; extras are for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for text in (*project["project"]["dependencies"], *(t for g in project["dependency-groups"].values() for t in g)):
        yield Requirement(text)


def pinned() -> dict[str, list[str]]:
    """The versions of each package: several where platforms or versions of Python need different ones."""
    out: dict[str, list[str]] = {}
    for pin in _PIN.finditer(LOCK):
        out.setdefault(canonicalize_name(pin["name"]), []).append(pin["version"])
    return out


def test_every_requirement_is_pinned_to_a_version_that_satisfies_it() -> None:
    versions = pinned()
    wrong = [
        f"{one}: {versions.get(canonicalize_name(one.name))}"
        for one in asked_for()
        if not versions.get(canonicalize_name(one.name))
        or not all(one.specifier.contains(version) for version in versions[canonicalize_name(one.name)])
    ]
    assert not wrong, f"make the lock anew with the command in its head: {wrong}"


def test_a_pin_names_the_extras_that_other_packages_ask_for() -> None:
    """pip before 23.3 does not apply the pin of ``coverage`` to ``coverage[toml]``, and refuses the release that it finds."""
    named = {canonicalize_name(pin["name"]): {*(pin["extras"] or "").split(",")} for pin in _PIN.finditer(LOCK)}
    asked = [
        (one.metadata["Name"], need)
        for one in distributions()
        if canonicalize_name(one.metadata["Name"]) in named
        for need in map(Requirement, one.requires or ())
        if need.extras and (need.marker is None or need.marker.evaluate({"extra": ""}))
    ]
    assert asked
    assert [(who, str(need)) for who, need in asked if not need.extras <= named[canonicalize_name(need.name)]] == []


def test_every_line_is_a_comment_or_a_pin_with_hashes() -> None:
    rest = _PIN.sub("", LOCK)
    assert [line for line in rest.splitlines() if line.strip() and not line.lstrip().startswith("#")] == []


def test_no_index_host_or_path_is_named() -> None:
    assert re.findall(r"://|^-|file:|@ ", LOCK, re.M) == []
    assert "torch" not in pinned()
