"""The copy of the data at one server of the store: its updates, its state, and its disk.

It does not know clients.  The server gives it views and the updates that were multicast there; the
replica decides which of them are safe to execute.

Invariants [VSD fig. 8]: executed <= safe <= length; base <= safe.  Safe prefixes of any two servers
agree.  A server of level g has all that the members of the primary view g started from.
"""

from collections import deque
from typing import Final

from semcast.service.exchange import Exchange, ExchangePlan
from semcast.service.handover import Handed, StateReceiver, StateSender
from semcast.service.point_to_point import PointToPoint
from semcast.service.store_disk import SnapshotWriter, StoreDisk, StoredState
from semcast.service.store_messages import (
    AdoptedRecord,
    Expertise,
    HandoverRequest,
    InPlace,
    StagingRecord,
    encode_message,
)
from semcast.service.store_recipe import StoreRecipe
from semcast.service.update_log import LogBatch
from semcast.terms.effects import Effects
from semcast.terms.events import ADOPT, Event
from semcast.terms.ids import Incarnation, Pid, ViewId
from semcast.terms.store import StoreProgress
from semcast.terms.views import NO_VIEW, GroupView

HANDOVERS_MAX: Final = 4  # slices that one input makes
TAIL_PART: Final = 8  # Beyond `tail_bytes`, an eighth of it goes at once: dropping costs time.
ITEMS_PER_UPDATE: Final = 4  # in a snapshot, for each update since the one before: what it costs


class StoreReplica:
    """Lives as long as one incarnation of the server.

    `level` is the highest primary view that it knows of.  `is_in_place`: it has what the members of
    the view start from.  `is_established`: the expertise of all is safe, and work may go on.
    """

    def __init__(
        self, recipe: StoreRecipe, life: Incarnation, channels: PointToPoint, stored: StoredState
    ) -> None:
        self.recipe = recipe
        self.life = life
        self.channels = channels
        self.state = stored.state
        self.log = stored.log
        self.level = stored.level
        self.safe = stored.safe
        self.has_state = stored.has_state
        about = stored.log.length, stored.safe, stored.records
        self.disk = StoreDisk(recipe.durable, *about)
        self.view = NO_VIEW
        self.exchange = Exchange(recipe, NO_VIEW)
        self.is_in_place = self.is_established = False
        self.has_taken_over = False  # a snapshot, which the server has not noted yet
        self.to_multicast: deque[bytes] = deque()
        self.reached: dict[Pid, int] = {}  # in this view: what is on whose disk
        self._own = 0, 0  # as it was last counted: on disk, and executed
        self.done: dict[Pid, int] = dict.fromkeys(recipe.founders, 0)  # executed, and on disk
        self.known: dict[Pid, tuple[ViewId, int]] = {}  # on disk, with the level
        self._positions: deque[tuple[int, int]] = deque()  # in the view, and the last update there
        self._confirmed = self._known_safe = 0
        self._owes_expertise = self._owes_in_place = False
        self._awaited = 0  # a ticket, before the server may say what it knows, or that it is there
        self._receiver: StateReceiver | None = None
        self._requests: list[tuple[Pid, ViewId]] = []
        self._senders: list[StateSender] = []
        self._arrived = 0  # the last update that came in this view
        self._early: list[tuple[bytes, int, int]] = []  # updates that came before it was in place
        self._writer: SnapshotWriter | None = None
        self._snapshot_index = stored.snapshot_index
        self._snapshot_bytes = 0  # of the last snapshot, if it was written in this life
        of_batches = [len(batch.payload) for batch in stored.log.after(stored.snapshot_index)]
        self._covered_bytes = -sum(of_batches)  # by the last snapshot, of `disk.logged_bytes`

    def __repr__(self) -> str:
        counts = f"executed={self.executed}, safe={self.safe}, {self.log}"
        return f"StoreReplica({self.life}, level={self.level}, {counts}, {self.exchange})"

    @property
    def executed(self) -> int:
        """The last update that was executed."""
        return self.state.index

    @property
    def plan(self) -> ExchangePlan | None:
        """What comes of the expertise of all members of the view, once it is there."""
        return self.exchange.plan

    @property
    def is_primary(self) -> bool:
        """Whether updates may be multicast."""
        plan = self.exchange.plan
        return self.is_established and plan is not None and plan.is_primary

    # Views

    def raise_safe(self, last: int, level: ViewId) -> None:
        """A client has seen the update `last` at a server of that level: it is safe.  So is the
        whole batch that it came in."""
        if self.safe < last <= self.log.length and level <= self.level and self.has_state:
            self.safe = self.log.holding(last).last

    def enter(self, view: GroupView) -> None:
        """newview: begin the exchange."""
        self._give_up()
        self.view = view
        self.exchange = Exchange(self.recipe, view)
        self.is_in_place = self.is_established = False
        self.to_multicast.clear()
        self.reached.clear()
        self._own = 0, 0
        self._positions.clear()
        self._early.clear()
        self._confirmed = self._known_safe = 0
        self._owes_expertise, self._owes_in_place = True, False
        self._awaited = self.disk.ticket
        self.channels.meet(view.members)

    def _give_up(self) -> None:
        """Stop what was going on between servers, and on disk."""
        for sender in self._senders:
            if sender.reader is not None:
                self.state.forget(sender.reader)
        if self._writer is not None:
            self.state.forget(self._writer.reader)
        self._senders.clear()
        self._writer = self._receiver = None

    def _tell(self) -> None:
        """gpsnd: say what this server knows, or that it is in place, once that is on its disk."""
        if self.disk.persisted < self._awaited:
            return
        if self._owes_expertise:
            self._owes_expertise = False
            known = tuple((pid, *had) for pid, had in sorted(self.known.items()))
            about = self.log.base, self.log.length, self.safe, self.has_state
            self.to_multicast.append(encode_message(Expertise(self.level, *about, known)))
        if self._owes_in_place:
            self._owes_in_place = False
            self.to_multicast.append(encode_message(InPlace()))

    def on_expertise(self, pid: Pid, expertise: Expertise, position: int, out: Effects) -> None:
        """gprcv: a member says what it knows."""
        if not self.exchange.on_expertise(pid, expertise, position):
            return
        plan = self.exchange.plan
        assert plan is not None
        if plan.donor is None:
            return
        self._arrived = plan.length
        if self.life.pid in plan.starts:
            self._receiver = StateReceiver()
            self.disk.write(StagingRecord(False), out)
            request = encode_message(HandoverRequest(self.view.id))
            self.channels.send(plan.donor, request, out)
        elif self.life.pid in plan.core:
            self._settle_in(plan, self.log.length, out)

    def on_handover_request(self, source: Pid, request: HandoverRequest) -> None:
        """A member of the view lacks something."""
        self._requests.append((source, request.view))

    def _begin_handovers(self) -> None:
        """Begin to hand over what was asked for in this view, once it is known what that is."""
        plan = self.exchange.plan
        if plan is None or plan.donor != self.life:
            return
        for source, view in self._requests:
            life = next((each for each in self.view.members if each.pid == source), None)
            if view == self.view.id and life is not None and source in plan.starts:
                start = plan.starts[source]
                if start is not None and start < self.log.base:
                    start = None  # What it lacks was dropped since.
                self._senders.append(StateSender(view, life, self.log, self.state, start))
        self._requests = [each for each in self._requests if each[1] > self.view.id]

    def _settle_in(self, plan: ExchangePlan, after: int, out: Effects) -> None:
        """This server has what the members start from, in its memory and soon on its disk."""
        level = self.view.id if plan.is_primary else plan.level
        self.safe = max(self.safe, min(plan.safe, self.log.length))
        is_handed = self._receiver is not None
        if level != self.level or not self.has_state or is_handed:
            self.level, self.has_state = level, True
            adopted = AdoptedRecord(level, after, self.safe, is_handed)
            self.disk.write_adopted(adopted, self.log.length, out)
        self.is_in_place = True
        self.note_adopted(out)

    def note_adopted(self, out: Effects) -> None:
        """Record the expertise that this server has got, or begins with."""
        if out.events is not None and self.has_state:
            pid, inc = self.life
            event = Event(ADOPT, pid, inc=inc, note=str(self.level), position=self.log.length)
            event.view = self.view.id
            out.events.append(event)

    def on_handed(self, handed: Handed, out: Effects) -> None:
        """A slice of what this server lacks."""
        receiver, plan = self._receiver, self.exchange.plan
        if receiver is None or plan is None or handed.view != self.view.id:
            return
        for record in receiver.on_slice(handed):
            self.disk.write(record, out)
        if receiver.end is None:
            return
        self.log = receiver.adopt(self.state, self.log)
        if receiver.rest is not None:
            self.safe, self.has_taken_over = self.state.index, True
            self._snapshot_index = self.state.index
            self._covered_bytes = self.disk.logged_bytes
        self.disk.logged_bytes += sum(len(payload) for _, payload in receiver.batches)
        self._settle_in(plan, receiver.after, out)
        self._receiver = None
        self._owes_in_place, self._awaited = self.life.pid in plan.core, self.disk.ticket
        for batch in self._early:
            self._append(*batch, out)
        self._early.clear()
        if self.is_primary:
            self.safe = max(self.safe, plan.length)

    def on_in_place(self, pid: Pid, position: int) -> None:
        """A member has what all start from."""
        self.exchange.on_in_place(pid, position)

    # Updates

    def on_updates(self, payload: bytes, count: int, position: int, out: Effects) -> int:
        """gprcv: the next updates; returns the number of the last."""
        self._arrived += count
        self._positions.append((position, self._arrived))
        if self.is_in_place:
            self._append(payload, count, self._arrived, out)
        else:
            self._early.append((payload, count, self._arrived))
        return self._arrived

    def _append(self, payload: bytes, count: int, last: int, out: Effects) -> None:
        if last > self.log.length:  # Else it was handed over.
            batch = self.log.append(payload, count)
            self.disk.write_batch(batch, self.safe, out)

    def on_confirmed(self, position: int) -> None:
        """safe: everything up to there was delivered at every member of the view."""
        self.exchange.confirmed = position

    def on_progress(self, source: Pid, progress: StoreProgress) -> bool:
        """A server says what is on its disk; returns whether it is a member of this view."""
        if (source, progress.inc) not in self.view.members or progress.view != self.view.id:
            return False
        self._learn(source, progress.persisted, progress.executed)
        return True

    def _learn(self, pid: Pid, persisted: int, executed: int) -> None:
        self.reached[pid] = max(self.reached.get(pid, 0), persisted)
        self._known_safe = max(self._known_safe, executed)
        self.done[pid] = max(self.done[pid], min(persisted, executed))
        plan = self.exchange.plan
        if plan is not None and plan.is_primary and pid != self.life.pid:
            known = self.view.id, persisted
            self.known[pid] = max(self.known.get(pid, known), known)

    def progress(self, asks: bool = False) -> StoreProgress:
        """What the others are told."""
        persisted = self.disk.length if self.is_in_place else 0
        return StoreProgress(self.view.id, self.life.inc, persisted, self.executed, asks)

    def settle(self, out: Effects) -> None:
        """After every input: establish the view, find what is safe, drop what nobody needs."""
        if self._owes_expertise or self._owes_in_place:
            self._tell()
        exchange, plan = self.exchange, self.exchange.plan
        if not self.is_established and exchange.is_over:
            self.is_established = True
            if plan is not None and plan.is_primary and self.is_in_place:
                self.safe = max(self.safe, plan.length)  # [VSD fig. 7], safe(x)
        if self.count_own():
            self.safe = min(self._reached(), self.log.length)
        recipe, log = self.recipe, self.log
        if self.executed - log.base >= recipe.truncate_after or log.bytes > recipe.tail_bytes:
            self._truncate()

    @property
    def awaits_disk(self) -> bool:
        """Whether something else than updates may go on when more is on the disk."""
        is_usual = self.is_established and self.is_in_place and self._writer is None
        return not is_usual or self._owes_expertise or self._owes_in_place

    def count_own(self) -> bool:
        """Count what this server has on its disk and has executed; returns whether more is safe
        than is known to be."""
        if not (self.is_in_place and self.is_primary):
            return False
        own = self.disk.length, self.executed
        if own != self._own:
            self._own = own
            self._learn(self.life.pid, *own)
        return self.has_safe_news

    @property
    def has_safe_news(self) -> bool:
        """Whether more is safe than is known to be, by what servers have on their disks."""
        if self.safe == self.log.length or not (self.is_in_place and self.is_primary):
            return False
        return min(self._reached(), self.log.length) > self.safe

    def _reached(self) -> int:
        """How many updates are safe by now: what a member has executed is safe for all of them."""
        if self.recipe.confirm == "quorum":
            return max(self.recipe.reached_by_quorum(self.reached), self._known_safe)
        while self._positions and self._positions[0][0] <= self.exchange.confirmed:
            self._confirmed = self._positions.popleft()[1]
        plan = self.exchange.plan
        assert plan is not None
        common = min(self._confirmed, *(self.reached.get(pid, 0) for pid in plan.core))
        return max(common, self._known_safe)

    def _truncate(self) -> None:
        """Drop what was executed here and is not needed any more."""
        recipe, log = self.recipe, self.log
        index = min(self._droppable(), self.executed)
        if index - log.base >= (1 if log.bytes > recipe.tail_bytes else recipe.truncate_after):
            log.drop(index)

    def _droppable(self) -> int:
        """What every founder has executed, and has on its disk.  Also what a founder that is away
        lacks, if that is more than would be handed over to it: it takes a snapshot."""
        recipe, log = self.recipe, self.log
        index = max(min(self.done.values()), self.executed - recipe.tail_max)
        if log.bytes > recipe.tail_bytes:
            bytes_max = recipe.tail_bytes - recipe.tail_bytes // TAIL_PART
            index = max(index, log.excess(bytes_max, self.executed))
        return index

    def next_batch(self) -> LogBatch | None:
        """The next updates to execute, if there are safe ones."""
        return self.log.holding(self.executed + 1) if self.executed < self.safe else None

    # Slices

    @property
    def has_slices(self) -> bool:
        """Whether there is something to hand over for which there is room now."""
        return any(self.channels.has_room(sender.to) for sender in self._senders)

    def work(self, out: Effects) -> None:
        """Hand over some slices, and write one of the own snapshot."""
        if self._requests:
            self._begin_handovers()
        budget = HANDOVERS_MAX
        for sender in list(self._senders):
            while budget and self.channels.has_room(sender.to):
                handed = sender.next_slice()
                if handed is None:
                    self._senders.remove(sender)
                    if sender.reader is not None:
                        self.state.forget(sender.reader)
                    break
                self.channels.send(sender.to, encode_message(handed), out)
                budget -= 1
        self._write_snapshot(out)

    def _write_snapshot(self, out: Effects) -> None:
        if self._writer is None and self._is_snapshot_due:
            self._writer = SnapshotWriter(self.state, self.log, self.disk)
        if self._writer is not None and self._writer.poll(self.level, self.safe, out):
            reader = self._writer.reader
            self._snapshot_index, self._snapshot_bytes = reader.index, reader.bytes_read
            self._covered_bytes = self._writer.logged_bytes
            self.state.forget(reader)
            self._writer = None

    @property
    def _is_snapshot_due(self) -> bool:
        """Whether this server, restarted now, would have to execute or to hold too much."""
        recipe, updates = self.recipe, self.executed - self._snapshot_index
        if not updates or not recipe.durable or not self.is_in_place:
            return False
        size = self.disk.logged_bytes - self._covered_bytes
        if size >= max(recipe.snapshot_bytes, 2 * self._snapshot_bytes):
            return True
        return updates >= max(recipe.snapshot_after, len(self.state.items) // ITEMS_PER_UPDATE)
