"""From options to a live group: keys, sockets, the other members, then the protocol.

What was opened is closed again wherever this stops.  A group that does not come together in time
says who was found, who was not, and what else was heard.
"""

import asyncio
import logging
from random import Random, SystemRandom
from time import monotonic, time_ns
from typing import Final

from semcast.core.member import Member
from semcast.runtime.addresses import Address
from semcast.runtime.endpoints import find_peers
from semcast.runtime.equipment import Equipment
from semcast.runtime.gathering import Envelope, Gathering, GroupComplete, read_hello
from semcast.runtime.group import Group
from semcast.runtime.host import Host
from semcast.runtime.keyring import incarnation_path, next_incarnation
from semcast.runtime.observation import FixedObservation
from semcast.runtime.options import Options
from semcast.runtime.recording import check_trace, close_journal, open_journal
from semcast.terms.errors import SemcastError
from semcast.wire.frames import HELLO, LOWEST, ROSTER, common, member_id, spoken
from semcast.wire.sealing import Opened

GOODBYES: Final = 3  # since one may be lost,
GOODBYE_S: Final = 0.005  # and what loses one may lose the next if it comes at once

log = logging.getLogger("semcast")


class JoinTimeout(SemcastError):
    """The group did not come together in time."""


class Session:
    """Everything that one live member of a fixed group has open, from `open` to `close`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.equipment = Equipment(options)
        self._host: Host | None = None
        self._arrived = asyncio.Event()  # something came for the gathering
        self._refused: GroupComplete | None = None

    async def open(self) -> Group:
        """Find the others and start; raises SemcastError, and then nothing is left open."""
        try:
            return await self._open()
        except BaseException:
            await self.equipment.close()
            raise

    async def _open(self) -> Group:
        options, equipment = self.options, self.equipment
        # The disk may be slow, and another process may hold the lock.
        incarnation = await asyncio.to_thread(
            next_incarnation, incarnation_path(), time_ns() // 1000
        )
        await equipment.open(incarnation)
        self.transport = equipment.transport
        self.gathering = Gathering(
            equipment.seat(),
            options.members,
            options.digest(),
            SystemRandom(),
            await find_peers(options, sealed=equipment.is_sealed),
        )
        self.transport.on_frame = self._on_frame
        check_trace(options)  # now, for later the others would count on this member
        await self._gather()
        return await self._start()

    def _on_frame(self, opened: Opened, address: Address, now: float) -> None:
        if opened.kind == HELLO:
            hello = read_hello(opened.body, opened.sender, self.gathering.peers)
            speaks = self.equipment.versions.on_hello(opened.sender, hello, now)
            if not speaks and not self.gathering.roster:
                return
            answers = self.gathering.on_hello(
                opened.sender, opened.incarnation, opened.body, address, now, opened.salt
            )
        elif opened.kind == ROSTER:
            try:
                answers = self.gathering.on_ballot(opened.sender, opened.incarnation, opened.body)
            except GroupComplete as complete:
                self._refused, answers = complete, []
        elif self._host is not None:
            self._host.on_frame(opened, now)
            return
        else:
            self.transport.discarded["early"] += 1  # The group has begun; it will be repaired.
            return
        self._mail(answers)
        self._arrived.set()

    def _mail(self, envelopes: list[Envelope]) -> None:
        for to, kind, body in envelopes:
            self.transport.send(kind, body, (to,))

    async def _gather(self) -> None:
        """Until there is a roster."""
        gathering = self.gathering
        try:
            async with asyncio.timeout(self.options.join_timeout):
                while not gathering.roster:
                    self._mail(gathering.on_time(monotonic()))
                    if self._refused is not None:
                        raise self._refused
                    if gathering.roster:
                        break
                    self._arrived.clear()
                    try:
                        async with asyncio.timeout(gathering.deadline - monotonic()):
                            await self._arrived.wait()
                    except TimeoutError:
                        pass
        except TimeoutError:
            raise JoinTimeout(self._why_not()) from None
        finally:
            self._mail(gathering.leave())  # If it came to nothing, the others may go on.

    def _why_not(self) -> str:
        gathering = self.gathering
        found = sorted(c.name for c in gathering.candidates.values() if c.is_confirmed)
        told = (
            f"join: timed out after {self.options.join_timeout:g} s with {len(found) + 1} of "
            f"{gathering.members} members ({', '.join([self.options.name, *found])})"
        )
        if gathering.missing:
            told += f"; missing: {', '.join(gathering.missing)}"
        if gathering.differing:
            told += f"; different settings: {', '.join(sorted(gathering.differing))}"
        told += self.equipment.refusals()
        if self.options.peers is None and not found:
            told += (
                "; if other members run, multicast may be filtered: "
                "run semcast doctor, or use peers"
            )
        return told

    async def _start(self) -> Group:
        options, roster = self.options, self.gathering.roster
        names = [seat.name for seat in roster]
        ids = {member_id(name): rank for rank, name in enumerate(names)}
        rank = names.index(options.name)
        self.equipment.opener.admit(
            (member_id(seat.name), seat.incarnation, seat.salt) for seat in roster
        )
        self.equipment.versions.know(names)
        announced = [seat.versions for seat in roster]
        self.equipment.sealer.speak(common([spoken(), *announced]) or LOWEST)
        told = self.transport.body_bytes, self.equipment.window_bytes
        recipe = options.recipe(len(roster), *told)
        member = Member(recipe, rank, Random(self.gathering.nonce))
        addresses = {
            place: self.gathering.address_of(seat)
            for place, seat in enumerate(roster)
            if place != rank
        }
        journal = open_journal(options, roster, rank, recipe)
        if journal is not None:
            self.equipment.stack.push_async_callback(close_journal, journal)
        host = self._host = Host(
            member,
            names,
            ids,
            addresses,
            self.transport,
            self.equipment.bulk,
            journal,
            flushes_on_turn=options.coalesce is None,
        )
        self.equipment.stack.callback(host.stop)
        self.transport.on_drained = host.on_drained
        self.equipment.bulk.introduce = host.introduction
        observation = FixedObservation(
            options, host, self.transport, is_sealed=self.equipment.is_sealed
        )
        try:
            await self.equipment.show(observation)
        except BaseException:
            host.say_goodbye(drained=True)  # The others count on this member by now.
            raise
        relation = None if isinstance(options.relation, str) else options.relation
        return Group(options.group, options.name, host, relation, observation.snapshot, self.close)

    async def close(self) -> None:
        """Leave the group, and give everything back."""
        host = self._host
        assert host is not None
        drained, is_member = False, host.ended is None
        try:
            drained = is_member and await host.drain(self.options.linger)
            if is_member and not drained:
                log.warning("closed before all messages were received by: %s", self._late())
        finally:  # also if whoever closes is cancelled meanwhile
            host.end(None)
            try:
                for repeated in range(GOODBYES if is_member else 0):
                    await asyncio.sleep(GOODBYE_S if repeated else 0)
                    host.say_goodbye(drained=drained)
            finally:
                await self.equipment.close()

    def _late(self) -> str:
        assert self._host is not None
        names, lags = self._host.names, self._host.status().lags
        return ", ".join(names[rank] for rank, lag in lags.items() if lag)
