"""The commands that reach nodes, and the names that they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccldoctor.collect.reach.kubernetes import Pods
from nccldoctor.collect.reach.slurm import Slurm
from nccldoctor.collect.reach.ssh import Ssh, read_hosts
from nccldoctor.collect.reach.this_machine import ThisMachine
from nccldoctor.collect.reach.way import Command, LookUp, Target, Way, command_lines
from nccldoctor.model.errors import InputError

PYTHON = ("python3", "-", "--pid", "all")


def looked_up(answers: dict[str, str]) -> LookUp:
    """A look-up with fixed answers, by the first two words of a command."""
    return lambda command: answers[" ".join(command[:2])]


def targets(way: Way, **answers: str) -> list[Target]:
    return list(way.find_targets(looked_up({name.replace("_", " "): text for name, text in answers.items()}), PYTHON))


def squeue(*rows: str) -> LookUp:
    """``squeue`` with these rows; ``scontrol`` gives two names for each list."""

    def answer(command: Command) -> str:
        return "\n".join(rows) + "\n" if command[0] == "squeue" else "\n".join(f"{command[-1]}{n}" for n in "ab")

    return answer


def test_a_slurm_job_is_one_step_for_each_node() -> None:
    found = Slurm("4711").find_targets(squeue("4711|4711|RUNNING|gpu-"), PYTHON)
    one_task = ("--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--cpus-per-task=1")
    assert [target.name for target in found] == ["gpu-a", "gpu-b"]
    assert found[1].command == (
        "srun", "--jobid=4711", "--overlap", *one_task, "--nodelist=gpu-b", "--quiet", "--", *PYTHON,
        "--where", "SLURM_JOB_ID=4711",
    )  # fmt: skip


def test_a_task_of_an_array_is_reached_by_its_own_number() -> None:
    found = Slurm("4711_3").find_targets(squeue("4714|4711_3|RUNNING|n"), PYTHON)
    assert found[0].command[1] == "--jobid=4714"
    assert found[0].command[-1] == "SLURM_JOB_ID=4714"


def test_processes_of_other_jobs_are_left_out_on_wish_alone() -> None:
    assert Slurm("7", alone=False).planned_targets(PYTHON)[0].command[-4:] == PYTHON


def test_all_parts_of_a_heterogeneous_job_are_reached() -> None:
    found = Slurm("20").find_targets(squeue("20|20+0|RUNNING|cpu", "21|20+1|RUNNING|gpu"), PYTHON)
    assert [(target.name, target.command[1]) for target in found] == [
        ("cpua", "--jobid=20"), ("cpub", "--jobid=20"), ("gpua", "--jobid=21"), ("gpub", "--jobid=21"),
    ]  # fmt: skip


def test_an_array_is_not_guessed_at() -> None:
    with pytest.raises(InputError, match="is an array") as raised:
        Slurm("4711").find_targets(squeue("4711|4711_1|RUNNING|n1", "4712|4711_2|RUNNING|n2"), PYTHON)
    assert "4711_1, 4711_2" in raised.value.hint


@pytest.mark.parametrize(("rows", "says"), [(("7|7|PENDING|",), "PENDING"), ((), "unknown to squeue")])
def test_a_job_that_does_not_run_is_an_error(rows: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=rf"isn't running \({says}\)"):
        Slurm("7").find_targets(squeue(*rows), PYTHON)


@pytest.mark.parametrize("job", ["--help", "4711;reboot", "train", "", "4711_", "$(id)"])
def test_a_job_is_a_number(job: str) -> None:
    with pytest.raises(InputError, match="isn't a Slurm job id"):
        Slurm(job)


POD_LIST = """{"items": [
 {"metadata": {"name": "train-1"}, "status": {"phase": "Pending"}},
 {"metadata": {"name": "train-0"}, "status": {"phase": "Running"}}]}"""


def test_pods_are_reached_by_exec_and_others_keep_their_phase() -> None:
    way = Pods("job-name=train", "ml", "trainer")
    assert way.listing() == (
        ("kubectl", "get", "pods", "--selector=job-name=train", "--namespace=ml", "--output=json"),
    )  # fmt: skip
    assert targets(way, kubectl_get=POD_LIST) == [
        Target(
            "train-0",
            ("kubectl", "exec", "--stdin", "--namespace=ml", "--container=trainer", "train-0", "--", *PYTHON),
        ),
        Target("train-1", problem="the pod is Pending"),
    ]


@pytest.mark.parametrize(
    "answer", ["", "[]", "null", '{"items": 3}', '{"items": [{"metadata": 1}]}', "Error from server"]
)
def test_an_answer_that_lists_no_pods_is_an_error(answer: str) -> None:
    with pytest.raises(InputError, match="printed no list of pods"):
        targets(Pods("job-name=train"), kubectl_get=answer)


def test_a_label_that_no_pod_has_is_an_error() -> None:
    with pytest.raises(InputError, match=r"no pod has the label a=b in namespace ml"):
        targets(Pods("a=b", "ml"), kubectl_get='{"items": []}')


def test_a_pod_with_the_name_of_an_option_is_refused() -> None:
    listed = '{"items": [{"metadata": {"name": "--kubeconfig=evil"}, "status": {"phase": "Running"}}]}'
    with pytest.raises(InputError, match="can't be the name of a pod"):
        targets(Pods("a=b"), kubectl_get=listed)


def test_ssh_asks_nobody_and_guards_the_name() -> None:
    assert targets(Ssh(("user@gpu-a07",)))[0].command == (
        "ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", "user@gpu-a07", "python3 - --pid all",
    )  # fmt: skip


def test_the_remote_shell_gets_quoted_words() -> None:
    command = Ssh(("a",)).find_targets(looked_up({}), ("/opt/my python/bin/python", "-"))[0].command
    assert command[-1] == "'/opt/my python/bin/python' -"


@pytest.mark.parametrize("host", ["-oProxyCommand=reboot", "a b", "a;b", "$(id)", "", "a\nb"])
def test_a_host_that_could_be_an_option_or_a_command_is_refused(host: str) -> None:
    with pytest.raises(InputError, match="can't be a host"):
        Ssh((host,))


def test_hosts_are_the_first_words_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text("# the job of today\ngpu-a07 slots=8\n\nuser@gpu-a08  # the other one\ngpu-a07\n[2001:db8::1]\n")
    assert read_hosts(file) == ("gpu-a07", "user@gpu-a08", "[2001:db8::1]")


def test_a_file_without_hosts_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("# nothing\n")
    with pytest.raises(InputError, match="names no host"):
        read_hosts(tmp_path / "hosts.txt")
    with pytest.raises(InputError, match="No such file"):
        read_hosts(tmp_path / "missing.txt")


def test_this_machine_runs_the_same_collector() -> None:
    (target,) = targets(ThisMachine())
    assert target.command[1:] == PYTHON[1:]
    assert Path(target.command[0]).name.startswith("python")


def test_every_command_can_be_shown_and_pasted() -> None:
    way = Pods("app in (a, b)")
    found = (
        Target("train-0", ("kubectl", "exec", "train-0", "--", "python3", "-")),
        Target("train-1", problem="Pending"),
    )
    assert command_lines(way, found, Path("/opt/my tools/on_node.py")) == [
        "kubectl get pods '--selector=app in (a, b)' --output=json",
        "kubectl exec train-0 -- python3 - < '/opt/my tools/on_node.py'",
        "# train-1: Pending",
    ]
