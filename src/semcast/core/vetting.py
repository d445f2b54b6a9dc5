"""What this group can say: ranks that exist, annotations of its relation, what fits its bounds.

The codec has checked that numbers are numbers; this is what only the group knows.  A peer that
breaks it runs another version, another recipe, or is no peer.  Some of it no machine would
survive, such as one message listed twice as obsolete.
"""

from collections.abc import Sequence
from itertools import pairwise

from semcast import kernel
from semcast.core.recipe import Recipe
from semcast.core.recovery import RANGES_MAX
from semcast.kernel import ITEM_MAX, ITEM_MIN, NAME_MAX
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.messages import (
    COVERS_MAX,
    Ballot,
    Data,
    Datagram,
    Excluded,
    Message,
    Nack,
    Rank,
    SafetyGossip,
    Seq,
    StabilityGossip,
)

FORMS: dict[str, type] = {"bitmap": bytes, "list": tuple, "update-fin": tuple}


class Vetting:
    """One per member; changes nothing, raises `RemoteProtocolError`."""

    def __init__(
        self, recipe: Recipe, rank: Rank, frontier: Sequence[Seq], *, places: bool = False
    ) -> None:
        self.rank = rank
        self.members = recipe.members
        self.elsewhere = recipe.elsewhere
        self.message_bytes = recipe.message_bytes
        self.relation = recipe.relation
        self.form = FORMS.get(recipe.relation)
        self.covers_max = (recipe.k + 7) // 8 if recipe.relation == "bitmap" else COVERS_MAX
        self.deps_max = recipe.members - 1 if recipe.order == "causal" else 0
        self.places = places  # Then the first member's messages may be orders.
        self.frontier = frontier  # shared with the reception, which alone writes it

    def check(self, source: Rank, datagram: Datagram) -> None:
        """Refuse what `source` cannot mean in this group."""
        if isinstance(datagram, Data):
            if not kernel.is_ordinary(datagram.messages, source):
                for message in datagram.messages:
                    self._check_message(message, source)
            for notice in datagram.purged:
                self._check_stream(notice.sender, source)
        elif isinstance(datagram, Nack):
            self._check_nack(datagram)
        elif isinstance(datagram, StabilityGossip | SafetyGossip):
            if len(datagram.ballots) > self.members:
                raise RemoteProtocolError(f"ballots: {len(datagram.ballots)} of them")
            for ballot in datagram.ballots:
                self._check_ballot(ballot)
        elif isinstance(datagram, Excluded):
            self._check_rank(datagram.member)
        elif datagram.sender != source:
            raise RemoteProtocolError(f"window empty: {source} speaks for {datagram.sender}")

    def shows_exclusion(self, datagram: Datagram) -> bool:
        """Whether it could not be said of a group that this process is in.

        Either another process has had this rank: own messages that were never sent are named, or
        a vote that was never given; or the others went on without this member: what it has not
        reached is called stable.
        """
        rank, last = self.rank, self.frontier[self.rank]
        if isinstance(datagram, Data):
            messages = datagram.messages
            if self.deps_max and any(
                d == rank and seq > last for m in messages for d, seq in m.deps
            ):
                return True
            if datagram.purged and any(
                notice.sender == rank and notice.witness > last for notice in datagram.purged
            ):
                return True
            return kernel.latest_of(messages, rank) > last
        if isinstance(datagram, StabilityGossip | SafetyGossip):
            is_stability = isinstance(datagram, StabilityGossip)
            return any(self._cannot_know(ballot, is_stability) for ballot in datagram.ballots)
        if isinstance(datagram, Nack):
            return datagram.sender == rank and any(end > last for _, end in datagram.ranges)
        return False

    def _cannot_know(self, ballot: Ballot, is_stability: bool) -> bool:
        reached = self.frontier[ballot.sender]
        if ballot.sender == self.rank and max(ballot.frontier, ballot.candidate) > reached:
            return True
        if ballot.agreed > reached and (is_stability or ballot.sender == self.rank):
            return True
        counted = int.from_bytes(ballot.voters, "little") >> self.rank & 1
        return bool(counted) and ballot.candidate > reached

    def check_own(self, message: Message, size: int) -> None:
        """Refuse, at the call, what the group does not carry."""
        if size > self.message_bytes:
            raise LocalProtocolError(
                f"payload: a message of {size} bytes is over the {self.message_bytes} allowed"
            )
        if message.item is not None and not ITEM_MIN <= message.item <= ITEM_MAX:
            raise LocalProtocolError(f"item: {message.item} is not a signed 64-bit number")
        if len(message.name) > NAME_MAX:
            raise LocalProtocolError(
                f"item: a name of {len(message.name)} characters, at most {NAME_MAX} are allowed"
            )

    def _check_message(self, message: Message, source: Rank) -> None:
        self._check_stream(message.sender, source)
        if (message.item or 0) > ITEM_MAX or len(message.name) > NAME_MAX:
            raise RemoteProtocolError(f"item: of message {message.sender}:{message.seq}")
        orders = self.places and message.sender == 0
        if len(message.deps) > (self.members if orders else self.deps_max):
            raise RemoteProtocolError(f"deps: {len(message.deps)} of them")
        for rank, seq in message.deps:
            self._check_rank(rank)
            if rank == message.sender and not (orders and seq < message.seq):
                raise RemoteProtocolError(f"deps: {rank}:{message.seq} waits for its own stream")
        covers = message.covers
        if covers and type(covers) is not self.form:
            raise RemoteProtocolError(
                f"covers: message {message.sender}:{message.seq} carries "
                f"{type(covers).__name__}, which relation {self.relation} does not use"
            )
        is_list = not isinstance(covers, bytes)
        if len(covers) > self.covers_max or (is_list and any(a >= b for a, b in pairwise(covers))):
            raise RemoteProtocolError(f"covers: of message {message.sender}:{message.seq}")

    def _check_stream(self, sender: Rank, source: Rank) -> None:
        """Of whose messages `source` may speak: without buffers elsewhere, only of its own."""
        self._check_rank(sender)
        if not self.elsewhere and sender != source:
            raise RemoteProtocolError(f"rank: {source} does not keep the messages of {sender}")

    def _check_nack(self, nack: Nack) -> None:
        self._check_rank(nack.sender)
        gaps = [after - end for (_, end), (after, _) in pairwise(nack.ranges)]
        if len(nack.ranges) > RANGES_MAX or any(gap < 1 for gap in gaps):
            raise RemoteProtocolError(f"ranges: {len(nack.ranges)} of them, or out of order")

    def _check_ballot(self, ballot: Ballot) -> None:
        self._check_rank(ballot.sender)
        if int.from_bytes(ballot.voters, "little") >> self.members:
            raise RemoteProtocolError(f"voters: some are not in a group of {self.members}")

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.members:
            raise RemoteProtocolError(f"rank: {rank} is not in a group of {self.members}")
