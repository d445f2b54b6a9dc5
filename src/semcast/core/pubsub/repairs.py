"""Answers to requests: messages cut into datagrams, and when many ask, one multicast.

Idea beyond the thesis [RPB §8]: whoever is asked for the same message by `multicast_at` others
within a period has seen a sample of many that miss it, and multicasts it once instead.
"""

from collections.abc import Iterable, Sequence

from semcast.core.outbox import NOTICE_BYTES
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.kernel import size_of
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, Rank, Seq
from semcast.terms.messages import Message, Purged
from semcast.terms.pubsub import Repair

ASKED_MAX = 1 << 14  # messages whose requesters are counted at a time
ANSWERS_MAX = 1 << 10  # messages that one request brings at the most


class Demand:
    """Who asked for what since the last round."""

    __slots__ = ("asked", "least")

    def __init__(self, least: int | None) -> None:
        self.least = least
        self.asked: dict[tuple[Rank, Seq], dict[Rank, None]] = {}

    def on_round(self) -> None:
        """A period has passed; count anew."""
        if self.asked:
            self.asked.clear()

    def sort(self, peer: Rank, messages: list[Message]) -> tuple[list[Message], list[Message]]:
        """What to answer to this peer alone, and what to multicast."""
        if self.least is None:
            return messages, []
        if len(self.asked) > ASKED_MAX:
            self.asked.clear()
        alone: list[Message] = []
        everyone: list[Message] = []
        for message in messages:
            peers = self.asked.setdefault((message.sender, message.seq), {})
            before = len(peers)
            peers[peer] = None
            if len(peers) < self.least:
                alone.append(message)
            elif before < self.least:
                everyone.append(message)
            elif before == len(peers):
                alone.append(message)  # The multicast did not reach it.
        return alone, everyone


def repair(
    to: Sequence[Rank],
    messages: Iterable[Message],
    superseded: Iterable[tuple[Message, list[Purged]]],
    recipe: PubsubRecipe,
    load: int,
    out: Effects,
) -> None:
    """Send messages, and notices each with the message that makes them true."""
    batch: list[Message] = []
    notices: list[Purged] = []
    size = 0
    for message, purged in [*((m, []) for m in messages), *superseded]:
        needs = size_of(message) + NOTICE_BYTES * len(purged)
        if batch and size + needs > recipe.datagram_bytes:
            out.send.append((to, Repair(tuple(batch), tuple(notices), load)))
            batch, notices, size = [], [], 0
        batch.append(message)
        notices += purged
        size += needs
    if batch:
        out.send.append((to, Repair(tuple(batch), tuple(notices), load)))


def multicast(messages: list[Message], recipe: PubsubRecipe, load: int, out: Effects) -> None:
    """Send messages to everyone."""
    repair(EVERYONE, messages, (), recipe, load, out)
