"""What a reader is told to get where the evidence does not tell, and how surely sizes and agreement are stated."""

import pytest
from builders.diagnoses import fixtures_diagnoses
from msgspec.structs import replace

from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Coverage, Evidence, Group
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import html, json_document, text, ticket
from nccldoctor.reports.dialects import MD
from nccldoctor.reports.page import facts
from nccldoctor.reports.parts import missing_inputs, wording
from nccldoctor.reports.parts.independent_sources import source_names
from nccldoctor.words import names

EIGHT = Ranks(range(8))


def cannot_tell(*rows, world=8):
    made = fixtures_diagnoses.undetermined()
    return replace(made, coverage=rows, job=replace(made.job, world_size=world))


def test_what_is_missing_is_named_with_the_place_where_it_lies():
    found = cannot_tell(Coverage("flight recorder", EIGHT, Ranks([0, 1])), Coverage("logs", EIGHT, Ranks(range(7))))

    dumps, logs = missing_inputs.wanted(found)

    assert dumps.what == "flight-recorder dumps of ranks 2-7"
    assert "TORCH_FR_DUMP_TEMP_FILE" in dumps.where and "/tmp/nccl_trace_rank_<N>" in dumps.where
    assert logs.what == "logs of rank 7"
    assert "--log-dir" in logs.where


def test_of_a_job_of_unknown_size_the_others_are_asked_for():
    found = cannot_tell(
        Coverage("flight recorder", Ranks(), Ranks()), Coverage("logs", Ranks(), Ranks([3])), world=None
    )

    assert [item.what for item in missing_inputs.wanted(found)] == [
        "flight-recorder dumps of each rank",
        "logs of ranks other than 3",
    ]


def test_nothing_is_asked_for_where_all_is_there_or_the_answer_is_known():
    whole = cannot_tell(Coverage("flight recorder", EIGHT, EIGHT), Coverage("logs", EIGHT, EIGHT))

    assert missing_inputs.wanted(whole) == ()
    assert missing_inputs.wanted(fixtures_diagnoses.lagging()) == ()
    assert missing_inputs.wanted(fixtures_diagnoses.healthy()) == ()


@pytest.mark.parametrize(
    "render", [lambda d: text.plain(d, width=120, ascii_only=False), html.page, lambda d: ticket.in_dialect(d, MD)]
)
def test_every_report_says_what_is_missing_before_anything_else(render):
    out = render(fixtures_diagnoses.undetermined())

    assert "Collect the logs of ranks 1-3." in out
    assert "for h in node0; do scp -r $h:logs logs/$h; done" in out
    assert out.index("Collect the logs") < out.index("Don't restart yet") if "Don't restart yet" in out else True


def test_the_summary_says_what_was_read_instead():
    found = cannot_tell(
        Coverage("flight recorder", EIGHT, Ranks(), ("fr/7: holds no entries",)), Coverage("logs", EIGHT, Ranks([0]))
    )

    assert missing_inputs.input_line(found) == "1 file: flight recorder 0 of 8, logs 1 of 8; 1 note"
    assert missing_inputs.input_problems(found) == "fr/7: holds no entries"


def test_who_arrived_is_said_as_surely_as_the_size_is_known():
    made = fixtures_diagnoses.lagging()
    call = replace(made.verdict.stalled, group="0", entered=Ranks([1, 3]), missing=Ranks([0, 2]))
    default = Group(0, "0", "", Ranks(range(4)), "assumed")
    told = replace(made, job=replace(made.job, world_size=4, groups=(replace(default, learned="world"),)))
    guessed = replace(made, job=replace(told.job, world_guessed=True, groups=(replace(default, learned="listed"),)))
    unknown = replace(made, job=replace(told.job, world_size=None, groups=(default,)))

    assert wording.arrived(told, call) == "2 of 4 ranks arrived"
    assert wording.arrived(guessed, call) == "2 of 4 known ranks arrived"
    assert wording.arrived(unknown, call) == "2 ranks arrived (group size unknown)"
    assert wording.arrived(told, replace(call, group=None)) == "2 of 4 ranks arrived"
    assert (
        wording.arrived(told, replace(call, group=None, missing=Ranks([0]))) == "2 ranks arrived (group size unknown)"
    )
    assert facts.job_line(told)[0] == "4 ranks"
    assert facts.job_line(guessed)[0] == "4 ranks (rank 3 is the highest seen)"


def test_ranks_that_say_the_same_of_one_call_are_one_kind_of_evidence():
    made = fixtures_diagnoses.lagging().verdict
    peers = tuple(Evidence(None, "", f"rank {rank} gave up", True, f"log:{rank}") for rank in (1, 2, 3))
    own = Evidence(None, "", "its last call", True, "dump:5")

    assert source_names(replace(made, evidence=peers)) == ("peers' logs",)
    assert source_names(replace(made, evidence=(*peers, own))) == ("rank 5's flight recorder", "peers' logs")
    assert wording.confidence_words(
        replace(made, evidence=peers, confidence_in=ConfidenceIn.same(Confidence.MEDIUM))
    ) == ("medium, 1 source: peers' logs")


def test_where_nobody_is_named_the_ranks_that_testify_are_one_source():
    made = fixtures_diagnoses.lagging().verdict
    peers = tuple(Evidence(None, "", f"rank {rank} is in the call", True, f"dump:{rank}") for rank in (1, 2, 3))

    found = replace(made, ranks=Ranks(), evidence=peers)

    assert wording.confidence_words(found) == "high, 1 source: flight recorder"


def test_a_rank_that_nobody_names_has_no_confidence_of_its_own():
    made = replace(fixtures_diagnoses.lagging().verdict, ranks=Ranks())

    found = replace(made, confidence_in=ConfidenceIn(Confidence.HIGH, Confidence.MEDIUM))

    assert "for the rank" not in wording.confidence_words(found)


def test_a_limit_is_said_to_have_run_out_only_where_somebody_complained():
    made = fixtures_diagnoses.lagging()
    call = replace(made.verdict.stalled, since=None, until=None)
    found = replace(made, findings=(replace(made.verdict, stalled=call),))

    assert "the first timed out after 10 min" in wording.summary(found)
    assert "timeout" not in wording.summary(replace(found, alarm=None))


def test_the_parts_of_a_verdict_are_not_told_again():
    made = fixtures_diagnoses.two_stalls()
    verdict, first, second = made.findings
    one_call = tuple(replace(part, stalled=verdict.stalled) for part in (first, second))

    alone = text.plain(replace(made, findings=(verdict, *one_call)), width=100, ascii_only=False)
    assert "F2" not in alone and "F3" not in alone
    assert "F2" in text.plain(made, width=100, ascii_only=False)
    assert "F3" in text.plain(made, width=100, ascii_only=False), "another call is another story"


@pytest.mark.parametrize(
    "render",
    [
        lambda d: text.plain(d, width=200, ascii_only=False),
        html.page,
        html.card,
        lambda d: ticket.in_dialect(d, MD),
        json_document.to_json,
    ],
)
def test_every_report_says_loudly_what_the_answer_does_not_rest_on(render):
    note = "job1.log: a different run: kept apart"

    assert note in render(replace(fixtures_diagnoses.lagging(), notices=(note,))).replace("`", "")


@pytest.mark.parametrize(
    ("label", "name"), [("dp_1", "dp_1"), ("3", "group 3"), ("#3", "group #3"), ("tp (4)", "tp 4")]
)
def test_a_group_that_is_a_number_is_called_a_group(label, name):
    assert names.group_title(label) == name


def test_a_clean_run_says_what_was_read_and_nothing_of_a_page_that_is_not_there():
    out = text.plain(fixtures_diagnoses.healthy(), width=100, ascii_only=False)

    assert "= input: 8 files" in out
    assert "overage" not in out


def test_of_a_job_of_unknown_size_nobody_says_that_everybody_is_in_the_call():
    made = fixtures_diagnoses.undetermined()
    call = replace(made.verdict.stalled, missing=Ranks())
    found = replace(
        made.verdict,
        cause=CauseClass.UNFINISHED,
        confidence_in=ConfidenceIn.same(Confidence.LOW),
        suspects=Ranks(),
        stalled=call,
    )
    told = replace(made, findings=(found,), coverage=(Coverage("logs", Ranks(), Ranks([0])),))

    assert wording.situation(told) == "Every known rank is in the call"
    assert missing_inputs.named(told) == "logs of ranks other than 0"


def test_a_call_without_an_operation_is_a_call():
    assert [names.call_title(None, 7), names.call_title(None, None)] == ["call #7", "call"]
