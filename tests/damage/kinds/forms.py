"""Texts in another form: wrapped, indented, coloured, in other encodings, with other times."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import textwrap
from collections.abc import Callable
from datetime import datetime, timedelta

from damage.kinds.registry import Files, NotApplicable, of_files, of_texts, one_of, texts

FORM, ENCODING, CLOCK = "form", "encoding", "clock"


def _each_line(text: bytes, change: Callable[[str], str]) -> bytes:
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    return "\n".join(change(line) for line in lines).encode("utf-8", "surrogateescape")


def _pieces(line: str, width: int) -> str:
    return "\n".join(line[at : at + width] for at in range(0, max(1, len(line)), width))


@of_texts(FORM)
def wrapped_at_80(rng: random.Random, text: bytes) -> bytes:
    """Every line is broken after 80 columns."""
    return _each_line(text, lambda line: _pieces(line, 80))


@of_texts(FORM)
def wrapped_at_120(rng: random.Random, text: bytes) -> bytes:
    """Every line is broken after 120 columns."""
    return _each_line(text, lambda line: _pieces(line, 120))


@of_texts(FORM)
def wrapped_at_blanks(rng: random.Random, text: bytes) -> bytes:
    """Every line is broken at blanks before column 100."""
    fill = textwrap.TextWrapper(100, break_long_words=False, break_on_hyphens=False, drop_whitespace=True)
    return _each_line(text, lambda line: "\n".join(fill.wrap(line)) or line)


@of_texts(FORM)
def indented(rng: random.Random, text: bytes) -> bytes:
    """Four blanks stand before every line, as in a block of code."""
    return _each_line(text, lambda line: f"    {line}")


@of_texts(FORM)
def quoted(rng: random.Random, text: bytes) -> bytes:
    """Every line is quoted, as in a mail."""
    return _each_line(text, lambda line: f"> {line}")


@of_texts(FORM)
def fenced(rng: random.Random, text: bytes) -> bytes:
    """Stands in a fenced block, below a sentence of a person."""
    return b"Hi, we see this since Monday, can you have a look?\n\n```\n" + text.rstrip(b"\n") + b"\n```\n"


@of_texts(FORM)
def numbered(rng: random.Random, text: bytes) -> bytes:
    """Line numbers stand in front, as ``cat -n`` or an editor writes them."""
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    return "\n".join(f"{n:6d}\t{line}" for n, line in enumerate(lines, 1)).encode("utf-8", "surrogateescape")


@of_texts(FORM)
def spread_out(rng: random.Random, text: bytes) -> bytes:
    """A blank line stands behind every line."""
    return text.replace(b"\n", b"\n\n")


@of_texts(FORM)
def blanks_squeezed(rng: random.Random, text: bytes) -> bytes:
    """Runs of blanks are one blank, and no line is indented, as a web page shows a text."""
    return _each_line(text, lambda line: re.sub(r"[ \t]+", " ", line).strip())


@of_texts(FORM)
def trailing_blanks(rng: random.Random, text: bytes) -> bytes:
    """Lines are filled with blanks to the width of a terminal."""
    return _each_line(text, lambda line: line.ljust(132))


@of_texts(FORM)
def coloured(rng: random.Random, text: bytes) -> bytes:
    """Every line has the colours of a terminal."""
    return _each_line(text, lambda line: f"\x1b[1;31m{line}\x1b[0m" if line else line)


@of_texts(FORM)
def coloured_words(rng: random.Random, text: bytes) -> bytes:
    """``grep --color`` marks the words that it found."""
    return _each_line(
        text, lambda line: re.sub(r"(NCCL|rank|error)", "\x1b[01;31m\x1b[K\\1\x1b[m\x1b[K", line, flags=re.I)
    )


@of_texts(FORM)
def typed_by_script(rng: random.Random, text: bytes) -> bytes:
    """Recorded by ``script``: its first and last line, and returns before line ends."""
    return (
        b'Script started on 2026-01-01 09:00:00+00:00 [TERM="xterm"]\r\n'
        + text.replace(b"\n", b"\r\n")
        + b'\r\nScript done on 2026-01-01 12:00:00+00:00 [COMMAND_EXIT_CODE="1"]\r\n'
    )


@of_texts(ENCODING)
def crlf(rng: random.Random, text: bytes) -> bytes:
    """Windows line ends."""
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


@of_texts(ENCODING)
def returns_only(rng: random.Random, text: bytes) -> bytes:
    """Carriage returns instead of line ends."""
    return text.replace(b"\n", b"\r")


@of_texts(ENCODING)
def with_bom(rng: random.Random, text: bytes) -> bytes:
    """A mark of UTF-8 in front."""
    return b"\xef\xbb\xbf" + text


@of_texts(ENCODING)
def read_as_latin_1(rng: random.Random, text: bytes) -> bytes:
    """Read as Latin-1 and saved as UTF-8."""
    return text.decode("latin-1").encode()


@of_texts(ENCODING)
def in_latin_1(rng: random.Random, text: bytes) -> bytes:
    """Saved as Latin-1: what it lacks becomes a question mark."""
    return text.decode("utf-8", "replace").encode("latin-1", "replace")


@of_texts(ENCODING)
def in_utf_16(rng: random.Random, text: bytes) -> bytes:
    """UTF-16 with its mark, as PowerShell redirects."""
    return text.decode("utf-8", "replace").replace("\n", "\r\n").encode("utf-16")


@of_texts(ENCODING)
def in_utf_16_unmarked(rng: random.Random, text: bytes) -> bytes:
    """UTF-16, big or little end first, without a mark."""
    return text.decode("utf-8", "replace").encode(rng.choice(("utf-16-le", "utf-16-be")))


@of_texts(ENCODING)
def in_utf_32(rng: random.Random, text: bytes) -> bytes:
    """UTF-32 with its mark."""
    return text.decode("utf-8", "replace").encode("utf-32")


@of_texts(ENCODING)
def in_base64(rng: random.Random, text: bytes) -> bytes:
    """Base64, as a secret or a configuration map of Kubernetes holds it."""
    return base64.encodebytes(text)


@of_texts(ENCODING)
def escaped_for_html(rng: random.Random, text: bytes) -> bytes:
    """Copied out of the source of a web page."""
    return html.escape(text.decode("utf-8", "replace")).encode()


@of_texts(ENCODING)
def as_one_json_text(rng: random.Random, text: bytes) -> bytes:
    """The whole log is one text in a JSON document."""
    return json.dumps({"logs": text.decode("utf-8", "replace")}).encode()


@of_texts(ENCODING, one_too=True)
def zeros_behind(rng: random.Random, text: bytes) -> bytes:
    """NULs stand behind the text, as after a crash of the host."""
    return text + bytes(4096 + rng.randrange(4096))


@of_texts(ENCODING)
def zeros_inside(rng: random.Random, text: bytes) -> bytes:
    """A block in the middle is NULs, as a file with a hole is."""
    at = rng.randrange(len(text))
    return text[:at] + bytes(len(text[at : at + 512])) + text[at + 512 :]


@of_texts(ENCODING)
def bits_flipped(rng: random.Random, text: bytes) -> bytes:
    """One byte in two thousand has another bit."""
    out = bytearray(text)
    for _ in range(max(1, len(out) // 2000)):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(7)
    return bytes(out)


_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?P<gap>[T ])(?P<clock>\d\d:\d\d:\d\d)|(?<=\d{3} )(?P<glog>\d\d:\d\d:\d\d)"
    r"|(?<=[A-Z][a-z]{2} )(?P<kernel>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})"
)
FIRST_TIME = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)")


@of_texts(CLOCK)
def times_lost(rng: random.Random, text: bytes) -> bytes:
    """Times are gone from the beginnings of lines."""
    return _each_line(
        text,
        lambda line: re.sub(
            r"^(\W{0,3}|.{0,30}?\[[IWEF])(\d{4}([-/]\d\d[-/]\d\d[T ])?)? ?\d\d:\d\d:\d\d[.,\d]*Z?", r"\1", line
        ),
    )


@of_texts(CLOCK)
def times_of_minutes(rng: random.Random, text: bytes) -> bytes:
    """Times end with the minute."""
    return _each_line(text, lambda line: re.sub(r"(\d\d:\d\d):\d\d([.,]\d+)?", r"\1", line))


@of_texts(CLOCK)
def seconds_without_fraction(rng: random.Random, text: bytes) -> bytes:
    """Times end with the second."""
    return _each_line(text, lambda line: re.sub(r"(\d\d:\d\d:\d\d)[.,]\d+", r"\1", line))


def moved(text: bytes, by: timedelta) -> bytes:
    """The text of a host whose clock is ahead by so much."""

    def later(hit: re.Match[str]) -> str:
        if hit["glog"]:
            return (datetime.strptime(hit["glog"], "%H:%M:%S") + by).strftime("%H:%M:%S")
        if hit["kernel"]:
            return (datetime.strptime(hit["kernel"], "%b %d %H:%M:%S %Y") + by).strftime("%b %d %H:%M:%S %Y")
        try:
            then = datetime.fromisoformat(f"{hit['day']} {hit['clock']}") + by
        except ValueError:
            return hit[0]
        return then.strftime(f"%Y-%m-%d{hit['gap']}%H:%M:%S")

    return _each_line(text, lambda line: _TIME.sub(later, line))


@of_files(CLOCK)
def one_clock_an_hour_apart(rng: random.Random, files: Files) -> Files:
    """The clock of one text is an hour ahead or behind."""
    return _onemoved(rng, files, timedelta(hours=rng.choice((-1, 1))))


@of_files(CLOCK)
def one_clock_a_minute_apart(rng: random.Random, files: Files) -> Files:
    """The clock of one text is a minute ahead or behind."""
    return _onemoved(rng, files, timedelta(seconds=rng.choice((-61, 61))))


def _onemoved(rng: random.Random, files: Files, by: timedelta) -> Files:
    chosen = one_of(rng, texts(files))
    if not chosen:
        raise NotApplicable
    return {path: moved(content, by) if path in chosen else content for path, content in files.items()}


@of_files(CLOCK)
def clocks_apart(rng: random.Random, files: Files) -> Files:
    """Each text has a clock of its own, up to forty seconds from the others."""
    if len(texts(files)) < 2:
        raise NotApplicable
    return {
        p: moved(c, timedelta(seconds=rng.randrange(-40, 41))) if p in texts(files) else c for p, c in files.items()
    }
