from __future__ import annotations

import pytest
from builders.remedies import fixtures_conditions
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.model.ranks import Ranks
from nccldoctor.prescribe.setting_table import known, look_up, nearest
from nccldoctor.prescribe.settings import Kind, describe_setting, is_on, judge, number


def judged(*settings, torch=None, nccl=None, readers=None):
    return {(j.name, j.kind): j for j in judge(settings, torch, nccl, readers)}


def one(name, value="1", **more):
    return fixtures_conditions.setting(name, value, **more)


def test_the_table_is_whole():
    table = known()
    assert len(table) > 400
    for row in table.values():
        assert row.meaning, row.name
        assert row.status in ("read", "not read", "removed", "renamed, still read", "read elsewhere"), row.name
        assert row.relevance in ("high", "medium", "low"), row.name


def test_nccl_timeout_has_no_reader():
    found = judged(one("NCCL_TIMEOUT", "1200000", line=12))["NCCL_TIMEOUT", Kind.NOT_READ]
    assert found.avoid
    assert "neither NCCL" in found.says
    assert "own code" in found.says
    assert str(found.place) == "launch.sh:12"


def test_a_variable_that_the_program_reads_is_not_called_useless():
    found = judged(
        one("NCCL_TIMEOUT", "3600", line=12), readers={"NCCL_TIMEOUT": fixtures_conditions.at("train.py", 3)}
    )
    assert ("NCCL_TIMEOUT", Kind.NOT_READ) not in found
    assert not found["NCCL_TIMEOUT", Kind.OWN].avoid
    assert "train.py:3" in found["NCCL_TIMEOUT", Kind.OWN].says


def test_a_private_name_is_left_to_its_program():
    found = judged(one("NCCL_TIMEOUT_MINUTES", "30"))
    assert not any(j.avoid for j in found.values())


def test_an_unknown_name_is_unknown_and_never_useless():
    found = judged(one("NCCL_SOCKET_IFNAME_OLD", "eth0"))["NCCL_SOCKET_IFNAME_OLD", Kind.UNKNOWN]
    assert not found.avoid
    assert "NCCL_SOCKET_IFNAME" in found.says
    assert "effect" not in found.says
    assert nearest("XYZZY_PLUGH") is None
    assert judged(one("MY_OWN_SETTING")) == {}
    assert judged(one("TORCH_HOME", "/data")) == {}


@pytest.mark.parametrize("name", ["NCLL_DEBUG", "NCCL_DEBGU", "NCCL_DEBU", "NCCL_DEBUGS", "NCCL_DEBUK"])
def test_one_wrong_letter_is_misspelt_and_two_are_not(name):
    found = judged(one(name, "INFO"))[name, Kind.MISSPELT]
    assert "NCCL_DEBUG keeps its default" in found.says
    assert not found.avoid
    assert (f"{name}XY", Kind.MISSPELT) not in judged(one(f"{name}XY"))


@pytest.mark.parametrize("value", ["0", "false", "no"])
def test_what_makes_a_hang_eternal_harms(value):
    for name in ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING"):
        harm = judged(one(name, value))[name, Kind.HARMFUL]
        assert harm.avoid
        assert "hangs forever" in harm.says
        assert (name, Kind.HARMFUL) not in judged(one(name, "1"))


def test_what_older_releases_print_unasked_is_no_advice_against():
    assert not judged(one("TORCH_NCCL_DUMP_ON_TIMEOUT", "0"))["TORCH_NCCL_DUMP_ON_TIMEOUT", Kind.HARMFUL].avoid


def test_a_plug_ins_name_is_known_by_its_pattern():
    assert look_up("OFI_NCCL_PROTOCOL").read_by.startswith("aws-ofi-nccl")
    assert judged(one("OFI_NCCL_PROTOCOL", "RDMA")) == {}


@pytest.mark.parametrize("name", ["NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"])
def test_blocking_wait_harms(name):
    found = judged(one(name), one("TORCH_NCCL_DUMP_ON_TIMEOUT"), one("NCCL_ASYNC_ERROR_HANDLING"))
    assert found[name, Kind.HARMFUL].avoid
    assert name in found["TORCH_NCCL_DUMP_ON_TIMEOUT", Kind.CONTRADICTING].says
    assert ("NCCL_ASYNC_ERROR_HANDLING", Kind.CONTRADICTING) in found
    assert (name, Kind.HARMFUL) not in judged(one(name, "0"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_TIMEOUT", "600"),
        ("NCCL_IB_TIMEOUT", "1800000"),
        ("NCCL_IB_RETRY_CNT", "15"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "10"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "600000"),
        ("NCCL_DEBUG", "VERBOSE"),
        ("TORCH_DISTRIBUTED_DEBUG", "FULL"),
        ("TORCH_FR_BUFFER_SIZE", "2GB"),
        ("NCCL_BUFFSIZE", "4M"),
    ],
)
def test_a_value_that_cannot_be_meant(name, value):
    assert judged(one(name, value))[name, Kind.UNIT].avoid


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_TIMEOUT", "22"),
        ("NCCL_IB_RETRY_CNT", "7"),
        ("NCCL_DEBUG", "info"),
        ("NCCL_DEBUG", '"WARN"'),
        ("TORCH_FR_BUFFER_SIZE", "20000"),
        ("NCCL_BUFFSIZE", "4194304"),
        ("NCCL_DEBUG", "$LEVEL"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
    ],
)
def test_a_sound_value_is_left_alone(name, value):
    assert judged(one(name, value)) == {}


def test_versions_are_held_against_a_name_only_where_they_are_known():
    before_timeout = one("NCCL_LAUNCH_ORDER_IMPLICIT")
    assert judged(before_timeout, nccl="2.21.5")["NCCL_LAUNCH_ORDER_IMPLICIT", Kind.VERSION].avoid
    assert judged(before_timeout, nccl="2.27.5") == {}
    assert judged(before_timeout) == {}
    gone = judged(one("NCCL_LL_THRESHOLD", "16384"), nccl="2.27.5")
    assert "up to 2.4.8" in gone["NCCL_LL_THRESHOLD", Kind.VERSION].says
    new = judged(one("TORCH_FR_BUFFER_SIZE", "2000"), torch="2.7.1")
    assert "from 2.8 on" in new["TORCH_FR_BUFFER_SIZE", Kind.VERSION].says


def test_renamed_and_needless():
    found = judged(one("NCCL_ASYNC_ERROR_HANDLING"), one("NCCL_IB_DISABLE", "0"))
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in found["NCCL_ASYNC_ERROR_HANDLING", Kind.RENAMED].says
    assert not found["NCCL_IB_DISABLE", Kind.NEEDLESS].avoid


def test_contradictions():
    found = judged(
        one("TORCH_FR_BUFFER_SIZE", "2000"),
        one("TORCH_NCCL_TRACE_BUFFER_SIZE", "500"),
        one("TORCH_NCCL_ENABLE_MONITORING", "0"),
        one("TORCH_NCCL_DUMP_ON_TIMEOUT", "1"),
        one("NCCL_IB_DISABLE", "1"),
        one("NCCL_IB_HCA", "mlx5"),
    )
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT", "NCCL_IB_HCA"):
        assert (name, Kind.CONTRADICTING) in found
    assert (
        "TORCH_FR_BUFFER_SIZE",
        Kind.CONTRADICTING,
    ) not in judged(one("TORCH_FR_BUFFER_SIZE", "2000"), one("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"))


def test_a_difference_between_ranks_names_the_minority():
    equal = [one("NCCL_ALGO", "Ring", rank=r, line=r + 1) for r in range(8) if r != 3]
    found = judged(*equal, one("NCCL_ALGO", "Tree", rank=3, line=99))["NCCL_ALGO", Kind.DIFFERS]
    assert found.ranks == Ranks([3])
    assert found.avoid
    assert "Ring on ranks 0-2, 4-7" in found.says
    assert judged(*equal) == {}
    assert judged(one("NCCL_DEBUG", "INFO", rank=0), one("NCCL_DEBUG", "WARN", rank=1)) == {}


def test_numbers_and_switches():
    assert [number(t) for t in ("0x10", ' "7" ', "-1", "7s", "")] == [16, 7, -1, None, None]
    assert [is_on(t) for t in ("1", "True", "'yes'", "0", "", "no")] == [True, True, True, False, False, False]


@given(
    st.lists(
        st.tuples(st.text(max_size=30), st.text(max_size=30), st.one_of(st.none(), st.integers(0, 9))), max_size=20
    )
)
def test_any_settings_can_be_judged(rows):
    made = [fixtures_conditions.setting(name, value, rank=rank) for name, value, rank in rows]
    assert judge(made, "?", "2.x") == judge(made, "?", "2.x")


def test_describe_setting():
    assert "exponent" in describe_setting("NCCL_IB_TIMEOUT")
    assert describe_setting("NO_SUCH_NAME") is None
