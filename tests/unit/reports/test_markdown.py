import re
from dataclasses import replace

import pytest
from builders import fixtures_diagnoses
from markdown_it import MarkdownIt

from nccldoctor.model import Evidence, Place
from nccldoctor.reports import markdown


@pytest.mark.parametrize("make", [*fixtures_diagnoses.EVERY, lambda: fixtures_diagnoses.large(1024)])
def test_a_ticket_fits_everywhere(make):
    ticket = markdown.ticket(make())

    assert 0 < len(ticket) <= 1500
    assert ticket.startswith("### ")
    ticket.encode("utf-8")


def test_the_ticket_names_call_rank_command_and_what_to_avoid():
    ticket = markdown.ticket(fixtures_diagnoses.lagging())

    assert "`ALLREDUCE #18723`" in ticket
    assert "rank 5" in ticket
    assert "`ssh gpu-a018 'ps -o pid,stat,wchan:28,cmd --ppid 48213'`" in ticket
    assert "**Avoid:** `NCCL_TIMEOUT`=1200000" in ticket
    assert "`rank_1.log:812`" in ticket


@pytest.mark.parametrize("render", [markdown.ticket, markdown.full])
def test_text_of_a_log_stays_text(render):
    html = MarkdownIt("commonmark").render(render(fixtures_diagnoses.hostile()))

    assert not re.search(r"<(script|img|a|iframe)\b", html)
    assert "hf_verysecret" not in html


@pytest.mark.parametrize("text", ["see #123 now", "ping @admin", "a __next__ b", "*x* [y](http://z) <b>"])
def test_words_are_shown_as_they_are(text):
    html = MarkdownIt("commonmark").render(markdown.words(text, 100))

    assert not re.search(r"<(strong|em|a|b)\b", html)
    bare = re.sub(r"<code>[^<]*</code>", "", html)
    assert "#123" not in bare
    assert "@" not in bare


def test_a_code_span_holds_backticks():
    html = MarkdownIt("commonmark").render(markdown.code("a `b` ``c`` d", 50))

    assert html == "<p><code>a `b` ``c`` d</code></p>\n"


def test_the_full_report_has_every_block():
    full = markdown.full(fixtures_diagnoses.lagging())

    for title in ("Who waits for", "Progress by rank", "What to do", "Evidence", "ruled out", "was read", "Capture"):
        assert re.search(rf"^## .*{title}", full, re.MULTILINE), title
    assert "1. ranks 0, 2, 6 wait in `ALLREDUCE #18723` of `dp_0` for rank 4" in full


def test_the_full_report_tells_the_story_where_there_is_one():
    full = markdown.full(fixtures_diagnoses.lagging())

    assert "## What happened, in order" in full
    assert "gpu-a018: nfs: server stor-03 not responding **root cause** `dmesg.txt:2`" in full
    assert (
        "- 2026-11-11 03:35:01 UTC ranks 0-4, 6-7: nfs: server stor-03 not responding (7 times) (consequence)" in full
    )
    assert "What happened" not in markdown.full(fixtures_diagnoses.healthy())
    assert (
        "more in the JSON"
        in markdown.full(fixtures_diagnoses.large(64)).partition("## What happened")[2].partition("\n## ")[0]
    )


def test_a_ticket_quotes_each_kind_of_evidence_before_repeating_one():
    made = fixtures_diagnoses.lagging()
    gave_up = tuple(
        Evidence(Place(1, "a.log", n), "late", f"rank {n} gave up on it", True, f"log:{n}") for n in (1, 2, 3)
    )
    own = Evidence(Place(5, "b.log", 9), "data", "rank 5 fetches data", True, "log:5")
    verdict = replace(made.verdict, evidence=(*gave_up, own))

    quoted = re.findall(r"agrees: rank (\d)", markdown.ticket(replace(made, findings=(verdict,))))

    assert quoted[:2] == ["1", "5"]


def test_settings_in_a_ticket_can_be_pasted_as_one_line():
    made = replace(fixtures_diagnoses.undetermined(), capture=("export A=1  # what it shows", 'export B="$DIR/x"'))

    assert '`export A=1; export B="$DIR/x"`' in markdown.ticket(made)
