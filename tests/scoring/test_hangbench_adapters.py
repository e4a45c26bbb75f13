"""Adapters of hangbench run their tool on a job and read its output as it is meant; anybody's command can be scored."""

from __future__ import annotations

import importlib.util
import pickle
import re
import shlex
import sys
from pathlib import Path

import pytest
from hangbench.adapters import NcclDoctor, Nvrx, PrintsJson, TorchFrTrace, load_adapter
from hangbench.answers import Answer, NoAnswerError
from hangbench.jobs import BenchJob, KnownTruth, bundled_jobs
from hangbench.processes import Finished, run_command
from hangbench.run import chosen_adapters, command_line, compare, main, parsed, tried

from nccldoctor.model.causes import CauseClass, Family
from nccldoctor.model.ranks import Ranks

README = Path(__file__).resolve().parents[2] / "benchmarks" / "hangbench" / "README.md"
TRUTH = KnownTruth("rank 1 is late", (Ranks([1]),), ("not-arrived",), True, True)
LOGS = BenchJob("made-up", {"logs/rank_0.log": b"step 1\nstep 2\n", "logs/rank_1.log": b"step 1\n"}, TRUTH)
PATIENCE = 600.0


def printed(stderr: str, code: int = 0) -> Finished:
    return Finished(code, "", stderr, 0.0)


def command_of(code: str, *words: str) -> PrintsJson:
    """A tool that is a line of Python, with the folder of the job as its last word."""
    return PrintsJson(shlex.join([sys.executable, "-c", code, *words, "{folder}"]))


MISSING = """\
Not all ranks joining collective, sequence number: 18
internal record id: 35
group info: 0:default_pg
collective: nccl:all_reduce
missing ranks: {7, 12}
input sizes: [[64]]
expected ranks: {0, 1, 7, 12}
collective state: scheduled
collective stack trace:
 train_step at /opt/train/loop.py:78
"""
ERRORS = """\
Collective sequence number: 19 has errors
internal record id: 36
group info: 1:tp
collective: nccl:all_reduce
error msg: Culprit rank 3; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[4]]' does not match found input sizes: '[[3]]'
collective stack trace:
 train_step at /opt/train/loop.py:78
"""
UNDECIDED = (
    "We cannot decide what's wrong with this collective entry because we missed FR dumps from ranks ({2, 4}) so we don't have "
    "enough information. If you want to debug further use -j to dump all raw trace\n"
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", Answer()),
        (MISSING, Answer(Ranks([7, 12]), cause="absent")),
        (MISSING + ERRORS, Answer(Ranks([7, 12]), Ranks([3]), "absent")),
        (ERRORS + MISSING, Answer(Ranks([3]), Ranks([7, 12]), "size-mismatch")),
        (ERRORS.replace("SIZE_OR_SYNTAX", "COLLECTIVE_TYPE"), Answer(Ranks([3]), cause="op-mismatch")),
        (ERRORS.replace("SIZE_OR_SYNTAX", "COLLECTIVE_STATE"), Answer(Ranks([3]), cause="inside")),
        (ERRORS.replace("all_reduce", "recv 0<-1"), Answer(Ranks([3]), cause="unmatched-p2p")),
        ("Input/output mismatch in the collective sequence number: 4\n", Answer(cause="size-mismatch")),
        (UNDECIDED, Answer(suspects=Ranks([2, 4]))),
        ("MISMATCH \n\n" + UNDECIDED, Answer(suspects=Ranks([2, 4]))),
        ("MISMATCH \n\n", Answer(cause="unmatched-p2p")),
        ("No errors found for this collective entry, There could be some other reasons.\n", Answer()),
    ],
)
def test_the_text_of_torchfrtrace_is_read(text: str, answer: Answer) -> None:
    assert TorchFrTrace().answer(printed(text)) == answer


def test_a_failure_of_torchfrtrace_is_no_answer_unless_a_report_came_first() -> None:
    failure = "Traceback (most recent call last):\nKeyError: ('0', 0)\n"
    with pytest.raises(NoAnswerError, match="KeyError"):
        TorchFrTrace().answer(printed(failure, code=1))
    assert TorchFrTrace().answer(printed(MISSING + failure, code=1)).ranks == Ranks([7, 12])


def test_torchfrtrace_gets_the_dumps_under_one_prefix_and_nothing_else(tmp_path: Path) -> None:
    whole = pickle.dumps({"version": "2.4", "entries": []})
    old = {"fr/trace_1": pickle.dumps({"version": "1.5", "entries": []}), "fr/trace_2": pickle.dumps([])}
    bad = {"fr/trace_4": whole[:-5], "fr/trace_5": pickle.dumps(Path("/"))}
    dumps = {"fr/trace_3": whole, "fr/trace_10": whole, **old, **bad, "fr/notes": b"note", "job.log": b"step 1\n"}
    command = TorchFrTrace().command(BenchJob("made-up", dumps, TRUTH), tmp_path / "job", tmp_path)
    assert command is not None
    copies = Path(command[-1])
    assert {path.name: path.read_bytes() for path in copies.iterdir()} == {
        "nccl_trace_rank_3": whole,
        "nccl_trace_rank_10": whole,
    }
    assert TorchFrTrace().command(BenchJob("made-up", old, TRUTH), tmp_path / "job", tmp_path) is None
    assert TorchFrTrace().command(LOGS, tmp_path / "job", tmp_path) is None


def test_torchfrtrace_answers_on_a_bundled_incident() -> None:
    pytest.importorskip("torch")
    job = next(job for job in bundled_jobs() if job.name == "bundled-dtype-mismatch")
    outcome = tried(job, TorchFrTrace(), PATIENCE)
    assert (outcome.ending, outcome.answer) == ("answered", Answer(Ranks([3]), cause="dtype-mismatch"))


@pytest.mark.parametrize(("installed", "warns"), [(("tabulate",), False), ((), True)])
def test_torchfrtrace_says_where_tabulate_is_missing(
    monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], warns: bool
) -> None:
    pytest.importorskip("torch")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: name in installed if name == "tabulate" else find(name)
    )
    assert ("without tabulate" in TorchFrTrace().version()) == warns


TABLE = """\
PGID   | Process Group Desc        | Op Type    | Size     | Dtype    | Missing Ranks
3      | mesh_tp,0                 | nccl:all_reduce | 4096     | Float    | 6
11     | mesh_dp,0                 | nccl:all_reduce | 512      | Float    | 4,6

"""


@pytest.mark.parametrize(("text", "answer"), [("", Answer()), (TABLE, Answer(Ranks([4, 6]), cause="absent"))])
def test_the_table_of_nvrx_is_read(text: str, answer: Answer) -> None:
    assert Nvrx().answer(Finished(0, text, "INFO: noise | of | its | log | with | 9", 0.0)) == answer


def test_a_failure_of_nvrx_is_no_answer() -> None:
    with pytest.raises(NoAnswerError, match="KeyError"):
        Nvrx().answer(printed("Traceback (most recent call last):\nKeyError: '0'\n", code=1))


def test_nvrx_gets_the_dumps_that_hold_the_state_of_groups(tmp_path: Path) -> None:
    whole, older = (pickle.dumps(dump) for dump in ({"version": "2.4", "pg_status": {}}, {"version": "2.1"}))
    dumps = {"fr/trace_3": whole, "fr/trace_10": whole, "fr/trace_4": older, "job.log": b"step 1\n"}
    command = Nvrx().command(BenchJob("made-up", dumps, TRUTH), tmp_path / "job", tmp_path)
    assert command is not None
    (copies,) = (Path(word) for word in command if word.startswith(str(tmp_path)))
    assert sorted(path.name for path in copies.iterdir()) == ["nccl_trace_rank_10", "nccl_trace_rank_3"]
    assert Nvrx().command(BenchJob("made-up", {"fr/trace_4": older}, TRUTH), tmp_path / "job", tmp_path) is None


def test_nvrx_answers_on_a_bundled_incident() -> None:
    if not Nvrx().version():
        pytest.skip("nvidia-resiliency-ext 0.6 is not installed")
    job = next(job for job in bundled_jobs() if job.name == "bundled-frozen")
    assert tried(job, Nvrx(), PATIENCE).answer == Answer(Ranks([7]), cause="absent")


def test_a_complaint_names_no_folder_of_this_machine() -> None:
    class Complains(Nvrx):
        def command(self, job: BenchJob, folder: Path, scratch: Path) -> list[str]:
            return [sys.executable, "-c", f"raise SystemExit('no dump in {folder}')"]

    outcome = tried(LOGS, Complains(), PATIENCE)
    assert (outcome.ending, outcome.complaint) == ("crashed", "exit code 1: no dump in .../job")


def test_nccldoctor_answers_on_a_bundled_incident() -> None:
    job = next(job for job in bundled_jobs() if job.name == "bundled-frozen")
    outcome = tried(job, NcclDoctor(), PATIENCE)
    assert outcome.answer == Answer(Ranks([7]), cause="frozen", confidence="high")
    assert outcome.cpu_s > 0


def test_the_document_of_nccldoctor_is_read() -> None:
    verdict = '{"verdict": {"class": "none", "ranks": "", "suspects": "", "confidence": "high"}}'
    assert NcclDoctor().answer(Finished(0, verdict, "", 0.0)) == Answer(
        cause="none", confidence="high", says_healthy=True
    )
    for broken in ("", "{}", '{"verdict": null}'):
        with pytest.raises(NoAnswerError):
            NcclDoctor().answer(Finished(70, broken, "", 0.0))


def test_a_command_sees_the_files_of_the_job_and_no_truth() -> None:
    code = (
        "import json, pathlib, sys; names = sorted(p.name for p in pathlib.Path(sys.argv[1]).parent.rglob('*') if p.is_file());"
        "print(json.dumps({'ranks': [len(names)], 'class': 'died' if names == ['rank_0.log', 'rank_1.log', 'stderr', 'stdout'] else None}))"
    )
    assert tried(LOGS, command_of(code), PATIENCE).answer == Answer(Ranks([4]), cause="died")


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("print('{}')", "answered"),
        ("print('{}'); raise SystemExit(3)", "answered"),
        ("print('{\"no_input\": true}')", "no input"),
        ("print('rank 3')", "crashed"),
        ("raise SystemExit('no such folder')", "crashed"),
    ],
)
def test_a_command_ends_in_one_of_four_ways(code: str, ending: str) -> None:
    assert tried(LOGS, command_of(code), PATIENCE).ending == ending


def test_a_command_that_does_not_end_is_stopped() -> None:
    outcome = tried(LOGS, command_of("import threading; threading.Event().wait()"), 0.2)
    assert (outcome.ending, outcome.answer) == ("timed out", Answer())


def test_a_command_that_cannot_start_is_a_crash() -> None:
    assert tried(LOGS, PrintsJson("/no/such/tool {folder}"), PATIENCE).ending == "crashed"


def test_processor_time_counts_children(tmp_path: Path) -> None:
    child = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert run_command([sys.executable, "-c", parent], tmp_path, PATIENCE).cpu_s >= 0.3


def test_the_adapter_of_the_guide_is_scored(tmp_path: Path) -> None:
    block = re.search(r"```python[^\n]*\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    (tmp_path / "mytool.py").write_text(block[1], encoding="utf-8")
    adapter = load_adapter(f"{tmp_path / 'mytool.py'}:MyTool")
    other = BenchJob("other", {"job.log": b""}, TRUTH)
    (tool,) = compare([LOGS, other], [adapter], PATIENCE, processes=2)
    assert [one.ending for one in tool.outcomes] == ["answered", "no input"]
    assert tool.outcomes[0].answer == Answer(Ranks([1]), confidence="low")
    assert tool.readable == {"made-up"}


def test_the_guide_names_every_class_with_its_family() -> None:
    text = README.read_text(encoding="utf-8")
    for family in Family:
        classes = [f"`{cause}`" for cause in CauseClass if cause.family == family]
        row = next(line for line in text.splitlines() if line.startswith(f"| `{family}` |"))
        assert sorted(re.findall(r"`[\w-]+`", row)) == sorted([f"`{family}`", *classes])


@pytest.mark.parametrize("name", ["gremlin", "gremlin.py:Tool", "", "--command"])
def test_an_unknown_adapter_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--adapter={name}", "--jobs", "0"]) == 2
    assert "FILE.py:CLASS" in capsys.readouterr().err


def test_the_page_names_the_command_that_makes_it_again() -> None:
    asked = parsed(["--jobs", "3", "--command", "my tool {folder}", "-o", "/tmp/x.json", "--processes", "2"])
    assert command_line(asked) == (
        "python benchmarks/hangbench/run.py --command 'my tool {folder}' --jobs 3 -o docs/hangbench.md"
    )
    assert [adapter.name for adapter in chosen_adapters(asked.adapter, asked.command)] == ["my"]


def test_the_command_writes_a_page_and_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hangbench.run.labelled.labelled_jobs", lambda simulated: iter([LOGS]))
    tool = shlex.join([sys.executable, "-c", 'print(\'{"ranks": "1", "class": "absent"}\')'])
    wanted = [word for name in ("page.md", "all.json") for word in ("-o", str(tmp_path / name))]
    assert main(["--command", tool, *wanted]) == 0
    assert "| culprit exact | 1 / 1 (100 %) |" in (tmp_path / "page.md").read_text()
    assert '"culprit exact": [' in (tmp_path / "all.json").read_text()
