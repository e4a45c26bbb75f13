"""A copy for strangers: what was to go is nowhere in any report, and the same thing has the same stand-in
everywhere.
"""

from __future__ import annotations

import pytest
from builders.diagnoses import fixtures_diagnoses, fixtures_diagnosis_parts
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nccldoctor.model import Diagnosis, Evidence, Job, Place, Source, SourceKind
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.reports import html, json_document, markdown, text
from nccldoctor.reports.parts.redact import KINDS, redacted_with, wanted

LINE = (
    "gpu-a018.corp.example: /home/annamaria/job/train.py failed on 10.12.0.7:29500 and fe80::1ff:fe23:4567:890a "
    "as annamaria@GPU-A018 at 03:25:02, HCA aa:bb:cc:dd:ee:ff, gpu-a018-ib0, torch 2.9.1, "
    "/opt/env/site-packages/torch/distributed/c10d.py:12, gpu-a0180"
)


def redacted(diagnosis: Diagnosis, what: tuple[str, ...]) -> Diagnosis:
    return redacted_with(diagnosis, (), (), what)[0]


def quoting(quote: str) -> Diagnosis:
    base = fixtures_diagnoses.lagging()
    first = replace(
        base.findings[0], evidence=(Evidence(Place(0, "gpu-a018/rank_0.log", 4), quote, quote, True, "log:0"),)
    )
    return replace(base, findings=(first,), job=Job(8, ("gpu-a017", "gpu-a018.corp.example"), "2.9.1", None, ()))


def quote_of(what: tuple[str, ...]) -> str:
    return redacted(quoting(LINE), what).findings[0].evidence[0].quote


@pytest.mark.parametrize("said", ["requeue with --signal=B:USR1@300", "--signal=TERM@60,", "#SBATCH --signal USR1@90"])
def test_a_signal_is_no_user(said: str) -> None:
    assert redacted(quoting(said), ("users",)).findings[0].evidence[0].quote == said


@pytest.mark.parametrize("said", ["anna@10.0.0.7 left", "anna@300gpus left", "anna@n1 left"])
def test_a_user_of_any_host_goes(said: str) -> None:
    assert "anna" not in redacted(quoting(said), ("users",)).findings[0].evidence[0].quote


def test_hosts_by_any_of_their_names() -> None:
    quote = quote_of(("hosts",))
    assert quote.lower().count("gpu-a018") == 1
    assert quote.endswith(", gpu-a0180")
    assert "annamaria" in quote
    assert "10.12.0.7" in quote


def test_the_name_by_which_every_host_calls_itself_stays() -> None:
    base = quoting("gpu-a017 could not reach anna@localhost.localdomain, nor [localhost]:29500")
    named = replace(base, job=replace(base.job, hosts=("localhost", "gpu-a017")))
    quote = redacted(named, ("hosts",)).findings[0].evidence[0].quote
    assert quote.startswith("host-") and quote.endswith(
        " could not reach anna@localhost.localdomain, nor [localhost]:29500"
    )


def test_users_wherever_they_stand() -> None:
    assert "annamaria" not in quote_of(("users",))
    assert quote_of(("users",)).count("user-1") == 2


def test_folders_go_names_of_files_and_of_libraries_stay() -> None:
    quote = quote_of(("paths",))
    assert "/home/annamaria" not in quote
    assert "train.py" in quote
    assert "site-packages/torch/distributed/c10d.py:12" in quote
    assert "/opt/env" not in quote


def test_addresses_go_times_and_versions_stay() -> None:
    quote = quote_of(("addresses",))
    for gone in ("10.12.0.7", "fe80::1ff:fe23:4567:890a", "aa:bb:cc:dd:ee:ff"):
        assert gone not in quote
    assert "03:25:02" in quote
    assert "torch 2.9.1" in quote
    assert ":29500" in quote


def test_no_report_says_what_was_left_out() -> None:
    copy = redacted(quoting(LINE), KINDS)
    for report in (
        html.page(copy),
        json_document.to_json(copy),
        markdown.full(copy),
        text.plain(copy, width=100, ascii_only=False),
    ):
        for gone in ("gpu-a017", "gpu-a018.", "annamaria", "10.12.0.7"):
            assert gone not in report.lower()


def test_one_stand_in_for_one_thing() -> None:
    copy = redacted(fixtures_diagnoses.lagging(), ("hosts",))
    stand_ins = {state.rank: state.host for state in copy.ranks}
    assert stand_ins[5] == copy.action.cordon[0]
    assert stand_ins[0] != stand_ins[5]
    assert stand_ins[0] == stand_ins[3]
    assert str(stand_ins[5]) in copy.findings[0].headline


def test_numbers_ranks_and_times_stay() -> None:
    base = fixtures_diagnoses.lagging()
    copy = redacted(base, KINDS)
    assert copy.findings[0].ranks == base.findings[0].ranks
    assert copy.findings[0].stalled == base.findings[0].stalled
    assert copy.findings[0].cause is base.findings[0].cause
    assert copy.run_up == base.run_up


def test_nothing_asked_nothing_changed() -> None:
    assert redacted(fixtures_diagnoses.hostile(), ()) == fixtures_diagnoses.hostile()


def test_a_wrong_word_is_named() -> None:
    assert wanted("hosts, users,hosts") == ("hosts", "users")
    with pytest.raises(NccldoctorError, match="faces"):
        wanted("hosts,faces")


@given(st.text(max_size=300))
def test_any_text_can_be_covered(value: str) -> None:
    once = redacted(quoting(value), KINDS).findings[0].evidence[0].quote
    assert isinstance(once, str)


def test_thousands_of_hosts_are_quick() -> None:
    copy = redacted(fixtures_diagnoses.large(2048), ("hosts",))
    assert copy.ranks[2047].host is not None
    assert copy.ranks[2047].host.startswith("host-")


def test_a_host_that_only_the_story_names_goes_too() -> None:
    story = fixtures_diagnosis_parts.telling("nfs: server not responding on login-07", "login-07.corp.example")
    told = redacted(replace(fixtures_diagnoses.lagging(), story=story), ("hosts",))
    assert "login-07" not in html.page(told) + json_document.to_json(told) + markdown.full(told)


@pytest.mark.parametrize(
    ("path", "said", "gone"),
    [
        ("logs/gpu-secret17.acme.example.log", "lost", ["secret17", "acme"]),
        ("logs/a.log", "mail jane@corp-acme.example", ["corp-acme"]),
        ("logs/a.log", "GET http://store-9.acme.example:8080/x", ["store-9", "acme"]),
        ("gpu-secret17.acme.example.log", "node-x9.acme.example refused", ["node-x9", "acme"]),
        ("secretcluster-3/rank_0.log", "lost", ["secretcluster"]),
    ],
)
def test_a_host_that_only_a_file_name_or_an_address_shows_goes_too(path: str, said: str, gone: list[str]) -> None:
    base = quoting(said)
    whole = replace(base, sources=(Source(id=0, path=path, kind=SourceKind.LOG, size=1),))
    shown = json_document.to_json(redacted(whole, ("hosts", "users"))) + html.page(redacted(whole, ("hosts", "users")))
    assert not [name for name in gone if name in shown]


@pytest.mark.parametrize(
    "path", ["rank_3.log", "nccl_trace_rank_7", "node0/stderr.log", "slurm-4711.out", "py-spy/pid-12.txt"]
)
def test_the_usual_names_of_files_stay(path: str) -> None:
    whole = replace(quoting("lost"), sources=(Source(id=0, path=path, kind=SourceKind.LOG, size=1),))
    assert redacted(whole, ("hosts",)).sources[0].path == path


def test_public_addresses_stay() -> None:
    said = "see https://pytorch.org/docs and torch.distributed.distributed_c10d"
    assert redacted(quoting(said), ("hosts",)).findings[0].evidence[0].quote == said
