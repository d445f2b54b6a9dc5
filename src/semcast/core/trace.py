"""Makes all events of a member of a fixed group or a view.

In a view, machines name members by rank; a trace names processes and their incarnations.  An event
has these names from the start.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from semcast.core.span_set import SpanSet
from semcast.kernel import Run
from semcast.terms.declared import declare
from semcast.terms.effects import Effects
from semcast.terms.events import (
    CONFIRM,
    DELIVER,
    DELIVERY,
    DISCARD,
    DRAINED,
    INSTALL,
    LEAVE,
    MULTICAST,
    NACK,
    ORDER,
    PURGE,
    RECEIVE,
    REPAIR,
    SKIP,
    SUSPECT,
    Event,
)
from semcast.terms.ids import Incarnation, Pid, Rank, Seq, Span
from semcast.terms.messages import DataMessage, PurgeNotice, Update
from semcast.terms.views import GroupView


class Trace:
    """One per member of a fixed group or of a view.  `held` is how many messages it holds.

    If the order `gives_places`, a message that comes after others gives them theirs.
    """

    def __init__(
        self, rank: Rank, view: GroupView | None = None, *, gives_places: bool = False
    ) -> None:
        self.rank = rank
        self.view = view if view is not None and view.id else None  # Else ranks are names.
        self.gives_places = gives_places

    def _add(self, event: Event, out: Effects) -> None:
        assert out.events is not None
        if self.view is not None:
            self._name(event, self.view)
        out.events.append(event)

    def _name(self, event: Event, view: GroupView) -> None:
        members, sender = view.members, event.sender
        event.pid, event.inc = members[self.rank]
        event.view, event.lineage = view.id, view.lineage
        if event.by_seq and sender >= 0:
            by = event.by_sender if event.by_sender >= 0 else sender
            event.by_sender = members[by].pid if event.by_sender >= 0 else -1
            event.by_inc = members[by].inc
        if sender >= 0:
            event.sender, event.sender_inc = members[sender]
            if event.message is not None:
                event.message = replace(event.message, sender=event.sender, seq=event.seq, after=())
        if event.peer >= 0:
            event.peer = members[event.peer].pid

    def admitted(self, run: Run, source: Rank, held: int, more: int, out: Effects) -> None:
        """The next messages of a stream are here; each has made what is held so many more."""
        assert out.events is not None
        rank, view, messages = self.rank, self.view, run.messages()
        held -= more * len(messages)
        for message in messages:
            held += more
            sender, seq = message.sender, message.seq
            if sender == rank:
                note = ORDER if self.gives_places and message.after else ""
                event = Event(MULTICAST, rank, sender, seq, message, 0, note, -1, held)
            else:
                event = Event(RECEIVE, rank, sender, seq, None, 0, "", source, held)
            if view is not None:
                self._name(event, view)
            out.events.append(event)

    def declared(
        self, updates: Iterable[tuple[int | None, Update]], since: int, out: Effects
    ) -> None:
        """Record what the application declared of the messages multicast since event `since`."""
        assert out.events is not None
        own = [e for e in out.events[since:] if e.kind == MULTICAST and e.note != ORDER]
        for event, (item, update) in zip(own, updates, strict=True):
            declare(event, item, update)

    def delivered(self, run: Run, position: int, held: int, out: Effects) -> None:
        """The application gets messages, or would if it had any use for its own."""
        assert out.events is not None
        rank, view = self.rank, self.view
        for message in run.messages():
            sender, seq = message.sender, message.seq
            event = Event(DELIVER, rank, sender, seq, message, 0, "", -1, held)
            if position:
                event.position = position
                position += 1
            if view is not None:
                self._name(event, view)
            out.events.append(event)

    def _say(self, out: Effects, kind: str, sender: Rank = -1, seq: Seq = 0, **more: Any) -> None:
        if out.events is not None:
            self._add(Event(kind, self.rank, sender, seq, **more), out)

    def purged(self, message: DataMessage, by: Seq, where: str, held: int, out: Effects) -> None:
        """A later message of its sender made a message obsolete."""
        sender, seq = message.sender, message.seq
        self._add(Event(PURGE, self.rank, sender, seq, None, by, where, -1, held), out)

    def purged_at(
        self, position: int, message: DataMessage, by: DataMessage, held: int, out: Effects
    ) -> None:
        """The same among what waits in a total order: the later message may be of any sender."""
        later = {"by_seq": by.seq, "by_sender": by.sender, "position": position}
        seq = message.seq
        self._say(out, PURGE, message.sender, seq, note=DELIVERY, buffered=held, **later)

    def skipped(self, gone: PurgeNotice, source: Rank, held: int, out: Effects) -> None:
        """Messages were passed over on a notice."""
        rank, sender, by = self.rank, gone.sender, gone.witness
        for seq in range(gone.first, gone.last + 1) if out.events is not None else ():
            self._add(Event(SKIP, rank, sender, seq, None, by, "", source, held), out)

    def discarded(
        self, message: DataMessage, reason: str, source: Rank, held: int, out: Effects
    ) -> None:
        """A message was dropped for another reason than being obsolete."""
        sender, seq = message.sender, message.seq
        self._add(Event(DISCARD, self.rank, sender, seq, None, 0, reason, source, held), out)

    def turned_away(self, source: Rank, out: Effects) -> None:
        """A forgotten member said something."""
        self._say(out, DISCARD, note="forgotten", peer=source)

    def advanced(self, kind: str, sender: Rank, seq: Seq, held: int, out: Effects) -> None:
        """A stream is STABLE or SAFE up to a number, or was reclaimed up to there."""
        self._add(Event(kind, self.rank, sender, seq, None, 0, "", -1, held), out)

    def requested(self, sender: Rank, spans: Sequence[Span], target: Rank, out: Effects) -> None:
        """The member requests missing messages from `target`."""
        if out.events is not None:
            numbers, first = span_text(spans), spans[0][0]
            self._add(Event(NACK, self.rank, sender, first, None, 0, numbers, target), out)

    def repaired(
        self,
        sender: Rank,
        messages: Sequence[DataMessage],
        notices: Sequence[PurgeNotice],
        peer: Rank,
        out: Effects,
    ) -> None:
        """The member answers a request of `peer` with messages and purge notices."""
        if out.events is None:
            return
        sent = SpanSet((message.seq, message.seq) for message in messages)
        gone = SpanSet((notice.first, notice.last) for notice in notices)
        numbers = " ".join(filter(None, (span_text(sent), span_text(gone, "~"))))
        first = min([*sent.firsts[:1], *gone.firsts[:1]])
        self._add(Event(REPAIR, self.rank, sender, first, None, 0, numbers, peer), out)

    def forgot(self, member: Rank, drained: bool, out: Effects) -> None:
        """The group goes on without a member."""
        self._say(out, LEAVE, note=DRAINED if drained else "", peer=member)

    def confirmed(self, sender: Rank, seq: Seq, out: Effects) -> None:
        """A stream was delivered at every member up to a number."""
        self._say(out, CONFIRM, sender, seq)


def span_text(spans: Iterable[Span], mark: str = "") -> str:
    """Spans as text, each after `mark`."""
    return " ".join(
        [f"{mark}{first}-{last}" if last > first else f"{mark}{first}" for first, last in spans]
    )


class LifeTrace:
    """One per life of a process in a group with views.  `view` is the one it is in."""

    def __init__(self, life: Incarnation) -> None:
        self.life = life

    def _say(self, out: Effects, kind: str, view: GroupView, **more: Any) -> None:
        if out.events is not None:
            pid, inc = self.life
            columns = {"inc": inc, "view": view.id, "lineage": view.lineage, **more}
            out.events.append(Event(kind, pid, **columns))

    def left(self, view: GroupView, out: Effects) -> None:
        """The application wants to go."""
        self._say(out, LEAVE, view)

    def suspected(self, pid: Pid, view: GroupView, out: Effects) -> None:
        """A process seems to have crashed."""
        self._say(out, SUSPECT, view, peer=pid)

    def installed(self, view: GroupView, out: Effects) -> None:
        """The application enters a view, perhaps after the process did."""
        self._say(out, INSTALL, view, members=tuple(life.pid for life in view.members))
