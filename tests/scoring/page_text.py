"""What a reader of a report sees without a browser: its words, and headings that nothing stands below."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

UNSEEN = frozenset({"style", "script", "title", "desc", "head", "defs"})
"""Elements whose text is not shown."""

UNSEEN_CLASSES = frozenset({"skip", "js", "pick", "theme", "unshown"})
"""Classes that stand in the page for scripts, keyboards or the second layout of a picture."""

DRAWN = frozenset({"rect", "path", "polygon", "circle", "img", "input"})
VOID = frozenset({"meta", "br", "input", "img", "hr", "link"})


@dataclass
class _Open:
    tag: str
    is_hidden: bool
    is_closed_part: bool


@dataclass
class _Reader(HTMLParser):
    """Counts words and follows headings; what stands in a closed part counts only in its summary."""

    words: list[str] = field(default_factory=list)
    headings: list[tuple[int, list[str], bool]] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag[:1] == "h" and tag[1:] in ("1", "2", "3"):
            self.headings.append((int(tag[1]), [], False))
        if tag in DRAWN and not self._is_hidden():
            self._fills()
        if tag in VOID:
            return
        given = dict(attrs)
        classes = set((given.get("class") or "").split())
        is_hidden = tag in UNSEEN or "hidden" in given or bool(classes & UNSEEN_CLASSES)
        self.stack.append(_Open(tag, is_hidden, tag == "details" and "open" not in given))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in DRAWN and not self._is_hidden():
            self._fills()

    def handle_endtag(self, tag: str) -> None:
        while self.stack:
            if self.stack.pop().tag == tag:
                break

    def handle_data(self, data: str) -> None:
        words = data.split()
        if not words or self._is_hidden():
            return
        self.words += words
        tags = [item.tag for item in self.stack]
        if self.headings and f"h{self.headings[-1][0]}" in tags:
            self.headings[-1][1].extend(words)
        else:
            self._fills()

    def _is_hidden(self) -> bool:
        closed = next((n for n, item in enumerate(self.stack) if item.is_closed_part), None)
        in_closed = closed is not None and "summary" not in [item.tag for item in self.stack[closed:]]
        return in_closed or any(item.is_hidden for item in self.stack)

    def _fills(self) -> None:
        if self.headings:
            level, words, _ = self.headings[-1]
            self.headings[-1] = (level, words, True)


@dataclass(frozen=True, slots=True)
class PageText:
    """The words of a page, and its headings without content below them."""

    words: int
    empty_headings: tuple[str, ...]


def read(page: str) -> PageText:
    """The text of a report as it opens: closed parts count with their summary."""
    reader = _Reader()
    reader.feed(page)
    after = [*(level for level, _, _ in reader.headings[1:]), 0]
    empty = (
        " ".join(words)
        for (level, words, is_filled), following in zip(reader.headings, after, strict=True)
        if not is_filled and following <= level
    )
    return PageText(len(reader.words), tuple(empty))
