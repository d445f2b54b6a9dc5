"""Who seems to have crashed: silence, with a timeout that learns.

Guarantees: a process that crashed is suspected for good (complete).  One that was suspected by
mistake gets twice the time from then on, up to `timeout_max_s`: mistakes about it end if its
heartbeats come to be heard at most `timeout_max_s` apart, and need not end otherwise.  Only in the
first case does the detector have the class that deciding on views takes [SVS §2].  Whatever it
mistakes, members disagree on no view; they may change views too often, or wait.
Nobody is suspected for a full buffer.
A process that was stopped itself has heard nobody; that is no reason to suspect anyone.
"""

from collections.abc import Collection

from semcast.core.views.recipe import ViewRecipe
from semcast.terms.ids import Incarnation, Pid


class FailureDetector:
    """Lives as long as the process.  Watches everybody it ever heard and was told to watch."""

    def __init__(self, recipe: ViewRecipe, now: float) -> None:
        self.timeout_s = recipe.timeout_s
        self.timeout_max_s = recipe.timeout_max_s
        self.pause_max_s = recipe.timeout_s / 2
        self.heard: dict[Pid, float] = {}
        self.timeouts_s: dict[Pid, float] = {}
        self.suspects: set[Pid] = set()
        self.last_input_at = now

    def __repr__(self) -> str:
        return f"FailureDetector(suspects={sorted(self.suspects)}, heard={self.heard})"

    def _patience_s(self, pid: Pid) -> float:
        return self.timeouts_s.get(pid, self.timeout_s)

    def is_alive(self, pid: Pid) -> bool:
        """Whether it was heard and is not suspected."""
        return pid in self.heard and pid not in self.suspects

    def silent_in(
        self, before: Collection[Incarnation], after: Collection[Incarnation], now: float
    ) -> dict[Pid, float]:
        """The suspects of the view `before` that are not in the one `after`, and their silence."""
        gone = (life.pid for life in before if life not in after)
        return {pid: now - self.heard[pid] for pid in gone if pid in self.suspects}

    def watch(self, pid: Pid, now: float) -> None:
        """From now on it should be heard."""
        self.heard.setdefault(pid, now)

    def forget(self, pid: Pid) -> None:
        """It is nobody's concern any more."""
        self.heard.pop(pid, None)
        self.suspects.discard(pid)

    def on_input(self, now: float) -> None:
        """Before every input: time in which this process was stopped does not count."""
        stalled_s = now - self.last_input_at
        self.last_input_at = now
        if stalled_s > self.pause_max_s:
            self._excuse(stalled_s)

    def _excuse(self, stalled_s: float) -> None:
        for pid in self.heard:
            self.heard[pid] += stalled_s

    def on_message(self, pid: Pid, now: float) -> None:
        """A sign of life, which is an input, too."""
        stalled_s = now - self.last_input_at
        self.last_input_at = now
        if stalled_s > self.pause_max_s:
            self._excuse(stalled_s)
        self.heard[pid] = now
        if pid in self.suspects:
            self.suspects.remove(pid)
            self.timeouts_s[pid] = min(2 * self._patience_s(pid), self.timeout_max_s)

    def on_time(self, now: float) -> list[Pid]:
        """Those that have just become suspects."""
        late = [
            pid
            for pid, at in self.heard.items()
            if pid not in self.suspects and now >= at + self._patience_s(pid)
        ]
        self.suspects.update(late)
        return late
