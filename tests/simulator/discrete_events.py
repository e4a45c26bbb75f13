"""The discrete-event core: host threads, compute streams, one stream per communicator, and rendezvous between ranks.

A kernel starts when its host issued it, the kernel before it on the same communicator ended, and the compute before
it is done. A collective ends when the kernels of all members have started and agree; a send ends with its receive.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable

from simulator.program import Busy, Compute, DeviceStop, End, Issue, Job, Join, Program, Say, Stuck, Sync, size
from simulator.state import Host, Node, Work, settled


class Sim:
    """Run programs until nothing moves any more."""

    def __init__(
        self, job: Job, programs: list[Program], first_step: int, slow: dict[int, float] | None = None
    ) -> None:
        self.job = job
        self.slow = slow or {}
        self.hosts = [
            Host(rank, deque((first_step + k, i) for k, step in enumerate(program) for i in step))
            for rank, program in enumerate(programs)
        ]
        self._meetings: dict[tuple[object, int], list[Work]] = defaultdict(list)
        self._counts: dict[tuple[int, object], int] = defaultdict(int)
        self._awake: deque[int] = deque(range(len(programs)))
        for host in self.hosts:
            host.time = 0.0003 * ((host.rank * 7) % 11)

    def run(self) -> Sim:
        """Advance every host as far as it gets."""
        while self._awake:
            self._advance(self.hosts[self._awake.popleft()])
        return self

    def _advance(self, host: Host) -> None:
        while host.todo:
            step, instruction = host.todo[0]
            host.step = step
            if isinstance(instruction, Sync):
                if not self._join(host).done:
                    host.compute.who = host.rank
                    host.doing, host.how, host.since = instruction.doing, "waits", host.time
                    return
                host.time = max(host.time, host.compute.time)
                host.how = ""
            elif isinstance(instruction, Stuck):
                host.doing, host.how, host.since = instruction.doing, instruction.how, host.time
                return
            elif isinstance(instruction, End):
                host.how, host.since, host.ended = "ended", host.time, instruction
                return
            else:
                _ACTIONS[type(instruction)](self, host, instruction)
            host.todo.popleft()
        if host.how != "ended":
            host.how, host.since, host.ended = "done", host.time, End(0)

    def _join(self, host: Host) -> Node:
        """Compute waits for everything issued; returns the tail of the compute stream."""
        for node in host.open:
            host.compute = self._both(host.compute, node)
        host.open.clear()
        return host.compute

    def _both(self, one: Node, other: Node, time: float = 0.0, delay: float = 0.0) -> Node:
        node = Node(0, time, delay)
        for before in (one, other):
            if before.done:
                node.time = max(node.time, before.time)
            else:
                node.left += 1
                before.after.append(node)
        if not node.left:
            node.time += delay
            node.done = True
        return node

    def settle(self, node: Node, time: float) -> None:
        """One thing that the node waited for happened at that time."""
        todo = deque([(node, time)])
        while todo:
            node, time = todo.popleft()
            node.time = max(node.time, time)
            node.left -= 1
            if node.left or node.done:
                continue
            node.time += node.delay
            node.done = True
            if node.who is not None:
                self._awake.append(node.who)
            todo.extend((after, node.time) for after in node.after)

    def _do_compute(self, host: Host, instruction: Compute) -> None:
        factor = self.slow.get(host.rank, 1.0)
        host.compute = self._both(host.compute, settled(host.time), delay=instruction.seconds * factor)
        host.time += 0.0002

    def _do_issue(self, host: Host, instruction: Issue) -> None:
        call = instruction.call
        stream: object = call.group
        if call.op in ("send", "recv"):  # unbatched: a communicator of the two
            stream = (call.group, frozenset((host.rank, call.pieces[0][1])))
        host.time += 0.00005
        before = host.streams.get(stream) or settled(0.0)
        begun = self._both(before, host.compute, time=host.time)
        if host.broken:
            begun = Node(1)
        ended = Node(1, delay=0.0004 + size(call.shape_in) * 2e-10)
        work = Work(host.rank, call, len(host.works), host.step, begun, ended, host.time)
        host.works.append(work)
        host.streams[stream] = ended
        if instruction.wait == "later":
            host.open.append(ended)
        else:
            host.compute = self._both(host.compute, ended)
        if call.pieces:
            self._meet_pieces(work)
        else:
            self._meet(
                work, call.group, len(call.group.members), lambda works: len({w.call.signature for w in works}) == 1
            )

    def _meet(self, work: Work, where: object, members: int, agree: Callable[[list[Work]], bool]) -> None:
        number = self._counts[(work.rank, where)]
        self._counts[(work.rank, where)] = number + 1
        there = self._meetings[(where, number)]
        there.append(work)
        if len(there) < members or not agree(there) or any(w.call.broken for w in there):
            return
        gate = Node(members)
        gate.after = [w.ended for w in there]
        for member in there:
            if member.begun.done:
                self.settle(gate, member.begun.time)
            else:
                member.begun.after.append(gate)

    def _meet_pieces(self, work: Work) -> None:
        """Every piece of a batch meets its other end; the batch ends with the last of them."""
        work.ended.left = len(work.call.pieces)
        for way, peer in work.call.pieces:
            pair = (work.rank, peer) if way == "send" else (peer, work.rank)
            where = (work.call.group, pair)
            self._meet(work, where, 2, lambda works: len({size(w.call.shape_in) for w in works}) == 1)

    def _do_join(self, host: Host, instruction: Join) -> None:
        self._join(host)

    def _do_busy(self, host: Host, instruction: Busy) -> None:
        host.time += instruction.seconds

    def _do_stop(self, host: Host, instruction: DeviceStop) -> None:
        host.broken = True
        for work in host.works[len(host.works) - instruction.unseen :]:
            work.unseen = True

    def _do_say(self, host: Host, instruction: Say) -> None:
        # the loss is on the device: a progress line is only as late as the last point where the host waited
        host.said.append((host.time, instruction.step, instruction.text))


_ACTIONS: dict[type, Callable] = {
    Compute: Sim._do_compute,
    Issue: Sim._do_issue,
    Join: Sim._do_join,
    Busy: Sim._do_busy,
    DeviceStop: Sim._do_stop,
    Say: Sim._do_say,
}
