"""The layouts of launchers, collectors and terminals.

torchrun, srun, mpirun, Ray, SkyPilot, Kubernetes, Docker, pdsh, quotes and line numbers of viewers.
Sources: torch ``elastic/multiprocessing/tail_log.py`` (``[default3]:``), Open MPI ``--tag-output``, Ray
``_private/ray_logging``, kubectl ``logs --prefix``, stern's default template, the CRI logging format, ``srun --label``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from nccldoctor.parsers.line_prefix.engine_places import rank_in_engine
from nccldoctor.parsers.line_prefix.layouts import LEVELS, Layout, PartialMark, note_groups
from nccldoctor.parsers.line_prefix.timestamps import printed_time, time_since_1970
from nccldoctor.patterns import lazy

STRONG = lazy(
    # what ordinary text does not begin with: in front of it even a weak label counts as one
    r"\s*(?:\[rank[ =:]?\d|\[default\d|\[[FEWIV](?:\d{3,4} \d\d:\d\d:|\s[A-Za-z_]\w{0,80}\.(?:cpp|hpp|cc|h|cu):\d)"
    r"|[VIWEFCD](?:\d{8}|\d{3,4}) \d\d:\d\d:\d\d\.|[A-Za-z0-9][\w.-]{0,62}:\d{1,10}:\d{1,10} \["
    r"|\(\w[\w.\[\]=-]{0,80},? (?:rank|pid)=\d"
    r"|Traceback \(most|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d|frame #\d|\{'\w{0,20}loss': )"
)


def _note_role(mark: PartialMark, m: re.Match[str]) -> None:
    """A template may put the global rank behind the local one."""
    note_groups(mark, m)
    mark.process = m["role"] + m["local_rank"] + (f"|{m['rank']}" if m["rank"] else "")


def _note_tagged(mark: PartialMark, m: re.Match[str]) -> None:
    note_groups(mark, m)
    mark.process = f"mpi{m['rank']}"


def _note_pod(mark: PartialMark, m: re.Match[str]) -> None:
    mark.pod = m["pod"]
    mark.places.append(f"{m['pod']}/{m['box']}")


def _note_worker(mark: PartialMark, m: re.Match[str]) -> None:
    """Ray names a process; ``rank=`` in it is the actor's. SkyPilot's ``(worker1, rank=1, pid=9)`` counts nodes, and the
    process is the shell that started the launcher.
    """
    inside = m["inside"]
    pid = re.search(r"\bpid=(\d{1,10})", inside)
    rank = re.search(r"\brank=(\d{1,7})", inside)
    address = re.search(r"\bip=([\w.:-]{1,60})", inside)
    if address:
        mark.host = address[1]
    if re.match(r"(?:[\w.-]{1,60}, ){1,2}rank=", inside):
        mark.task = int(rank[1]) if rank else None
        mark.places.append(f"node{mark.task}")
    else:
        mark.pid = int(pid[1]) if pid else mark.pid
        mark.rank = int(rank[1]) if rank else rank_in_engine(inside) if inside.startswith(_OF_VLLM) else mark.rank
        mark.process = mark.actor = inside


_OF_VLLM = ("Worker_", "VllmWorker ")
_ACTOR = lazy(r"(?P<kind>[A-Za-z_.:]{1,60}).{0,200}?\bpid=(?P<pid>\d{1,10})")


def actor_of(label: str) -> tuple[str, int] | None:
    """Kind and process id of an actor of Ray: ``PolicyModelActor`` and 101 in ``PolicyModelActor pid=101, ip=10.0.0.1``.

    The kind is the class or function that the process runs, without the numbers that tell processes apart.
    """
    m = _ACTOR.match(label)
    return (m["kind"], int(m["pid"])) if m is not None else None


def _note_cri(mark: PartialMark, m: re.Match[str]) -> None:
    mark.collected = printed_time(m.groupdict())


def _note_labels(mark: PartialMark, m: re.Match[str]) -> None:
    labels = dict(re.findall(r'(\w{1,60})="([^"]{0,200})"', m[0]))
    mark.pod = labels.get("pod") or mark.pod
    mark.host = labels.get("node_name") or labels.get("node") or labels.get("hostname") or mark.host
    place = "/".join(filter(None, (labels.get("pod") or labels.get("hostname"), labels.get("container"))))
    mark.places += [place] if place else []


def _note_host(mark: PartialMark, m: re.Match[str]) -> None:
    note_groups(mark, m)
    mark.places.append(m["host"])


def _note_task(mark: PartialMark, m: re.Match[str]) -> None:
    note_groups(mark, m)
    mark.places.append(f"task{m['task']}")


def _note_nccl(mark: PartialMark, m: re.Match[str]) -> None:
    """NCCL's own prefix stays in the body; it only says who writes."""
    note_groups(mark, m)
    mark.process = mark.process or f"{m['host']}:{m['pid']}"


RANK = Layout(lazy(r"\[rank(?P<rank>\d{1,7})\]: ?"))
USER_RANK = Layout(lazy(r"\[(?:rank|RANK)[ =:]{1,2}(?P<rank>\d{1,7})(?:/\d{1,7})?\][:,]? ?"))
PRINTED_RANK = Layout(
    # DeepSpeed and user code mean the global rank; in messages about collectives it is the rank in a group
    lazy(
        r"\[Rank (?P<rank>\d{1,7})\]:? (?![^\n]{0,400}(?:CCL|ollective|atchdog|onitored|[Pp]rocess [Gg]roup"
        r"|communicator))"
    )
)
BARE_RANK = Layout(lazy(r"(?:rank|RANK)[ =:]?(?P<rank>\d{1,7})(?::\s|\s[|-]\s|[,]?\s(?=step|iter|epoch|loss))"))
ROLE = Layout(
    lazy(r"\[(?!rank\d)(?P<role>[A-Za-z_][\w.-]{0,40}?)(?P<local_rank>\d{1,4})(?:\|(?P<rank>\d{1,7}))?\]:"), _note_role
)
ROLE_PATH = Layout(lazy(r"(?P<role>[a-z_]\w{0,40}/\d{1,6}) \[(?P<local_rank>\d{1,4})(?P<rank>(?!))?\]:"), _note_role)
TAGGED = Layout(  # PRRTE may name the job, and the host and the process behind the rank: tag-fullname, tag-detailed
    lazy(
        r"\[(?:[\w.@-]{1,200},)?(?:mpirank:)?(?P<rank>\d{1,7})(?:,[\w-]{1,40})?\]"
        r"(?:\[(?!unknown)(?P<host>[A-Za-z0-9][\w.-]{0,62}):(?P<pid>\d{1,10})\]|\[unknown:\w{1,10}\])?<std(?:out|err|diag)>:\s?"
    ),
    _note_tagged,
)
POD = Layout(lazy(r"\[pod/(?P<pod>[^/\]\s]{1,253})/(?P<box>[^\]\s]{1,253})\] ?"), _note_pod)
MOSAIC = Layout(  # Composer's format: rank3[1234][MainThread]: INFO: composer.trainer:
    lazy(
        rf"rank(?P<rank>\d{{1,7}})\[(?P<pid>\d{{1,10}})\]\[[^\]\n]{{1,60}}\]: (?:{LEVELS}: )?(?:[a-z][\w.]{{0,60}}: )?"
    )
)
STERN = Layout(
    lazy(r"(?P<pod>[a-z0-9][a-z0-9.]{0,60}-[a-z0-9.-]{1,190}) [\u203a>]? ?(?P<box>[a-z][a-z0-9-]{0,62}) (?=\S)"),
    _note_pod,
    weak=True,
)
WORKER = Layout(
    lazy(r"\((?P<inside>(?:\w[^()\n]{0,120}(?:\(rank=\d{1,7}\))?[^()\n]{0,40})?\bpid=\d{1,10}[^()\n]{0,80})\) ?"),
    _note_worker,
)
CRI = Layout(
    lazy(
        r"(?P<date>\d{4}-[01]\d-[0-3]\d)T(?P<hms>\d\d:\d\d:\d\d)(?:\.(?P<frac>\d{1,9}))?(?P<zone>Z"
        r"|[+-]\d\d:\d\d) std(?:out|err) [FP](?: |$)"
    ),
    _note_cri,
)
LABELS = Layout(lazy(r'\{(?:[A-Za-z_]\w{0,60}="[^"\n]{0,200}"(?:, )?){1,40}\} '), _note_labels)
"""The labels of Loki in front of a line, as ``logcli`` prints them."""

QUOTE = Layout(lazy(r"[>`] ?(?=\S)|[|│┃║] {0,4}(?=\S)"))
TAG = Layout(lazy(r"\[[a-z_]\w{0,30}\] ?(?=\d{4}-\d\d-\d\d)"))
STREAM = Layout(lazy(r"\[std(?:out|err)\]:? ?|std(?:out|err): "))
VIEWER = Layout(lazy(r"\[\d{4,9}\] (?=\S| )|\d{1,9}\s{0,3}[|│] "))
CLOCK = Layout(lazy(r"\d\d:\d\d:\d\d[.,]\d{3,9} "))
NODE = Layout(
    lazy(r"(?P<host>(?:\d{1,3}\.){3}\d{1,3}|[A-Za-z][A-Za-z0-9.-]{0,60}\d[A-Za-z0-9.-]{0,20}): (?=\S)"),
    _note_host,
    weak=True,
)
COMPOSE = Layout(lazy(r"(?P<host>[a-z][\w.-]{0,60}[-_]\d{1,5})\s{1,20}\| ?"), _note_host)
LABEL = Layout(lazy(r"(?P<task>\d{1,6}): "), _note_task, weak=True)
NCCL = Layout(lazy(r"(?P<host>[A-Za-z0-9][\w.-]{0,62}):(?P<pid>\d{1,10}):\d{1,10} \["), _note_nccl, before_message=True)

REPEATED = lazy(r" ?\[repeated (\d{1,9})x across cluster\](?: \(Ray deduplicates logs[^\n]{0,300}\))?\s*$")
"""Ray's note that more actors printed the same line."""

_MESSAGE_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE", "body")
_TIME_KEYS = ("time", "timestamp", "@timestamp", "ts", "asctime")
_RANK_KEYS = ("rank", "global_rank", "RANK")


def unwrapped(raw: str) -> tuple[str, str]:
    """The message inside a JSON log line, and its collector's time as text.

    A rank that a field of the record names becomes the label of the message: ``[rank3]: …``. A line that is no JSON object with a
    message is given back itself, with "".
    """
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
    rank = next((str(record[k]) for k in _RANK_KEYS if type(record.get(k)) in (int, str)), "")
    if rank.isdecimal() and len(rank) < 8 and not text.startswith("[rank"):
        text = f"[rank{rank}]: {text}"
    return text.rstrip("\n"), when if isinstance(when, str) else time_since_1970(when)
