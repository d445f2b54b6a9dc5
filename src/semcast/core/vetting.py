"""What a datagram of this group can say: ranks that exist, annotations of its relation.

The codec has checked that numbers are numbers; this is what only the group knows.  A peer that
breaks it runs another version, another recipe, or is no peer.
"""

from semcast.core.recipe import Recipe
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.messages import (
    Data,
    Datagram,
    Excluded,
    Message,
    SafetyGossip,
    StabilityGossip,
)

FORMS: dict[str, type] = {"bitmap": bytes, "list": tuple, "update-fin": tuple}


class Vetting:
    """One per member; changes nothing, raises `RemoteProtocolError`."""

    def __init__(self, recipe: Recipe) -> None:
        self.members = recipe.members
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
