"""Answers to requests: messages cut into datagrams, and when many ask, one multicast.

Idea beyond the thesis [RPB §8]: whoever is asked for the same message by `multicast_at` others
within a period has seen a sample of many that miss it, and multicasts it once instead.
"""

from collections.abc import Iterable, Sequence

from semcast.core.outbox import NOTICE_BYTES
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.repair_trace import trace_repair
from semcast.kernel import size_of
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, Rank, Seq
from semcast.terms.messages import DataMessage, PurgeNotice
from semcast.terms.pubsub import Repair

COUNTED_MAX = 1 << 14  # messages whose requesters are counted at a time
ANSWERS_MAX = 1 << 10  # messages that one request brings at the most


class RequestCounter:
    """Who asked for what since the last round."""

    __slots__ = ("asked", "multicast_after")

    def __init__(self, multicast_after: int | None) -> None:
        self.multicast_after = multicast_after
        self.asked: dict[tuple[Rank, Seq], dict[Rank, None]] = {}

    def on_round(self) -> None:
        """A period has passed; count anew."""
        if self.asked:
            self.asked.clear()

    def split_answers(
        self, peer: Rank, messages: list[DataMessage]
    ) -> tuple[list[DataMessage], list[DataMessage]]:
        """What to answer to this peer alone, and what to multicast."""
        if self.multicast_after is None:
            return messages, []
        if len(self.asked) > COUNTED_MAX:
            self.asked.clear()
        alone: list[DataMessage] = []
        everyone: list[DataMessage] = []
        for message in messages:
            peers = self.asked.setdefault((message.sender, message.seq), {})
            before = len(peers)
            peers[peer] = None
            if len(peers) < self.multicast_after:
                alone.append(message)
            elif before < self.multicast_after:
                everyone.append(message)
            elif before == len(peers):
                alone.append(message)  # The multicast did not reach it.
        return alone, everyone


def send_repair(
    pid: Rank,
    to: Sequence[Rank],
    messages: Iterable[DataMessage],
    superseded: Iterable[tuple[DataMessage, list[PurgeNotice]]],
    recipe: PubsubRecipe,
    load: int,
    out: Effects,
) -> None:
    """Send messages, and notices each with the message that makes them true."""
    batch: list[DataMessage] = []
    notices: list[PurgeNotice] = []
    size = 0
    for message, purged in [*((m, []) for m in messages), *superseded]:
        needs = size_of(message) + NOTICE_BYTES * len(purged)
        if batch and size + needs > recipe.datagram_bytes:
            _send(pid, to, Repair(tuple(batch), tuple(notices), load), out)
            batch, notices, size = [], [], 0
        batch.append(message)
        notices += purged
        size += needs
    if batch:
        _send(pid, to, Repair(tuple(batch), tuple(notices), load), out)


def _send(pid: Rank, to: Sequence[Rank], repair: Repair, out: Effects) -> None:
    trace_repair(pid, to, repair, out)
    out.send.append((to, repair))


def multicast_repair(
    pid: Rank, messages: list[DataMessage], recipe: PubsubRecipe, load: int, out: Effects
) -> None:
    """Send messages to everyone."""
    send_repair(pid, EVERYONE, messages, (), recipe, load, out)
