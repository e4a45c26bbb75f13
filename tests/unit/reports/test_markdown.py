import re

from builders.diagnoses import fixtures_diagnoses
from markdown_it import MarkdownIt

from nccldoctor.reports import markdown


def test_text_of_a_log_stays_text():
    html = MarkdownIt("commonmark").render(markdown.full(fixtures_diagnoses.hostile()))

    assert not re.search(r"<(script|img|a|iframe)\b", html)
    assert "hf_verysecret" not in html


def test_the_full_report_has_every_block():
    full = markdown.full(fixtures_diagnoses.lagging())

    for title in ("Who waits for", "Ranks", "Proof", "What to do", "Ruled out", "Input", "Capture"):
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
