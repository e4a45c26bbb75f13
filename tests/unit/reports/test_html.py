import base64
import hashlib
import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from builders.diagnoses import fixtures_diagnoses
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from nccldoctor.model import CauseClass, Coverage
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import html
from nccldoctor.reports.page import facts
from nccldoctor.reports.parts import prose, wording


class Seen(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.attributes = []
        self.ids = []
        self.text = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("make", fixtures_diagnoses.EVERY)
def test_the_policy_allows_exactly_the_one_style_and_the_one_script(make):
    page = html.page(make())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]

    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert (len(styles), len(scripts)) == (1, 1)
    for kind, text in (("style", styles[0]), ("script", scripts[0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")


@pytest.mark.parametrize("make", fixtures_diagnoses.EVERY)
def test_nothing_is_loaded_styled_inline_or_bound_to_an_event(make):
    for tag, name, value in Seen(html.page(make())).attributes:
        assert name != "style", tag
        assert not name.startswith("on"), (tag, name)
        if name in ("src", "href", "xlink:href", "action", "srcset", "data"):
            assert tag == "a", (tag, name)
            assert value.startswith(("#", "https://", "http://")), value


def test_hostile_text_adds_no_tag():
    clean = fixtures_diagnoses.hostile
    text, fixtures_diagnoses.HOSTILE = fixtures_diagnoses.HOSTILE, "harmless"
    try:
        expected = Seen(html.page(clean())).tags
    finally:
        fixtures_diagnoses.HOSTILE = text
    found = Seen(html.page(clean()))

    extra = {"a", "code", "pre", "p", "strong", "em", "mark", "br", "wbr"}
    assert [t for t in found.tags if t not in extra] == [t for t in expected if t not in extra]
    page = html.page(clean())
    page.encode("utf-8")
    assert not any(bad in page for bad in "\x00\x1b\x07\u202e\u2066\u200b\uffff")
    assert "hf_verysecret" not in page
    assert len(page) < 150_000


@pytest.mark.parametrize(("world", "limit"), [(8, 150_000), (64, 300_000), (1024, 1_000_000), (16384, 1_000_000)])
def test_a_page_stays_small(world, limit):
    assert len(html.page(fixtures_diagnoses.large(world)).encode()) <= limit


def test_the_same_diagnosis_gives_the_same_bytes():
    assert html.page(fixtures_diagnoses.lagging()) == html.page(fixtures_diagnoses.lagging())


def test_a_wait_that_ended_before_its_limit_is_not_said_to_have_reached_it():
    base = fixtures_diagnoses.lagging()
    call = base.verdict.stalled
    early = replace(call, until=call.since + timedelta(milliseconds=call.timeout_ms // 4))
    cut = replace(base, findings=(replace(base.verdict, stalled=early), *base.findings[1:]))
    assert "the first timed out after 10 min" in wording.summary(base)
    assert "timeout" not in wording.summary(cut)


def test_a_group_that_never_came_up_stalls_in_its_set_up():
    base = fixtures_diagnoses.lagging()
    first = replace(base.verdict, cause=CauseClass.INIT, stalled=None, victims=Ranks())
    found = replace(base, findings=(first,))
    _, what, when, reach = facts.four(found)
    assert (what.value, when.label, reach.value) == ("init", "When", "the whole group")
    assert wording.summary(found).startswith("Every member of the group is blocked in init.")


def test_input_that_was_not_there_is_not_complete():
    base = fixtures_diagnoses.undetermined()
    page = html.page(replace(base, coverage=(Coverage("logs", Ranks(), Ranks()),)))
    assert '<th scope="row">logs</th><td>0</td><td>none of a known rank</td>' in page


def test_shapes_carry_their_colours():
    page = html.page(fixtures_diagnoses.lagging())
    body = page[page.index("<body") :]

    for shape in re.findall(r"<(?:rect|circle|polygon)\b[^>]*>", body):
        assert " fill=" in shape, shape
    for line in re.findall(r"<path\b[^>]*>", body):
        assert " fill=" in line, line


@pytest.mark.parametrize(
    "text",
    ["<b>x</b>", "![x](http://e/x.png)", "[x](javascript:alert(1))", "<https://e>", "http://e", "# t\n---\n> q"],
)
def test_prose_of_the_catalogue_has_no_links_images_or_html(text):
    assert not re.search(r"<(?!/?(p|code|pre|ol|ul|li|strong|em|br)\b)", str(prose.html(text)))


def test_a_text_that_is_one_code_span_becomes_a_block():
    assert str(prose.html("`ls -l`")) == "<pre><code>ls -l\n</code></pre>\n"
    assert str(prose.html("run `ls`")) == "<p>run <code>ls</code></p>\n"


@given(st.text(st.sampled_from("ab. `*_\\\n-+~1)<&\"'[]\t#>é"), max_size=24))
@example('Set `a_b` to "x" & wait; 1. `c*d`')
def test_sentences_look_as_the_renderer_writes_them(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prose, "_SENTENCES", re.compile("(?!)"))
        rendered = prose.html(text)
    assert prose.html(text) == rendered


def test_sentences_need_no_renderer(monkeypatch):
    monkeypatch.setattr(prose, "_renderer", None)
    assert str(prose.html("Set `a_b`, then <wait>.")) == "<p>Set <code>a_b</code>, then &lt;wait&gt;.</p>\n"


def test_a_sentence_within_a_line_keeps_its_code_and_nothing_else():
    assert str(prose.inline_html("Set `a<b`, not <i>c</i>")) == "Set <code>a&lt;b</code>, not &lt;i&gt;c&lt;/i&gt;"


def test_the_card_of_a_notebook_is_scoped_and_has_no_script():
    card = html.card(fixtures_diagnoses.hostile())

    assert "<script" not in card
    for rule in re.findall(r"(?:^|[}\n])\s*([^{}@]+)\{", re.search(r"<style>(.*?)</style>", card, re.DOTALL)[1]):
        assert ".nccldoctor-card" in rule
        for selector in rule.split(","):
            if selector.split()[-1] in ("td", "th", "tr"):
                jupyter = ":not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon td"
                assert selector.count(".") > jupyter.count("."), selector


@pytest.mark.parametrize("make", [*fixtures_diagnoses.EVERY, lambda: fixtures_diagnoses.large(1024)])
def test_every_page_has_one_headline_and_no_name_twice(make):
    seen = Seen(html.page(make()))

    assert seen.tags.count("h1") == 1
    assert len(seen.ids) == len(set(seen.ids))


def test_the_blocks_stand_in_the_order_of_the_argument():
    page = html.page(fixtures_diagnoses.lagging())

    assert re.findall(r"<h2[^>]*>([^<]+)</h2>", page) == [
        "Do now",
        "Who waits for whom",
        "Proof",
        "Late before the stall",
        "The stall, to scale",
        "The logs around the silence",
        "Ranks",
        "Fix",
        "Don't",
    ]


def test_every_link_inside_the_page_leads_somewhere():
    seen = Seen(html.page(fixtures_diagnoses.lagging()))

    links = [value[1:] for tag, name, value in seen.attributes if tag == "a" and name == "href" and value[0] == "#"]
    assert {"exhibit-A", "exhibit-B"} <= set(links)
    assert set(links) <= set(seen.ids)


def test_cited_values_are_marked_in_their_quote():
    page = html.page(fixtures_diagnoses.lagging())

    assert "<mark>18723</mark>" in page
    assert "<mark>ALLREDUCE</mark>" in page


@pytest.mark.parametrize("before", range(100, 160, 4))
def test_a_secret_is_masked_before_its_line_is_cut(before: int):
    made = fixtures_diagnoses.lagging()
    quoted = next(e for e in made.proof if e.lines is not None)
    row = replace(
        quoted.lines.shown[0], text=f"{'step ' * 100} password=50horsebattery9 {'x ' * (before // 2)} SeqNum=18723"
    )
    long = replace(quoted, lines=replace(quoted.lines, shown=(row, *quoted.lines.shown[1:])), cites=("18723",))
    page = html.page(replace(made, proof=tuple(long if e is quoted else e for e in made.proof)))

    assert "<mark>18723</mark>" in page and "horsebattery" not in page


def test_a_call_that_was_never_issued_is_an_empty_slot():
    page = html.page(fixtures_diagnoses.lagging())

    assert '<td class="none">no entry</td>' in page


def test_only_long_names_may_break() -> None:
    assert prose.breakable("main (train.py:7)") == "main (train.py:7)"
    assert prose.breakable("TP 1: rank 3, 5 in ALLREDUCE #9") == "TP\u00a01: rank\u00a03, 5 in ALLREDUCE\u00a0#9"
    assert prose.breakable("at /opt/job/models/transformer_block.py:7") == (
        "at /opt/<wbr>job/<wbr>models/<wbr>transformer_<wbr>block.<wbr>py:7"
    )
