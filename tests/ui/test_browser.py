"""The page in a real browser: no request, no dialog, nothing lost without scripts, readable by everybody.

``python tests/ui/test_browser.py`` renews the picture of the README.
"""

import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from builders.diagnoses import fixtures_diagnoses
from ui.conftest import ARGUMENTS, chromium

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.reports import html, json_document

pytestmark = pytest.mark.browser

SHOTS = Path(__file__).parents[2] / "test-output" / "screenshots"
"""Where pictures of the pages are kept for people to look at; nothing compares them."""

PICTURE = Path(__file__).parents[2] / "docs" / "report.png"
"""The first screen of the report that the README shows."""

PICTURE_BYTES = 250_000

PAGES = {
    "eight ranks": fixtures_diagnoses.lagging,
    "many ranks": lambda: fixtures_diagnoses.large(1024),
    "healthy": fixtures_diagnoses.healthy,
    "no data": fixtures_diagnoses.undetermined,
    "ring": fixtures_diagnoses.ring,
    "hostile": fixtures_diagnoses.hostile,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    out = {}
    for name, make in PAGES.items():
        path = folder / f"{name.replace(' ', '-')}.html"
        path.write_text(html.page(make()), encoding="utf-8", newline="\n")
        out[name] = path.as_uri()
    return out


@pytest.fixture
def counting_server():
    """A server that notes who asks it for anything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):  # the name that http.server calls
            self.server.seen.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Visit:
    """One page opened in a context of its own, with all that it did."""

    def __init__(self, browser, address, **context):
        self.context = browser.new_context(**{"offline": True, **context})
        self.page = self.context.new_page()
        self.requests, self.trouble = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.trouble.append(dialog.message), dialog.dismiss()))
        self.page.goto(address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scripts", [True, False])
def test_nothing_is_requested_and_nothing_pops_up(browser, written, name, scripts):
    with Visit(browser, written[name], java_script_enabled=scripts) as visit:
        assert visit.requests == [written[name]]
        assert visit.trouble == []


@pytest.mark.parametrize("name", ["eight ranks", "hostile"])
def test_every_fact_is_there_without_scripts(browser, written, name):
    texts = []
    for scripts in (True, False):
        with Visit(browser, written[name], java_script_enabled=scripts) as visit:
            visit.page.evaluate("document.querySelectorAll('button').forEach(button => button.remove())")
            texts.append(visit.page.inner_text("body"))

    assert texts[0].split() == texts[1].split()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, written, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    with Visit(browser, written[name], color_scheme=scheme) as visit:
        found = axe.Axe().run(visit.page)

    assert [(v["id"], v["nodes"][0]["html"][:120]) for v in found.response["violations"]] == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_page_scrolls_sideways(browser, written, name, width):
    with Visit(browser, written[name], viewport={"width": width, "height": 900}) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("sample", [sample.name for sample in demo.samples()])
def test_the_first_screen_of_every_sample_says_what_to_do(browser, sample, tmp_path):
    with Visit(browser, _page_of(sample, tmp_path), viewport={"width": 1280, "height": 900}) as visit:
        deed = (
            "ol.now > li" if visit.page.locator("ol.now").count() else ".lede"
        )  # after a clean run there is nothing to do
        parts = ("h1", ".status", deed)
        boxes = {part: visit.page.locator(part).first.bounding_box() for part in parts}
        height = visit.page.evaluate("document.documentElement.scrollHeight")
        assert visit.trouble == []

    for part, box in boxes.items():
        assert box is not None, part
        assert box["y"] + box["height"] <= 900, part
    assert height <= 4 * 900


def _page_of(sample, folder):
    demo.write(sample, folder / "logs")
    path = folder / "report.html"
    path.write_text(nccldoctor.analyze(folder / "logs").to_html(), encoding="utf-8", newline="\n")
    return path.as_uri()


def test_a_rank_that_is_searched_for_is_lit_in_every_view(browser, written):
    with Visit(browser, written["eight ranks"]) as visit:
        visit.page.fill("#search", "rank 3")
        lit = visit.page.eval_on_selector_all(".sel", "es => es.map(e => e.tagName + ' ' + e.dataset.ranks)")
        address = visit.page.evaluate("location.hash")
        said = visit.page.inner_text("#picked")
        visit.page.keyboard.press("Escape")
        after = visit.page.locator(".sel").count()

    assert sorted(set(lit)) == ["TR 1,3,7", "g 1,3,7", "text 0-4,6-7"]
    assert address == "#rank=3"
    assert "waiting" in said
    assert after == 0


def test_a_search_says_what_it_found(browser, written):
    with Visit(browser, written["many ranks"]) as visit:
        said = {}
        for text in ("foo", "9999", "5-6", "rank 107"):
            visit.page.fill("#search", text)
            said[text] = visit.page.inner_text("#picked")

    assert said["foo"] == "No rank, host or group 'foo'."
    assert said["9999"] == "No rank, host or group 'rank 9999'."
    assert said["5-6"].startswith("'5-6' stands in ")
    assert said["rank 107"].startswith("Rank 107 · ▲ at fault · in fetch (train.py:214)")


def test_a_link_to_a_rank_lights_it(browser, written):
    with Visit(browser, written["many ranks"] + "#rank=107") as visit:
        lit = visit.page.eval_on_selector_all("rect.sel", "es => es.map(e => e.dataset.ranks)")
        assert visit.page.is_visible("#pick")

    assert lit == ["107"]


def test_a_click_on_a_box_lights_its_ranks(browser, written):
    with Visit(browser, written["eight ranks"]) as visit:
        visit.page.locator("figure g[data-ranks='4']").click()
        assert visit.page.locator("tr.sel").get_attribute("data-ranks") == "4"


def test_buttons_that_need_a_script_are_hidden_without_one(browser, written):
    with Visit(browser, written["eight ranks"], java_script_enabled=False) as visit:
        assert not visit.page.is_visible("[data-copy]")
        assert not visit.page.is_visible("#search")
        assert not visit.page.is_visible("#download")


def test_the_document_in_the_page_is_that_of_the_command(browser, written, tmp_path):
    with Visit(browser, written["many ranks"]) as visit:
        with visit.page.expect_download() as download:
            visit.page.click("#download")
        download.value.save_as(tmp_path / "nccldoctor.json")

    found = (tmp_path / "nccldoctor.json").read_text(encoding="utf-8")
    assert found == json_document.to_json(PAGES["many ranks"]())


def test_the_card_of_a_notebook_is_legible_in_the_dark_wherever_it_is_shown(browser, tmp_path):
    path = tmp_path / "card.html"
    path.write_text(
        html.card(fixtures_diagnoses.lagging()), encoding="utf-8", newline="\n"
    )  # no doctype: tables inherit nothing
    with Visit(browser, path.as_uri(), color_scheme="dark") as visit:
        look = "e => getComputedStyle(e).color"
        colours = {visit.page.locator(part).first.evaluate(look) for part in (".nccldoctor-head", "th", "td")}

    assert len(colours) == 1


def test_it_prints_on_few_pages(browser, written):
    with Visit(browser, written["eight ranks"]) as visit:
        pdf = visit.page.pdf(format="A4", print_background=True)
        visit.page.emulate_media(media="print")
        visit.page.set_viewport_size({"width": 794, "height": 1123})
        wide = visit.page.evaluate("document.documentElement.scrollWidth")

    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 6
    assert wide <= 794


def test_charts_are_legible_without_styles(browser, tmp_path):
    page = re.sub(r"<style>.*?</style>", "", html.page(fixtures_diagnoses.lagging()), flags=re.DOTALL)
    path = tmp_path / "bare.html"
    path.write_text(page, encoding="utf-8", newline="\n")
    with Visit(browser, path.as_uri()) as visit:
        fills = visit.page.eval_on_selector_all("main svg rect", "rs => rs.map(r => getComputedStyle(r).fill)")
        order = visit.page.eval_on_selector_all("h1, h2", "hs => hs.map(h => h.textContent)")

    assert fills
    assert "rgb(0, 0, 0)" not in fills
    assert order[0].replace("\xa0", " ").startswith("Rank 5")
    assert order[1:4] == ["Do now", "Who waits for whom", "Proof"]


def test_text_that_got_past_the_escaping_would_do_nothing(browser, tmp_path, counting_server):
    outside = f"http://127.0.0.1:{counting_server.server_port}"
    attacks = (
        f"<script>alert(1)</script><img src={outside}/x onerror=alert(2)><style>body{{display:none}}</style>"
        f"<div style='position:fixed;inset:0'>x</div><iframe src={outside}/></iframe><svg onload=alert(3)></svg>"
        f"<link rel=stylesheet href={outside}/s.css><object data={outside}/o></object>"
    )
    page = html.page(fixtures_diagnoses.lagging()).replace('<p class="lede">', f'<p class="lede">{attacks}')
    path = tmp_path / "attacked.html"
    path.write_text(page, encoding="utf-8", newline="\n")
    with Visit(browser, path.as_uri(), offline=False) as visit:
        visit.page.wait_for_timeout(300)
        dialogs = [text for text in visit.trouble if text in ("1", "2", "3")]
        shown = visit.page.is_visible("h1")
        places = visit.page.eval_on_selector_all(".lede div", "ds => ds.map(d => getComputedStyle(d).position)")

    assert dialogs == []
    assert shown
    assert "fixed" not in places
    assert counting_server.seen == []


def test_the_theme_can_be_turned_without_a_script(browser, written):
    with Visit(browser, written["eight ranks"], java_script_enabled=True, color_scheme="light") as visit:
        before = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        visit.page.locator("label.theme").click()
        after = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert before != after


def test_every_place_that_scrolls_can_be_reached_by_key(browser, written):
    with Visit(browser, written["eight ranks"], viewport={"width": 390, "height": 800}) as visit:
        unreachable = visit.page.evaluate(
            "[...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1 &&"
            " ['auto','scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0)"
            ".map(e => e.outerHTML.slice(0, 80))"
        )

    assert unreachable == []


@pytest.mark.parametrize("name", ["eight ranks", "many ranks", "healthy", "no data"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_picture_is_kept(browser, written, name, scheme):
    SHOTS.mkdir(parents=True, exist_ok=True)
    path = SHOTS / f"{name.replace(' ', '-')}-{scheme}.png"
    with Visit(browser, written[name], color_scheme=scheme, viewport={"width": 1280, "height": 900}) as visit:
        visit.page.screenshot(path=path, full_page=True)

    assert path.stat().st_size > 10_000


def test_a_page_of_many_ranks_has_few_elements(browser, tmp_path):
    path = tmp_path / "large.html"
    path.write_text(html.page(fixtures_diagnoses.large(16384)), encoding="utf-8", newline="\n")
    with Visit(browser, path.as_uri()) as visit:
        assert visit.page.evaluate("document.querySelectorAll('*').length") < 6_000


def _photograph(browser, path):
    with tempfile.TemporaryDirectory() as folder:
        logs, page = Path(folder) / "logs", Path(folder) / "report.html"
        demo.write(demo.DEFAULT, logs)
        page.write_text(nccldoctor.analyze(logs).to_html(), encoding="utf-8", newline="\n")
        with Visit(browser, page.as_uri(), color_scheme="light", viewport={"width": 1280, "height": 900}) as visit:
            visit.page.screenshot(path=path)


def test_the_picture_of_the_readme_can_be_renewed_and_stays_small(browser, tmp_path):
    _photograph(browser, tmp_path / "report.png")

    assert (tmp_path / "report.png").stat().st_size <= PICTURE_BYTES
    assert PICTURE.stat().st_size <= PICTURE_BYTES


if __name__ == "__main__":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        _photograph(driver.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS)), PICTURE)
