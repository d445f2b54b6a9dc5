"""From options to a live group with views: listen, find the group or found it, get in.

Whoever starts looks for members of a running group; if none answers and enough founders are there,
these agree on who they are, as a fixed group does, and begin with the first view.  So one command
line serves the founder, the late joiner, and the founder that comes back after a crash.
A name that is in use is not spoken under: others would take the new process for a restart of the
old one.  So a process first asks whether the name is in use, for as long as a namesake answers.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from random import SystemRandom
from time import monotonic
from typing import Any, Final

import msgspec

from semcast.core.views.recipe import quorum
from semcast.runtime.application.port import GroupPort, StateHandlers
from semcast.runtime.driver import Driver
from semcast.runtime.membership import reasons
from semcast.runtime.membership.gathering import (
    Envelope,
    GroupComplete,
    RosterAgreement,
    read_hello,
)
from semcast.runtime.membership.incarnations import (
    frame_incarnation,
    inc_of_frame,
    next_inc,
    pid_of,
    pid_of_name,
)
from semcast.runtime.membership.introductions import PeerDirectory, ViewMemberReport, report_decoder
from semcast.runtime.membership.name_probe import PROBE_PERIOD_S, PROBES, NameProbe
from semcast.runtime.membership.session import Session, decode_body
from semcast.runtime.operations.group_log import log as group_log
from semcast.runtime.operations.snapshot import ViewSnapshot
from semcast.runtime.options.options import Options
from semcast.runtime.storage.recording import ViewJournal, check_trace, close_journal
from semcast.runtime.tasks import start_task
from semcast.runtime.transport.addresses import Address
from semcast.runtime.transport.endpoints import find_peers
from semcast.terms.errors import (
    ExcludedFromGroup,
    LocalProtocolError,
    RemoteProtocolError,
)
from semcast.terms.ids import NO_LINEAGE, Incarnation, Lineage, Pid
from semcast.terms.machine import FoundGroup, LeaveGroup, Status
from semcast.terms.outputs import Ended
from semcast.terms.views import EXCLUDED, JOINING, LEFT, GroupView
from semcast.wire.frames import HELLO, PROBE, REPORT, ROSTER
from semcast.wire.sealing import OpenedFrame

ASK_PERIOD_S: Final = 0.1
DISCOVERY_S: Final = 0.3  # for a group that runs, before another is founded

log = logging.getLogger("semcast")


class ViewSession(Session):
    """Of a group whose membership changes."""

    directory: PeerDirectory

    def __init__(self, options: Options, state: StateHandlers) -> None:
        super().__init__(options)
        self._state = state
        self._gathering: RosterAgreement | None = None
        self._group_report: ViewMemberReport | None = None  # by a member of a running group
        self._is_listening = True  # and says nothing
        self._returning: asyncio.Task[None] | None = None  # to a group that went on without it

    async def _open(self) -> None:
        options, resources = self.options, self.resources
        inc = await asyncio.to_thread(next_inc)  # The disk may be slow, or its lock held.
        await resources.open(frame_incarnation(inc))
        self.transport = resources.transport
        self.recipe = self._make_recipe(self.transport.body_bytes, resources.window_bytes)
        own = resources.seat()
        peers = await find_peers(options, sealed=resources.is_sealed)
        rng, digest = SystemRandom(), self._digest()
        self.directory = PeerDirectory(own, digest, rng, peers)
        self._life = Incarnation(self.directory.own_pid, inc)
        self._probe = NameProbe(options.name, self.directory.nonce)
        if self.recipe.is_primary and options.members:
            self._gathering = RosterAgreement(own, options.members, digest, rng, peers)
            self._gathering.nonce = self.directory.nonce  # One answer is for both.
        self.transport.on_frame = self._on_frame
        check_trace(options)  # now, for later the others would count on this member
        async with self._join_wait(
            lambda: reasons.joining(self._gathering, self.driver or self._group_report)
        ):
            await self._listen()
            founders = await self._find_or_found()
            lineage = self._gathering.lineage if self._gathering else NO_LINEAGE
            await self._start(founders, lineage)

    async def _load(self) -> None:
        """Before another incarnation begins, the log has everything of the one before."""
        await self.resources.flush()

    def _make_recipe(self, datagram_bytes: int, window_bytes: int) -> Any:
        return self.options.recipe(datagram_bytes, window_bytes)

    def _digest(self) -> int:
        return self.options.digest()

    async def _listen(self) -> None:
        """Until no namesake answers.  Its frames alone prove nothing: they may be old or forged."""
        to, answers = (self.directory.peers or {}).get(self.options.name), -1
        while self._probe.answers != answers:
            answers = self._probe.answers
            for _ in range(PROBES):
                self.resources.probe(self._probe.question(), to)
                await asyncio.sleep(PROBE_PERIOD_S)
        self._is_listening = False

    def _on_probe(self, opened: OpenedFrame, address: Address) -> None:
        answer = self._probe.on_probe(opened.body)
        is_there = self.driver is None or self.driver.ended is None
        if answer is not None and is_there and not self._is_listening:
            self.resources.probe(answer, address)

    async def _find_or_found(self) -> tuple[Incarnation, ...]:
        """The founders if this is one of them; nobody once a running group was found."""
        gathering = self._gathering
        if not self.recipe.is_primary:
            return ()
        found_at = monotonic() + DISCOVERY_S
        try:
            while self._group_report is None and not (gathering and gathering.roster):
                now = monotonic()
                if gathering is None or now < found_at:
                    envelopes, deadline = self.directory.hellos(asking=True), now + ASK_PERIOD_S
                else:
                    envelopes, deadline = gathering.on_time(now), gathering.deadline
                self._send_all(envelopes)
                if not (gathering and gathering.roster):
                    await self._wait(deadline)
        finally:  # If it came to nothing, the others may go on.
            self._send_all(gathering.leave() if gathering else [])
        if gathering is None or not gathering.roster:
            self._gathering = None
            return ()
        for seat in gathering.roster:
            if seat.name != self.options.name:
                self.directory.learn(seat.name, gathering.address_of(seat))
        return tuple(
            Incarnation(pid_of_name(seat.name), inc_of_frame(seat.incarnation))
            for seat in gathering.roster
        )

    async def _start(self, founders: tuple[Incarnation, ...], lineage: Lineage) -> None:
        options, resources = self.options, self.resources
        journal = None if options.trace is None else ViewJournal(options, self.recipe)
        if journal is not None:
            resources.stack.push_async_callback(close_journal, journal)
            known = lineage or (self._group_report.lineage if self._group_report else NO_LINEAGE)
            if known or not self.recipe.is_primary:
                await asyncio.to_thread(journal.begin, known, self._life)
        self.port = self._open_port()
        machine = self._machine(self._life, self.directory.nonce)
        driver = self._drive(machine, journal)
        if founders:
            driver.command(FoundGroup(founders, lineage))
        else:
            driver.begin()
        await self._enter(driver)
        await self._show(driver)

    def _open_port(self) -> GroupPort:
        return GroupPort(
            self.directory,
            self,
            self._state,
            # In partitionable views the majority of those that were asked for counts as primary.
            majority_of=0 if self.recipe.is_primary else self.options.members,
            waits_in_minority=self.options.overflow != "error",
        )

    def _give_up(self, driver: Driver) -> None:
        """A founder that does not get further asks the others to go on without it."""
        if driver.ended is None and self._life in driver.status().view.members:
            driver.command(LeaveGroup())

    @property
    def _members_wanted(self) -> int:
        return 1 if self.recipe.is_primary else max(1, self.options.members)

    async def _enter(self, driver: Driver) -> None:
        """Until the application may begin; `vs` waits for as many members as were asked for."""
        wanted = self._members_wanted

        def is_in() -> bool:
            # As many as are in the current view: an application that has not begun takes nothing,
            # so what it is shown may be an earlier one.
            return self.port.view.id > 0 and len(driver.status().view.members) >= wanted

        while not is_in():
            if driver.ended is not None:
                raise driver.ended
            self._send_all(self.directory.hellos(asking=True))
            await driver.wait_until(is_in, ASK_PERIOD_S)

    def _on_control(self, opened: OpenedFrame, address: Address, now: float) -> None:
        pid = pid_of(opened.sender)
        if opened.kind == HELLO:
            self._on_hello(pid, opened, address, now)
        elif opened.kind == ROSTER:
            self._on_ballot(opened)
        elif opened.kind == PROBE:
            self._on_probe(opened, address)
        elif opened.sender not in self.directory.numbers:
            self.transport.discarded["stranger"] += 1
            self._send_all(self.directory.on_unknown_sender(opened.sender, address, now))
        elif opened.kind == REPORT:
            self._on_standing(pid, decode_body(report_decoder, opened.body))
        elif self.driver is None:
            self.transport.discarded["early"] += 1
        elif self.driver.ended is None:
            raise RemoteProtocolError(f"unexpected frame of kind {opened.kind} from a member")

    def _on_hello(self, pid: Pid, opened: OpenedFrame, address: Address, now: float) -> None:
        hello = read_hello(opened.body, opened.sender, self.directory.peers)
        if not self.resources.versions.on_hello(pid, hello, now):
            return
        self._settle_version()
        standing = self._standing() if self.driver is not None and self.port.view.id else None
        answers = self.directory.on_hello(opened.sender, opened.body, address, standing)
        if self._gathering is not None and not self._gathering.roster:
            answers = self._gathering.on_hello(
                opened.sender, opened.incarnation, opened.body, address, now, opened.salt
            )
        self._send_all(answers)

    def _settle_version(self) -> None:
        """Speak the highest version that everybody in the view announced."""
        if self.driver is not None:
            others = (pid for pid, _ in self.driver.status().view.members)
            versions, own = self.resources.versions, self.directory.own_pid
            version = versions.speakable((pid for pid in others if pid != own), monotonic())
            if version != self.resources.sealer.version:
                self.resources.sealer.speak(version)

    def _on_standing(self, pid: Pid, standing: ViewMemberReport) -> None:
        """How a member is doing; before there is a machine, that a group runs."""
        driver, own = self.driver, self._life
        if driver is None:
            self.directory.on_report(pid, standing)
            # But a founder of that group learns of it by its own roster.
            if standing.echo == self.directory.nonce and own not in standing.members:
                self._group_report = standing
                self._arrived.set()
        elif driver.ended is None:
            if not self.directory.on_report(pid, standing):
                self.transport.discarded["lineage"] += 1
            if any(life.pid == own.pid and life.inc > own.inc for life in standing.members):
                name = self.options.name
                driver.end(
                    ExcludedFromGroup(f"another process has joined the group with the name {name}")
                )

    def _on_ballot(self, opened: OpenedFrame) -> None:
        if self._gathering is None:
            return
        self._arrived.set()
        try:
            about = opened.sender, opened.incarnation, opened.body
            self._send_all(self._gathering.on_roster_step(*about))
        except GroupComplete:
            self.transport.discarded["fixed"] += 1  # Somebody has the name for a fixed group.

    def _send_all(self, envelopes: Iterable[Envelope]) -> None:
        if not self._is_listening:
            super()._send_all(envelopes)

    def forget(self, name: str) -> None:
        """Not with views."""
        raise LocalProtocolError(
            f"forget: not available with views; the group excludes {name} itself if it fails"
        )

    def on_view(self, view: GroupView) -> None:
        """A view was installed; who is in it may understand more, or less."""
        self.directory.lineage = view.lineage
        self._settle_version()

    def on_rival(self, lineage: Lineage) -> None:
        """A group of the same name runs beside this one."""
        log.error("%s", reasons.two_groups(self.port.view.members, lineage, self.directory))

    def on_excluded(self, ended: Ended) -> str:
        """The group went on without this process, which comes back if its options say so."""
        driver, why = self.driver, reasons.excluded(ended.followed, self.directory)
        assert driver is not None
        if driver.ended is not None:
            return ""
        if not self.options.rejoin:
            driver.end(ExcludedFromGroup(f"{why}; join again, or set rejoin"))
            return ""
        group_log.warning("group %s: %s", self.options.group, reasons.rejoins(why, ended.followed))
        driver.suspend()
        self._returning = start_task(self._rejoin(driver), "coming back", self._on_no_return)
        return why

    def _on_no_return(self, error: BaseException) -> None:
        assert self.driver is not None
        why = f"the group excluded this member, and it cannot rejoin: {error}"
        self.driver.end(ExcludedFromGroup(why))

    async def _rejoin(self, driver: Driver) -> None:
        """The next incarnation of this process knows nothing, and joins."""
        inc, _ = await asyncio.gather(asyncio.to_thread(next_inc), self._load())
        if driver.ended is not None:
            return
        log.info("%s rejoins as incarnation %d", self.options.name, inc)
        self._life = Incarnation(self._life.pid, inc)
        self.directory.lineage = NO_LINEAGE
        self.port.restart()
        driver.replace(self._machine(self._life, self.directory.nonce + inc))

    def minority_reason(self) -> str:
        """How many there are, and how many it takes."""
        assert self.driver is not None
        status = self.driver.status()
        return reasons.minority(status.view, set(status.suspects), self.directory)

    def pids(self, status: Status) -> Sequence[Pid]:
        """Those in the view."""
        return [life.pid for life in status.view.members]

    def tolerated(self, members: int) -> int:
        """The largest minority."""
        return members - quorum(members) if members else 0

    def view_seen(self, status: Status) -> ViewSnapshot | None:
        """The view, as people see it."""
        name_of, members = self.directory.name_of, status.view.members
        return ViewSnapshot(
            id=status.view.id,
            members=[name_of(pid) for pid, _ in members],
            status=status.phase,
            is_primary=self.port.view.is_primary,
            needed=quorum(len(members)) if self.recipe.is_primary and members else 1,
            suspected=[name_of(pid) for pid in sorted(status.suspects)],
            excluded_s={name_of(pid): silent_s for pid, silent_s in status.excluded_s.items()},
            left_out_s={name_of(pid): left_s for pid, left_s in status.left_out_s.items()},
        )

    def _standing(self) -> ViewMemberReport:
        """The report that the others get of this member."""
        assert self.driver is not None
        port = self.port
        return self.directory.report_of(self.driver.status(), port.delivered, port.skipped)

    def _first_report(self) -> bytes:
        standing = msgspec.structs.replace(self._standing(), members=(), names=(), suspects=())
        return msgspec.msgpack.encode(standing)

    def _report(self) -> None:
        standing = self._standing()
        self.directory.keep_report(self.directory.own_pid, standing)
        self.channel.announce(REPORT, msgspec.msgpack.encode(standing))
        self._send_all(self.directory.hellos(asking=False))

    def _timeout_reason(self) -> str:
        if self.driver is not None and (donor := self.driver.status().donor) is not None:
            obstacle = reasons.no_state(donor, self.directory)
        elif (standing := self.directory.newest_report() or self._group_report) is not None:
            obstacle = reasons.running(standing, self.directory)
        elif self._gathering is not None:
            obstacle = reasons.too_few(self._gathering)
        else:
            obstacle = reasons.no_group() if self.recipe.is_primary else ""
        waited_s, refusals = self.options.join_timeout, self.resources.explain_discards()
        return reasons.join_timeout(waited_s, obstacle, self.directory) + refusals

    async def _leave(self, driver: Driver, *, is_member: bool) -> None:
        """Ask the group to go on without this member.  Under `vs` nobody agrees on what it sent, so
        the others should have it before."""
        if not is_member or self.port.phase == JOINING:
            return
        linger = self.options.linger
        is_drained = self.recipe.is_primary or await driver.wait_until(
            lambda: driver.status().is_drained, linger
        )
        if driver.ended is None:
            driver.command(LeaveGroup())
        has_left = await driver.wait_until(lambda: self.port.phase in (LEFT, EXCLUDED), linger)
        if not (is_drained and has_left):
            log.warning("closed before the group installed a view without %s", self.options.name)

    def _stop(self) -> None:
        super()._stop()
        if self._returning is not None:
            self._returning.cancel()
