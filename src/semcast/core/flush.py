"""How the streams of a view end.

A member of a view is open; when the next view is being agreed on it has STOPPED: nothing of its own
is sent, and no frontier moves.  It is FETCHING once it knows a cut, where the streams are to end:
then it requests everything up to there from members that hold it, and the bound on held messages
does not apply.  It keeps messages beyond the cut: if another cut is decided, they may be the only
copies.  When the view is decided it takes what was held back up to the cut, and is CLOSED: it only
hands out messages that still wait and answers repair requests.

| from     | on             | to       |
|----------|----------------|----------|
| OPEN     | stop           | STOPPED  |
| STOPPED  | fetch          | FETCHING |
| FETCHING | fetch          | FETCHING |
| any      | finish         | CLOSED   |
"""

from collections.abc import Sequence
from typing import Final

from semcast.core.receiver import Receiver
from semcast.core.repair_requester import RepairRequester
from semcast.terms.effects import Effects
from semcast.terms.ids import Rank, Seq

OPEN: Final = "open"
STOPPED: Final = "stopped"
FETCHING: Final = "fetching"
CLOSED: Final = "closed"


class Flush:
    """Lives as long as the member of a view."""

    def __init__(self, receiver: Receiver, recovery: RepairRequester) -> None:
        self.state = OPEN
        self.receiver = receiver
        self.recovery = recovery
        self.holders: Sequence[Rank] = ()  # by stream, who holds it up to the cut

    def __repr__(self) -> str:
        return f"Flush({self.state}, holders={self.holders})"

    def stop(self) -> None:
        """No frontier moves any more; what comes is kept ahead."""
        self.state = STOPPED
        self.receiver.limit = list(self.receiver.frontier)

    def fetch(self, cut: Sequence[Seq], holders: Sequence[Rank]) -> None:
        """Get everything up to the cut, from those who have it."""
        self.state = FETCHING
        self.holders = holders
        self.receiver.end_at(cut)
        self.recovery.ask_at_once(holders)

    @property
    def is_complete(self) -> bool:
        """Whether everything up to the cut is here, as data or as a notice."""
        receiver = self.receiver
        return all(receiver.first_missing(s) > receiver.known[s] for s in receiver.gaps)

    def finish(self, cut: Sequence[Seq] | None, out: Effects) -> None:
        """The view is over.  With a cut everything up to it passes; what lies beyond goes."""
        self.state = CLOSED
        if cut is not None:
            self.receiver.deliver_upto_cut(cut, out)
