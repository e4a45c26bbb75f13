from builders import fixtures_diagnoses
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.model import Link, RankState, Role
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts.layers import layout
from nccldoctor.reports.charts.progress import strips
from nccldoctor.reports.charts.wait_graph import BOXES, in_words, wait_graph
from nccldoctor.reports.parts import rank_rows

EDGES = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1]), unique=True),
    )
)


@given(EDGES)
def test_edges_point_right_and_no_two_boxes_share_a_place(graph):
    nodes, edges = graph
    placed = layout(nodes, tuple(edges))

    for start, end in edges:
        if (start, end) in placed.closing:
            continue
        assert placed.column[start] < placed.column[end]
        assert len(placed.via[start, end]) == placed.column[end] - placed.column[start] - 1
    taken = list(zip(placed.column, placed.row, strict=True))
    for edge, rows in placed.via.items():
        taken += [(placed.column[edge[0]] + 1 + n, row) for n, row in enumerate(rows)]
    assert len(taken) == len(set(taken))
    assert all(0 <= row <= placed.rows - 1 for _, row in taken)


def test_the_chain_of_three_groups_ends_at_the_culprit():
    finding = fixtures_diagnoses.lagging().verdict
    graph = wait_graph(finding.chain, finding.ranks, finding.suspects)

    right = max(graph.boxes, key=lambda box: box.x)
    assert (right.kind, right.title) == ("culprit", "rank 5")
    assert [(b.middle, b.title) for b in graph.boxes if b.kind == "call"] == [
        ("dp_0", "ALLREDUCE #18723"),
        ("tp_2", "ALLREDUCE #412306"),
        ("dp_1", "ALLREDUCE #18723"),
    ]
    assert sorted(a.label for a in graph.arrows) == ["needs rank 4", "needs rank 5", "needs rank 5", "stuck behind"]
    assert not graph.cycle


def test_a_ring_is_flagged():
    finding = fixtures_diagnoses.ring().verdict
    graph = wait_graph(finding.chain, finding.ranks, finding.suspects)

    assert graph.cycle
    assert [a.kind for a in graph.arrows].count("cycle") == 1


def test_a_call_that_everybody_is_in_points_at_nobody():
    link = Link(Ranks(range(4)), Ranks(), "dp", "ALLREDUCE", 7)

    assert in_words(link, Ranks()) == "ranks 0-3 wait in ALLREDUCE #7 of dp; nobody is shown to be missing"


def test_of_several_suspects_nobody_says_that_all_are_waited_for():
    link = Link(Ranks([6]), Ranks(range(6)), "dp", "ALLREDUCE", 7)

    assert in_words(link, Ranks(range(6))) == "rank 6 waits in ALLREDUCE #7 of dp for one or more of ranks 0-5"
    assert in_words(link, Ranks([0])) == "rank 6 waits in ALLREDUCE #7 of dp for ranks 0-5"


def test_nobody_waits_no_graph():
    assert wait_graph((), Ranks(), Ranks()) is None


def test_hundreds_of_calls_fold_and_the_culprits_stay():
    finding = fixtures_diagnoses.large(1024).verdict
    graph = wait_graph(finding.chain, finding.ranks, finding.suspects)

    assert len(graph.boxes) <= BOXES
    assert any(box.kind == "culprit" for box in graph.boxes)


SETS = st.sets(st.integers(0, 30), min_size=1)


@given(st.lists(st.tuples(SETS, SETS), min_size=1, max_size=40))
def test_any_chain_can_be_drawn(pairs):
    chain = tuple(Link(Ranks(a), Ranks(b - a), f"g{n}", "ALLREDUCE", n) for n, (a, b) in enumerate(pairs))
    graph = wait_graph(chain, Ranks([3]), Ranks([4]))

    assert 0 < len(graph.boxes) <= BOXES
    for box in graph.boxes:
        assert 0 <= box.x < graph.width
        assert 0 <= box.y < graph.height


def _rows(*fronts):
    rows = []
    for number, (role, group, done, issued) in enumerate(fronts):
        state = RankState(number, role, group=group, completed=done, enqueued=issued)
        rows.append(rank_rows._row([state]))
    return rows


def test_a_strip_tells_done_waiting_queued_and_never():
    victim = Role.VICTIM
    rows = _rows((victim, "a", 10, 12), (Role.CULPRIT, "a", 10, 10), (victim, "a", 12, None), (victim, "a", None, None))
    cells = [[cell.state for cell in strip] for strip in strips(rows)]

    assert cells[0] == ["done", "done", "done", "done", "waiting", "queued"]
    assert cells[1] == ["done", "done", "done", "done", "never", "never"]
    assert cells[2] == ["done"] * 6
    assert cells[3] == []


def test_groups_count_on_their_own():
    rows = _rows((Role.VICTIM, "a", 10, 11), (Role.VICTIM, "b", 100, 101))

    assert [strip[-1].seq for strip in strips(rows)] == [11, 101]


def test_small_jobs_show_every_rank_and_large_ones_fold():
    small = fixtures_diagnoses.lagging()
    assert [str(row.ranks) for row in rank_rows.single(small)] == [str(n) for n in range(8)]
    assert [str(row.ranks) for row in rank_rows.folded(small.ranks)] == ["5", "0,2,4,6", "1,3,7"]

    large = fixtures_diagnoses.large(1024)
    for rows in (rank_rows.single(large), rank_rows.folded(large.ranks)):
        assert len(rows) <= rank_rows.ROWS + 2 * rank_rows.SINGLES
        seen = [rank for row in rows for rank in row.ranks]
        assert sorted(seen) == list(range(1024))
        alone = [row for row in rows if row.role is Role.CULPRIT]
        assert [str(row.ranks) for row in alone] == [str(n) for n in range(7, 1024, 100)]


def test_a_row_keeps_only_what_its_ranks_share():
    rows = rank_rows.folded(fixtures_diagnoses.lagging().ranks)

    assert (rows[1].group, rows[1].completed, rows[1].enqueued) == ("dp_0", 18722, 18723)
    assert (rows[1].pid, rows[1].device, rows[1].hosts) == (None, None, ("gpu-a017", "gpu-a018"))


def test_a_strip_shows_the_call_that_stalls_however_far_the_host_went_on():
    victims = [(Role.VICTIM, "a", 17, 25)] * 3
    rows = _rows(*victims, (Role.CULPRIT, "a", 17, 17), (Role.VICTIM, "a", 3, 25))
    shown = strips(rows)

    assert [(cell.seq, cell.state) for cell in shown[0]] == [
        (17, "done"), (18, "waiting"), (19, "queued"), (20, "queued"), (21, "queued"), (22, "queued"),
    ]  # fmt: skip
    assert [cell.state for cell in shown[3]] == ["done", *["never"] * 5]


def test_words_too_long_for_a_box_lose_what_matters_least():
    crowd = Ranks([0, 2, 4, 6, 8, 10, 12, 14, 16, 18])
    graph = wait_graph((Link(crowd, Ranks([3]), "dp_1", "_REDUCE_SCATTER_BASE", 18723),), Ranks([3]), Ranks())
    (call,) = (box for box in graph.boxes if box.kind == "call")

    assert call.title.endswith("… #18723")
    assert call.title.startswith("REDUCE")
    assert call.detail == "ranks 0 and 9 more inside"
    assert "REDUCE_SCATTER #18723" in call.full


def test_a_rank_is_never_cut_to_another_one():
    many = Ranks(range(10007, 16384, 1000))
    links = [Link(Ranks([n]), Ranks([rank]), f"dp_{n}", "ALLREDUCE", n) for n, rank in enumerate(many)]
    graph = wait_graph(tuple(links), many, Ranks())
    assert [arrow.label for arrow in graph.arrows] == [f"needs {rank}" for rank in many]
    assert graph.boxes[-1].title == "ranks 10007 and 6 more"
    one = wait_graph((Link(Ranks([1]), many, "dp_1", "ALLREDUCE", 7),), many, Ranks())
    assert [arrow.label for arrow in one.arrows] == ["needs 7 ranks"]


def test_calls_in_one_box_are_counted_and_their_group_gives_way():
    links = tuple(Link(Ranks([n]), Ranks([99]), f"PIPELINE_MODEL_PARALLEL_GROUP ({n})", "SEND", 7) for n in range(20))
    graph = wait_graph(links, Ranks([99]), Ranks())
    assert [box.middle for box in graph.boxes if box.kind == "call"] == ["PIPE… and 19 other calls"]


def test_no_word_about_a_box_is_cut():
    finding = fixtures_diagnoses.lagging().verdict
    graph = wait_graph(finding.chain, finding.ranks, finding.suspects)
    assert not [box.detail for box in graph.boxes if "…" in box.detail]
