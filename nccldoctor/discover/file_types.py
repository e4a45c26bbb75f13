"""Tells the kind and the compression of a file by its first bytes; names decide nothing here."""

from __future__ import annotations

import re

from nccldoctor.model import SourceKind
from nccldoctor.parsers.engine.encodings import head_as_utf8
from nccldoctor.parsers.flight_recorder.dump import is_json_dump, is_pickle
from nccldoctor.parsers.flight_recorder.other_recorders import is_other_recorder

_OWN = re.compile(
    rb'"tool"\s{0,9}:\s{0,9}\{\s{0,9}"name"\s{0,9}:\s{0,9}"nccldoctor"|<title>[^<>]{0,700} \xc2\xb7 nccldoctor</title>'
    rb"|\A(?:error|warning|ok)\[[a-z-]{3,20}\]: [^\n]{1,700}\n(?:[^\n]{0,300}\n){0,60}?(?:  = (?:when|class|job): |nccldoctor -v )"
    rb"|\A[^\n]{1,700}\n\n(?:- \*|\*|\xe2\x80\xa2) ?\*Class:\*\*? [`{]{1,2}[a-z-]{3,20}[`}]{1,2}\n"
)
"""The head of each form of our reports: JSON, page, terminal text, and the dialects of the ticket."""
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,512}(?:\{\s{0,99}[\"}]|\[\s{0,99}[\[{\"\]])")
_MAGIC = {
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zst",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
}
PART_HEAD = "nccldoctor-part.json"
"""The first member of a part, by which it is known."""

_BLOCK = 512
_TEXT_CONTROLS = bytes({7, 8, 9, 10, 11, 12, 13, 27})
_NO_TEXT = bytes(set(range(32)) - set(_TEXT_CONTROLS)) + b"\x7f"


def kind_of(head: bytes) -> SourceKind:
    """The kind of a file that begins with ``head``; kinds of text are told apart later, by their parsers."""
    if not head:
        return SourceKind.EMPTY
    if is_pickle(head) or is_json_dump(head) or is_other_recorder(head):
        return SourceKind.RECORDER
    if _is_binary(head):
        return SourceKind.UNKNOWN
    return SourceKind.JSON if _JSON.match(head) else SourceKind.LOG


def is_own_report(head: bytes) -> bool:
    """True for a report of this tool, which is no evidence of what happened."""
    begin = head_as_utf8(head[:8192])
    return b"nccldoctor" in begin and _OWN.search(begin) is not None


def is_part(head: bytes) -> bool:
    """True for a part: what ``nccldoctor reduce`` wrote."""
    return head.startswith(b"PK\x03\x04") and head[30 : 30 + len(PART_HEAD)] == PART_HEAD.encode()


def _is_binary(head: bytes) -> bool:
    """True with more than a tenth of bytes that no text has.

    UTF-16 is text: it has a byte-order mark, or zeros in every other place.
    """
    sample = head[:8192]
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    strange = len(sample) - len(sample.translate(None, _NO_TEXT))
    if not strange:
        return False
    zeros = max(sample[0::2].count(0), sample[1::2].count(0))
    if zeros * 10 > 4 * len(sample) and min(sample[0::2].count(0), sample[1::2].count(0)) * 50 < len(sample):
        return False
    return strange * 10 > len(sample) or (strange * 50 > len(sample) and not _is_utf8(sample))


def _is_utf8(sample: bytes) -> bool:
    try:
        sample[:-4].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def packing(head: bytes) -> str:
    """The packing of a file by its first bytes: gz, bz2, xz, zst, zip, tar, or "" for none."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    if head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F:
        return "zst"  # a skippable frame may stand first
    return "tar" if is_tar(head) else ""


def is_tar(head: bytes) -> bool:
    """True when the first block is a tar header with a correct checksum."""
    block = head[:_BLOCK]
    if len(block) < _BLOCK or not block[0]:
        return False
    stored = block[148:156].strip(b" \0")
    if not stored or len(stored) > 7 or stored.strip(b"01234567"):
        return False
    return int(stored, 8) == sum(block) - sum(block[148:156]) + 8 * 0x20
