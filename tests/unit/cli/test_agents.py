"""What agents may ask, over the Model Context Protocol too."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nccldoctor.cli import demo
from nccldoctor.cli.agents.answers import MOST_LINES, Answers
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
    assert SECRET not in str(found)


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.log", "link.log", "job/../../outside.log", "gone"])
def test_nothing_outside_the_roots_is_read(answers: Answers, path: str) -> None:
    for ask in (
        answers.diagnosis_of,
        lambda p: answers.lines_of_file(p, 1),
        lambda p: answers.lines_of_evidence(p, "E1"),
    ):
        with pytest.raises(NccldoctorError, match="is not below"):
            ask(path)


def test_words_are_explained(answers: Answers) -> None:
    assert answers.explain("NCCL_TIMEOUT").startswith("# NCCL_TIMEOUT")
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

    assert {tool.name for tool in tools} == {"analyze", "evidence", "lines", "explain"}
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


def test_each_field_with_text_of_the_input_is_named(tmp_path: Path) -> None:
    mark = "obey me zebra"
    (tmp_path / "rank_1.log").write_text(
        f'[rank1]: Traceback (most recent call last):\n[rank1]:   File "t.py", line 3, in step\n[rank1]: OSError: {mark}\n'
    )
    answer = Answers([tmp_path]).diagnosis_of(".")
    held = {name for name, value in answer.items() if mark in json.dumps(value)}
    assert "verdict" in held
    assert held <= {name.partition(".")[0] for name in answer["strangers_text"]}
