"""The issue forms: every field of a project's form stands there, and holds a fact or a command that finds it."""

import re
from pathlib import Path

import pytest
from builders.diagnoses import fixtures_diagnoses
from builders.diagnoses.bundled import incident
from click.testing import CliRunner
from markdown_it import MarkdownIt

import nccldoctor
from nccldoctor.cli import app
from nccldoctor.events import Events
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.reports import forms

FIELDS = {
    "pytorch": ["🐛 Describe the bug", "Versions"],
    "nccl": [
        "How is this issue impacting you?",
        "Share Your Debug Logs",
        "Steps to Reproduce the Issue",
        "NCCL Version",
        "Your platform details",
        "Error Message & Behavior",
    ],
    "vllm": ["Your current environment", "🐛 Describe the bug", "Before submitting a new issue..."],
    "verl": ["System Info", "Information", "Tasks", "Reproduction", "Expected behavior"],
    "deepspeed": [
        "Describe the bug",
        "To Reproduce",
        "Expected behavior",
        "ds_report output",
        "Screenshots",
        "System info (please complete the following information):",
        "Launcher context",
        "Docker context",
        "Additional context",
    ],
    "hpc-desk": ["Summary", "Job", "What we ask for", "Log lines", "How the job was started", "Versions"],
}
"""The labels of the public forms, in their order; those of the desk are ours."""

JOB = incident("rank0-sampling")
NOTHING_KNOWN = fixtures_diagnoses.undetermined()


def fields_of(text: str) -> dict[str, str]:
    """The labels of a filled form, as GitHub writes them, and what stands below each."""
    _, *rest = re.split(r"^(?:### (.+)|\*\*(.+)\*\*)$", text, flags=re.MULTILINE)
    return {rest[n] or rest[n + 1]: rest[n + 2].strip() for n in range(0, len(rest), 3)}


@pytest.mark.parametrize("form", FIELDS)
@pytest.mark.parametrize("name", ["", "hardware", "healthy", "jax-died", "rank0-sampling", "ras-queries"])
def test_every_field_stands_there_and_none_is_empty(form: str, name: str) -> None:
    text = incident(name).to_form(form) if name else forms.filled(form, NOTHING_KNOWN, Events(), None)
    fields = fields_of(text)

    assert list(fields) == FIELDS[form]
    assert all(fields.values())
    assert "\n\n\n" not in text
    assert not re.search(r": ?``|None\b(?!;)|\{\{|\{%", text)


@pytest.mark.parametrize("form", FIELDS)
def test_what_is_unknown_is_a_box_with_a_command(form: str) -> None:
    text = forms.filled(form, NOTHING_KNOWN, Events(), None)
    boxes = re.findall(r"^- \[ \] (.*(?:\n  .*)*)", text, flags=re.MULTILINE)
    without = [box for box in boxes if "`" not in box]

    assert any(re.match("NCCL is not in the files, this prints it: `python3 -c", box) for box in boxes)
    assert set(without) <= {
        "How often it happens, and the last version that worked.",
        "The official example scripts",
        "My own task or dataset",
    }, "only what a person alone knows"


def test_what_was_read_is_filled_in() -> None:
    text = JOB.to_form("pytorch")

    for fact in (
        "Rank 0 (node0) never reached `ALLREDUCE #6764`.",
        "`node0`: ranks 0-3",
        "Process group `default_pg (0)`: ranks 0-3",
        "finishes within its timeout of 10 min",
        "torchrun --nproc_per_node=4 train_distillation.py",
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6764",
    ):
        assert fact in text, fact
    assert "The command is not in the files" not in text
    assert "the smallest run that tells more" not in text, "the verdict is sure"
    assert "the smallest run that tells more" in forms.filled("nccl", NOTHING_KNOWN, Events(), None)


def test_the_dropdown_of_nccl_holds_one_of_its_options() -> None:
    died = incident("died")

    assert fields_of(JOB.to_form("nccl"))["How is this issue impacting you?"] == "Application hang"
    assert fields_of(died.to_form("nccl"))["How is this issue impacting you?"] == "Application crash"


def test_versions_that_a_log_prints_need_no_command(tmp_path: Path) -> None:
    lines = ("node7:100:100 [0] NCCL INFO NCCL version 2.27.5+cuda12.9", "RuntimeError: boom", "SLURM_JOB_ID=4711")
    (tmp_path / "rank_0.log").write_text("".join(f"[rank0]: {line}\n" for line in lines))
    incident = nccldoctor.analyze(tmp_path)

    assert fields_of(incident.to_form("nccl"))["NCCL Version"] == "- NCCL: `2.27.5`"
    assert "No INFO line of NCCL" not in incident.to_form("nccl")
    assert "- Job id: `4711`" in incident.to_form("hpc-desk")


def test_the_desk_is_asked_for_no_host_without_a_sure_reason() -> None:
    broken = incident("hardware")
    hosts = broken.diagnosis.action.cordon

    assert hosts
    assert f"Take {hosts[0]} out of service" in broken.to_form("hpc-desk").replace("`", "")
    assert "out of service and test it" not in JOB.to_form("hpc-desk")


@pytest.mark.parametrize("form", FIELDS)
def test_text_of_a_log_stays_text(form: str) -> None:
    html = MarkdownIt("commonmark").render(forms.filled(form, fixtures_diagnoses.hostile(), Events(), None))

    assert not re.search(r"<(script|img|a|iframe)\b", html)
    assert "hf_verysecret" not in html


def test_a_form_that_is_not_there_is_refused() -> None:
    (offered,) = [option.type.choices for option in app.report.params if option.name == "form"]
    assert set(offered) == set(forms.FORMS) == set(FIELDS)
    with pytest.raises(NccldoctorError, match="there is no form 'jax'"):
        JOB.to_form("jax")


def test_the_command_prints_the_form_with_stand_ins(tmp_path: Path) -> None:
    found = CliRunner().invoke(
        app.cli, ["report", str(nccldoctor.demo("died")), "--for", "nccl", "--redact", "hosts,paths"]
    )

    assert found.exit_code == 0, found.output
    assert "host-1" in found.stdout
    assert "node0" not in found.stdout
    nothing = CliRunner().invoke(app.cli, ["report", str(tmp_path), "--for", "nccl"])
    assert nothing.exit_code == 2
