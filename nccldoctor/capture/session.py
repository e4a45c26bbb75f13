"""Captures one rank: a thread that watches progress, looks at a stall, and last words on the way out.

The job sees nothing of it: ``threading`` does not know the thread, no signal reaches it, and no file stays open but one (``stacks.py``).
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import traceback
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress

from nccldoctor.capture.evidence import RECORDERS, Evidence, RankLog, Scratch
from nccldoctor.capture.identity import Identity
from nccldoctor.capture.sidecar import WELL
from nccldoctor.capture.stacks import LateStacks, StackFile, write_stacks
from nccldoctor.capture.stall import Standstill, stall_limit
from nccldoctor.capture.torch_state import TorchState, ask_torch_for_dump, recorder_dumps, versions

POLL_S = 1.0
"""Seconds between two glances of the watcher; each costs some 0.1 ms."""


class Session:
    """What capture does in one rank. ``fail`` is called once with what went wrong, and nothing is written from then on."""

    def __init__(
        self,
        evidence: Evidence,
        identity: Identity,
        scratch: Scratch,
        stall_after: float | None,
        is_timer_free: bool,
        fail: Callable[[str], None],
    ) -> None:
        self.evidence, self.identity = evidence, identity
        self.step: int | None = None
        self.phase = ""
        self.torch = TorchState()
        self.log = RankLog(evidence.log, identity.label)
        self._scratch, self._asked_limit, self._fail = scratch, stall_after, fail
        self._standstill = Standstill(stall_limit(None, stall_after), time.monotonic())
        self._file = StackFile(scratch.late)
        self._late = LateStacks(self._file, is_timer_free)
        self._winds = allocate_lock()
        self._told_error = getattr(sys, "last_value", None) is not None
        self._joined = set(evidence.known_looks())
        self._listed = -math.inf
        self._told_groups = 0
        self._has_dumped = False
        self._stalled_step: int | None = None
        self._beaten: tuple[int | None, str] = (None, "")
        self._has_ended = False
        self._waits, self._runs = allocate_lock(), allocate_lock()  # held until the end, and while the thread runs
        self._waits.acquire()

    def begin(self) -> None:
        """Watch from now on, in a thread that takes no signal from the job."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._wind(time.monotonic())
            self._runs.acquire()
            start_new_thread(self._watch, ())
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        here, there = self._after_fork, self._leave_child
        os.register_at_fork(before=self._before_fork, after_in_parent=here, after_in_child=there)

    @property
    def poll_s(self) -> float:
        """Seconds between two glances: a stall of a few seconds is looked at more often."""
        return min(POLL_S, self._standstill.limit.least / 10)

    def _watch(self) -> None:
        try:
            while not self._waits.acquire(timeout=self.poll_s):
                self._glance()
        except Exception as error:  # whatever it is, it must not become the job's
            self._has_ended = True
            with suppress(Exception):
                self._fail(f"{type(error).__name__}: {error}")
                self.release()
        finally:
            self._runs.release()

    def _wind(self, now: float) -> None:
        with self._winds:
            if self._file.is_ours:
                self._late.wind(self._standstill.seconds + self.poll_s, now)
            elif not self._has_ended:  # the job has closed it, and may have given its number away
                self._late.disarm()
                self._file.close()

    def _before_fork(self) -> None:
        self._winds.acquire()
        self._late.disarm()  # a child in which the timer seems to run waits for it in vain when it ends

    def _after_fork(self) -> None:
        self._winds.release()
        self._wind(time.monotonic())

    def _leave_child(self) -> None:
        self._winds.release()
        self._has_ended = True
        self._file.close()

    def _glance(self) -> None:
        now = time.monotonic()
        with suppress(OSError):
            os.utime(self._scratch.top)
        was_asked = self._file.was_written() and not 0 < self._late.fires <= now
        self._wind(now)
        self.torch.attach()
        self._tell_groups()
        step, was_looked_at = self.current_step, bool(self._standstill.looks)
        has_moved = self._standstill.has_changed((step, self.phase, self.torch.signs()), now)
        self.beat()
        if has_moved:
            self._keep_stall()
        if has_moved and was_looked_at:
            self.dump()  # the calls that the stall delayed, now with their ends
        self._tell_error()
        is_own = was_asked or self._standstill.is_due(now)
        if is_own and not self._fresh_looks():
            look, within = self.evidence.open_look(time.time()), math.ceil(self._listing_s + self.poll_s)
            self.log.say(f"nccldoctor.capture asks all ranks for look {look}, to be answered within {within} s")
        if is_own or now - self._listed >= self._listing_s:
            self._listed = now
            self._join_looks(now)

    @property
    def _listing_s(self) -> float:
        return self._standstill.limit.listing_s(self.identity.world)

    def _join_looks(self, now: float) -> None:
        """Take part in new looks; of many, which a folder may hold by mistake, in the newest alone."""
        fresh = self._fresh_looks()
        self._joined.update(fresh)
        for look in fresh[-Standstill.MOST_LOOKS :]:
            if not self._standstill.looks:  # the first of a stall replaces those of the last
                began = time.time() - (now - self._standstill.since)
                self.evidence.forget_looks(before=began, but=look)
            self._standstill.note_look(now)
            self.take_part(look)

    def _fresh_looks(self) -> list[str]:
        """The looks that this rank has no part in yet."""
        return [look for look in self.evidence.known_looks() if look not in self._joined]

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

    def _tell_error(self) -> None:
        """Put the traceback of an exception that nothing catches into the log, too: the interpreter shows it to everybody.

        Its lines begin as with torch's own hook (``distributed_c10d.py``, 2.4 to 2.13).
        """
        error = getattr(sys, "last_value", None)
        if error is not None and not self._told_error and not hasattr(sys, "ps1"):
            self._told_error = True
            self.beat()  # the last step comes before what ended the rank
            self.log.say("an exception that nothing caught ends this process")
            front = f"[rank{self.identity.rank}]: " if self.identity.rank is not None else ""
            # after Ctrl-C, code that runs from text would change the exit status
            shown = traceback.format_exception(error) if isinstance(error, Exception) else [type(error).__name__]
            self.log.quote(front, "".join(shown))

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
        self._stalled_step = self.current_step
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

    def _keep_stall(self) -> None:
        """Put the dumps of a stall aside until the next step.

        A call that failed is followed by others, of the way out, at the same step.
        """
        for name in (f"{stem}{self.identity.suffix}" for stem in RECORDERS):
            kept, dump = self.evidence.stalled / name, self.evidence.recorder / name
            if self._stalled_step not in (None, self.current_step):
                kept.unlink(missing_ok=True)
            elif self._stalled_step is not None and dump.exists() and not kept.exists():
                dump.replace(kept)
        if self._stalled_step != self.current_step:
            self._stalled_step = None

    def leave(self) -> None:
        """Write the last words and the last dump, once, and let go of everything."""
        if self._has_ended or os.getpid() != self.identity.pid:
            return
        self._has_ended = True
        self._waits.release()
        if self._runs.acquire(timeout=self.poll_s * 5):
            self._runs.release()
        try:
            self._tell_error()
            self.beat()
            if self.torch.has_group or self._has_dumped:
                self._keep_stall()
                self.dump()
            self.log.say("the interpreter exits", *([WELL] if self._has_ended_well() else []))
        finally:
            self.release()

    def _has_ended_well(self) -> bool:
        """True where the interpreter has run a script to its end: it takes ``__file__`` back then, and not at ``sys.exit``."""
        main = sys.modules.get("__main__")
        is_script = hasattr(getattr(main, "__loader__", None), "path")
        return is_script and not hasattr(main, "__file__") and not self._told_error

    def release(self) -> None:
        """Give back the signal, the timer, the hook and the folder on this host, by which the sidecar knows."""
        with self._winds:
            self._late.disarm()
        self._file.close()
        self.torch.detach()
        self._scratch.remove()
