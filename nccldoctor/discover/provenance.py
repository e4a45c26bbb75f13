r"""Says from the shape of its lines whether a text is output of the job or a person wrote it.

Source code, launch scripts, configurations, notes and chats travel in the folders of incidents. An alert rule that quotes
an Xid is no Xid, and a ``raise`` in ``train.py`` is no exception. The content decides; the name only lowers what is asked
of it. A file with lines as loggers, launchers and kernels print them is output: a log that echoes its script, or
quotes source in a traceback, stays a log.
"""

from __future__ import annotations

import json
import re

from msgspec import Struct

from nccldoctor.discover.bystanders import LONGEST, LOOKED_AT, count_matches, first_lines, kind_of_bystander
from nccldoctor.discover.streams import HEAD
from nccldoctor.model import SourceKind
from nccldoctor.patterns import lazy

MOST_LOGGED = 0.1
"""Share of lines in the shape of output that a person's text has at most; :data:`MOST_QUOTED` where its name says what it is."""
MOST_QUOTED = 0.4

_OUTPUT_NAMES = lazy(
    r"(?:\.(?:log|out|err|stdout|stderr|jsonl)(?:\.\w{1,12})?|std(?:out|err)(?:\.txt)?|dmesg[^/]*)$", re.I
)

_PRINTED = lazy(
    r"(?:> )?(?:\[?\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d|\[?[IWEFD]\d{3,4} \d\d:\d\d:\d\d|\[[IWEFD] \w{1,40}\.cpp:\d"
    r"|\[?[A-Z][a-z]{2} (?:[A-Z][a-z]{2} )?[ \d]\d \d\d:\d\d:"
    r"|\[ {0,6}\d{1,9}\.\d{1,9}\]|\[(?:default|rank ?|Rank )?\d{1,6}\][:\[ ]|\[\d{1,6},\d{1,6}\]<| {0,5}\d{1,6}: \S"
    r"|[\w.-]{1,80}:\d{1,9}:\d{1,9} \[|[\w./-]{1,99}:\d{1,6} NCCL |(?:INFO|WARN(?:ING)?|ERROR|DEBUG|CRITICAL)\b"
    r"|Traceback \(most|  File \"|(?:\w{1,40}\.){0,6}\w{0,40}(?:Error|Exception|Interrupt): |\w{1,20}Warning: "
    r"|\(\w[\w ()=.,-]{0,60}pid=\d|Thread (?:0x|\d)|#\d{1,3} {1,3}0x|frame #\d"
    r"|  {1,4}[\w.<>:]{1,80} \([^()\n]{1,200}:\d{1,6}\)$"
    r"|(?:slurmstepd|srun|sbatch|mpirun|torchrun|kernel|systemd)\b[\[\w\]]{0,12}: |NCCL version|\{'\w{1,30}': "
    r"|\W{0,3}(?:[Gg]lobal |[Tt]rain(?:ing)?[ _])?(?:[Ss]tep|STEP|[Ee]poch|EPOCH|[Ii]ter(?:ation)?"
    r"|[Bb]atch)\W{1,4}\d|.{0,80}?\d{1,3}%\|"
    r"|= {3}[A-Z]|\++ (?![ab]/)\w|[A-Z][\w ]{1,30}:\s{2,}\S)"
)
"""Begins a line that a logger, launcher, scheduler, kernel or tracing shell printed."""

_STACK = lazy(
    r"Traceback for thread \d{1,10} |TID \d{1,10}:$|Thread \d{1,10} \((?:idle|active|Thread 0x)|(?:Current thread|Thread) 0x[0-9a-f]{4,16} "
)
"""Begins the stack of a thread: its frames quote source and list variables, which look like code and like settings."""

_SENTENCE = lazy(
    r"(?:\b(?:the|a|an|is|was|were|are|we|i|it|that|this|then|and|but|of|to|so|they|you|our|my|not|if|from|for"
    r"|with|on|in|at)\b.{0,400}?){2}",
    re.I,
)
_RECORDED = (b"containerStatuses", b"lastTransitionTime", b"lastState")
"""Words of a scheduler's record of what became of a job, which has the shape of a configuration."""

_NOTES = lazy(r"(?:^|[/_ -])(?:readme|notes?|todo|changelog|post-?mortem|runbook)(?:[ _.-][^/]{0,60})?$", re.I)
_PERSON = lazy(r"\b(?:I|[Ww]e|[Ww]e've|I'm|I've|I'll|[Ll]et's|[Oo]ur|[Mm]y|[Yy]ou)\b")
_SAID = lazy(
    r"(?:\[|\d{4}-\d\d-\d\d,? )?\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp][Mm])?\]?[ \t-]{1,3}<?@?"
    r"(?P<name>[A-Za-z][\w.-]{0,24})(?: [A-Z]\w{0,20})?>?[:>] \S"
    r"|<?@?(?P<before>[A-Za-z][\w.-]{0,24}(?: [A-Z][\w.'-]{0,20}){0,2})>?(?: {1,3}| [\u2013\u2014-] )"
    r"(?:\d{1,2}[/.]\d{1,2}(?:[/.]\d{2,4})?,? )?"
    r"(?:(?:[Tt]oday|[Yy]esterday)?(?: ?at)? )?[\[(]?\d{1,2}:\d\d(?: ?[AaPp][Mm])?[\])]?:?(?P<alone>$)?(?: |$)"
)
_TALK = lazy(
    r"(?:^|\s)@\w|\?\s*$|\b(?:thanks|thx|lol|hmm|yep|nope|ok|okay|pls|please|btw|guys|morning)\b|:[a-z_]{2,20}:", re.I
)


class _Shape(Struct, frozen=True):
    """What the lines of such a text look like: ``telling`` ones occur in nothing else, ``fitting`` ones may."""

    kind: SourceKind
    names: re.Pattern[str]
    telling: lazy[str]
    fitting: lazy[str]
    least: int = 3
    share: float = 0.6


_SHAPES = (
    _Shape(
        SourceKind.CODE,
        re.compile(r"\.(?:patch|diff)$", re.I),
        lazy(r"diff --git |@@ -\d|index [0-9a-f]{7,40}\.\.|--- a/|\+\+\+ b/"),
        lazy(r"[-+ @]|diff --git |index "),
        share=0.8,
    ),
    _Shape(
        SourceKind.CODE,
        re.compile(r"\.pyi?$", re.I),
        lazy(
            r"\s*(?:import \w[\w.]*(?: as \w+)?(?:,.*)?$|from [\w.]+ import |(?:async )?def \w+\(.*"
            r"|class \w+.*:|@\w[\w.]*(?:\(.*\))?$"
            r"|(?:if|elif|for|while|with|except|try|else|finally)\b.*:(?:\s*#.*)?$|return(?: .+)?$|raise \w+\("
            r"|(?:global|nonlocal) \w)"
        ),
        lazy(
            r"\s*(?:import |from \S+ import |(?:async )?def |class |@\w|(?:if|elif|for|while|with|except|try"
            r"|else|finally)\b.*:"
            r"|return\b|raise\b|pass$|continue$|break$|yield\b|await |assert |global |nonlocal |[#\"')}\]]"
            r"|[rbf]{0,2}[\"']"
            r"|[\w.\[\], \"'*:]{1,80} ?[-+*/|&@%]?= ?\S|[\w.]+\(.*|[\w\"'.*]+.*[,({\[\\]$|\w+$|.*[)\]}]$)"
        ),
    ),
    _Shape(
        SourceKind.CODE,
        re.compile(r"\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|go|rs|java|js|ts)$", re.I),
        lazy(
            r"\s*(?:#\s*(?:include|define|ifdef|ifndef|pragma)\b|namespace \w|template ?<|using namespace "
            r"|(?:static |const |inline )?(?:void|int|bool|auto|func|fn) \w+.*\(.*|//|return\b.*;$"
            r"|package \w+;?$|use \w+::)"
        ),
        lazy(r"\s*(?:#|//|/?\*|[{}()]|.*[;{},:(&|\\]\s*(?://.*)?$)"),
    ),
    _Shape(
        SourceKind.CODE,
        re.compile(r"\.sql$", re.I),
        lazy(
            r"\s*(?:SELECT|FROM|WHERE|INSERT INTO|CREATE (?:TABLE|VIEW|INDEX)|ALTER TABLE|UPDATE|DELETE FROM|ORDER BY|GROUP BY"
            r"|(?:LEFT |INNER |OUTER )?JOIN|WITH \w+ AS|VALUES)\b"
        ),
        lazy(r"\s*(?:--|[A-Z]{2,}\b|/?\*|.*[,;()]$)"),
    ),
    _Shape(
        SourceKind.SCRIPT,
        re.compile(r"\.(?:sh|bash|zsh|sbatch|slurm|pbs|lsf|fish|mk)$|(?:^|/)(?:Makefile|Dockerfile[\w.]*)$", re.I),
        lazy(
            r"#!\s*/\S*(?:sh|env bash|env sh|env zsh)\b|#(?:SBATCH|PBS|BSUB|FLUX)\b|\s*(?:export \w+="
            r"|set -[a-z]|if \[|fi$|done$|then$|esac$"
            r"|for \w+ in .*; do|while .*; do|module (?:load|purge)|source \S+$|FROM \S+(?: AS \w+)?$|RUN "
            r"|ENTRYPOINT |.*\\$)"
        ),
        lazy(
            r"\s*(?:#|export |set |if |elif |else$|fi$|for |while |do$|done$|then$|case |esac$|module |source "
            r"|\. |echo |printf |cd |mkdir |exec |trap |wait$"
            r"|srun |sbatch |mpirun |torchrun |python\d? |accelerate |deepspeed |docker |singularity "
            r"|apptainer |nsys |eval |exit\b|local |return\b|function "
            r"|--?[A-Za-z]|[A-Za-z_]\w*=|[{}()\[\]]|.*\\$|(?:FROM|RUN|ENV|COPY|ADD|WORKDIR|ARG|CMD|ENTRYPOINT"
            r"|EXPOSE|USER|LABEL) )"
        ),
    ),
    _Shape(
        SourceKind.CONFIG,
        re.compile(r"\.(?:ya?ml|tmpl|j2)$", re.I),
        lazy(
            r"\s*(?:- )?(?=[A-Z_]{0,40}[a-z])[A-Za-z_][\w./-]{0,80}:\s*(?:[|>][+-]?)?$|\s*- [a-z]\w{0,80}: \S|apiVersion: |---\s*$"
        ),
        lazy(r"\s*(?:#|- |-$|[\"']?[A-Za-z_][\w./-]{0,80}[\"']?:(?:\s|$)|[|>\"'{}\[\]])|\s{2,}\S"),
        share=0.85,
    ),
    _Shape(
        SourceKind.CONFIG,
        re.compile(r"\.(?:toml|ini|cfg|conf|properties|hcl|tf)$", re.I),
        lazy(r"\[\[?[A-Za-z][\w.\-\" ]{0,80}\]\]?\s*(?:#.*)?$"),
        lazy(r"\s*(?:[#;\]\[}]|[\w.\-\"]{1,80}\s*=|[\"'{\[])"),
        least=1,
        share=0.85,
    ),
    _Shape(
        SourceKind.NOTES,
        re.compile(r"\.(?:md|markdown|rst|adoc|org|tex)$", re.I),
        lazy(
            r"#{1,6} (?![^:]{1,60} : )[A-Za-z0-9].{0,200}$|```|\*\*\w.{0,200}\*\*|\s{0,6}[-*] \[[ x]\] |.{0,400}\]\(https?://"
            r"|\| ?:?-{2,40}:? ?\||(?:=|-|~){5,}$"
        ),
        lazy(r"#{1,6} |```|\s{0,6}(?:[-*+•]|\d{1,2}[.)]) \S|\||> |.{0,400}\*\*|={4,}$|-{3,}$|:\w+:"),
        least=2,
    ),
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
    if _is_json(first):
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
    try:
        text = json.loads(b'"' + found["text"] + b'"')
    except ValueError:
        return b""
    return str(text).encode("utf-8", "replace")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
