"""Headlines of the answers that need one of their own, and the words beside them."""

from __future__ import annotations

import pytest
from builders.diagnoses import fixtures_diagnoses
from builders.jobs.cases import Log, RecordedRank, facts, said, world
from msgspec.structs import replace

from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.diagnose.headlines import describe_no_data, with_headline
from nccldoctor.diagnose.phrases.headline import Headline, joined, several, together, whole, with_sentence
from nccldoctor.diagnose.phrases.say import headline_of
from nccldoctor.events import Heartbeat
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Diagnosis, Finding, Gap, SourceKind
from nccldoctor.model.findings import stalls_of
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import html
from nccldoctor.reports.parts import wording
from nccldoctor.words.sentences import essentials


def verdict_of(*recorded_ranks: RecordedRank, logs: tuple[Log, ...] = ()) -> Finding:
    aligned = facts(*recorded_ranks, logs=logs)
    return with_headline(diagnose(aligned).findings, aligned.case)[0]


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ((), "No files found"),
        ((SourceKind.EMPTY, SourceKind.EMPTY), "All 2 files are empty."),
        ((SourceKind.EMPTY,), "The one file given is empty."),
        ((SourceKind.UNKNOWN,), "Unknown format: 1 file checked"),
        ((SourceKind.UNREADABLE, SourceKind.EMPTY), "Unknown format"),
        ((SourceKind.LOG, SourceKind.UNKNOWN), "Not enough data: 2 files checked"),
    ],
)
def test_why_files_tell_nothing(kinds: tuple[SourceKind, ...], words: str) -> None:
    assert describe_no_data(kinds).startswith(words)


def test_a_file_of_which_nothing_is_left_is_not_called_missing() -> None:
    damaged = Gap("a.log.bz2", "damaged (EOFError): what came before it was read", lost=True)
    assert describe_no_data((), (damaged,)).startswith("Nothing was readable: a.log.bz2 is damaged")
    assert describe_no_data((), (Gap(".git", "hidden, skipped"),)).startswith("No files found")


def test_a_log_that_says_nothing_is_not_enough() -> None:
    assert verdict_of(logs=(Log("notes.txt"),)).headline.startswith("Not enough data")


def test_where_something_is_known_the_rule_words_it() -> None:
    aligned = facts(logs=(Log("0.log", (said(Heartbeat, 0, 1.0, step=3),), rank=0),))
    findings = diagnose(aligned).findings
    assert with_headline(findings, aligned.case) == findings


def never(rank: int, call: str, detail: str = "") -> Headline:
    return Headline(f"Rank {rank} (node{rank})", f"never reached {call}", detail)


LONG = "ALLREDUCE #90112 of DATA_PARALLEL_GROUP 7"


LOAD, BATCH = "it was in load (data.py:3)", "it was in load_batch (data.py:3)"


@pytest.mark.parametrize(
    ("who", "call", "detail", "told"),
    [
        ("rank 1 (node0)", "ALLREDUCE #9", LOAD, f"Rank 1 (node0) never reached ALLREDUCE #9: {LOAD}."),
        (
            "rank 1 (a-host.of-a-long.name)",
            "ALLREDUCE #9 of TP 1",
            LOAD,
            f"Rank 1 never reached ALLREDUCE #9 of TP 1: {LOAD}.",
        ),
        ("rank 1 (node0)", LONG, BATCH, f"Rank 1 never reached {LONG}: it was in load_batch."),
        ("rank 1 (killed by SIGABRT)", LONG, BATCH, f"Rank 1 (killed by SIGABRT) never reached {LONG}."),
        ("local rank 1 (node0, pid 7)", LONG, BATCH, f"Local rank 1 (node0, pid 7) never reached {LONG}."),
    ],
)
def test_a_headline_that_is_too_long_leaves_hosts_out_first_and_then_places(who, call, detail, told) -> None:
    assert Headline(who, f"never reached {call}", detail, briefs=("",)).sure == told


def test_lines_of_code_stay_where_nothing_else_tells_two_sides_apart() -> None:
    sides = "rank 0 at main (train_the_model.py:33), ranks 1-7 at main (train_the_model.py:41)"
    assert sides in Headline("ranks", "made different calls at the same time", sides).sure
    assert sides in Headline(f"ranks waited: {sides}", "", "nothing else is known", briefs=("",)).sure


def test_the_shorter_detail_is_told_where_the_whole_one_has_no_room() -> None:
    briefs = ("OSError: disk quota exceeded", "OSError at train.py:9")
    whole_message = "OSError: could not write a shard of the checkpoint to the file system: disk quota exceeded"
    headline = Headline("rank 3", "crashed", whole_message, briefs=briefs)
    assert headline.sure == "Rank 3 crashed: OSError: disk quota exceeded."
    assert (
        replace(headline, did=f"crashed before {LONG}").sure == f"Rank 3 crashed before {LONG}: OSError at train.py:9."
    )


def test_a_sentence_without_room_is_left_out() -> None:
    first = f"Ranks 0-3, 5-7 timed out in {LONG}"
    assert whole(f"{first}. The log doesn't show which rank they waited for.").sure == f"{first}."
    assert with_sentence("Rank 5 (node1) skipped ALLREDUCE #7.", "Only rank 5 printed loss=nan.").endswith("loss=nan.")
    assert (
        with_sentence(f"Rank 5 skipped {LONG}.", "Only rank 5 printed loss=nan in step 4.") == f"Rank 5 skipped {LONG}."
    )


@pytest.mark.parametrize(
    ("message", "first", "cause"),
    [
        ("unable to open shared memory object </torch_1> in read-write mode: Too many open files (24)", None, "Too many open files (24)"),
        ("[Errno 2] No such file or directory: 'shard_4.idx'", "No such file or directory: 'shard_4.idx'", "No such file or directory"),
        ("connect returned Connection refused, retrying (3/34)", None, "connect returned Connection refused"),
        ("DataLoader worker (pid 7) is killed by signal: Killed", None, "DataLoader worker (pid 7) is killed by signal"),
        ("It broke. This error indicates a bug", "It broke", "It broke"),
        ("ncclCommInitRank(a, b) failed (on 0: node1): system error", None, "system error"),
        ("GPU node-4 faulted (agent: 0x5) at 0x7f", None, "GPU node-4 faulted (agent: 0x5) at 0x7f"),
        ("No key: Proxy-Authorization: Basic 50horse", "No key: Proxy-Authorization: Basic ***", "Basic ***"),
    ],
)  # fmt: skip
def test_the_essentials_of_a_message_are_its_first_sentence_and_its_cause(message, first, cause) -> None:
    assert essentials(message) == (first or message, cause)


def test_several_stalls_are_counted_and_named() -> None:
    apart = [never(0, "ALLREDUCE #7 of TP 0", "it was in load (data.py:3)"), never(4, "ALLREDUCE #9 of TP 1")]
    assert several(apart).sure == (
        "2 independent hangs: Rank 0 never reached ALLREDUCE #7 of TP 0; Rank 4 never reached ALLREDUCE #9 of TP 1."
    )
    assert several(apart).unsure.startswith("Probably 2 independent hangs: ")
    assert several([never(rank, f"ALLREDUCE #{rank}") for rank in range(9)]).sure.endswith("; 6 more.")


def test_ranks_that_did_the_same_in_one_call_make_one_sentence() -> None:
    alike = [never(0, "ALLREDUCE #7"), never(4, "ALLREDUCE #7")]
    both = joined(alike, "Ranks 0, 4")
    assert both is not None and both.sure == "Ranks 0, 4 never reached ALLREDUCE #7."
    killed = [Headline(f"Rank {rank}", "killed by SIGKILL", be="was") for rank in (0, 4)]
    both = joined(killed, "Ranks 0, 4")
    assert both is not None and both.unsure == "Ranks 0, 4 were probably killed by SIGKILL."
    assert joined([never(0, "ALLREDUCE #7"), never(4, "ALLREDUCE #8")], "Ranks 0, 4") is None
    assert (
        "Rank 0 (node0) never reached ALLREDUCE #7 and Rank 4"
        in together([never(0, "ALLREDUCE #7"), never(4, "#8")]).sure
    )


HIGH, MEDIUM = Confidence.HIGH, Confidence.MEDIUM


@pytest.mark.parametrize(
    ("ranks", "cause", "is_reached_hedged", "is_killed_hedged"),
    [(HIGH, HIGH, False, False), (HIGH, MEDIUM, False, True), (MEDIUM, HIGH, True, True), (MEDIUM, MEDIUM, True, True)],
)
def test_a_headline_is_hedged_where_what_it_states_is_not_sure(
    ranks: Confidence, cause: Confidence, is_reached_hedged: bool, is_killed_hedged: bool
) -> None:
    """*Never reached* names the rank alone; *killed* says what became of it."""
    sure = ConfidenceIn(ranks, cause)
    reached = headline_of(
        "absent.never-reached", who="rank 1 (node1)", call="ALLREDUCE #9", doing="it was in load (data.py:3)"
    ).said(sure)
    killed = Headline("rank 1", "killed by SIGKILL", be="was").said(sure)

    hedge = "probably " if is_reached_hedged else ""
    assert reached == f"Rank 1 (node1) {hedge}never reached ALLREDUCE #9: it was in load (data.py:3)."
    assert killed == ("Rank 1 was probably killed by SIGKILL." if is_killed_hedged else "Rank 1 was killed by SIGKILL.")
    assert whole("Nothing failed.").said(sure) == "Nothing failed."


def test_several_ranks_state_their_class_where_one_of_them_does() -> None:
    class_open = ConfidenceIn(HIGH, MEDIUM)
    late = headline_of("absent.never-reached", who="rank 1", call="ALLREDUCE #9", doing="")
    dead = Headline("rank 2", "killed by SIGKILL", be="was")

    assert "robably" not in several([late, late]).said(class_open)
    assert "robably" in several([late, dead]).said(class_open)
    assert joined([late, dead], "Ranks 1, 2") is None


def test_two_ranks_missing_in_one_call_are_one_stall() -> None:
    two = fixtures_diagnoses.two_stalls()
    same = tuple(replace(f, stalled=two.verdict.stalled) for f in two.findings[1:])
    assert wording.situation(replace(two, findings=(two.verdict, *same))) != "2 independent hangs"


def test_one_stall_of_two_ranks_is_not_two() -> None:
    two = fixtures_diagnoses.two_stalls()
    overlapping = tuple(replace(f, ranks=Ranks([0])) for f in two.findings[1:])
    assert stalls_of((two.findings[0], *overlapping)) == ()
    assert stalls_of(fixtures_diagnoses.lagging().findings) == ()


def test_a_real_job_with_one_culprit_keeps_its_headline() -> None:
    team = world(3)
    found = verdict_of(
        *(RecordedRank(r, team).calls(3).call(done=False) for r in range(2)), RecordedRank(2, team).calls(3)
    )
    assert "independent" not in found.headline


def of(cause: CauseClass, **more: object) -> Diagnosis:
    base = fixtures_diagnoses.lagging()
    return replace(base, findings=(replace(base.findings[0], cause=cause, **more),))  # type: ignore[arg-type]


def test_the_situation_in_words() -> None:
    inside = fixtures_diagnoses.lagging().findings[0].stalled
    assert inside is not None
    whole = replace(inside, entered=Ranks([1, 3, 5, 7]), missing=Ranks())
    cases = (
        (fixtures_diagnoses.healthy(), "Clean run"),
        (replace(fixtures_diagnoses.undetermined(), ranks=()), "Not enough data"),
        (fixtures_diagnoses.undetermined(), "at least 3 suspects"),
        (fixtures_diagnoses.two_stalls(), "2 independent hangs"),
        (of(CauseClass.DIED), "A crash, not a hang"),
        (of(CauseClass.RAISED), "A crash, not a hang"),
        (of(CauseClass.SIZE_MISMATCH), ""),
        (of(CauseClass.UNFINISHED, stalled=whole), "Every rank is in the call"),
        (of(CauseClass.UNFINISHED), ""),
        (of(CauseClass.FROZEN), ""),
        (fixtures_diagnoses.lagging(), ""),
        (
            of(CauseClass.NONE, confidence_in=ConfidenceIn.same(Confidence.LOW)),
            "No problem found, but not fully proved",
        ),
    )
    for found, words in cases:
        assert wording.situation(found) == words
        assert not words or words in html.page(found)
