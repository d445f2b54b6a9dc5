"""Refuses datagrams that no member of this group can send: ranks, annotations and bounds are wrong.

The codec has checked that numbers are numbers; this is what only the group knows.  A peer that
sends one runs another version or recipe, or is not a peer.  Some of them would break a machine,
such as one message listed twice as obsolete.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from semcast import kernel
from semcast.core.order import ORDERS
from semcast.core.recipe import Recipe
from semcast.core.relation import RELATIONS
from semcast.core.repair_requester import RANGES_MAX
from semcast.kernel import NAME_MAX
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.ids import Rank, Seq
from semcast.terms.items import ITEM_MAX
from semcast.terms.messages import (
    Data,
    Datagram,
    DataMessage,
    Excluded,
    Nack,
    SafetyGossip,
    StabilityGossip,
    WindowEmpty,
)
from semcast.terms.relations import facts_of

GOSSIP: Final = (StabilityGossip, SafetyGossip)  # A union would be built at every datagram.


class DatagramValidator:
    """One per member; changes nothing, raises `RemoteProtocolError`.

    A check returns whether the datagram could not be said of a group that this process is in.
    Either another process has had this rank: own messages that were never sent are named, or a vote
    that was never given; or the others went on without this member: what it has not reached is
    called stable.
    """

    def __init__(self, recipe: Recipe, rank: Rank, frontier: Sequence[Seq]) -> None:
        self.rank = rank
        self.members = recipe.members
        self.elsewhere = recipe.replicated
        self.message_bytes = recipe.message_bytes
        self.relation = recipe.relation
        self.form = facts_of(recipe.relation).covers
        self.covers_max = RELATIONS[recipe.relation].covers_max(recipe)
        self.after_max = recipe.members - 1 if ORDERS[recipe.order].come_after else 0
        # Then the first member's messages may be order messages.
        self.places = ORDERS[recipe.order].gives_places
        self.frontier = frontier  # shared with the receiver, which alone writes it

    def check(self, source: Rank, datagram: Datagram) -> bool:
        """Refuse what `source` cannot mean in this group, and tell what it implies."""
        if isinstance(datagram, GOSSIP):
            return self._check_gossip(datagram)
        if isinstance(datagram, Nack):
            self._check_nack(datagram)
            last = self.frontier[self.rank]
            return datagram.sender == self.rank and any(end > last for _, end in datagram.spans)
        if isinstance(datagram, Excluded):
            self._check_rank(datagram.member)
        elif isinstance(datagram, WindowEmpty) and datagram.sender != source:
            raise RemoteProtocolError(
                f"window empty: sent by member {source} for the stream of member {datagram.sender}"
            )
        return False

    def _check_gossip(self, gossip: StabilityGossip | SafetyGossip) -> bool:
        rank, members, is_foreign = self.rank, self.members, False
        is_stability = isinstance(gossip, StabilityGossip)
        if len(gossip.votes) > members:
            raise RemoteProtocolError(
                f"gossip: {len(gossip.votes)} votes in a group of {members} members"
            )
        for vote in gossip.votes:
            sender, candidate = vote.sender, vote.candidate
            if not 0 <= sender < members:
                self._check_rank(sender)
            voters = int.from_bytes(vote.voters, "little")
            if voters >> members:
                raise RemoteProtocolError(f"gossip: voters outside the group of {members} members")
            reached, is_own = self.frontier[sender], sender == rank
            is_foreign |= (
                (candidate > reached and (is_own or voters >> rank & 1 == 1))
                or (vote.agreed > reached and (is_own or is_stability))
                or (is_own and vote.frontier > reached)
            )
        return is_foreign

    def check_data(self, source: Rank, data: Data, runs: Sequence[kernel.Run]) -> bool:
        """The same for messages, which are `runs`."""
        rank, last, is_foreign = self.rank, self.frontier[self.rank], False
        for run in runs:
            if run.sender != source or not run.is_plain:
                for message in run.messages():
                    self._check_message(message, source)
                names_more = run.sender == rank and run.first + run.count - 1 > last
                comes_after = any(r == rank and seq > last for r, seq in run.after)
                is_foreign |= names_more or (comes_after and self.after_max > 0)
        for notice in data.notices:
            self._check_stream(notice.sender, source)
            is_foreign |= notice.sender == rank and notice.witness > last
        return is_foreign

    def check_own(self, message: DataMessage, size: int) -> None:
        """Refuse, at the call, what the group does not carry."""
        if size > self.message_bytes:
            raise LocalProtocolError(
                f"payload: message has {size} bytes, maximum is {self.message_bytes}"
            )
        if len(message.name) > NAME_MAX:
            raise LocalProtocolError(
                f"item: name has {len(message.name)} characters, maximum is {NAME_MAX}"
            )

    def _check_message(self, message: DataMessage, source: Rank) -> None:
        self._check_stream(message.sender, source)
        if (message.item or 0) > ITEM_MAX or len(message.name) > NAME_MAX:
            raise RemoteProtocolError(
                f"message {message.sender}:{message.seq}: item tag or name out of range"
            )
        orders = self.places and message.sender == 0
        if len(message.after) > (self.members if orders else self.after_max):
            after_max = self.members if orders else self.after_max
            raise RemoteProtocolError(
                f"message {message.sender}:{message.seq}: {len(message.after)} dependencies, "
                f"maximum is {after_max}"
            )
        for rank, seq in message.after:
            self._check_rank(rank)
            if rank == message.sender and not (orders and seq < message.seq):
                raise RemoteProtocolError(
                    f"message {rank}:{message.seq}: depends on a message of its own sender"
                )
        covers = message.covers
        if covers and type(covers) is not self.form:
            raise RemoteProtocolError(
                f"message {message.sender}:{message.seq}: cover list of type "
                f"{type(covers).__name__}, which relation {self.relation} does not use"
            )
        is_ascending = not covers or type(covers) is bytes or [*covers] == sorted(set(covers))
        if len(covers) > self.covers_max or not is_ascending:
            raise RemoteProtocolError(
                f"message {message.sender}:{message.seq}: cover list too long or not ascending"
            )

    def _check_stream(self, sender: Rank, source: Rank) -> None:
        """Of whose messages `source` may speak: without buffers elsewhere, only of its own."""
        self._check_rank(sender)
        if not self.elsewhere and sender != source:
            raise RemoteProtocolError(
                f"member {source} sent messages of member {sender}, "
                "which only their sender may retransmit here"
            )

    def _check_nack(self, nack: Nack) -> None:
        self._check_rank(nack.sender)
        gaps = [after - end for (_, end), (after, _) in pairwise(nack.spans)]
        if len(nack.spans) > RANGES_MAX or any(gap < 1 for gap in gaps):
            raise RemoteProtocolError(f"nack: {len(nack.spans)} spans, too many or out of order")

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.members:
            raise RemoteProtocolError(
                f"rank: {rank} is outside the group of {self.members} members"
            )
