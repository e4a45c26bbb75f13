import re
from pathlib import Path

import pytest
from builders.diagnoses import fixtures_diagnoses
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import nccldoctor
from nccldoctor.model import Confidence, ConfidenceIn, Place
from nccldoctor.model.exhibits import Exhibit, QuotedLines, SourceLine
from nccldoctor.model.figures import SnapshotRow, Snapshots
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import WaitedCall
from nccldoctor.reports import text
from nccldoctor.reports.parts.quoted_proof import quoted
from nccldoctor.words import sanitize


@pytest.mark.parametrize("make", [*fixtures_diagnoses.EVERY, lambda: fixtures_diagnoses.large(1024)])
@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_but_a_command_is_wider_than_the_terminal(make, width):
    lines = text.plain(make(), width=width, ascii_only=False).splitlines()

    assert max(len(row) for row in lines if not row.lstrip().startswith("$")) <= width
    assert len(lines) <= 170


def test_a_wide_terminal_is_used():
    made = fixtures_diagnoses.lagging()
    narrow, wide = (text.plain(made, width=width, ascii_only=False).splitlines() for width in (80, 200))

    assert len(wide) < len(narrow)
    assert 120 < max(map(len, wide)) <= 200


def test_the_summary_says_who_where_when_how_sure_and_what_to_do():
    out = text.plain(fixtures_diagnoses.lagging(), width=100, ascii_only=False)

    assert out.startswith("error[not-arrived]: Rank 5 (gpu-a018, GPU 1) never entered ALLREDUCE #18723")
    assert "= when: since 2026-11-11 03:25:02 UTC for 10 min 02 s (timeout 10 min)" in out
    assert "= where: rank 5 on gpu-a018, pid 48213, GPU 1" in out
    assert "= call: ALLREDUCE #18723 in dp_1, 6,553,600 elements, 3 of 4 ranks arrived" in out
    assert "= blocked: ranks 0-4, 6-7 (7 of 8)" in out
    assert "= confidence: high, 3 independent sources: " in out and "; 1 contradicts" in " ".join(out.split())
    assert "ssh gpu-a018 'ps -o pid,stat,wchan:28,cmd --ppid 48213'" in out
    assert "NCCL_TIMEOUT=1200000" in out and "(launch.sh:12)" in out
    assert "remedy: nccldoctor explain dataloader-stall" in out


def test_a_verdict_that_is_not_sure_names_the_settings_for_the_next_run():
    sure = fixtures_diagnoses.lagging()
    unsure = replace(sure.verdict, confidence_in=ConfidenceIn(Confidence.MEDIUM, Confidence.MEDIUM))
    assert "next time:" not in text.plain(sure, width=100, ascii_only=False)
    assert "next time: nccldoctor env" in text.plain(replace(sure, findings=(unsure,)), width=100, ascii_only=False)


@pytest.mark.parametrize(
    ("frames", "peers", "told"),
    [
        (("f (t.py:1)",) * 2, ("g (t.py:4)",) * 2, "rank 5 stayed in f (t.py:1) over 2 looks, 30 s apart; no other rank moved"),
        (("f (t.py:1)", "h (t.py:9)"), ("g (t.py:4)",) * 2, "rank 5 moved from f (t.py:1) to h (t.py:9) over 2 looks, 30 s"),
        (("f (t.py:1)",) * 2, ("g (t.py:4)", "h (t.py:9)"), "over 2 looks, 30 s apart; ranks 0-1 moved"),
        (("f (t.py:1)",) * 2, ("g (t.py:4)", ""), "rank 5 stayed in f (t.py:1) over 2 looks, 30 s apart ="),
    ],
)  # fmt: skip
def test_two_looks_say_what_moved(frames, peers, told):
    rows = (SnapshotRow(Ranks([5]), frames, True), SnapshotRow(Ranks([0, 1]), peers, False))
    made = replace(fixtures_diagnoses.lagging(), snapshots=Snapshots((100.0, 130.0), rows))

    assert told in " ".join(text.plain(made, width=200, ascii_only=False).split())
    assert "= looks:" not in text.plain(fixtures_diagnoses.lagging(), width=200, ascii_only=False)


def test_each_exhibit_has_its_place_and_its_lines_with_a_mark():
    out = text.plain(fixtures_diagnoses.lagging(), width=100, ascii_only=False).splitlines()

    table = next(n for n, row in enumerate(out) if "--> rank_1.log entry 4, rank_1.log" in row)
    assert out[table - 1] == "A: Rank 1 entered ALLREDUCE #18723. Rank 5 never did."
    assert out[table + 1].startswith("rank 1 | dp_1 #18723: ALLREDUCE [64]")
    assert out[table + 2] == "rank 5 | dp_1 #18723: no entry"
    assert out[table + 3].index("^^^^^^^^") == out[table + 2].index("no entry")
    log = next(n for n, row in enumerate(out) if row.endswith("--> rank_1.log:812"))
    assert out[log + 1].startswith("   812 | ")
    carets = {out[log + 1][mark.start() : mark.end()] for mark in re.finditer(r"\^+", out[log + 2])}
    assert carets == {"18723", "ALLREDUCE"}, "the marks stand under the values that the claim names"


def test_a_quoted_line_that_is_too_long_shows_the_part_with_the_mark():
    out = text.plain(fixtures_diagnoses.lagging(), width=60, ascii_only=False).splitlines()

    row = next(row for row in out if row.startswith("   812 | "))
    assert len(row) <= 60
    assert row.startswith("   812 | [rank1]…") and "ALLREDUCE" in row, "the rank of the line stays"


def test_a_healthy_job_is_ok_and_names_no_rank():
    out = text.plain(fixtures_diagnoses.healthy(), width=100, ascii_only=False)

    assert out.startswith("ok[none]: ")
    assert "unknown" not in out
    assert "= where" not in out and "= blocked" not in out


def test_suspects_are_called_suspects():
    out = text.plain(fixtures_diagnoses.undetermined(), width=100, ascii_only=False)

    assert out.startswith("warning[undetermined]: ")
    assert "= where: suspects: ranks 1-3" in out


def test_a_file_that_cannot_settle_it_gets_a_short_answer_with_what_to_send():
    made = fixtures_diagnoses.undetermined()
    out = text.plain(replace(made, standings=made.standings[:2]), width=100, ascii_only=False)

    assert len(out.splitlines()) <= 16
    assert "nccldoctor env" in out
    assert "export" not in out, "settings are left to the command that prints them"


def test_other_findings_are_listed():
    out = text.plain(fixtures_diagnoses.two_stalls(), width=100, ascii_only=False)

    assert "also F2: Rank 0 died" in out
    assert "also F3: Rank 4 died" in out


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


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_large_job_keeps_whom_its_ranks_wait_for(width):
    made = fixtures_diagnoses.lagging()
    call = WaitedCall("tp", "RECV", 2035, tuple(f"PIPELINE_MODEL_PARALLEL_GROUP ({n})" for n in range(9)))
    ranks, awaited = Ranks([137, *range(265, 272), *range(386, 394), *range(395, 401), 450]), Ranks([266, 392])
    many = replace(made.standings[1], ranks=ranks, call=call, waits_for=awaited, hosts=("gpu-000", "gpu-001"))
    out = text.plain(replace(made, standings=(made.standings[0], many)), width=width, ascii_only=False)
    assert any(row.startswith("137") and "266, 392" in row for row in out.splitlines())


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_width_cuts_what_tells_groups_apart(width):
    made = fixtures_diagnoses.lagging()
    base = made.standings[1]
    rows = tuple(
        replace(
            base,
            ranks=Ranks([rank]),
            frame="tensor_parallel_all_reduce_of_the_whole_gradient",
            frame_at="train_the_model.py:1551",
            hosts=("a-host-with-a-very-long-name.cluster.example",),
            call=WaitedCall("DATA_PARALLEL_GROUP", "ALLREDUCE", 9, (f"DATA_PARALLEL_GROUP ({rank})",)),
        )
        for rank in (127, 128)
    )
    out = text.plain(replace(made, standings=(made.standings[0], *rows)), width=width, ascii_only=False)

    assert "DP 127 · ALLREDUCE #9" in out and "DP 128 · ALLREDUCE #9" in out
    assert all(len(row) <= width for row in out.splitlines() if "DP 12" in row)
    assert any(row.startswith("5 ") and "missing" in row for row in out.splitlines())
    assert ("train_the_model.py:1551" in out) == (width == 200), "what may go, goes where the room is short"


def test_the_line_that_made_a_call_without_a_number_stands_in_its_column() -> None:
    of_gloo = [Path(__file__).parents[3] / "sample_logs" / "not-arrived" / host for host in ("node0", "node1")]
    rows = [row.split() for row in nccldoctor.analyze(of_gloo).to_full_text(width=120).splitlines()]

    assert ["2", "waiting", "SEND", "send_to_stage", "(train.py:69)", "node0", "exit", "code", "1"] in rows


def test_a_library_file_does_not_take_the_room_of_its_message() -> None:
    path = "/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78"
    row = SourceLine(7, f"RuntimeError: [{path}] Timed out waiting 45000ms for recv operation to complete")
    lines = QuotedLines(Place(0, "rank_0.log", 7), (row,), frozenset({7}))
    shown = quoted(Exhibit("A", "Rank 0 gave up", (), (), (1,), lines=lines)).lines[0].text
    assert shown == "RuntimeError: […/unbound_buffer.cc:78] Timed out waiting 45000ms for recv operation to complete"
