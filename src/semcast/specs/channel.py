"""The unreliable communication channel, as an automaton that is checked along an execution.

It may drop any datagram and duplicate it finitely often; it creates none.  The number of copies
that a send puts into a buffer is the automaton's free choice; here a buffer holds as many as there
can be, so an execution is one of the automaton exactly if no `receive` finds its buffer empty.

Rule: [RPB §2.3], with Property 2.1 as the precondition of `receive`.
Departs: "finite" is a stated bound, `copies_max`; and "infinitely many sends, infinitely many
receives" becomes, for a finite execution, "after a stated time, one of N sends arrives".
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeAlias

from semcast.specs.violations import ViolationLog
from semcast.terms.ids import Rank

Pair: TypeAlias = tuple[Rank, Rank]


class UnreliableChannel:
    """Between the processes 0 to n - 1.  A datagram is anything that can be compared and hashed.

    `buffer[i, j]` counts, by datagram, the copies that may still be on their way from i to j.
    """

    __slots__ = ("_arrived", "_ledger", "_sent", "buffer", "copies_max", "n")

    def __init__(self, n: int, copies_max: int, ledger: ViolationLog) -> None:
        self.n = n
        self.copies_max = copies_max
        self.buffer: defaultdict[Pair, dict[Hashable, int]] = defaultdict(dict)
        self._ledger = ledger
        self._sent: Counter[Pair] = Counter()
        self._arrived: Counter[Pair] = Counter()

    def multisend(self, i: Rank, datagram: Hashable) -> None:
        """To everybody else."""
        for j in range(self.n):
            if j != i:
                self.unisend(i, j, datagram)

    def unisend(self, i: Rank, j: Rank, datagram: Hashable) -> None:
        """Some copies, perhaps none, are on their way."""
        copies = self.buffer[i, j]
        copies[datagram] = copies.get(datagram, 0) + self.copies_max
        self._sent[i, j] += 1

    def can_receive(self, j: Rank, i: Rank, datagram: Hashable) -> bool:
        """Whether a copy may still be on its way [RPB §2.3]."""
        return self.buffer[i, j].get(datagram, 0) > 0

    def receive(self, j: Rank, i: Rank, datagram: Hashable) -> None:
        """One copy arrives, and is judged."""
        if not self.can_receive(j, i, datagram):
            self._ledger.add("channel", f"process {j} received from {i} what {i} had not sent it")
            return
        self.buffer[i, j][datagram] -= 1
        self._arrived[i, j] += 1

    def be_fair(self) -> None:
        """From here on the channel owes its liveness: count anew."""
        self._sent.clear()
        self._arrived.clear()

    def on_end(self, listening: Iterable[Rank], sends: int) -> None:
        """Of `sends` or more on one link to somebody who listens, at least one has arrived."""
        for (i, j), sent in sorted(self._sent.items()):
            if j in set(listening) and sent >= sends and not self._arrived[i, j]:
                self._ledger.add("channel", f"none of {sent} datagrams from {i} reached {j}")
