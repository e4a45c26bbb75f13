"""Process groups: who is a member, and which group a rank means by a name or a number."""

from __future__ import annotations

import pytest
from builders.jobs.cases import WORLD, Log, RecordedRank, Team, case, gave_up, group_named, ingested, said, world

from nccldoctor.events import GroupRef, Heartbeat, Note, WorkStatus
from nccldoctor.identify.case import Case
from nccldoctor.identify.groups import build_groups
from nccldoctor.model.ranks import Ranks

EIGHT = world(8)


def members(found: Case) -> dict[str, str]:
    """Members by name of group."""
    return {g.uid: str(g.members) for g in found.groups}


def without_config(recorded: RecordedRank, *uids: str) -> RecordedRank:
    """The dump does not know the members of these groups, or of any."""
    config = recorded.content()["pg_config"]
    return recorded.other(pg_config={k: v for k, v in config.items() if uids and k not in uids})


# ---- members


def test_the_configuration_of_a_dump_names_all_members_though_only_some_dumped() -> None:
    pair = Team("7", "tp", (0, 5))
    found = case(RecordedRank(0, EIGHT, pair).call().call(team=pair))
    assert members(found) == {"0": "0-7", "7": "0,5"}
    assert [g.learned for g in found.groups] == ["world", "config"]
    assert found.groups[1].label == "tp (7)"


def test_one_name_with_other_members_is_another_group() -> None:
    # split_group names both halves alike
    low, high = Team("3", "split", (0, 1)), Team("3", "split", (2, 3))
    recorded_ranks = [
        RecordedRank(r, WORLD, low if r < 2 else high).call(team=low if r < 2 else high) for r in range(4)
    ]
    found = case(*recorded_ranks)
    assert sorted(str(g.members) for g in found.groups if g.uid == "3") == ["0-1", "2-3"]
    by_rank = {int(r): str(found.groups[g].members) for r, g in zip(found.call_rank, found.call_group, strict=True)}
    assert by_rank == {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}
    assert found.naming.find(GroupRef(uid="3"), 1) != found.naming.find(GroupRef(uid="3"), 2)


def test_without_configuration_the_callers_are_the_members() -> None:
    pair = Team("7", "undefined", (1, 3))
    recorded_ranks = [without_config(RecordedRank(r, WORLD, pair).call(team=pair), "7") for r in (1, 3)]
    others = [RecordedRank(r).call() for r in (0, 2)]
    found = case(*recorded_ranks, *others)
    assert members(found) == {"0": "0-3", "7": "1,3"}
    assert found.groups[group_named(found, "7")].learned == "entries"


def test_capture_lists_members_that_made_no_call_of_their_group() -> None:
    """Dumps of gloo hold no configuration: rank 1 is in the pair of rank 0 and skipped its barrier."""
    pair = Team("7", "undefined", (0, 1))
    called = without_config(RecordedRank(0, WORLD, pair).call().call(team=pair))
    others = [without_config(RecordedRank(r).call()) for r in range(1, 4)]
    told = said(Note, 0, what="backend", detail="gloo, ranks 0-1", group=GroupRef(uid="7", desc="undefined"))
    assert members(case(called, *others))["7"] == "0", "without the line the callers alone are known"
    found = case(called, *others, logs=[Log("rank_0.log", [told], rank=0)])
    assert members(found)["7"] == "0-1"


def test_a_silent_rank_fills_the_hole_in_a_family_of_groups() -> None:
    # tensor-parallel pairs (0,1) (2,3) (4,5) (6,7): 5 left no dump
    pairs = [Team(str(10 + i), "tp", (2 * i, 2 * i + 1)) for i in range(4)]
    recorded_ranks = [
        without_config(RecordedRank(r, EIGHT, pairs[r // 2]).call(team=pairs[r // 2]), str(10 + r // 2))
        for r in range(8)
        if r != 5
    ]
    assert members(case(*recorded_ranks))["12"] == "4-5"


def test_a_hole_that_two_silent_ranks_fit_stays_open() -> None:
    # the family has strides 1 and 4, and both 1 and 4 are silent: either may be the partner of 0
    whole = world(11)
    near, far, short = Team("21", "x", (2, 3)), Team("22", "x", (6, 10)), Team("20", "x", (0,))
    recorded_ranks = [
        without_config(RecordedRank(r, whole, t).call(team=t), t.uid) for t in (near, far, short) for r in t.members
    ]
    heard = [RecordedRank(r, whole).call() for r in (5, 7, 8, 9)]
    assert members(case(*recorded_ranks, *heard))["20"] == "0"
    assert members(case(*recorded_ranks, *heard, RecordedRank(4, whole).call()))["20"] == "0-1", "only 1 is left"


def test_groups_without_a_description_are_no_family() -> None:
    full, short = Team("1", "undefined", (0, 1)), Team("2", "undefined", (2, 3))
    recorded_ranks = [without_config(RecordedRank(r, WORLD, full).call(team=full), "1") for r in (0, 1)]
    found = case(*recorded_ranks, without_config(RecordedRank(2, WORLD, short).call(team=short), "2"))
    assert members(found)["2"] == "2"


def test_groups_that_only_lines_name_have_the_ranks_that_were_heard() -> None:
    ref = GroupRef(pg_id=3, uid="41", desc="pp")
    logs = [Log(f"r{r}.log", [said(WorkStatus, r, group=ref, failed=5)], rank=r) for r in (1, 3)]
    found = case(logs=logs)
    assert members(found)["41"] == "1,3"
    assert found.groups[group_named(found, "41")].learned == "log"


def test_a_line_that_names_a_recorded_group_means_that_group() -> None:
    pair = Team("7", "tp", (2, 3))
    recorded_ranks = [RecordedRank(r, WORLD, pair).call(team=pair, done=False) for r in (2, 3)]
    found = case(*recorded_ranks, logs=[Log("r2.log", [gave_up(2, 1, team=pair)], rank=2)])
    assert [g.uid for g in found.groups] == ["0", "7"]
    assert found.naming.find(pair.ref, 2) == group_named(found, "7")


def test_the_default_group_may_have_another_name() -> None:
    whole = Team("abc123", "default_pg", (0, 1, 2, 3))
    found = case(*(RecordedRank(r, whole).call() for r in range(4)))
    index = group_named(found, "abc123")
    assert set(found.call_group.tolist()) == {index}
    assert found.naming.find(GroupRef(pg_id=0, uid="0"), 2) == index


# ---- names and numbers


def test_a_number_means_the_group_that_the_same_rank_gave_it() -> None:
    # creation numbers differ between processes: 1 is tp for rank 2, dp for rank 0
    tp, dp = Team("7", "tp", (2, 3)), Team("9", "dp", (0, 2))
    recorded_ranks = [
        RecordedRank(0, WORLD, dp).call(team=dp),
        RecordedRank(2, WORLD, tp, dp).call(team=tp).call(team=dp),
    ]
    found = case(*recorded_ranks)
    assert found.naming.find(GroupRef(pg_id=1), 0) == group_named(found, "9")
    assert found.naming.find(GroupRef(pg_id=1), 2) == group_named(found, "7")
    assert found.naming.find(GroupRef(pg_id=1), 3) is None, "rank 3 left nothing"


def test_a_line_with_name_and_number_teaches_the_number() -> None:
    ref = GroupRef(pg_id=3, uid="41", desc="pp")
    found = case(logs=[Log("r1.log", [said(WorkStatus, 1, group=ref, failed=5)], rank=1)])
    assert found.naming.find(GroupRef(pg_id=3), 1) == group_named(found, "41")
    assert found.naming.find(GroupRef(pg_id=3), 2) is None


def test_counters_without_entries_are_joined_in_the_order_of_creation() -> None:
    tp, dp = Team("7", "tp", (0, 1)), Team("12", "dp", (0, 2))
    status = {"0": 5, "4": 6, "10": 7}
    counters = {
        k: {"last_enqueued_collective": v, "last_started_collective": -1, "last_completed_collective": v}
        for k, v in status.items()
    }
    found = case(RecordedRank(0, WORLD, tp, dp).other(entries=[], pg_status=counters), RecordedRank(1).call())
    assert found.naming.by_pg_id[(0, 4)] == group_named(found, "7")
    assert found.naming.by_pg_id[(0, 10)] == group_named(found, "12")


@pytest.mark.parametrize(
    ("ref", "default"),
    [
        (GroupRef(desc="default_pg"), True),
        (GroupRef(pg_id=0), True),
        (GroupRef(uid="0"), True),
        (GroupRef(pg_id=0, uid="0"), True),
        (GroupRef(pg_id=4), False),
        (GroupRef(uid="9"), False),
        (GroupRef(pg_id=0, uid="9"), False),
        (GroupRef(), False),
        (None, False),
    ],
)
def test_what_means_the_default_group(ref: GroupRef | None, default: bool) -> None:
    naming = case(
        logs=[Log("r0.log", [said(Heartbeat, 0)], rank=0), Log("r1.log", [said(Heartbeat, 1)], rank=1)]
    ).naming
    assert naming.find(ref, 0) == (0 if default else None)
    assert naming.find(ref, None) is None


def test_calls_of_a_dump_without_a_rank_belong_to_no_group() -> None:
    read = ingested(RecordedRank(0).call(), (None, RecordedRank(1).call().data()))
    naming, codes = build_groups(read.batch, (0, None), [], Ranks(range(4)), True)
    assert codes.tolist() == [0, -1]
    assert (1, "0") in naming.by_local
