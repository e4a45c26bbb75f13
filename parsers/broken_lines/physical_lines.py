"""The physical lines of a file that may be broken: who wrote them, and where their records begin and end."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from itertools import pairwise

from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.line_prefix.labels import has_labels
from nccldoctor.parsers.line_prefix.prefixes import can_continue, read_mark, split_label, with_label, without_codes
from nccldoctor.patterns import lazy

LONGEST = 4_000
"""Bytes of a line that is tried."""

_BEGINS = lazy(
    # what begins a record of its own and so ends the one before it
    r"\[(?:rank\d|[FEWIV](?:\d{3,4})? )|Traceback \(|frame #\d|#\d+ |terminate called|what\(\):|Exception raised from|MPI_ABORT was "
    r"|(?:[a-z]\w{0,40}\.){1,6}[A-Z]\w{0,60}(?:Error|Exception): |(?:free|\w{0,2}alloc|munmap_chunk)\(\): [a-z]|double free or |corrupted s"
    r"|\S+:\d+:\d+ \[\d+\] NCCL|\S+: Test (?:NCCL|CUDA) failure |(?:srun|slurmstepd|mpirun|mpiexec|systemd|ssh|docker): "
    r"|[\w./-]{1,80}: line \d{1,7}: |Fatal Python error: |nccl(?:[A-Z][a-z]{1,10}){1,3}: "  # a shell, about its child; CPython; NCCL
    r"|\[[\w.-]{1,63}:\d{1,10}:\d{1,4}:\d{1,10}\] |[\w-]{1,60}\.c:\d{1,6} {1,2}[A-Z]|E[A-Z]\d{4}: "  # UCX, CANN
    r"|kernel: |kern {1,4}:|\[ {0,8}\d{1,9}\.\d{6}\] |\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} "
    r"|\[?\d{4}[-/:]\d\d[-/:]\d\d[-T ]\d\d:|[VIWEF]\d{4} \d\d:\d\d|\[PG (?:ID )?\d|\[Rank \d+\] |\w+:\s+\d{1,3}%\||pure virtual "
)
_NATIVE = lazy(r"(?:^|: )[A-Za-z0-9][\w.-]{0,62}:\d{1,10}:-?\d{1,10} \[-?\d{1,5}\] ")
_QUOTE = lazy(r"[>|] ?")
_LOOKED_AT, _SOME = 400, 4  # lines by which it is judged where lines were broken, and how many must have been
_NARROW, _WIDE = 40, 220  # columns
_STUDIED = 64 << 10  # bytes by which a file is judged to carry labels
_SPOKE = lazy(r"([A-Za-z0-9][\w.-]{0,62}):\d{1,10}:-?\d{1,10} \[")
_SPEAKS = lazy(rb"(?<![\w.-])([A-Za-z0-9][\w.-]{0,62}):\d{1,10}:-?\d{1,10} \[")
STUB = lazy(
    r"[A-Za-z0-9][\w.-]{0,62}(?::\d{0,10}){0,2}(?: (?:\[-?\d{0,5}(?:\] ?[\w./+-]{0,120}(?::\d{0,6})?(?: N?C?C?L?)?)?)?)?"
)
"""The beginning of NCCL's own prefix, cut."""

_LABEL = lazy(
    r"\[default\d|\[rank\d|\[pod/|\([\w.]{1,80}[ [(]|\d{4}-\d\d-\d\d[T ]\d\d:|\[\d{4}-\d\d|\s{0,6}\d{1,6}: "
    r"|[\w.-]{1,63}: \S"
)
"""What collectors and launchers put in front of every line of a merged log."""

_OUTER_PATTERN = (
    r"(?:\[[A-Za-z_][\w.-]{0,40}?\d{1,4}\]:|\[pod/[^\]\n]{1,300}\] |\([^()\n]{1,120}\bpid=\d{1,10}[^()\n]{0,80}\) "
    r"|\s{0,6}\d{1,6}: |\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) |std(?:out|err) [FP] ){1,6}"
)
_OUTER = lazy(_OUTER_PATTERN)
"""The same as far as it stands in front of a piece that begins nothing: what is behind it goes on with the record."""

LABEL_OF_PIECE = lazy(_OUTER_PATTERN.encode())
"""The same in the bytes of a file."""

_FRAME = lazy(r'File "[^"\n]{1,400}", line \d{1,7},? in \S{1,200}')
_HEADER = "Traceback (most recent call last):"
"""Some loggers print it behind a message of theirs."""

_WRITER = lazy(r"\[rank\d{1,7}\]:")
_HEAD = lazy(r"\w\.(?:cpp|hpp|h|cc|cu):\d{1,6}\](?: |$)")
"""The end of the prefix of c10."""

_NCCL = lazy(r"NCCL (?:INFO|WARN|ATTN|DIAG|TRACE) ")
_NAMED = ("[PG ", "] [Rank ")
"""What messages of c10 begin with, should the prefix be lost."""


def count_records(text: str) -> int:
    """The number of records in a text, by the prefixes of their writers."""
    has_nccl_prefix = len(_HEAD.findall(text)) or any(name in text for name in _NAMED)
    return has_nccl_prefix + len(_NCCL.findall(text))


def is_record_head(text: str) -> bool:
    """True when a text begins a record of a logger, launcher, kernel or NCCL."""
    return bool(_NATIVE.search(text[:160])) or bool(_BEGINS.match(text.lstrip(" \t>|`")))


class Lines:
    """The physical lines of a file, and what stands in front of each."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.rows = content.split(b"\n")
        self.quoted = content.startswith((b"> ", b"| ")) and content.count(b"\n" + content[:2]) >= len(self.rows) - 3
        """True when every line stands in a quotation."""
        self._marks: dict[int, tuple[str, Mark, str]] = {}

    @cached_property
    def is_labelled(self) -> bool:
        """True when ``srun --label`` or pdsh wrote a label in front of every line."""
        return has_labels(self.content[:_STUDIED])

    def __len__(self) -> int:
        return len(self.rows)

    def raw(self, number: int) -> bytes:
        """Line ``number`` (from 0) without its end."""
        return self.rows[number].rstrip(b"\r")

    def split_line(self, number: int) -> tuple[str, Mark, str]:
        """The text, its mark, and what stands behind the mark."""
        known = self._marks.get(number)
        if known is None:
            text = self._plain_line(number)
            label, rest = split_label(text) if self.is_labelled else (None, text)
            mark, body = read_mark(rest)
            known = self._marks[number] = (text, with_label(mark, label) if label is not None else mark, body)
        return known

    def _plain_line(self, number: int) -> str:
        text = without_codes(self.raw(number)[:LONGEST].decode("utf-8", "backslashreplace"))
        return _QUOTE.sub("", text, count=1) if self.quoted else text

    def is_unlabelled(self, number: int, head: int) -> bool:
        """True when a line has no label although ``head`` has one: then what looks like a label is text."""
        return bool(_LABEL.match(self.split_line(head)[0])) and not _LABEL.match(self.split_line(number)[0])

    def has_owner(self, number: int) -> bool:
        """True when a line names its writer, or begins a record. A piece that does neither ends where others write."""
        return bool(_LABEL.match(self.split_line(number)[0])) or self.is_beginning(number)

    def ways(self, text: str, number: int, head: int) -> list[tuple[str, str]]:
        """The ways to join ``text`` and line ``number``: what is kept of the text, and what is added.

        The text begins on line ``head``. The likelier way comes first.

        A terminal breaks inside words and nothing is lost (``Num`` / ``elOut``). An editor breaks at a blank, which is
        lost, and may indent the next line (``last completed`` / ``   NCCL work: 3``).
        """
        added = self._behind(number, head)
        spaced = text.rstrip(" "), " " + added.lstrip()
        if self.was_broken_at_blanks:
            return [spaced]
        is_wrapped = _NARROW <= len(self.raw(number - 1)) <= _WIDE
        return [(text, added), spaced] if is_wrapped else [(text, added)]

    def _behind(self, number: int, head: int) -> str:
        text, mark, body = self.split_line(number)
        if not mark.stream or self.is_unlabelled(number, head):
            return text
        if self.is_labelled:
            one, text = split_label(text)
            if one is not None and one == split_label(self.split_line(head)[0])[0]:
                return body if _WRITER.match(text) else text
        label, other = _OUTER.match(text), _OUTER.match(self.split_line(head)[0])
        if label is None or other is None:
            return body
        inner = text[label.end() :]
        return body if _WRITER.match(inner) else inner

    def _after_break(self, number: int, head: int) -> str:
        return "".join(self.ways("", number, head)[0])

    def can_share_writer(self, number: int, head: int) -> bool:
        """True when a line may come from the writer of ``head``: by its label, or because it has none."""
        mine, other = self.split_line(head)[1].stream, self.split_line(number)[1].stream
        if can_continue(other, mine) or self.is_unlabelled(number, head):
            return True
        # perhaps only the rest names the process
        return bool(mine) and can_continue(mine, other) and self.is_cut_in_prefix(head, number)

    def is_complete(self, number: int) -> bool:
        """True when no record can go on behind a line: an empty one, a frame, the head of a traceback."""
        body = self.split_line(number)[2].strip()
        return not self.raw(number) or _FRAME.fullmatch(body) is not None or body.endswith(_HEADER)

    def is_beginning(self, number: int) -> bool:
        """True when a line begins a record of its own."""
        text, mark, body = self.split_line(number)
        known = mark.severity is not None and (mark.file is not None or mark.time is not None)
        body = text if mark.file is not None and not known else body  # the rest of a prefix that was cut, no beginning
        return known or is_record_head(body)

    def can_open(self, head: int, number: int) -> bool:
        """True when ``head`` begins a record that line ``number`` may continue."""
        return self.is_beginning(head) or self.is_cut_in_prefix(head, number)

    def has_nccl_prefix(self, head: int) -> bool:
        """True when a line begins with NCCL's own prefix: its host and process hold for the rest."""
        return bool(_NATIVE.match(self.split_line(head)[2][:160]))

    def is_cut_in_prefix(self, head: int, number: int) -> bool:
        """True when ``head`` ends inside the prefix of a logger: what looks like a beginning then continues it."""
        first, mark, body = self.split_line(head)
        if not body.strip():
            return True
        if mark.file is not None:
            return False
        if STUB.fullmatch(body):
            return self._is_one_host(body, self._after_break(number, head))
        opened = first.rfind("[")
        if opened <= first.rfind("]") or len(first) - opened >= 60:
            return False
        rest = self._after_break(number, head)
        closed = rest.find("]")
        return closed >= 0 and "[" not in rest[:closed]

    def _is_one_host(self, stub: str, rest: str) -> bool:
        """True when the cut beginning of a host's name belongs to the rest.

        It does not where the rest alone is a name like those of other hosts: ``node1`` / ``node2:17:18 [0]``.
        """
        whole, alone = _SPOKE.match(stub + rest), _SPOKE.match(rest)
        if whole is None or alone is None:
            return True
        return self._hosts[_host_shape(alone[1])] <= max(1, self._hosts[_host_shape(whole[1])])

    @cached_property
    def was_broken_at_blanks(self) -> bool:
        """True when an editor broke the lines at blanks: none was full, and none had room for the next word."""
        count = min(len(self), _LOOKED_AT)
        is_plain = self.content.isascii() and b"\x1b" not in self.content
        if max(map(len, self.rows[:count]), default=0) >= (_WIDE + 4 if is_plain else 4 * _WIDE):
            return False
        lines = [self._plain_line(n) for n in range(count)]
        width = max(map(len, lines), default=0)
        if not _NARROW <= width <= _WIDE:
            return False
        broken = [
            (a, b.strip()) for a, b in pairwise(lines) if b.strip() and not _LABEL.match(b) and len(a) > 0.6 * width
        ]
        room = sum(len(a) + 1 + len(b.split(" ", 1)[0]) <= width for a, b in broken)
        return (
            len(broken) >= _SOME
            and room <= len(broken) / 10
            and sum(len(a) == width for a, _ in broken) < len(broken) / 2
        )

    @cached_property
    def _hosts(self) -> Counter[str]:
        """The number of lines by the shapes of the hosts' names that they carry."""
        return Counter(_host_shape(m[1].decode()) for m in _SPEAKS.finditer(self.content))


def _host_shape(host: str) -> str:
    return re.sub(r"\d+", "#", host)
