"""What every correct process must have delivered once a run has fallen quiet.

A finite trace has a time after which no process multicasts anything, so the condition "there is
a time after which no process multicasts m'' such that m ⊏ m''" always holds here, and "eventually"
means "by the end".  Each property then names messages m and processes, and demands that each of
these processes delivered some m' ⊒ m.

Rule: Validity, Agreement, FIFO Completeness [SRB §2.1], [SRM fig. 3]; Sender Reliability
[SRM fig. 2].
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from semcast.specs.history import History
from semcast.specs.violations import ViolationLog
from semcast.terms.events import Event
from semcast.terms.ids import Rank, Seq

LivenessCheck: TypeAlias = Callable[[History, list[Rank], ViolationLog], int]
"""Returns how many pairs of a message and a process it looked at."""


def validity(history: History, owed: list[Rank], ledger: ViolationLog) -> int:
    """A correct process delivers some m' ⊒ m for each m that it multicast."""
    for pid in owed:
        for seq in history.unsatisfied(pid, pid):
            what = f"process {pid} delivered nothing for {pid}:{seq}, which it multicast"
            ledger.add("validity", what, history.multicast[pid].get(seq))
    return sum(len(history.multicast[pid]) for pid in owed)


def agreement(history: History, owed: list[Rank], ledger: ViolationLog) -> int:
    """If a correct process delivers m, all correct processes deliver some m' ⊒ m."""
    checked = 0
    for sender in range(history.n):
        delivered: dict[Seq, Event] = {}
        for pid in owed:
            delivered.update(history.delivered[pid][sender])
        checked += len(delivered) * (len(owed) - 1)
        for pid in owed:
            for seq in history.unsatisfied(pid, sender):
                if (at := delivered.get(seq)) is None:
                    continue
                what = (
                    f"process {pid} delivered nothing for {sender}:{seq}, "
                    f"which process {at.pid} delivered"
                )
                ledger.add("agreement", what, history.multicast[sender].get(seq), at)
    return checked


def fifo_completeness(history: History, owed: list[Rank], ledger: ViolationLog) -> int:
    """A correct process that delivers m' delivers some m'' ⊒ m for each m multicast before m'."""
    checked = 0
    for pid in owed:
        for sender in range(history.n):
            delivered = history.delivered[pid][sender]
            if not delivered:
                continue
            last = delivered[max(delivered)]
            checked += sum(seq < last.seq for seq in history.multicast[sender])
            for seq in history.unsatisfied(pid, sender):
                if seq > last.seq:
                    break
                what = f"process {pid} delivered {sender}:{last.seq} but nothing for {sender}:{seq}"
                ledger.add("fifo_completeness", what, history.multicast[sender].get(seq), last)
    return checked


def sender_reliability(history: History, owed: list[Rank], ledger: ViolationLog) -> int:
    """All correct processes deliver some m' ⊒ m for each m that a correct process multicast."""
    for sender in owed:
        for pid in owed:
            for seq in history.unsatisfied(pid, sender):
                what = (
                    f"process {pid} delivered nothing for {sender}:{seq}, "
                    "whose sender never crashed"
                )
                ledger.add("sender_reliability", what, history.multicast[sender].get(seq))
    return len(owed) * sum(len(history.multicast[sender]) for sender in owed)


LIVENESS: Final[Mapping[str, LivenessCheck]] = {
    "validity": validity,
    "agreement": agreement,
    "fifo_completeness": fifo_completeness,
    "sender_reliability": sender_reliability,
}
