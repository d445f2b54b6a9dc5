"""From options to a live group: keys, sockets, the other members, then the protocol.

What was opened is closed again wherever this stops.  A group that does not come together in time
says who was found, who was not, and what else was heard.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from random import Random, SystemRandom
from time import monotonic, time_ns
from typing import Final

from semcast.core.member import Member
from semcast.runtime.addresses import Address, show
from semcast.runtime.bulk import Bulk
from semcast.runtime.control import ControlServer
from semcast.runtime.endpoints import find_interface, find_peers, open_ports
from semcast.runtime.gathering import Envelope, Gathering, GroupComplete, Seat
from semcast.runtime.group import Group
from semcast.runtime.host import Host
from semcast.runtime.interfaces import (
    datagram_bytes,
)
from semcast.runtime.keyring import (
    KeyRing,
    KeyRingWatch,
    incarnation_path,
    keys_path,
    next_incarnation,
)
from semcast.runtime.observation import Observation
from semcast.runtime.options import Options
from semcast.runtime.recording import check_trace, close_journal, open_journal
from semcast.runtime.sockets import open_multicast, shortages
from semcast.runtime.transport import Transport
from semcast.terms.errors import ConfigError, SemcastError
from semcast.wire.fragments import Reassembly
from semcast.wire.frames import HELLO, ROSTER, member_id
from semcast.wire.sealing import Opened, Opener, Sealer

KEYS_PERIOD_S: Final = 0.5
GOODBYES: Final = 3  # since one may be lost,
GOODBYE_S: Final = 0.005  # and what loses one may lose the next if it comes at once
FRAME_SLACK_BYTES: Final = 1 << 16  # what a message's annotations and frame may add to it
BODIES_AT_ONCE: Final = 4  # large messages of one sender that may be on their way

log = logging.getLogger("semcast")


class JoinTimeout(SemcastError):
    """The group did not come together in time."""


class Session:
    """Everything that one live member has open.  Lives from `open` to `close`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.ring: KeyRing | None = None  # None: unsealed, and on loopback only
        self._watch: KeyRingWatch | None = None
        self._stack = AsyncExitStack()
        self._host: Host | None = None
        self._arrived = asyncio.Event()  # something came for the gathering
        self._refused: GroupComplete | None = None

    async def open(self) -> Group:
        """Find the others and start; raises SemcastError, and then nothing is left open."""
        try:
            return await self._open()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _open(self) -> Group:
        options = self.options
        if options.key is not False:
            self._watch = KeyRingWatch(options.key or keys_path())
            self.ring = self._watch.ring if self._watch.ring.keys else None
            if options.key is not None and self.ring is None:
                raise ConfigError(f"key: {options.key} holds no key; make one: semcast keys new")
        own = member_id(options.name)
        incarnation = next_incarnation(incarnation_path(), time_ns() // 1000)
        key = self.ring.active if self.ring else None
        self.sealer = Sealer(options.group, own, incarnation, key)
        keys = self.ring.keys if self.ring else ()
        self.opener = Opener(options.group, own, incarnation, keys)
        address = await self._open_network()
        self.gathering = Gathering(
            Seat(options.name, incarnation, *address),
            options.members,
            options.digest(),
            SystemRandom(),
            await find_peers(options, sealed=self.ring is not None),
        )
        if self._watch is not None and self.ring is not None:
            watching = asyncio.create_task(self._watch_keys(self._watch))
            self._stack.callback(watching.cancel)
        check_trace(options)  # now, for later the others would count on this member
        await self._gather()
        return await self._start()

    async def _open_network(self) -> Address:
        options = self.options
        interface = await find_interface(options, sealed=self.ring is not None)
        if self.ring is None:
            told = log.info if options.key is False else log.warning
            told("no key: group %s stays on loopback, unsealed", options.group)
        frame_bytes = options.datagram or datagram_bytes(interface)
        unicast, listening = open_ports(interface, options)
        self._stack.callback(listening.close)
        self._stack.callback(unicast.close)
        multicast = None
        if options.multicast is not None:
            host, port = options.multicast
            hearing = open_multicast(interface, host, port, options.socket_buffer)
            self._stack.callback(hearing.close)
            multicast = hearing, interface.endpoint(host, port)
        for shortage in shortages(unicast, options.socket_buffer):
            log.warning("%s", shortage)
        self.transport = Transport(
            self.sealer,
            self.opener,
            unicast,
            multicast,
            frame_bytes,
            Reassembly(
                options.message_max + FRAME_SLACK_BYTES,
                BODIES_AT_ONCE * (options.message_max + FRAME_SLACK_BYTES),
            ),
        )
        self.transport.on_frame = self._on_frame
        self.transport.start()
        self._stack.callback(self.transport.close)
        self.bulk = Bulk(
            listening,
            options.message_max + FRAME_SLACK_BYTES,
            lambda frame, source: self.transport.take(frame, source, monotonic()),
            lambda: self.transport.on_drained(monotonic()),
        )
        await self.bulk.start()
        self._stack.push_async_callback(self.bulk.close)
        return interface.address, unicast.getsockname()[1]

    def _on_frame(self, opened: Opened, address: Address, now: float) -> None:
        if opened.kind == HELLO:
            answers = self.gathering.on_hello(
                opened.sender, opened.incarnation, opened.body, address, now
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
        gathering, discarded = self.gathering, self.transport.discarded
        found = sorted(c.name for c in gathering.candidates.values() if c.is_confirmed)
        told = (
            f"join: {len(found) + 1} of {gathering.members} members were there within "
            f"{self.options.join_timeout:g} s ({', '.join([self.options.name, *found])})"
        )
        if gathering.missing:
            told += f"; missing: {', '.join(gathering.missing)}"
        if gathering.differing:
            told += f"; with other settings: {', '.join(sorted(gathering.differing))}"
        for reason, explanation in _EXPLAINED.items():
            if discarded[reason]:
                told += f"; {explanation} ({discarded[reason]} frames)"
        if self.options.peers is None and not found:
            told += (
                "; if the others run, multicast may be filtered: see semcast doctor, or use peers"
            )
        return told

    async def _start(self) -> Group:
        options, roster = self.options, self.gathering.roster
        names = [seat.name for seat in roster]
        ids = {member_id(name): rank for rank, name in enumerate(names)}
        rank = names.index(options.name)
        self.opener.admit((member_id(seat.name), seat.incarnation) for seat in roster)
        recipe = options.recipe(len(roster), self.transport.body_bytes)
        member = Member(recipe, rank, Random(self.gathering.nonce))
        addresses = {
            place: self.gathering.address_of(seat)
            for place, seat in enumerate(roster)
            if place != rank
        }
        journal = open_journal(options, roster, rank, recipe)
        if journal is not None:
            self._stack.push_async_callback(close_journal, journal)
        host = self._host = Host(
            member,
            names,
            ids,
            addresses,
            self.transport,
            self.bulk,
            journal,
            flushes_on_turn=options.coalesce is None,
        )
        self._stack.callback(host.stop)
        self.transport.on_drained = host.on_drained
        self.bulk.introduce = host.introduction
        observation = Observation(options, host, self.transport, is_sealed=self.ring is not None)
        try:
            await self._show(observation)
        except BaseException:
            host.say_goodbye(drained=True)  # The others count on this member by now.
            raise
        relation = None if isinstance(options.relation, str) else options.relation
        return Group(options.group, host, relation, observation.snapshot, self.close)

    async def _show(self, observation: Observation) -> None:
        options = self.options
        if options.control:
            control = ControlServer(observation.snapshot)
            self._stack.push_async_callback(control.close)
            try:
                await control.start(options.group, options.name)
            except (ConfigError, OSError) as error:
                log.warning("semcast top will not see this member: %s", error)
        if options.metrics is not None:
            from semcast.runtime.metrics import serve

            metrics = serve(show(options.metrics), observation.latest)
            self._stack.push_async_callback(asyncio.to_thread, metrics.close)

    async def _watch_keys(self, watch: KeyRingWatch) -> None:
        """Take up a changed key ring; a bad or empty one leaves things as they are."""
        while True:
            await asyncio.sleep(KEYS_PERIOD_S)
            ring = watch.poll()
            if watch.problem is not None:
                log.warning("%s", watch.problem)
            if ring is not None and ring.keys:
                self.opener.use(ring.keys)
                self.sealer.use(ring.active)

    async def close(self) -> None:
        """Leave the group, and give everything back."""
        host = self._host
        assert host is not None
        drained, is_member = False, host.ended is None
        try:
            drained = is_member and await host.drain(self.options.linger)
            if is_member and not drained:
                log.warning("closed before everyone had everything: %s", self._late())
        finally:  # also if whoever closes is cancelled meanwhile
            host.end(None)
            try:
                for repeated in range(GOODBYES if is_member else 0):
                    await asyncio.sleep(GOODBYE_S if repeated else 0)
                    host.say_goodbye(drained=drained)
            finally:
                await self._stack.aclose()

    def _late(self) -> str:
        assert self._host is not None
        member, names = self._host.member, self._host.names
        reached = member.outbox.reached
        return ", ".join(names[rank] for rank, seq in reached.items() if seq < member.last)


_EXPLAINED: Final = {
    "key": "somebody seals with a key that is not in this ring",
    "forged": "somebody seals with another key under the same number",
    "clear": "somebody sends unsealed",
    "version": "somebody speaks another version of the protocol",
    "namesake": "somebody else has this member's name",
}
