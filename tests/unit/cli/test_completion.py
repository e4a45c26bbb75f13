"""What the shell offers behind a half-typed command."""

import pytest
from click.shell_completion import BashComplete

from nccldoctor.cli import completion
from nccldoctor.cli.app import cli


def offered(*words: str) -> set[str]:
    *done, typed = words
    complete = BashComplete(cli, {}, "nccldoctor", "_NCCLDOCTOR_COMPLETE")
    return {item.value for item in complete.get_completions(list(done), typed)}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("explain", "dataloader-s"), {"dataloader-stall"}),
        (("explain", "nccl_timeout_mi"), {"NCCL_TIMEOUT_MINUTES"}),
        (("explain", "not-arr"), {"not-arrived"}),
        (("catalogue", "show", "dataloader-s"), {"dataloader-stall"}),
        (("demo", "rank0"), {"rank0-sampling"}),
        (("demo", "--live", "dead"), {"deadlock"}),
        (("analyze", "--redact", "h"), {"hosts"}),
        (("analyze", "--redact", "hosts,users,"), {"hosts,users,paths", "hosts,users,addresses"}),
        (("analyze", "--format", "j"), {"json", "jira"}),
        (("hist",), {"history"}),
    ],
)
def test_names_are_completed(words: tuple[str, ...], names: set[str]) -> None:
    assert offered(*words) == names


@pytest.mark.parametrize(
    "words",
    [
        ("analyze",),
        ("inspect",),
        ("reduce",),
        ("merge",),
        ("watch",),
        ("env",),
        ("env", "check"),
        ("diff",),
        ("analyze", "-o"),
    ],
)
def test_the_shell_completes_the_names_of_files(words: tuple[str, ...]) -> None:
    complete = BashComplete(cli, {}, "nccldoctor", "_NCCLDOCTOR_COMPLETE")
    assert "file" in {item.type for item in complete.get_completions(list(words), "run/ra")}


def test_a_part_that_breaks_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[str]:
        raise RuntimeError("no catalogue")

    assert completion.completing(broken)(None, None, "x") == []  # type: ignore[arg-type]
