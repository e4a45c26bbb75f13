"""A part comes from a stranger: whatever is wrong with it costs the part alone, and the gap names its file."""

from __future__ import annotations

import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from builders.diagnoses.bundled import FOLDER, incident
from builders.files.parts import reduced, split

from nccldoctor import pipeline
from nccldoctor.cli.app import cli
from nccldoctor.discover.discover import discover
from nccldoctor.parts.join import join


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    incident("died")
    return reduced(FOLDER / "died", tmp_path_factory.mktemp("part") / "node0.nd").read_bytes()


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _rewritten(data: bytes, changed: str, change: Callable[[bytes], bytes]) -> bytes:
    """The part with one member changed, and a manifest that agrees with it."""
    members = _members(data)
    manifest = json.loads(zstandard.decompress(members["0/manifest"]))
    if changed == "manifest":
        manifest = json.loads(change(json.dumps(manifest).encode()))
    elif changed == "head":
        name = next(iter(members))
        members[name] = change(members[name])
    else:
        raw = change(zstandard.decompress(members[f"0/{changed}"]))
        members[f"0/{changed}"] = packed = zstandard.compress(raw)
        for member in manifest["members"]:
            if member["name"] == changed:
                member |= {"raw": len(raw), "sha256": hashlib.sha256(packed).hexdigest()}
    members["0/manifest"] = zstandard.compress(json.dumps(manifest).encode())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def _why(tmp_path: Path, data: bytes) -> str:
    """Why a part is not read, beside one that is."""
    (tmp_path / "bad.nd").write_bytes(data)
    log = tmp_path / "good" / "rank0.log"
    log.parent.mkdir()
    log.write_text("RuntimeError: boom\n")
    good = reduced(log.parent, tmp_path / "good.nd")
    found = join(discover([tmp_path / "bad.nd", good]))[0]

    assert [one.source.path for one in found.parsed] == ["rank0.log"]
    (gap,) = [gap for gap in found.gaps if gap.what == "bad.nd"]
    assert gap.lost
    assert len(gap.why) < 400
    return gap.why


def _set(*path: Any, to: Any) -> Callable[[bytes], bytes]:
    """Sets one value of a JSON document, or of the JSON at the head of a slice."""

    def change(raw: bytes) -> bytes:
        start = 4 + int.from_bytes(raw[:4], "little") if raw[:1] not in b"[{" else 0
        document = json.loads(raw[4:start] if start else raw)
        at = document
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = to
        text = json.dumps(document).encode()
        return len(text).to_bytes(4, "little") + text + raw[start:] if start else text

    return change


def test_a_changed_part_that_is_sound_is_read(part: bytes, tmp_path: Path) -> None:
    (tmp_path / "same.nd").write_bytes(_rewritten(part, "calls-0", lambda raw: raw))

    assert pipeline.analyze(tmp_path / "same.nd").to_json() == incident("died").to_json()


@pytest.mark.parametrize(
    ("member", "change", "why"),
    [
        ("head", _set("format", to=99), "written by nccldoctor"),
        ("head", lambda raw: b"{}", "written by another program"),
        ("manifest", _set("rows", to=3), "dumps that it does not list"),
        ("manifest", _set("rows", to=10**12), "rows"),
        ("manifest", _set("inputs", to=7), "inputs are missing"),
        ("manifest", _set("name", to="../../etc"), "name"),
        ("manifest", _set("members", 0, "raw", to=5), "sizes"),
        ("manifest", _set("members", 0, "raw", to=1 << 60), "raw"),
        ("manifest", _set("members", 0, "sha256", to="0" * 64), "checksums"),
        ("inputs-0", _set("inputs", 0, "named", "path", to=7), "path"),
        ("inputs-0", _set("inputs", 0, "more", to=7), "more"),
        ("inputs-0", _set("inputs", 0, "has_calls", to=False), "dumps that it does not list"),
        ("events-0", _set(0, 0, to=9999), "no input"),
        ("events-0", _set(0, 1, to=-4), "line"),
        ("events-0", _set(0, 3, to="os.system"), "doesn't know"),
        ("events-0", _set(0, 4, "text", to=["x"]), "text"),
        ("events-0", _set(0, 4, "rank", to=1 << 70), "<= 9223372036854775807"),
        ("events-0", _set(0, 4, "__class__", to="x"), "__class__"),
        ("events-0", lambda raw: b"[" * 5000, "damaged"),
        ("calls-0", _set("dumps", 0, "layout", to=400), "unknown columns"),
        ("calls-0", _set("dumps", 0, "input", to=400), "does not list"),
        ("calls-0", _set("dumps", 0, "config", to=[400]), "unknown columns or groups"),
        ("calls-0", _set("dumps", 0, "times", to={}), "columns are missing"),
        ("calls-0", _set("layouts", 0, "rows", to=1 << 40), "rows"),
        ("calls-0", _set("layouts", 0, "rows", to=11), "another length|column|out of range|missing"),
        ("calls-0", _set("layouts", 0, "columns", "op", to=["same", 5000, 0, 0]), "codes of op"),
        ("calls-0", _set("layouts", 0, "columns", "op", to=["same", -1, 0, 0]), "codes of op"),
        ("calls-0", _set("layouts", 0, "columns", "state", to=["same", 9, 0, 0]), "codes of state"),
        ("calls-0", _set("layouts", 0, "columns", "entry", to=["steps", 1 << 40, 1, 0]), "entry out of range"),
        ("calls-0", _set("layouts", 0, "words", "ops", to=300), "unknown ops"),
        ("calls-0", _set("groups", 0, to=[]), "codes of group"),
        ("calls-0", _set("configs", to=[["0", "", [[0, 9_999_998]]]]), "too many ranks"),
        ("calls-0", _set("stacks", 0, 1, to=[70_000]), "unknown frames"),
        ("calls-0", lambda raw: raw[:-40], "length|column"),
        ("times-0", lambda raw: raw[:-1], "another length"),
    ],
)
def test_what_does_not_fit_is_a_gap(
    part: bytes, tmp_path: Path, member: str, change: Callable[[bytes], bytes], why: str
) -> None:
    found = _why(tmp_path, _rewritten(part, member, change))

    assert any(one in found for one in why.split("|")), found


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_part_that_is_cut_off_is_told(part: bytes, tmp_path: Path, share: float) -> None:
    (tmp_path / "cut.nd").write_bytes(part[: int(share * len(part))])
    (tmp_path / "rank0.log").write_text("RuntimeError: boom\n")
    whole = reduced(tmp_path, tmp_path / "rest.nd", [tmp_path / "rank0.log"])
    case = pipeline.read([tmp_path / "cut.nd", whole])

    assert any(gap.what.endswith("cut.nd") for gap in case.gaps)
    assert not len(case.calls)


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bytes_never_break_the_reading(part: bytes, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(part)
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(60, len(data))] ^= 1 << rng.randrange(8)
    (tmp_path / "bad.nd").write_bytes(data)
    found = join(discover([tmp_path / "bad.nd"]))[0]

    assert found.gaps or len(found.parsed) == len(incident("died").case.sources)


def test_a_member_that_unpacks_to_more_than_it_says_is_refused(part: bytes, tmp_path: Path) -> None:
    assert "sizes" in _why(tmp_path, _rewritten(part, "manifest", lambda raw: raw.replace(b'"raw": ', b'"raw": 1')))


def test_merge_reports_a_damaged_part_and_joining_refuses_it(part: bytes, tmp_path: Path) -> None:
    from click.testing import CliRunner

    incident("died")
    _, (whole,) = split(FOLDER / "died", tmp_path, lambda number, path: "all")
    bad = tmp_path / "bad.nd"
    bad.write_bytes(_rewritten(part, "head", _set("format", to=99)))
    merged = CliRunner().invoke(cli, ["merge", str(whole), str(bad), "--format", "json"])
    refused = CliRunner().invoke(cli, ["merge", str(whole), str(bad), "-o", str(tmp_path / "both.nd")])

    assert merged.exit_code == 1
    assert "bad.nd" in merged.stdout
    assert refused.exit_code == 2
    assert "bad.nd" in refused.stderr
    assert not (tmp_path / "both.nd").exists()
