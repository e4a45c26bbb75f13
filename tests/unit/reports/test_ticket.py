"""The ticket in each dialect: it holds the same facts, it renders, and nothing of a log becomes markup."""

import re
from pathlib import Path

import pytest
from builders.diagnoses import fixtures_diagnoses
from markdown_it import MarkdownIt
from msgspec.structs import replace

import nccldoctor
from nccldoctor.model import Avoid, Confidence, ConfidenceIn, Doubt
from nccldoctor.reports import ticket
from nccldoctor.reports.dialects import DIALECTS, GITHUB, JIRA, MD, SLACK
from nccldoctor.reports.parts import advice, prose

EVERY = [*fixtures_diagnoses.EVERY, lambda: fixtures_diagnoses.large(1024)]
BAIT = "see #123 @admin <!everyone> [~anna] [y](http://z.example) !i.png! *x* _y_ ~z~ `q` {color:red} h1. www.z.example"


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_ticket_fits_everywhere(make, dialect):
    text = ticket.in_dialect(make(), DIALECTS[dialect])

    assert 0 < len(text) <= ticket.LIMIT
    assert text.split("\n")[1] == "", "a blank line keeps the headline apart from the fields"
    text.encode("utf-8")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_holds_what_a_ticket_needs(dialect):
    text = re.sub(r"[\\`{}]", "", ticket.in_dialect(fixtures_diagnoses.lagging(), DIALECTS[dialect]))

    for fact in (
        "Rank 5 (gpu-a018, GPU 1) never entered ALLREDUCE #18723",
        "not-arrived",
        "2026-11-11 03:25:02 UTC for 10 min 02 s (timeout 10 min)",
        "rank 5 on gpu-a018, pid 48213, GPU 1",
        "ALLREDUCE #18723 in dp_1",
        "ranks 0-4, 6-7 (7 of 8)",
        "high, 3 independent sources",
        "8 ranks on gpu-a017 and gpu-a018, PyTorch 2.9.1, NCCL 2.27.5",
        "rank_1.log entry 4",
        "rank 5: dp_1 #18723: no entry",
        "ssh gpu-a018 'ps -o pid,stat,wchan:28,cmd --ppid 48213'",
    ):
        assert fact in text, fact


@pytest.mark.parametrize("dialect", [MD, GITHUB])
def test_commonmark_shows_a_heading_lists_and_fences(dialect):
    tokens = MarkdownIt("commonmark").parse(ticket.in_dialect(fixtures_diagnoses.lagging(), dialect))
    kinds = [token.type for token in tokens]

    assert kinds[0] == "heading_open"
    assert kinds[3] == "bullet_list_open", "the fields are a list, not a part of the headline"
    fences = [token.content for token in tokens if token.type == "fence"]
    assert any("no entry" in content for content in fences)
    assert ("ordered_list_open" in kinds) == (dialect is MD)


def test_steps_in_an_issue_can_be_ticked_off():
    assert "\n- [ ] " in ticket.in_dialect(fixtures_diagnoses.lagging(), GITHUB)


@pytest.mark.parametrize("dialect", [MD, GITHUB])
def test_words_of_a_log_are_no_markup_in_commonmark(dialect):
    html = MarkdownIt("commonmark", {"linkify": False}).render(dialect.words(BAIT, 300))
    bare = re.sub(r"<code>[^<]*</code>", "", html)

    assert not re.search(r"<(strong|em|a|b|img|h1|del|s)\b", html)
    assert not re.search(r"#123|@|https?://|www\.", bare), "nothing that GitHub would turn into a link or a mention"


def test_words_of_a_log_are_no_markup_in_jira():
    text = JIRA.words(BAIT, 300)
    bare = re.sub(r"\\.", "", text)

    assert not re.search(r"[*_~!|\[\]^+]", bare)
    assert set(re.findall(r"\{+", bare)) <= {"{{"}
    assert "://" not in text
    assert JIRA.words(r"a\b", 20) == "a&#92;b"


def test_words_of_a_log_are_no_markup_in_slack():
    text = SLACK.words(BAIT, 300)
    bare = re.sub(r"`[^`]*`", "", text)

    assert "<" not in text and ">" not in text
    assert not re.search(r"[*_~@]|#123|://|www\.", bare)


@pytest.mark.parametrize("name", DIALECTS)
def test_nothing_ends_a_fence_or_a_code_span(name):
    dialect = DIALECTS[name]
    block = dialect.block("a ``` b {noformat} c {code} d", 200)

    opening, closing = dialect.fence
    assert block.count(opening) == (2 if opening == closing else 1)
    span = dialect.code("a `b` ``c`` }} d", 50)
    if dialect in (MD, GITHUB):
        assert MarkdownIt("commonmark").render(span) == "<p><code>a `b` ``c`` }} d</code></p>\n"
    assert dialect is not SLACK or span.count("`") == 2
    assert dialect is not JIRA or span.count("}}") == 1


@pytest.mark.parametrize("name", DIALECTS)
def test_a_hostile_log_stays_text_in_every_dialect(name):
    text = ticket.in_dialect(fixtures_diagnoses.hostile(), DIALECTS[name])

    assert "hf_verysecret" not in text
    if name in ("md", "github"):
        assert not re.search(r"<(script|img|a|iframe)\b", MarkdownIt("commonmark").render(text))
    if name == "slack":
        assert "<" not in text
    if name == "jira":
        outside = re.sub(r"\{noformat\}.*?\{noformat\}", "", text, flags=re.DOTALL)
        assert "://" not in outside


def test_code_of_the_catalogue_stays_code():
    pieces = prose.inline_pieces("Set `A_B=1` in **every** rank, on node\\_1")

    assert MD.prose(pieces, 200) == "Set `A_B=1` in every rank, on `node_1`"
    assert JIRA.prose(pieces, 200) == r"Set {{A\_B=1}} in every rank, on {{node\_1}}"
    assert SLACK.prose(pieces, 200) == "Set `A_B=1` in every rank, on `node_1`"


def test_a_doubt_is_in_the_ticket_and_a_long_one_does_not_cost_the_command():
    made = fixtures_diagnoses.lagging()
    verdict = replace(
        made.verdict,
        confidence_in=ConfidenceIn.same(Confidence.MEDIUM),
        doubts=(Doubt("No log shows whether rank 5 was alive"), Doubt("many words " * 60)),
    )
    text = ticket.in_dialect(replace(made, findings=(verdict,), avoid=(Avoid("x " * 300, "y " * 300),)), MD)

    assert "No log shows whether rank 5 was alive.\n" in text, "what has no room goes as a whole sentence"
    assert "ssh gpu-a018" in text
    assert len(text) <= ticket.LIMIT


def test_the_line_that_shows_what_became_of_the_culprit_is_the_last_to_go(tmp_path):
    samples = Path(__file__).parents[3] / "sample_logs"
    late = ticket.in_dialect(nccldoctor.analyze(samples / "straggler").diagnosis, DIALECTS["github"])
    crashed = ticket.in_dialect(nccldoctor.analyze(samples / "two-rank-loader").diagnosis, DIALECTS["github"])

    assert "639.2 s" in late
    assert "unable to open shared memory object" in crashed.partition("**Evidence**")[2]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_ticket_says_where_the_peers_waited_where_their_lines_have_no_room(dialect):
    sample = Path(__file__).parents[3] / "sample_logs" / "not-arrived"
    proof = ticket.in_dialect(nccldoctor.analyze(sample).diagnosis, DIALECTS[dialect]).partition("Evidence")[2]

    assert "Rank 7 entered ALLREDUCE #9. Rank 6 never did." in re.sub(r"[\\`{}]", "", proof)


def test_a_bracket_around_a_place_is_no_part_of_it():
    assert (
        MD.words("waited at main (train_main.py:45), in f_x(1).", 90)
        == "waited at main (`train_main.py:45`), in `f_x(1)`."
    )


def test_a_setting_that_is_named_is_no_order():
    assert (
        advice.warning_of(Avoid("NCCL_IB_DISABLE=1", "It is slow.")) == "`NCCL_IB_DISABLE=1` doesn't help. It is slow."
    )
    assert advice.warning_of(Avoid("Don't raise it", "It hides.")) == "Don't raise it. It hides."


def test_quotes_around_code_are_part_of_it():
    assert MD.words("KeyError: 'input_ids' in load_batch", 200) == "KeyError: `'input_ids'` in `load_batch`"


@pytest.mark.parametrize("text", ["`init_process_group(timeout=3600 s)`", "`checkpoint_saved::0`", "`all_reduce`"])
def test_code_keeps_its_end_and_leaves_the_full_stop_outside(text):
    dialect, said = DIALECTS["github"], f"It was in {text}."
    shown = dialect.prose(prose.inline_pieces(said), 200) if " " in text else dialect.words(said.replace("`", ""), 200)

    assert shown == f"It was in {text}."


def test_a_commit_and_a_number_of_an_issue_become_no_link():
    shown = MD.words("see GH-77 and 9f3ae1c02b7d44aa9f3ae1c02b7d44aa9f3ae1c0 or 4d2f9b1, of 1234567 steps", 200)
    assert shown == "see `GH-77` and `9f3ae1c02b7d44aa9f3ae1c02b7d44aa9f3ae1c0` or `4d2f9b1`, of 1234567 steps"
