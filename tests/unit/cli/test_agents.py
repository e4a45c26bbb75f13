"""What agents may ask, over the Model Context Protocol too."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nccldoctor import pipeline
from nccldoctor.cli import demo
from nccldoctor.cli.agents.answers import MOST_LINES, MOST_ROWS, Answers
from nccldoctor.model.errors import NccldoctorError

SECRET = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    demo.write("died", root / "job")
    (root / "long.log").write_text("".join(f"line {n} {SECRET}\n" for n in range(1, 1001)))
    (root.parent / "outside.log").write_text("secret of another user\n")
    (root / "link.log").symlink_to(root.parent / "outside.log")
    return root


@pytest.fixture(scope="module")
def answers(root: Path) -> Answers:
    return Answers([root])


def test_an_answer_names_the_rank_with_evidence_that_can_be_read(answers: Answers) -> None:
    answer = answers.diagnosis_of("job")
    verdict = answer["verdict"]

    assert (verdict["class"], verdict["ranks"], verdict["confidence"]) == ("died", "3", "high")
    assert [piece["id"] for piece in verdict["evidence"]][:2] == ["E1", "E2"]
    with_line = next(piece for piece in verdict["evidence"] if piece["where"] and "#" not in piece["where"])
    read = answers.lines_of_evidence("job", with_line["id"], 2)
    path, _, number = with_line["where"].rpartition(":")
    assert (read["path"], read["quoted"]) == (path, [int(number)])
    assert len(read["lines"]) == 5
    json.dumps(answer)
    kept = [len(verdict["evidence"]), len(answer["remedies"])]
    left = [verdict["evidence_left_out"], answer["left_out"]["remedies"]]
    full = pipeline.analyze((str(answers._inside("job")),)).unquoted
    assert [a + b for a, b in zip(kept, left, strict=True)] == [len(full.verdict.evidence), len(full.remedies)]


def test_evidence_of_a_dump_is_its_entry_in_words(answers: Answers) -> None:
    piece = next(p for p in answers.diagnosis_of("job")["verdict"]["evidence"] if "#entries" in (p["where"] or ""))
    read = answers.lines_of_evidence("job", piece["id"])

    path, _, entry = piece["where"].removesuffix("]").partition("#entries[")
    assert (read["path"], list(read["lines"])) == (path, [entry])
    assert read["lines"][entry].startswith("all_reduce #9 in ")


def test_lines_are_bounded_and_masked(answers: Answers) -> None:
    found = answers.lines_of_file("long.log", 990, 50)
    most = answers.lines_of_file("long.log", -5, 10**9)

    assert list(found["lines"]) == [str(n) for n in range(990, 1001)]
    assert list(most["lines"]) == [str(n) for n in range(1, MOST_LINES + 1)]
    assert (found["left_out"], most["left_out"]) == (0, 10**9 - MOST_LINES)
    assert SECRET not in str(found)


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.log", "link.log", "job/../../outside.log", "gone"])
def test_nothing_outside_the_roots_is_read(answers: Answers, path: str) -> None:
    for ask in (
        answers.files_below,
        answers.recognised_in,
        answers.history_of,
        answers.diagnosis_of,
        lambda p: answers.lines_of_file(p, 1),
        lambda p: answers.lines_of_evidence(p, "E1"),
    ):
        with pytest.raises(NccldoctorError, match="is not below"):
            ask(path)


def test_words_are_explained(answers: Answers) -> None:
    assert answers.explain("NCCL_TIMEOUT")["markdown"].startswith("# NCCL_TIMEOUT")
    with pytest.raises(NccldoctorError, match="nothing is known"):
        answers.explain("no-such-thing")


def test_the_server_offers_the_answers_and_nothing_that_writes(root: Path) -> None:
    mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")
    from nccldoctor.cli.agents.server import server_over

    async def talk() -> tuple[list[Any], Any, Any]:
        async with mcp.Client(server_over([root])) as client:
            tools = (await client.list_tools()).tools
            good = await client.call_tool("analyze", {"path": "job"})
            bad = await client.call_tool("lines", {"path": "/etc/passwd", "first": 1})
            return tools, good, bad

    tools, good, bad = asyncio.run(talk())

    assert {tool.name for tool in tools} == {"files", "inspect", "history", "analyze", "evidence", "lines", "explain"}
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert good.structured_content["verdict"]["ranks"] == "3"
    assert bad.is_error
    assert "is not below the folders" in bad.content[0].text


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    from nccldoctor.cli.agents.server import server_over

    with pytest.raises(NccldoctorError, match="gone"):
        server_over([tmp_path / "gone"])


@pytest.mark.parametrize("path", ["job\0", "job/\udcff.log", "\0", "a" * 5000])
def test_an_odd_path_is_refused_in_one_line(answers: Answers, path: str) -> None:
    for ask in (answers.diagnosis_of, lambda path: answers.lines_of_file(path, 1)):
        with pytest.raises(NccldoctorError) as raised:
            ask(path)
        assert "\n" not in raised.value.message
        raised.value.message.encode()


MARK = "zebra7"


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where strangers wrote a word into names of files and hosts, lines, settings, code and a saved report."""
    root = tmp_path_factory.mktemp("marked")
    job = root / f"{MARK}-node1"
    job.mkdir()
    for rank in range(4):
        name = f"2026-11-20 11:32:4{rank} {MARK}-node{rank // 2}:7{rank}:7{rank} [{rank}] NCCL INFO "
        lines = [
            f"{name}NCCL_SOCKET_IFNAME set by environment to {MARK}",
            f"{name}NCCL_{MARK.upper()} set by environment to 1",
            f"export NCCL_TIMEOUT={MARK} NCCL_SOCKET_IFNAMES={MARK}",
            f"{MARK}: ERROR that nothing understands {MARK}",
            "NCCL WARN NET/Unheard of {MARK} failure",
        ]
        if rank == 1:
            lines += [
                "[rank1]: Traceback (most recent call last):",
                f'[rank1]:   File "/home/{MARK}/train.py", line 3, in {MARK}_step',
                f"[rank1]: OSError: {MARK}, obey me",
            ]
        (job / f"rank_{rank}.{MARK}.log").write_text("".join(f"{line}\n" for line in lines))
    (job / f"{MARK}.bin").write_bytes(b"\0\1\2" * 50)
    (job / f"{MARK}.json").write_text('{"broken": ')
    report = pipeline.analyze((str(job),)).to_json().replace('"class":"undetermined"', '"class":"raised"')
    for number in range(2):
        document = json.loads(report)
        document["job"]["hosts"] = [f"{MARK}-a", f"{MARK}-b"]
        document["verdict"] |= {"confidence": "high", "ranks": "1", "headline": f"{MARK} {number}"}
        document["alarm"] = {"rank": number, "time": None, "where": None}
        (root / f"{MARK}-{number}.json").write_text(json.dumps(document))
    return root


def unmarked(answer: Any, marks: list[str], at: str = "") -> list[str]:
    """The fields that hold the word, and are not named in ``strangers_text``."""
    if at and at in marks:
        return []
    if isinstance(answer, dict):
        keys = [f"{at} has the key {key}" for key in answer if MARK in str(key).lower()]
        return keys + [
            found for key, part in answer.items() for found in unmarked(part, marks, f"{at}.{key}".removeprefix("."))
        ]
    if isinstance(answer, list):
        return [found for part in answer for found in unmarked(part, marks, at)]
    return [at] if MARK in str(answer).lower() else []


ASKED = {
    "files": ("files", {"path": "."}),
    "inspect": ("inspect", {"path": "."}),
    "history": ("history", {"path": "."}),
    "analyze": ("analyze", {"path": f"{MARK}-node1"}),
    "evidence": ("evidence", {"path": f"{MARK}-node1", "evidence_id": "E1"}),
    "lines": ("lines", {"path": f"{MARK}-node1/rank_1.{MARK}.log", "first": 1}),
    "explain": ("explain", {"name": f"[rank3]: ValueError: {MARK} broke"}),
    "no-such-folder": ("analyze", {"path": f"{MARK}-gone"}),
    "nothing-to-read": ("analyze", {"path": f"{MARK}-node1/{MARK}.bin"}),
    "no-file": ("lines", {"path": f"{MARK}-node1", "first": 1}),
    "no-evidence": ("evidence", {"path": f"{MARK}-node1", "evidence_id": f"E{MARK}"}),
    "no-name": ("explain", {"name": f"NCCL_{MARK}"}),
}
FAIL = {"no-such-folder", "no-file", "no-evidence", "no-name"}


@pytest.mark.parametrize("name", ASKED)
def test_each_field_with_text_of_the_input_is_named(marked: Path, name: str) -> None:
    mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")
    from nccldoctor.cli.agents.server import server_over

    async def ask() -> tuple[bool, str]:
        async with mcp.Client(server_over([marked])) as client:
            tool, arguments = ASKED[name]
            given = await client.call_tool(tool, arguments)
            return given.is_error, given.content[0].text

    is_error, text = asyncio.run(ask())
    if name != "nothing-to-read":
        assert is_error == (name in FAIL), text
    answer = json.loads(text.partition(": ")[2] if text.startswith("Error") else text)
    assert MARK in text.lower(), "the word must be somewhere, or this proves nothing"
    assert unmarked(answer, answer["strangers_text"]) == []


def test_files_are_listed_with_what_they_are(answers: Answers, root: Path) -> None:
    told = answers.files_below(".")
    kinds = {row["path"]: row["kind"] for row in told["files"]}
    assert kinds["long.log"] == "log"
    assert sum(told["kinds"].values()) == len(kinds)
    assert told["left_out"] == {}


def test_lists_are_bounded_and_say_what_they_leave_out(tmp_path: Path) -> None:
    for number in range(MOST_ROWS + 7):
        (tmp_path / f"run{number}.log").write_text("step 3 loss 0.5\n")
    told = Answers([tmp_path]).files_below(".")
    assert (len(told["files"]), told["left_out"]) == (MOST_ROWS, {"files": 7})


def test_what_was_not_understood_comes_first(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("[rank0]: RuntimeError: bad\n")
    (tmp_path / "z.log").write_text("[rank0]:[E ProcessGroupNCCL.cpp:9] [Rank 0] strange thing\n")
    told = Answers([tmp_path]).recognised_in(".")
    assert told["sources"][0]["path"] == "z.log"
    assert "strange thing" in told["sources"][0]["first_unknown"]


def test_the_history_of_a_folder_names_what_came_back(tmp_path: Path) -> None:
    demo.write("missed-call", tmp_path / "job")
    report = json.loads(pipeline.analyze((str(tmp_path / "job"),)).to_json())
    for number in range(3):
        report["alarm"] = {"rank": number, "time": None, "where": None}  # another incident of the same kind
        (tmp_path / f"{number}.json").write_text(json.dumps(report))
    (tmp_path / "again.json").write_text(json.dumps(report))
    told = Answers([tmp_path]).history_of(".")
    assert sorted(one["headline"] for one in told["incidents"]) == [report["verdict"]["headline"]] * 3
    assert [(one["count"], one["defect"].split()[0].rstrip(",:")) for one in told["defects"]] == [(3, "missed-call")]
    assert {one["at_fault"] for one in told["hosts"]} <= {3}
    assert {one["report"] for one in told["incidents"]} <= {"0.json", "1.json", "2.json", "again.json"}
