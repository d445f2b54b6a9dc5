"""What every simulated process can undergo: it is paused, even twice over, goes on, and heals."""

from abc import ABC, abstractmethod
from typing import Final

from semcast.faults import Tripwire

PAUSED: Final = 1  # of `_held`; what else holds a process has bits of its own


class Halting(ABC):
    """Invariant: while `_held` is not 0, nothing is handled."""

    _held = 0
    _pauses = 0
    _tripwire: Tripwire | None

    def pause(self) -> None:
        """Handle nothing until as many `resume` as `pause` were called."""
        self._pauses += 1
        self._held |= PAUSED

    def resume(self) -> None:
        """Handle what has waited, in order."""
        self._pauses = max(self._pauses - 1, 0)
        if not self._pauses:
            self._held &= ~PAUSED
            self._go_on()

    def heal(self) -> None:
        """No pause and no failpoint from here on."""
        self._tripwire = None
        if self._pauses:
            self._pauses = 1
            self.resume()

    @abstractmethod
    def _go_on(self) -> None:
        """Handle what has waited, as far as nothing else holds the process."""
