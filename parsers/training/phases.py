"""Lines that say what a rank does outside the step: saving, evaluating, preparing data, compiling, starting, ending.

A rank that is late is often late because only it does one of these (rank 0 saves while the others wait).
"""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.events import Event, Phase
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_THE = r"(?:the |a |your )?"
_PHRASES: tuple[tuple[str, str, str], ...] = (
    # phase, literal, pattern; "!" in front: the sentence says that it is over. The first that fits counts.
    ("!checkpoint", "aved ", rf"\b[Ss]aved {_THE}(?:\w{{1,20}} )?checkpoint"),
    ("!checkpoint", "heckpoint ", r"\b[Cc]heckpoint (?:was |successfully )?(?:saved|written|done|completed)\b"),
    ("!checkpoint", "hed saving", r"\b[Ff]inished saving\b"),
    ("!checkpoint", "hed writing ", rf"\b[Ff]inished writing {_THE}checkpoint"),
    ("!checkpoint", "weights saved in", r"\b[Mm]odel weights saved in\b"),
    ("!evaluation", "hed eval", r"\b[Ff]inished eval(?:uation|uating)?\b"),
    ("!evaluation", "valuation ", r"\b[Ee]valuation (?:is |was )?(?:done|finished|completed?|took)\b"),
    ("!evaluation", "alidation ", r"\b[Vv]alidation (?:is |was )?(?:done|finished|completed?|took)\b"),
    ("!sampling", "hed generating", r"\b[Ff]inished generating\b"),
    ("!sampling", "hed sampling", r"\b[Ff]inished sampling\b"),
    ("!sampling", "amples saved", r"\b[Ss]amples saved\b"),
    ("!data", "okenization ", r"\b[Tt]okenization (?:is |was )?(?:done|finished|completed?|took)\b"),
    ("!data", "hed tokeniz", r"\b[Ff]inished tokeniz\w{1,10}"),
    ("!data", "hed preprocess", r"\b[Ff]inished preprocess\w{1,10}"),
    ("!compile", "ompilation ", r"\b[Cc]ompilation (?:is |was )?(?:done|finished|completed?|took)\b"),
    ("!compile", "hed compiling", r"\b[Ff]inished compiling\b"),
    ("!compile", "ime to load ", r"\bTime to load \w{1,40} op\b"),
    ("checkpoint", "aving ", rf"\b[Ss]aving {_THE}(?:\w{{1,20}} ){{0,2}}(?:checkpoint|state|weights|shards?)\b"),
    ("checkpoint", "aving model", r"\b[Ss]aving model\b"),
    ("checkpoint", "riting ", rf"\b[Ww]riting {_THE}(?:\w{{1,20}} )?checkpoint"),
    ("checkpoint", "save_checkpoint", r"\bsave_checkpoint\b"),
    ("checkpoint", "oading ", rf"\b[Ll]oading {_THE}(?:\w{{1,20}} )?checkpoint(?! shards)"),
    ("checkpoint", "heckpointing at", r"\b[Cc]heckpointing at\b"),
    ("evaluation", "unning ", r"\b[Rr]unning (?:[Ee]valuation|[Vv]alidation|[Pp]rediction|eval)\b"),
    ("evaluation", "ing evaluation", r"\b[Ss]tarting evaluation\b|\b[Bb]eginning evaluation\b"),
    ("evaluation", "ing validation", r"\b[Ss]tarting validation\b|\b[Bb]eginning validation\b"),
    ("evaluation", "alidation DataLoader", r"\bValidation DataLoader\b"),
    ("evaluation", "alidate epoch", r"\b[Vv]alidate epoch\b"),
    ("evaluation", "valuating ", rf"\b[Ee]valuating {_THE}(?:model|checkpoint|on)\b"),
    (
        "sampling",
        "enerating ",
        rf"\b[Gg]enerating {_THE}(?:\w{{1,20}} ){{0,2}}(?:samples?|images?|previews?|completions?|rollouts?)\b",
    ),
    ("sampling", "ampling images", r"\b[Ss]ampling images\b"),
    ("data", "unning tokenizer", r"\b[Rr]unning tokenizer\b"),
    ("data", "okenizing", r"\b[Tt]okenizing\b"),
    ("data", "rocessing ", rf"\b[Pp]re-?processing {_THE}(?:train|data|dataset|corpus)"),
    ("data", "uilding ", rf"\b[Bb]uilding {_THE}(?:\w{{1,20}} )?(?:dataset|index|shuffle)\b"),
    ("data", "oading dataset", r"\b[Ll]oading dataset\b"),
    ("data", "ownloading ", rf"\b[Dd]ownloading {_THE}(?:dataset|data|model|shards?)\b"),
    ("data", "acking ", rf"\b[Pp]acking {_THE}(?:dataset|sequences)\b"),
    ("data", "aching latents", r"\b[Cc]aching latents\b"),
    ("compile", "torch.compile", r"\btorch\.compile\b"),
    ("compile", "ompiling ", rf"\b[Cc]ompiling {_THE}(?:model|graph|kernels?|module|\w{{1,30}} kernels?)\b"),
    ("compile", "apturing ", rf"\b[Cc]apturing {_THE}(?:CUDA|cuda) ?[Gg]raphs?\b"),
    ("compile", "utotun", r"\b[Aa]utotun(?:e|ing)\b"),
    ("compile", "AUTOTUNE ", r"\bAUTOTUNE \w"),
    ("compile", "xtension module", r"\b[Ll]oading extension module \w{1,60}\.\.\."),
    ("compile", "ninja build", r"\bEmitting ninja build file\b"),
    (
        "finished",
        "raining ",
        r"\b[Tt]raining (?:is |was )?(?:completed?|finished|done|ended)\b|\b[Tt]raining loop done\b",
    ),
    ("finished", "hed training", r"\b[Ff]inished training\b"),
    ("finished", "fit` stopped", r"\bTrainer\.fit` stopped\b"),
    ("finished", "ing process group", r"\b[Dd]estroying process groups?\b"),
    ("finished", "yed process group", r"\b[Dd]estroyed process groups?\b"),
    ("finished", "destroy_process_group", r"\b(?:calling|called|entering|before|after) destroy_process_group\b"),
    ("finished", "final barrier", r"\b(?:waiting at|reached|entering) the final barrier\b"),
    ("finished", "xiting normally", r"\b[Ee]xiting normally\b"),
    ("starting", "tarting on ", r"\b[Ss]tarting on (?:node |host )?[\w.-]{1,63}"),
    ("starting", "unning training", r"\*{3,5} Running training \*"),
    ("starting", "ting training", r"\b[Ss]tarting training\b"),
    ("starting", "ted training", r"\b[Ss]tarted training\b"),
    ("starting", "OMP_NUM_THREADS env", r"\bSetting OMP_NUM_THREADS environment variable for each process\b"),
    (
        "ready",
        "rocess group",
        r"\b[Pp]rocess groups? (?:is |are )?(?:ready|initialized|created)\b|\bInitialized process groups?\b",
    ),
    ("ready", "istributed ", r"\b[Dd]istributed (?:process group |environment )?(?:is )?(?:initialized|ready)\b"),
    ("ready", "distributed processes", r"\bAll distributed processes registered\b"),
    ("ready", "init_process_group ", r"\binit_process_group (?:done|returned|finished)\b"),
)


_PATTERNS = tuple((what.lstrip("!"), what[0] == "!", lazy(pattern)) for what, _, pattern in _PHRASES)


_CODE = lazy(r"\w{0,30}Warning: |was not called|has NOT been|\bdef \w+\(|^\s*(?:#|File \"|>>>|import |from )")
"""Warnings and source lines speak of these things without doing them."""


@line_parser
class Doing(LineParser):
    """A sentence about what the rank does now, or has just done (``detail`` then begins ``done: ``).

    Of a large file only its ends and the surroundings of trouble matter here.
    """

    sampled = True
    literals = tuple(dict.fromkeys(literal for _, literal, _ in _PHRASES))

    def parse(self, line: Line) -> Iterable[Event]:
        """The first phase that the line speaks of."""
        body = line.body[:4_000]
        native = line.mark.file is not None and not line.mark.file.endswith(".py")
        if native or _CODE.search(body):
            return
        for what, done, pattern in _PATTERNS:
            m = pattern.search(body)
            if m:
                yield Phase(
                    **common(line), what=what, detail=("done: " if done else "") + body[m.start() :].strip()[:300]
                )
                return


_EPOCH = lazy(
    r"\b[Ee]poch[ =:]{1,2}\d{1,9}(?:/\d{1,9})?:? (?:is |has )?(?:finished|done|complete|completed|ended|over)\b"
    r"|\b[Ee]nd of [Ee]poch\b|\b[Ff]inished [Ee]poch \d{1,9}|\b[Ee]poch \d{1,9} took\b"
)


@line_parser
class EpochOver(LineParser):
    """The end of an epoch. The word is common in healthy logs, so it is looked for in parts of a large file only."""

    sampled = True
    literals = ("poch ", "poch=", "poch:")

    def parse(self, line: Line) -> Iterable[Event]:
        """One sentence that says so."""
        m = _EPOCH.search(line.body[:2_000])
        if m:
            yield Phase(**common(line), what="epoch-end", detail=line.body[m.start() :].strip()[:300])
