"""Each frame counts once: which counters of a channel were seen."""

from typing import Final

REPLAY_WINDOW: Final = 1024  # a frame overtaken by as many on its channel is too late
_WINDOW_BITS: Final = (1 << REPLAY_WINDOW) - 1


class ReplayWindow:
    """Which counters of one channel were seen.

    Invariant: bit i of `missing` is set iff `highest` - i was not seen yet and still may be.
    What is missing is kept, not what was seen: a stream in order costs no wide integers.
    """

    __slots__ = ("highest", "missing")

    def __init__(self) -> None:
        self.highest = 0
        self.missing = 0

    def take(self, counter: int) -> bool:
        """Note the counter; False if it was seen before or is too old to tell."""
        ahead = counter - self.highest
        if ahead > 0:
            self.highest = counter
            if ahead >= REPLAY_WINDOW:
                self.missing = _WINDOW_BITS - 1
            elif ahead > 1 or self.missing:
                self.missing = (self.missing << ahead | (1 << ahead) - 2) & _WINDOW_BITS
            return True
        if not self.missing >> -ahead & 1:
            return False
        self.missing ^= 1 << -ahead
        return True
