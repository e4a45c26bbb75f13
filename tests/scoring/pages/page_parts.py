"""The parts of a report's page as values: headline, facts, steps, graph, bars, rows and exhibits, read from its HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "br", "input", "img", "hr", "link", "rect", "path", "polygon", "circle", "wbr"})


@dataclass
class Node:
    """An element with its attributes, and what stands in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    inside: list[Node | str] = field(default_factory=list)

    def all(self, tag: str = "", css: str = "") -> Iterator[Node]:
        """The elements in it of that name and class, in order."""
        for part in self.inside:
            if isinstance(part, Node):
                if (not tag or part.tag == tag) and (not css or css in part.classes):
                    yield part
                yield from part.all(tag, css)

    def first(self, tag: str = "", css: str = "") -> Node:
        """The first of them, an empty element where there is none."""
        return next(self.all(tag, css), Node(""))

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @property
    def raw(self) -> str:
        """All text in it."""
        return "".join(part if isinstance(part, str) else part.raw for part in self.inside if not _is_code(part))

    @property
    def text(self) -> str:
        """The same on one line."""
        return " ".join(self.raw.split())

    @property
    def ranks(self) -> frozenset[int]:
        """The ranks that the search finds it by."""
        return ranks_of(self.attributes.get("data-ranks", ""))


def _is_code(part: Node | str) -> bool:
    return isinstance(part, Node) and part.tag in ("script", "style", "title", "desc")


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("page")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].inside.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        while len(self.open) > 1 and tag in [node.tag for node in self.open]:
            if self.open.pop().tag == tag:
                break

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def ranks_of(text: str) -> frozenset[int]:
    """``0-2, 7`` as a set; empty for other text."""
    spans = (part.strip().partition("-") for part in text.split(","))
    pairs = [(int(low), int(high or low)) for low, _, high in spans if low.isdecimal() and (high or low).isdecimal()]
    return frozenset(rank for low, high in pairs for rank in range(low, high + 1))


@dataclass(frozen=True)
class Step:
    """A step of *Do now*."""

    text: str
    detail: str
    command: str


@dataclass(frozen=True)
class Row:
    """A row of the table of ranks; ``cells`` by the heads of the table."""

    ranks: frozenset[int]
    tone: str
    cells: dict[str, str]


@dataclass(frozen=True)
class Shape:
    """A bar, or a box of the graph, with its words."""

    ranks: frozenset[int]
    is_blamed: bool
    text: str


@dataclass(frozen=True)
class Graph:
    """The drawing of the wait chain: its boxes, and its arrows as pairs of indices of boxes."""

    sub: str
    boxes: tuple[Shape, ...]
    arrows: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Exhibit:
    """An exhibit: its claim, where it is from, what it quotes, and what of that is marked.

    ``context`` holds the words around the quote: the ranks of which the same is on record, the heads of a table.
    """

    id: str
    claim: str
    source: str
    quote: str
    marks: tuple[str, ...]
    context: str
    is_table: bool


@dataclass(frozen=True)
class LastLines:
    """The last lines of one rank: whether any of them is from after the silence."""

    rank: int
    role: str
    text: str
    has_later: bool


@dataclass(frozen=True)
class Page:
    """What a reader sees; a part that the page lacks is empty."""

    headline: str
    status: str
    lede: str
    facts: dict[str, tuple[str, str]]
    steps: tuple[Step, ...]
    fixes: tuple[str, ...]
    first_kind: str
    graph: Graph | None
    cycle: Graph | None
    bars: tuple[Shape, ...]
    rows: tuple[Row, ...]
    exhibits: tuple[Exhibit, ...]
    refuted_by: str
    missing: str
    last_lines: tuple[LastLines, ...]
    inputs: dict[str, str]
    headings: tuple[str, ...]
    text: str

    @property
    def blamed(self) -> frozenset[int]:
        """The ranks at fault or suspected, by the table."""
        return frozenset(r for row in self.rows if row.tone in ("culprit", "suspect") for r in row.ranks)

    @property
    def culprits(self) -> frozenset[int]:
        """The ranks at fault."""
        return frozenset(r for row in self.rows if row.tone == "culprit" for r in row.ranks)

    def row_of(self, rank: int) -> Row | None:
        """The row of a rank."""
        return next((row for row in self.rows if rank in row.ranks), None)


def read(html: str) -> Page:
    """The parts of a page, with blanks at which no line may break as blanks."""
    builder = _Builder()
    builder.feed(html.replace("\u00a0", " "))
    page = builder.root
    figure, sections = (
        page.first("figure", "first"),
        {n.attributes.get("aria-labelledby", ""): n for n in page.all("section")},
    )
    none = Node("")
    proof, input_part = sections.get("h-proof", none), none
    for part in page.all("details", "more"):
        if part.first("summary").text.startswith("Input"):
            input_part = part
    return Page(
        headline=page.first("h1").text,
        status=page.first("p", "status").text,
        lede=page.first("p", "lede").text,
        facts={d.first("dt").text: _fact(d.first("dd")) for d in page.first("dl", "facts").all("div")},
        steps=tuple(
            Step(s.first("div", "lead").text, s.first("div", "sub").text, s.first("pre").text)
            for s in page.first("ol", "now").all("li")
            if "lead" in [c for n in s.inside if isinstance(n, Node) for c in n.classes]
        ),
        fixes=tuple(li.text for part in page.all("section", "two") for li in part.all("li")),
        first_kind=figure.first("div", "sc").attributes.get("aria-label", ""),
        graph=_graph(figure) if "chain" in figure.first("div", "sc").attributes.get("aria-label", "") else None,
        cycle=_graph(sections["h-cycle"]) if "h-cycle" in sections else None,
        bars=tuple(
            _shape(g) for part in (figure, sections.get("h-stall", none)) if _has_bars(part) for g in part.all("g")
        ),
        rows=_rows(sections.get("h-ranks", none)),
        exhibits=tuple(_exhibit(node) for node in proof.all("div", "ex")),
        refuted_by=proof.first("p", "sub").text.removeprefix("We'd be wrong if ").rstrip("."),
        missing=" ".join(p.text for p in page.all("p", "missing")),
        last_lines=tuple(
            _last_lines(d) for d in sections.get("h-last", none).first("div", "two").inside if isinstance(d, Node)
        ),
        inputs={row.first("th").text: row.first("td").text for row in input_part.first("tbody").all("tr")},
        headings=tuple(node.text for level in ("h1", "h2", "h3") for node in page.all(level)),
        text=page.first("main").text,
    )


def _has_bars(part: Node) -> bool:
    return part.first("div", "sc").attributes.get("aria-label", "").startswith("Bars")


def _fact(value: Node) -> tuple[str, str]:
    detail = value.first("span").text
    return value.text.removesuffix(detail).strip(), detail


def _shape(group: Node) -> Shape:
    texts = [node.text for node in group.all("text")]
    is_blamed = any("tc" in node.classes for node in group.all("text"))
    return Shape(group.ranks, is_blamed, " | ".join(texts))


def _rows(section: Node) -> tuple[Row, ...]:
    heads = [th.text for th in section.first("thead").all("th")]
    return tuple(
        Row(
            row.ranks,
            row.classes[0],
            dict(
                zip(heads, [cell.text.strip("\u2013") for cell in row.inside if isinstance(cell, Node)], strict=False)
            ),
        )
        for row in section.first("tbody").all("tr")
    )


_NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")


def _graph(part: Node) -> Graph:
    """The boxes with the arrows between them: an arrow begins at the edge of one box and its head stands at another's."""
    svg = part.first("svg")
    places = []
    boxes = []
    for group in svg.all("g"):
        rect = group.first("rect").attributes
        places.append(tuple(float(rect[name]) for name in ("x", "y", "width", "height")))
        boxes.append(_shape(group))
    starts = [
        [*map(float, _NUMBERS.findall(p.attributes["d"])[:2])]
        for p in svg.inside
        if isinstance(p, Node) and p.tag == "path"
    ]
    tips = [
        [*map(float, _NUMBERS.findall(p.attributes["points"])[:2])]
        for p in svg.inside
        if isinstance(p, Node) and p.tag == "polygon"
    ]
    pairs = ((_touched(places, *start), _touched(places, *tip)) for start, tip in zip(starts, tips, strict=True))
    arrows = frozenset((here, there) for here, there in pairs if here is not None and there is not None)
    return Graph(part.first("p", "sub").text, tuple(boxes), arrows)


def _touched(places: list[tuple[float, ...]], x: float, y: float) -> int | None:
    return next(
        (
            n
            for n, (left, top, wide, high) in enumerate(places)
            if left - 4 <= x <= left + wide + 4 and top - 2 <= y <= top + high + 2
        ),
        None,
    )


def _exhibit(node: Node) -> Exhibit:
    quotes = list(node.all("div", "q"))
    quote = quotes[0] if quotes else Node("")
    tables = [*node.all("table")]
    told, shown = [part for part in node.inside if isinstance(part, Node)][:2]
    marks = [mark.text for mark in quote.all("mark")]
    cells = [c for table in tables for c in table.all("td") if set(c.classes) & {"differs", "peer", "none"}]
    sources = [*shown.first("div", "src").all("span")]
    return Exhibit(
        id=node.attributes.get("id", "").removeprefix("exhibit-"),
        claim=told.first("h3").first("span").text.removesuffix("↑").strip(),
        source=sources[0].text if sources else "",
        quote="\n".join(code.raw for code in quote.all("code"))
        + "\n".join(c.text for t in tables for c in t.all("td")),
        marks=(*marks, *(cell.text for cell in cells)),
        context=" ".join([*(p.text for p in told.all("p")), *(h.text for t in tables for h in t.all("th"))]),
        is_table=bool(tables),
    )


def _last_lines(node: Node) -> LastLines:
    who = [*node.first("div", "src").all("span")][-1].text if node.first("div", "src").inside else ""
    found = re.search(r"rank (\d+), (.+)", who)
    lines = node.first("div", "q")
    text = "\n".join(code.raw for code in lines.all("code"))
    has_later = bool([*lines.all("div", "peer")]) and any(
        gap.text != "no further line" for gap in lines.all("div", "gap")
    )
    return LastLines(int(found[1]) if found else -1, found[2] if found else "", text, has_later)
