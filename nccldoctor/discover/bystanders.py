r"""Knows what other programs leave beside a job: metrics, word lists, data sets, web pages, mails, histories, builds, tests.

None of these tells what the job did, although each may quote an error. They are known by what every one of their kind begins with or
repeats, never by a name. A build or a test run is known only where the whole text was seen: a job may begin with ``pip install``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from nccldoctor.model import SourceKind
from nccldoctor.parsers.rows import Table
from nccldoctor.patterns import lazy

LOOKED_AT = 16 << 10
"""Bytes of a text whose lines are looked at; all of them where they look like a build."""

LONGEST = 400
"""Characters of a line that are looked at."""

_PATTERNS = Table(__file__).patterns()
_PAGE = _PATTERNS["page"]
_DEBUG_SERVER = b"/handler/"
"""Stands in every page of PyTorch's debug server, which shows what the ranks themselves say."""

_MAIL = _PATTERNS["mail"]
_MAIL_HEAD = 40
_COMMIT = _PATTERNS["commit"]
_COMMIT_LINE = _PATTERNS["commit_line"]
_METRIC = _PATTERNS["metric"]
_OF_JOBS = (b"\nnccl_", b"\nXPU_TIMER_")
"""Begins the metrics of NCCL's Inspector, which a node exporter shows among its own, and those of DLRover's XPUTimer."""

_METRIC_HEAD = _PATTERNS["metric_head"]
_WORD = _PATTERNS["word"]
_FEWEST_WORDS = 8

_VOCABULARY = _PATTERNS["vocabulary"]
_TOKENIZER = (b'"added_tokens"', b'"vocab"', b'"merges"', b'"chat_template"', b'"tokenizer_class"', b'"weight_map"')
_TEXT_KEYS = ("text", "prompt", "instruction", "content", "question", "document", "messages", "conversations")
_SAYS_WHEN_OR_WHO = _PATTERNS["says_when_or_who"]
"""The keys of a log in lines of JSON."""

_TEST_RUN = _PATTERNS["test_run"]
_BUILD = _PATTERNS["build"]
_OF_A_JOB = _PATTERNS["of_a_job"]
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
        looked_at = [line for line in map(value_of_json, lines[:8]) if isinstance(line, dict) and line]
        data = [
            keys
            for keys in looked_at
            if not any(map(_SAYS_WHEN_OR_WHO.fullmatch, keys))
            and (
                any(isinstance(text := keys.get(key), list) or "\n" in str(text or "").strip() for key in _TEXT_KEYS)
                or all(isinstance(value, int | float) for value in keys.values())
            )
        ]
        of_tokenizer = sum(key in head for key in _TOKENIZER) >= 2 or _VOCABULARY.match(head[:4096].decode("latin-1"))
        return SourceKind.DATA if of_tokenizer or len(data) > len(looked_at) / 2 else None
    if _PAGE.match("".join(lines[:3])) and _DEBUG_SERVER not in head:
        return SourceKind.PAGE
    if _is_mail(lines) or _is_history(lines):
        return SourceKind.NOTES
    is_metrics = _METRIC_HEAD.match(lines[0]) is not None and count_matches(_METRIC, lines) >= 0.9 * len(lines)
    if (is_metrics and not any(own in head for own in _OF_JOBS)) or _is_word_list(lines):
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


def _is_word_list(lines: Sequence[str]) -> bool:
    """True for a vocabulary, or names one under the other: hardly a line has two words."""
    if len(lines) < _FEWEST_WORDS or not all(map(_WORD.match, lines[:_FEWEST_WORDS])):
        return False
    return count_matches(_WORD, lines) >= 0.95 * len(lines)


def value_of_json(text: str | bytes) -> object:
    """The value of a JSON text; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def text_of_json(string: bytes) -> bytes:
    """The text of a JSON string; b"" where it is none."""
    value = value_of_json(string)
    return value.encode("utf-8", "replace") if isinstance(value, str) else b""


def _printed_by_build(lines: Sequence[str]) -> int:
    return count_matches(_BUILD, [line[:LONGEST] for line in lines])


def _is_build(lines: Sequence[str]) -> bool:
    """True for a whole run of pytest, and for a build in which no line is of a job."""
    if _TEST_RUN.match(lines[0]) and _TEST_RUN.match(lines[-1]):
        return True
    printed = _printed_by_build(lines)
    return printed >= max(2, _SHARE * len(lines)) and not any(_OF_A_JOB.search(line[:LONGEST]) for line in lines)
