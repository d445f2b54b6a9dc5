"""Names, addresses and last reports of the processes that machines know by number.

Only a process that sent a hello with the same settings is known, and only datagrams of known
processes reach the machine; a process that receives a frame of an unknown one sends it a hello.
A hello with `echo` 0 asks for an answer; any other `echo` is an answer or announcement.
"""

from collections.abc import Mapping
from random import Random
from typing import Annotated, Final

import msgspec

from semcast.runtime.membership.directory import Directory
from semcast.runtime.membership.gathering import (
    CANDIDATES_MAX,
    Envelope,
    Hello,
    RosterEntry,
    encode_hello,
    read_hello,
)
from semcast.runtime.membership.incarnations import pid_of, pid_of_name
from semcast.runtime.transport.addresses import NAME_BYTES_MAX, Address
from semcast.terms.ids import NO_LINEAGE, Lineage, Pid
from semcast.terms.machine import Status
from semcast.terms.views import MEMBERS_MAX, Incarnations
from semcast.wire.frames import HELLO, REPORT, member_id

ASK_PERIOD_S: Final = 0.05  # between two hellos to one stranger

_MANY: Final = msgspec.Meta(max_length=MEMBERS_MAX)


class ViewMemberReport(msgspec.Struct, frozen=True, array_like=True):
    """How a member of a running group is doing: where it is, and how much waits there.

    `echo` is the nonce of the hello that it answers, or 0; an answer shows that the group runs now.
    `lineage` is that of the view.
    """

    echo: int
    lineage: Lineage
    view: int
    members: Incarnations
    names: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=NAME_BYTES_MAX)], ...], _MANY]
    status: Annotated[str, msgspec.Meta(max_length=16)]
    suspects: Annotated[tuple[Pid, ...], _MANY] = ()
    delivered: int = 0
    skipped: int = 0
    queued: int = 0
    held: int = 0


report_decoder = msgspec.msgpack.Decoder(ViewMemberReport)


class PeerDirectory(Directory):
    """The processes that said hello, and those that others spoke of.  Lives as long as the
    session."""

    def __init__(
        self, own: RosterEntry, digest: int, rng: Random, peers: Mapping[str, Address] | None
    ) -> None:
        super().__init__(own.name, pid_of_name(own.name), peers)
        self.own = own
        self.digest = digest
        self.nonce = rng.getrandbits(63) | 1
        self.mismatched: dict[Pid, str] = {}  # those with other settings
        self.colliding: set[str] = set()  # those whose number is that of another name
        self.heard: dict[Pid, ViewMemberReport] = {}
        self.lineage: Lineage = NO_LINEAGE  # of the view that this process is in
        self.lineages: dict[Pid, Lineage] = {}  # of others, as they said last
        self.reported_names: dict[Pid, str] = {}  # names that only others told
        self._asked_at: dict[Pid, float] = {}

    def name_of(self, pid: Pid) -> str:
        """What people call a process; its number if nobody told."""
        if pid == self.own_pid:
            return self.own_name
        return self.names.get(pid) or self.reported_names.get(pid) or f"#{pid}"

    def is_named(self, pid: Pid) -> bool:
        """Whether its name is known."""
        return super().is_named(pid) or pid in self.reported_names

    def on_report(self, pid: Pid, standing: ViewMemberReport) -> bool:
        """A known process tells how it is doing, and who is with it; False if it is in a group of
        another lineage, whose figures mean nothing here."""
        self.lineages[pid] = standing.lineage
        if len(self.reported_names) > MEMBERS_MAX:
            self.reported_names.clear()
        for life, name in zip(standing.members, standing.names, strict=False):
            self.reported_names[life.pid] = name
        if NO_LINEAGE not in (self.lineage, standing.lineage) and self.lineage != standing.lineage:
            self._forget_reports(pid)
            return False
        self.heard[pid] = standing
        self.keep_report(pid, standing)
        return True

    def newest_report(self) -> ViewMemberReport | None:
        """The report of the newest view that a member of a running group sent."""
        found = [standing for standing in self.heard.values() if standing.view]
        return max(found, key=lambda standing: standing.view, default=None)

    def names_in(self, lineage: Lineage) -> list[str]:
        """The processes that said they are in a group of this lineage."""
        return sorted(self.name_of(pid) for pid, known in self.lineages.items() if known == lineage)

    def learn(self, name: str, address: Address) -> bool:
        """Somebody is known from now on; False if its number is another's."""
        pid = pid_of_name(name)
        if pid == self.own_pid or self.names.get(pid, name) != name:
            self.colliding.add(name)
            return False
        if pid not in self.names and len(self.names) >= CANDIDATES_MAX:
            return False
        self.add(pid, name, member_id(name), address)
        return True

    def _forget_reports(self, pid: Pid) -> None:
        self.heard.pop(pid, None)
        self.reports.pop(pid, None)

    def hellos(self, *, asking: bool) -> list[Envelope]:
        """A hello to everybody."""
        hello = self._hello(0 if asking else self.nonce)
        if self.peers is None:
            return [Envelope(None, HELLO, hello)]
        others = (address for name, address in self.peers.items() if name != self.own_name)
        return [Envelope(address, HELLO, hello) for address in others]

    def _hello(self, echo: int) -> bytes:
        hello = Hello(self.own_name, self.digest, self.nonce, echo, lineage=self.lineage)
        return encode_hello(hello)

    def on_hello(
        self, sender: int, body: bytes, address: Address, standing: ViewMemberReport | None
    ) -> list[Envelope]:
        """Somebody says who it is; `standing` is this member's, in a group that runs."""
        hello, pid = read_hello(body, sender, self.peers), pid_of(sender)
        if hello.digest != self.digest:
            if len(self.mismatched) < CANDIDATES_MAX:
                self.mismatched[pid] = hello.name
            self._forget(hello.name)
            return []
        self.mismatched.pop(pid, None)
        if not self.learn(hello.name, address):
            return []
        self.lineages[pid] = hello.lineage
        if hello.echo:
            return []
        to = self.addresses[pid]
        out = [Envelope(to, HELLO, self._hello(hello.nonce))]
        if standing is not None:
            answer = msgspec.structs.replace(standing, echo=hello.nonce)
            out.append(Envelope(to, REPORT, msgspec.msgpack.encode(answer)))
        return out

    def _forget(self, name: str) -> None:
        pid = pid_of_name(name)
        if self.names.get(pid) == name:
            del self.names[pid], self.addresses[pid]
            self.numbers.pop(member_id(name), None)
            self._forget_reports(pid)
            self.lineages.pop(pid, None)

    def on_unknown_sender(self, sender: int, address: Address, now: float) -> list[Envelope]:
        """Somebody unknown speaks: ask who it is, but not at every word."""
        pid = pid_of(sender)
        if pid in self.mismatched or now - self._asked_at.get(pid, -ASK_PERIOD_S) < ASK_PERIOD_S:
            return []
        if len(self._asked_at) >= CANDIDATES_MAX:
            self._asked_at.clear()
        self._asked_at[pid] = now
        return [Envelope(address, HELLO, self._hello(0))]

    def report_of(self, status: Status, delivered: int, skipped: int) -> ViewMemberReport:
        """What the others are told of this member, whose application got so much."""
        view = status.view
        return ViewMemberReport(
            echo=0,
            lineage=view.lineage,
            view=view.id,
            members=view.members,
            names=tuple(self.name_of(life.pid) for life in view.members),
            status=status.phase,
            suspects=tuple(sorted(status.suspects)),
            delivered=delivered,
            skipped=skipped,
            queued=status.queued,
            held=status.held,
        )
