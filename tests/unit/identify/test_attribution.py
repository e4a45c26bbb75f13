"""Who wrote what: content before names, and nobody blamed for a line that somebody else wrote."""

from __future__ import annotations

import pytest
from builders.jobs.cases import WORLD, Log, RecordedRank, Team, case, gave_up, said
from msgspec.structs import replace

from nccldoctor.events import (
    CollectiveTimeout,
    CommInit,
    ExceptionRaised,
    GpuError,
    GroupRef,
    Heartbeat,
    KernelEvent,
    OutOfMemory,
    Phase,
    ProcessExit,
    ProcessId,
    SchedulerEvent,
    Setting,
    Stack,
    StoreError,
    WorkStatus,
)
from nccldoctor.model import SourceKind
from nccldoctor.parsers.kernel.driver import board

PAIR = Team("7", "tp", (2, 3))


def beat(rank: int | None, **fields: object) -> object:
    return said(Heartbeat, rank, **fields)


def ranks_of(*logs: Log) -> list[int | None]:
    """The rank of every event, in order."""
    return [e.rank for e in case(logs=logs).events]


# ---- files


def test_what_a_line_says_overrules_the_name_of_its_file() -> None:
    found = case(logs=[Log("rank_2.log", [beat(3), beat(None)], rank=2)])
    assert found.sources[0].rank == 3
    assert [e.rank for e in found.events] == [3, 3]
    (gap,) = found.gaps
    assert gap.what == "rank_2.log is named for rank 2"
    assert (list(gap.ranks), gap.source) == ([3], 0)


def test_a_name_that_nothing_contradicts_holds() -> None:
    found = case(logs=[Log("rank_2.log", [beat(None)], rank=2)])
    assert [e.rank for e in found.events] == [2]
    assert found.gaps == ()


def test_the_process_that_alone_writes_to_the_file_of_a_rank_is_its_own() -> None:
    at_work = said(CommInit, None, host="knot-3", pid=812)
    found = case(logs=[Log("rank_2.log", [beat(None), at_work], rank=2)])
    assert (found.rank_host, found.rank_pid) == ({2: "knot-3"}, {2: 812})
    two = case(logs=[Log("rank_2.log", [at_work, said(CommInit, None, host="knot-4", pid=9)], rank=2)])
    assert (two.rank_host, two.rank_pid) == ({}, {})


def test_names_of_logs_tell_the_hosts_of_their_ranks() -> None:
    found = case(logs=[Log(f"knot-{rank // 2}/rank_{rank}.log", [beat(None)], rank=rank) for rank in range(4)])
    assert found.rank_host == {0: "knot-0", 1: "knot-0", 2: "knot-1", 3: "knot-1"}


@pytest.mark.parametrize(
    "path, ranks", [("worker-2.log", [1, None]), ("worker-2/out.txt", [1, None]), ("worker-20.log", [1, 0])]
)
def test_a_file_named_like_a_host_is_of_that_host(path: str, ranks: list[int | None]) -> None:
    placed = Log(
        "launcher.log", [said(ProcessExit, r, reporter="torchrun", exitcode=1, host=f"worker-{r + 1}") for r in (0, 1)]
    )
    lines = Log(path, [gave_up(None, 6, group_rank=1), gave_up(None, 6, group_rank=0)])
    assert ranks_of(placed, lines)[2:] == ranks, "rank 0 runs on another host: [Rank 0] counts inside a group"


def test_a_merged_file_lends_its_rank_to_nobody() -> None:
    found = case(logs=[Log("all.log", [beat(0), beat(1), beat(None)], rank=0)])
    assert found.sources[0].rank is None
    assert [e.rank for e in found.events] == [0, 1, None]


def test_a_launchers_log_that_quotes_one_rank_is_not_that_ranks_file() -> None:
    log = Log("agent.log", [beat(3), said(ProcessExit, reporter="torchrun", exitcode=1), beat(None)])
    found = case(logs=[log])
    assert found.sources[0].rank is None
    assert found.events[2].rank is None


@pytest.mark.parametrize("kind", [GpuError, KernelEvent, OutOfMemory, ProcessExit, SchedulerEvent])
def test_lines_about_a_process_are_not_by_the_owner_of_the_file(kind: type) -> None:
    assert ranks_of(Log("rank_3.log", [beat(3), said(kind)], rank=3)) == [3, None]


def test_a_quoted_end_of_another_rank_does_not_make_the_file_that_ranks() -> None:
    found = case(logs=[Log("rank_3.log", [said(ProcessExit, 5, exitcode=-9)], rank=3)])
    assert found.sources[0].rank == 3


def test_settings_stay_with_the_job() -> None:
    log = Log("rank_3.log", [beat(3), said(Setting, name="NCCL_DEBUG", value="INFO")], rank=3)
    assert ranks_of(log) == [3, None]


# ---- launchers' folders


def test_one_folder_is_one_process() -> None:
    err = Log("a/attempt_0/1/stderr.log", [beat(5)], local_rank=1, host="n1")
    out = Log("a/attempt_0/1/stdout.log", [beat(None)], local_rank=1, host="n1")
    assert ranks_of(err, out) == [5, 5]


def test_a_launchers_table_maps_local_ranks() -> None:
    table = Log("agent.log", [said(ProcessExit, 6, host="n1.cluster.local", local_rank=0, pid=11, exitcode=1)])
    own = Log("n1/0/stderr.log", [beat(None)], local_rank=0, host="n1")
    assert ranks_of(table, own) == [6, 6]


def test_a_rank_that_introduces_itself_names_its_host() -> None:
    own = Log(
        "all.log",
        [
            said(ProcessId, 2, text="rank=2 pid=31 host=gpu-a07", pid=31),
            said(ProcessId, 3, text="rank=3 host=localhost"),
        ],
    )
    assert case(logs=[own]).rank_host == {2: "gpu-a07"}


def test_local_ranks_are_counted_in_equal_blocks() -> None:
    logs = [
        Log(f"{host}/{n}/stderr.log", [beat(None)], local_rank=n, host=host) for host in ("n0", "n1") for n in (0, 1)
    ]
    assert ranks_of(*logs) == [0, 1, 2, 3]


def test_blocks_are_not_counted_where_a_line_contradicts_them() -> None:
    # rank 3 says that it is local rank 0 of the second host: so the first host holds three ranks, or comes later
    logs = [
        Log(f"{host}/{n}/stderr.log", [beat(None)], local_rank=n, host=host) for host in ("n0", "n1") for n in (0, 1)
    ]
    logs[2].events = [beat(3)]
    assert ranks_of(*logs) == [None, None, 3, None]


def test_blocks_are_not_counted_where_hosts_differ_in_size() -> None:
    places = (("n0", 0), ("n0", 1), ("n1", 0))
    logs = [Log(f"{host}/{n}/stderr.log", [beat(None)], local_rank=n, host=host) for host, n in places]
    assert ranks_of(*logs) == [None, None, None]


def test_blocks_are_not_counted_where_a_local_rank_is_missing() -> None:
    logs = [
        Log(f"{host}/{n}/stderr.log", [beat(None)], local_rank=n, host=host) for host in ("n0", "n1") for n in (0, 2)
    ]
    assert ranks_of(*logs) == [None] * 4


# ---- processes, boards, tasks


def test_a_process_number_on_its_host_tells_the_rank() -> None:
    own = Log("rank_5.log", [said(Heartbeat, 5, pid=4711, host="n1")], rank=5)
    kernel = Log("n1.dmesg", [said(OutOfMemory, scope="host", pid=4711)], host="n1", kind=SourceKind.KERNEL_LOG)
    assert ranks_of(own, kernel) == [5, 5]


def test_a_process_number_in_use_on_two_hosts_tells_nothing_on_a_third() -> None:
    own = [Log(f"rank_{r}.log", [said(Heartbeat, r, pid=4711, host=f"n{r}")], rank=r) for r in (0, 1)]
    third = Log("n2.dmesg", [said(OutOfMemory, scope="host", pid=4711)], host="n2", kind=SourceKind.KERNEL_LOG)
    there = Log("n1.dmesg", [said(OutOfMemory, scope="host", pid=4711)], host="n1", kind=SourceKind.KERNEL_LOG)
    assert ranks_of(*own, third, there) == [0, 1, None, 1]


def test_init_lines_tell_host_process_and_board() -> None:
    def init(rank: int, host: str, board: str, nranks: int = 4, comm_rank: int | None = None) -> object:
        number = rank if comm_rank is None else comm_rank
        return said(
            CommInit, rank, group_rank=number, nranks=nranks, host=host, pid=100 + rank, bus_id=board, what="start"
        )

    logs = [Log(f"rank_{r}.log", [init(r, f"n{r // 2}.x.y", f"{r % 2}a000")], rank=r) for r in range(4)]
    kernel = Log("n1.dmesg", [said(GpuError, xid=79, device="0000:1a:00.0")], host="n1", kind=SourceKind.KERNEL_LOG)
    found = case(logs=[*logs, kernel])
    assert found.rank_host == {0: "n0", 1: "n0", 2: "n1", 3: "n1"}
    assert found.rank_pid == {r: 100 + r for r in range(4)}
    assert found.rank_device == {0: "0000:0a:00", 1: "0000:1a:00", 2: "0000:0a:00", 3: "0000:1a:00"}
    assert found.events[-1].rank == 3


@pytest.mark.parametrize(
    ("boards", "second"),
    [
        (((0, 3), (1, 2), (2, 1), (3, 0)), 1),
        (((0, 0), (0, 1), (0, 2), (0, 3)), 1),
        (((None, 3), (None, 2), (None, 1), (None, 0)), 2),
    ],
    ids=["reordered", "one-each", "before-2.19"],
)
def test_local_ranks_count_the_gpus_that_a_process_sees(
    boards: tuple[tuple[int | None, int], ...], second: int
) -> None:
    inits = [
        said(CommInit, r, group_rank=r, nranks=4, host="n0", pid=100 + r, cuda_dev=cuda, nvml_dev=nvml, what="start")
        for r, (cuda, nvml) in enumerate(boards)
    ]
    exits = Log("agent.log", [said(ProcessExit, host="n0", local_rank=1, exitcode=-9)])
    assert ranks_of(Log("all.log", inits), exits)[-1] == second


def test_an_init_line_of_a_small_communicator_tells_no_global_rank() -> None:
    whole = said(CommInit, group_rank=6, nranks=8, host="n1", pid=6, bus_id="1a000", what="start")
    small = said(CommInit, group_rank=0, nranks=2, host="n1", pid=6, bus_id="1a000", what="start")
    assert case(logs=[Log("all.log", [small, whole])]).rank_host == {6: "n1"}


def test_a_boards_error_on_another_host_is_not_this_ranks() -> None:
    own = Log("r0.log", [said(CommInit, 0, group_rank=0, nranks=1, host="n0", bus_id="1a000", what="start")], rank=0)
    kernel = Log("n1.dmesg", [said(GpuError, xid=79, device="0000:1a:00.0")], host="n1", kind=SourceKind.KERNEL_LOG)
    assert ranks_of(own, kernel) == [0, None]


def test_slurm_tasks_are_ranks_where_there_is_one_for_each() -> None:
    logs = [Log(f"rank_{r}.log", [beat(r)], rank=r) for r in range(4)]
    ends = [said(ProcessExit, task=t, exitcode=137, host="n1", reporter="srun") for t in (2, 3)]
    assert ranks_of(*logs, Log("slurm.out", ends))[-2:] == [2, 3]


def test_slurm_tasks_are_nodes_where_each_launches_several_ranks() -> None:
    logs = [Log(f"rank_{r}.log", [beat(r)], rank=r) for r in range(8)]
    ends = [said(ProcessExit, task=t, exitcode=1, host=f"n{t}", reporter="srun") for t in (0, 1)]
    assert ranks_of(*logs, Log("slurm.out", ends))[-2:] == [None, None]


def test_slurm_tasks_are_ranks_where_a_host_has_several_though_nobody_else_was_heard() -> None:
    ends = [said(ProcessExit, task=t, exitcode=-15, host=f"n{t // 2}", reporter="srun") for t in range(4)]
    assert ranks_of(Log("slurm.out", ends)) == [0, 1, 2, 3]
    ranges = [said(ProcessExit, task=t, exitcode=-15, host="n[0-1]", reporter="srun") for t in range(2)]
    assert ranks_of(Log("slurm.out", ranges)) == [None, None]


def test_a_stack_taken_of_a_rank_tells_its_process() -> None:
    taken = Log("pyspy_rank7.txt", [said(Stack, pid=20008)], rank=7)
    kernel = Log("n1.dmesg", [said(GpuError, xid=74, pid=20008, host="n1")], host="n1", kind=SourceKind.KERNEL_LOG)
    assert ranks_of(taken, kernel) == [7, 7]


def test_a_stack_is_of_the_rank_whose_process_it_shows_whatever_number_its_name_has() -> None:
    logs = [Log("rank_0.log", [beat(0, pid=41, host="n1")]), Log("rank_1.log", [beat(1, pid=52, host="n1")])]
    other, own, child = said(Stack, pid=52), said(Stack, pid=41), said(Stack, pid=99)
    assert ranks_of(*logs, Log("pyspy/0.txt", [other], rank=0), Log("pyspy/1.txt", [own], rank=1)) == [0, 1, 1, 0]
    assert ranks_of(*logs, Log("pyspy/0.txt", [own], rank=0), Log("pyspy/1.txt", [child], rank=1)) == [0, 1, 0, 1]
    far = Log("rank_1.log", [beat(1, pid=52, host="n2")])
    assert ranks_of(logs[0], far, Log("pyspy/0.txt", [other], rank=0))[-1] == 0, "the same number on another host"


def test_the_starting_line_of_a_rank_tells_its_local_rank() -> None:
    start = said(Phase, 6, what="starting", text="starting local_rank=2 rank=6", host="n1", pid=9)
    end = Log("agent.log", [said(ProcessExit, local_rank=2, host="n1", exitcode=-9)])
    assert ranks_of(Log("all.log", [start]), end) == [6, 6]


# ---- [Rank N]


def test_the_number_in_brackets_is_global_in_the_default_group_only() -> None:
    whole = said(WorkStatus, group_rank=2, group=GroupRef(pg_id=0, uid="0"), failed=4)
    named = said(WorkStatus, group_rank=1, group=GroupRef(pg_id=0, uid="0", desc="default_pg"), failed=4)
    other = said(WorkStatus, group_rank=1, group=GroupRef(pg_id=3, uid="41", desc="pp"), failed=4)
    assert ranks_of(Log("all.log", [whole, named, other])) == [2, 1, None]


def test_two_lines_run_together_the_number_in_the_record_counts_and_not_the_prefix() -> None:
    glued = said(CollectiveTimeout, 10, group_rank=15, group=GroupRef(uid="0", desc="default_pg"), seq=15)
    part = said(CollectiveTimeout, 10, group_rank=1, group=GroupRef(uid="9", desc="tp"), seq=15)
    assert ranks_of(Log("all.log", [glued, part])) == [15, 10]


def test_without_any_group_it_is_taken_as_it_stands() -> None:
    assert ranks_of(Log("all.log", [said(CollectiveTimeout, group_rank=3, seq=4)])) == [3]


def test_without_any_group_it_is_not_the_rank_of_another_host() -> None:
    start = [beat(r, host=f"n{r // 4}") for r in (2, 6)]
    bare = {"group_rank": 2, "seq": 4}
    found = ranks_of(Log("all.log", [*start, *(said(CollectiveTimeout, host=f"n{i}", **bare) for i in (0, 1, 7))]))
    assert found[2:] == [2, None, 2], "nothing runs on n7: it may be another name of n0"


def test_it_never_overrules_the_global_rank_of_the_line() -> None:
    assert ranks_of(Log("all.log", [gave_up(97, 4, group_rank=6), beat(1)])) == [97, 1]


def test_the_files_rank_goes_before_the_number_in_brackets() -> None:
    assert ranks_of(Log("rank_9.log", [said(CollectiveTimeout, group_rank=3, seq=4)], rank=9)) == [9]


# ---- dumps


def test_a_dump_belongs_to_the_rank_in_its_name() -> None:
    assert case(RecordedRank(2), RecordedRank(0)).dump_rank == (2, 0)


def test_a_name_that_its_groups_contradict_is_overruled() -> None:
    found = case((9, RecordedRank(1, WORLD, Team("5", "tp", (1,))).call().data()), RecordedRank(0).call())
    assert found.dump_rank == (1, 0), "only rank 1 is in both of its groups"
    assert any("named for rank 9" in g.what for g in found.gaps)


def test_a_dump_without_a_name_is_told_by_its_groups_or_not_at_all() -> None:
    both = RecordedRank(3, WORLD, Team("5", "tp", (2, 3)), Team("6", "pp", (1, 3))).call().data()
    open_ = RecordedRank(3, WORLD, Team("5", "tp", (2, 3))).call().data()
    found = case((None, both), (None, open_))
    assert found.dump_rank == (3, None)
    (gap,) = [g for g in found.gaps if "rank unknown" in g.what]
    assert gap.what.startswith("dumps/fr_1") and "--rank-from" in gap.why


def test_a_second_dump_of_one_rank_is_left_out_and_said() -> None:
    found = case(RecordedRank(1).calls(2), RecordedRank(1).calls(3), RecordedRank(0).call())
    assert found.dump_rank == (1, None, 0)
    assert found.call_rank.tolist() == [1, 1, -1, -1, -1, 0]
    (gap,) = [g for g in found.gaps if "second dump" in g.what]
    assert list(gap.ranks) == [1]


def test_a_dump_that_cannot_be_read_does_not_take_the_place_of_one_that_can() -> None:
    found = case(RecordedRank(1).other(entries=[]), RecordedRank(1).calls(2))
    assert found.dump_rank == (1, 1)
    assert found.call_rank.tolist() == [1, 1]


# ---- spelling


@pytest.mark.parametrize(
    ("address", "spelled"),
    [
        ("0000:3a:00.0", "0000:3a:00"),
        ("00000000:3A:00.0", "0000:3a:00"),
        ("00000000:3A:00", "0000:3a:00"),
        ("PCI:0000:3a:00", "0000:3a:00"),
        ("3a:00.0", "0000:3a:00"),
        ("3a000", "0000:3a:00"),
        ("a000", "0000:0a:00"),
        ("101c0", "0000:10:1c"),
        ("11a000", "0001:1a:00"),
        ("GPU-3", None),
        ("", None),
    ],
)
def test_one_spelling_for_a_board(address: str, spelled: str | None) -> None:
    assert board(address) == spelled


def test_a_store_error_has_the_rank_of_its_file() -> None:
    assert ranks_of(Log("rank_4.log", [said(StoreError, operation="wait")], rank=4)) == [4]


def test_an_exception_behind_another_label_is_not_of_the_files_only_rank() -> None:
    """A line of rank 7, and an exception behind the label of local rank 2, whose rank no line names."""
    events = [said(ExceptionRaised, None, 5.0, local_rank=2, type="RuntimeError"), gave_up(7, 5)]
    assert ranks_of(Log("node_1_gpu-19.log", events, local_rank=19)) == [None, 7]
    assert ranks_of(Log("node_1_gpu-19.log", [replace(events[0], local_rank=None), events[1]])) == [7, 7]


def test_a_text_of_several_ranks_gets_no_rank_from_the_other_stream() -> None:
    logs = [
        Log("a/3/stderr.log", [beat(7)], local_rank=3),
        Log("a/3/stdout.log", [beat(4), beat(5), beat(None)], local_rank=3),
    ]
    assert ranks_of(*logs) == [7, 4, 5, None]
