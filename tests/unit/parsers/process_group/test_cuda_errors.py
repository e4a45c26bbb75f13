"""Errors of CUDA."""

from __future__ import annotations

import pytest
from builders.logs.log_reading import events_of
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.parsers.nccl.log import nccl_warn
from nccldoctor.parsers.process_group.cuda_errors import cuda_error, is_software

PARSER = cuda_error


@pytest.mark.parametrize(
    ("text", "software"),
    [
        ("out of memory", True),
        ("device-side assert triggered", True),
        ("the launch timed out and was terminated", True),
        ("unspecified launch failure", True),
        ("uncorrectable ECC error encountered", False),
        ("GPU is lost", False),
        ("system not yet initialized", False),
        ("Invalid access of peer GPU memory over nvlink or a hardware error", False),
    ],
)
def test_what_a_program_can_cause(text, software):
    assert is_software(text) is software
    (event,) = events_of(PARSER, f"[rank3]: RuntimeError: CUDA error: {text}")
    assert (event.message, event.software, event.rank) == (text, software, 3)


def test_advice_and_clean_up_are_no_errors():
    text = (
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1.\nCUDA kernel errors might be asynchronously"
        " reported\nCUDA error: driver shutting down"
    )
    assert not events_of(PARSER, text)


def test_nccl_warning_is_told_once():
    text = "n1:7:8 [3] enqueue.cc:1204 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'"
    assert not events_of(nccl_warn, text)


@given(st.text(max_size=150), st.sampled_from(PARSER.literals), st.text(max_size=150))
@settings(max_examples=150, deadline=None)
def test_never_raises(front, literal, back):
    events_of(PARSER, front + literal + back)
