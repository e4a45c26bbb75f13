r"""Says from the shape of its lines whether a text is output of the job or a person wrote it.

Source code, launch scripts, configurations, notes and chats travel in the folders of incidents. An alert rule that quotes
an Xid is no Xid, and a ``raise`` in ``train.py`` is no exception. The content decides; the name only lowers what is asked
of it. A file with lines as loggers, launchers and kernels print them is output: a log that echoes its script, or
quotes source in a traceback, stays a log.
"""

from __future__ import annotations

import re

from msgspec import Struct

from nccldoctor.discover.bystanders import (
    LONGEST,
    LOOKED_AT,
    count_matches,
    first_lines,
    kind_of_bystander,
    text_of_json,
    value_of_json,
)
from nccldoctor.discover.streams import HEAD
from nccldoctor.model import SourceKind
from nccldoctor.parsers.rows import Table
from nccldoctor.patterns import lazy

MOST_LOGGED = 0.1
"""Share of lines in the shape of output that a person's text has at most; :data:`MOST_QUOTED` where its name says what it is."""
MOST_QUOTED = 0.4

_TABLE = Table(__file__)
_PATTERNS = _TABLE.patterns()
_OUTPUT_NAMES = _PATTERNS["output_names"]
_PRINTED = _PATTERNS["printed"]
"""Begins a line that a logger, launcher, scheduler, kernel or tracing shell printed."""
_STACK = _PATTERNS["stack"]
"""Begins the stack of a thread: its frames quote source and list variables, which look like code and like settings."""
_SENTENCE = _PATTERNS["sentence"]
_RECORDED = (b"containerStatuses", b"lastTransitionTime", b"lastState")
"""Words of a scheduler's record of what became of a job, which has the shape of a configuration."""

_NOTES = _PATTERNS["notes"]
_PERSON = _PATTERNS["person"]
_SAID = _PATTERNS["said"]
_TALK = _PATTERNS["talk"]


class _Shape(Struct, frozen=True):
    """What the lines of such a text look like: ``telling`` ones occur in nothing else, ``fitting`` ones may."""

    kind: SourceKind
    names: lazy[str]
    telling: lazy[str]
    fitting: lazy[str]
    least: int = 3
    share: float = 0.6


_SHAPE_PATTERNS = ("names", "telling", "fitting")
_SHAPES = tuple(
    _Shape(**row | {"kind": SourceKind(row["kind"])} | {part: _TABLE.pattern(row[part]) for part in _SHAPE_PATTERNS})
    for row in _TABLE.data["shapes"]
)


def kind_of_text(head: bytes, name: str, *, is_json: bool) -> SourceKind | None:
    """The kind of a text that a person wrote; None for output of the job or its machines."""
    sample = head[:LOOKED_AT]
    if b"\0" in sample or not sample.strip() or any(word in head for word in _RECORDED):
        return None
    whole_lines = first_lines(head)
    if kind := kind_of_bystander(head, whole_lines, is_json=is_json, is_whole=len(head) < HEAD):
        return kind
    if is_json:
        inside = _text_inside(head)
        return _kind_of_json(head, name) or (kind_of_text(inside, name, is_json=False) if inside else None)
    lines = [line[:LONGEST] for line in whole_lines]
    plain = _outside_blocks(lines)
    is_output_name = _OUTPUT_NAMES.search(name) is not None
    if is_output_name and any(map(_PRINTED.match, plain)):
        return None
    if not is_output_name and _is_chat(lines, name):
        return SourceKind.CHAT
    printed = count_matches(_PRINTED, plain)
    named = None if is_output_name else next((shape for shape in _SHAPES if shape.names.search(name)), None)
    if named is not None and (
        printed <= MOST_QUOTED * len(plain) or count_matches(named.telling, lines) >= named.least
    ):
        return named.kind
    if printed > MOST_LOGGED * len(plain):
        return None
    if any(map(_STACK.match, plain)) and not _is_prose(plain, name):
        return None
    found = next((shape.kind for shape in _SHAPES if _has_shape(shape, lines, plain)), None)
    return found or (SourceKind.NOTES if not is_output_name and _is_prose(plain, name) else None)


def _has_shape(shape: _Shape, lines: list[str], plain: list[str]) -> bool:
    """True where enough lines are telling, and most fit."""
    if count_matches(shape.telling, lines) < shape.least:
        return False
    if shape.kind is not SourceKind.NOTES:
        return count_matches(shape.fitting, lines) >= shape.share * len(lines)
    fit = sum(shape.fitting.match(line) is not None or _SENTENCE.search(line) is not None for line in plain)
    return fit >= shape.share * len(plain)


def _outside_blocks(lines: list[str]) -> list[str]:
    """The lines outside blocks fenced by three backticks: what a person pastes is no word of theirs."""
    if "```" not in "\n".join(lines):
        return lines
    outside, fenced = [], False
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
            outside.append(line)
        elif not fenced:
            outside.append(line)
    return outside


def _is_prose(lines: list[str], name: str) -> bool:
    """True for sentences of a person: most lines read as such, and two or more say *we*, *I* or *you*."""
    is_named = _NOTES.search(name) is not None
    sentences = [line for line in lines if _SENTENCE.search(line)]
    persons = sum(_PERSON.search(line) is not None for line in sentences)
    return persons >= (0 if is_named else 2) and len(sentences) >= (0.3 if is_named else 0.6) * len(lines)


def _is_chat(lines: list[str], name: str) -> bool:
    """True where two or more people talk in turns: a time, a name, and what nobody logs."""
    said = [hit for line in lines if (hit := _SAID.match(line))]
    names = {(hit["name"] or hit["before"]).lower() for hit in said}
    if not 2 <= len(names) <= 30:
        return False
    is_named = re.search(r"chat|slack|discord|teams|irc|thread|conversation", name, re.I) is not None
    talk = sum(_TALK.search(line[-200:]) is not None or _PERSON.search(line) is not None for line in lines)
    needed = 1 if is_named else max(2, len(lines) // 4)
    is_in_turns = (
        len(said) >= (0.3 if is_named else 0.4) * len(lines) or sum(hit["alone"] is not None for hit in said) > 1
    )
    return is_in_turns and talk >= needed


_SETTINGS_KEYS = lazy(
    rb"\"(?:zero_optimization|train_batch_size|train_micro_batch_size_per_gpu|gradient_accumulation_steps|model_type|hidden_size"
    rb"|num_hidden_layers|num_attention_heads|architectures|learning_rate|optimizer|_name_or_path|scripts|dependencies|\$schema)\"\s*:"
)


def _kind_of_json(head: bytes, name: str) -> SourceKind | None:
    """A notebook, a dashboard, an exported chat or a configuration, by their keys; any other JSON may be output."""
    if b'"cell_type"' in head and b'"cells"' in head:
        return SourceKind.NOTEBOOK
    if b'"panels"' in head and (b'"datasource"' in head or b'"schemaVersion"' in head or b'"gridPos"' in head):
        return SourceKind.DASHBOARD
    if b'"expr"' in head and b'"alert"' in head:
        return SourceKind.CONFIG
    if b'"ts"' in head and b'"user"' in head and b'"text"' in head and b'"type"' in head and b'"message"' in head:
        return SourceKind.CHAT
    first = head[:LOOKED_AT].lstrip().partition(b"\n")[0]
    if value_of_json(first) is not None:
        return None  # one document for each line: a log
    asked = 1 if re.search(r"config|settings|args|ds_|zero", name, re.I) else 2
    keys = {hit.group() for hit in _SETTINGS_KEYS.finditer(head)}
    return SourceKind.CONFIG if len(keys) >= asked else None


_ONE_TEXT = lazy(rb"\s{0,99}\{\s{0,99}\"\w{1,60}\"\s{0,9}:\s{0,9}\"(?P<text>(?:[^\"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*)")


def _text_inside(head: bytes) -> bytes:
    """The text of several lines that a document holds as its first value; empty where there is none."""
    found = _ONE_TEXT.match(head)
    if found is None or b"\\n" not in found["text"]:
        return b""
    return text_of_json(b'"' + found["text"] + b'"')
