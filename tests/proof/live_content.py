"""Finds what a page or a ticket would load, run, or turn into a link of the input when somebody looks at it."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from proof.hostile import HOST

LOADING = frozenset(
    [
        "src",
        "srcset",
        "poster",
        "data",
        "background",
        "action",
        "formaction",
        "ping",
        "manifest",
        "lowsrc",
        "dynsrc",
        "codebase",
        "archive",
    ]
)
"""Attributes that load what they name, or send to it."""

LOADING_TAGS = frozenset(["iframe", "frame", "object", "embed", "applet", "base", "form", "portal"])
"""Elements that no page of ours has."""

SCRIPTS = ("", "module", "text/javascript", "application/javascript", "text/ecmascript", "application/ecmascript")
"""The kinds of a script that a browser runs; it takes others for data."""

POLICY = "default-src 'none'"


class _Page(HTMLParser):
    """Collects what a browser would load or run; ``script`` and ``style`` hold what stands in such an element."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.policy = ""
        self.inside, self.held, self.kind = "", "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if named.get("http-equiv", "").lower() == "content-security-policy":
            self.policy = self.policy or named.get("content", "")
        elif "http-equiv" in named or tag in LOADING_TAGS:
            self.found.append(f"<{tag} {named}>"[:200])
        for name, value in named.items():
            is_link = name in ("href", "xlink:href") and tag != "a"
            if (name in LOADING or is_link) and not value.startswith(("#", "data:")):
                self.found.append(f"<{tag} {name}={value[:100]}>")
            if name.startswith("on") or _loads_by_style(name, value):
                self.found.append(f"<{tag} {name}={value[:100]}>")
            if name in ("href", "xlink:href") and tag == "a" and (HOST in value or not _is_ours(value)):
                self.found.append(f"<a href={value[:100]}>")
        if tag in ("script", "style"):
            self.inside, self.held, self.kind = tag, "", named.get("type", "")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.held += data

    def handle_endtag(self, tag: str) -> None:
        if tag != self.inside:
            return
        if tag == "style" and _loads_by_style("style", self.held):
            self.found.append("a style that loads")
        if tag == "script" and self.kind in SCRIPTS and _digest(self.held) not in self.policy:
            self.found.append(f"a script that the policy does not name: {self.held[:80]}")
        self.inside = ""


def _is_ours(address: str) -> bool:
    return address.startswith(("#", "https://", "data:"))


def _loads_by_style(name: str, value: str) -> bool:
    return name == "style" and bool(re.search(r"url\(\s*['\"]?(?!#|data:)|@import", value))


def _digest(script: str) -> str:
    return "sha256-" + b64encode(sha256(script.encode()).digest()).decode()


def loads(page: str) -> list[str]:
    """What an HTML page would load or run besides its own scripts, and links of the input; empty where nothing is."""
    reader = _Page()
    reader.feed(page)
    reader.close()
    return reader.found + ([] if reader.policy.startswith(POLICY) else ["a page without a policy that forbids to load"])


def links(text: str, dialect: str) -> list[str]:
    """What a ticket would show as a link, an image or a mention of the input; empty where nothing is."""
    if dialect in ("md", "github"):
        return _links_of_markdown(text)
    fence, span = {"jira": (r"\{noformat\}", r"\{\{.*?\}\}"), "slack": (r"```", r"`[^`\n]*`")}[dialect]
    plain = re.sub(rf"{span}|\\.", "", re.sub(rf"(?s){fence}.*?{fence}", "", text))  # a sign behind a backslash is none
    return re.findall(rf"\w+://\S{{0,40}}{HOST}\S*|<[!@]\w+|!http\S+!|\|http\S+\]", plain)


def _links_of_markdown(text: str) -> list[str]:
    found = []
    for block in MarkdownIt("commonmark").parse(text):
        for token in (block, *(block.children or ())):
            address = str(token.attrGet("href") or token.attrGet("src") or "")
            if HOST in address or token.type in ("html_inline", "html_block", "image"):
                found.append(f"{token.type} {address or token.content}"[:120])
            if token.type == "text" and re.search(
                rf"(?:https?://|www\.)\S*{HOST}|(?<![\w`])@(?:here|channel|everyone)\b", token.content
            ):
                found.append(f"text {token.content}"[:120])
    return found
