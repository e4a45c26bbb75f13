"""Every block of the documents is run, or at least parsed where it needs what a test does not have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from builders.documents.doc_blocks import NEEDS, ROLES, ROOT, Block, blocks, documents, nccldoctor_commands
from click.testing import CliRunner

from nccldoctor.cli import demo
from nccldoctor.cli.app import cli

ALL = [block for page in documents() for block in blocks(page)]
ELSEWHERE = ROOT / "docs" / "adding-things.md"
"""Its blocks are run by tests/project/test_adding_things.py, in a copy of the checkout."""
PAGES = sorted({b.page for b in ALL if b.is_run and b.language in ("sh", "python") and b.page != ELSEWHERE})

SHIM = """#!/bin/sh
# The command as installed. A diagnosis ends with 1 or 3, which is no failure of a document.
"{python}" -m nccldoctor "$@"
code=$?
case $code in 1 | 3) exit 0 ;; *) exit $code ;; esac
"""


def _name(value: Block | Path) -> str:
    return value.place if isinstance(value, Block) else str(value.relative_to(ROOT))


def test_each_block_has_a_known_language_and_known_words() -> None:
    unknown = [b.place for b in ALL if not b.words <= NEEDS | ROLES]
    assert unknown == []
    assert {b.language for b in ALL} <= {"sh", "python", "text", "toml", "yaml", "json"}


@pytest.mark.parametrize("block", [b for b in ALL if b.language == "sh"], ids=_name)
def test_a_shell_block_is_well_formed(block: Block) -> None:
    checked = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def _commands_without_work(group: click.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in group.commands.values():
        if isinstance(command, click.Group):
            _commands_without_work(command, monkeypatch)
        else:
            monkeypatch.setattr(command, "callback", lambda **_: None)


@pytest.mark.parametrize("block", [b for b in ALL if b.language == "sh"], ids=_name)
def test_the_command_line_takes_what_a_block_gives_it(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    _commands_without_work(cli, monkeypatch)
    for arguments in nccldoctor_commands(block.text):
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, f"nccldoctor {' '.join(arguments)}: {result.output}"


def test_commands_are_found_in_pipes_quotes_and_substitutions() -> None:
    script = "env | nccldoctor env check - > out\nnccldoctor watch logs/ --exec 'nccldoctor collect --slurm \"$J\"' 2> x # nccldoctor\n"
    script += "x=$(nccldoctor demo --list)\n"
    assert sorted(nccldoctor_commands(script)) == [
        ["collect", "--slurm", "1"],
        ["demo", "--list"],
        ["env", "check", "-"],
        ["watch", "logs/", "--exec", 'nccldoctor collect --slurm "1"'],
    ]


@pytest.mark.parametrize("block", [b for b in ALL if b.language in ("python", "toml", "yaml", "json")], ids=_name)
def test_a_block_in_a_language_can_be_parsed(block: Block) -> None:
    if block.language == "python":
        compile(block.text, block.place, "exec")
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "yaml":
        list(yaml.safe_load_all(block.text))
    else:
        json.loads(block.text)


def _in_shell(block: Block, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block.place} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def _is_shown(shown: str, printed: str) -> bool:
    """True where the lines shown stand in what was printed, in this order; ``[…]`` stands for lines left out."""
    at = 0
    for part in shown.split("[…]\n"):
        at = printed.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_the_blocks_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder with a bundled incident in ``logs/``, as a reader would try them."""
    folder, programs = tmp_path / "work", tmp_path / "bin"
    demo.write(demo.DEFAULT, folder / "logs")
    programs.mkdir()
    (programs / "nccldoctor").write_text(SHIM.format(python=sys.executable))
    (programs / "nccldoctor").chmod(0o755)
    set_here = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
        "HOME": str(tmp_path),
    }
    for name, value in set_here.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.chdir(folder)
    printed, names = "", {}
    for block in blocks(page):
        if block.language == "sh" and block.is_run:
            printed = _in_shell(block, folder, dict(os.environ))
        elif block.language == "python" and block.is_run:
            exec(compile(block.text, block.place, "exec"), names)
        elif "output" in block.words:
            assert _is_shown(block.text, printed), f"{block.place} isn't what was printed:\n{printed}"


SLURM = ROOT / "docs" / "launchers" / "slurm.md"
SRUN = """#!/bin/bash
# Two tasks on this machine, as srun -v starts them: --output=FILE with %t, then a command.
for word; do case $word in --output=*) output=${word#--output=} ;; -v) told=yes ;; --*) ;; *) break ;; esac; shift; done
code=0
[ -z "$told" ] || echo "srun: launching StepId=4711.0 on host gpu-a07, 2 tasks: [0-1]" >&2
for task in 0 1; do
  SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NTASKS=2 "$@" > "${output//%t/$task}" 2>&1 &
  started[task]=$!
done
for task in 0 1; do
  if wait "${started[task]}"; then
    [ -z "$told" ] || echo "srun: launch/slurm: _task_finish: gpu-a07: task $task: Completed" >&2
  else
    code=1
  fi
done
exit $code
"""
TRAIN = """
import os
assert os.environ["TORCH_FR_DUMP_TEMP_FILE"].endswith("/dumps/nccl_trace_rank_")
assert os.environ["MASTER_ADDR"] == "gpu-a07"
assert os.environ["PYTHONUNBUFFERED"]
if os.environ["RANK"] == os.environ.get("FAILING", ""):
    raise FileNotFoundError("shard_00004.idx")
"""


def _batch_script() -> str:
    (script,) = (block.text for block in blocks(SLURM) if block.text.startswith("#!/bin/bash\n"))
    return script


def test_the_directives_of_the_batch_script_are_options_of_sbatch() -> None:
    known = {"job-name", "nodes", "ntasks-per-node", "gpus-per-node", "time", "signal", "output"}
    lines = [line for line in _batch_script().splitlines() if line.startswith("#SBATCH")]
    directives = dict(line.removeprefix("#SBATCH --").split("=", 1) for line in lines)
    assert set(directives) == known
    assert directives["signal"] == "B:TERM@300"
    assert "\n\n#SBATCH" not in _batch_script(), "sbatch ends reading directives at the first command"


def _run_batch_script(tmp_path: Path, watched: str, failing: str) -> tuple[int, Path]:
    """Its own lines are run; ``srun`` and ``scontrol`` are stand-ins, and ``nccldoctor watch`` only runs ``watched``."""
    programs, work = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    shim = SHIM.format(python=sys.executable)
    watchless = shim.replace("# The command", f'[ "$1" = watch ] && {watched}\n# The command')
    shims = {
        "srun": SRUN,
        "nccldoctor": watchless,
        "python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
        "scontrol": "#!/bin/sh\necho gpu-a07\necho gpu-a08\n",
    }
    for name, text in shims.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (work / "train.py").write_text(TRAIN)
    (work / "train.sbatch").write_text(_batch_script())
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "FAILING": failing,
        "SLURM_SUBMIT_DIR": str(work),
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_NODELIST": "gpu-a[07-08]",
    }
    with (work / "train-4711.out").open("w") as output:
        done = subprocess.run(
            ["bash", "train.sbatch"], cwd=work, env=environment, stdout=output, stderr=output, check=False
        )

    return done.returncode, work


@pytest.mark.parametrize("watched", [0, 4])
def test_the_batch_script_leaves_logs_of_each_rank_and_a_report(watched: int, tmp_path: Path) -> None:
    code, work = _run_batch_script(tmp_path, f"exit {watched}", failing="1")
    assert code == 1, (work / "train-4711.out").read_text()
    assert (work / "logs-4711/ranks/rank_0.log").read_text().startswith("rank=0 pid=")
    assert "Rank 1" in (work / "logs-4711.txt").read_text()
    assert "FileNotFoundError: shard_00004.idx" in (work / "logs-4711.html").read_text()
    says = "collecting stacks failed"
    assert (says in (work / "train-4711.out").read_text()) is (watched == 4)


def test_a_job_of_the_batch_script_that_ended_well_is_told_as_such(tmp_path: Path) -> None:
    code, work = _run_batch_script(tmp_path, "exit 0", failing="")
    assert code == 0, (work / "train-4711.out").read_text()
    assert (work / "logs-4711.txt").read_text().startswith("ok[none]: No hang or failure found: all 2 ranks")


def test_a_watch_that_does_not_end_holds_no_report_up(tmp_path: Path) -> None:
    code, work = _run_batch_script(tmp_path, "{ trap '' TERM; while :; do sleep 1; done; }", failing="1")
    assert code == 1
    assert "Rank 1" in (work / "logs-4711.txt").read_text()
    assert "collecting stacks failed" in (work / "train-4711.out").read_text()


def test_the_lines_of_the_batch_script_fit_a_terminal() -> None:
    assert max(map(len, _batch_script().splitlines())) < 90


def test_the_page_names_the_files_that_the_script_writes() -> None:
    text = SLURM.read_text()
    after = text[text.index("## After it ended") :]
    assert "#SBATCH --job-name=train\n" in _batch_script()
    assert "#SBATCH --output=%x-%j.out\n" in _batch_script()
    assert "nccldoctor analyze logs-4711/ train-4711.out" in after
