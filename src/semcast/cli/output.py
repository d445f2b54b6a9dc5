"""What a command says, and where.

People read standard output.  With `--json` a program does: it gets exactly one object, as the
last line, and everything for people goes to standard error.  Progress is shown on terminals only,
always on standard error.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Final, TextIO

import msgspec

REFRESH_S: Final = 0.1
WIDTH_MAX: Final = 100

RED: Final = "31"
GREEN: Final = "32"
CYAN: Final = "36"


class Output:
    """The two audiences of one command."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._shown_at = 0.0
        self._is_shown = False

    @property
    def people(self) -> TextIO:
        """Where people read."""
        return sys.stderr if self.as_json else sys.stdout

    def say(self, *lines: str) -> None:
        """Tell people."""
        self.clear()
        for line in lines:
            print(line, file=self.people)

    def answer(self, facts: Mapping[str, object]) -> None:
        """Tell a program, once and last; numbers that JSON lacks become null."""
        self.clear()
        if self.as_json:
            self.people.flush()
            print(msgspec.json.encode(facts, enc_hook=float).decode())

    def progress(self, line: str) -> None:
        """Replace the progress line, not too often."""
        now = monotonic()
        if sys.stderr.isatty() and now - self._shown_at >= REFRESH_S:
            print(f"\r\x1b[K{line[: width() - 1]}", end="", file=sys.stderr, flush=True)
            self._shown_at, self._is_shown = now, True

    def clear(self) -> None:
        """Take the progress line away."""
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_shown = False

    def paint(self, text: str, colour: str) -> str:
        """Coloured on a terminal whose user has not said NO_COLOR."""
        if not self.people.isatty() or os.environ.get("NO_COLOR"):
            return text
        return f"\x1b[{colour}m{text}\x1b[0m"


def width() -> int:
    """Columns to fill: those of the terminal, within reason."""
    return min(shutil.get_terminal_size().columns, WIDTH_MAX)


def cell(value: object) -> str:
    """One value as people write it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Rows with the same keys under their names: numbers to the right, words to the left."""
    if not rows:
        return []
    columns = [_column(name, [row[name] for row in rows]) for name in rows[0]]
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def pairs(facts: Mapping[str, object]) -> list[str]:
    """One name and value a line."""
    longest = max(map(len, facts), default=0)
    return [f"{name:<{longest}}  {cell(value)}" for name, value in facts.items()]


def _column(name: str, values: Iterable[object]) -> list[str]:
    values = list(values)
    numeric = all(isinstance(value, int | float | None) for value in values)
    texts = [name, *map(cell, values)]
    longest = max(map(len, texts))
    align: Callable[[str, int], str] = str.rjust if numeric else str.ljust
    return [align(text, longest) for text in texts]


def bar(share: float, columns: int) -> str:
    """A share of a line of that many columns, to an eighth of one."""
    eighths = round(max(0.0, min(1.0, share)) * columns * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
