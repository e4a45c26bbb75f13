"""Captures one rank: a thread that watches progress, looks at a stall, and last words on the way out."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable

from nccldoctor.capture.beside import Beside, ask_torch_for_dump
from nccldoctor.capture.evidence import LOG_BYTES, Evidence, Scratch
from nccldoctor.capture.identity import Identity
from nccldoctor.capture.rank_log import RankLog
from nccldoctor.capture.settings import shown
from nccldoctor.capture.stacks import LateStacks, SignalStacks, write_stacks
from nccldoctor.capture.stall import Standstill, stall_limit
from nccldoctor.capture.torch_state import TorchState, recorder_dumps, versions

POLL_S = 1.0
"""Seconds between two glances of the watcher; each costs some 0.1 ms."""

WATCHES = "nccldoctor.capture watches this rank"
"""What the log of a captured rank says at its begin."""


class Session:
    """What capture does in one rank. ``fail`` is called once with what went wrong, and nothing is written from then on."""

    def __init__(
        self,
        evidence: Evidence,
        identity: Identity,
        scratch: Scratch,
        beside: Beside | None,
        stall_after: float | None,
        fail: Callable[[str], None],
    ) -> None:
        self.evidence, self.identity = evidence, identity
        self.step: int | None = None
        self.phase = ""
        self.torch = TorchState()
        self.log = RankLog(evidence.log, identity.label, LOG_BYTES)
        self._scratch, self._beside, self._asked_limit, self._fail = scratch, beside, stall_after, fail
        self._standstill = Standstill(stall_limit(None, stall_after), time.monotonic())
        self._signal, self._late = SignalStacks(scratch.asked), LateStacks(scratch.late)
        self._joined = set(evidence.known_looks())
        self._listed = -math.inf
        self._told_groups = 0
        self._has_dumped = False
        self._beaten: tuple[int | None, str] = (None, "")
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nccldoctor-capture", daemon=True)

    def begin(self) -> None:
        """Say who this is, and watch from now on."""
        me = self.identity
        world = f" world_size={me.world}" if me.world is not None else ""
        self.log.say(f"rank={me.rank} pid={me.pid} host={me.host}{world}", WATCHES, *versions(), *shown())
        self._thread.start()

    @property
    def poll_s(self) -> float:
        """Seconds between two glances: a stall of a few seconds is looked at more often."""
        return min(POLL_S, self._standstill.limit.least / 10)

    def _watch(self) -> None:
        while not self._has_ended.wait(self.poll_s):
            try:
                self._glance()
            except Exception as error:  # whatever it is, it must not become the job's
                self._has_ended.set()
                self._fail(f"{type(error).__name__}: {error}")
                self.release()

    def _glance(self) -> None:
        now = time.monotonic()
        if self._beside is not None:
            self._beside.beat()
        self._late.clear()
        self._late.wind(self._standstill.seconds + self.poll_s)
        self.torch.attach()
        self._tell_groups()
        step, was_looked_at = self.current_step, bool(self._standstill.looks)
        has_moved = self._standstill.has_changed((step, self.phase, self.torch.signs()), now)
        self.beat()
        if has_moved and was_looked_at:
            self.dump()  # the calls that the stall delayed, now with their ends
        is_own = self._signal.was_asked() or self._standstill.is_due(now)
        if is_own and not self._fresh_looks():
            self._ask_for_look()
        if is_own or now - self._listed >= self._listing_s:
            self._listed = now
            self._join_looks(now)

    @property
    def _listing_s(self) -> float:
        return self._standstill.limit.listing_s(self.identity.world)

    def _ask_for_look(self) -> None:
        """Begin a look, and say until when every rank that runs takes part in it."""
        look = self.evidence.open_look(time.time())
        within = math.ceil(self._listing_s + self.poll_s)
        self.log.say(f"nccldoctor.capture asks all ranks for look {look}, to be answered within {within} s")

    def _join_looks(self, now: float) -> None:
        """Take part in new looks; of many, which a folder may hold by mistake, in the newest alone."""
        fresh = self._fresh_looks()
        self._joined.update(fresh)
        for look in fresh[-Standstill.MOST_LOOKS :]:
            self._join(look, now)

    def _fresh_looks(self) -> list[str]:
        """The looks that this rank has no part in yet."""
        return [look for look in self.evidence.known_looks() if look not in self._joined]

    def _join(self, look: str, now: float) -> None:
        """Take part in a look of any rank; the first of a stall replaces those of the last."""
        if not self._standstill.looks:
            began = time.time() - (now - self._standstill.since)
            self.evidence.forget_looks(before=began, but=look)
        self._standstill.note_look(now)
        self.take_part(look)

    @property
    def current_step(self) -> int | None:
        """The step that the job told, else the steps of its optimizer."""
        return self.step if self.step is not None else self.torch.optimizer_steps or None

    def beat(self) -> None:
        """Write a heartbeat where step or phase is another one than in the last."""
        step = self.current_step
        if (step, self.phase) != self._beaten and (step is not None or self.phase):
            at = f" step={step}" if step is not None else ""
            self.log.say(f"heartbeat:{at}" + (f" phase={self.phase}" if self.phase else ""))
        self._beaten = (step, self.phase)

    def _tell_groups(self) -> None:
        if len(self.torch.calls()) == self._told_groups:
            return
        groups = self.torch.groups()
        if not self._told_groups and groups:
            self.log.say(f"process groups ready world_size={len(groups[0].ranks)}", *versions())
        self.log.say(*(group.to_line() for group in groups[self._told_groups :]))
        self._told_groups = len(groups)
        timeouts = [group.timeout_s for group in groups if group.timeout_s is not None]
        self._standstill.limit = stall_limit(min(timeouts, default=None), self._asked_limit)

    def take_part(self, look: str) -> None:
        """Stacks first: the recorder may wait for a device that hangs."""
        write_stacks(self.evidence.stack(look))
        self.dump()

    def dump(self) -> None:
        """Write what the recorders hold, each over its last dump."""
        ask_torch_for_dump(self._scratch, self.identity.rank)
        self._has_dumped = True
        for stem, content in recorder_dumps():
            target = self.evidence.recorder / f"{stem}{self.identity.suffix}"
            unfinished = target.with_name(f".{target.name}")
            unfinished.write_bytes(content)
            unfinished.replace(target)

    def leave(self, *words: str) -> None:
        """Write the last words and the last dump, once, and let go of everything."""
        if self._has_ended.is_set() or os.getpid() != self.identity.pid:
            return
        self._has_ended.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(self.poll_s * 5)
        try:
            self.beat()
            if self.torch.has_group or self._has_dumped:
                self.dump()
            self.log.say(*words)
        finally:
            self.release()

    def release(self) -> None:
        """Give back the signal, the timer and the hook, and let the sidecar end."""
        self._signal.close()
        self._late.close()
        self.torch.detach()
        if self._beside is not None:
            self._beside.end()
        self._scratch.remove()
