"""Which members are slow: a rule about shares of the traffic over some seconds.

A member is behind if, over the last seconds, it skipped a noticeable share of its messages, or if
the messages that wait for its application are more than a second of its own pace.  Neither depends
on the size of a buffer.  A member that stays behind for some seconds is slow; it stops being slow
after it has kept up for some seconds, by a stricter measure, so that the answer does not flap.

Rejected: a share of the buffer.  With a buffer of 65,536 messages a member that skips four of five
messages has about a thousand waiting, which is little of the buffer and most of the traffic.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

WINDOW_S: Final = 5.0  # over which rates and shares are measured
MESSAGES_MIN: Final = 20  # in a window: a share of fewer says nothing
SKIPPED_SHARE: Final = 0.1  # of the traffic: who skips more is behind,
SKIPPED_SHARE_CALM: Final = 0.05  # and who skips less has caught up
BACKLOG_S: Final = 1.0  # of its own pace waiting: who has more is behind,
BACKLOG_CALM_S: Final = 0.5  # and who has less has caught up
ENTER_S: Final = 2.0  # for which a member is behind before it is slow
LEAVE_S: Final = 3.0  # for which a slow member keeps up before it is no longer slow


class MemberFigures(NamedTuple):
    """Counters of one member: delivered and skipped since it joined, waiting for it now."""

    delivered: int
    skipped: int
    waiting: int


class SlowMember(msgspec.Struct, frozen=True, kw_only=True):
    """A slow member: for how many seconds and why, its pace and the traffic in messages per second,
    the share of the traffic that it skips, and how long the oldest message has waited for its
    application."""

    name: str
    since_s: float
    why: str
    rate: float
    offered_rate: float
    share: float
    oldest_waiting_s: float


class _Pace:
    """One member: what it reported over the last seconds, and since when it is what it is."""

    def __init__(self) -> None:
        self.samples: deque[tuple[float, MemberFigures]] = deque()
        self.behind_since: float | None = None
        self.calm_since: float | None = None
        self.is_slow = False
        self.delivered_at = 0.0

    def note(self, figures: MemberFigures, now: float) -> None:
        samples = self.samples
        if samples and figures.delivered < samples[-1][1].delivered:
            samples.clear()  # Another life of this member counts from 0 again.
        if not samples or figures.delivered > samples[-1][1].delivered or not figures.waiting:
            self.delivered_at = now
        samples.append((now, figures))
        while len(samples) > 2 and now - samples[1][0] >= WINDOW_S:
            samples.popleft()
        self._judge(now)

    @property
    def seconds(self) -> float:
        return self.samples[-1][0] - self.samples[0][0] if self.samples else 0.0

    @property
    def delivered(self) -> int:
        return self.samples[-1][1].delivered - self.samples[0][1].delivered

    @property
    def skipped(self) -> int:
        return self.samples[-1][1].skipped - self.samples[0][1].skipped

    @property
    def offered(self) -> int:
        """The messages of the window, by its own counters: all of one age, so that they add up."""
        waiting = self.samples[-1][1].waiting - self.samples[0][1].waiting
        return self.delivered + self.skipped + max(0, waiting)

    @property
    def skipped_share(self) -> float:
        """Of the messages that it was done with."""
        total = self.delivered + self.skipped
        return self.skipped / total if total >= MESSAGES_MIN else 0.0

    def waiting_s(self, now: float) -> float:
        """How long the oldest message has waited, by the member's pace; without any, since the
        last delivery."""
        waiting = self.samples[-1][1].waiting if self.samples else 0
        if not waiting:
            return 0.0
        stalled_s = now - self.delivered_at
        by_pace_s = waiting * self.seconds / self.delivered if self.delivered else 0.0
        return max(by_pace_s, stalled_s if stalled_s > 2 * self._gap_s() else 0.0)

    def _gap_s(self) -> float:
        """Between two reports."""
        return self.seconds / max(1, len(self.samples) - 1)

    def _judge(self, now: float) -> None:
        share, waiting_s = self.skipped_share, self.waiting_s(now)
        if share >= SKIPPED_SHARE or waiting_s >= BACKLOG_S:
            self.behind_since = now if self.behind_since is None else self.behind_since
            self.calm_since = None
            if now - self.behind_since >= ENTER_S:
                self.is_slow = True
        elif not self.is_slow or (share < SKIPPED_SHARE_CALM and waiting_s < BACKLOG_CALM_S):
            self.calm_since = now if self.calm_since is None else self.calm_since
            if not self.is_slow or now - self.calm_since >= LEAVE_S:
                self.is_slow, self.behind_since = False, None


class SlowMembers:
    """The members of one group, by name.  Feed it about once a second with `note`."""

    def __init__(self) -> None:
        self._paces: dict[str, _Pace] = {}

    def note(self, name: str, figures: MemberFigures, now: float) -> None:
        """Take the counters of a member."""
        self._paces.setdefault(name, _Pace()).note(figures, now)

    def keep(self, names: Iterable[str]) -> None:
        """Drop the members that are not named: they have left."""
        members = set(names)
        self._paces = {name: pace for name, pace in self._paces.items() if name in members}

    def oldest_waiting_s(self, name: str, now: float) -> float:
        """How long the oldest message has waited for the application of a member."""
        pace = self._paces.get(name)
        return pace.waiting_s(now) if pace else 0.0

    def slow(self, now: float) -> list[SlowMember]:
        """The slow members, the slowest first."""
        found = []
        for name, pace in self._paces.items():
            if pace.is_slow and pace.behind_since is not None and pace.seconds:
                rate = pace.delivered / pace.seconds
                offered = (pace.offered or self._offered()) / pace.seconds
                share, waiting_s = pace.skipped_share, pace.waiting_s(now)
                found.append(
                    SlowMember(
                        name=name,
                        since_s=now - pace.behind_since,
                        why=_why(rate, offered, share, waiting_s),
                        rate=rate,
                        offered_rate=offered,
                        share=share,
                        oldest_waiting_s=waiting_s,
                    )
                )
        return sorted(found, key=lambda each: (-each.share, -each.oldest_waiting_s))

    def _offered(self) -> int:
        """The messages of the window, by the member that got most: for one that is stopped."""
        return max(pace.offered for pace in self._paces.values() if pace.samples)


def _why(rate: float, offered: float, share: float, waiting_s: float) -> str:
    reads = f"reads {rate:,.0f} of {offered:,.0f} messages/s"
    if share >= SKIPPED_SHARE_CALM:
        return f"{reads}, skips {share:.0%}"
    return f"{reads}, the oldest waits {waiting_s:.1f} s"
