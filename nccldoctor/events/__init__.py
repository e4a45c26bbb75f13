"""What log lines say: one frozen dataclass for each kind of event of the contract.

Parsers build them, ``identify`` completes ``rank`` and ``time``, rules read them. The docstring of a class
is what ``nccldoctor explain KIND`` prints. Field names are those of ``inspect --format json``. The order of
these imports is that of ``KINDS``.
"""

from __future__ import annotations

from nccldoctor.events.base import KINDS, Event, GroupRef, kind
from nccldoctor.events.calls import (
    BlockingWaitTimeout,
    CallTimeout,
    CollectiveMismatch,
    CollectiveTimeout,
    DesyncReport,
    DumpNote,
    DumpSignal,
    FailedStack,
    HeartbeatStuck,
    MonitoredBarrier,
    TearDown,
    WorkStatus,
)
from nccldoctor.events.failures import (
    CudaError,
    ExceptionRaised,
    GpuError,
    IbError,
    KernelEvent,
    NcclError,
    NcclWarn,
    OutOfMemory,
    ProcessExit,
    RendezvousError,
    SchedulerEvent,
    SocketError,
    StoreError,
)
from nccldoctor.events.life import Heartbeat, Phase, Progress, Setting, Stack
from nccldoctor.events.records import (
    CollCall,
    CommInit,
    FrAnalysis,
    InspectorRecord,
    Note,
    ProxyDump,
    RasStatus,
    Version,
)

__all__ = [
    "KINDS",
    "BlockingWaitTimeout",
    "CallTimeout",
    "CollCall",
    "CollectiveMismatch",
    "CollectiveTimeout",
    "CommInit",
    "CudaError",
    "DesyncReport",
    "DumpNote",
    "DumpSignal",
    "Event",
    "ExceptionRaised",
    "FailedStack",
    "FrAnalysis",
    "GpuError",
    "GroupRef",
    "Heartbeat",
    "HeartbeatStuck",
    "IbError",
    "InspectorRecord",
    "KernelEvent",
    "MonitoredBarrier",
    "NcclError",
    "NcclWarn",
    "Note",
    "OutOfMemory",
    "Phase",
    "ProcessExit",
    "Progress",
    "ProxyDump",
    "RasStatus",
    "RendezvousError",
    "SchedulerEvent",
    "Setting",
    "SocketError",
    "Stack",
    "StoreError",
    "TearDown",
    "Version",
    "WorkStatus",
    "kind",
]
