"""Which library carried the collectives, and whether remedies for GPUs and NCCL are for the job."""

from __future__ import annotations

import pytest
from builders.remedies.advice import ask
from builders.remedies.fixtures_conditions import at, case, finding, stack

from nccldoctor.events import CudaError, Event, Note
from nccldoctor.prescribe.next_run import NextRun
from nccldoctor.questions.backends import backends_of, met_needs

GLOO, NCCL, HCCL = (Note(place=at(), text="backend", what="backend", detail=name) for name in ("gloo", "nccl", "hccl"))
CUDA = CudaError(place=at(), text="CUDA error: an illegal memory access", rank=2)
WAITS = "gloo::transport::tcp::UnboundBuffer::waitRecv (libtorch_cpu.so)"
KERNEL = "c10d::ProcessGroupNCCL::watchdogHandler (libtorch_cuda.so)"
GPU = ("GPU", "CUDA", "NCCL", "NVRM", "nvidia", "--native", "ncclras")


@pytest.mark.parametrize(
    ("events", "needs"),
    [
        ([], {"gpu", "nccl"}),
        ([NCCL], {"gpu", "nccl"}),
        ([NCCL, GLOO], {"gpu", "nccl"}),
        ([GLOO], {"no-gpu"}),
        ([HCCL], {"no-gpu"}),
        ([GLOO, CUDA], {"gpu"}),
        ([stack(1, WAITS)], {"no-gpu"}),
        ([stack(1, WAITS), stack(2, KERNEL)], {"gpu", "nccl"}),
        ([stack(1, "PMPI_Barrier (libmpi.so.40)")], {"no-gpu"}),
        ([stack(1, "init_gloo (train.py:7)")], {"gpu", "nccl"}),  # a user's function may be called anything
    ],
)
def test_the_libraries_at_work_say_what_remedies_may_need(events: list[Event], needs: set[str]) -> None:
    of = case(events)
    assert met_needs(of, backends_of(of)) == needs


@pytest.mark.parametrize("cause", ["unfinished", "died", "not-arrived", "size-mismatch", "order-inversion", "frozen"])
def test_advice_for_a_job_over_gloo_names_no_gpu_and_no_nccl(cause: str) -> None:
    def advice(*events: Event) -> str:
        told = ask(case(events), finding(cause))
        lines = [line for one in told.remedies for line in (one.title, *one.confirm, *one.fix, *one.prevent)]
        lines += [warn.what for one in told.remedies for warn in one.avoid]
        return "\n".join((*lines, *(f"{step.text} {step.command}" for step in told.action.steps), *told.capture))

    named = [word for word in GPU if word in advice(GLOO)]
    assert not named
    assert "TORCH_NCCL_DUMP_ON_TIMEOUT" in advice()


@pytest.mark.parametrize(("backends", "has"), [((), True), (("nccl",), True), (("hccl",), False), (("jax",), False)])
def test_the_next_run_sets_nccl_variables_where_nccl_may_run(backends: tuple[str, ...], has: bool) -> None:
    names = [export.name for export in NextRun("2.9.1", None, 2000, "", backends).exports]
    assert ("NCCL_DEBUG" in names) is has
