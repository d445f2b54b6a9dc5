"""The views that one life is in: the first is shown to the application, the last is current."""

from collections import deque

from semcast.core.views.tenure import Tenure
from semcast.terms.ids import Seq
from semcast.terms.machine import Status
from semcast.terms.views import NO_VIEW, View


class Tenures(deque[Tenure]):
    """More than one while the application has not taken everything of an earlier view."""

    @property
    def view(self) -> View:
        """The view whose messages are exchanged."""
        return self[-1].view if self else NO_VIEW

    @property
    def sent(self) -> Seq:
        """The number of the last message of this life that gives no order."""
        return self[-1].last_own if self else 0

    @property
    def numbered(self) -> Seq:
        """How many messages this life has multicast, order messages among them."""
        return self[-1].member.sent if self else 0

    def status(self, now: float) -> Status:
        """What the multicasts in all these views have to say."""
        each = [tenure.member.status(now) for tenure in self]
        return Status(
            sent=self.sent,
            purged=sum(one.purged for one in each),
            queued=sum(one.queued for one in each),
            unseen=sum(one.queued for one in each[:-1]),
            held=sum(one.held for one in each),
            held_bytes=sum(one.held_bytes for one in each),
            lags=each[-1].lags if each else {},
            is_blocked=any(one.is_blocked for one in each),
            is_drained=all(one.is_drained for one in each),
            view=self.view,
            has_past=len(each) > 1,
        )
