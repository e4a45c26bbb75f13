"""The forms in which a line sets variables of the environment: assignments of shells, options of launchers, Python,
mappings.

Each form is tied to the shape of its line, so that advice in prose is not taken for a setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nccldoctor.parsers.base import Line
from nccldoctor.patterns import lazy

_NAME = (
    r"(?:(?:NCCL|TORCH|TORCHELASTIC|GLOO|CUDA|FI|UCX|RCCL|OFI_NCCL|MASTER|SHARP_COLL|NVSHMEM)_[A-Z0-9_]{1,80}"
    r"|WORLD_SIZE|LOCAL_WORLD_SIZE|RANK|LOCAL_RANK|NODE_RANK|GROUP_RANK|TP_SOCKET_IFNAME"
    r"|PYTORCH(?:_CUDA)?_ALLOC_CONF|DEEPSPEED_TIMEOUT"
    r"|(?:TORCH_)?ENABLE_NCCL_HEALTH_CHECK|OMP_NUM_THREADS|TOKENIZERS_PARALLELISM"
    r"|TORCHINDUCTOR_[A-Z0-9_]{1,60}|TRITON_CACHE_DIR|SLURM_(?:JOB|STEP)_ID)"
)
_QUOTED = r"\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'"

MOST = 400
"""Variables taken from one line, such as a printed ``os.environ``."""

_SCRIPT_COMMENTS = ("#SBATCH", "#PBS", "#BSUB", "#$ ", "#FLUX")
_PROSE = {
    "please",
    "try",
    "consider",
    "setting",
    "set",
    "use",
    "using",
    "with",
    "run",
    "add",
    "recommend",
    "and",
    "or",
    "to",
    "by",
}
_COMMANDS = lazy(
    r"(?:sudo |exec |time |nohup |numactl |nsys"
    r" )?(?:torchrun|python[\d.]{0,5}|srun|mpirun|mpiexec|accelerate|deepspeed|bash|sh|uv|poetry|pdsh|ray"
    r"|docker|\S{0,200}/\S|\S{1,80}\.(?:sh|py)\b)"
)
_ASSIGNMENT = lazy(rf"(?P<name>{_NAME})=(?P<value>{_QUOTED}|[^\s;&|\"'`()<>]{{0,400}})")
_LEAD = lazy(
    r"\s{0,80}(?:(?:\+{1,4}|\$|>|-) ){0,2}(?P<word>(?:export|declare -x|typeset -x|readonly|set -gx|ENV|env|sudo"
    r" -E|setenv|set) {1,8}|Environment=\"?)?"
)
"""What may stand before assignments that begin a line."""

_FLAGGED = lazy(
    rf"(?:(?<![\w`-])export {{1,4}}|(?<!\S)(?:--env|--setenv|--container-env|-genv|-e|-x)[ =][\"']?)(?={_NAME}=)"
)
_EXPORTED = lazy(r"--export[= ](?P<list>\S{1,4000})")
_PYTHON = lazy(
    rf"(?:environ(?:\[ ?|\.setdefault\( ?)|(?:put|set)env\( ?)[\"'](?P<name>{_NAME})[\"'] ?(?:\] ?=(?!=)|,)"
    rf" ?(?P<value>{_QUOTED}|[^\n#]{{1,120}})"
)
_MAPPING = lazy(
    rf"[\"'](?P<name>{_NAME})[\"'] ?: ?(?P<value>{_QUOTED}|[\w.:/+^=-]{{1,200}})"
    rf"|[\"']?name[\"']?: ?[\"'](?P<name2>{_NAME})[\"'], ?[\"']?value[\"']?: ?(?P<value2>{_QUOTED})"
)
_YAML = lazy(
    rf"^\s{{0,80}}(?:- )?(?P<name>{_NAME}):"
    rf" {{1,40}}(?P<value>{_QUOTED}|[^\s\"'#][^\s#]{{0,300}})\s{{0,40}}(?:#.{{0,200}})?$"
)
_NAMED = lazy(rf"^\s{{0,80}}(?:- )?name: ?[\"']?(?P<name>{_NAME})[\"']?\s{{0,40}}$")
_VALUE = lazy(rf"^\s{{0,80}}value: ?(?P<value>{_QUOTED}|[^\s\"'][^\n]{{0,300}})")
_SPACED = lazy(rf"^\s{{0,80}}(?:ENV|setenv) {{1,8}}(?P<name>{_NAME}) {{1,8}}(?P<value>[^\s=][^\n]{{0,300}})$")
_LISTED = lazy(rf"(?P<name>{_NAME}): (?P<value>[^,\n]{{0,120}})(?:,|$)")
_DEPRECATED = lazy(rf"Environment variable (?P<name>{_NAME}) is deprecated; use")


NEEDS = (_ASSIGNMENT, _PYTHON, _MAPPING, _LISTED, _YAML, _SPACED, _DEPRECATED, _NAMED)
"""Patterns of which one matches each line that sets a variable."""


def assignments(line: Line) -> Iterator[tuple[str, str]]:
    """Names and values as written, in no particular order and perhaps twice; comments of scripts are passed over."""
    body = line.body
    if body.lstrip().startswith("#") and not body.lstrip().startswith(_SCRIPT_COMMENTS):
        return
    yield from _leading(body)
    for flag in _FLAGGED.finditer(body):
        if flag[0][0] != "e" or _last_word(body[: flag.start()]) not in _PROSE:
            yield from _run(body, flag.end())[0]
    if "--export" in body and (hit := _EXPORTED.search(body)):
        for part in hit["list"].split(","):
            if assigned := _ASSIGNMENT.match(part.strip("\"'")):
                yield assigned["name"], assigned["value"]
    if "env" in body and (hit := _PYTHON.search(body)):
        yield hit["name"], _to_closing_bracket(hit["value"])
    for pair in _MAPPING.finditer(body):
        yield pair["name"] or pair["name2"], pair["value"] or pair["value2"]
    if "environments:" in body:
        yield from ((hit["name"], hit["value"]) for hit in _LISTED.finditer(body))
    for pattern in (_YAML, _SPACED, _DEPRECATED):
        if hit := pattern.search(body[:1200]):
            yield hit["name"], hit.groupdict().get("value") or ""
    if (hit := _NAMED.search(body[:400])) and (value := _first_value(line.following(2))):
        yield hit["name"], value


def _leading(body: str) -> Iterable[tuple[str, str]]:
    """Assignments that begin the line and are followed by nothing, a comment, or a command."""
    lead = _LEAD.match(body)
    start = lead.end() if lead else 0
    pairs, end = _run(body, start)
    rest = body[end : end + 400].strip().strip('"')
    command = not rest or rest[0] in "#;&|\\" or _COMMANDS.match(rest) is not None
    if not pairs or not ((lead is not None and lead["word"]) or command):
        return ()
    return () if not rest and pairs[-1][1].endswith((".", ",")) else pairs


def _run(body: str, at: int) -> tuple[list[tuple[str, str]], int]:
    """Assignments one after the other from ``at`` on, and where they end."""
    pairs: list[tuple[str, str]] = []
    while len(pairs) < MOST and (hit := _ASSIGNMENT.match(body, at)):
        pairs.append((hit["name"], hit["value"]))
        at = hit.end()
        while at < len(body) and body[at] in " \t":
            at += 1
    return pairs, at


def _last_word(text: str) -> str:
    words = text[-40:].lower().replace("`", " ").split()
    return words[-1] if words else ""


def _to_closing_bracket(value: str) -> str:
    """A Python expression up to the bracket that closes the call around it."""
    if value[:1] in "\"'":
        return value
    depth = 0
    for at, char in enumerate(value):
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            return value[:at]
    return value


def _first_value(lines: Iterable[Line]) -> str | None:
    for below in lines:
        if hit := _VALUE.search(below.body):
            return hit["value"]
    return None
