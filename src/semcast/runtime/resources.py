"""What a live member has open whatever its protocol: keys, sockets, and what shows it to people.

What was opened is closed again by `close`, in the reverse order.
"""

import asyncio
import logging
import secrets
from contextlib import AsyncExitStack
from socket import socket
from time import monotonic
from typing import Any, Final

from semcast.disk.log_header import LogOwner
from semcast.runtime.membership.gathering import RosterEntry
from semcast.runtime.membership.versions import Versions
from semcast.runtime.operations.control import ControlServer
from semcast.runtime.operations.snapshot_builder import SnapshotBuilder
from semcast.runtime.options.options import Options
from semcast.runtime.storage.durable_log import DurableLog
from semcast.runtime.storage.keyring import KeyRing, KeyRingWatcher, id_text, keys_path
from semcast.runtime.tasks import start_task
from semcast.runtime.transport.addresses import Address, format_address
from semcast.runtime.transport.endpoints import find_interface, open_ports
from semcast.runtime.transport.network_interfaces import SocketAddress, datagram_bytes
from semcast.runtime.transport.sockets import (
    buffer_shortfalls,
    drop_matching,
    open_multicast,
    received_bytes,
)
from semcast.runtime.transport.tcp import TcpTransport
from semcast.runtime.transport.udp import UdpTransport
from semcast.terms.errors import ConfigError
from semcast.terms.records import Records
from semcast.wire.fragments import Reassembler
from semcast.wire.frames import MULTICAST, PROBE, SENDER_OFFSET, UDP, member_id, spoken
from semcast.wire.sealing import Opener, Sealer

KEYS_PERIOD_S: Final = 0.5
FRAME_SLACK_BYTES: Final = 1 << 16  # what a message's annotations and frame may add to it
BODIES_AT_ONCE: Final = 4  # large messages of one sender that may be on their way

log = logging.getLogger("semcast")


class MemberResources:
    """Of one member.  Lives from `open` to `close`."""

    transport: UdpTransport
    bulk: TcpTransport
    address: Address

    def __init__(self, options: Options) -> None:
        self.options = options
        self.stack = AsyncExitStack()
        self.versions = Versions()
        self.versions.know(peer.name for peer in options.peers or ())
        self.log: DurableLog | None = None
        self.records = Records()  # of earlier lives of this process
        self.ring: KeyRing | None = None  # None: unsealed, and on loopback only
        self._watch: KeyRingWatcher | None = None

    @property
    def is_sealed(self) -> bool:
        """Whether frames are sealed, and so may leave the machine."""
        return self.ring is not None

    async def open(self, incarnation: int) -> None:
        """Read the keys and open the sockets; what comes is passed over until `transport.on_frame`
        is set."""
        options = self.options
        if options.key is not False:
            self._watch = KeyRingWatcher(options.key or keys_path())
            self.ring = self._watch.ring if self._watch.ring.keys else None
            if options.key is not None and self.ring is None:
                raise ConfigError(f"key: {options.key} holds no key; make one: semcast keys new")
        own = member_id(options.name)
        key = self.ring.active if self.ring else None
        self.sealer = Sealer(options.group, own, incarnation, key)
        # Probes are sent under a number that nobody has: to use the own one is to speak as it.
        self._prober = Sealer(options.group, secrets.randbits(64), incarnation, key)
        keys = self.ring.keys if self.ring else ()
        self.opener = Opener(self.sealer.identity, keys)
        await self._open_network()
        if self._watch is not None and self.ring is not None:
            watching = start_task(self._watch_keys(self._watch), "the watch on the key file")
            self.stack.callback(watching.cancel)

    async def open_log(self, record: Any) -> None:
        """Open the log of this member, for records of the type `record`, or None if its protocol
        has none."""
        options = self.options
        if record is None:
            if options.data is not None:
                raise ConfigError(
                    f"data: {options.protocol} keeps nothing on disk; remove the option"
                )
            return
        if options.data is None:
            raise ConfigError(
                f"data: {options.protocol} keeps its state on disk; give it a directory"
            )
        self.log = await DurableLog.open(
            options.data, LogOwner(options.group, options.name), record
        )
        self.records = self.log.records
        self.stack.push_async_callback(self.log.close)

    async def flush(self) -> None:
        """Wait until the log, if there is one, has everything: another machine may begin."""
        if self.log is not None:
            await self.log.flush()

    def _log_no_key(self) -> None:
        options = self.options
        is_known = options.key is False or options.is_client  # Its servers have said so.
        log_line = log.info if is_known else log.warning
        log_line("no key: group %s stays on loopback, unencrypted", options.group)

    async def _open_network(self) -> None:
        options = self.options
        interface = await find_interface(options, sealed=self.is_sealed)
        if self.ring is None:
            self._log_no_key()
        frame_bytes = options.datagram or datagram_bytes(interface)
        unicast, listening = open_ports(interface, options)
        self.stack.callback(listening.close)
        self.stack.callback(unicast.close)
        multicast: tuple[socket | None, SocketAddress] | None = None
        if options.multicast is not None:
            host, port = options.multicast
            hearing = None
            if not options.is_client:  # It is answered at its own address.
                hearing = open_multicast(interface, host, port, options.socket_buffer)
                self.stack.callback(hearing.close)
                drop_matching(hearing, SENDER_OFFSET, self.sealer.sender_bytes)
            multicast = hearing, interface.endpoint(host, port)
        for shortage in buffer_shortfalls(unicast, options.socket_buffer):
            log.warning("%s", shortage)
        self.window_bytes = received_bytes(unicast) // 2
        self.transport = UdpTransport(
            self.sealer,
            self.opener,
            unicast,
            multicast,
            frame_bytes,
            Reassembler(
                options.message_max + FRAME_SLACK_BYTES,
                BODIES_AT_ONCE * (options.message_max + FRAME_SLACK_BYTES),
            ),
        )
        self.transport.on_claim = self.versions.on_claim
        self.transport.start()
        self.stack.callback(self.transport.close)
        self.bulk = TcpTransport(
            listening,
            options.message_max + FRAME_SLACK_BYTES,
            lambda frame, source: self.transport.receive_frame(frame, source, monotonic()),
            lambda: self.transport.on_drained(monotonic()),
        )
        self.stack.push_async_callback(self.bulk.close)
        await self.bulk.start()
        self.address = interface.address, unicast.getsockname()[1]

    def seat(self) -> RosterEntry:
        """This process's place in a roster."""
        identity = self.sealer.identity
        place = self.options.name, identity.incarnation, *self.address
        return RosterEntry(*place, identity.salt, spoken())

    async def expose(self, builder: SnapshotBuilder) -> None:
        """Let people look at the member, as its options say."""
        options = self.options
        if options.control:
            control = ControlServer(builder.snapshot)
            self.stack.push_async_callback(control.close)
            try:
                await control.start(options.group, options.name)
            except (ConfigError, OSError) as error:
                log.warning("semcast top will not see this member: %s", error)
        if options.metrics is not None:
            from semcast.runtime.operations.metrics import serve

            metrics = serve(format_address(options.metrics), builder.latest)
            self.stack.push_async_callback(asyncio.to_thread, metrics.close)

    async def _watch_keys(self, watch: KeyRingWatcher) -> None:
        """Take up a changed key ring; a bad or empty one leaves things as they are."""
        while True:
            await asyncio.sleep(KEYS_PERIOD_S)
            ring = watch.poll()
            if watch.problem is not None:
                log.warning("%s", watch.problem)
            if ring is not None and ring.keys:
                log.info(
                    "the key ring has changed: %d keys, frames are sealed with %s; the other "
                    "machines need the same keys (semcast keys add)",
                    *(len(ring.keys), id_text(ring.active.id) if ring.active else "none"),
                )
                self.opener.use(ring.keys)
                self.sealer.use(ring.active)
                self._prober.use(ring.active)

    def probe(self, body: bytes, to: Address | None) -> None:
        """Send a probe to an address, or to the multicast group."""
        channel = MULTICAST if to is None else UDP
        self.transport.send_frame(self._prober.seal(PROBE, body, channel), to)

    def explain_discards(self) -> str:
        """What was heard and could not be a member, in words to end a sentence with."""
        text = ""
        for reason, explanation in _DISCARD_REASONS.items():
            if count := self.transport.discarded[reason]:
                text += f"; {explanation} ({count} frames)"
        return text + str(self.versions)

    async def close(self) -> None:
        """Give everything back."""
        await self.stack.aclose()


_DISCARD_REASONS: Final = {
    "key": "somebody seals with a key that is not in this ring",
    "forged": "somebody seals with another key under the same number",
    "clear": "somebody sends unsealed",
    "namesake": "somebody else has this member's name",
    "clone": "two processes have one member's identity; was a machine cloned?",
}
