"""What to record the next time."""

from __future__ import annotations

import numpy as np
import pytest
from builders.remedies import fixtures_conditions
from builders.remedies.advice import LOADER, ask, event
from msgspec.structs import replace

from nccldoctor.events import (
    AbsenceReport,
    AbsenceWarning,
    CaptureNotice,
    CollectiveTimeout,
    ExceptionRaised,
    NcclError,
    Note,
)
from nccldoctor.model import Stalled
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, Vocabulary
from nccldoctor.prescribe.capture import buffer_size, nccl_exports, recorder_exports


def test_capture_names_both_variables_for_the_version_seen():
    def exports(torch):
        return [
            line.split("=")[0].removeprefix("export ")
            for line in ask(fixtures_conditions.case(torch=torch)).capture
            if line.startswith("export TORCH")
        ]

    assert exports("2.9.1")[:2] == ["TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"]
    assert exports("2.7.0")[0] == "TORCH_NCCL_TRACE_BUFFER_SIZE"
    assert "TORCH_FR_BUFFER_SIZE" not in exports("2.7.0")
    assert "TORCH_FR_BUFFER_SIZE" in exports(None)
    assert exports("2.1.2") == []


def test_capture_does_not_ask_for_what_is_there():
    head = DumpHead(0, "dump", "dict", "2.9", 100, False, "nccl", "", (), (), True)
    whole = fixtures_conditions.case([fixtures_conditions.stack(r, LOADER) for r in range(8)])
    whole = replace(whole, batch=Batch((head,) * 8, Calls.empty(), Vocabulary()), dump_rank=tuple(range(8)))
    lines = "\n".join(ask(whole).capture)
    assert "BUFFER_SIZE" not in lines
    assert "faulthandler" not in lines
    assert "nccldoctor.capture" not in lines


def test_a_ring_that_wrapped_is_made_larger():
    head = DumpHead(0, "dump", "dict", "2.9", 2000, True, "nccl", "", (), (), True)
    wrapped = replace(fixtures_conditions.case(), batch=Batch((head,), Calls.empty(), Vocabulary()), dump_rank=(0,))
    assert buffer_size(wrapped) == 4000
    assert any("=4000" in line for line in ask(wrapped).capture)
    assert buffer_size(fixtures_conditions.case()) == 2000


def test_capture_arms_stacks_before_the_limit():
    slow = CollectiveTimeout(
        place=fixtures_conditions.at(), text="", rank=0, op="ALLREDUCE", seq=1, timeout_ms=1_800_000
    )
    assert any("dump_traceback_later(1440" in line for line in ask(fixtures_conditions.case([slow])).capture)


def test_the_limit_is_that_of_the_job_however_it_is_known():
    def armed(case, **finding):
        lines = ask(case, fixtures_conditions.finding(**finding)).capture
        return next(line for line in lines if "dump_traceback_later" in line)

    calls = replace(Calls.empty(), timeout_ms=np.array([-1, 5_000, 30_000]))
    dumped = replace(fixtures_conditions.case(), batch=Batch((), calls, Vocabulary()))
    script = fixtures_conditions.case([fixtures_conditions.setting("init_process_group(timeout=)", "20 s")])
    nothing = Stalled("ALLREDUCE", 7)

    assert "later(4," in armed(dumped, stalled=nothing) and "before the 5 s timeout" in armed(dumped, stalled=nothing)
    assert "later(16," in armed(script, stalled=nothing)
    assert "later(9," in armed(script, stalled=replace(nothing, timeout_ms=12_000))
    assert "later(480," in armed(fixtures_conditions.case(), stalled=nothing), "PyTorch's default"


def said(cls, text, **fields):
    return cls(place=fixtures_conditions.at(), text=text, **fields)


GLOO = said(
    ExceptionRaised, "RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
)
HOROVOD = said(AbsenceWarning, "horovod/common/stall_inspector.cc:107] Missing ranks: 3", by="Horovod")
HCCL = said(AbsenceReport, "[ERROR] HCCL(4121): wait timeout", by="HCCL")
ONECCL = said(NcclError, "(122510) |CCL_ERROR| atl_ofi.cpp:94 init: fi_getinfo failed", topic="oneccl")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (GLOO, "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
        (HOROVOD, "HOROVOD_TIMELINE="),
        (HCCL, "ASCEND_GLOBAL_LOG_LEVEL=1"),
        (ONECCL, "CCL_LOG_LEVEL=info"),
    ],
)
def test_capture_fits_the_library_of_the_job(line, wanted):
    lines = "\n".join(ask(fixtures_conditions.case([line])).capture)
    assert wanted in lines
    assert " NCCL_" not in lines and "TORCH_NCCL_" not in lines and "ncclras" not in lines


def test_capture_for_two_libraries_names_both():
    nccl = said(ExceptionRaised, "DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251")
    lines = "\n".join(ask(fixtures_conditions.case([GLOO, nccl])).capture)
    assert "TORCH_DISTRIBUTED_DEBUG" in lines and "NCCL_DEBUG=WARN" in lines


@pytest.mark.parametrize(
    ("detail", "torch", "is_nccl"),
    [
        ("gloo", "2.10.0+cu128", False),
        ("", "2.13.0+cpu", False),
        ("", "2.10.0+cu128", True),
        ("cpu:gloo,cuda:nccl", "2.10.0+cu128", True),
        ("nccl", "2.10.0", True),
    ],
)
def test_what_a_group_runs_on_decides_which_settings_are_named(detail, torch, is_nccl):
    group = [event(Note, 0, what="backend", detail=detail)] if detail else []
    lines = "\n".join(ask(fixtures_conditions.case(group, torch=torch)).capture)

    assert (" NCCL_DEBUG" in lines) is is_nccl
    assert ("TORCH_NCCL_DUMP_ON_TIMEOUT" in lines) is is_nccl
    assert ("TORCH_DISTRIBUTED_DEBUG" in lines) is (not is_nccl or "gloo" in detail)


def test_a_job_on_gloo_that_capture_watched_gets_no_settings_of_nccl():
    said_by_capture = [event(CaptureNotice, 0), event(Note, 0, what="backend", detail="gloo")]
    assert ask(fixtures_conditions.case(said_by_capture)).capture == ()


def test_torchrun_is_named_only_for_jobs_that_it_starts():
    assert not any("torchrun" in line for line in ask(fixtures_conditions.case([HOROVOD])).capture)
    assert any("horovodrun" in line for line in ask(fixtures_conditions.case([HOROVOD])).capture)
    assert any("torchrun" in line for line in ask(fixtures_conditions.case([GLOO])).capture)


def test_every_setting_says_what_it_shows():
    exports = (*recorder_exports(None, 2000), *recorder_exports("2.7.0", 2000), *nccl_exports(None))
    assert all(export.why for export in exports)


def test_our_own_recorder_is_named_once_where_it_would_have_shown_more():
    bare = ask(fixtures_conditions.case([GLOO])).capture
    assert [number for number, line in enumerate(bare) if "nccldoctor.capture" in line] == [0]
    captured = event(CaptureNotice, 0, text="nccldoctor.capture watches this rank")
    assert not any("-m nccldoctor.capture" in line for line in ask(fixtures_conditions.case([GLOO, captured])).capture)
    assert not any("nccldoctor.capture" in line for line in ask(fixtures_conditions.case([HOROVOD])).capture)
