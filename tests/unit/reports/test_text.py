from dataclasses import replace

import pytest
from builders import fixtures_diagnoses
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import text
from nccldoctor.words import sanitize


@pytest.mark.parametrize("make", [*fixtures_diagnoses.EVERY, lambda: fixtures_diagnoses.large(1024)])
@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_the_terminal_and_the_whole_is_a_screen(make, width):
    lines = text.plain(make(), width=width, ascii_only=False).splitlines()

    assert max(map(len, lines)) <= width
    assert len(lines) <= 170


def test_the_summary_says_who_where_how_sure_and_what_to_do():
    out = text.plain(fixtures_diagnoses.lagging(), width=100, ascii_only=False)

    assert out.startswith("Rank 5 (gpu-a018, GPU 1) never entered ALLREDUCE #18723")
    assert "Missing rank  rank 5 on gpu-a018 (GPU 1, pid 48213)" in out
    assert "ALLREDUCE #18723  group dp_1, numel 6,553,600, 3 of 4 ranks arrived, limit 10 min" in out
    assert "high, 3 independent sources agree, 1 contradicts" in out
    assert "Rank 4 logged the first error, but it's a victim." in " ".join(out.split())
    assert "ssh gpu-a018 'ps -o pid,stat,wchan:28,cmd --ppid 48213'" in out
    assert "NCCL_TIMEOUT=1200000: Neither NCCL nor PyTorch reads it. (seen in launch.sh:12)" in out
    assert "0, 2, 4, 6" in out


def test_a_healthy_job_names_nobody():
    out = text.plain(fixtures_diagnoses.healthy(), width=100, ascii_only=False)

    assert "not known" not in out
    assert "Lagging" not in out
    assert "Nothing, as far as this input tells." in out


def test_suspects_are_called_suspects():
    out = text.plain(fixtures_diagnoses.undetermined(), width=100, ascii_only=False)

    assert "Suspects      ranks 1-3" in out
    assert "Confidence    not enough to judge" in out


def test_other_findings_are_listed():
    out = text.plain(fixtures_diagnoses.two_stalls(), width=100, ascii_only=False)

    assert "F2  Rank 0 died" in out
    assert "F3  Rank 4 died" in out


@pytest.mark.parametrize("make", fixtures_diagnoses.EVERY)
def test_colour_changes_nothing_but_colour(make):
    from rich.text import Text

    colored = text.colored(make(), width=90, ascii_only=False)
    plain = text.plain(make(), width=90, ascii_only=False)

    assert "\x1b[" in colored
    rows = [row.rstrip() for row in Text.from_ansi(colored).plain.splitlines()]
    assert rows == [row.rstrip() for row in plain.splitlines()]


@pytest.mark.parametrize("make", fixtures_diagnoses.EVERY)
def test_ascii_is_ascii(make):
    text.plain(make(), width=80, ascii_only=True).encode("ascii")


def test_a_long_label_keeps_a_blank_before_its_value():
    made = fixtures_diagnoses.lagging()
    verdict = replace(made.verdict, cause=CauseClass.HARDWARE, ranks=Ranks([4, 5]))
    out = text.plain(replace(made, findings=(verdict, *made.findings[1:])), width=100, ascii_only=False)

    assert "Affected ranks ranks 4-5" in out


def test_hostile_text_cannot_drive_the_terminal():
    out = text.plain(fixtures_diagnoses.hostile(), width=100, ascii_only=False)

    assert not any(bad in out for bad in "\x00\x1b\x07\u202e\u2066\u200b\ud800")
    assert "hf_verysecret" not in out


@given(st.text(alphabet=st.characters(codec=None)), st.integers(1, 60))
def test_visible_text_is_bounded_encodable_and_shows_everything(value, limit):
    shown = sanitize.sanitize(value, limit)

    assert len(shown) <= limit
    shown.encode("utf-8")
    assert all(char in "\n\t" or char.isprintable() or char.isspace() or ord(char) > 0x20 for char in shown)


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ("export HF_TOKEN=hf_abc", "export HF_TOKEN=***"),
        ("{'WANDB_API_KEY': 'abc', 'RANK': '3'}", "{'WANDB_API_KEY': '***', 'RANK': '3'}"),
        ("AWS_SECRET_ACCESS_KEY=a/b+c DB_PASSWORD: x", "AWS_SECRET_ACCESS_KEY=*** DB_PASSWORD: ***"),
        ("NCCL_IB_PKEY=3 TOKENIZERS_PARALLELISM=false", "NCCL_IB_PKEY=3 TOKENIZERS_PARALLELISM=false"),
        ("KeyError: 'loss'; key=worker0", "KeyError: 'loss'; key=worker0"),
    ],
)
def test_values_of_secrets_are_masked(found, shown):
    assert sanitize.sanitize(found) == shown


@pytest.mark.parametrize("width", [40, 50, 60, 100])
def test_a_narrow_terminal_keeps_the_role_of_each_rank(width):
    out = text.plain(fixtures_diagnoses.lagging(), width=width, ascii_only=False).splitlines()

    (head,) = (row for row in out if row.startswith("ranks"))
    assert head.endswith("role")
    assert any(row.startswith("5 ") and row.endswith("missing") for row in out)
    assert ("group" in head) == (width >= 60)
