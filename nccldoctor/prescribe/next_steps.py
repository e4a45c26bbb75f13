"""Builds the three steps that an engineer takes first; ``steps.toml`` says which, and in which order.

A step never asks for what the input already shows, and never for a look at a process whose end is recorded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, convert
from msgspec.structs import replace

from nccldoctor.align.standing.outside import standing_of
from nccldoctor.model import Action, CauseClass, Confidence, Family, Finding, SourceKind
from nccldoctor.model.hosts import host_key
from nccldoctor.model.steps import JobEnd, JobState, Step, StepKind
from nccldoctor.prescribe.catalogue.words import as_text, code_span, fill_command, fill_in_words
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.prescribe.culprit_frame import culprit_frame, frames_apart, parting_of
from nccldoctor.prescribe.missing_files import (
    LOOK_HERE,
    PY_SPY_RIGHTS,
    exits_of_culprits,
    files_to_collect,
    logs_of_culprits,
    then_analyze,
)
from nccldoctor.prescribe.remote_commands import on_host, on_spot, take_out
from nccldoctor.prescribe.under_capture import another_look, is_captured, wait_for_look
from nccldoctor.prescribe.values import placeholder_values
from nccldoctor.questions.answers import Answer
from nccldoctor.questions.inside import child_inside
from nccldoctor.questions.patience import is_on_its_way
from nccldoctor.questions.process import POLLS, at_prompt, kernel_wait, moving
from nccldoctor.words.lists import and_list
from nccldoctor.words.names import ranks_phrase, verb
from nccldoctor.words.sentences import capitalized, sentence, uncapitalized
from nccldoctor.words.times import instant

if TYPE_CHECKING:
    from nccldoctor.prescribe.catalogue.remedy import Step as Recipe

MOST = 3
"""Steps at most: more of them are not read at three in the morning."""
_HOSTS = 4

_LIVE = frozenset({"py-spy", "pystack", "gdb", "strace", "ps", "top", "ncclras", "kill", "/proc"})
"""Programs that need the process: after its end they have nothing to look at."""
_RECORDS = {
    SourceKind.KERNEL_LOG: frozenset({"dmesg", "journalctl"}),
    SourceKind.RECORDER: frozenset({"torchfrtrace", "fr_trace", "nccldoctor"}),
    SourceKind.STACKS: frozenset({"py-spy", "pystack", "gdb"}),
}
"""What reads a kind of file that may be in the input already."""


class Best(Struct, frozen=True):
    """The steps of the best remedy that are for this finding.

    ``is_certain`` is true where a named error, resource or signal carries it, and not the class of the finding alone.
    """

    confirm: tuple[Recipe, ...] = ()
    fix: tuple[Recipe, ...] = ()
    is_certain: bool = False


class _Scene(Struct, frozen=True):
    """What the steps are chosen from; ``values`` are those of the placeholders."""

    finding: Finding
    survey: Survey
    end: JobEnd
    action: Action
    best: Best
    values: Mapping[str, str]

    @property
    def is_to_drain(self) -> bool:
        return bool(self.action.cordon or self.action.pods)

    @property
    def is_running(self) -> bool:
        return self.end.state is JobState.RUNNING


class _Row(Struct, frozen=True, rename={"class_": "class"}, forbid_unknown_fields=True):
    """One row of ``steps.toml``: it fits where all that it names does."""

    steps: tuple[str | tuple[str, ...], ...]
    class_: tuple[CauseClass, ...] = ()
    family: Family | None = None
    state: JobState | None = None
    restart: str | None = None
    sign: tuple[str, ...] = ()
    has: tuple[str, ...] = ()

    def is_for(self, scene: _Scene) -> bool:
        """True where the row fits."""
        wanted = (self.family, self.state, self.restart)
        told = (scene.finding.family, scene.end.state, scene.action.restart)
        if any(one not in (None, other) for one, other in zip(wanted, told, strict=True)):
            return False
        if (self.class_ and scene.finding.cause not in self.class_) or not all(_SIGNS[s](scene) for s in self.sign):
            return False
        return not self.has or any(any(True for _ in _PARTS[part](scene)) for part in self.has)


_TABLE = tomllib.loads(Path(__file__).with_name("steps.toml").read_text(encoding="utf-8"))
ROWS = convert(_TABLE["row"], tuple[_Row, ...])
"""The rows of ``steps.toml`` in their order."""


def next_steps(finding: Finding, survey: Survey, end: JobEnd, action: Action, best: Best) -> tuple[Step, ...]:
    """At most :data:`MOST` steps; none for a job that is shown to be well.

    Where ranks still owe a look to capture, it comes first: their stacks may change the verdict.
    """
    scene = _Scene(finding, survey, end, action, best, placeholder_values(finding, survey))
    chosen = then_analyze(_chosen(scene))
    wait = wait_for_look(survey, end.state)
    if wait is None:
        return chosen
    others = [step for step in chosen if step.kind is not StepKind.SEND]
    return (wait, *others[:-1][: MOST - 2], *others[-1:])


def _chosen(scene: _Scene) -> tuple[Step, ...]:
    """The steps of the first row that fits, in its order; one of each group of alternatives."""
    row = next(row for row in ROWS if row.is_for(scene))
    found: list[Step] = []
    for part in row.steps:
        if part == "restart":
            action = scene.action
            text, detail = RESTARTS[action.restart], action.why
            if scene.is_running:
                fires = scene.end.deadline
                detail = (f"The call times out at {instant(fires)}. " if fires is not None else "") + detail
                text = "If it stays stuck, restart the job." if action.restart == "now" else text
            found = [*found[: MOST - 1], Step(StepKind.RESTART, text, detail)]
            continue
        names, most = ((part,), None) if isinstance(part, str) else (part, 1)
        steps = islice(chain.from_iterable(_PARTS[name](scene) for name in names), most)
        for step in steps:
            if (step.command or step.text) not in [one.command or one.text for one in found]:
                found.append(step)
    return tuple(found[:MOST])


def _is_nobody_named(scene: _Scene) -> bool:
    """True where the verdict is open, or no rank, host or line of the user's code is at hand."""
    finding = scene.finding
    is_named = finding.ranks or scene.action.cordon or culprit_frame(finding, scene.survey)
    return finding.family is Family.UNDETERMINED or not is_named


def _files_not_given(scene: _Scene) -> tuple[Step, ...]:
    """What the input lacks. Of a job that is well nobody can take a stack any more."""
    state = JobState.ENDED if scene.finding.family is Family.NONE else scene.end.state
    return files_to_collect(scene.finding, scene.survey, state)


def _lacking(scene: _Scene) -> tuple[Step, ...]:
    """The logs and exits of named ranks that nobody read, where they decide about the restart."""
    if scene.action.restart != "unknown" or scene.is_to_drain or _open(scene):
        return ()
    return (*logs_of_culprits(scene.finding, scene.survey), *exits_of_culprits(scene.finding, scene.survey))


def _cure(scene: _Scene) -> Iterator[Step]:
    """The fix of a named error that ended the rank; not where its host has to go."""
    was_ended = scene.finding.cause in (CauseClass.DIED, CauseClass.RAISED)
    if was_ended and scene.best.is_certain and not scene.is_to_drain:
        yield from _fixes(scene)


def _drain(scene: _Scene) -> Iterator[Step]:
    hosts, pods = scene.action.cordon, scene.action.pods
    nodes = [as_text(host) for host in hosts] + [f"the node of pod {as_text(pod)}" for pod in pods]
    more = f" and {len(nodes) - _HOSTS} more" if len(nodes) > _HOSTS else ""
    named = ", ".join(nodes[:_HOSTS]) + more if more else and_list(nodes)
    if nodes:
        detail = f"Keep {'it' if len(nodes) == 1 else 'them'} out of service until checked."
        command = take_out(hosts, pods, scene.finding, scene.survey)
        yield Step(StepKind.DRAIN, f"Drain {named}.", detail, command)


def _open(scene: _Scene) -> Step | None:
    """The line of the user's own code that an engineer reads first; both lines where ranks took different branches."""
    if len(places := frames_apart(scene.finding, scene.survey)) > 1:
        shown = places[:MOST]
        lines = and_list([f"{code_span(frame.place)} ({code_span(frame.function)})" for _, frame in shown])
        whose = [
            f"{ranks_phrase(ranks, 4)} called from line {frame.place.rpartition(':')[2]}" for ranks, frame in shown
        ]
        return Step(
            StepKind.OPEN, f"Open {lines}.", f"{capitalized(and_list(whose))}. Look for the branch where they diverge."
        )
    frame = culprit_frame(scene.finding, scene.survey)
    if frame is None:
        return None
    if (parting := parting_of(scene.finding, scene.survey)) is not None:
        branch, peer_at = parting
        leads = f"{capitalized(ranks_phrase(scene.finding.ranks, 4))} goes from there into {code_span(frame.function)}"
        at = f"{code_span(branch.place)} ({code_span(branch.function)})"
        apart = f"{leads}; its peers are at {code_span(peer_at)} of the same function."
        return Step(StepKind.OPEN, f"Open {at}.", f"{apart} {_in_kernel(scene)}".strip())
    who = ranks_phrase(scene.finding.blamed, 4)
    who = who if frame.worker is None else f"worker process {frame.worker}"
    cause = scene.finding.cause
    if at_prompt(scene.survey.facts, scene.finding.ranks).holds:
        detail = "Remove the breakpoint or the question there."
    elif cause is CauseClass.RAISED:
        detail = f"{capitalized(who)} crashed there."
    elif scene.finding.family is Family.DISAGREE:
        detail = f"{capitalized(who)} made the call there. Look for {_WHAT_DIFFERS.get(cause, 'a branch')} that only some ranks have."
    else:
        ranks = scene.finding.blamed
        is_one = len(ranks) == 1 or frame.worker is not None
        seen = _in_kernel(scene) if frame.worker is None else ""
        detail = seen or capitalized(_what_to_look_for(moving(scene.survey.facts, ranks), who, is_one=is_one))
    return Step(StepKind.OPEN, f"Open {code_span(frame.place)} ({code_span(frame.function)}).", detail)


def _in_kernel(scene: _Scene) -> str:
    """What the process of the one culprit waits for in the kernel; "" where no file shows it."""
    blamed, facts = scene.finding.blamed, scene.survey.facts
    if len(blamed) != 1 or (found := kernel_wait(facts, min(blamed))) is None:
        return ""
    who, child = capitalized(ranks_phrase(blamed)), child_inside(facts, min(blamed))
    if found[0] == "a child process" and child is not None:
        return f"{who} waits there for its child {code_span(child.name)}, which {child.does}."
    return f"{who} waits there for {found[0]} ({code_span(found[1])} in the kernel)."


_WHAT_DIFFERS = {CauseClass.SIZE_MISMATCH: "a shape", CauseClass.DTYPE_MISMATCH: "a cast"}
"""What else than a branch makes one call differ from its peers'."""

_AGAIN = "A healthy job that evaluates, saves or starts looks like this. If nothing changes until then, it hangs."


def _is_of_worker(scene: _Scene) -> bool:
    """True where the line to open is that of a data loader's worker: nobody has to look for it."""
    return (frame := culprit_frame(scene.finding, scene.survey)) is not None and frame.worker is not None


LOOK_TWICE = (
    "ps -o pid,stat,wchan:20,cmd -p {{ pid }}; py-spy dump --pid {{ pid }}; sleep 10; py-spy dump --pid {{ pid }}"
)
TWO_LOOKS = (
    "*active*, R or another frame: it computes. *idle*, S or D in the same frame: it's blocked. T: a signal stopped it. "
    + PY_SPY_RIGHTS
)
"""How to read two looks at one process."""
_LATE = (CauseClass.NOT_ARRIVED, CauseClass.FROZEN, CauseClass.STRAGGLER)
"""Classes of a rank that is still there, so that its stack tells more."""


def _what_to_look_for(moves: Answer, who: str, *, is_one: bool) -> str:
    """What to look for in the open file, by what the looks at ``who`` show."""
    are, do, compute, make = ("is", "does", "computes", "makes") if is_one else ("are", "do", "compute", "make")
    if moves.holds:
        return f"{who} {compute} there while other ranks wait. Find why only {who} {do}."
    if moves.says == POLLS:
        return f"{who} {'wakes and sleeps' if is_one else 'wake and sleep'} there in turn. Look for a loop that only {who} {make}."
    if moves.holds is False:
        return f"{who} {are} blocked there. Look for a lock, file or network call that only {who} {make}."
    return f"Look for a lock, file or network call, or a long computation, that only {who} {make}."


def _looks_now(scene: _Scene) -> Iterator[Step]:
    """Read-only looks at a process that still runs, as far as nobody took them."""
    if not scene.is_running:
        return
    has_stack = is_captured(scene.survey) or any(scene.survey.stacks.get(rank) for rank in scene.finding.ranks)
    is_open = _is_motion_open(scene)
    for recipe in scene.best.confirm:
        if (
            recipe.command
            and _needs_process(recipe)
            and not (_is_reader_of(recipe.command, SourceKind.STACKS) and has_stack)
        ):
            yield _from_recipe(scene, recipe, StepKind.CHECK)
    if is_open and is_captured(scene.survey):
        yield from another_look(scene.finding, scene.survey)
    elif is_open and scene.finding.cause in _LATE:
        text = f"Look at {ranks_phrase(scene.finding.blamed, 4)} twice, 10 s apart."
        yield Step(StepKind.CHECK, text, TWO_LOOKS, *_on_host(scene, LOOK_TWICE))


def _checks(scene: _Scene) -> Iterator[Step]:
    """What still tells after the end, and is not in the input."""
    offered = (r for r in scene.best.confirm if not (r.while_ == "ended" and scene.is_running))
    fitting = [recipe for recipe in offered if recipe.command and not _needs_process(recipe)]
    if "job" not in scene.values and scene.survey.launcher != "slurm":  # no line shows that Slurm runs the job
        fitting = [recipe for recipe in fitting if "sacct" not in _programs(recipe.command or "")]

    def blanks(recipe: Recipe) -> int:  # the number of values that a reader would have to fill in
        return len(fill_command(f"{recipe.command or ''} {recipe.where or ''}", scene.values)[1])

    for recipe in sorted(fitting, key=blanks):
        if not _is_held(scene, recipe.command or ""):
            yield _from_recipe(scene, recipe, StepKind.CHECK)


def _if_again(scene: _Scene) -> Iterator[Step]:
    """The one look at the process to take if the job hangs again: its pid will be another one.

    It never asks for a stack that was already read. If one stack doesn't show whether the rank moves, it asks for two.
    """
    families = (Family.ABSENT, Family.SLOW, Family.INSIDE, Family.SETUP)
    if scene.is_running or scene.finding.family not in families or is_captured(scene.survey):
        return  # capture looks by itself
    is_read = scene.survey.has_stacks_of(scene.finding.blamed)
    looks = [recipe for recipe in scene.best.confirm if recipe.command and _needs_process(recipe)]
    if is_read:
        # not one Python stack of the rank again, without frames of C or child processes
        more, commands = ("--native", "pgrep -P"), ((recipe, recipe.command or "") for recipe in looks)
        looks = [r for r, words in commands if words.count("py-spy dump") != 1 or any(word in words for word in more)]
    elif scene.finding.cause in _LATE and not scene.best.is_certain:
        looks = []  # no file shows what the rank did, and the remedy would be a guess at it
    recipe = min(looks, key=lambda look: not _is_reader_of(look.command or "", SourceKind.STACKS), default=None)
    when = "If it happens again" if scene.end.state is JobState.ENDED else "If it still hangs, or hangs again"
    scene = replace(scene, values={name: value for name, value in scene.values.items() if name != "pid"})
    if recipe is not None:
        step = _from_recipe(scene, recipe, StepKind.IF_AGAIN)
        yield Step(StepKind.IF_AGAIN, f"{when}: {uncapitalized(step.text)}", step.detail, step.command, step.where)
    elif scene.finding.cause in _LATE:
        who = ranks_phrase(scene.finding.blamed, 4)
        if not is_read:
            command, where = _on_host(scene, "py-spy dump --pid {{ pid }}")
            is_killed = verb(scene.finding.blamed, "it's killed", "they're killed")
            text = f"{when}: dump the stack of {who} before {is_killed}."
            unseen = f"No stack of {who} was read."
            by_itself = "A job started with `-m nccldoctor.capture` dumps the stacks by itself."
            yield Step(StepKind.IF_AGAIN, text, f"{unseen} {by_itself}", command, where)
        elif _is_motion_open(scene):
            command, where = _on_host(scene, LOOK_TWICE)
            yield Step(StepKind.IF_AGAIN, f"{when}: look at {who} twice, 10 s apart.", TWO_LOOKS, command, where)


def _is_motion_open(scene: _Scene) -> bool:
    """True where nothing shows yet whether the culprits compute, are blocked or wait for a person."""
    facts = scene.survey.facts
    return moving(facts, scene.finding.blamed).holds is None and not at_prompt(facts, scene.finding.blamed).holds


def _fixes(scene: _Scene) -> Iterator[Step]:
    """The first fix that is for a job in this state, unless it names a line that is not known."""
    fitting = (r for r in scene.best.fix if r.while_ is None or (r.while_ == "running") is scene.is_running)
    recipe = next(fitting, None)
    words = recipe.text or "" if recipe is not None else ""
    if recipe is not None and recipe.command:
        yield _from_recipe(scene, recipe, StepKind.FIX)
    elif words and ("{{ frame" not in words or "frame_at" in scene.values):
        yield Step(StepKind.FIX, *_lead_and_rest(fill_in_words(words, scene.values)))


RESTARTS = {
    "now": "Restart the job.",
    "after-fix": "Don't restart unchanged.",
    "after-replacing-node": "Restart on other hosts.",
    "unknown": "Don't restart yet.",
}
"""The sentence for each value of ``Action.restart``."""


def _from_recipe(scene: _Scene, recipe: Recipe, kind: StepKind) -> Step:
    """A step of the catalogue with the values of this incident."""
    known = scene.values
    command, in_words = recipe.command or "", recipe.where or ""
    reads = "Read the kernel log." if _is_reader_of(command, SourceKind.KERNEL_LOG) else "Run this check."
    text, rest = _lead_and_rest(fill_in_words(recipe.text or reads, known))
    expected = sentence(f"What confirms it: {fill_in_words(recipe.expect, known)}") if recipe.expect else ""
    detail = f"{rest} {expected}".strip()
    place = "waiting_host" if "waiting_host" in in_words else "host" if "{{ host" in in_words else ""
    if not place:
        return Step(kind, text, detail, on_spot(command, scene.finding, scene.survey, known), None)
    return Step(kind, text, detail, *_on_host(scene, command, place))


def _on_host(scene: _Scene, command: str, place: str = "host") -> tuple[str, str | None]:
    return on_host(command, place, scene.finding, scene.survey, scene.values)


def _needs_process(recipe: Recipe) -> bool:
    return recipe.while_ == "running" or bool(_programs(recipe.command or "") & _LIVE)


def _programs(command: str) -> frozenset[str]:
    """The words of a command, paths by their last part."""
    for sign in ";|&'\"()$":
        command = command.replace(sign, " ")
    words = command.split()
    return frozenset(word.rpartition("/")[2] for word in words) | ({"/proc"} if "/proc/" in command else frozenset())


def _is_reader_of(command: str, kind: SourceKind) -> bool:
    return bool(_programs(command) & _RECORDS[kind])


def _is_held(scene: _Scene, command: str) -> bool:
    """True where the input already holds what the command reads, of the culprits where sources name ranks or hosts."""
    case, survey = scene.survey.case, scene.survey
    ranks = set(scene.finding.blamed)
    if _is_reader_of(command, SourceKind.KERNEL_LOG):
        logs = [source for source in case.sources if source.kind is SourceKind.KERNEL_LOG]
        wanted = {host_key(host) for host in survey.hosts_of(ranks)}
        return any(source.host is None or not wanted or host_key(source.host) in wanted for source in logs)
    if _is_reader_of(command, SourceKind.RECORDER):
        return bool(ranks & set(case.dump_rank))
    return _is_reader_of(command, SourceKind.STACKS) and bool(ranks & set(survey.stacks))


def _lead_and_rest(text: str) -> tuple[str, str]:
    """The first sentence, and what follows it."""
    lead, stop, rest = text.strip().partition(". ")
    return sentence(lead), sentence(rest) if stop else ""


_PARTS: dict[str, Callable[[_Scene], Iterable[Step]]] = {
    "check": lambda scene: islice(_checks(scene), 1),
    "checks": _checks,
    "fix": _fixes,
    "cure": _cure,
    "drain": _drain,
    "open": lambda scene: filter(None, (_open(scene),)),
    "lacking": _lacking,
    "files": _files_not_given,
    "again": lambda scene: (Step(StepKind.CHECK, "Look again in 30 s.", _AGAIN, f"sleep 30; {LOOK_HERE}"),),
    "look": _looks_now,
    "if-again": _if_again,
}
_SIGNS: dict[str, Callable[[_Scene], bool]] = {
    "on-its-way": lambda scene: is_on_its_way(
        scene.survey.facts, standing_of(scene.survey.facts.looks, scene.survey.case.world)
    ),
    "unsure": lambda scene: scene.finding.confidence is Confidence.LOW,
    "nobody-named": _is_nobody_named,
    "certain": lambda scene: scene.best.is_certain,
    "frees": lambda scene: any(fix.command and fix.while_ == "running" for fix in scene.best.fix[:1]),
    "drains": lambda scene: scene.is_to_drain,
    "waits-for-person": lambda scene: at_prompt(scene.survey.facts, scene.finding.ranks).holds is True,
    "in-worker": _is_of_worker,
}
