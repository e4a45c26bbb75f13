"""What is advised against, and where it is seen."""

from __future__ import annotations

from builders.remedies import fixtures_conditions
from builders.remedies.advice import ask, raised

from nccldoctor.events import Note

SHOTGUN = [
    ("NCCL_TIMEOUT", "300"),
    ("NCCL_BLOCKING_WAIT", "1"),
    ("NCCL_ASYNC_ERROR_HANDLING", "1"),
    ("NCCL_IB_DISABLE", "1"),
    ("NCCL_P2P_DISABLE", "1"),
    ("NCCL_DEBUG_SUBSYS", "ALL"),
    ("NCCL_SOCKET_IFNAME", "^docker0,lo"),
    ("find_unused_parameters", "True"),
    ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"),
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_TIMEOUT_MINUTES", "30"),
]


def test_discouraged_advice_is_answered_where_it_is_seen():
    case = fixtures_conditions.case(
        [fixtures_conditions.setting(name, value, line) for line, (name, value) in enumerate(SHOTGUN, 1)]
    )
    avoid = {a.what: a for a in ask(case).avoid}
    for line, (name, value) in enumerate(SHOTGUN[:8], 1):
        assert avoid[f"{name}={value}"].where == f"launch.sh:{line}"
        assert avoid[f"{name}={value}"].why
    for name, value in SHOTGUN[8:]:
        assert f"{name}={value}" not in avoid


def note(what, detail, line=7):
    return Note(place=fixtures_conditions.at("fix.md", line, 2), text=f"set `{detail}`", what=what, detail=detail)


def test_advice_in_a_note_is_answered_too():
    avoid = {
        a.what: a
        for a in ask(
            fixtures_conditions.case([note("advice", "NCCL_TIMEOUT=1200000"), note("advice", "barrier", 9)])
        ).avoid
    }
    assert avoid["NCCL_TIMEOUT=1200000"].where == "fix.md:7"
    assert any(a.where == "fix.md:9" and "barrier" in a.what for a in avoid.values())


def test_a_variable_that_the_program_reads_is_not_discouraged():
    case = fixtures_conditions.case(
        [fixtures_conditions.setting("NCCL_TIMEOUT", "1800"), note("reads-variable", "NCCL_TIMEOUT")]
    )
    assert ask(case).avoid == ()


def test_a_long_limit_reads_as_code():
    case = fixtures_conditions.case([fixtures_conditions.setting("init_process_group(timeout=)", "3600 s")])
    assert [a.what for a in ask(case).avoid] == ["init_process_group(timeout=3600 s)"]


def test_discouraged_advice_that_is_not_seen_is_not_mentioned():
    assert ask(fixtures_conditions.case([fixtures_conditions.setting("NCCL_DEBUG", "WARN")])).avoid == ()


def test_a_wrong_unit_is_advised_against_without_an_entry():
    avoid = ask(fixtures_conditions.case([fixtures_conditions.setting("NCCL_IB_TIMEOUT", "1800")])).avoid
    assert [a.what for a in avoid] == ["NCCL_IB_TIMEOUT=1800"]
    assert "exponent" in avoid[0].why


def test_a_stated_need_excuses_find_unused_parameters():
    error = raised("RuntimeError", "Expected to have finished reduction in the prior iteration")
    assert (
        ask(fixtures_conditions.case([error, fixtures_conditions.setting("find_unused_parameters", "True")])).avoid
        == ()
    )


def test_what_torchrun_sets_on_every_rank_is_no_advice_that_somebody_followed():
    own = fixtures_conditions.setting("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 1)
    beside = fixtures_conditions.setting("TORCHELASTIC_RUN_ID", "none", 2)
    assert [a.what for a in ask(fixtures_conditions.case([own])).avoid] == ["TORCH_NCCL_ASYNC_ERROR_HANDLING=1"]
    assert ask(fixtures_conditions.case([own, beside])).avoid == ()
