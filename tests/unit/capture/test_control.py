"""What a script calls, and ``python -m nccldoctor.capture``: real processes without torch."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nccldoctor.capture.control import HANDED_ON, STALL_AFTER, for_hook
from nccldoctor.rehearsal.launch import sidecars_of

ROOT = Path(__file__).resolve().parents[3]


def python(*command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RANK": "3", "WORLD_SIZE": "8"} | variables
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def captured(tmp_path: Path, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "train.py").write_text(script)
    return python("-m", "nccldoctor.capture", "--to", "run", "train.py", *arguments, folder=tmp_path, **variables)


def wait_for_sidecars(pid: int) -> None:
    """Block until those of a process that has ended are gone."""
    for beside in sidecars_of([pid]):
        try:
            descriptor = os.pidfd_open(beside)
        except ProcessLookupError:
            continue
        assert select.select([descriptor], [], [], 30)[0]
        os.close(descriptor)


def log(tmp_path: Path) -> str:
    return (tmp_path / "run" / "rank_3.log").read_text()


def test_importing_capture_imports_neither_torch_nor_the_analysis(tmp_path: Path) -> None:
    code = (
        "import sys; from nccldoctor import capture; capture.start('run'); "
        "print(sorted({'torch', 'numpy', 'click', 'nccldoctor.model', 'nccldoctor.parsers'} & set(sys.modules)))"
    )
    done = python("-c", code, folder=tmp_path)
    assert done.stdout == "[]\n", done.stderr


def test_a_script_runs_as_it_would_alone(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'found'\n")
    script = (
        "import atexit, pickle, sys, beside\n"
        "class Thing: pass\n"
        "atexit.register(lambda: print('at the end', Thing.__name__))\n"
        "print(__name__, sys.argv, beside.WORD, type(pickle.loads(pickle.dumps(Thing()))).__name__)\n"
    )
    done = captured(tmp_path, script, "--lr", "0.1")
    assert done.stdout == "__main__ ['train.py', '--lr', '0.1'] found Thing\nat the end Thing\n", done.stderr
    assert done.returncode == 0
    assert "[rank 3] exiting normally" in log(tmp_path)


def test_a_module_runs_as_it_would_alone(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    done = python("-m", "nccldoctor.capture", "--to", "run", "-m", "package.train", "-x", folder=tmp_path)
    assert done.stdout == "__main__ ['-x']\n", done.stderr


@pytest.mark.parametrize(("line", "code"), [("sys.exit(7)", 7), ("sys.exit('no data')", 1), ("sys.exit()", 0)])
def test_the_exit_status_is_the_scripts(tmp_path: Path, line: str, code: int) -> None:
    """The rank cannot know it: the sidecar sees it, unless the parent of the rank was faster."""
    (tmp_path / "train.py").write_text(f"import sys\n{line}\n")
    command = [sys.executable, "-m", "nccldoctor.capture", "--to", "run", "train.py"]
    rank = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT), "RANK": "3"})
    os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT)
    wait_for_sidecars(rank.pid)
    assert rank.wait() == code
    assert log(tmp_path).count("exiting normally") == (code == 0)
    assert log(tmp_path).count(f"process {rank.pid} ended with exit code {code}") == (code != 0)


def test_an_exception_is_printed_and_kept(tmp_path: Path) -> None:
    done = captured(tmp_path, "def load():\n    raise ValueError('bad shard')\nload()\n")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: bad shard")
    text = log(tmp_path)
    assert text.count("ValueError: bad shard") == 1
    assert f'File "{tmp_path}/train.py", line 2, in load' in text
    assert "nccldoctor/" not in text.partition("Traceback")[2], "frames of capture are no frames of the job"


def test_the_last_step_stands_before_the_exception(tmp_path: Path) -> None:
    """A step behind it would look as if the process had caught the exception and trained on."""
    script = "from nccldoctor import capture\nfor n in range(5):\n    capture.step(n)\nraise ValueError('bad shard')\n"
    captured(tmp_path, script)
    text = log(tmp_path)
    assert 0 < text.index("heartbeat: step=4") < text.index("ValueError")
    assert text.count("step=4") == 1


def test_capture_that_cannot_write_says_so_once_and_the_job_goes_on(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file, not a folder")
    done = captured(tmp_path, "print('trained')\n")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.count("\n") == 1
    assert "nccldoctor.capture [rank 3] nothing is captured" in done.stderr


def test_a_limit_that_is_no_time_costs_the_evidence_and_not_the_job(tmp_path: Path) -> None:
    code = "from nccldoctor import capture; capture.start('run', stall_after=-1.0); print('trained')"
    done = python("-c", code, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr == "nccldoctor.capture [rank 3] nothing is captured: stall_after=-1.0 is no time\n"
    assert python("-m", "nccldoctor.capture", "--stall-after", "0", "train.py", folder=tmp_path).returncode == 2


def test_only_what_torchrun_starts_itself_is_captured_by_its_plug_in(tmp_path: Path) -> None:
    """A Python that a wrapper starts says so once; it and its children find the environment as it was."""
    script = "import os, subprocess, sys\nprint(os.environ.get('PYTHONPATH'), HOOK in os.environ)\n".replace(
        "HOOK", repr(HANDED_ON)
    )
    script += "len(sys.argv) > 1 or subprocess.run([sys.executable, *sys.argv, 'child'])\n"
    (tmp_path / "train.py").write_text(script)
    for parent, lines in ((os.getpid(), 0), (1, 1)):
        done = python("train.py", folder=tmp_path, **for_hook(parent, "run"))
        assert done.stdout == f"{os.environ.get('PYTHONPATH')} False\n" * 2
        assert done.stderr.count("\n") == done.stderr.count("nothing is captured: torchrun did not start") == lines
        assert (tmp_path / "run" / "rank_3.log").exists() == (parent != 1)
        shutil.rmtree(tmp_path / "run", ignore_errors=True)


@pytest.mark.parametrize("before", [None, "", "/elsewhere"])
def test_what_a_wrapper_adds_to_the_path_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONPATH", before)
    ours = for_hook(1, "run")
    (tmp_path / "train.py").write_text("import os\nprint(os.environ.get('PYTHONPATH'))\n")
    for added in ("", "/site:"):
        variables = ours | {"PYTHONPATH": added + ours["PYTHONPATH"]}
        done = python("train.py", folder=tmp_path, **variables)
        assert done.stdout == f"{added + (before or '') if added or before is not None else None}\n"


@pytest.mark.parametrize("seconds", ["-1", "soon"])
def test_a_variable_that_is_no_time_costs_the_evidence_and_not_the_job(tmp_path: Path, seconds: str) -> None:
    done = captured(tmp_path, "print('trained')\n", **{STALL_AFTER: seconds})
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.count("\n") == done.stderr.count("nothing is captured") == 1


FULL = """
import itertools, os, resource, time
from nccldoctor import capture
from nccldoctor.capture.control import _RUNNING
session = _RUNNING[0]
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(session.evidence.log), resource.RLIM_INFINITY))
for step in itertools.count():
    capture.step(step)
    if session._has_ended:
        break
    time.sleep(0.01)
print("trained")
"""


def test_a_disk_that_fills_up_costs_one_line_and_the_evidence(tmp_path: Path) -> None:
    """Files that may not grow fail as those of a full disk do, with another number."""
    done = captured(tmp_path, FULL)
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "nccldoctor.capture [rank 3] no more is captured: OSError" in done.stderr


def test_a_setting_that_defeats_capture_is_named(tmp_path: Path) -> None:
    done = captured(tmp_path, "import os; print(os.environ['TORCH_FR_BUFFER_SIZE'])", TORCH_NCCL_TRACE_BUFFER_SIZE="0")
    assert done.stdout == "0\n"
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE=0 turns the flight recorder off" in done.stderr


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    code = (
        "from nccldoctor import capture\ncapture.start('run')\n"
        "from nccldoctor.capture.control import _RUNNING\nimport os\nprint(os.getpid(), _RUNNING[0]._scratch.top)\n"
    )
    done = python("-c", code, folder=tmp_path)
    pid, scratch = done.stdout.split()
    wait_for_sidecars(int(pid))
    assert not list(sidecars_of([int(pid)]))
    assert not Path(scratch).exists()
    assert "exiting normally" not in log(tmp_path).partition("the interpreter exits")[0], "it cannot know"


STARTED = (
    "import os, signal, sys\n{before}\nfrom nccldoctor import capture\ncapture.start('run', stall_after=0.2)\n{then}\n"
)
NO_CHILD = "try: os.wait()\nexcept ChildProcessError: print('no child')"


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", ""),
        ("signal.signal(signal.SIGCHLD, lambda *_: print('a child'))", "no sidecar: the script handles SIGCHLD"),
        ("import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)", "no sidecar: this process adopts orphans"),
    ],
)
def test_a_script_that_starts_capture_has_no_child_of_it(before: str, told: str, tmp_path: Path) -> None:
    """As the first process of a container, one that is told to take in orphans becomes the parent of the sidecar."""
    done = python("-c", STARTED.format(before=before, then=NO_CHILD), folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "no child\n"), done.stderr
    assert done.stderr.count("\n") == bool(told)
    assert told in done.stderr


def test_a_timer_that_the_script_set_before_it_starts_capture_fires(tmp_path: Path) -> None:
    before = "import faulthandler; faulthandler.dump_traceback_later(0.4, exit=True)"
    done = python("-c", STARTED.format(before=before, then="signal.pause()"), folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Timeout (0:00:00.4")


def test_another_program_that_runs_capture_runs_the_script_uncaptured(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint(__name__, sys.argv)\n")
    (tmp_path / "tool.py").write_text(
        "import runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_module('nccldoctor.capture', None, '__main__', True)\n"
    )
    done = python("tool.py", "nccldoctor.capture", "train.py", "-x", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "__main__ ['train.py', '-x']\n"), done.stderr
    assert "nothing is captured: another program runs this module" in done.stderr
    assert not (tmp_path / "capture").exists()
