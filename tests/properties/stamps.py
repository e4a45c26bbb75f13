"""Times in the texts and dumps of a job: read, moved by seconds, or without their date."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from damage.kinds.registry import Files, NotApplicable, is_dump, load

_ISO = rb"(?P<iso>(?:19|20)\d\d-\d\d-\d\d[T _]\d\d:\d\d:\d\d)"
_GLOG = rb"(?<![A-Za-z])(?P<letter>[IWEF])(?P<glog>\d{1,2}\d\d \d\d:\d\d:\d\d)(?=\.\d)"
_KERNEL = rb"(?P<kernel>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})"
_BARE = rb"(?P<front>^|\[)(?P<bare>\d\d:\d\d:\d\d)(?=[\], .])"
STAMP = re.compile(b"|".join((_ISO, _GLOG, _KERNEL, _BARE)), re.M)
_EPOCH = re.compile(rb'(?P<key>"(?:ts|time|timestamp)": )(?P<seconds>1[5-9]\d{8})(?=[.,}])')


def moved(content: bytes, seconds: float) -> bytes:
    """A text or a dump with every time later by so many seconds."""
    if is_dump(content):
        return _moved_dump(content, round(seconds * 1e9))
    text = _EPOCH.sub(lambda hit: hit["key"] + b"%d" % (int(hit["seconds"]) + round(seconds)), content)
    year = year_of(content)
    return STAMP.sub(lambda hit: _written(hit, _read(hit, year) + timedelta(seconds=seconds)), text)


def _moved_dump(content: bytes, by: int) -> bytes:
    def later(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v + by if _is_time(k, v) else later(v) for k, v in value.items()}
        return [later(one) for one in value] if isinstance(value, list) else value

    try:
        dump = later(load(content))
    except NotApplicable:
        return content  # cut off: nobody can write it again
    return pickle.dumps(dump, protocol=2) if content[:1] == b"\x80" else json.dumps(dump).encode()


def _times_in(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from [part] if _is_time(key, part) else _times_in(part)
    for part in value if isinstance(value, list) else ():
        yield from _times_in(part)


def _is_time(key: object, value: object) -> bool:
    return str(key).endswith("_ns") and isinstance(value, int) and value > 10**17


def year_of(text: bytes) -> int:
    """The year that a text names first, else one of no leap day."""
    hit = re.search(rb"(20\d\d)-\d\d-\d\d", text)
    return int(hit[1]) if hit else 2026


def _read(hit: re.Match[bytes], year: int) -> datetime:
    parts = {name: (hit[name] or b"").decode() for name in ("iso", "glog", "kernel", "bare")}
    if parts["iso"]:
        return datetime.fromisoformat(parts["iso"].replace("_", " ")).replace(tzinfo=UTC)
    if parts["glog"]:
        day, clock = parts["glog"].split()
        return datetime.fromisoformat(f"{year}-{int(day[:-2]):02}-{day[-2:]} {clock}").replace(tzinfo=UTC)
    if parts["kernel"]:
        return datetime.strptime(parts["kernel"], "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    return datetime.fromisoformat(f"{year}-06-15 {parts['bare']}").replace(tzinfo=UTC)


def _written(hit: re.Match[bytes], at: datetime) -> bytes:
    if hit["iso"]:
        return f"{at:%Y-%m-%d}{hit['iso'][10:11].decode()}{at:%H:%M:%S}".encode()
    if hit["glog"]:
        month = str(at.month) if len(hit["glog"].split()[0]) == 3 else f"{at.month:02}"
        return hit["letter"] + f"{month}{at:%d %H:%M:%S}".encode()
    if hit["kernel"]:
        return f"{at:%a %b %d %H:%M:%S %Y}".encode()
    return hit["front"] + f"{at:%H:%M:%S}".encode()


def dated(text: bytes, year: int = 0) -> list[datetime]:
    """The dated times of a text, in its order; ``year`` is that of times without one, 0 where only the text tells it."""
    year = year or year_of(text)
    return [_read(hit, year) for hit in STAMP.finditer(text) if not hit["bare"]]


def span(files: Files) -> tuple[datetime, datetime]:
    """The first and last dated time of the texts; raises :class:`NotApplicable` where none is there."""
    known = [int(hit[1]) for text in files.values() for hit in re.finditer(rb"(20\d\d)-\d\d-\d\d", text)]
    known += [
        datetime.fromtimestamp(ns / 1e9, UTC).year
        for dump in files.values()
        if is_dump(dump)
        for ns in _times_in(load(dump))
    ]
    times = [at for text in files.values() if not is_dump(text) for at in dated(text, max(known, default=0))]
    if not times:
        raise NotApplicable
    return min(times), max(times)


def without_dates(text: bytes) -> bytes:
    """Times of the clock are left, their dates are gone; glog's own date stays, which no launcher can turn off."""

    def cut(hit: re.Match[bytes]) -> bytes:
        return hit["iso"][11:] if hit["iso"] else hit[0]

    return STAMP.sub(cut, text)


def until(text: bytes, end: datetime) -> bytes:
    """The lines before this time; a line without a time was written with the one before it."""
    out, year = [], year_of(text)
    for line in text.splitlines(keepends=True):
        hit = STAMP.search(line)
        if hit and not hit["bare"] and _read(hit, year) > end:
            break
        out.append(line)
    return b"".join(out)
