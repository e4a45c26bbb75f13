"""The layouts of loggers: PyTorch's C++ and Python loggers, glog, Python's ``logging`` in its usual formats.

Layouts and eras of the c10 prefix: pytorch ``c10/util/Logging.cpp`` (v1.8 to v2.13); of the Python one:
``torch/_logging/_internal.py``.
"""

from __future__ import annotations

import re

from nccldoctor.parsers.line_prefix.engine_places import rank_in_engine
from nccldoctor.parsers.line_prefix.layouts import LEVELS, Layout, PartialMark, note_groups
from nccldoctor.parsers.line_prefix.timestamps import MONTHS, ZONES
from nccldoctor.patterns import lazy


def _note_padded(mark: PartialMark, m: re.Match[str]) -> None:
    """Python loggers print a process id where C++ glog prints a thread id."""
    pid = mark.pid
    note_groups(mark, m)
    if not m["file"].endswith(".py"):
        mark.pid = pid


def _note_place(mark: PartialMark, m: re.Match[str]) -> None:
    note_groups(mark, m)
    mark.rank = rank_in_engine(m["place"])
    mark.process = m["place"].strip()


def _note_sender(mark: PartialMark, m: re.Match[str]) -> None:
    """Of a host that is not known a message has a hyphen."""
    note_groups(mark, m)
    mark.host = mark.host if mark.host != "-" else None


_C_FILE = r"(?P<file>[A-Za-z_]\w{0,80}\.(?:cpp|hpp|h|cc|cu)):(?P<line>\d{1,6})\] ?"
_RANK = r"(?:\[rank(?P<rank>\d{1,7})[\[\]]{1,3}:\s?)?"  # two ranks' writes may be spliced: [rank3[]:[E508
_DATE = r"(?P<date>\d{4}[-/][01]\d[-/][0-3]\d)[T ](?P<hms>\d\d:\d\d:\d\d)(?:[.,](?P<frac>\d{1,9}))?"
_NAMES = "|".join(sorted(ZONES, key=len, reverse=True))
_ZONE = rf"(?: ?(?P<zone>[+-]\d\d:?\d\d|(?:{_NAMES})\b))?"
_UNNAMED_DATE = re.sub(r"\(\?P<\w+>", "(?:", _DATE + _ZONE)
_MON = rf"(?P<month>{'|'.join(MONTHS)})"
_NO_DAEMON = r"(?!kernel|systemd|slurm|kubelet|dockerd|containerd|nv|oom)"
"""What a daemon or the kernel says is known by its name, which stays."""
_SENDER = _NO_DAEMON + r"[A-Za-z_][\w./@-]{0,60}\[(?P<pid>\d{1,10})\]: "
"""The program that a journal names."""

NATIVE = Layout(
    lazy(_RANK + r"\[(?P<severity>[FEWIV])(?:(?P<date>\d{3,4}) (?P<hms>\d\d:\d\d:\d\d)\.\d{6,9})? " + _C_FILE),
    before_message=True,
)
HEADLESS = Layout(  # a copy that lost its first bracket
    lazy(_RANK + r"(?P<severity>[FEWIV])(?P<date>\d{3,4}) (?P<hms>\d\d:\d\d:\d\d)\.\d{6,9} " + _C_FILE),
    before_message=True,
)
PADDED = Layout(
    lazy(
        r"(?P<level>[VIWEFCD])(?P<date>\d{8}"
        r"|\d{4}) (?P<hms>\d\d:\d\d:\d\d)\.(?P<frac>\d{3,6}) +(?P<pid>\d{1,20})(?: +\d{1,20})? "
        r"(?P<file>[^\s:\]]{1,300}):(?P<line>\d{1,6})\] ?"
    ),
    _note_padded,
    before_message=True,
)
RAY_NATIVE = Layout(
    lazy(
        r"\["
        + _DATE
        + r"(?P<zone>Z)? (?P<severity>[DIWEFC]) (?P<pid>\d{1,10}) \d{1,10}\] (?:\(\w{1,40}\) )?[\w./]{1,80}\.cc:\d{1,6}: "
    ),
    before_message=True,
)
UCX = Layout(  # ucs/debug/log.c: the process and the thread that writes
    lazy(
        r"\[(?P<host>[A-Za-z0-9][\w.-]{0,62}):(?P<pid>\d{1,10}):[0-9a-f]{1,4}(?::\d{1,10})?\] {1,40}"
        r"(?=[a-z_]\w{1,60}\.cc?:\d|Caught signal )"
    )
)
STAMP = Layout(lazy(r"\[?" + _DATE + _ZONE + r"\]?(?=[\s,:|\[\]-]|$)[:,]? ?"))
SGLANG = Layout(  # the time, and the place of a scheduler among all of the engine
    lazy(r"\[" + _DATE + r"(?P<place>(?: (?:DP|TP|PP|EP|CP)\d{1,5}){1,5})\] ?"), _note_place
)
TENSORRT = Layout(
    lazy(
        r"\[(?P<month>[01]\d)/(?P<day>[0-3]\d)/(?P<year>\d{4})-(?P<hms>\d\d:\d\d:\d\d)\] \[TRT-LLM\]"
        r"(?: \[RANK (?P<rank>\d{1,7})\])? \[(?P<severity>[VIWEF])\] ?"
    ),
    before_message=True,
)
EPOCH = Layout(lazy(r"\[?(?P<seconds>1\d{9})(?=\.\d|\d{3}\D)\.?(?P<frac>\d{1,9})\]?:? "))
LEVEL_STAMP = Layout(  # Ray's and others' own loggers: the level, the time, the place
    lazy(
        rf"(?P<level>{LEVELS}):? {{1,4}}{_DATE}{_ZONE}(?=[\s,:|\]-])(?:[ ,]{{1,3}}[\w./-]{{1,120}}\.py:\d{{1,6}})?(?: --| -|:)?\s?"
    )
)
NEMO = Layout(lazy(rf"\[NeMo (?P<level>[IWED]) {_DATE}{_ZONE}[^\]\n]{{0,120}}\] ?"))
JOURNAL = Layout(  # journalctl -o short-full
    lazy(rf"[A-Z][a-z]{{2}} {_DATE}{_ZONE} (?P<host>[A-Za-z0-9][\w.-]{{0,62}}) (?:{_SENDER}|(?=\w))")
)
CALENDAR = Layout(  # date(1), as scripts print it
    lazy(
        rf"[A-Z][a-z]{{2}} {_MON} +(?P<day>\d{{1,2}}) (?P<hms>\d\d:\d\d:\d\d)(?: (?P<zone>{_NAMES}))? (?P<year>\d{{4}})(?::|,| -)? "
    )
)
COLON_LEVEL = Layout(lazy(rf"(?P<level>{LEVELS}):[\w.]{{1,120}}:"))
SHORT_DATE = Layout(
    lazy(
        rf"(?P<level>{LEVELS}) (?:(?P<year>\d{{4}})-)?(?P<month>[01]\d)-(?P<day>[0-3]\d) (?P<hms>\d\d:\d\d:\d\d) "
        r"\[?(?P<file>[\w./-]{1,120}\.py):(?P<line>\d{1,6})\] ?"
    )
)
AMERICAN = Layout(
    lazy(
        rf"(?P<month>[01]\d)/(?P<day>[0-3]\d)/(?P<year>\d{{4}}) (?P<hms>\d\d:\d\d:\d\d)"
        rf"(?: - (?P<level>{LEVELS}) - [\w.]{{1,80}} - )?\s?"
    )
)
HUGGING_FACE = Layout(lazy(rf"\[(?P<level>{LEVELS})\|[\w./<>-]{{1,120}}:\d{{1,6}}\] (?:{_UNNAMED_DATE} )?(?:>> )?"))
BARE_LEVEL = Layout(lazy(rf"\[(?P<level>{LEVELS})\](?: \[[\w./]{{1,80}}\.py:\d{{1,6}}(?::\w{{1,60}})?\])?:? ?"))
KERNEL_DATE = Layout(
    lazy(
        rf"\[[A-Z][a-z]{{2}} {_MON} +(?P<day>\d{{1,2}}) (?P<hms>\d\d:\d\d:\d\d)"
        r"(?:\.(?P<frac>\d{1,9}))? (?P<year>\d{4})\] ?"
    )
)
SYSLOG = Layout(
    lazy(
        rf"{_MON} +(?P<day>\d{{1,2}}) (?P<hms>\d\d:\d\d:\d\d)"
        rf"(?:\.(?P<frac>\d{{1,9}}))? (?P<host>[A-Za-z0-9][\w.-]{{0,62}}) (?:{_SENDER}|(?=\w))"
    )
)
SYSLOG_MESSAGE = Layout(  # RFC 5424: priority, version, time, host, program, process, id, data
    lazy(
        rf"<\d{{1,3}}>1 (?:{_DATE}{_ZONE}|-) (?P<host>[A-Za-z0-9][\w.-]{{0,62}}|-) {_NO_DAEMON}\S{{1,48}} "
        r"(?:(?P<pid>\d{1,10})|\S{1,128}) \S{1,32} (?:-|(?:\[[^\]\n]{0,400}\]){1,8}) ?(?:\ufeff|BOM)?"
    ),
    _note_sender,
)
PRIORITY = Layout(lazy(r"<\d{1,3}>(?=[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\[ {0,6}\d{1,9}\.\d{6}\])"))
"""What syslog puts in front of a line on the wire, and the kernel in front of its own (``dmesg --raw``)."""

HOST_SENDER = Layout(  # behind a time: journalctl -o short-iso
    lazy(rf"(?P<host>[A-Za-z0-9][\w.-]{{0,62}}) {_SENDER}")
)

TAILS = tuple(
    lazy(p)
    for p in (
        # what layouts put between the time and the message; names are looked at only where a level is near
        rf"\s*-\s*[\w./-]{{1,80}}\s*-\s*(?P<level>{LEVELS})\s*-\s?",
        rf"\s*-\s*(?P<level>{LEVELS})\s*-\s*[\w./-]{{1,80}}\s*-\s{{0,3}}",
        rf"\s*\|\s*(?P<level>{LEVELS})\s*\|[^|\n]{{1,120}}? - ",
        rf"\s*\|\s*(?P<level>{LEVELS})\s*\|\s*[\w.]{{1,80}}\s*\|\s?",
        rf"\s*[\w.]{{1,120}}:\s*\[(?P<level>{LEVELS})\]\s?",
        rf"\s*\[[\w./-]{{1,80}}\]\s*\[(?P<level>{LEVELS})\]\s*-?\s?",
        rf"\s*\[(?P<level>{LEVELS})\](?:\s*\[[\w./]{{1,80}}\.py:\d{{1,6}}(?::\w{{1,60}})?\])?:?\s*(?:-\s)?",
        rf"\s*-?\s*(?P<level>{LEVELS})\b(?:\s{{1,6}}[a-z_][\w.]{{0,60}}:(?=\s)|\s{{0,4}}[:-](?=\s))?\s?",
        r"\s*-\s(?P<level>(?!))?",
    )
)
"""Continuations behind :data:`STAMP`, the first that fits is taken."""
