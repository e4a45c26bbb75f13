r"""Knows what other programs leave beside a job: metrics, word lists, data sets, web pages, mails, histories, builds, tests.

None of these tells what the job did, although each may quote an error. They are known by what every one of their kind begins with or
repeats, never by a name. A build or a test run is known only where the whole text was seen: a job may begin with ``pip install``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from nccldoctor.model import SourceKind
from nccldoctor.patterns import lazy

LOOKED_AT = 16 << 10
"""Bytes of a text whose lines are looked at; all of them where they look like a build."""

LONGEST = 400
"""Characters of a line that are looked at."""

_PAGE = lazy(r"\s{0,99}(?:<\?xml[^<>]{0,200}>\s{0,9})?<(?:!doctype html|html|testsuites?|coverage|checkstyle)\b", re.I)
_DEBUG_SERVER = b"/handler/"
"""Stands in every page of PyTorch's debug server, which shows what the ranks themselves say."""

_MAIL = lazy(
    r"(From|To|Cc|Subject|Date|Sent|Reply-To|Return-Path|Received|Message-I[Dd]|In-Reply-To|MIME-Version|Content-Type"
    r"|Ticket|Issue|Summary|Reporter|Assignee|Priority|Status|Component|Resolution|Labels): +\S"
)
_MAIL_HEAD = 40
_COMMIT = lazy(r"commit [0-9a-f]{7,64}(?: \(|$)")
_COMMIT_LINE = lazy(r"[*|\\/ ]{0,9}(?P<id>[0-9a-f]{7,40}) (?:\([^()]{1,200}\) )?(?=[A-Za-z])")
_METRIC = lazy(
    r"# (?:HELP|TYPE|UNIT|EOF)\b|[A-Za-z_:][\w:]{0,120}(?:\{[^{}]{0,300}\})? [-+]?(?:\d[\d.eE+-]{0,30}|NaN|[-+]?Inf)(?: \d{10,13})?$"
)
_OF_JOBS = (b"\nnccl_", b"\nXPU_TIMER_")
"""Begins the metrics of NCCL's Inspector, which a node exporter shows among its own, and those of DLRover's XPUTimer."""

_METRIC_HEAD = lazy(r"# (?:HELP|TYPE) [A-Za-z_:][\w:]{0,120} \S")
_WORD = lazy(r"[^\s={}\"]{1,40}$")
_FEWEST_WORDS = 8

_VOCABULARY = lazy(r"\s{0,9}\{\s{0,9}(?:\"(?:[^\"\\]|\\.){0,80}\"\s?:\s?\d{1,9},\s{0,9}){20}")
_TOKENIZER = (b'"added_tokens"', b'"vocab"', b'"merges"', b'"chat_template"', b'"tokenizer_class"', b'"weight_map"')
_TEXT_KEYS = ("text", "prompt", "instruction", "content", "question", "document", "messages", "conversations")
_SAYS_WHEN_OR_WHO = lazy(
    r"(?i)@?(?:time(?:stamp)?|ts|(?:asc|date)?time|date|level(?:name)?|severity|record|stream|log|line|rank|host(?:name)?|pod|kubernetes"
    r"|labels|logger|name|pid|process|thread)"
)
"""The keys of a log in lines of JSON."""

_TEST_RUN = lazy(
    r"={3,60} (?:test session starts|FAILURES|ERRORS|short test summary info|.{0,80}\bin \d[\d.]{0,9}s.{0,20}) ={3,60}$"
)
_BUILD = lazy(
    r"\[ {0,2}\d{1,5}/\d{1,5}\] (?:Building|Linking|Compiling|Generating|\S{0,80}(?:nvcc|cc|c\+\+|g\+\+|ld)\b)|FAILED: |ninja: "
    r"|g?make(?:\[\d{1,3}\])?: |-- (?:Found|The|Detecting|Configuring|Generating|Build|Check|Looking|Performing)\b"
    r"|\[ {0,2}\d{1,3}%\] (?:Building|Linking|Built)|(?:\S{0,80}/)?(?:g\+\+|gcc|clang(?:\+\+)?|nvcc|cc|c\+\+) -"
    r"|[^\s:]{1,200}(?::\d{1,6}:\d{1,6}|\(\d{1,6}\)): (?:fatal )?(?:error|warning|note)\b"
    r"|Collecting \S|\s{0,4}(?:Downloading|Using cached|Building wheel|Preparing metadata|Getting requirements)\b"
    r"|Requirement already satisfied|Success(?:fully) (?:built|installed|uninstalled)|Installing collected packages"
    r"|Step \d{1,4}/\d{1,4} : |#\d{1,4} (?:\[|\d{1,6}\.\d|DONE|CACHED)|running (?:build|install|egg_info|bdist)|(?:creating|copying) \S"
    r"|npm (?:ERR!|WARN|notice)|collected \d{1,6} items?|\s{0,4}Compiling \S{1,80} v\d|error: (?:subprocess-exited|command )"
)
_OF_A_JOB = lazy(
    r"\[rank ?\d|\[default\d|ProcessGroup|NCCL (?:INFO|WARN|version)|torchrun|torch\.distributed|srun: |slurmstepd|[IWEF]\d{4} \d\d:"
    r"|\b[Ss]tep\W{1,4}\d|\bepoch\W{1,4}\d|\d{1,3}%\|"
)
_SHARE = 0.3
"""Share of lines that a build prints and nothing else does; the rest are the commands, sources and errors that it shows."""


def first_lines(head: bytes) -> list[str]:
    """The lines of the first :data:`LOOKED_AT` bytes that are neither blank nor cut off."""
    lines = _lines(head[:LOOKED_AT])
    return lines[:-1] if len(head) > LOOKED_AT and len(lines) > 1 else lines


def count_matches(pattern: lazy[str], lines: Sequence[str]) -> int:
    """How many lines begin with what the pattern describes."""
    return len(list(filter(pattern.match, lines)))


def kind_of_bystander(head: bytes, lines: Sequence[str], *, is_json: bool, is_whole: bool) -> SourceKind | None:
    """The kind of a text that another program left; None for what may be output of the job.

    The text begins with ``head``, which has these :func:`first_lines`; ``is_whole`` says that ``head`` is the whole text.
    """
    if not lines:
        return None
    if is_json:
        # each line is a document, or holds numbers alone, and says neither when nor who wrote it
        looked_at = [line for line in (_object(line) for line in lines[:8]) if line]
        data = [
            keys
            for keys in looked_at
            if not any(map(_SAYS_WHEN_OR_WHO.fullmatch, keys))
            and (any(_is_document(keys.get(key)) for key in _TEXT_KEYS) or all(map(_is_number, keys.values())))
        ]
        return SourceKind.DATA if _is_vocabulary(head) or len(data) > len(looked_at) / 2 else None
    if _PAGE.match("".join(lines[:3])) and _DEBUG_SERVER not in head:
        return SourceKind.PAGE
    if _is_mail(lines) or _is_history(lines):
        return SourceKind.NOTES
    if (_is_metrics(lines) and not any(own in head for own in _OF_JOBS)) or _is_word_list(lines):
        return SourceKind.DATA
    looks_built = is_whole and (_TEST_RUN.match(lines[0]) or _printed_by_build(lines) >= 2)
    return SourceKind.BUILD if looks_built and _is_build(_lines(head)) else None


def _lines(text: bytes) -> list[str]:
    return [line for line in text.decode("latin-1").splitlines() if line.strip()]


def _is_mail(lines: Sequence[str]) -> bool:
    """True where the headers of a mail or a ticket stand first: who wrote it, about what, and one more."""
    named = {hit[1] for line in lines[:_MAIL_HEAD] if (hit := _MAIL.match(line))}
    return len(named) >= 3 and bool(named & {"From", "Reporter", "Assignee"}) and bool(named & {"Subject", "Summary"})


def _is_history(lines: Sequence[str]) -> bool:
    """True for ``git log``, in full or a line for each commit."""
    if _COMMIT.match(lines[0]):
        return any(line.startswith(("Author: ", "Merge: ")) for line in lines[1:4])
    if not all(map(_COMMIT_LINE.match, lines[:2])):
        return False
    commits = [hit["id"] for line in lines if (hit := _COMMIT_LINE.match(line))]
    return len(commits) >= max(2, 0.9 * len(lines)) and len(set(commits)) == len(commits)


def _is_metrics(lines: Sequence[str]) -> bool:
    """True for what an exporter shows to Prometheus."""
    return _METRIC_HEAD.match(lines[0]) is not None and count_matches(_METRIC, lines) >= 0.9 * len(lines)


def _is_word_list(lines: Sequence[str]) -> bool:
    """True for a vocabulary, or names one under the other: hardly a line has two words."""
    if len(lines) < _FEWEST_WORDS or not all(map(_WORD.match, lines[:_FEWEST_WORDS])):
        return False
    return count_matches(_WORD, lines) >= 0.95 * len(lines)


def _is_vocabulary(head: bytes) -> bool:
    """True for the files of a tokenizer."""
    return sum(key in head for key in _TOKENIZER) >= 2 or _VOCABULARY.match(head[:4096].decode("latin-1")) is not None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _is_document(value: object) -> bool:
    return isinstance(value, list) or (isinstance(value, str) and "\n" in value.strip())


def _object(line: str) -> dict[str, object] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _printed_by_build(lines: Sequence[str]) -> int:
    return count_matches(_BUILD, [line[:LONGEST] for line in lines])


def _is_build(lines: Sequence[str]) -> bool:
    """True for a whole run of pytest, and for a build in which no line is of a job."""
    if _TEST_RUN.match(lines[0]) and _TEST_RUN.match(lines[-1]):
        return True
    printed = _printed_by_build(lines)
    return printed >= max(2, _SHARE * len(lines)) and not any(_OF_A_JOB.search(line[:LONGEST]) for line in lines)
