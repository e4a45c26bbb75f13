from builders.diagnoses import fixtures_diagnoses

from nccldoctor.model import Link, RankState, Role
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts import rank_rows
from nccldoctor.reports.parts.standing_titles import wait_in_words
from nccldoctor.reports.plotly.progress import strips


def test_a_call_that_everybody_is_in_points_at_no_rank():
    link = Link(Ranks(range(4)), Ranks(), "dp", "ALLREDUCE", 7)

    assert wait_in_words(link, Ranks()) == "ranks 0-3 wait in ALLREDUCE #7 of dp, and no rank is missing"


def test_of_several_suspects_nobody_says_that_all_are_waited_for():
    link = Link(Ranks([6]), Ranks(range(6)), "dp", "ALLREDUCE", 7)

    assert wait_in_words(link, Ranks(range(6))) == "rank 6 waits in ALLREDUCE #7 of dp for one or more of ranks 0-5"
    assert wait_in_words(link, Ranks([0])) == "rank 6 waits in ALLREDUCE #7 of dp for ranks 0-5"


def _rows(*fronts):
    rows = []
    for number, (role, group, done, issued) in enumerate(fronts):
        state = RankState(number, role, group=group, completed=done, enqueued=issued)
        rows.append(rank_rows._row([state]))
    return rows


def test_a_strip_tells_done_waiting_queued_and_never():
    victim = Role.WAITING
    rows = _rows((victim, "a", 10, 12), (Role.CULPRIT, "a", 10, 10), (victim, "a", 12, None), (victim, "a", None, None))
    cells = [[cell.state for cell in strip] for strip in strips(rows)]

    assert cells[0] == ["done", "done", "done", "done", "waiting", "queued"]
    assert cells[1] == ["done", "done", "done", "done", "never", "never"]
    assert cells[2] == ["done"] * 6
    assert cells[3] == []


def test_groups_count_on_their_own():
    rows = _rows((Role.WAITING, "a", 10, 11), (Role.WAITING, "b", 100, 101))

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
    victims = [(Role.WAITING, "a", 17, 25)] * 3
    rows = _rows(*victims, (Role.CULPRIT, "a", 17, 17), (Role.WAITING, "a", 3, 25))
    shown = strips(rows)

    assert [(cell.seq, cell.state) for cell in shown[0]] == [
        (17, "done"), (18, "waiting"), (19, "queued"), (20, "queued"), (21, "queued"), (22, "queued"),
    ]  # fmt: skip
    assert [cell.state for cell in shown[3]] == ["done", *["never"] * 5]
