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

# Paper and ink of figures and pages.
INK: Final = Colour(7, "#1f2328", "#e6edf3")
LINE: Final = Colour(8, "#d0d7de", "#30363d")
TINT: Final = Colour(0, "#f6f8fa", "#161b22")
PAPER: Final = Colour(0, "#ffffff", "#0d1117")

# Curves that differ by a parameter, in this order; none has the colour of a verdict.
SERIES: Final = (
    SEMANTIC,
    Colour(5, "#8250df", "#ab7df8"),
    Colour(6, "#0f766e", "#2dd4bf"),
    Colour(13, "#bf3989", "#f778ba"),
    Colour(14, "#0e8fb3", "#67d4f1"),
    Colour(7, "#6b5b00", "#c9bd6a"),
)

# The names of the colours as variables of a style sheet.
VARIABLES: Final = {
    "ink": INK,
    "soft": REFERENCE,
    "line": LINE,
    "tint": TINT,
    "paper": PAPER,
    "reference": REFERENCE,
    "semantic": SEMANTIC,
    "slow": SLOW,
    "wrong": WRONG,
    "holds": HOLDS,
    **{f"series-{number}": colour for number, colour in enumerate(SERIES)},
}


def style_variables(paper: str) -> str:
    """The colours on "light" or "dark" paper, as declarations of a style sheet."""
    return " ".join(f"--{name}: {getattr(colour, paper)};" for name, colour in VARIABLES.items())
