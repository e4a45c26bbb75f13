"""Templates of lines: what is left of a message once numbers, paths, shapes and words for no value are holes.

``step 41 loss=2.31`` and ``step 42 loss=nan`` have one template with two holes each; what fills the holes tells the two apart. A hole is
found by its characters alone, so that a line has the same template in every file and on every rank.
"""

from __future__ import annotations

from nccldoctor.patterns import lazy

_HOLE = lazy(
    r"(?:[A-Za-z][\w+.-]{0,20}://|(?<![\w/])~?\.{0,2}/)[^\s,;'\")\]]+"  # an address or a path
    r"|[\[(]\d[\d, ]{0,80}[\])]|\b\d{1,9}(?:x\d{1,9}){1,6}\b"  # a shape
    r"|(?<![\w.+])[+-]?(?i:nan|inf(?:inity)?|none|null|true|false)\b(?![.-]?\w)"
    r"|[█▉▊▋▌▍▎▏░#━╸╺ ]{0,200}[█▉▊▋▌▍▎▏░━╸╺]"  # a bar
    r"|\d{1,4}(?:[-/:.,T ]\d{1,6}){2,8}|[\w.%+-]*\d[\w.%+-]*"  # a date, a time; a word with a digit
)
_NUMBER = lazy(
    r"[+-]?[\d.,:/ T-]*\d[\d.,:/ T-]*(?:[eE][+-]?\d+)?[A-Za-z%]{0,4}"
)  # with a unit; a date, an address of IP
_ADDRESS = lazy(r"(?:0x)?[0-9a-f]*(?:\d[a-f]|[a-f]\d)[0-9a-f]{4,}|0x[0-9a-f]+")

_COURSE = lazy(
    r"(?i)(?:^\W{0,4}|[,;:|] )(?:(?:rank|process|worker) \d+:? )?(?!train|process|test|\w*warning)[a-z]{2,}ing\b"  # saving data
    r"|\b(?:skip|drop|discard|ignor|abandon|omit|left out|leav|exit|quit|stop|abort|cancel|finish|complet|done\b|ended?\b|end of"
    r"|reached|empty|exhaust|ran out|no (?:more|further)|missing|without|not (?:found|finite|available)|fail|error|retr(?:y|ies)"
    r"|wait|slow|block|hold|evaluat|validat|saves?\b|saving|checkpoint|snapshot|upload|download|sync|rebuil|recompil|compil|reload)"
)
_DEPRECATION = lazy(r"\b(?:Future|Deprecation)Warning\b")
NO_VALUES = ("nan", "inf", "none", "null")
"""What stands for a value that is none, in the kinds of :func:`kind_of`."""


def is_of_course(template: str) -> bool:
    """True where words tell of work that begins, ends, fails or is left out; a deprecation tells of none."""
    return _COURSE.search(template) is not None and _DEPRECATION.search(template) is None


def template_of(message: str) -> str:
    """The template of a message without its prefix; ``…`` stands for each of its holes."""
    return " ".join(_HOLE.sub("…", message[:400].replace("…", ".")).split())


def values_of(message: str) -> list[str]:
    """What fills the holes of its template, in order."""
    return _HOLE.findall(message[:400].replace("…", "."))


def kind_of(value: str) -> str:
    """``nan``, ``inf``, ``none``, ``null``; ``zero``, ``number``, ``address``; ``name`` for a path, a shape, a flag and any other word."""
    word = value.lower().lstrip("+-")
    if word in ("nan", "none", "null"):
        return word
    if word.startswith("inf") and not any(map(str.isdigit, word)):
        return "inf"
    if _NUMBER.fullmatch(value):
        return "number" if any(sign in value for sign in "123456789") else "zero"
    return "address" if _ADDRESS.fullmatch(word) else "name"
