"""From options to a live group with views: listen, find the group or found it, get in.

Whoever starts looks for members of a running group; if none answers and enough founders are there,
these agree on who they are, as a fixed group does, and begin with the first view.  So one command
line serves the founder, the late joiner, and the founder that comes back after a crash.
A name that is in use is not spoken under: others would take the new process for a restart of the
old one.  So a process first listens, for as long as a namesake is heard.
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
from semcast.runtime.gathering import Envelope, Gathering, GroupComplete, Seat
from semcast.runtime.group import Group
from semcast.runtime.options import Options
from semcast.runtime.recording import check_trace, close_journal, open_view_journal
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
from semcast.terms.views import MINORITY, Life
from semcast.traces.settling import run_id_of
from semcast.wire.frames import HELLO, REPORT, ROSTER
from semcast.wire.sealing import Opened

LISTEN_S: Final = 0.15  # three heartbeats of a namesake
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
        life = next_life()
        incarnation = incarnation_of(life)
        await equipment.open(incarnation)
        self.transport = equipment.transport
        self.recipe = options.view_recipe(self.transport.body_bytes, equipment.window_bytes)
        own = Seat(options.name, incarnation, *equipment.address)
        peers = await find_peers(options, sealed=equipment.is_sealed)
        rng, digest = SystemRandom(), options.digest()
        self.introductions = Introductions(own, digest, rng, peers)
        if self.recipe.is_primary and options.members:
            self._gathering = Gathering(own, options.members, digest, rng, peers)
            self._gathering.nonce = self.introductions.nonce  # One answer is for both.
        self.transport.on_frame = self._on_frame
        check_trace(options)  # now, for later the others would count on this member
        try:
            async with asyncio.timeout(options.join_timeout):
                await self._listen()
                founders = await self._find()
                return await self._start(Life(self.introductions.own_pid, life), founders)
        except TimeoutError:
            raise JoinTimeout(self._why_not()) from None

    async def _listen(self) -> None:
        """Until no namesake was heard for a while."""
        discarded = self.transport.discarded
        heard = -1
        while discarded["namesake"] != heard:
            heard = discarded["namesake"]
            await asyncio.sleep(LISTEN_S)
        self._is_listening = False

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

    async def _start(self, life: Life, founders: tuple[Life, ...]) -> Group:
        options, equipment = self.options, self.equipment
        run = self._run(founders)
        journal = open_view_journal(options, run, life, self.recipe)
        if journal is not None:
            equipment.stack.push_async_callback(close_journal, journal)
        host = self._host = ViewHost(
            ViewMember(self.recipe, life, Random(self.introductions.nonce), monotonic()),
            run,
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
        host.begin(founders)
        await self._enter(host)
        observation = ViewObservation(options, host, self.transport, is_sealed=equipment.is_sealed)
        await equipment.show(observation)
        relation = None if isinstance(options.relation, str) else options.relation
        return Group(options.group, options.name, host, relation, observation.snapshot, self.close)

    def _run(self, founders: tuple[Life, ...]) -> int:
        """The number of the run, the same at every member; components of `vs` are one run."""
        if self._running is not None:
            return self._running.run
        lives = [str(pid) for pid, _ in founders]
        return run_id_of(self.options.group, lives, [inc for _, inc in founders])

    async def _enter(self, host: ViewHost) -> None:
        """Until the application may begin; `vs` waits for as many members as were asked for."""
        wanted = 1 if self.recipe.is_primary else max(1, self.options.members)

        def is_in() -> bool:
            # As many as are in the current view: an application that has not begun takes nothing,
            # so what it is shown may be an earlier one.
            return host.view.id > 0 and len(host.member.view.members) >= wanted

        while not is_in():
            if host.ended is not None:
                raise host.ended
            self._mail(self.introductions.greetings(asking=True))
            await host.until(is_in, ASK_PERIOD_S)

    def _on_frame(self, opened: Opened, address: Address, now: float) -> None:
        pid = pid_of(opened.sender)
        if opened.kind == HELLO:
            standing = self._host.standing() if self._host and self._host.view.id else None
            answers = self.introductions.on_hello(opened.sender, opened.body, address, standing)
            if self._gathering is not None and not self._gathering.roster:
                answers = self._gathering.on_hello(
                    opened.sender, opened.incarnation, opened.body, address, now
                )
            self._mail(answers)
        elif opened.kind == ROSTER:
            self._on_ballot(opened)
        elif opened.sender not in self.introductions.senders:
            self.transport.discarded["stranger"] += 1
            self._mail(self.introductions.on_stranger(opened.sender, address, now))
        elif self._host is not None:
            self._host.on_frame(opened, now)
        elif opened.kind == REPORT:
            self._on_standing(pid, decoded(standing_decoder, opened.body))
        else:
            self.transport.discarded["early"] += 1

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
        told = f"join: not in the group within {options.join_timeout:g} s; there are {there}"
        standing, host = self._latest(), self._host
        if host is not None and host.member.transfer.is_waiting:
            donor = known.name_of(host.member.transfer.donor)
            told += f"; the state did not come from {donor}, which has to read what the group says"
        elif standing is not None:
            told += f"; {self._about(standing)}"
        elif self._gathering is not None:
            told += f"; {options.members} are needed to found it"
            if self._gathering.missing:
                told += f", missing: {', '.join(self._gathering.missing)}"
        elif self.recipe.is_primary:
            told += "; no group runs; found one with members or peers"
        if known.differing:
            told += f"; with other settings: {', '.join(sorted(known.differing.values()))}"
        if known.clashing:
            told += f"; whose number another name has: {', '.join(sorted(known.clashing))}"
        return told + self.equipment.refusals()

    def _latest(self) -> Standing | None:
        """What members said last of the group that runs, the newest view first."""
        heard = [standing for standing in self.introductions.heard.values() if standing.view]
        return max(heard, key=lambda standing: standing.view, default=self._running)

    def _about(self, standing: Standing) -> str:
        name_of, gone = self.introductions.name_of, set(standing.suspects)
        lives = standing.members
        there = ", ".join(name_of(pid) for pid, _ in lives if pid not in gone)
        told = f"its view {standing.view} has {', '.join(name_of(pid) for pid, _ in lives)}"
        if standing.status == MINORITY:
            told += f", of whom {quorum(len(lives))} are needed to go on and only {there} are there"
        return told

    async def close(self) -> None:
        """Leave the group, and give everything back."""
        host = self._host
        assert host is not None
        try:
            if host.ended is None and not await host.leave(self.options.linger):
                log.warning(
                    "closed before the group had agreed to go on without %s", self.options.name
                )
        finally:  # also if whoever closes is cancelled meanwhile
            host.end(None)
            await self.equipment.close()
