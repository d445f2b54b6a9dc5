"""One server of a replicated store [VSD fig. 6, fig. 7], on a group with partitionable views.

Updates are multicast in primary views, which have a quorum of all founders, and executed in one
order once they are safe.  Queries are answered in every view, in a state that is no earlier than
what the client has seen.  After a view change the members first bring each other to the highest
expertise among them (`exchange.py`); then they work.

Departs (docs/decisions/0035-replicated-data.md): an update is safe when a quorum of the founders
has it on disk; a query is answered where it arrives; updates that all founders have executed are
dropped; updates have answers, and clients may pipeline.  Settings `confirm="all"` and
`reads="rotate"` are the paper's.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from semcast.core.views.member import ViewMember
from semcast.service.group_service import GroupService
from semcast.service.point_to_point import PointToPoint
from semcast.service.store_desk import StoreDesk
from semcast.service.store_disk import StoredState
from semcast.service.store_messages import (
    Expertise,
    HandoverRequest,
    QueryAnswer,
    QueryBatch,
    UpdateBatch,
    decode_group,
    decode_parcel,
)
from semcast.service.store_progress import ProgressReporter
from semcast.service.store_recipe import StoreRecipe
from semcast.service.store_replica import StoreReplica
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.events import APPEND, JOIN, LOG, NOT_PRIMARY, RECLAIM, SAFE, Event
from semcast.terms.ids import EVERYONE, NEVER, Incarnation, Pid
from semcast.terms.machine import Command, LeaveGroup, Status
from semcast.terms.messages import Update
from semcast.terms.outputs import Confirmed, Delivery, Installed
from semcast.terms.service import MINORITY_ROLE, PRIMARY, RECOVERING
from semcast.terms.store import (
    Parcel,
    ParcelReceipt,
    StoreBundle,
    StoreProgress,
    StoreRequest,
)
from semcast.terms.views import MEMBER, Stamped

IN_FLIGHT_MAX: Final = 2  # own batches that the group has not delivered: the rest gathers


class StoreServer(GroupService):
    """Lives as long as one incarnation of the process."""

    def __init__(
        self,
        recipe: StoreRecipe,
        life: Incarnation,
        rng: Random,
        now: float,
        stored: StoredState | None = None,
    ) -> None:
        """`stored` is what the disk has from earlier lives; None: nothing."""
        if life.pid not in recipe.founders:
            raise ConfigError(f"founders: {life.pid} is not one of {recipe.founders}")
        self.recipe = recipe
        self.life = life
        self.channels = PointToPoint(life, recipe.retry_s)
        stored = stored or StoredState(recipe.sessions_max)
        self.replica = StoreReplica(recipe, life, self.channels, stored)
        highest = self.replica.level
        group = ViewMember(recipe.group, life, rng, now, highest, recipe.has_quorum)
        super().__init__(group)
        self.desk = StoreDesk(recipe, life, self.replica, self.channels)
        self.progress = ProgressReporter(recipe, life, self.replica)
        self.in_flight = 0
        self.own_upto = 0  # the last update of an own client that was delivered in this view
        self.is_busy: bool | None = (
            None  # with updates that are not safe yet; None: not said in this view
        )
        self.has_begun = self.has_more = False
        self.noted_safe = 0
        self.note_safe_at = NEVER
        self.safe_before = 0  # when `note_safe_at` was set
        self.is_leaving = False

    def __repr__(self) -> str:
        return f"StoreServer({self.life}, {self.replica}, {self.group})"

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Not at a server."""
        raise LocalProtocolError("a server multicasts only what clients ask for")

    def on_datagrams(self, source: Pid, datagrams: Sequence[Any], now: float, out: Effects) -> None:
        """Requests, what servers say to each other, and what the group has to say."""
        self.on_received(((source, datagrams),), now, out)

    def on_received(
        self, received: Sequence[tuple[Pid, Sequence[Any]]], now: float, out: Effects
    ) -> None:
        """The same from many processes: however many clients ask, the work is done once, and not at
        all if only progress was told that makes nothing safe.  All that came is here, so nothing
        waits for company."""
        of_group: list[tuple[Pid, list[Stamped]]] = []
        has_work = False
        for source, datagrams in received:
            stamped: list[Stamped] = []
            for datagram in datagrams:
                if type(datagram) is Stamped:
                    stamped.append(datagram)
                    continue
                is_bundle = type(datagram) is StoreBundle
                for part in datagram.parts if is_bundle else (datagram,):
                    try:
                        has_work |= self._on_datagram(source, part, now, out)
                    except Exception as error:
                        out.refused.append(error)
            if stamped:
                of_group.append((source, stamped))
        if not (has_work or of_group):
            return
        mark = self._begin(out)
        for source, stamped in of_group:
            self.group.on_datagrams(source, stamped, now, out)
        self._settle(mark, now, out, flushes=True)

    def _on_datagram(self, source: Pid, datagram: Any, now: float, out: Effects) -> bool:
        """What is not said in the group; returns whether there may be something to do now."""
        kind = type(datagram)
        if kind is StoreProgress:
            if not self.replica.on_progress(source, datagram):
                return False
            if datagram.asks:
                self.progress.on_asked(source)
            return datagram.asks or self.replica.has_safe_news
        if kind is StoreRequest:
            self.desk.on_request(source, datagram, now, out)
        elif kind is Parcel:
            body = self.channels.on_parcel(source, datagram, out)
            if body is not None:
                self._on_parcel(source, body, out)
        elif kind is ParcelReceipt:
            self.channels.on_receipt(source, datagram)
        return True

    def on_persisted(self, ticket: int, now: float, out: Effects) -> None:
        """Everything up to `ticket` is on stable storage."""
        replica = self.replica
        before = replica.disk.appended
        mark = self._begin(out)
        replica.disk.on_persisted(ticket)
        if replica.disk.appended > before:
            self._note_disk(out)
        if replica.awaits_disk or replica.count_own():
            self._settle(mark, now, out, flushes=True)
        else:  # The others have to be told, and that is all.
            self._finish(now, out)
            self._hand_over(mark, out)

    def status(self, now: float) -> Status:
        """How its group is doing, and what this server can do."""
        replica = self.replica
        if replica.is_primary:
            role = PRIMARY if replica.is_in_place else RECOVERING
        else:
            role = MINORITY_ROLE if replica.is_established else RECOVERING
        of_service = {
            "role": role,
            "version": replica.executed,
            "queries": self.desk.queries_served,
            "slowest": self._slowest(),
        }
        return msgspec.structs.replace(self.group.status(now), **of_service)

    def _slowest(self) -> Pid:
        """The founder that is known to have done least; of several, one that is not here."""
        done, present = self.replica.done, {life.pid for life in self.replica.view.members}
        return min(done, key=lambda pid: (done[pid], pid in present, pid))

    def _on_parcel(self, source: Pid, body: bytes, out: Effects) -> None:
        content = decode_parcel(body)
        if isinstance(content, QueryAnswer):
            self.desk.on_answer(content, out)
        elif isinstance(content, HandoverRequest):
            self.replica.on_handover_request(source, content)
        else:
            self.replica.on_handed(content, out)

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        """Found the group, or leave it."""
        self.is_leaving |= isinstance(command, LeaveGroup)
        super().on_command(command, now, out)

    # The group

    def _on_delivery(self, delivery: Delivery, now: float, out: Effects) -> None:
        """gprcv: what a member of the view has multicast."""
        replica = self.replica
        origin = replica.view.members[delivery.run.sender]
        for position, sent in enumerate(delivery.run.messages(), delivery.position):
            message = decode_group(sent.payload)
            if isinstance(message, UpdateBatch):
                last = replica.on_updates(sent.payload, message.count, position, out)
                self.progress.on_updates(last, origin.pid)
                if origin == self.life:
                    self.in_flight -= 1
                    self.own_upto = replica.log.length
            elif isinstance(message, QueryBatch):
                self.desk.on_queries(message, origin, out)
                self.in_flight -= origin == self.life
            elif isinstance(message, Expertise):
                replica.on_expertise(origin.pid, message, position, out)
            else:
                replica.on_in_place(origin.pid, position)

    def _on_confirmed(self, confirmed: Confirmed) -> None:
        """safe: all members of the view have it."""
        if confirmed.view == self.replica.view.id:
            self.replica.on_confirmed(confirmed.position)

    def _on_install(
        self, installed: Installed, event: Event | None, now: float, out: Effects
    ) -> None:
        """newview."""
        self.desk.enter()
        self.in_flight = self.own_upto = 0
        self.is_busy = None
        self.replica.enter(installed.view)
        self.progress.enter()
        if event is not None:
            event.version = self.replica.executed
            if not self.recipe.has_quorum([life.pid for life in installed.view.members]):
                event.note = NOT_PRIMARY

    def _work(self, now: float, out: Effects) -> None:
        """Find what is safe, execute it, answer."""
        replica, desk = self.replica, self.desk
        if not self.has_begun:
            self.has_begun = True
            replica.note_adopted(out)
            self._note_version(out)
            self._note_disk(out)
        base = replica.log.base
        replica.settle(out)
        if replica.log.base > base:
            self._note_log(RECLAIM, replica.log.base, out)
        if replica.safe != self.noted_safe:
            self.noted_safe = replica.safe
            self._note_log(SAFE, replica.safe, out)
        if replica.has_taken_over:
            replica.has_taken_over = False
            self._note_version(out)
        self.has_more = replica.executed < replica.safe
        if self.has_more and not self._is_awaited:
            self.has_more = desk.execute(out)
        if not desk.has_resumed:
            desk.resume(out)
        if desk.asking or desk.assigned:
            desk.serve(out)
        replica.work(out)

    def _note_version(self, out: Effects) -> None:
        """The state that this life begins with, or has got from another server."""
        if out.events is not None:
            pid, inc = self.life
            out.events.append(Event(JOIN, pid, inc=inc, version=self.replica.executed))

    def _note_log(self, kind: str, position: int, out: Effects) -> None:
        """How many updates were dropped, or are safe."""
        if out.events is not None:
            pid, inc = self.life
            event = Event(kind, pid, inc=inc, note=LOG, position=position)
            event.view = self.replica.view.id
            out.events.append(event)

    def _note_disk(self, out: Effects) -> None:
        """How many updates are on the disk."""
        length = self.replica.disk.appended
        if out.events is not None and length and self.recipe.durable:
            pid, inc = self.life
            view = self.replica.view.id
            out.events.append(Event(APPEND, pid, inc=inc, view=view, position=length))

    def _multicast(self, now: float, out: Effects, *, flushes: bool) -> bool:
        """gpsnd: first what the exchange needs, then requests: those that came together are one
        batch, and while batches are on their way others gather."""
        group, control = self.group, self.replica.to_multicast
        waits = False
        while control and group.phase == MEMBER and group.submit([Update(control[0])], now, out):
            control.popleft()
            waits = not flushes
        if not self._sets_pace:
            return self._multicast_requests(now, out, flushes=flushes) or waits
        was_busy, self.is_busy = self.is_busy, self.replica.safe < self.replica.log.length
        if self.replica.view.members[0] != self.life:
            waits |= self._multicast_requests(now, out, flushes=flushes)
        elif not self.is_busy:  # Else own requests gather, too.
            waits |= self._multicast_requests(now, out, flushes=flushes or bool(was_busy))
        if self.is_busy != was_busy:
            group.pace(self.is_busy, now, out)
        return waits

    @property
    def _sets_pace(self) -> bool:
        """Whether the sequencer waits for this server, if it is the one.  Where a quorum is enough,
        updates gather while others are not safe yet, to be placed, written and executed together.
        In a minority nothing becomes safe, and there are queries alone.
        """
        replica = self.replica
        return self.recipe.confirm == "quorum" and replica.is_primary and replica.is_in_place

    def _multicast_requests(self, now: float, out: Effects, *, flushes: bool) -> bool:
        """Returns whether some wait to be flushed."""
        group = self.group
        while self.in_flight < IN_FLIGHT_MAX and group.phase == MEMBER:
            if self.replica.to_multicast:
                break
            if not flushes:
                return self.desk.has_outgoing
            batch = self.desk.next_batch()
            if batch is None or not group.submit([Update(batch[0])], now, out):
                break
            self.desk.on_sent(batch[1])
            self.in_flight += 1
        return False

    def _finish(self, now: float, out: Effects) -> None:
        """Answer clients, tell the other servers what is on disk, set the timer."""
        replica = self.replica
        self.to_send += self.desk.lines.take_replies(replica.level)
        others = len(replica.view.members) - 1
        has_company = any(to is EVERYONE or len(to) == others for to, _ in out.send)
        self.progress.poll(now, self.to_send, has_company=has_company)
        if replica.safe > replica.disk.safe:
            self._note_safe(now, out)
        else:
            self.note_safe_at = NEVER
        self.channels.poll(now, self.to_send)
        timers = self.progress.deadline, self.note_safe_at, self.channels.deadline, self.flush_at
        self.deadline = min(self.group.deadline, *timers)
        if self.has_more or replica.has_slices:
            self.deadline = now

    def _note_safe(self, now: float, out: Effects) -> None:
        """Have what is safe written once no more became safe for some time, or when this server
        goes: after a restart it executes that at once, and reads nothing older than before."""
        replica = self.replica
        if now >= self.note_safe_at or self.is_leaving:
            replica.disk.write_safe(replica.safe, out)
            self.note_safe_at = NEVER
        elif replica.safe != self.safe_before:
            self.safe_before, self.note_safe_at = replica.safe, now + self.recipe.retry_s

    @property
    def _is_awaited(self) -> bool:
        """Whether clients of others may wait for the progress of this server, and no own ones for
        what is to be executed: then the progress leaves first."""
        return self.replica.executed >= self.own_upto and self.progress.is_awaited
