"""The live twin of the simulator's process: drives one member of a fixed group."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from semcast.core.member import Member
from semcast.kernel import join, payload_bytes
from semcast.runtime.addresses import Address
from semcast.runtime.bulk import Bulk
from semcast.runtime.driver import Driver, Journal, decoded
from semcast.runtime.happenings import Confirmed, View, ViewChange
from semcast.runtime.transport import Transport
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError, SemcastError
from semcast.terms.ids import Rank
from semcast.terms.machine import ForgetMember
from semcast.terms.messages import Data, Excluded
from semcast.terms.outputs import Ended, Output
from semcast.wire import GROUP_CODEC
from semcast.wire.frames import GOODBYE, REPORT, TCP, WHOLE
from semcast.wire.sealing import Opened

REPORT_PERIOD_S: Final = 1.0
GATHERED_MAX: Final = 1024  # messages


class ExcludedFromGroup(SemcastError):
    """The group went on without this member."""


class Report(msgspec.Struct, frozen=True, array_like=True):
    """What a member tells its peers about itself."""

    delivered: int
    skipped: int
    queued: int
    held: int


class Goodbye(msgspec.Struct, frozen=True, array_like=True):
    """A member leaves; `drained`: everything it knew of had reached everyone."""

    drained: bool


_report = msgspec.msgpack.Decoder(Report)
_goodbye = msgspec.msgpack.Decoder(Goodbye)


class Host(Driver):
    """Lives from the moment the roster is known until the group is closed."""

    member: Member

    def __init__(
        self,
        member: Member,
        names: Sequence[str],
        ids: Mapping[int, Rank],
        addresses: Mapping[Rank, Address],
        transport: Transport,
        bulk: Bulk,
        journal: Journal | None,
        flushes_on_turn: bool,
    ) -> None:
        """`names` are the members' by rank, `ids` the ranks by the number on frames."""
        super().__init__(transport, bulk, journal, dict(addresses), flushes_on_turn=flushes_on_turn)
        self.member = member
        self.relation = member.recipe.relation
        self.names = names
        self._names = names
        self._view = View(1, tuple(names), is_primary=True)
        self.reports: dict[Rank, tuple[Report, Report]] = {}  # the last two, also the own ones
        self.heard_at: dict[Rank, float] = {}
        self._gathered: list[Data] = []  # until another datagram, or no more
        self._gathered_count = 0
        self._gathered_from: Rank = -1
        self._is_leaving = False  # and takes nothing more in
        self._ids = ids
        self._reporting = self._loop.call_later(REPORT_PERIOD_S, self._report)

    @property
    def everyone(self) -> Sequence[Address | None]:
        """Where to send what is for all: the multicast group, or each peer."""
        if not self.member.recipe.unicast:
            return (None,)
        return list(self._addresses.values())

    @property
    def view(self) -> View:
        """Who is in the group."""
        return self._view

    def on_divider(self, divider: object) -> ViewChange | Confirmed:
        """A fixed membership never changes."""
        raise AssertionError(f"a divider in a fixed group: {divider}")

    def forget_member(self, name: str) -> None:
        """Go on without a member."""
        self.forget(self.names.index(name))

    def forget(self, rank: Rank, *, drained: bool = False) -> None:
        """Go on without a member."""
        self.command(ForgetMember(rank, drained))

    def on_frame(self, opened: Opened, now: float) -> None:
        """A frame of another member; raises RemoteProtocolError if it makes no sense."""
        if self.ended is not None:
            return
        rank = self._ids[opened.sender]
        self.heard_at[rank] = now
        if opened.kind == WHOLE:
            datagram = GROUP_CODEC.decode(opened.body)
            if type(datagram) is not Data:
                self._take_gathered(now)
                self.member.on_datagram(rank, datagram, now, self._out)
            elif not self._is_leaving:
                self._gather(rank, datagram, now)
        elif opened.kind == REPORT:
            self._on_report(rank, decoded(_report, opened.body))
        elif opened.kind == GOODBYE:
            self._take_gathered(now)  # What the member sent before it left counts.
            self._on_goodbye(rank, decoded(_goodbye, opened.body))
        else:
            raise RemoteProtocolError(f"unexpected frame of kind {opened.kind} from a member")

    def _gather(self, rank: Rank, data: Data, now: float) -> None:
        """First transmissions of one member that came one after the other are taken as one."""
        if data.purged or data.answers or rank != self._gathered_from:
            self._take_gathered(now)
        if data.purged or data.answers:
            self.member.on_datagram(rank, data, now, self._out)
            return
        self._gathered_from = rank
        self._gathered.append(data)
        self._gathered_count += len(data.messages)
        if self._gathered_count >= GATHERED_MAX:
            self._take_gathered(now)

    def _take_gathered(self, now: float) -> None:
        if self._gathered:
            data = self._gathered[-1]
            if len(self._gathered) > 1:
                data = Data(join([each.messages for each in self._gathered]), safe=data.safe)
            self._gathered, self._gathered_count = [], 0
            try:
                self.member.on_datagram(self._gathered_from, data, now, self._out)
            except RemoteProtocolError:  # here, since it is no fault of the frame that came next
                self._transport.discarded["malformed"] += 1

    def on_drained(self, now: float) -> None:
        """Every frame that had come was handled."""
        self._take_gathered(now)
        super().on_drained(now)

    def _on_report(self, rank: Rank, report: Report) -> None:
        self._keep_report(rank, report)
        if rank in self.status().forgotten:  # It may say nothing else, and has to be told.
            self._out.send.append(((rank,), Excluded(rank)))

    def _on_goodbye(self, rank: Rank, goodbye: Goodbye) -> None:
        # One too many to go on without it: then what it has not seen stays pinned.
        with suppress(LocalProtocolError):
            self.forget(rank, drained=goodbye.drained)

    def _divider(self, output: Output) -> object:
        return None

    def _on_ended(self, ended: Ended) -> None:
        self.end(ExcludedFromGroup("this member was excluded from the group and cannot rejoin"))

    def _bulk_bytes(self, datagram: Any) -> int:
        if not isinstance(datagram, Data):
            return 0
        return payload_bytes(datagram.messages)

    def introduction(self) -> bytes:
        """The first frame on a TCP connection: small, so that strangers need not be let more."""
        return self._transport.sealer.seal(REPORT, msgspec.msgpack.encode(self._state()), TCP)

    def _state(self) -> Report:
        status = self.status()
        return Report(self.delivered, status.skipped, status.queued, status.held)

    def _report(self) -> None:
        state = self._state()
        self._keep_report(self.member.rank, state)
        self._transport.send(REPORT, msgspec.msgpack.encode(state), self.everyone)
        self._reporting = self._loop.call_later(REPORT_PERIOD_S, self._report)

    def _keep_report(self, rank: Rank, report: Report) -> None:
        self.reports[rank] = (self.reports.get(rank, (report, report))[1], report)

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everyone has what this member has; False if that took too long.

        The others may never fall quiet, or may be held up by what is not taken from here; so in
        the second half of the time nothing more is let in.
        """
        if not await self.until(lambda: self.status().is_drained, timeout_s / 2):
            self._is_leaving = True
            return await self.until(lambda: self.status().owes_nothing, timeout_s / 2)
        return True

    def say_goodbye(self, *, drained: bool) -> None:
        """Tell the others, who then need not wait for this member."""
        self._transport.send(GOODBYE, msgspec.msgpack.encode(Goodbye(drained)), self.everyone)

    def stop(self) -> None:
        """No more timers."""
        self._reporting.cancel()
        super().stop()
