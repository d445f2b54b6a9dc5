"""A machine on top of a group: it passes inputs down to the group and takes the group's outputs.

It gives the group the same `Effects`, takes the outputs that the group appended, and puts its own
events between those of the group.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from semcast.core.views.member import ViewMember
from semcast.service.event_cursor import EventCursor, Mark
from semcast.terms.effects import Effects
from semcast.terms.events import Event
from semcast.terms.ids import NEVER, Pid, Seq
from semcast.terms.machine import Command, Machine
from semcast.terms.outputs import Confirmed, Delivery, Installed, Output, Room


class GroupService(Machine):
    """Lives as long as one incarnation of the process."""

    def __init__(self, group: ViewMember) -> None:
        self.group = group
        self.to_send: list[tuple[Sequence[Pid], Any]] = []
        self.flush_at = NEVER  # when what waits to be multicast has waited for company
        self.deadline = group.deadline

    @property
    def sent(self) -> Seq:
        """The number of the last message to the group."""
        return self.group.sent

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        """The application can take `count` more messages, or fewer if that is below 0."""
        mark = self._begin(out)
        self.group.on_ready(count, now, out)
        self._settle(mark, now, out)

    def on_idle(self, now: float, out: Effects) -> None:
        """The event loop has turned."""
        mark = self._begin(out)
        self._settle(mark, now, out, flushes=True)

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        mark = self._begin(out)
        if now >= self.group.deadline:
            self.group.on_time(now, out)
        self._settle(mark, now, out, flushes=True)

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        """Found the group, or leave it."""
        mark = self._begin(out)
        self.group.on_command(command, now, out)
        self._settle(mark, now, out)

    def _begin(self, out: Effects) -> Mark:
        """Before the group gets an input: hide what `out` has to send, or the group would stamp
        it as its own."""
        before, out.send = out.send, []
        return Mark(before, len(out.outputs), len(out.events or ()))

    def _settle(self, mark: Mark, now: float, out: Effects, *, flushes: bool = False) -> None:
        """Take what the group had to say, and work until it has nothing more to say.

        `flushes`: all that arrived has been handled, so nothing waits for company any more.
        """
        while True:
            taken_upto = self._take(mark, now, out)
            self._work(now, out)
            mark = Mark(mark.send, taken_upto, len(out.events or ()))
            waits = self._multicast(now, out, flushes=flushes)
            if flushes:
                self.group.on_idle(now, out)
            if len(out.outputs) == mark.outputs:
                break
        self.flush_at = now if waits else NEVER  # The driver comes back once it has turned.
        self._finish(now, out)
        self._hand_over(mark, out)

    def _hand_over(self, mark: Mark, out: Effects) -> None:
        """What there is to send follows what `out` had before."""
        mark.send.extend((*out.send, *self.to_send))
        out.send = mark.send
        self.to_send.clear()

    def _take(self, mark: Mark, now: float, out: Effects) -> int:
        """Handle the outputs of the group; own events go between the events of the group.  The
        outputs stay where they are: the group counts nothing as delivered before the next input.
        Returns where those begin that came meanwhile."""
        outputs = out.outputs[mark.outputs :]
        if not outputs:
            return mark.outputs
        above: list[Output] = []
        later = EventCursor(out, mark.events)
        for output in outputs:
            if isinstance(output, Delivery):
                later.pass_delivery(output)
                self._on_delivery(output, now, out)
            elif isinstance(output, Installed):
                self._on_install(output, later.pass_install(output), now, out)
                output = Installed(output.view, None, wants_state=False)
            elif isinstance(output, Confirmed):
                self._on_confirmed(output)
            if not isinstance(output, Room):
                above.append(output)
        out.outputs[mark.outputs : mark.outputs + len(outputs)] = above
        later.pass_rest()
        return mark.outputs + len(above)

    @abstractmethod
    def _on_delivery(self, delivery: Delivery, now: float, out: Effects) -> None:
        """Messages of one member of the view."""

    @abstractmethod
    def _on_install(
        self, installed: Installed, event: Event | None, now: float, out: Effects
    ) -> None:
        """A view begins; `event` is what the trace has of it, if somebody records."""

    def _on_confirmed(self, confirmed: Confirmed) -> None:
        """All members have so much."""
        return

    @abstractmethod
    def _work(self, now: float, out: Effects) -> None:
        """Do what can be done now, but for what needs the group."""

    @abstractmethod
    def _multicast(self, now: float, out: Effects, *, flushes: bool) -> bool:
        """Submit to the group what there is room for.  Returns whether something waits to be
        flushed; nothing does if this `flushes`."""

    @abstractmethod
    def _finish(self, now: float, out: Effects) -> None:
        """At the end of an input: say what is to be said to single processes, set the timer."""
