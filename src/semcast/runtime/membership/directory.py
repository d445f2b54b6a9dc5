"""Who the processes are that a machine knows by number: names, addresses, last reports."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from semcast.runtime.transport.addresses import Address
from semcast.terms.ids import Pid

GUESTS_MAX: Final = 10_000  # as many clients as servers remember sessions of


class ReportFigures(Protocol):
    """What every report of a member has."""

    @property
    def delivered(self) -> int: ...

    @property
    def skipped(self) -> int: ...

    @property
    def queued(self) -> int: ...

    @property
    def held(self) -> int: ...


class Directory:
    """The members of one group as one of them, `own`, knows them.

    Invariant: `names`, `addresses` and `numbers` have the same processes, and not the own one.
    `numbers` has them by their number on frames, `reports` the last two reports of each, also the
    own ones.  `guests` are at the other end of a service: its clients, or for a client its servers;
    the last `GUESTS_MAX` that were heard are known.
    """

    def __init__(self, own_name: str, own: Pid, peers: Mapping[str, Address] | None) -> None:
        """`peers` are the only names that may take part, and where they are."""
        self.own_name = own_name
        self.own_pid = own
        self.peers = peers
        self.names: dict[Pid, str] = {}
        self.addresses: dict[Pid, Address] = {}
        self.numbers: dict[int, Pid] = {}
        self.reports: dict[Pid, tuple[ReportFigures, ReportFigures]] = {}
        self.heard_at: dict[Pid, float] = {}
        self.guests: dict[Pid, Address] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.own_name}, known={sorted(self.names.values())})"

    @property
    def group_addresses(self) -> Sequence[Address | None]:
        """Where to send what is for all: the multicast group, or each peer."""
        if self.peers is None:
            return (None,)
        return [address for name, address in self.peers.items() if name != self.own_name]

    def name_of(self, pid: Pid) -> str:
        """What people call a process; its number if nobody said."""
        return self.own_name if pid == self.own_pid else self.names.get(pid) or f"#{pid}"

    def is_named(self, pid: Pid) -> bool:
        """Whether its name is known."""
        return pid == self.own_pid or pid in self.names

    def add(self, pid: Pid, name: str, number: int, address: Address) -> None:
        """A process is known from now on, or has another address."""
        self.names[pid] = name
        self.numbers[number] = pid
        self.addresses[pid] = address if self.peers is None else self.peers[name]

    def welcome(self, pid: Pid, address: Address) -> bool:
        """A guest was heard; False if a member has its number."""
        if pid == self.own_pid or pid in self.names:
            return False
        self.guests.pop(pid, None)
        self.guests[pid] = address
        if len(self.guests) > GUESTS_MAX:
            del self.guests[next(iter(self.guests))]
        return True

    def addresses_of(self, audience: Sequence[Pid]) -> list[Address]:
        """Where those of them are that are known."""
        if len(audience) == 1:
            pid = audience[0]
            address = self.addresses.get(pid) or self.guests.get(pid)
            return [] if address is None else [address]
        found = (self.addresses.get(pid) or self.guests.get(pid) for pid in audience)
        return [address for address in found if address is not None]

    def keep_report(self, pid: Pid, report: ReportFigures) -> None:
        """What a process said last, and before."""
        self.reports[pid] = self.reports.get(pid, (report, report))[1], report
