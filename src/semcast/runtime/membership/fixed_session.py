"""A live member of a group whose membership never changes: found, then agreed on, then fixed.

A group that does not come together in time says who was found, who was not, and what else was
heard.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from random import SystemRandom
from time import monotonic, time_ns
from typing import Final

import msgspec

from semcast.runtime.application.group_events import View
from semcast.runtime.application.port import GroupPort, StateHandlers
from semcast.runtime.driver import Driver
from semcast.runtime.membership.directory import Directory
from semcast.runtime.membership.gathering import GroupComplete, RosterAgreement, read_hello
from semcast.runtime.membership.reasons import who_is_here
from semcast.runtime.membership.reports import (
    Goodbye,
    MemberReport,
    goodbye_decoder,
    report_decoder,
)
from semcast.runtime.membership.session import Session, decode_body
from semcast.runtime.operations.snapshot import ViewSnapshot
from semcast.runtime.options.options import Options
from semcast.runtime.options.recipe_settings import tolerated_crashes
from semcast.runtime.storage.keyring import incarnation_path, next_incarnation
from semcast.runtime.storage.recording import check_trace, close_journal, open_journal
from semcast.runtime.transport.addresses import Address
from semcast.runtime.transport.endpoints import find_peers
from semcast.terms.errors import (
    ExcludedFromGroup,
    LocalProtocolError,
    RemoteProtocolError,
)
from semcast.terms.ids import Incarnation, Lineage, Pid, Rank
from semcast.terms.machine import ForgetMember, Status
from semcast.terms.messages import Data, Excluded
from semcast.terms.outputs import Ended
from semcast.terms.views import GroupView as NumberedView
from semcast.wire.frames import (
    GOODBYE,
    HELLO,
    LOWEST,
    REPORT,
    ROSTER,
    common,
    member_id,
    spoken,
)
from semcast.wire.sealing import OpenedFrame

GOODBYE_REPEATS: Final = 3  # since one may be lost,
GOODBYE_S: Final = 0.005  # and what loses one may lose the next if it comes at once

log = logging.getLogger("semcast")


class FixedSession(Session):
    """Of a group of members that were all there when it began."""

    gathering: RosterAgreement

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._refused: GroupComplete | None = None

    async def _open(self) -> None:
        options, resources = self.options, self.resources
        # The disk may be slow, and another process may hold the lock.
        incarnation = await asyncio.to_thread(
            next_incarnation, incarnation_path(), time_ns() // 1000
        )
        await resources.open(incarnation)
        self.transport = resources.transport
        self.gathering = RosterAgreement(
            resources.seat(),
            options.members,
            options.digest(),
            SystemRandom(),
            await find_peers(options, sealed=resources.is_sealed),
        )
        self.transport.on_frame = self._on_frame
        check_trace(options)  # now, for later the others would count on this member
        async with self._join_wait(partial(who_is_here, self.gathering)):
            await self._agree_on_roster()
        await self._start()

    async def _agree_on_roster(self) -> None:
        gathering = self.gathering
        try:
            while not gathering.roster:
                self._send_all(gathering.on_time(monotonic()))
                if self._refused is not None:
                    raise self._refused
                if not gathering.roster:
                    await self._wait(gathering.deadline)
        finally:
            self._send_all(gathering.leave())  # If it came to nothing, the others may go on.

    def _timeout_reason(self) -> str:
        gathering = self.gathering
        found = gathering.found
        text = (
            f"join: timed out after {self.options.join_timeout:g} s with {len(found) + 1} of "
            f"{gathering.members} members ({', '.join([self.options.name, *found])})"
        )
        if gathering.missing:
            text += f"; missing: {', '.join(gathering.missing)}"
        if gathering.mismatched:
            text += f"; different settings: {', '.join(sorted(gathering.mismatched))}"
        text += self.resources.explain_discards()
        if self.options.peers is None and not found:
            text += (
                "; if other members run, multicast may be filtered: "
                "run semcast doctor, or use peers"
            )
        return text

    async def _start(self) -> None:
        options, resources, roster = self.options, self.resources, self.gathering.roster
        names = tuple(seat.name for seat in roster)
        rank = names.index(options.name)
        resources.opener.admit(
            (member_id(seat.name), seat.incarnation, seat.salt) for seat in roster
        )
        resources.versions.know(names)
        announced = [seat.versions for seat in roster]
        resources.sealer.speak(common([spoken(), *announced]) or LOWEST)
        self.directory = Directory(options.name, rank, self.gathering.peers)
        for place, seat in enumerate(roster):
            if place != rank:
                address = self.gathering.address_of(seat)
                self.directory.add(place, seat.name, member_id(seat.name), address)
        self.recipe = options.recipe(self.transport.body_bytes, resources.window_bytes)
        journal = open_journal(options, roster, rank, self.recipe)
        if journal is not None:
            resources.stack.push_async_callback(close_journal, journal)
        view = View(1, names, is_primary=True)
        self.port = GroupPort(self.directory, self, StateHandlers(), view)
        machine = self._machine(Incarnation(rank, 1), self.gathering.nonce)
        driver = self._drive(machine, journal)
        driver.begin()
        await self._show(driver)

    def _give_up(self, driver: Driver) -> None:
        self._say_goodbye(drained=True)

    def _on_control(self, opened: OpenedFrame, address: Address, now: float) -> None:
        if opened.kind == HELLO:
            hello = read_hello(opened.body, opened.sender, self.gathering.peers)
            speaks = self.resources.versions.on_hello(opened.sender, hello, now)
            if not speaks and not self.gathering.roster:
                return
            answers = self.gathering.on_hello(
                opened.sender, opened.incarnation, opened.body, address, now, opened.salt
            )
        elif opened.kind == ROSTER:
            try:
                answers = self.gathering.on_roster_step(
                    opened.sender, opened.incarnation, opened.body
                )
            except GroupComplete as complete:
                self._refused, answers = complete, []
        elif self.driver is not None:
            self._on_member_frame(self.driver, opened, now)
            return
        else:
            self.transport.discarded["early"] += 1  # The group has begun; it will be repaired.
            return
        self._send_all(answers)
        self._arrived.set()

    def _on_member_frame(self, driver: Driver, opened: OpenedFrame, now: float) -> None:
        rank = self.directory.numbers.get(opened.sender)
        if driver.ended is not None or rank is None:
            return
        self.directory.heard_at[rank] = now
        if opened.kind == REPORT:
            self._on_report(driver, rank, decode_body(report_decoder, opened.body))
        elif opened.kind == GOODBYE:
            goodbye = decode_body(goodbye_decoder, opened.body)
            self._on_goodbye(driver, rank, goodbye)
        else:
            raise RemoteProtocolError(f"unexpected frame of kind {opened.kind} from a member")

    def _on_report(self, driver: Driver, rank: Rank, report: MemberReport) -> None:
        self.directory.keep_report(rank, report)
        if rank in driver.status().forgotten:  # It may say nothing else, and has to be told.
            self.channel.send([((rank,), Excluded(rank))], is_repair=False)

    def _on_goodbye(self, driver: Driver, rank: Rank, goodbye: Goodbye) -> None:
        try:
            driver.command(ForgetMember(rank, goodbye.drained))
        except LocalProtocolError as error:
            name = self.directory.name_of(rank)
            log.warning("what %s has not received stays in the buffer: %s", name, error)

    def forget(self, name: str) -> None:
        """Go on without a member."""
        assert self.driver is not None
        self.driver.command(ForgetMember(self.port.view.members.index(name)))

    def on_view(self, view: NumberedView) -> None:
        """A fixed membership has one view."""

    def on_rival(self, lineage: Lineage) -> None:
        """Nobody can found a fixed group twice."""

    def on_excluded(self, ended: Ended) -> str:
        """There is no way back into a fixed membership."""
        assert self.driver is not None
        self.driver.end(
            ExcludedFromGroup("this member was excluded from the group and cannot rejoin")
        )
        return ""

    def minority_reason(self) -> str:
        """Never asked for: a fixed group has no minority."""
        return "minority"

    def pids(self, status: Status) -> Sequence[Pid]:
        """Processes are numbered by rank."""
        return range(len(self.port.view.members))

    def tolerated(self, members: int) -> int:
        """As many as the recipe says."""
        return tolerated_crashes(self.recipe)

    def view_seen(self, status: Status) -> ViewSnapshot | None:
        """None: it never changes."""
        return None

    def _own_report(self) -> MemberReport:
        assert self.driver is not None
        status = self.driver.status()
        return MemberReport(self.port.delivered, status.skipped, status.queued, status.held)

    def _first_report(self) -> bytes:
        return msgspec.msgpack.encode(self._own_report())

    def _report(self) -> None:
        report = self._own_report()
        self.directory.keep_report(self.directory.own_pid, report)
        self.channel.announce(REPORT, msgspec.msgpack.encode(report))

    async def _leave(self, driver: Driver, *, is_member: bool) -> None:
        drained = False
        try:
            drained = is_member and await self._wait_drained(driver)
            if is_member and not drained:
                log.warning("closed before all messages were received by: %s", self._lagging())
        finally:  # also if whoever closes is cancelled meanwhile
            driver.end(None)
            for repeated in range(GOODBYE_REPEATS if is_member else 0):
                await asyncio.sleep(GOODBYE_S if repeated else 0)
                self._say_goodbye(drained=drained)

    async def _wait_drained(self, driver: Driver) -> bool:
        """Wait until everyone has what this member has; False if that took too long.

        The others may never fall quiet, or may be held up by what is not taken from here; so in
        the second half of the time no more messages are let in.
        """
        timeout_s = self.options.linger / 2
        if await driver.wait_until(lambda: driver.status().is_drained, timeout_s):
            return True
        driver.takes = lambda datagram: type(datagram) is not Data
        return await driver.wait_until(lambda: driver.status().owes_nothing, timeout_s)

    def _say_goodbye(self, *, drained: bool) -> None:
        """Tell the others, who then need not wait for this member."""
        self.channel.announce(GOODBYE, msgspec.msgpack.encode(Goodbye(drained)))

    def _lagging(self) -> str:
        assert self.driver is not None
        lags = self.driver.status().lags
        return ", ".join(self.directory.name_of(rank) for rank, lag in lags.items() if lag)
