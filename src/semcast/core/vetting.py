"""What this group can say: ranks that exist, annotations of its relation, what fits a datagram.

The codec has checked that numbers are numbers; this is what only the group knows.  A peer that
breaks it runs another version, another recipe, or is no peer.
"""

from semcast.core.recipe import Recipe
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.messages import (
    Data,
    Datagram,
    Excluded,
    Message,
    Rank,
    SafetyGossip,
    Seq,
    StabilityGossip,
)

ITEM_MIN, ITEM_MAX = -(1 << 63), (1 << 63) - 1

FORMS: dict[str, type] = {"bitmap": bytes, "list": tuple, "update-fin": tuple}


class Vetting:
    """One per member; changes nothing, raises `RemoteProtocolError`."""

    def __init__(self, recipe: Recipe, rank: Rank) -> None:
        self.rank = rank
        self.members = recipe.members
        self.message_bytes = recipe.message_bytes
        self.relation = recipe.relation
        self.form = FORMS.get(recipe.relation)

    def check(self, datagram: Datagram) -> None:
        """Refuse what names a member or a form that this group does not have."""
        if isinstance(datagram, Data):
            for message in datagram.messages:
                if message.sender >= self.members or message.covers or message.deps:
                    self._check_message(message)
            for notice in datagram.purged:
                self._check_rank(notice.sender)
        elif isinstance(datagram, StabilityGossip | SafetyGossip):
            for ballot in datagram.ballots:
                self._check_rank(ballot.sender)
        elif isinstance(datagram, Excluded):
            self._check_rank(datagram.member)
        else:
            self._check_rank(datagram.sender)

    def names_unsent(self, datagram: Datagram, last: Seq) -> bool:
        """Whether it speaks of own messages beyond `last`: an earlier process had this rank."""
        if isinstance(datagram, Data):
            return any(m.sender == self.rank and m.seq > last for m in datagram.messages)
        if isinstance(datagram, StabilityGossip | SafetyGossip):
            own = [b for b in datagram.ballots if b.sender == self.rank]
            return any(max(b.frontier, b.candidate, b.agreed) > last for b in own)
        return False

    def check_own(self, message: Message, size: int) -> None:
        """Refuse, at the call, what the group does not carry."""
        if size > self.message_bytes:
            raise LocalProtocolError(
                f"payload: a message of {size} bytes is over the {self.message_bytes} allowed"
            )
        if message.item is not None and not ITEM_MIN <= message.item <= ITEM_MAX:
            raise LocalProtocolError(f"item: {message.item} is not a signed 64-bit number")

    def _check_message(self, message: Message) -> None:
        self._check_rank(message.sender)
        for rank, _ in message.deps:
            self._check_rank(rank)
        if message.covers and type(message.covers) is not self.form:
            raise RemoteProtocolError(
                f"covers: message {message.sender}:{message.seq} carries "
                f"{type(message.covers).__name__}, which relation {self.relation} does not use"
            )

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.members:
            raise RemoteProtocolError(f"rank: {rank} is not in a group of {self.members}")
