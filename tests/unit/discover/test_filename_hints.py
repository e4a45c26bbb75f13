"""What names tell of ranks and hosts, and first bytes of kinds."""

from pathlib import Path

import pytest
from builders.files.dumps import dump
from builders.files.packing import LOG, write
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.discover.discover import discover
from nccldoctor.discover.file_types import kind_of
from nccldoctor.discover.filename_hints import hints, hosts_in_names
from nccldoctor.model import SourceKind
from nccldoctor.model.errors import InputError


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank_3", 3),
        ("rank3.log", 3),
        ("logs/rank-12.out", 12),
        ("nccl_trace_rank_3", 3),
        ("comm_lib_trace_rank_17", 17),
        ("pyspy_rank2.txt", 2),
        ("out/1/rank.3/stdout", 3),
        ("[rank5].log", 5),
        ("job.rank=7.err", 7),
        ("fr_trace_rank3_attempt0.pkl", 3),
        ("rank3-of-8.log", 3),
        ("global_rank_9.log", 9),
        ("rank_0-7.log", None),
        ("node_rank_2.log", None),
        ("dp_rank_2/x.log", None),
        ("lora_rank_64/train.log", None),
        ("crank3.log", None),
        ("train.log", None),
        ("train.log.1", None),
        ("slurm-45171.out", None),
        ("slurm-45171_3.out", None),
        ("stacks_20240101_120000.txt", None),
        ("py-spy-12345.txt", None),
        ("worker-3.log", None),
        ("checkpoint_500.txt", None),
    ],
)
def test_ranks_in_names(name: str, rank: int | None):
    (hint,) = hints([name], [False])
    assert hint.rank == rank
    assert bool(hint.why) == (rank is not None or hint.host is not None)


def test_numbered_families():
    def ranks(names: list[str], dumps: bool = False) -> list[int | None]:
        return [hint.rank for hint in hints(names, [dumps] * len(names))]

    assert ranks(["_dump_12", "fr_2.json", "trace_6", "stacks/stacks_5.txt"]) == [12, 2, 6, 5]
    assert ranks(["prefix0", "prefix1"]) == [None, None]
    assert ranks(["prefix0", "prefix1"], dumps=True) == [0, 1], "torch appends the rank to any prefix"
    assert ranks(["7", "8.pkl"], dumps=True) == [7, 8]
    assert ranks(["fr_90210", "fr_90377"]) == [None, None], "process ids"
    assert ranks([f"fr_{n}" for n in range(1000, 1200)]) == list(range(1000, 1200))


def test_the_id_of_a_batch_job_is_no_rank():
    def ranks(names: list[str]) -> list[int | None]:
        return [hint.rank for hint in hints(names, [False] * len(names))]

    assert ranks(["train-4.out"]) == [None], "Slurm's %x-%j.out"
    assert ranks(["train-4.out", "train-4.err", "train-5.out"]) == [None] * 3, "two jobs"
    assert ranks(["train-0.out", "train-1.out", "train-3.out"]) == [0, 1, 3], "one is lost"
    assert ranks(["node0/out_0.txt", "node0/out_1.txt", "node1/out_2.txt"]) == [0, 1, 2], "counted over all hosts"
    assert ranks(["fr_trace_4", "stacks_4.txt"]) == [4, 4], "a job's id stands on no dump"


def test_mere_numbers_are_ranks_where_their_folder_says_what_it_holds():
    def ranks(names: list[str]) -> list[int | None]:
        return [hint.rank for hint in hints(names, [False] * len(names))]

    looks = [f"pyspy_{look}/{n}.txt" for look in (1, 2) for n in range(4)]
    assert ranks(looks) == [0, 1, 2, 3] * 2
    assert ranks(["stacks/0.txt", "stacks/1.txt", "stacks/3.txt"]) == [0, 1, 3], "one is lost"
    assert ranks(["stacks/214.txt", "stacks/217.txt"]) == [None, None], "process ids"
    assert ranks(["data/0.txt", "data/1.txt"]) == [None, None]
    assert ranks(["node1/stacks/0.txt", "node1/stacks/1.txt"]) == [None, None], "of one host"


def test_a_file_in_the_folder_of_a_tool_is_named_for_its_host():
    assert [h.host for h in hints(["dmesg/dgx23.txt", "notes/dgx23.txt"], [False] * 2)] == ["dgx23", None]


def test_slurm_tasks_are_ranks_unless_there_is_one_for_each_node():
    several = hints(["job-45171-0-0.out", "job-45171-0-1.out", "job-45171-1-2.out"], [False] * 3)
    assert [h.rank for h in several] == [0, 1, 2]
    assert several[0].why == "Slurm task in the name"
    assert [h.rank for h in hints(["job-45171-0-0.out", "job-45171-1-1.out"], [False] * 2)] == [None, None]


def test_launcher_folders_and_hosts():
    names = [
        "gpu-017/train_nkjmnlha/attempt_2/3/stderr.log",
        "worker0/agent.log",
        "dmesg/gpu-17.dmesg.txt",
        "10.0.1.2/rank_0.log",
        "h100-003.cluster.local/x.log",
        "logs1/run2/x.log",
        "local_rank_3.log",
        "gpu3.log",
    ]
    found = hints(names, [False] * len(names))
    assert [h.host for h in found] == [
        "gpu-017",
        "worker0",
        "gpu-17",
        "10.0.1.2",
        "h100-003.cluster.local",
        None,
        None,
        None,
    ]
    assert [h.local_rank for h in found] == [3, None, None, None, None, None, 3, 3]
    assert (found[0].attempt, found[0].rank) == (2, None)
    assert found[0].why == "torchrun folder, attempt folder, host folder"


def test_the_users_own_rule(tmp_path: Path):
    write(tmp_path, {"w07-rank_1.log": LOG})
    source = discover([tmp_path], rank_from=r"w(?P<rank>\d+)").inputs[0].source
    assert (source.rank, source.why) == (7, "--rank-from")
    for bad in ("w(", r"w(\d+)"):
        with pytest.raises(InputError, match="--rank-from"):
            discover([tmp_path], rank_from=bad)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"", SourceKind.EMPTY),
        (LOG, SourceKind.LOG),
        ("Größe ✓ 進捗\n".encode() * 9, SourceKind.LOG),
        ("Schritt 3\r\n".encode("utf-16") * 9, SourceKind.LOG),
        ("Schritt 3\r\n".encode("utf-16-le") * 9, SourceKind.LOG),
        (b"caf\xe9 step 3\n" * 9, SourceKind.LOG),
        (b"\x1b[36mstep\x1b[0m\r 10%|#|\r" * 9, SourceKind.LOG),
        (b"\x7fELF" + bytes(200), SourceKind.UNKNOWN),
        (bytes(100), SourceKind.UNKNOWN),
        (dump(), SourceKind.RECORDER),
        (b'{"pg_status": {}, "version": "2.4"}', SourceKind.RECORDER),
        (b'{"message": {}}', SourceKind.JSON),
    ],
)
def test_kinds_by_content(head: bytes, kind: SourceKind):
    assert kind_of(head) is kind


@settings(max_examples=200, deadline=None)
@given(names=st.lists(st.text(alphabet="rank_-.0123456789/attemptgpu[]=x", max_size=40), max_size=6))
def test_no_name_makes_the_hints_raise(names: list[str]):
    assert len(hints(names, [True] * len(names))) == len(names)


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("node3.tar.gz/logs/train.log", "node3"),
        ("gpu-17.zip/train.log", "gpu-17"),
        ("b.tar.gz/logs/train.log", None),
        ("logs.2026.zip/train.log", None),
    ],
)
def test_an_archive_may_be_named_for_a_host_and_is_none_itself(name: str, host: str | None) -> None:
    (hint,) = hints([name], [False])
    assert hint.host == host


@pytest.mark.parametrize(
    ("name", "host", "local"),
    [
        ("logs/launcher_gpu-04.log", "gpu-04", None),
        ("agent/gpu-04.log", "gpu-04", None),
        ("torchrun_gpu-12.out", "gpu-12", None),
        ("gpu_3.log", None, 3),
        ("node1/gpu_3.log", "node1", 3),
    ],
)
def test_the_number_of_a_host_is_no_local_rank(name: str, host: str | None, local: int | None) -> None:
    (hint,) = hints([name], [False])
    assert (hint.host, hint.local_rank) == (host, local)


@pytest.mark.parametrize(("folder", "host"), [("ip-10-0-1-2", "ip-10-0-1-2"), ("ipex-11877", None), ("iperf-3", None)])
def test_ip_begins_a_host_only_before_its_address(folder: str, host: str | None) -> None:
    (hint,) = hints([f"{folder}/log.txt"], [False])
    assert hint.host == host


@pytest.mark.parametrize(
    "layout", ["{host}/rank_{rank}.log", "out/rank{rank}_{host}.log", "{host}.rank{rank}.log", "{host}-rank-{rank}.out"]
)
def test_the_part_that_neighbouring_ranks_share_is_their_host(layout: str) -> None:
    names = {layout.format(host=f"q{rank // 3 + 4}", rank=rank): rank for rank in range(6)}
    assert set(hosts_in_names(names).items()) == {(name, f"q{rank // 3 + 4}") for name, rank in names.items()}


@pytest.mark.parametrize(
    "parts",
    [
        ["pp0", "pp0", "pp1", "pp1"],  # an axis of the mesh
        ["q4", "q4", "q4", "q4"],  # one for all: it may be anything
        ["q4", "q5", "q6", "q7"],  # nobody shares it: it may count the ranks
        ["q4", "q5", "q4", "q5"],  # not in a row
        ["q4", "q4", "q4", "q5"],  # not as many each
        ["20260301", "20260301", "20260302", "20260302"],  # a date
        ["alpha", "alpha", "beta", "beta"],  # no number
    ],
)
def test_another_part_of_a_name_is_no_host(parts: list[str]) -> None:
    assert hosts_in_names({f"rank{rank}.{part}.log": rank for rank, part in enumerate(parts)}) == {}
