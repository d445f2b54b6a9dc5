"""`semcast top`: the groups of this machine at work, refreshed until `q` or Ctrl-C.

It never joins a group.
"""

import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from semcast.cli.commands import Json
from semcast.cli.group_changes import GroupWatch, member_title, slow_members
from semcast.cli.members import (
    ANSWER_S,
    GroupFilter,
    check_group,
    clock_time,
    duration,
    service_facts,
    summary,
)
from semcast.cli.output import Output, bar, count_of, sparkline, table, terminal_columns
from semcast.cli.top_rows import TopRow, rows
from semcast.terms.ids import view_number
from semcast.terms.palette import SLOW, WRONG, Colour

if TYPE_CHECKING:
    from rich.console import Group

    from semcast.runtime.operations.control import Survey

EXAMPLE = "Example: semcast top --group quotes --seconds 30"
REFRESH_S_MIN: Final = 0.1  # Looking must not disturb.
BUFFER_BAR: Final = 5
HISTORY: Final = 60  # looks
SPARKLINE_MIN: Final = 8
# The columns and the width from which each is shown: 60, 80 and more columns.
COLUMNS: Final = {
    "member": 0,
    "sent/s": 76,
    "deliv/s": 0,
    "skip %": 0,
    "waiting": 0,
    "oldest": 76,
    "buffer": 76,
    "state": 0,
}
SORTS: Final[dict[str, Callable[[TopRow], Any]]] = {
    "rank": lambda row: row.rank,
    "rate": lambda row: -(row.delivered_rate or 0.0),
    "waiting": lambda row: -row.waiting,
    "name": lambda row: row.name,
}
KEYS: Final = "q quit  s sort (by {})  h help"
HELP: Final = (
    "sent/s, deliv/s: messages per second that the member sends, and that its application gets",
    "skip %: share of its messages that newer ones replaced before it read them",
    "waiting, oldest: messages that wait for its application, and for how long the oldest has",
    "buffer: share of its buffer in use; a full buffer makes senders wait",
    "elsewhere: a member on another machine; only its peers' knowledge of it is shown",
)


def top(
    group: GroupFilter = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Stop after this many seconds.", show_default="when interrupted"),
    ] = None,
    every: Annotated[float, typer.Option(help="Refresh interval in seconds.")] = 1.0,
    json: Json = False,
) -> None:
    """Show rates, waiting messages and buffers, and which members are slow.

    Shows the live members on this machine and, as far as they know them, their peers.
    """
    from semcast.runtime.operations.control import survey
    from semcast.terms.limits import check_finite, check_positive

    check_finite("every", every, REFRESH_S_MIN)
    looks = 0
    if seconds is not None:
        check_positive("seconds", seconds)
        looks = max(1, round(seconds / every))
        every = seconds / looks
    output = Output(json)
    looked_at, seen = monotonic(), survey(group, ANSWER_S)
    check_group(seen, group)
    screen = TopScreen(seen)
    found = rows(seen, seen)
    try:
        with _screen(output, screen) as show, _keys() as pressed:
            for _ in range(looks) if looks else count():
                while key := pressed(looked_at + every - monotonic()):
                    if key == "q":
                        raise KeyboardInterrupt
                    screen.on_key(key)
                    show()
                before, looked_at, seen = seen, monotonic(), survey(group, ANSWER_S)
                found = rows(before, seen)
                screen.look(seen, found)
                show()
    except KeyboardInterrupt:
        pass  # The usual end.
    output.next("semcast members --watch", "semcast doctor")
    output.print_json({"members": found, "silent": seen.silent})


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Waits for this long, or returns the key that was pressed earlier."""
    if not sys.stdin.isatty():
        from time import sleep

        def wait(timeout_s: float) -> str:
            sleep(max(0.0, timeout_s))
            return ""

        yield wait
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read(timeout_s: float) -> str:
        if select.select([descriptor], [], [], max(0.0, timeout_s))[0]:
            return os.read(descriptor, 1).decode(errors="replace")
        return ""

    try:
        tty.setcbreak(descriptor, termios.TCSANOW)  # Keys that were pressed before count.
        yield read
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class TopScreen:
    """What the terminal shows: a title, the answer, a table for each group, and the keys."""

    def __init__(self, seen: "Survey") -> None:
        self._seen = seen
        self._rows: list[TopRow] = []
        self._watch = GroupWatch(seen)
        self._history: dict[tuple[str, str], deque[float]] = {}
        self._sorts = list(SORTS)
        self._shows_help = False
        self._changes: deque[str] = deque(maxlen=3)

    def look(self, seen: "Survey", found: list[TopRow]) -> None:
        """Take another look."""
        self._seen, self._rows = seen, found
        self._changes.extend(f"{clock_time()}  {each}" for each in self._watch.changes(seen))
        for row in found:
            history = self._history.setdefault((row.group, row.name), deque(maxlen=HISTORY))
            history.append(row.delivered_rate or 0.0)

    def on_key(self, key: str) -> None:
        """Sort by another column, or show the meaning of the columns."""
        if key == "s":
            self._sorts.append(self._sorts.pop(0))
        elif key in ("h", "?"):
            self._shows_help = not self._shows_help

    @property
    def sort(self) -> str:
        """What the members are sorted by."""
        return self._sorts[0]

    def answer(self) -> tuple[str, Colour | None]:
        """One sentence: the slow members, why, and what it costs whom."""
        sentences = []
        for (group, name), slow in slow_members(self._seen.snapshots).items():
            waiting = [
                f"{row.name} waits for it {row.blocked_share:.0%} of the time"
                for row in self._rows
                if row.group == group and row.blocked_by == name and (row.blocked_share or 0) >= 0.1
            ]
            cost = ", ".join(waiting) or "nobody waits for it"
            sentences.append(f"! {name} is slow for {duration(slow.since_s)}: {slow.why}; {cost}")
        silent = [f"! {self._watch.silence(pid)}" for pid in self._seen.silent]
        if sentences or silent:
            return ". ".join([*silent, *sentences]), WRONG if silent else SLOW
        return summary(self._seen)

    def lines(self, columns: int) -> Iterator[tuple[str, Colour | None]]:
        """Every line with its colour, none wider than `columns`."""
        from semcast.cli.output import fit

        sentence, colour = self.answer()
        for line in fit(sentence, columns):
            yield line, colour
        if self._shows_help:  # In place of the tables, so that both fit a small terminal.
            yield "", None
            yield from ((part, None) for text in HELP for part in fit(text, columns))
            return
        for group in dict.fromkeys(row.group for row in self._rows):
            yield "", None
            title = self._title(group)
            while len(title) > columns and " · " in title:  # Without what matters least.
                title = title.rpartition(" · ")[0]
            yield title[:columns], None
            local = [row for row in self._rows if row.group == group]
            local.sort(key=SORTS[self._sorts[0]])
            header, *shown = table([self._cells(row, columns) for row in local], columns)
            yield f"{header}", None
            for row, line in zip(local, shown, strict=False):
                yield line, SLOW if row.is_slow else None
        for change in self._changes:
            yield from ((part, None) for part in fit(change, columns))

    def _title(self, group: str) -> str:
        local = [snapshot for snapshot in self._seen.snapshots if snapshot.group == group]
        first = local[0]
        size = len([row for row in self._rows if row.group == group and not row.is_forgotten])
        view = ""
        if first.view is not None:
            newest = max((each.view for each in local if each.view), key=lambda seen: seen.id)
            view = f" · view {view_number(newest.id)}"
        service = "".join(f" · {fact}" for fact in service_facts(local))
        discards = sum(sum(each.discarded.values()) for each in local)
        repairs = sum(each.repairs_asked_total for each in local)
        return (
            f"{group} · {first.protocol} {first.order} · {count_of(size, 'member')}{view}{service}"
            f" · up {duration(max(each.up_s for each in local))} · discards {discards:,} · "
            f"repairs {repairs:,}"
        )

    def _cells(self, row: TopRow, columns: int) -> dict[str, object]:
        values = {
            "member": row.name,
            "sent/s": _rate(row.sent_rate),
            "deliv/s": _rate(row.delivered_rate),
            "skip %": None if row.skipped_share is None else round(100 * row.skipped_share),
            "waiting": row.waiting,
            "oldest": f"{row.oldest_waiting_s:.1f} s" if row.oldest_waiting_s else "–",
            "buffer": _fill(row),
            "state": "no answer" if self._is_silent(row) else row.state,
        }
        shown: dict[str, object] = {
            name: values[name] for name, width in COLUMNS.items() if columns >= width
        }
        room = columns - 76
        if room >= SPARKLINE_MIN:
            history = self._history.get((row.group, row.name), ())
            shown["last minute"] = sparkline(history, min(room, HISTORY, 30), self._top(row.group))
        return shown

    def _is_silent(self, row: TopRow) -> bool:
        """Whether a member is one of the processes on this machine that do not answer."""
        silent = {self._watch.name_of(pid) for pid in self._seen.silent}
        return row.pid is None and member_title(row.group, row.name) in silent

    def _top(self, group: str) -> float:
        """The largest rate of a group, which all its sparklines share."""
        return max(
            (max(h, default=0.0) for k, h in self._history.items() if k[0] == group), default=0
        )


def _rate(rate: float | None) -> float | None:
    return rate if rate is None else round(rate, 1) if rate < 10 else round(rate)


def _fill(row: TopRow) -> str:
    if not row.buffer:
        return f"{row.held} held"
    share = row.held / row.buffer
    return f"{bar(share, BUFFER_BAR):<{BUFFER_BAR}} {share:4.0%}"


@contextmanager
def _screen(output: Output, screen: TopScreen) -> Iterator[Callable[[], None]]:
    """Shows the screen: in place on a terminal, otherwise line after line."""
    if not output.human_stream.isatty():
        yield lambda: output.print_text(*(line for line, _ in screen.lines(terminal_columns())), "")
        return
    from rich.console import Console
    from rich.live import Live

    with Live(
        console=Console(file=output.human_stream, highlight=False), auto_refresh=False
    ) as live:
        yield lambda: live.update(render(screen), refresh=True)


def render(screen: TopScreen) -> "Group":
    """The screen for a terminal: a title line, the lines in their colours, the keys."""
    from rich.console import Group
    from rich.text import Text

    columns = terminal_columns()
    title = f"semcast top{clock_time():>{columns - 12}}"
    lines = [Text(title, "bold")]
    for line, colour in screen.lines(columns - 1):
        # As Text, since a name may look like markup.
        lines.append(Text(line, f"color({colour.terminal})" if colour else "", no_wrap=True))
    keys = KEYS.format(screen.sort) if sys.stdin.isatty() else "Ctrl-C ends it"
    return Group(*lines, Text(), Text(keys, "dim"))
