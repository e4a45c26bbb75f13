"""Variables, limits and versions."""

from __future__ import annotations

import pytest
from builders.logs.cpu_limit import bounded_cpu_time
from builders.logs.log_reading import events, events_of, parsers_of, text_around_literals
from hypothesis import given, settings

from nccldoctor.parsers.base import LineParser
from nccldoctor.parsers.settings import environment, timeouts

ENV, LIMIT, VERSIONS = environment.environment, timeouts.timeout, parsers_of("settings.versions")
PARSERS: tuple[LineParser, ...] = (ENV, LIMIT, *VERSIONS)


@pytest.mark.parametrize(
    "text",
    [
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1.",
        "CUDA_LAUNCH_BLOCKING=1.",
        "You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.",
        "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5",
        "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this",
        "# export NCCL_DEBUG=INFO",
        '    # os.environ["NCCL_DEBUG"] = "INFO"',
        'minutes = int(os.environ.get("NCCL_TIMEOUT_MINUTES", "30"))',
        'if os.environ["NCCL_DEBUG"] == "INFO":',
        "- `NCCL_TIMEOUT`: Set to 300 seconds (5 minutes)",
        "NCCL_DEBUG=INFO for details)",
        "please export NCCL_IB_DISABLE=1 and try again",
        "n:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
        "| `NCCL_DEBUG` | WARN | NCCL logging level (WARN, INFO, TRACE) |",
    ],
)
def test_a_mention_is_no_setting(text):
    assert not events_of(ENV, text)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("+ export NCCL_DEBUG=INFO", {"NCCL_DEBUG": "INFO"}),
        ("   NCCL_SOCKET_IFNAME=^docker0,lo", {"NCCL_SOCKET_IFNAME": "^docker0,lo"}),
        ('export NCCL_SOCKET_IFNAME="eth0"  FI_PROVIDER=efa', {"NCCL_SOCKET_IFNAME": "eth0", "FI_PROVIDER": "efa"}),
        ("declare -x MASTER_ADDR=10.0.0.1", {"MASTER_ADDR": "10.0.0.1"}),
        (
            "cmd = pdsh -w n1 export NCCL_DEBUG=INFO; export GLOO_SOCKET_IFNAME=ib0; cd /x",
            {"NCCL_DEBUG": "INFO", "GLOO_SOCKET_IFNAME": "ib0"},
        ),
        ("docker run -e NCCL_DEBUG=INFO --env UCX_TLS=tcp image", {"NCCL_DEBUG": "INFO", "UCX_TLS": "tcp"}),
        ("srun --export=ALL,NCCL_ALGO=Ring python x.py", {"NCCL_ALGO": "Ring"}),
        ('  "NCCL_DEBUG": "INFO",', {"NCCL_DEBUG": "INFO"}),
        ("  NCCL_DEBUG: INFO  # why", {"NCCL_DEBUG": "INFO"}),
        ('{"name": "NCCL_DEBUG", "value": "INFO"}', {"NCCL_DEBUG": "INFO"}),
        ("os.environ['NCCL_TIMEOUT'] = str(minutes * 60)  # why", {"NCCL_TIMEOUT": "str(minutes * 60)"}),
        ("os.environ.setdefault('NCCL_TIMEOUT', get(x))", {"NCCL_TIMEOUT": "get(x)"}),
        ("export NCCL_AUTH_TOKEN=abc", {"NCCL_AUTH_TOKEN": "***"}),
        ("export TORCH_HOME=https://me:secret@host/x", {"TORCH_HOME": "https://***@host/x"}),
        ("export NCCL_DEBUG=INFO \\", {"NCCL_DEBUG": "INFO"}),
        ("RANK=3 LOCAL_RANK=3 WORLD_SIZE=8 python train.py", {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "8"}),
    ],
)
def test_settings(text, pairs):
    found = events_of(ENV, text)
    assert {e.name: e.value for e in found} == pairs
    assert len(found) == len(pairs)


def test_secrets_beside_a_setting_stay_out_of_the_event():
    (event,) = events_of(ENV, "environ({'WANDB_API_KEY': 'hunter2', 'NCCL_DEBUG': 'INFO'})")
    assert "hunter2" not in repr(event)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("timedelta(seconds=2 * 3600)", 7200),
        ("datetime.timedelta(hours=1, minutes=30)", 5400),
        ("timedelta(0, 1800)", 1800),
        ("timedelta(milliseconds=500)", 0.5),
        ("timedelta(minutes=n)", None),
        ("timedelta(seconds=__import__('os').system('x'))", None),
        ("3600", None),
        ("timedelta(1, 2, 3)", None),
    ],
)
def test_seconds(text, seconds):
    assert timeouts.seconds_of(text) == seconds


def test_a_call_without_a_limit_takes_none_from_below():
    text = 'dist.init_process_group("nccl")\nloader = DataLoader(x, timeout=600)'
    assert not events_of(LIMIT, text)


def test_limits_of_frameworks():
    text = (
        "ddp_timeout: 180000000\nkwargs ="
        " InitProcessGroupKwargs(timeout=timedelta(seconds=5400))\n--distributed-timeout-minutes=60"
    )
    assert [(e.name, e.value) for e in events_of(LIMIT, text)] == [
        ("--ddp_timeout", "180000000"),
        ("InitProcessGroupKwargs(timeout=)", "5400 s"),
        ("--distributed-timeout-minutes", "60"),
    ]


def test_versions_of_one_line_once():
    text = "NCCL version 2.21.5+cuda12.4 NCCL version 2.20.1"
    assert [(e.of, e.version) for e in events(text, parsers=VERSIONS)] == [("nccl", "2.21.5"), ("cuda", "12.4")]


@pytest.mark.parametrize(
    "text", ["Python via pip", "torch==", "NCCL version mismatch", "torchvision==0.20.1", "PyTorch: fast"]
)
def test_no_version(text):
    assert not events(text, parsers=VERSIONS)


@given(text_around_literals(PARSERS, 120))
@settings(max_examples=300, deadline=None)
def test_never_raises(text):
    for parser in PARSERS:
        events_of(parser, text)


@pytest.mark.parametrize(
    "filler",
    [
        "NCCL_A=1 ",
        "export ",
        "'NCCL_A': ",
        "-e NCCL_A=",
        "environ[ ",
        "NCCL_",
        "timeout=",
        "init_process_group(",
        "torch==1.",
        " ",
        '"',
    ],
)
def test_hostile_line_is_read_quickly(filler):
    text = (filler * (65536 // len(filler)))[:65000] + " NCCL_ init_process_group( NCCL version torch=="
    with bounded_cpu_time():
        for parser in PARSERS:
            events_of(parser, text)
