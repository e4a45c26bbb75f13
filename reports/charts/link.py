"""A broken link as a drawing: two hosts with what they reported, and the error between them."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.model.figures import BrokenLink, LinkEnd
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts.text_width import fitting, width_of
from nccldoctor.words import names
from nccldoctor.words.sanitize import line

WIDTH, BOX, HEIGHT = 612, 214, 100
SMALL, LINES = 11.5, 3


class HostBox(Struct, frozen=True):
    """One end: its name, and up to three lines about it; ``is_culprit`` where a rank at fault runs there."""

    x: int
    title: str
    details: tuple[str, ...]
    key: str
    is_culprit: bool


class LinkPicture(Struct, frozen=True):
    """The drawing: both ends, the error in lines that fit between them, and the same in words."""

    boxes: tuple[HostBox, HostBox]
    error: tuple[str, ...]
    height: int
    says: str


def link_picture(link: BrokenLink, culprits: Ranks) -> LinkPicture:
    """The drawing of a connection that failed."""
    near, far = _host_box(link.near, 0, culprits, link.error), _host_box(link.far, WIDTH - BOX, culprits, link.error)
    lines = [""]
    for word in line(link.error, 120).split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer, SMALL) > WIDTH - 2 * BOX - 12:
            lines.append(word)
        else:
            lines[-1] = longer
    shown = lines[:LINES]
    error = tuple(shown) if len(lines) <= LINES else (*shown[:-1], shown[-1] + "…")
    says = f"The connection between {near.title} and {far.title} failed: {line(link.error, 120)}."
    return LinkPicture((near, far), error, HEIGHT + 2, says)


def _host_box(end: LinkEnd, x: int, culprits: Ranks, error: str) -> HostBox:
    title = line(end.host, 60) or line(end.address, 60) or "peer unknown"
    who = names.ranks_phrase(end.ranks, 3) if end.ranks else ""
    first = " · ".join(part for part in (who, line(end.device, 40)) if part)
    address = line(end.address, 60) if end.host else ""
    reports = ["reported this error" if report == error else line(report, 80) for report in end.reports]
    reports = reports or ["no report from this end"]
    details = tuple(fitting(text, SMALL, BOX - 24) for text in (first, *reports, address) if text)[:4]
    return HostBox(x, title, details, str(end.ranks), bool(end.ranks & culprits))
