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

LivenessCheck: TypeAlias = Callable[[History, list[Rank], ViolationLog], None]


def validity(history: History, owed: list[Rank], ledger: ViolationLog) -> None:
    """A correct process delivers some m' ⊒ m for each m that it multicast."""
    for pid in owed:
        for seq in history.unsatisfied(pid, pid):
            what = f"process {pid} delivered nothing for {pid}:{seq}, which it multicast"
            ledger.add("validity", what, history.multicast[pid].get(seq))


def agreement(history: History, owed: list[Rank], ledger: ViolationLog) -> None:
    """If a correct process delivers m, all correct processes deliver some m' ⊒ m."""
    for sender in range(history.n):
        delivered: dict[Seq, Event] = {}
        for pid in owed:
            delivered.update(history.delivered[pid][sender])
        for pid in owed:
            for seq in history.unsatisfied(pid, sender):
                if (at := delivered.get(seq)) is None:
                    continue
                what = (
                    f"process {pid} delivered nothing for {sender}:{seq}, "
                    f"which process {at.pid} delivered"
                )
                ledger.add("agreement", what, history.multicast[sender].get(seq), at)


def fifo_completeness(history: History, owed: list[Rank], ledger: ViolationLog) -> None:
    """A correct process that delivers m' delivers some m'' ⊒ m for each m multicast before m'."""
    for pid in owed:
        for sender in range(history.n):
            delivered = history.delivered[pid][sender]
            if not delivered:
                continue
            last = delivered[max(delivered)]
            for seq in history.unsatisfied(pid, sender):
                if seq > last.seq:
                    break
                what = f"process {pid} delivered {sender}:{last.seq} but nothing for {sender}:{seq}"
                ledger.add("fifo_completeness", what, history.multicast[sender].get(seq), last)


def sender_reliability(history: History, owed: list[Rank], ledger: ViolationLog) -> None:
    """All correct processes deliver some m' ⊒ m for each m that a correct process multicast."""
    for sender in owed:
        for pid in owed:
            for seq in history.unsatisfied(pid, sender):
                what = (
                    f"process {pid} delivered nothing for {sender}:{seq}, "
                    "whose sender never crashed"
                )
                ledger.add("sender_reliability", what, history.multicast[sender].get(seq))


LIVENESS: Final[Mapping[str, LivenessCheck]] = {
    "validity": validity,
    "agreement": agreement,
    "fifo_completeness": fifo_completeness,
    "sender_reliability": sender_reliability,
}
