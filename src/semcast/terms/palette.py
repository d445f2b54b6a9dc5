"""The colours of Semcast: one table for terminals, figures and pages.

Each colour has one meaning.  Colour is never the only sign: a word or a mark says the same.
"""

from typing import Final, NamedTuple


class Colour(NamedTuple):
    """One colour: its number on a terminal (0 to 15), and its value on light and dark paper."""

    terminal: int
    light: str
    dark: str

    @property
    def sgr(self) -> str:
        """The terminal's escape parameter for text in this colour."""
        return str(self.terminal + (30 if self.terminal < 8 else 82))


REFERENCE: Final = Colour(8, "#57606a", "#9198a1")  # grey: the reliable protocols, the paper
SEMANTIC: Final = Colour(12, "#0969da", "#4493f8")  # blue: Semcast's semantic protocols
WRONG: Final = Colour(9, "#cf222e", "#f85149")  # red: only a failure or a wrong value
SLOW: Final = Colour(3, "#9a6700", "#d29922")  # yellow: slow, late, doubtful
HOLDS: Final = Colour(2, "#1a7f37", "#3fb950")  # green: only a verdict that passed
