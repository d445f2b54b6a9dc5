"""The way of a member's datagrams to the others: encoded and sealed once, by UDP or over TCP."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from semcast.kernel import payload_bytes
from semcast.runtime.membership.directory import Directory
from semcast.runtime.transport.addresses import Address
from semcast.runtime.transport.tcp import TcpTransport
from semcast.runtime.transport.udp import UdpTransport
from semcast.terms.ids import EVERYONE, Pid
from semcast.terms.messages import Data, Nack
from semcast.terms.views import Stamped, StateChunk, ViewEnvelope
from semcast.wire import encode
from semcast.wire.codec import Codec
from semcast.wire.frames import DATAGRAM, TCP

BULK_BYTES: Final = 128 << 10  # repair of more than this to one member goes over TCP

Send: TypeAlias = tuple[Sequence[Pid], Any]
# How much of a datagram is what TCP is for; of other datagrams, nothing.
MEASURES: Final[dict[type, Callable[[Any], int]]] = {
    Data: lambda data: payload_bytes(data.messages),
    StateChunk: lambda _: BULK_BYTES + 1,  # a piece of a state, which is large as a whole
}

# What members of a group say to each other, in which there may be repairs.
GROUP_DATAGRAMS: Final = frozenset((Data, Nack, ViewEnvelope, Stamped, StateChunk))


def without_envelopes(datagram: Any) -> Any:
    """What a datagram says, without the view and the life of its sender around it."""
    while (inner := getattr(datagram, "datagram", None)) is not None:
        datagram = inner
    return datagram


def bulk_bytes(datagram: Any) -> int:
    """How many bytes of repair or state a datagram carries."""
    datagram = without_envelopes(datagram)
    measure = MEASURES.get(type(datagram))
    return 0 if measure is None else measure(datagram)


class MemberChannel:
    """Lives as long as the group.  `directory` says where the processes are that a machine names
    by number."""

    def __init__(
        self, transport: UdpTransport, tcp: TcpTransport, directory: Directory, codec: Codec[Any]
    ) -> None:
        self.transport = transport
        self.tcp = tcp
        self.decode = codec.decode
        self._directory = directory
        self._addresses = directory.addresses
        self.repairs_asked = 0
        self.repairs_answered = 0

    def discard(self, error: Exception, now: float) -> None:
        """Handling a datagram raised this error."""
        self.transport.discard(error, now)

    def announce(self, kind: int, body: bytes) -> None:
        """Send a frame of the runtime's own to everyone."""
        self.transport.send(kind, body, self._directory.group_addresses)

    def send(self, sends: Sequence[Send], *, is_repair: bool) -> None:
        """Send datagrams, in order; large repairs to one member go over TCP if they can."""
        of_group = [send for send in sends if type(send[1]) in GROUP_DATAGRAMS]
        if of_group:
            self._count_repairs(of_group)
            if is_repair and any(bulk_bytes(datagram) for _, datagram in of_group):
                sends = self._send_bulk(sends)
        bodies: list[bytes] = []
        to: Sequence[Pid] = ()
        for audience, datagram in sends:
            if bodies and audience != to:
                self.transport.send_all(DATAGRAM, bodies, self._addresses_of(to))
                bodies = []
            to = audience
            bodies.append(encode(datagram))
        if bodies:
            self.transport.send_all(DATAGRAM, bodies, self._addresses_of(to))

    def _addresses_of(self, audience: Sequence[Pid]) -> Sequence[Address | None]:
        directory = self._directory
        if audience is EVERYONE:
            return directory.group_addresses
        return directory.addresses_of(audience)

    def _count_repairs(self, sends: Sequence[Send]) -> None:
        for _, datagram in sends:
            inner = without_envelopes(datagram)
            if isinstance(inner, Nack):
                self.repairs_asked += 1
            elif isinstance(inner, Data) and inner.nack_number:
                self.repairs_answered += 1

    def _send_bulk(self, sends: Sequence[Send]) -> list[Send]:
        """Send large repairs over TCP; returns what is left to go by UDP."""
        sizes = [bulk_bytes(datagram) for _, datagram in sends]
        bytes_by_peer: Counter[Pid] = Counter()
        for (audience, _), size in zip(sends, sizes, strict=True):
            bytes_by_peer.update(dict.fromkeys(audience, size))
        left: list[Send] = []
        for (audience, datagram), size in zip(sends, sizes, strict=True):
            by_tcp = [pid for pid in audience if size and bytes_by_peer[pid] > BULK_BYTES]
            by_tcp = [pid for pid in by_tcp if self._send_tcp(pid, datagram)]
            if by_tcp:
                audience = [pid for pid in audience if pid not in by_tcp]
            if audience:
                left.append((audience, datagram))
        return left

    def _send_tcp(self, pid: Pid, datagram: Any) -> bool:
        address = self._addresses.get(pid)
        if address is None or not self.tcp.is_ready(address):
            return False
        return self.tcp.send(address, self.transport.sealer.seal(DATAGRAM, encode(datagram), TCP))
