"""Diagnoses made by hand: what the reports are tested with."""

from __future__ import annotations

from datetime import UTC, datetime

from builders.diagnoses.fixtures_diagnosis_parts import (
    culprit,
    drifting,
    falling_silent,
    fork,
    logs,
    parting,
    proving,
    skipping,
    stalling,
    state,
    storage,
    telling,
    waiting,
)
from msgspec.structs import replace

from nccldoctor.model import (
    Action,
    Alarm,
    Avoid,
    CauseClass,
    Condition,
    Confidence,
    ConfidenceIn,
    Coverage,
    Diagnosis,
    Evidence,
    Finding,
    Group,
    Job,
    Link,
    Place,
    RankState,
    RemedyAdvice,
    Role,
    Source,
    SourceKind,
    Stalled,
)
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Involvement
from nccldoctor.model.steps import Step, StepKind

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{7*7}}{% raw %}</pre></style>"
    "\x00\x1b[31m\x1b]8;;http://evil.example/\x07\u202egnp.exe\u2066\u200b\ud800\uffff"
)
"""Text that escapes, hides, turns about or does not encode."""

WATCHDOG = (
    "[rank1]:[E1111 03:35:04 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=18723, OpType=ALLREDUCE, NumelIn=6553600, NumelOut=6553600, Timeout(ms)=600000) ran for 600042 "
    "milliseconds before timing out."
)


def healthy() -> Diagnosis:
    """Eight logs without a sign of trouble."""
    finding = Finding(
        "F1",
        CauseClass.NONE,
        ConfidenceIn.same(Confidence.HIGH),
        "No stall or failure was found: all 8 ranks finished.",
        (Evidence(Place(0, "rank_0.log", 90), "training finished", "Rank 0 says that it finished", True, "log:0"),),
        refuted_by="A timeout in a log that was not read.",
    )
    return Diagnosis(
        findings=(finding,),
        remedies=(),
        avoid=(),
        job=Job(8, ("node0",), "2.13.0", None, ()),
        coverage=(Coverage("watchdog logs", Ranks(range(8)), Ranks(range(8))),),
        action=Action("unknown", "nothing is wrong"),
        ranks=tuple(RankState(r, Role.UNINVOLVED, "node0", last_sign="training finished") for r in range(8)),
        sources=logs(8),
    )


def lagging() -> Diagnosis:
    """Rank 5 of 8 hangs in its loader; the stall crosses three groups and rank 4 shouts first."""
    evidence = (
        Evidence(Place(12, "fr/5"), "", "No entry for #18723 on rank 5, started on its peers", True, "dump:5"),
        Evidence(Place(1, "rank_1.log", 812), WATCHDOG, "Rank 1 waited 600 s in the call", True, "log:1"),
        Evidence(Place(3, "rank_3.log", 80), WATCHDOG, "Rank 3 waited 600 s in the call", True, "log:3"),
        Evidence(Place(5, "rank_5.log", 914), "[rank 5] Heartbeat: phase=data", "Rank 5 fetches data", True, "log:5"),
        Evidence(Place(9, "dmesg.txt", 2), "nfs: server stor-03 not responding", "The file server is silent", False),
    )
    finding = Finding(
        "F1",
        CauseClass.NOT_ARRIVED,
        ConfidenceIn.same(Confidence.HIGH),
        "Rank 5 (gpu-a018, GPU 1) never entered ALLREDUCE #18723 of dp_1: it is in its data loader since 03:25:02.",
        evidence,
        ranks=Ranks([5]),
        victims=Ranks(range(8)) - [5],
        stalled=Stalled(
            "ALLREDUCE",
            18723,
            group="dp_1",
            numel_in=6553600,
            numel_out=6553600,
            entered=Ranks([1, 3, 7]),
            missing=Ranks([5]),
            timeout_ms=600000,
            since=datetime(2026, 11, 11, 3, 25, 2, tzinfo=UTC),
            until=datetime(2026, 11, 11, 3, 35, 4, tzinfo=UTC),
        ),
        chain=(
            Link(Ranks([0, 2, 6]), Ranks([4]), "dp_0", "ALLREDUCE", 18723),
            Link(Ranks([4]), Ranks([5]), "tp_2", "ALLREDUCE", 412306),
            Link(Ranks([1, 3, 7]), Ranks([5]), "dp_1", "ALLREDUCE", 18723),
        ),
        refuted_by="An entry for #18723 in the dump of rank 5.",
    )
    groups = (("dp_0", (0, 2, 4, 6)), ("dp_1", (1, 3, 5, 7)), ("tp_2", (4, 5)))
    return Diagnosis(
        findings=(finding,),
        remedies=(storage(), fork()),
        avoid=(Avoid("NCCL_TIMEOUT=1200000", "Neither NCCL nor PyTorch reads it.", "launch.sh:12"),),
        job=Job(
            8,
            ("gpu-a017", "gpu-a018"),
            "2.9.1",
            "2.27.5",
            tuple(Group(n, str(n), desc, Ranks(members), "config") for n, (desc, members) in enumerate(groups)),
        ),
        coverage=(
            Coverage("watchdog logs", Ranks(range(8)), Ranks(range(8))),
            Coverage("flight recorder", Ranks(range(8)), Ranks(range(8)) - [6], ("rank 6: cut off at byte 65,536",)),
        ),
        action=Action(
            "after-replacing-node",
            "Storage hangs on one host.",
            ("gpu-a018",),
            (
                Step(StepKind.DRAIN, "Drain gpu-a018.", "Keep it out of service until checked."),
                Step(StepKind.RESTART, "Restart on other hosts.", "Storage hangs on one host."),
                Step(
                    StepKind.CHECK,
                    "See what the loader's workers wait for.",
                    "It fits if you see `D`.",
                    "ssh gpu-a018 'ps -o pid,stat,wchan:28,cmd --ppid 48213'",
                    "gpu-a018",
                ),
            ),
        ),
        ranks=tuple(state(rank, rank == 5) for rank in range(8)),
        sources=logs(8),
        ruled_out=(
            Condition("Interconnect fault", False, "no transport warning in any log"),
            Condition("GPU fault", None, "no kernel log of gpu-a017"),
        ),
        capture=("export TORCH_FR_BUFFER_SIZE=20000", "export TORCH_NCCL_DUMP_ON_TIMEOUT=1"),
        alarm=Alarm(4, Place(4, "rank_4.log", 7), datetime(2026, 11, 11, 3, 35, 3, tzinfo=UTC)),
        catalogue="42 remedies",
        run_up=drifting(8, 5),
        timeline=stalling(8, 5),
        stacks=parting("train_step"),
        streams=skipping("ALLREDUCE"),
        story=telling("nfs: server stor-03 not responding"),
        standings=(
            culprit(Ranks([5])),
            waiting(Ranks([1, 3, 7]), Ranks([5])),
            waiting(Ranks([4]), Ranks([5]), "tp_2"),
            waiting(Ranks([0, 2, 6]), Ranks([4]), "dp_0", distance=2),
        ),
        proof=proving(WATCHDOG),
        last_lines=falling_silent("[rank 5] Heartbeat: phase=data"),
    )


def undetermined() -> Diagnosis:
    """One rank's log of a job: a timeout, and nobody to blame."""
    finding = Finding(
        "F1",
        CauseClass.UNDETERMINED,
        ConfidenceIn.same(Confidence.CANNOT_TELL),
        "Ranks 1 to 3 cannot be told apart: only the log of rank 0 was read.",
        (Evidence(Place(0, "rank_0.log", 4), WATCHDOG, "Rank 0 waited in the call", True, "log:0"),),
        suspects=Ranks([1, 2, 3]),
        victims=Ranks([0]),
        stalled=Stalled("ALLREDUCE", 7, entered=Ranks([0]), since=datetime(1900, 11, 11, 3, 25, 2)),
        refuted_by="The flight-recorder dumps of ranks 1 to 3.",
    )
    return Diagnosis(
        findings=(finding,),
        remedies=(),
        avoid=(),
        job=Job(None, (), None, None, ()),
        coverage=(Coverage("watchdog logs", Ranks(range(4)), Ranks([0]), ("ranks 1-3: no log",)),),
        action=Action(
            "unknown",
            "We don't know the cause. The missing logs and dumps would show.",
            (),
            (
                Step(
                    StepKind.SEND,
                    "Collect the logs of ranks 1-3.",
                    "",
                    "for h in node0; do scp -r $h:logs logs/$h; done",
                ),
                Step(StepKind.SEND, "Collect the flight recorder dumps of ranks 0-3."),
                Step(StepKind.RESTART, "Don't restart yet.", "We don't know the cause."),
            ),
        ),
        ranks=(RankState(0, Role.WAITING), RankState(1, Role.SUSPECT), RankState(2, Role.SUSPECT)),
        sources=logs(1),
        capture=("export TORCH_FR_BUFFER_SIZE=2000",),
    )


def two_stalls() -> Diagnosis:
    """Two groups stall for reasons of their own."""
    chains = {
        rank: Link(Ranks([rank + 1, rank + 2]), Ranks([rank]), f"dp_{rank}", "ALLGATHER", 40 + rank) for rank in (0, 4)
    }
    parts = tuple(
        Finding(
            f"F{number}",
            CauseClass.DIED,
            ConfidenceIn.same(Confidence.MEDIUM),
            f"Rank {rank} died; its group waits in ALLGATHER #{40 + rank}.",
            (Evidence(None, "", f"Rank {rank} ended by SIGKILL", True, "launcher"),),
            ranks=Ranks([rank]),
            victims=chains[rank].waiting,
            stalled=Stalled("ALLGATHER", 40 + rank, group=f"dp_{rank}", missing=Ranks([rank])),
            chain=(chains[rank],),
        )
        for number, rank in enumerate((0, 4), start=2)
    )
    verdict = Finding(
        "F1",
        CauseClass.DIED,
        ConfidenceIn.same(Confidence.MEDIUM),
        "Ranks 0 and 4 died independently.",
        (*parts[0].evidence, *parts[1].evidence),
        ranks=Ranks([0, 4]),
        victims=Ranks([1, 2, 5, 6]),
        stalled=parts[0].stalled,
        chain=(*parts[0].chain, *parts[1].chain),
    )
    return Diagnosis(
        findings=(verdict, *parts),
        remedies=(),
        avoid=(),
        job=Job(8, (), None, None, ()),
        coverage=(),
        action=Action("now", "ranks were killed from outside"),
        ranks=tuple(RankState(r, Role.CULPRIT if r in (0, 4) else Role.WAITING) for r in range(8)),
        sources=logs(8),
    )


def ring() -> Diagnosis:
    """Two groups called in opposite order: a cycle."""
    finding = Finding(
        "F1",
        CauseClass.ORDER_INVERSION,
        ConfidenceIn.same(Confidence.MEDIUM),
        "Rank 1 calls group B before group A; the others A before B.",
        (Evidence(Place(0, "fr/1", entry=7), "", "B #4 stands before A #9", True, "dump:1"),),
        ranks=Ranks([1]),
        victims=Ranks([0]),
        stalled=Stalled("ALLREDUCE", 9, group="A", entered=Ranks([0]), missing=Ranks([1])),
        chain=(Link(Ranks([0]), Ranks([1]), "A", "ALLREDUCE", 9), Link(Ranks([1]), Ranks([0]), "B", "ALLREDUCE", 4)),
    )
    return Diagnosis(
        findings=(finding,),
        remedies=(),
        avoid=(),
        job=Job(2, (), None, None, ()),
        coverage=(),
        action=Action("after-fix", "the order is in the program"),
        ranks=(RankState(0, Role.WAITING), RankState(1, Role.CULPRIT)),
        standings=(
            replace(waiting(Ranks([1]), Ranks([0]), "B"), involvement=Involvement.CULPRIT, distance=0),
            waiting(Ranks([0]), Ranks([1]), "A"),
        ),
    )


def large(world: int) -> Diagnosis:
    """A 3d layout of ``world`` ranks; every 100th rank was killed, everybody else waits."""
    dead = Ranks(range(7, world, 100))
    victims = Ranks(range(world)) - dead
    groups = tuple(
        Group(n, str(n), f"dp_{n}", Ranks(range(n, world, world // 8)), "config") for n in range(min(world // 8, 512))
    )
    chain = tuple(
        Link(group.members - dead, group.members & dead or Ranks([7]), group.desc, "ALLREDUCE", 900 + group.index)
        for group in groups[:200]
    )
    finding = Finding(
        "F1",
        CauseClass.DIED,
        ConfidenceIn.same(Confidence.HIGH),
        f"{len(dead)} ranks were killed; everybody else waits.",
        tuple(
            Evidence(Place(rank, f"rank_{rank}.log", 9), WATCHDOG, f"Rank {rank} waits", True, f"log:{rank}")
            for rank in victims
        ),
        ranks=dead,
        victims=victims,
        stalled=Stalled("ALLREDUCE", 900, group="dp_0", entered=groups[0].members - dead, missing=dead),
        chain=chain,
    )
    return Diagnosis(
        findings=(finding,),
        remedies=(storage(),) * 20,
        avoid=(),
        job=Job(world, tuple(f"node{n}" for n in range(world // 8)), "2.9.1", None, groups),
        coverage=(Coverage("watchdog logs", Ranks(range(world)), victims, tuple(f"rank {r}: none" for r in dead)),),
        action=Action("after-replacing-node", "", tuple(f"node{r // 8}" for r in dead)),
        ranks=tuple(
            RankState(
                rank,
                Role.CULPRIT if rank in dead else Role.WAITING,
                f"node{rank // 8}",
                f"GPU {rank % 8}",
                4000 + rank,
                f"dp_{rank % (world // 8)}",
                899,
                899 if rank in dead else 900,
                None if rank in dead else "ALLREDUCE #900",
                "watchdog timeout",
                Place(rank, f"rank_{rank}.log", 9),
            )
            for rank in range(world)
        ),
        sources=logs(world),
        run_up=drifting(world, 7),
        timeline=stalling(16, 7),
        stacks=parting("train_step"),
        streams=skipping("ALLREDUCE"),
        story=(*telling("watchdog timeout"), *telling("watchdog timeout")[1:] * 18),
        standings=(culprit(dead, "node0"), waiting(victims, dead)),
        proof=proving(WATCHDOG),
    )


def hostile() -> Diagnosis:
    """Everywhere a text of the input can stand, :data:`HOSTILE` stands; the quote is 1 MB long."""
    text = HOSTILE
    place = Place(0, text, 3)
    finding = Finding(
        "F1",
        CauseClass.NOT_ARRIVED,
        ConfidenceIn.same(Confidence.LOW),
        text,
        (
            Evidence(place, text + "A" * 1_000_000, text, True, text),
            Evidence(place, "HF_TOKEN=hf_verysecret", text, False, text),
        ),
        ranks=Ranks([1]),
        victims=Ranks([0]),
        stalled=Stalled(text, 5, group=text, dtype=text, entered=Ranks([0]), missing=Ranks([1])),
        chain=(Link(Ranks([0]), Ranks([1]), text, text, 5),),
        refuted_by=text,
    )
    remedy = RemedyAdvice(
        "dataloader-stall",
        text,
        "F1",
        "strong",
        1,
        2,
        (f"`ssh {text}`", text),
        (f"Drain **{text}** [link](javascript:alert(1)) ![i](http://evil.example/i.png)",),
        (text,),
        (Avoid(text, text),),
        (f"https://example.org/{text}", "javascript:alert(1)"),
        summary=text,
        topic=text,
        checks=(Condition(text, True, text, text), Condition(text, None, text)),
    )
    return Diagnosis(
        findings=(finding,),
        remedies=(remedy,),
        avoid=(Avoid(text, text, text),),
        job=Job(2, (text,), text, text, (Group(0, text, text, Ranks([0, 1]), "config"),)),
        coverage=(Coverage(text, Ranks([0, 1]), Ranks([0]), (text,)),),
        action=Action("unknown", text, (text,)),
        ranks=(
            RankState(0, Role.WAITING, text, text, 1, text, 4, 5, text, text, place),
            RankState(1, Role.CULPRIT, text, text, 2, text, 4, 4, None, text, place),
        ),
        sources=(Source(0, text, SourceKind.LOG, 10),),
        ruled_out=(Condition(text, False, text, text),),
        capture=(text,),
        alarm=Alarm(0, place),
        catalogue=text,
        run_up=drifting(2, 1, text),
        timeline=stalling(2, 1, text),
        stacks=parting(text),
        streams=skipping(text),
        story=telling(text, text, text),
        standings=(culprit(Ranks([1]), text, text), waiting(Ranks([0]), Ranks([1]), text, text)),
        proof=proving(text, text),
        last_lines=falling_silent(text, text),
    )


EVERY = (healthy, lagging, undetermined, two_stalls, ring, hostile)
"""All small ones, for tests that hold for any diagnosis."""
