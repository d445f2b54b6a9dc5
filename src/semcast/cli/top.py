"""`semcast top`: the groups of this machine at work, refreshed until Ctrl-C.  It never joins.

Rates are differences of two snapshots over the time between them on the member's own clock.  Of a
member elsewhere only that is shown which its local peers know: how far it lags and what it holds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import monotonic, sleep
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from semcast.cli.commands import Json
from semcast.cli.members import ANSWER_S, GroupName, by_process, remarks
from semcast.cli.output import Output, bar, cell, table

if TYPE_CHECKING:
    from rich.console import Group

    from semcast.runtime.operations.control import Survey
    from semcast.runtime.operations.snapshot import Peer, Snapshot

EXAMPLE = "Example: semcast top --group quotes --seconds 30"
EVERY_S_MIN: Final = 0.1  # Looking must not disturb.
BAR_COLUMNS: Final = 5
HYPHENATED: Final = {
    "delivered/s": "deliv-\nered/s",
    "skipped/s": "skip-\nped/s",
    "datagrams/s": "data-\ngrams/s",
    "discards": "dis-\ncards",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One member between two looks.  `lag` is the most messages of one local member that it is
    not known to have received; what nobody here knows is None."""

    group: str
    name: str
    rank: int
    pid: int | None = None
    sent_rate: float | None = None
    delivered_rate: float | None = None
    skipped_rate: float | None = None
    purged_rate: float | None = None
    datagrams_rate: float | None = None
    discarded: int | None = None
    lag: int | None
    held: int
    buffer: int | None = None
    is_blocked: bool = False
    is_slow: bool
    is_forgotten: bool
    status: str | None = None  # with views, what it is in its view


def top(
    group: GroupName = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Stop after this many seconds.", show_default="when interrupted"),
    ] = None,
    every: Annotated[float, typer.Option(help="Refresh interval in seconds.")] = 1.0,
    json: Json = False,
) -> None:
    """Show rates, lag and buffers, and which members are slow.

    Shows the live members on this machine and, as far as they know them, their peers.
    """
    from semcast.faults.limits import finite, positive
    from semcast.runtime.operations.control import survey

    finite("every", every, EVERY_S_MIN)
    looks = 0
    if seconds is not None:
        positive("seconds", seconds)
        looks = max(1, round(seconds / every))
        every = seconds / looks
    output = Output(json)
    looked_at, seen = monotonic(), survey(group, ANSWER_S)
    found = rows(seen, seen)
    try:
        with _screen(output) as show:
            for _ in range(looks) if looks else count():
                sleep(max(0.0, looked_at + every - monotonic()))
                before, looked_at, seen = seen, monotonic(), survey(group, ANSWER_S)
                found = rows(before, seen)
                show(found, remarks(seen, group))
    except KeyboardInterrupt:
        pass  # The way to end it.
    output.answer({"members": found, "silent": seen.silent})


def rows(before: "Survey", after: "Survey") -> list[Row]:
    """Every member of the groups that have one here, by group and rank."""
    old = by_process(before.snapshots)
    new = by_process(after.snapshots)
    found = []
    for group in {snapshot.group for snapshot in after.snapshots}:
        here = {key: snapshot for key, snapshot in new.items() if snapshot.group == group}
        peers: dict[str, list[Peer]] = {}
        for snapshot in here.values():
            for peer in snapshot.peers:
                peers.setdefault(peer.name, []).append(peer)
        slow = {snapshot.slowest for snapshot in here.values()}
        for key, snapshot in here.items():
            seen = peers.pop(snapshot.name, [])
            found.append(_local(snapshot, old.get(key, snapshot), seen, slow))
        found += [_remote(group, seen, slow) for seen in peers.values()]
    return sorted(found, key=lambda row: (row.group, row.rank, row.pid or 0))


def _local(new: "Snapshot", old: "Snapshot", seen: list["Peer"], slow: set[str | None]) -> Row:
    elapsed_s = new.up_s - old.up_s

    def rate(now: int, then: int) -> float | None:
        return (now - then) / elapsed_s if elapsed_s > 0 else None

    return Row(
        group=new.group,
        name=new.name,
        rank=new.rank,
        pid=new.pid,
        sent_rate=rate(new.sent, old.sent),
        delivered_rate=rate(new.delivered, old.delivered),
        skipped_rate=rate(new.skipped, old.skipped),
        purged_rate=rate(new.purged, old.purged),
        datagrams_rate=rate(
            new.datagrams_in + new.datagrams_out, old.datagrams_in + old.datagrams_out
        ),
        discarded=sum(new.discarded.values()),
        lag=_lag(seen),
        held=new.held,
        buffer=new.buffer,
        is_blocked=new.is_blocked,
        is_slow=new.name in slow,
        is_forgotten=any(peer.is_forgotten for peer in seen),
        status=new.view.status if new.view else None,
    )


def _remote(group: str, seen: list["Peer"], slow: set[str | None]) -> Row:
    latest = min(seen, key=lambda peer: peer.heard_ago_s)
    return Row(
        group=group,
        name=latest.name,
        rank=latest.rank,
        lag=_lag(seen),
        held=latest.held,
        is_slow=latest.name in slow,
        is_forgotten=any(peer.is_forgotten for peer in seen),
    )


def _lag(seen: list["Peer"]) -> int | None:
    return max((peer.lag for peer in seen if not peer.is_forgotten), default=None)


def cells(row: Row) -> dict[str, object]:
    """A row of the table as people see it."""
    states = {
        "slow": row.is_slow,
        "blocked": row.is_blocked,
        "forgotten": row.is_forgotten,
        "remote": row.pid is None,
        row.status or "": row.status not in (None, "member"),
    }
    return {
        "group": row.group,
        "member": row.name,
        "sent/s": _rate(row.sent_rate),
        "delivered/s": _rate(row.delivered_rate),
        "skipped/s": _rate(row.skipped_rate),
        "purged/s": _rate(row.purged_rate),
        "datagrams/s": _rate(row.datagrams_rate),
        "discards": row.discarded,
        "lag": row.lag,
        "buffer": _fill(row),
        "state": ", ".join(state for state, is_so in states.items() if is_so),
    }


def _rate(rate: float | None) -> float | None:
    return rate if rate is None or rate < 10 else round(rate)


def _fill(row: Row) -> str:
    if not row.buffer:
        return f"{row.held} held"
    share = row.held / row.buffer
    return f"{bar(share, BAR_COLUMNS):<{BAR_COLUMNS}} {share:4.0%}"


@contextmanager
def _screen(output: Output) -> Iterator[Callable[[list[Row], list[str]], None]]:
    """Shows rows and remarks: in place on a terminal, otherwise line after line."""
    if not output.people.isatty():
        yield lambda found, said: output.say(*table(list(map(cells, found))), *said, "")
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(file=output.people), auto_refresh=False) as live:
        yield lambda found, said: live.update(picture(found, said), refresh=True)


def picture(found: list[Row], said: list[str]) -> "Group":
    """The table for a terminal, in 80 columns, with the slow ones in red."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = [cells(row) for row in found]
    drawn = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for name in list(shown[0])[1:] if shown else ():
        words = all(isinstance(line[name], str) for line in shown)
        drawn.add_column(
            HYPHENATED.get(name, name),
            justify="left" if words else "right",
            no_wrap=name != "state",
        )
    group = None
    for row, line in zip(found, shown, strict=True):
        if row.group != group:
            group = row.group
            drawn.add_row(Text(group), style="bold")
        style = "bold red" if row.is_slow else "yellow" if row.is_blocked else ""
        # As Text, since a name may look like markup.
        drawn.add_row(*(Text(cell(value)) for value in list(line.values())[1:]), style=style)
    return Group(drawn, *map(Text, said))
