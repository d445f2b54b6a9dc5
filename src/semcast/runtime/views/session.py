"""From options to a live group with views: listen, find the group or found it, get in.

Whoever starts looks for members of a running group; if none answers and enough founders are there,
these agree on who they are, as a fixed group does, and begin with the first view.  So one command
line serves the founder, the late joiner, and the founder that comes back after a crash.
A name that is in use is not spoken under: others would take the new process for a restart of the
old one.  So a process first asks whether the name is in use, for as long as a namesake answers.
"""

import asyncio
import logging
from random import Random, SystemRandom
from time import monotonic
from typing import Final

from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import quorum
from semcast.runtime.addresses import Address
from semcast.runtime.driver import decoded
from semcast.runtime.endpoints import find_peers
from semcast.runtime.equipment import Equipment
from semcast.runtime.gathering import Envelope, Gathering, GroupComplete, read_hello
from semcast.runtime.group import Group
from semcast.runtime.options import Options
from semcast.runtime.recording import ViewJournal, check_trace, close_journal
from semcast.runtime.session import JoinTimeout
from semcast.runtime.views.host import State, ViewHost
from semcast.runtime.views.introductions import Introductions, Standing, standing_decoder
from semcast.runtime.views.lives import (
    incarnation_of,
    life_of,
    next_life,
    pid_of,
    pid_of_name,
)
from semcast.runtime.views.observation import ViewObservation
from semcast.runtime.views.probing import PROBE_PERIOD_S, PROBES, NameProbe
from semcast.terms.ids import NO_LINEAGE, Life, Lineage
from semcast.terms.views import MINORITY
from semcast.wire.frames import HELLO, PROBE, REPORT, ROSTER
from semcast.wire.sealing import Opened

ASK_PERIOD_S: Final = 0.1
LOOK_S: Final = 0.3  # for a group that runs, before another is founded

log = logging.getLogger("semcast")


class ViewSession:
    """Everything that one live member of a group with views has open, from `open` to `close`."""

    def __init__(self, options: Options, state: State) -> None:
        self.options = options
        self.equipment = Equipment(options)
        self.recipe = options.view_recipe(1)
        self._state = state
        self._gathering: Gathering | None = None
        self._host: ViewHost | None = None
        self._running: Standing | None = None  # what a member of a running group said of it
        self._is_listening = True  # and says nothing
        self._arrived = asyncio.Event()

    async def open(self) -> Group:
        """Get into the group; raises SemcastError, and then nothing is left open."""
        try:
            return await self._open()
        except BaseException:
            if self._host is not None:
                self._host.end(None)
            await self.equipment.close()
            raise

    async def _open(self) -> Group:
        options, equipment = self.options, self.equipment
        life = await asyncio.to_thread(next_life)  # The disk may be slow, or its lock held.
        incarnation = incarnation_of(life)
        await equipment.open(incarnation)
        self.transport = equipment.transport
        self.recipe = options.view_recipe(self.transport.body_bytes, equipment.window_bytes)
        own = equipment.seat()
        peers = await find_peers(options, sealed=equipment.is_sealed)
        rng, digest = SystemRandom(), options.digest()
        self.introductions = Introductions(own, digest, rng, peers)
        self._probe = NameProbe(options.name, self.introductions.nonce)
        if self.recipe.is_primary and options.members:
            self._gathering = Gathering(own, options.members, digest, rng, peers)
            self._gathering.nonce = self.introductions.nonce  # One answer is for both.
        self.transport.on_frame = self._on_frame
        check_trace(options)  # now, for later the others would count on this member
        try:
            async with asyncio.timeout(options.join_timeout):
                await self._listen()
                founders = await self._find()
                lineage = self._gathering.lineage if self._gathering else NO_LINEAGE
                born = Life(self.introductions.own_pid, life)
                return await self._start(born, founders, lineage)
        except TimeoutError:
            raise JoinTimeout(self._why_not()) from None

    async def _listen(self) -> None:
        """Until no namesake answers.  That its frames are heard is not enough: they may be
        recordings, and without the key they may be forged."""
        peers, answers = self.introductions.peers, -1
        while self._probe.answers != answers:
            answers = self._probe.answers
            for _ in range(PROBES):
                to = None if peers is None else peers[self.options.name]
                self.equipment.probe(self._probe.question(), to)
                await asyncio.sleep(PROBE_PERIOD_S)
        self._is_listening = False

    def _on_probe(self, opened: Opened, address: Address) -> None:
        answer = self._probe.on_probe(opened.body)
        is_there = self._host is None or self._host.ended is None
        if answer is not None and is_there and not self._is_listening:
            self.equipment.probe(answer, address)

    async def _find(self) -> tuple[Life, ...]:
        """The founders if this is one of them; nobody once a running group was found."""
        gathering = self._gathering
        if not self.recipe.is_primary:
            return ()
        found_at = monotonic() + LOOK_S
        while self._running is None and not (gathering and gathering.roster):
            now = monotonic()
            if gathering is None or now < found_at:
                envelopes, deadline = self.introductions.greetings(asking=True), now + ASK_PERIOD_S
            else:
                envelopes, deadline = gathering.on_time(now), gathering.deadline
            self._mail(envelopes)
            if not (gathering and gathering.roster):
                await self._wait(deadline)
        if gathering is None or not gathering.roster:
            self._mail(gathering.leave() if gathering else [])
            self._gathering = None
            return ()
        for seat in gathering.roster:
            if seat.name != self.options.name:
                self.introductions.learn(seat.name, gathering.address_of(seat))
        return tuple(
            Life(pid_of_name(seat.name), life_of(seat.incarnation)) for seat in gathering.roster
        )

    async def _wait(self, deadline: float) -> None:
        """Until something decisive came, or it is time."""
        self._arrived.clear()
        try:
            async with asyncio.timeout(deadline - monotonic()):
                await self._arrived.wait()
        except TimeoutError:
            pass

    async def _start(self, life: Life, founders: tuple[Life, ...], lineage: Lineage) -> Group:
        options, equipment = self.options, self.equipment
        journal = None if options.trace is None else ViewJournal(options, self.recipe)
        if journal is not None:
            equipment.stack.push_async_callback(close_journal, journal)
            known = lineage or (self._running.lineage if self._running else NO_LINEAGE)
            if known or not self.recipe.is_primary:
                await asyncio.to_thread(journal.begin, known, life)
        host = self._host = ViewHost(
            ViewMember(self.recipe, life, Random(self.introductions.nonce), monotonic()),
            self.introductions,
            self.transport,
            equipment.bulk,
            journal,
            state=self._state,
            rejoin=options.rejoin,
            servers=options.members,
            flushes_on_turn=options.coalesce is None,
        )
        equipment.stack.callback(host.stop)
        self.transport.on_drained = host.on_drained
        equipment.bulk.introduce = host.introduction
        host.on_install = self._settle_version
        host.begin(founders, lineage)
        await self._enter(host)
        observation = ViewObservation(options, host, self.transport, is_sealed=equipment.is_sealed)
        await equipment.show(observation)
        relation = None if isinstance(options.relation, str) else options.relation
        return Group(options.group, options.name, host, relation, observation.snapshot, self.close)

    async def _enter(self, host: ViewHost) -> None:
        """Until the application may begin; `vs` waits for as many members as were asked for."""
        wanted = 1 if self.recipe.is_primary else max(1, self.options.members)

        def is_in() -> bool:
            # As many as are in the current view: an application that has not begun takes nothing,
            # so what it is shown may be an earlier one.
            return host.view.id > 0 and len(host.status().view.members) >= wanted

        while not is_in():
            if host.ended is not None:
                raise host.ended
            self._mail(self.introductions.greetings(asking=True))
            await host.until(is_in, ASK_PERIOD_S)

    def _on_frame(self, opened: Opened, address: Address, now: float) -> None:
        pid = pid_of(opened.sender)
        if opened.kind == HELLO:
            hello = read_hello(opened.body, opened.sender, self.introductions.peers)
            if not self.equipment.versions.on_hello(pid, hello, now):
                return
            self._settle_version()
            standing = self._host.standing() if self._host and self._host.view.id else None
            answers = self.introductions.on_hello(opened.sender, opened.body, address, standing)
            if self._gathering is not None and not self._gathering.roster:
                answers = self._gathering.on_hello(
                    opened.sender, opened.incarnation, opened.body, address, now, opened.salt
                )
            self._mail(answers)
        elif opened.kind == ROSTER:
            self._on_ballot(opened)
        elif opened.kind == PROBE:
            self._on_probe(opened, address)
        elif opened.sender not in self.introductions.senders:
            self.transport.discarded["stranger"] += 1
            self._mail(self.introductions.on_stranger(opened.sender, address, now))
        elif self._host is not None:
            self._host.on_frame(opened, now)
        elif opened.kind == REPORT:
            self._on_standing(pid, decoded(standing_decoder, opened.body))
        else:
            self.transport.discarded["early"] += 1

    def _settle_version(self) -> None:
        """Speak the highest version that everybody in the view announced."""
        if self._host is not None:
            others = (pid for pid, _ in self._host.status().view.members)
            versions, own = self.equipment.versions, self.introductions.own_pid
            version = versions.speakable((pid for pid in others if pid != own), monotonic())
            if version != self.equipment.sealer.version:
                self.equipment.sealer.speak(version)

    def _on_standing(self, pid: int, standing: Standing) -> None:
        """A group runs; but whoever is a founder of it waits to be told so."""
        self.introductions.on_standing(pid, standing)
        own = Life(self.introductions.own_pid, life_of(self.introductions.own.incarnation))
        if standing.echo == self.introductions.nonce and own not in standing.members:
            self._running = standing
            self._arrived.set()

    def _on_ballot(self, opened: Opened) -> None:
        if self._gathering is None:
            return
        self._arrived.set()
        try:
            self._mail(self._gathering.on_ballot(opened.sender, opened.incarnation, opened.body))
        except GroupComplete:
            self.transport.discarded["fixed"] += 1  # Somebody has the name for a fixed group.

    def _mail(self, envelopes: list[Envelope]) -> None:
        if self._is_listening:
            return
        for to, kind, body in envelopes:
            self.transport.send(kind, body, (to,))

    def _why_not(self) -> str:
        options, known = self.options, self.introductions
        there = ", ".join([options.name, *sorted(known.names.values())])
        told = f"join: timed out after {options.join_timeout:g} s; reachable: {there}"
        standing, host = self._latest(), self._host
        awaited = host.status().donor if host is not None else None
        if awaited is not None:
            donor = known.name_of(awaited)
            told += (
                f"; received no state from {donor}, whose application must keep reading messages"
            )
        elif standing is not None:
            told += f"; {self._about(standing)}"
        elif self._gathering is not None:
            told += f"; founding the group needs {options.members} members"
            if self._gathering.missing:
                told += f", missing: {', '.join(self._gathering.missing)}"
        elif self.recipe.is_primary:
            told += "; no such group is running; found one with members or peers"
        if known.differing:
            told += f"; different settings: {', '.join(sorted(known.differing.values()))}"
        if known.clashing:
            told += f"; the name's hash collides with that of: {', '.join(sorted(known.clashing))}"
        return told + self.equipment.refusals()

    def _latest(self) -> Standing | None:
        """What members said last of the group that runs, the newest view first."""
        heard = [standing for standing in self.introductions.heard.values() if standing.view]
        return max(heard, key=lambda standing: standing.view, default=self._running)

    def _about(self, standing: Standing) -> str:
        name_of, gone = self.introductions.name_of, set(standing.suspects)
        lives = standing.members
        there = ", ".join(name_of(pid) for pid, _ in lives if pid not in gone)
        told = f"the group's view {standing.view} has {', '.join(name_of(pid) for pid, _ in lives)}"
        if standing.status == MINORITY:
            told += f"; it needs {quorum(len(lives))} of them to continue and only reaches {there}"
        return told

    async def close(self) -> None:
        """Leave the group, and give everything back."""
        host = self._host
        assert host is not None
        try:
            if host.ended is None and not await host.leave(self.options.linger):
                log.warning(
                    "closed before the group installed a view without %s", self.options.name
                )
        finally:  # also if whoever closes is cancelled meanwhile
            host.end(None)
            await self.equipment.close()
