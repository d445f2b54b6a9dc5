"""The timer of one incarnation: it calls the machine when its deadline comes.

A timer is never cancelled.  Only one with an earlier deadline than all others is added, so those
scheduled are in order, the earliest last.  They need not ring in that order: after a
pause, passed deadlines ring at once, in the order they were scheduled.
"""

from math import inf
from typing import TYPE_CHECKING, Final

from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError

if TYPE_CHECKING:
    from semcast.sim.process import SimProcess

REPEATS_MAX: Final = 10_000


class DeadlineTimer:
    """`armed` has the deadlines, by the clock of the process, for which it will ring."""

    __slots__ = ("_process", "_repeats", "armed")

    def __init__(self, process: "SimProcess") -> None:
        self._process = process
        self._repeats = 0
        self.armed = [inf]

    def restart(self) -> None:
        """The clock of the process has jumped, so all timers of before ring too late."""
        self.armed = [inf]
        if not self._process.is_held:
            self.arm(self._process.now)

    def arm(self, now: float) -> None:
        """Ring at the machine's deadline; it is `now` by the clock of the process."""
        process = self._process
        deadline = process.machine.deadline
        if deadline < inf and process.is_up:
            self.armed.append(deadline)
            clock, wait_s = process.clock, deadline - now
            clock.at(clock.now + wait_s if wait_s > 0 else clock.now, self._ring, (deadline,))

    def _ring(self, when: float) -> None:
        process = self._process
        if process.timer is not self:
            return  # The incarnation is over.
        if when in self.armed:  # else it was set before the clock jumped
            self.armed.remove(when)
        deadline = process.machine.deadline
        if deadline <= when or deadline <= process.now:
            process.enter(self._on_time, when)
        elif deadline < self.armed[-1]:
            self.arm(process.now)

    def _on_time(self, when: float, now: float, out: Effects) -> None:
        if now < when:
            now = when  # Sums of floats may fall short of it.
        machine = self._process.machine
        if machine.deadline > now:
            return  # It moved while the process was held.
        machine.on_time(now, out)
        self._repeats = 0 if machine.deadline > now else self._repeats + 1
        if self._repeats > REPEATS_MAX:
            raise LocalProtocolError(
                f"process {self._process.pid}: on_time did not move its deadline past {now}"
            )
