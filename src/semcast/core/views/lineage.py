"""Which datagrams come from this group, and from whom in it.

Guarantees: nothing that was said in another lineage, or by an earlier incarnation of its sender,
reaches any other machine; it is discarded and counted here.  View numbers and ranks mean something
within one lineage only: without this check a member that slept through a new founding takes the
messages of the new group for those of its old view.
Of a foreign datagram only one thing is looked at: whether its sender is in a primary view.  A
process that is in no primary view itself then ends its life and joins that group.  Two primary
views of different lineages never merge, because each may have gone on from the same state in its
own way; both go on apart, and say so.
"""

from collections import Counter
from collections.abc import Iterator

from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.ids import NEVER, NO_LINEAGE, Incarnation, Lineage, Pid
from semcast.terms.outputs import Rival
from semcast.terms.views import (
    NO_VIEW,
    GroupView,
    Heartbeat,
    OrderProgress,
    Prepare,
    Promise,
    Propose,
    Stamped,
    ViewEnvelope,
)

RIVALS_MAX = 16  # lineages remembered; more are heard and forgotten
OF_MEMBERS = (
    ViewEnvelope,
    OrderProgress,
    Prepare,
    Promise,
    Propose,
)  # said by members of a view, in it


class LineageGuard:
    """Lives as long as one incarnation of the process.

    Invariant: `latest` is at or above the incarnation of every member of `view`.
    """

    def __init__(self, recipe: ViewRecipe, life: Incarnation) -> None:
        self.inc = life.inc
        self.patience_s = recipe.patience_s
        self.silence_s = recipe.timeout_max_s
        self.view = NO_VIEW
        self.members: dict[Pid, int] = {}  # of the view, with their incarnations
        self.latest: dict[Pid, int] = {}
        # What the members of the view stamp, while no later life of theirs was heard.
        self.usual: dict[Pid, tuple[Lineage, int]] = {}
        self.discarded: Counter[str] = Counter()
        self.rivals: dict[Lineage, tuple[float, float]] = {}  # primary: first and last heard
        self.reported: set[Lineage] = set()
        self.minority_since = NEVER

    def __repr__(self) -> str:
        return f"LineageGuard(lineage={self.view.lineage:016x}, rivals={self.rivals})"

    def enter(self, view: GroupView) -> None:
        """From now on this is the current view."""
        self.view = view
        self.members = dict(view.members)
        for pid, inc in view.members:
            self.latest[pid] = max(inc, self.latest.get(pid, inc))
        latest, lineage = self.latest, view.lineage
        self.usual = {pid: (lineage, inc) for pid, inc in view.members if inc == latest[pid]}

    def admits(self, source: Pid, stamped: Stamped, now: float, count: int = 1) -> bool:
        """Whether the other machines may see the datagram; if not, it and others like it, `count`
        of them, are counted."""
        lineage, inc, datagram = stamped.lineage, stamped.inc, stamped.datagram
        own = self.view.lineage
        if self.usual.get(source) == (lineage, inc):
            return True
        if own not in (lineage, NO_LINEAGE):
            is_joiner = lineage == NO_LINEAGE and isinstance(datagram, Heartbeat)
            if not is_joiner:
                self._on_foreign(stamped, now, count)
                return False
        if inc < self.latest.get(source, 0) or not self._is_of_member(source, stamped):
            self.discarded["incarnation"] += count
            return False
        if inc > self.latest.get(source, -1):
            self.usual.pop(source, None)
        self.latest[source] = inc
        return True

    def _is_of_member(self, source: Pid, stamped: Stamped) -> bool:
        """Whether it is the incarnation in the view that speaks as a member of the view."""
        datagram = stamped.datagram
        if not isinstance(datagram, OF_MEMBERS) or datagram.view != self.view.id:
            return True
        return self.members.get(source, stamped.inc) == stamped.inc

    def _on_foreign(self, stamped: Stamped, now: float, count: int) -> None:
        self.discarded["lineage"] += count
        datagram, lineage = stamped.datagram, stamped.lineage
        if not (isinstance(datagram, Heartbeat) and datagram.primary and lineage):
            return
        for known, (_, last) in list(self.rivals.items()):
            if now - last > self.silence_s:
                del self.rivals[known]
        if lineage in self.rivals or len(self.rivals) < RIVALS_MAX:
            self.rivals[lineage] = self.rivals.get(lineage, (now, now))[0], now

    def stamp(self, out: Effects) -> None:
        """Say of everything that the input sent where it comes from."""
        send, lineage, inc = out.send, self.view.lineage, self.inc
        place = len(send)
        while place and not isinstance(send[place - 1][1], Stamped):
            place -= 1
        for i in range(place, len(send)):
            to, datagram = send[i]
            send[i] = to, Stamped(lineage, inc, datagram)

    def poll(self, has_quorum: bool, now: float, out: Effects) -> Lineage:
        """The lineage to follow, if this process is in no primary view and another is there."""
        if has_quorum:
            self.minority_since = NEVER
            self._report(out)
            return NO_LINEAGE
        self.minority_since = min(self.minority_since, now)
        if now - self.minority_since < self.patience_s:
            return NO_LINEAGE
        candidates = (
            known for known in self._that_stay() if now - self.rivals[known][1] < self.silence_s
        )
        return next(candidates, NO_LINEAGE)

    def _that_stay(self) -> Iterator[Lineage]:
        """Rivals that were heard for a while.  A process that was stopped takes itself for primary
        until it finds the others gone, so a few heartbeats of it prove nothing."""
        for lineage, (first, last) in self.rivals.items():
            if last - first >= self.silence_s:
                yield lineage

    def _report(self, out: Effects) -> None:
        """Tell of each rival once."""
        for lineage in self._that_stay():
            if lineage not in self.reported:
                self.reported.add(lineage)
                out.outputs.append(Rival(lineage))
