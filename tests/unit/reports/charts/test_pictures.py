"""Every picture of the page draws the same incident: its culprits, its stalled call, and who waits for whom."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from builders.diagnoses import fixtures_diagnoses
from builders.diagnoses.bundled import SAMPLES, incident
from msgspec.structs import replace

from nccldoctor.model import CauseClass, Diagnosis, EventRole, Family, Group
from nccldoctor.model.figures import (
    BrokenLink,
    CallDiff,
    CallDiffRow,
    CallField,
    FieldDiff,
    IssuedCall,
    LinkEnd,
    SnapshotRow,
    Snapshots,
)
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Involvement, Standing, WaitedCall
from nccldoctor.model.steps import JobEnd, JobState
from nccldoctor.reports import html
from nccldoctor.reports.charts.call_strip import strip_picture
from nccldoctor.reports.charts.chain import BOXES, ChainPicture, chain_picture
from nccldoctor.reports.charts.crossed import CrossedCalls, crossed_calls
from nccldoctor.reports.charts.group_map import group_map
from nccldoctor.reports.charts.link import LinkPicture, link_picture
from nccldoctor.reports.charts.rank_map import rank_map
from nccldoctor.reports.charts.stall import StallPicture, stall_picture
from nccldoctor.reports.charts.text_width import width_of
from nccldoctor.reports.page import view
from nccldoctor.reports.page.first_picture import FieldTable, FirstPicture, SnapshotTable, first_picture
from nccldoctor.reports.parts.tones import CROWD, Tone, tone_of

MISMATCHES = (CauseClass.OP_MISMATCH, CauseClass.SIZE_MISMATCH, CauseClass.DTYPE_MISMATCH)


def ranks_in(picture: FirstPicture) -> Ranks:
    """All ranks that the picture names."""
    drawing = picture.drawing
    if isinstance(drawing, ChainPicture):
        return Ranks(r for box in drawing.boxes for r in Ranks.parse(box.key))
    if isinstance(drawing, LinkPicture):
        return Ranks(r for box in drawing.boxes for r in Ranks.parse(box.key))
    if isinstance(drawing, StallPicture):
        return Ranks(r for bar in drawing.bars for r in Ranks.parse(bar.key))
    if isinstance(drawing, CrossedCalls):
        return Ranks([drawing.left, drawing.right])
    labels = drawing.sides if isinstance(drawing, FieldTable) else [row[0] for row in drawing.rows]
    texts = (label.removeprefix("ranks ").removeprefix("rank ") for label in labels)
    return Ranks(r for text in texts for r in Ranks.parse(text.replace(" ", "")))


def named(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.family not in (Family.NONE, Family.UNDETERMINED)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_first_picture_shows_every_culprit_and_the_stalled_call(name: str) -> None:
    diagnosis = incident(name).diagnosis
    picture = view.build(diagnosis).first
    if picture is None:
        return
    call = diagnosis.verdict.stalled
    assert diagnosis.verdict.ranks <= ranks_in(picture)
    if call is not None and call.seq is not None and not isinstance(picture.drawing, LinkPicture | SnapshotTable):
        page = html.page(diagnosis)
        figure = page[page.index('<figure class="first">') : page.index("</figure>")]
        assert f"#{call.seq}" in figure


@pytest.mark.parametrize("name", SAMPLES)
def test_the_slot_is_empty_only_where_nobody_is_named_or_nobody_waits(name: str) -> None:
    diagnosis = incident(name).diagnosis
    waits = any(s.distance for s in diagnosis.standings)

    assert (view.build(diagnosis).first is not None) is (named(diagnosis) and waits)


@pytest.mark.parametrize("name", SAMPLES)
def test_bars_and_rows_show_every_culprit(name: str) -> None:
    diagnosis = incident(name).diagnosis
    culprits = diagnosis.verdict.ranks
    page = view.build(diagnosis)
    for keys in (
        [bar.key for bar in page.stall.bars] if page.stall else None,
        [row.ranks for row in page.ranks] if page.ranks else None,
    ):
        assert keys is None or culprits <= Ranks(r for key in keys for r in Ranks.parse(key))


@pytest.mark.parametrize("name", [n for n in SAMPLES if n.endswith("-mismatch") or n == "shotgun"])
def test_the_picture_of_a_mismatch_shows_a_difference_and_states_no_equality(name: str) -> None:
    diagnosis = incident(name).diagnosis
    picture = view.build(diagnosis).first

    assert diagnosis.verdict.cause in MISMATCHES
    assert picture is not None
    assert isinstance(picture.drawing, FieldTable)
    differing = [values for _, values, differs in picture.drawing.rows if differs]
    assert differing
    assert all(values[-1] not in values[:-1] for values in differing)
    assert "issued the same calls" not in html.page(diagnosis)


@pytest.mark.parametrize("name", ["dtype-mismatch", "op-mismatch", "size-mismatch"])
def test_the_strip_of_a_mismatch_marks_the_stalled_call_of_the_culprit(name: str) -> None:
    diagnosis = incident(name).diagnosis
    drawing = strip_picture(diagnosis.strip)

    assert drawing is not None
    assert diagnosis.verdict.stalled is not None
    assert [head.seq for head in drawing.heads if head.is_stalled] == [f"#{diagnosis.verdict.stalled.seq}"]
    assert [box.kind for box in drawing.boxes].count("differs") == 1
    assert drawing.labels[-1][2] == str(diagnosis.verdict.ranks)


@pytest.mark.parametrize("name", SAMPLES)
def test_chain_and_table_agree_on_who_waits(name: str) -> None:
    """Who is a victim of the verdict waits in every picture, and who waits in a picture is nobody's bystander."""
    diagnosis = incident(name).diagnosis
    waiting = Ranks(
        r for s in diagnosis.standings if s.involvement in (Involvement.WAITING, Involvement.BLOCKED) for r in s.ranks
    )
    blamed = diagnosis.verdict.ranks | diagnosis.verdict.suspects
    if named(diagnosis):
        assert diagnosis.verdict.victims - blamed <= waiting
    chain = chain_picture(diagnosis.standings)
    if chain is not None:
        drawn = Ranks(r for box in chain.boxes for r in Ranks.parse(box.key))
        assert waiting <= drawn
    waited_for = Ranks(r for s in diagnosis.standings for r in s.waits_for)
    bystanders = Ranks(r for s in diagnosis.standings if s.involvement is Involvement.UNINVOLVED for r in s.ranks)
    assert not waited_for & bystanders


@pytest.mark.parametrize("name", SAMPLES)
def test_every_rank_stands_in_one_row(name: str) -> None:
    diagnosis = incident(name).diagnosis
    ranks = [rank for standing in diagnosis.standings for rank in standing.ranks]

    assert sorted(ranks) == [state.rank for state in diagnosis.ranks]


def test_calls_that_two_ranks_issued_in_another_order_are_drawn_as_crossing_lines() -> None:
    picture = view.build(incident("order-inversion").diagnosis).first
    assert picture is not None
    drawing = picture.drawing
    assert isinstance(drawing, CrossedCalls)

    assert drawing.is_swapped
    assert [joint.crosses for joint in drawing.joints].count(True) == 2
    assert len({box.title for box in drawing.boxes if box.differs}) == 2
    assert [box.state for box in drawing.boxes if box.x] == ["done", "done", "waiting", "queued"]


def call(seq: int, op: str = "ALLREDUCE", *, done: bool = True) -> IssuedCall:
    return IssuedCall(op, "default_pg (0)", seq, "step (train.py:9)", "64", done)


def test_a_skipped_call_leaves_an_empty_slot_in_its_place() -> None:
    rows = (
        CallDiffRow(call(6), call(6), "same"),
        CallDiffRow(None, call(7, done=False), "right-only"),
        CallDiffRow(call(7, "ALLGATHER", done=False), call(8, "ALLGATHER", done=False), "same"),
    )
    drawing = crossed_calls(CallDiff(5, 0, rows))

    assert not drawing.is_swapped
    assert [box.title for box in drawing.boxes] == [
        *("ALLREDUCE #6", "ALLREDUCE #7", "ALLGATHER #8"),
        *("ALLREDUCE #6", "no call", "ALLGATHER #7"),
    ]
    assert [box.is_empty for box in drawing.boxes].count(True) == 1
    assert len(drawing.joints) == 2
    assert {box.y for box in drawing.boxes if box.differs} == {62}


def standing(ranks: Ranks, distance: int, waits_for: Ranks, seq: int) -> Standing:
    part = (Involvement.CULPRIT, Involvement.WAITING, *[Involvement.BLOCKED] * 9)[distance]
    waited = WaitedCall("dp", "ALLREDUCE", seq, (f"dp_{seq}",)) if distance else None
    return Standing(ranks, part, (), waited, waits_for, distance=distance)


def test_a_chain_of_any_size_folds_to_a_few_boxes_and_loses_nobody() -> None:
    rows = [standing(Ranks([0]), 0, Ranks(), 0)]
    rows += [standing(Ranks(range(n * 100, n * 100 + 50)), 1 + n % 6, Ranks([0]), n) for n in range(1, 24)]
    drawing = chain_picture(rows)

    assert drawing is not None
    assert len(drawing.boxes) <= BOXES
    drawn = Ranks(r for box in drawing.boxes for r in Ranks.parse(box.key))
    assert drawn == Ranks(r for s in rows for r in s.ranks)
    assert max(box.x for box in drawing.boxes) + drawing.box_width == drawing.width <= 612


def test_a_wait_that_only_a_stack_shows_is_a_dashed_arrow() -> None:
    drawing = chain_picture([standing(Ranks([0]), 0, Ranks(), 0), standing(Ranks([1]), 1, Ranks(), 3)])

    assert drawing is not None
    assert [arrow.is_recorded for arrow in drawing.arrows] == [False]


def end(host: str, ranks: Ranks, *reports: str) -> LinkEnd:
    return LinkEnd(host, "10.0.3.11", ranks, "mlx5_2 port 1", reports)


def test_a_broken_link_shows_both_hosts_and_the_error_between_them() -> None:
    found = BrokenLink(end("a3", Ranks([10]), "port error"), end("a1", Ranks([2]), "timed out"), "timed out")
    drawing = link_picture(found, Ranks([10]))

    assert [(box.title, box.is_culprit) for box in drawing.boxes] == [("a3", True), ("a1", False)]
    assert drawing.boxes[0].details == ("rank 10 · mlx5_2 port 1", "port error", "10.0.3.11")
    assert "reported this error" in drawing.boxes[1].details
    assert drawing.error == ("timed out",)


def test_an_end_without_a_name_or_a_report_says_so() -> None:
    found = BrokenLink(end("a3", Ranks([10]), "refused"), LinkEnd("", "", Ranks(), "", ()), "refused")
    far = link_picture(found, Ranks([10])).boxes[1]

    assert (far.title, far.details) == ("peer unknown", ("no report from this end",))


def test_the_fields_that_differ_are_marked_and_effects_are_not() -> None:
    sides = (Ranks(range(3)), Ranks([3]))
    fields = (CallField("dtype", ("float32", "float16")), CallField("created", ("10:00:00", "10:00:01")))
    base = fixtures_diagnoses.lagging()
    shown = first_picture(replace(base, fields=FieldDiff("ALLREDUCE", 7, sides, fields, "from the dumps")))

    assert shown is not None
    assert isinstance(shown.drawing, FieldTable)
    assert shown.drawing.sides == ("ranks 0-2", "rank 3")
    assert [differs for _, _, differs in shown.drawing.rows] == [True, False]


def looks(*frames: str) -> Snapshots:
    rows = (SnapshotRow(Ranks([5]), frames, True), SnapshotRow(Ranks([0, 1]), ("all_reduce", "all_reduce"), False))
    return Snapshots((100.0, 130.0), rows)


def test_two_looks_at_a_culprit_that_did_not_move_are_the_first_picture() -> None:
    shown = first_picture(replace(fixtures_diagnoses.lagging(), snapshots=looks("read", "read")))

    assert shown is not None
    assert isinstance(shown.drawing, SnapshotTable)
    assert shown.title == "Two snapshots, 30 s apart"
    assert shown.drawing.rows[0] == ("rank 5", ("read", "read"), True, False)


def test_looks_at_a_culprit_that_moved_show_no_block() -> None:
    shown = first_picture(replace(fixtures_diagnoses.lagging(), snapshots=looks("read", "decode")))

    assert shown is not None
    assert shown.kind == "chain"


def test_the_chain_points_at_the_ranks_that_are_waited_for() -> None:
    drawing = chain_picture(fixtures_diagnoses.lagging().standings)

    assert drawing is not None
    assert [box.title for box in drawing.boxes if box.x == 0] == ["rank 5"]
    assert len(drawing.arrows) == 3
    assert "Ranks 1, 3, 7 wait for rank 5" in drawing.says


def test_two_that_wait_for_each_other_have_two_arrows() -> None:
    drawing = chain_picture(fixtures_diagnoses.ring().standings)

    assert drawing is not None
    assert len(drawing.arrows) == 2


def test_nobody_waits_no_chain() -> None:
    assert chain_picture(fixtures_diagnoses.healthy().standings) is None


def test_the_bars_of_a_stall_begin_at_the_first_arrival() -> None:
    drawing = stall_picture(fixtures_diagnoses.lagging())

    assert drawing is not None
    assert min(bar.x for bar in drawing.bars) == pytest.approx(170)
    assert drawing.ticks[0].label == "0"
    assert drawing.bars[0].label == "rank 5"
    assert drawing.bars[1].text.endswith(", 10 min 02 s")


def still_hanging() -> Diagnosis:
    """Rank 5 lags, nobody has given up, and the last look was 4 minutes into a timeout of 10."""
    base = fixtures_diagnoses.lagging()
    began = base.verdict.stalled.since if base.verdict.stalled is not None else None
    assert began is not None
    verdict = replace(base.verdict, stalled=replace(base.verdict.stalled, until=None))
    end = JobEnd(JobState.RUNNING, None, began + timedelta(minutes=4), began + timedelta(minutes=10))
    rows = tuple(replace(s, until=None, ended=None, end="") for s in base.standings)
    return replace(base, findings=(verdict,), job_end=end, standings=rows, timeline=None)


def test_a_job_that_still_hangs_shows_the_time_left_and_when_the_call_times_out() -> None:
    drawing = stall_picture(still_hanging())

    assert drawing is not None
    assert drawing.left is not None
    assert drawing.left.text == "6 min left"
    assert drawing.left.width == pytest.approx(0.6 * (1096 - 170 - 18))
    assert drawing.left.x == pytest.approx(drawing.bars[0].x + drawing.bars[0].width)
    assert [(flag.label, flag.clock) for flag in drawing.flags] == [("times out", "03:35:02")]


def test_without_a_timeout_or_with_an_end_no_time_is_left() -> None:
    hanging = still_hanging()
    unlimited = replace(hanging, job_end=replace(hanging.job_end, deadline=None))

    for diagnosis in (unlimited, fixtures_diagnoses.lagging()):
        drawing = stall_picture(diagnosis)
        assert drawing is not None
        assert drawing.left is None


def test_many_ranks_that_wait_alike_are_a_grey_crowd_and_few_are_not() -> None:
    waits = fixtures_diagnoses.large(512).standings[1]

    assert tone_of(waits) is Tone.CROWD
    assert tone_of(replace(waits, ranks=Ranks(range(CROWD - 1)))) is Tone.WAITING
    assert tone_of(replace(waits, involvement=Involvement.CULPRIT)) is Tone.CULPRIT


def test_labels_of_a_map_never_meet_and_that_of_a_culprit_stays() -> None:
    drawing = rank_map(fixtures_diagnoses.large(4096))

    assert drawing is not None
    row = sorted((label for label in drawing.labels if label.text.startswith("node")), key=lambda label: label.x)
    assert all(a.x + width_of(a.text, 11) < b.x for a, b in pairwise(row))
    assert row[0].is_culprit


def test_a_stall_without_times_is_not_drawn() -> None:
    base = fixtures_diagnoses.lagging()
    untimed = replace(base, standings=tuple(replace(s, since=None, until=None) for s in base.standings))

    assert stall_picture(untimed) is None
    assert "h-stall" not in html.page(untimed)


def test_one_culprit_of_thousands_has_its_cell() -> None:
    drawing = rank_map(fixtures_diagnoses.large(1024))

    assert drawing is not None
    blamed = [cell.ranks for cell in drawing.cells if cell.tone is Tone.CULPRIT]
    assert blamed == [str(rank) for rank in range(7, 1024, 100)]
    assert len(drawing.cells) == 1024


def test_in_a_very_large_job_a_cell_is_a_host_and_takes_its_worst_rank() -> None:
    drawing = rank_map(fixtures_diagnoses.large(16384))

    assert drawing is not None
    assert len(drawing.cells) == 2048
    assert sum(cell.tone is Tone.CULPRIT for cell in drawing.cells) == 164


def test_a_large_job_without_hosts_is_drawn_by_rank_in_small_cells_below_the_proof() -> None:
    base = fixtures_diagnoses.large(2048)
    found = replace(base, ranks=tuple(replace(state, host=None) for state in base.ranks))
    drawing = rank_map(found)

    assert drawing is not None
    assert (drawing.has_hosts, drawing.is_dense, len(drawing.cells)) == (False, True, 2048)
    assert drawing.size <= 6
    blamed = {label.text for label in drawing.labels if label.is_culprit}
    assert blamed <= {f"rank {rank}" for rank in base.verdict.ranks}
    page = html.page(found)
    assert page.index('id="h-proof"') < page.index('id="h-map"')


def test_a_chain_of_one_edge_is_drawn_to_scale_with_what_the_culprit_did() -> None:
    picture = first_picture(incident("straggler").diagnosis)

    assert picture is not None and isinstance(picture.drawing, StallPicture)
    culprit, peers = picture.drawing.bars
    assert culprit.text.startswith("writing a checkpoint")
    assert "ALLREDUCE #17084" in peers.text
    assert view.build(incident("straggler").diagnosis).stall is None


def test_a_chain_of_several_edges_stays_a_graph() -> None:
    picture = first_picture(incident("died").diagnosis)

    assert picture is not None and isinstance(picture.drawing, ChainPicture)
    assert view.build(incident("died").diagnosis).stall is not None


def test_a_small_job_needs_no_map() -> None:
    assert rank_map(fixtures_diagnoses.lagging()) is None


def with_groups(world: int, *, tensor: int, stages: int) -> Diagnosis:
    """A job of PP x DP x TP, the TP ranks of a stage next to each other."""
    replicas = world // tensor // stages
    grid = {
        (s, d, t): s * replicas * tensor + d * tensor + t
        for s in range(stages)
        for d in range(replicas)
        for t in range(tensor)
    }
    kinds = (("TENSOR_MODEL_PARALLEL_GROUP", 2), ("PIPELINE_MODEL_PARALLEL_GROUP", 0), ("DATA_PARALLEL_GROUP", 1))
    members: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for place, rank in grid.items():
        for kind, axis in kinds:
            members.setdefault((kind, place[:axis] + place[axis + 1 :]), []).append(rank)
    groups = tuple(
        Group(n, str(n), kind, Ranks(ranks), "config") for n, ((kind, _), ranks) in enumerate(members.items())
    )
    base = fixtures_diagnoses.large(world)
    return replace(base, job=replace(base.job, groups=groups))


def test_groups_give_a_second_layout_by_stage_and_replica() -> None:
    diagnosis = with_groups(512, tensor=8, stages=4)
    drawing = group_map(diagnosis)

    assert drawing is not None
    assert len(drawing.cells) == 512
    assert len({cell.y for cell in drawing.cells}) == 4
    assert len({(cell.x, cell.y) for cell in drawing.cells}) == 512
    assert max(cell.x for cell in drawing.cells) + drawing.cell_width <= 1096
    page = html.page(diagnosis)
    assert page.count('name="layout"') == 2


def test_a_layout_of_thousands_has_a_cell_for_each_tensor_group() -> None:
    drawing = group_map(with_groups(4096, tensor=8, stages=8))

    assert drawing is not None
    assert len(drawing.cells) == 512
    blamed = {r for c in drawing.cells if c.tone is Tone.CULPRIT for r in Ranks.parse(c.ranks)}
    assert set(range(7, 4096, 100)) <= blamed


def test_groups_that_place_two_ranks_alike_give_no_second_layout() -> None:
    assert group_map(fixtures_diagnoses.large(512)) is None
    assert group_map(with_groups(16, tensor=2, stages=2)) is None


@pytest.mark.parametrize("name", SAMPLES)
def test_what_the_verdict_cites_is_nowhere_called_unrelated(name: str) -> None:
    diagnosis = incident(name).diagnosis
    cited = {item.where for item in diagnosis.verdict.evidence if item.supports and item.where is not None}
    unrelated = {event.where for event in diagnosis.story if event.role is EventRole.UNRELATED}

    assert not cited & unrelated


@pytest.mark.parametrize("name", SAMPLES)
def test_the_clock_of_the_timeline_is_that_of_the_facts(name: str) -> None:
    """Second 0 of the picture is the time since which the facts count, so that one event has one time."""
    diagnosis = incident(name).diagnosis
    call, found = diagnosis.verdict.stalled, diagnosis.timeline
    picture = view.build(diagnosis).stall
    if picture is None or call is None or call.since is None or call.until is None or found is None:
        return
    limit = call.until - call.since
    timeouts = [flag for flag in picture.flags if "first timeout" in flag.label]
    for flag in timeouts:
        assert flag.clock == (call.until.strftime("%H:%M:%S"))
    assert limit.total_seconds() >= 0


def test_a_timeline_says_in_which_zone_the_logs_print() -> None:
    picture = stall_picture(incident("device-stalled").diagnosis)

    assert picture is not None
    assert "these logs print UTC+8" in picture.subtitle


def test_the_timeline_flags_the_fault_and_dashes_what_no_file_holds() -> None:
    picture = view.build(incident("hardware").diagnosis).stall

    assert picture is not None
    assert any("Xid 79" in flag.label for flag in picture.flags)
    assert {bar.is_calculated for bar in picture.bars} == {False, True}
    assert "calculated" in html.page(incident("hardware").diagnosis)


def test_a_timeout_that_no_line_holds_is_a_calculated_flag() -> None:
    picture = view.build(incident("late-rank-three-groups").diagnosis).stall

    assert picture is not None
    assert [flag.label for flag in picture.flags if flag.is_calculated] == ["8 s timeout"]
