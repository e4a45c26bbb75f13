"""Questions about the finding itself: its class, the stalled call, who waits, when in the job's life."""

from __future__ import annotations

from typing import Annotated, Literal

from nccldoctor.events import DumpNote, DumpSignal, ProcessExit, TearDown
from nccldoctor.model import CauseClass, Confidence, Evidence, Family, Finding
from nccldoctor.model.ranks import Ranks
from nccldoctor.prescribe.conditions.base import Context, OneOf, listed, predicate
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet, excerpt, quoted
from nccldoctor.questions.process import stopped
from nccldoctor.words.lists import and_list
from nccldoctor.words.names import call_title, op_name, ranks_phrase, verb
from nccldoctor.words.numbers import plural

ClassName = Annotated[str, OneOf(tuple(c.value for c in CauseClass))]
FamilyName = Annotated[str, OneOf(tuple(f.value for f in Family))]


def _first_place(evidence: tuple[Evidence, ...]) -> str | None:
    """The place of the first supporting evidence that has one."""
    return next((str(e.where) for e in evidence if e.supports and e.where is not None), None)


def has_unknown_end(finding: Finding, survey: Survey) -> bool:
    """True where nothing shows whether the process of a silent rank was busy, frozen or gone.

    No exit of any rank was read, and neither a stack nor a dump of this one nor its answer to a request for dumps.
    """
    surest = {CauseClass.FROZEN: Confidence.MEDIUM, CauseClass.NOT_ARRIVED: Confidence.LOW}.get(finding.cause)
    is_silent = surest is not None and finding.confidence_in.cause.depth >= surest.depth
    if not is_silent or not finding.ranks or stopped(survey.facts, finding.ranks).holds:
        return False
    if survey.events_of(ProcessExit) or any(end.is_by_launcher for end in survey.events_of(TearDown)):
        return False
    answered = {e.rank for e in survey.case.events.of_kind(DumpSignal, DumpNote)}
    seen = {*survey.stacks, *survey.case.dump_rank, *answered}
    return not seen & set(finding.ranks)


@predicate(weight=0.3)
def finding(context: Context, *, class_: tuple[ClassName, ...] = (), family: tuple[FamilyName, ...] = ()) -> Answer:
    """The finding is of one of these classes or families. A remedy that asks this is offered for such findings only.

    A silent rank of which nothing shows whether it was busy or frozen counts as frozen, too.
    """
    asked = f"the finding is {listed((*class_, *family), 8)}"
    cause = context.finding.cause
    if cause.value in class_ or cause.family.value in family:
        return Met(asked, f"{context.finding.id} is {cause.value}", _first_place(context.finding.evidence))
    if CauseClass.FROZEN.value in class_ and has_unknown_end(context.finding, context.survey):
        return Met(asked, "the rank may have frozen as well", _first_place(context.finding.evidence))
    return Unmet(asked, f"{context.finding.id} is {cause.value}")


def operation(name: str) -> str:
    """One spelling of an operation: ``_ALLGATHER_BASE``, ``all_gather_into_tensor`` and ``ALLGATHER`` are the same."""
    plain = name.upper().replace("_", "").removesuffix("BASE").removesuffix("INTOTENSOR").removesuffix("TENSOR")
    return {"ALLTOALLSINGLE": "ALLTOALL", "ALLREDUCEBARRIER": "ALLREDUCE"}.get(plain, plain)


Numel = Literal["one", "up-to-100", "up-to-10000", "more"]
_NUMEL = {
    "one": (1, 1, "one element"),
    "up-to-100": (2, 100, "2 to 100 elements"),
    "up-to-10000": (101, 10_000, "101 to 10,000 elements"),
    "more": (10_001, 2**62, "more than 10,000 elements"),
}


@predicate(weight=0.25)
def stalled_call(
    context: Context, *, op: tuple[str, ...] = (), numel: tuple[Numel, ...] = (), kind: tuple[str, ...] = ()
) -> Answer:
    """The call that the waiting ranks are in has this operation, number of input elements or kind (``collective``, ``p2p``)."""
    size = f" of {listed(_NUMEL[n][2] for n in numel)}" if numel else ""
    asked = f"the waiting ranks are in {listed(dict.fromkeys(map(op_name, op))) or 'a call'}{size}" + (
        f", {listed(kind)}" if kind else ""
    )
    call = context.finding.stalled
    if call is None:
        return NotCheckable(asked, "the stalled call (a watchdog line or a flight recorder dump)")
    count = call.numel_in
    elements = "unknown size" if count is None else plural(count, "element")
    says = f"{call_title(call.op, call.seq)}, {elements}"
    if op and call.op is None:
        return NotCheckable(asked, "the operation of the stalled call")
    if (op and operation(call.op or "") not in map(operation, op)) or (kind and call.kind not in kind):
        return Unmet(asked, says)
    if numel and count is None:
        return NotCheckable(asked, "the number of elements (old PyTorch doesn't print it, or the line is cut)")
    if numel and not any(_NUMEL[n][0] <= (count or 0) <= _NUMEL[n][1] for n in numel):
        return Unmet(asked, says)
    return Met(asked, says, _first_place(context.finding.evidence))


@predicate(weight=0.25)
def group(context: Context, *, description: tuple[str, ...]) -> Answer:
    """The description or name of the stalled call's group holds one of these words (``dp``, ``expert`` …)."""
    asked = f"the group of the stalled call is named {listed(description)}"
    call = context.finding.stalled
    if call is None or not call.group:
        return NotCheckable(asked, "the name of the group (a flight recorder dump or a watchdog line with its PG)")
    if any(word.lower() in call.group.lower() for word in description):
        return Met(asked, f"the group is {excerpt(call.group)}", _first_place(context.finding.evidence))
    return Unmet(asked, f"the group is {excerpt(call.group)}")


@predicate(weight=0.2)
def waiting(context: Context, *, are: Literal["all-but-one", "some", "all"]) -> Answer:
    """The number of members that wait: all but one, some (two or more are missing), or all of them."""
    asked = {"all-but-one": "all members but one wait", "some": "two or more members never entered the call"}.get(
        are, "all members are in the call"
    )
    call = context.finding.stalled
    is_known = bool(context.finding.ranks) or context.finding.family is Family.INSIDE
    if call is None or not call.entered or not is_known:
        return NotCheckable(asked, "the ranks that entered the stalled call (dumps or logs of all ranks)")
    absent = call.missing | call.unseen
    seen = "all-but-one" if len(absent) == 1 else "some" if absent else "all"
    unseen = f"; no data from {ranks_phrase(call.unseen)}" if call.unseen else ""
    says = f"in the call: {ranks_phrase(call.entered)}; missing: {ranks_phrase(call.missing)}{unseen}"
    return Met(asked, says) if seen == are else Unmet(asked, says)


@predicate(weight=0.2)
def culprit_rank(context: Context, *, is_: Literal["zero", "not-zero"]) -> Answer:
    """The culprit is rank 0, or is not. Work for one rank alone is nearly always rank 0's."""
    asked = "the rank at fault is rank 0" if is_ == "zero" else "the rank at fault isn't rank 0"
    culprits = context.ranks_of("culprit")
    open_ = not context.finding.ranks and len(culprits) > 1 and 0 in culprits
    if not culprits or open_:
        return NotCheckable(asked, "the name of the missing rank (dumps or logs of all ranks)")
    zero = set(culprits) == {0}
    says = f"{context.in_words('culprit')} {verb(culprits, 'is', 'are')} at fault"
    return Met(asked, says) if zero == (is_ == "zero") and (zero or 0 not in culprits) else Unmet(asked, says)


@predicate(weight=0.4)
def culprit_hosts(context: Context, *, are: Literal["one-host", "several-hosts"]) -> Answer:
    """Two or more culprits that are exactly the ranks of one host, or culprits on several hosts."""
    asked = "all ranks of one host are late" if are == "one-host" else "ranks on several hosts are late"
    survey, culprits = context.survey, context.finding.blamed
    if not culprits and are == "several-hosts":
        culprits = Ranks(survey.case.rank_host)
    if not culprits or not set(culprits) <= set(survey.case.rank_host):
        return NotCheckable(asked, "the host of each rank (launcher or NCCL INFO lines)")
    hosts = survey.hosts_of(culprits)
    met = len(hosts) > 1
    if are == "one-host":
        of_hosts = {rank for rank in survey.case.rank_host if set(survey.hosts_of([rank])) & set(hosts)}
        others = len(survey.case.rank_host) > len(of_hosts)
        met = len(hosts) == 1 and len(culprits) > 1 and of_hosts == set(culprits) and others
    says = f"{context.in_words('culprit')} on {listed(hosts)}"
    return Met(asked, says) if met else Unmet(asked, says)


@predicate(weight=0.1)
def world_size(context: Context, *, at_least: int = 0, at_most: int = 2**31) -> Answer:
    """The number of ranks of the job lies between these."""
    asked = f"the job has {at_least} {'ranks or more' if at_most == 2**31 else f'to {at_most} ranks'}"
    size = context.survey.case.world_size
    if size is None:
        return NotCheckable(asked, "the world size")
    return (Met if at_least <= size <= at_most else Unmet)(asked, f"it has {size}")


Moment = Literal["first-call", "first-steps", "late", "epoch-end"]
_MOMENTS = {
    "first-call": "the job stalled at the first call of a group",
    "first-steps": "the job stalled within its first steps",
    "late": "the job had run for many steps",
    "epoch-end": "the job stalled at the end of an epoch",
}


@predicate(weight=0.25)
def moment(context: Context, *, is_: Moment) -> Answer:
    """The job stalled at the first call, within the first steps, at an epoch's end, or late.

    The first call is sequence number 1 or 2; the first steps end at call 100 or step 20; *late* is past call 1,000 or
    step 200.
    """
    asked = _MOMENTS[is_]
    call = context.finding.stalled
    seq = call.seq if call is not None else None
    step, end, place = _progress(context)
    counts = [f"call #{seq}"] * (seq is not None) + [f"step {step}"] * (step is not None)
    says = and_list(counts) or "no step or call number"
    if is_ == "epoch-end":
        if step is None and not end:
            return NotCheckable(asked, "a progress line of any rank")
        return Met(asked, f"the last progress line is {end}", place) if end else Unmet(asked, says)
    if seq is None and step is None:
        return NotCheckable(asked, "the sequence number of the stalled call, or progress lines")
    met = {
        "first-call": seq is not None and seq <= 2 and not step,
        "first-steps": (seq is None or seq <= 100) and (step is None or step <= 20),
        "late": (seq is not None and seq > 1000) or (step is not None and step > 200),
    }[is_]
    return Met(asked, says, place) if met else Unmet(asked, says)


@predicate(weight=0.25)
def first_call_on_few_hosts(context: Context, *, ranks: int) -> Answer:
    """The job stalled at the first call, and so few ranks fit on one or two hosts."""
    size = context.survey.case.world_size
    most = max([*context.survey.case.world, *context.finding.suspects, *context.finding.victims], default=0) + 1
    if max(size or 0, most) > ranks:
        return Unmet(_MOMENTS["first-call"], f"the job has {max(size or 0, most)} ranks or more")
    return moment(context, is_="first-call")


def _progress(context: Context) -> tuple[int | None, str, str | None]:
    """The last step seen before the first complaint, a text if that is an epoch's end, and the place."""
    last, phase = context.survey.last_step, context.survey.last_phase
    step, place = (last.step, str(last.place)) if last is not None else (None, None)
    if last is not None and last.total and last.step is not None and last.step >= 0.97 * last.total:
        return step, f"{last.step} of {last.total}", place
    if phase is not None and phase.what in ("epoch-end", "finished"):
        return step, quoted(phase), str(phase.place)
    return step, "", place


@predicate(weight=0.6)
def also(context: Context, *, class_: tuple[ClassName, ...]) -> Answer:
    """Another finding of one of these classes names one of the same ranks."""
    asked = f"a finding of {listed(class_)} also names {context.in_words('culprit')}"
    for other in context.findings:
        if other.id != context.finding.id and other.cause.value in class_ and other.ranks & context.finding.ranks:
            return Met(asked, f"{other.id} is {other.cause.value}", _first_place(other.evidence))
    return Unmet(asked, "no other finding names that rank")
