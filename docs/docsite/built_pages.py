"""Looks through a built site for links that lead nowhere and for anything that a browser would fetch from outside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_OUTSIDE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
_FETCHED_BY_STYLE = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
_FETCHED_BY_SCRIPT = re.compile(r"""(?:fetch|importScripts|import|\.open)\(\s*["'`]((?:https?:)?//[^"'`]+)""")
_LINKING = frozenset({"a", "area"})


@dataclass
class _Page(HTMLParser):
    """The links, the fetched addresses and the anchors of a page."""

    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag links to, fetches and names."""
        for name, value in attrs:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name == "href" and tag in _LINKING:
                self.links.append(value)
            elif ("rel", "canonical") in attrs:
                continue  # where the page stands, which no browser fetches
            elif name in ("href", "src", "data", "poster", "action"):
                self.fetched.append(value)
            elif name == "srcset":
                self.fetched += [part.split()[0] for part in value.split(",") if part.strip()]
            elif name == "style":
                self.fetched += _FETCHED_BY_STYLE.findall(value)


def faults(site: Path) -> list[str]:
    """Each broken link and each request to the outside, with its page, in a fixed order."""
    found = []
    for path in sorted(site.rglob("*")):
        name = path.relative_to(site).as_posix()
        if path.suffix == ".html":
            found += [f"{name}: {fault}" for fault in _faults_of_page(path, site)]
        if path.suffix in (".html", ".css"):
            hits = _FETCHED_BY_STYLE.findall(path.read_text(encoding="utf-8"))
            found += [f"{name}: a style asks for {hit}" for hit in hits]
        if path.suffix in (".html", ".js"):
            hits = _FETCHED_BY_SCRIPT.findall(path.read_text(encoding="utf-8"))
            found += [f"{name}: a script asks for {hit}" for hit in hits]
    return found


def _faults_of_page(path: Path, site: Path) -> Iterator[str]:
    page = _parsed(path)
    for address in page.fetched:
        if _OUTSIDE.match(address):
            yield f"the page asks for {address}"
        elif problem := _problem(path, address, site):
            yield problem
    for address in page.links:
        if problem := _problem(path, address, site):
            yield problem


def _problem(path: Path, address: str, site: Path) -> str:
    """Why an address inside the site leads nowhere, or nothing."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if target.is_dir():
        target = target / "index.html"
    if not target.is_relative_to(site.resolve()) or not target.is_file():
        return f"{address} leads nowhere"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _parsed(target).anchors:
        return f"{address} names no place of that page"
    return ""


@cache
def _parsed(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page
