"""The prefixes that launchers, collectors and terminals put before a line: torchrun, srun, mpirun, Ray, SkyPilot,
Kubernetes, Docker, pdsh, quotes and line numbers of viewers.

Sources: torch ``elastic/multiprocessing/tail_log.py`` (``[default3]:``), Open MPI ``--tag-output``, Ray
``_private/ray_logging``, kubectl ``logs --prefix``, stern's default template, the CRI logging format, ``srun --label``.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from nccldoctor.parsers.line_prefix.logger_prefixes import LEVELS, Form, Hypothesis, moment, number
from nccldoctor.patterns import lazy

STRONG = lazy(
    # what ordinary text does not begin with: in front of it even a weak label counts as one
    r"\s*(?:\[rank[ =:]?\d|\[default\d|\[[FEWIV](?:\d{3,4} \d\d:\d\d:|\s[A-Za-z_]\w{0,80}\.(?:cpp|hpp|cc|h|cu):\d)"
    r"|[VIWEFCD](?:\d{8}|\d{3,4}) \d\d:\d\d:\d\d\.|[A-Za-z0-9][\w.-]{0,62}:\d{1,10}:\d{1,10} \["
    r"|\(\w[\w.\[\]=-]{0,80},? (?:rank|pid)=\d"
    r"|Traceback \(most|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|frame #\d)"
)


def _role(draft: Hypothesis, m: re.Match[str]) -> None:
    """A template may put the global rank behind the local one."""
    draft.local_rank = int(m["local"])
    draft.process = m["role"] + m["local"]
    if m["rank"]:
        draft.rank = int(m["rank"])
        draft.process += f"|{m['rank']}"


def _rank(draft: Hypothesis, m: re.Match[str]) -> None:
    draft.rank = int(m["rank"])


def _rank_of_process(draft: Hypothesis, m: re.Match[str]) -> None:
    draft.rank, draft.pid = int(m["rank"]), int(m["pid"])


def _tagged(draft: Hypothesis, m: re.Match[str]) -> None:
    draft.rank = int(m["rank"])
    draft.process = f"mpi{m['rank']}"


def _pod(draft: Hypothesis, m: re.Match[str]) -> None:
    draft.pod = m["pod"]
    draft.places.append(f"{m['pod']}/{m['box']}")


def _worker(draft: Hypothesis, m: re.Match[str]) -> None:
    """Ray names a process; ``rank=`` in it is the actor's. SkyPilot's ``(worker1, rank=1, pid=9)`` counts nodes, and the
    process is the shell that started the launcher.
    """
    inside = m["inside"]
    pid = re.search(r"\bpid=(\d{1,10})", inside)
    rank = re.search(r"\brank=(\d{1,7})", inside)
    address = re.search(r"\bip=([\w.:-]{1,60})", inside)
    if address:
        draft.host = address[1]
    if re.match(r"(?:[\w.-]{1,60}, ){1,2}rank=", inside):
        draft.task = number(rank[1] if rank else None)
        draft.places.append(f"node{draft.task}")
    else:
        draft.pid = int(pid[1]) if pid else draft.pid
        draft.rank = int(rank[1]) if rank else draft.rank
        draft.process = inside


def _cri(draft: Hypothesis, m: re.Match[str]) -> None:
    year, month, day = (int(x) for x in m["date"].split("-"))
    draft.collected = moment(year, month, day, m["hms"], m["frac"], m["zone"])


def _nothing(draft: Hypothesis, m: re.Match[str]) -> None:
    """Quotes, boxes and stream names tell nothing about the writer."""


def _host(draft: Hypothesis, m: re.Match[str]) -> None:
    draft.host = m["host"]
    draft.places.append(m["host"])


def _task(draft: Hypothesis, m: re.Match[str]) -> None:
    draft.task = int(m["task"])
    draft.places.append(f"task{m['task']}")


def _nccl(draft: Hypothesis, m: re.Match[str]) -> None:
    """NCCL's own prefix stays in the body; it only says who writes."""
    draft.host, draft.pid = m["host"], int(m["pid"])
    draft.process = draft.process or f"{m['host']}:{m['pid']}"
    draft.message = True


RANK = Form(lazy(r"\[rank(?P<rank>\d{1,7})\]: ?"), _rank)
USER_RANK = Form(lazy(r"\[(?:rank|RANK)[ =:]{1,2}(?P<rank>\d{1,7})(?:/\d{1,7})?\][:,]? ?"), _rank)
PRINTED_RANK = Form(
    # DeepSpeed and user code mean the global rank; in messages about collectives it is the rank in a group
    lazy(
        r"\[Rank (?P<rank>\d{1,7})\]:? (?![^\n]{0,400}(?:CCL|ollective|atchdog|onitored|[Pp]rocess [Gg]roup"
        r"|communicator))"
    ),
    _rank,
)
BARE_RANK = Form(lazy(r"(?:rank|RANK)[ =:]?(?P<rank>\d{1,7})(?::\s|\s[|-]\s|[,]?\s(?=step|iter|epoch|loss))"), _rank)
ROLE = Form(lazy(r"\[(?!rank\d)(?P<role>[A-Za-z_][\w.-]{0,40}?)(?P<local>\d{1,4})(?:\|(?P<rank>\d{1,7}))?\]:"), _role)
ROLE_PATH = Form(lazy(r"(?P<role>[a-z_]\w{0,40}/\d{1,6}) \[(?P<local>\d{1,4})(?P<rank>(?!))?\]:"), _role)
TAGGED = Form(
    lazy(r"\[(?:\d{1,9},)?(?:mpirank:)?(?P<rank>\d{1,7})(?:,[\w-]{1,40})?\]<std(?:out|err|diag)>:\s?"), _tagged
)
POD = Form(lazy(r"\[pod/(?P<pod>[^/\]\s]{1,253})/(?P<box>[^\]\s]{1,253})\] ?"), _pod)
MOSAIC = Form(  # Composer's format: rank3[1234][MainThread]: INFO: composer.trainer:
    lazy(
        rf"rank(?P<rank>\d{{1,7}})\[(?P<pid>\d{{1,10}})\]\[[^\]\n]{{1,60}}\]: (?:{LEVELS}: )?(?:[a-z][\w.]{{0,60}}: )?"
    ),
    _rank_of_process,
)
STERN = Form(
    lazy(r"(?P<pod>[a-z0-9][a-z0-9.]{0,60}-[a-z0-9.-]{1,190}) [\u203a>]? ?(?P<box>[a-z][a-z0-9-]{0,62}) (?=\S)"),
    _pod,
)
WORKER = Form(
    lazy(r"\((?P<inside>\w[^()\n]{0,120}(?:\(rank=\d{1,7}\))?[^()\n]{0,40}\bpid=\d{1,10}[^()\n]{0,80})\) ?"),
    _worker,
)
CRI = Form(
    lazy(
        r"(?P<date>\d{4}-[01]\d-[0-3]\d)T(?P<hms>\d\d:\d\d:\d\d)(?:\.(?P<frac>\d{1,9}))?(?P<zone>Z"
        r"|[+-]\d\d:\d\d) std(?:out|err) [FP](?: |$)"
    ),
    _cri,
)
QUOTE = Form(lazy(r"[>`] ?(?=\S)|[|│┃║] {0,4}(?=\S)"), _nothing)
TAG = Form(lazy(r"\[[a-z_]\w{0,30}\] ?(?=\d{4}-\d\d-\d\d)"), _nothing)
STREAM = Form(lazy(r"\[std(?:out|err)\]:? ?|std(?:out|err): "), _nothing)
VIEWER = Form(lazy(r"\[\d{4,9}\] (?=\S| )|\d{1,9}\s{0,3}[|│] "), _nothing)
CLOCK = Form(lazy(r"\d\d:\d\d:\d\d[.,]\d{3,9} "), _nothing)
NODE = Form(lazy(r"(?P<host>(?:\d{1,3}\.){3}\d{1,3}|[A-Za-z][A-Za-z0-9.-]{0,60}\d[A-Za-z0-9.-]{0,20}): (?=\S)"), _host)
COMPOSE = Form(lazy(r"(?P<host>[a-z][\w.-]{0,60}[-_]\d{1,5})\s{1,20}\| ?"), _host)
LABEL = Form(lazy(r"(?P<task>\d{1,6}): "), _task)
NCCL = Form(lazy(r"(?P<host>[A-Za-z0-9][\w.-]{0,62}):(?P<pid>\d{1,10}):\d{1,10} \["), _nccl)

WEAK = frozenset(id(f) for f in (STERN, NODE, LABEL))
"""Forms that count only in front of :data:`STRONG`: alone they look like ordinary text."""

REPEATED = lazy(r" ?\[repeated (\d{1,9})x across cluster\](?: \(Ray deduplicates logs[^\n]{0,300}\))?\s*$")
"""Ray's note that more actors printed the same line."""

_MESSAGE_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE", "body")
_TIME_KEYS = ("time", "timestamp", "@timestamp", "ts", "asctime")


def unwrapped(raw: str) -> tuple[str, str]:
    """The message inside a JSON log line and its collector's time as text; the line itself and "" where it is none."""
    if not raw.startswith("{") or '"' not in raw[:3]:
        return raw, ""
    try:
        record: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return raw, ""
    text = (
        next((record[k] for k in _MESSAGE_KEYS if isinstance(record.get(k), str)), None)
        if isinstance(record, dict)
        else None
    )
    if text is None:
        return raw, ""
    when = next((record[k] for k in _TIME_KEYS if isinstance(record.get(k), str | int | float)), "")
    return text.rstrip("\n"), when if isinstance(when, str) else _spelled(when)


def _spelled(seconds: float) -> str:
    """A number of seconds, or milliseconds, since 1970 as a time; "" where it is none of these centuries."""
    seconds = seconds / 1000 if seconds > 1e11 else seconds
    return datetime.fromtimestamp(seconds, UTC).isoformat() if 1e9 <= seconds < 4e9 else ""
