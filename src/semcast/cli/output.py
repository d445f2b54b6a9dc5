"""Printing for people and for programs.

People read standard output.  With `--json` a program does: it gets exactly one object, as the
last line, and everything for people goes to standard error.  Progress is shown on terminals only,
always on standard error, which one object owns: no other line ever mixes with the progress line.
"""

import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from textwrap import wrap
from time import monotonic
from typing import Final, TextIO

import msgspec

from semcast.cli.past_waits import WaitTime
from semcast.terms.palette import Colour

REFRESH_S: Final = 0.1
WAIT_REFRESH_S: Final = 0.5
TIME_LEFT_AFTER_S: Final = 1.0  # earlier, an estimate of the time left is a guess
BAR_COLUMNS: Final = 16
WRAPPED_MIN: Final = 16  # columns that a wrapped column of a table gets at least
UNLIMITED: Final = 1 << 30  # columns
EDGE: Final = 3  # columns right of a progress line: the terminal echoes ^C there
WIDTH_MAX: Final = 100  # of prose; tables and screens use the whole terminal

_SGR: Final = re.compile(r"\x1b\[[0-9;]*m")


class StandardError(logging.Handler):
    """The only writer to standard error.  A line replaces the progress line, never joins it."""

    def __init__(self) -> None:
        super().__init__()
        self._writing = threading.Lock()
        self._shown_at = 0.0
        self._is_shown = False
        self._text = ""  # of the progress line

    def line(self, text: str) -> None:
        """Print a line; on a terminal it is broken between words."""
        parts = fit(text, terminal_columns()) if sys.stderr.isatty() else [text]
        with self._writing:
            self._clear()
            print("\n".join(parts), file=sys.stderr, flush=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Print a log record as one line, above the progress line if there is one."""
        before = self._text if self._is_shown else None
        self.line(f"semcast: {' '.join(record.getMessage().split())}")
        if before is not None:
            self.progress(before)

    def progress(self, text: str, end: str = "") -> None:
        """Replace the progress line, not too often; where it is too wide, `end` stays whole."""
        with self._writing:
            now = monotonic()
            if sys.stderr.isatty() and now - self._shown_at >= REFRESH_S:
                columns = max(0, terminal_columns() - EDGE - len(end))
                text_shown = text if len(text) <= columns else f"{text[: columns - 1]}…"
                print(f"\r\x1b[K{text_shown}{end}", end="", file=sys.stderr)
                sys.stderr.flush()
                self._shown_at, self._is_shown, self._text = now, True, text

    @property
    def is_shown(self) -> bool:
        """Whether there is a progress line on the terminal."""
        return self._is_shown

    def clear(self) -> None:
        """Remove the progress line."""
        with self._writing:
            self._clear()

    def _clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_shown, self._shown_at = False, 0.0


STDERR: Final = StandardError()


class Output:
    """The two audiences of one command."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._began: dict[str, float] = {}  # of each bar, when it was first shown
        self._reason = ""  # of the present wait
        self._end_estimate: Callable[[], None] = lambda: None  # of the present wait
        self._clock: Callable[[], str] = lambda: ""  # of the present wait, behind its reason

    @property
    def human_stream(self) -> TextIO:
        """The stream that people read."""
        return sys.stderr if self.as_json else sys.stdout

    def print_text(self, *lines: str, colour: Colour | None = None) -> None:
        """Print lines for people; on a terminal none is wider than the terminal."""
        STDERR.clear()
        limit = terminal_columns() if self.human_stream.isatty() else None
        parts = [part for line in lines for part in ([line] if limit is None else fit(line, limit))]
        # In one write, so that the lines of several processes do not mix.
        text = "".join(f"{self.paint(part, colour)}\n" for part in parts)
        print(text, end="", file=self.human_stream)

    def next(self, *commands: str) -> None:
        """Print the commands to try next, as the last thing that people read."""
        commands = tuple(map(_as_invoked, commands))
        line = f"next: {' · '.join(commands)}"
        self.print_text("")
        if len(line) <= width():
            self.print_text(line)
            return
        for number, command in enumerate(commands):
            self.print_command("      " if number else "next: ", command)

    def print_command(self, label: str, command: str) -> None:
        """Print a command so that it can be copied, also where it needs more than one line."""
        columns = terminal_columns()
        if not self.human_stream.isatty() or len(label + command) <= columns:
            self.print_text(label + command)
            return
        indent = " " * (len(label) - len(label.lstrip()) + 4)
        parts = wrap(
            label + command,
            columns - 2,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        self.print_text(*(f"{part} \\" for part in parts[:-1]), parts[-1])

    def print_json(self, facts: Mapping[str, object]) -> None:
        """Print the object for a program, once and last; numbers that JSON lacks become null."""
        STDERR.clear()
        if self.as_json:
            self.human_stream.flush()
            print(msgspec.json.encode(facts, enc_hook=float).decode())

    def progress(self, line: str) -> None:
        """Replace the progress line, not too often; during a wait this is its reason."""
        self._reason = line
        STDERR.progress(line, self._clock())

    def bar(
        self, done: int, total: int, noun: str, note: str = "", left_s: float | None = None
    ) -> None:
        """Replace the progress line by a bar, with the time that is left: `left_s`, or as long
        for each of the rest as for each so far."""
        self._end_estimate()
        now = monotonic()
        elapsed_s = now - self._began.setdefault(noun, now)
        if left_s is None and 0 < done < total and elapsed_s >= TIME_LEFT_AFTER_S:
            left_s = elapsed_s * (total - done) / done
        left = "" if left_s is None else f" · {clock(left_s)} left"
        left += f" · {note}" if note else ""  # last, since a narrow terminal cuts the end
        filled = bar(done / total if total else 1.0, BAR_COLUMNS)
        self.progress(f"{filled:<{BAR_COLUMNS}} {done:,} of {total:,} {noun}{left}")

    @contextmanager
    def waiting(
        self, reason: str, limit_s: float | None = None, estimate: WaitTime | None = None
    ) -> Iterator[None]:
        """Show the reason of a wait, how long it lasts and will last, until the block ends or
        prints.  `estimate` is for the block, or until its first bar, which has its own."""
        began, is_over, self._reason = monotonic(), threading.Event(), reason
        # Where nobody sees the estimate, the wait is not remembered either.
        expected_s = estimate.expected_s if estimate and sys.stderr.isatty() else None

        def end_estimate() -> None:
            nonlocal expected_s
            if estimate is not None and expected_s is not None:
                expected_s = None
                estimate.remember(monotonic() - began)

        def clock_text() -> str:
            return f" ({wait_clock(monotonic() - began, limit_s, expected_s)})"

        def show() -> None:
            while not is_over.wait(WAIT_REFRESH_S):
                if STDERR.is_shown:  # A line that was printed meanwhile ended the wait.
                    STDERR.progress(self._reason, self._clock())

        self._end_estimate, self._clock = end_estimate, clock_text
        STDERR.progress(reason, f" (about {span(expected_s)})" if expected_s else "")
        clock_thread = threading.Thread(target=show, daemon=True)
        clock_thread.start()
        try:
            yield
            end_estimate()
        finally:
            is_over.set()
            self._clock = lambda: ""
            clock_thread.join()
            STDERR.clear()

    def clear(self) -> None:
        """Remove the progress line."""
        STDERR.clear()

    def paint(self, text: str, colour: Colour | None) -> str:
        """The text in a colour, on a terminal whose user has not set NO_COLOR."""
        if colour is None or not self.human_stream.isatty() or os.environ.get("NO_COLOR"):
            return text
        return f"\x1b[{colour.sgr}m{text}\x1b[0m"


def _as_invoked(command: str) -> str:
    """The command as it can be typed here, also where `semcast` is not on the path."""
    place, name = os.path.split(sys.argv[0])
    program = command.split()[0]
    if not place or name != "semcast" or program not in ("semcast", "python") or shutil.which(name):
        return command  # Without a folder it was found on the path.
    return os.path.join(os.path.relpath(place), command)


def terminal_columns() -> int:
    """The width of the terminal, which may be any of the three standard streams."""
    if not os.environ.get("COLUMNS"):
        for descriptor in (1, 2, 0):
            with suppress(OSError):
                if columns := os.get_terminal_size(descriptor).columns:
                    return columns
    return shutil.get_terminal_size().columns


def width() -> int:
    """Columns for prose: those of the terminal, up to a width that reads well."""
    return min(terminal_columns(), WIDTH_MAX)


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """Prose as lines; those after the first are indented."""
    return wrap(
        text,
        width(),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fit(line: str, columns: int) -> list[str]:
    """The line, or if it is too wide its parts, broken between words."""
    if len(_SGR.sub("", line)) <= columns:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return wrap(
        line.strip(),
        columns,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_value(value: object) -> str:
    """One value as people write it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def count_of(number: int, noun: str) -> str:
    """A number of things: 1 message, 2 messages."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def span(seconds: float) -> str:
    """A time to wait: in seconds, or from two minutes on as minutes and seconds."""
    return f"{max(1, round(seconds))} s" if seconds < 120 else clock(seconds)


def wait_clock(gone_s: float, limit_s: float | None, expected_s: float | None) -> str:
    """How long a wait has lasted, and how long it will last as far as that is known."""
    gone = f"{gone_s:.0f} s" if gone_s < 120 else clock(gone_s)
    if limit_s is not None:
        return f"{gone} of at most {limit_s:g} s"
    if expected_s is None:
        return gone
    if gone_s <= expected_s + 1:
        return f"{gone} of about {span(expected_s)}"
    return f"{gone}, expected about {span(expected_s)}"


def clock(seconds: float) -> str:
    """A time as minutes and seconds, or hours too."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def table(rows: Sequence[Mapping[str, object]], columns: int | None = None) -> list[str]:
    """Rows with the same keys under their names: numbers to the right, words to the left.

    `columns` limits the width, by default to that of the terminal if there is one.  If even a
    narrowed table is too wide, each row becomes a block.
    """
    if columns is None:
        columns = terminal_columns() if sys.stdout.isatty() else UNLIMITED
    lines = narrowed_table(rows, columns)
    return _blocks(rows) if lines is None else lines


def narrowed_table(rows: Sequence[Mapping[str, object]], columns: int) -> list[str] | None:
    """The table, with wrapped names if it is too wide, then with the widest column of words
    wrapped; None if that is not enough."""
    if not rows:
        return []
    cells = [[name, *(format_value(row[name]) for row in rows)] for name in rows[0]]
    is_numeric = [_is_numeric(rows, each) for each in range(len(cells))]
    gaps = 2 * (len(cells) - 1)
    widths = [max(map(len, texts)) for texts in cells]
    if sum(widths) + gaps > columns:
        widths = [max(map(len, [*name.split(), *values])) for name, *values in cells]
    if (excess := sum(widths) + gaps - columns) > 0:
        widest = max(range(len(widths)), key=lambda each: (not is_numeric[each], widths[each]))
        widths[widest] -= excess
        if widths[widest] < WRAPPED_MIN or is_numeric[widest]:
            return None
    return [
        line for texts in zip(*cells, strict=True) for line in _lines(texts, widths, is_numeric)
    ]


def _is_numeric(rows: Sequence[Mapping[str, object]], column: int) -> bool:
    values = [list(row.values())[column] for row in rows]
    return all(isinstance(value, int | float | None) for value in values)


def _lines(texts: Sequence[str], widths: Sequence[int], is_numeric: Sequence[bool]) -> list[str]:
    """One row of a table: more than one line if a column is wrapped."""
    parts = [
        [text] if len(text) <= size else wrap(text, size, break_on_hyphens=False)
        for text, size in zip(texts, widths, strict=True)
    ]
    lines = []
    for line in zip_longest(*parts, fillvalue=""):
        aligned = [
            text.rjust(size) if numeric else text.ljust(size)
            for text, size, numeric in zip(line, widths, is_numeric, strict=True)
        ]
        lines.append("  ".join(aligned).rstrip())
    return lines


def _blocks(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """A block for each row, under the value of the column without a name if there is one."""
    lines: list[str] = []
    for row in rows:
        named = {name: value for name, value in row.items() if name}
        indent = "  " if len(named) < len(row) else ""
        heading = [format_value(row[""])] if indent else []
        values = [f"{indent}{line}" for line in key_values(named)]
        lines += [*([""] if lines else []), *heading, *values]
    return lines


def key_values(facts: Mapping[str, object]) -> list[str]:
    """One name and value a line."""
    longest = max(map(len, facts), default=0)
    return [f"{name:<{longest}}  {format_value(value)}" for name, value in facts.items()]


def bar(share: float, columns: int) -> str:
    """A share of a line of this many columns, to an eighth of one."""
    eighths = round(max(0.0, min(1.0, share)) * columns * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def sparkline(values: Iterable[float], columns: int, top: float | None = None) -> str:
    """The last values as one character each, from 0 to `top`, by default the largest."""
    recent = list(values)[-columns:] if columns else []
    highest = max(recent, default=0.0) if top is None else top
    if highest <= 0:
        return "▁" * len(recent)
    marks = "▁▂▃▄▅▆▇█"
    return "".join(marks[round(max(0.0, min(1.0, value / highest)) * 7)] for value in recent)
