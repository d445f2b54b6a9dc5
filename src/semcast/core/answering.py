"""Answers to requests for repair: what is asked for, as messages or as notices."""

from msgspec.structs import replace

from semcast.core.outbox import Outbox, repair_datagrams
from semcast.core.port import Port
from semcast.core.receiver import Receiver
from semcast.core.recipe import Recipe
from semcast.core.retransmission_store import RetransmissionStore
from semcast.core.trace import Trace
from semcast.terms.effects import Effects
from semcast.terms.ids import Rank
from semcast.terms.messages import Nack


class RepairAnswerer:
    """Lives as long as the member."""

    def __init__(
        self,
        recipe: Recipe,
        receiver: Receiver,
        store: RetransmissionStore,
        outbox: Outbox,
        port: Port,
        trace: Trace,
    ) -> None:
        self.datagram_bytes = recipe.datagram_bytes
        self.receiver = receiver
        self.store = store
        self.outbox = outbox
        self.port = port
        self.trace = trace

    def on_nack(self, source: Rank, nack: Nack, out: Effects) -> None:
        """Send what is here; when a view ends also what is held back."""
        sender = nack.sender
        if sender == self.outbox.rank and nack.spans:
            self.outbox.on_nack(source, nack)
        frontier = self.receiver.frontier[sender]
        messages, notices = self.store.find(sender, nack.spans, frontier, nack.limit)
        if self.receiver.limit is not None and len(messages) < nack.limit:
            early, gone = self.receiver.find_reordered(nack)
            messages += early[: nack.limit - len(messages)]
            notices += gone
        *parts, last = repair_datagrams(messages, notices, self.datagram_bytes)
        for part in parts:
            self.port.send((source,), part, out)
        if last.messages or last.notices:
            self.trace.repaired(sender, messages, notices, source, out)
            # It closes the request: were the first part to, the rest would be asked for twice.
            self.port.send((source,), replace(last, nack_number=nack.number), out)
