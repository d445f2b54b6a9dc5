"""`semcast members`: the live members of this machine, as they report themselves.  It never joins.

While it watches, only changes are printed: members that start, end, leave, do not answer, are slow
or held up, and views.  Counters change all the time; `semcast top` shows those.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from shlex import quote
from time import localtime, sleep, strftime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from semcast.cli.commands import Json
from semcast.cli.group_changes import GroupWatch, slow_members, why_silent
from semcast.cli.output import Output, count_of, table, terminal_columns
from semcast.cli.view_changes import describe_views, views
from semcast.terms.errors import ConfigError
from semcast.terms.palette import HOLDS, SLOW, WRONG, Colour

if TYPE_CHECKING:
    from semcast.runtime.operations.control import Survey
    from semcast.runtime.operations.snapshot import Snapshot

EXAMPLE = "Example: semcast members --group quotes --watch"
REFRESH_S: Final = 0.5
ANSWER_S: Final = 0.5
CHANGES_MAX: Final = 1_000
NARROW: Final = 76  # columns below which the table has fewer
OPTIONAL_COLUMNS: Final = ("sent", "oldest", "buffer")
UNSERVED: Final = ("sent", "delivered", "oldest")  # columns that say little about a server

GroupFilter: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Show only this group.", show_default="every group"),
]


def members(
    group: GroupFilter = None,
    watch: Annotated[bool, typer.Option("--watch", help="Print changes until Ctrl-C.")] = False,
    count: Annotated[
        int | None,
        typer.Option(help="Watch, and stop after this many changes.", show_default="no end"),
    ] = None,
    json: Json = False,
) -> None:
    """List your live members on this machine, and their groups."""
    from semcast.runtime.operations.control import survey
    from semcast.terms.limits import check_range

    if count is not None:
        check_range("count", count, 1)
    output = Output(json)
    seen = survey(group, ANSWER_S)
    check_group(seen, group)
    sentence, colour = summary(seen)
    changed: deque[str] = deque(maxlen=count or CHANGES_MAX)
    watched = GroupWatch(seen)
    try:
        output.print_text(sentence, colour=colour)
        output.print_text(*describe(seen))
        while (watch or count) and len(changed) != count:
            sleep(REFRESH_S)
            seen = survey(group, ANSWER_S)
            for change in watched.changes(seen)[: count and count - len(changed)]:
                output.print_text(f"{clock_time()}  {change}", colour=colour_of(change))
                changed.append(change)
    except KeyboardInterrupt:
        pass  # The usual end.
    if watch or count:
        output.next("semcast top", "semcast members")
    elif seen.snapshots:
        output.next("semcast members --watch", "semcast top")
    facts: dict[str, object] = {"members": seen.snapshots, "silent": seen.silent}
    facts["groups"] = rosters(seen.snapshots)
    facts["views"] = views(seen.snapshots)
    output.print_json({**facts, "changes": list(changed)} if watch or count else facts)


def clock_time() -> str:
    """The time of day."""
    return strftime("%H:%M:%S", localtime())


def colour_of(change: str) -> Colour | None:
    """Yellow for what is slow, red for what is wrong."""
    if " is slow: " in change or " is held up" in change:
        return SLOW
    if " does not answer" in change or " minority " in change or " excluded " in change:
        return WRONG
    return None


def check_group(seen: "Survey", group: str | None) -> None:
    """Refuse the name of a group that is not on this machine."""
    if group is not None and not seen.snapshots and not seen.silent:
        raise ConfigError(
            f"group: no live members of {group!r} on this machine; "
            f"start one with semcast join {quote(group)} --members 3"
        )


def summary(seen: "Survey") -> tuple[str, Colour | None]:
    """The answer in one sentence, and its colour."""
    groups = {snapshot.group for snapshot in seen.snapshots}
    if not groups and not seen.silent:
        return (
            "no live members on this machine; start one with semcast join quotes --members 3",
            None,
        )
    problems = [f"{name} is slow" for _, name in slow_members(seen.snapshots)]
    colour = SLOW if problems else HOLDS
    if seen.silent:
        problems.append(f"{len(seen.silent)} do not answer")
        colour = WRONG
    counts = (
        f"{count_of(len(seen.snapshots), 'member')} of {count_of(len(groups), 'group')} "
        "on this machine"
    )
    return f"{counts}; {', '.join(problems) or 'all keep up'}", colour


def describe(seen: "Survey") -> Iterator[str]:
    """Each group with its members, and the processes that do not answer."""
    for group in dict.fromkeys(snapshot.group for snapshot in seen.snapshots):
        local = [snapshot for snapshot in seen.snapshots if snapshot.group == group]
        first = local[0]
        yield ""
        sealed = "sealed" if first.is_sealed else "no key"
        yield f"{group}  {first.protocol} {first.order}, {sealed}"
        rows = [_row(snapshot) for snapshot in local]
        if terminal_columns() < NARROW:
            rows = [{k: v for k, v in row.items() if k not in OPTIONAL_COLUMNS} for row in rows]
        yield from (f"  {line}" for line in table(rows, terminal_columns() - 2))
        yield from (f"  {line}" for line in describe_views(local))
        yield from [f"  {'; '.join(facts)}"] if (facts := service_facts(local)) else []
        yield from (f"  {line}" for line in _describe_roster(local))
        for (_, name), slow in slow_members(local).items():
            yield f"  {name} is slow for {duration(slow.since_s)}: {slow.why}"
    yield from (f"process {pid} does not answer ({why_silent(pid)})" for pid in seen.silent)


def service_facts(snapshots: list["Snapshot"]) -> list[str]:
    """The primary of a replicated service, its last update and its slowest server."""
    servers = [snapshot.server for snapshot in snapshots if snapshot.server is not None]
    servers.sort(key=lambda server: -server.updates)  # The newest knows best.
    if not servers:
        return []
    primary = [f"primary: {server.primary}" for server in servers if server.primary]
    slowest = [f"slowest server: {server.slowest}" for server in servers if server.slowest]
    return [*primary[:1], f"last update: {servers[0].updates:,}", *slowest[:1]]


def _describe_roster(snapshots: list["Snapshot"]) -> Iterator[str]:
    local = {snapshot.name for snapshot in snapshots}
    for roster in rosters(snapshots):
        left = [m["name"] for m in roster["roster"] if m["forgotten_by"]]
        elsewhere = [m["name"] for m in roster["roster"] if m["name"] not in local]
        elsewhere = [name for name in elsewhere if name not in left]
        if elsewhere:
            yield f"elsewhere: {', '.join(elsewhere)}"
        if left:
            yield f"left or forgotten: {', '.join(left)}"


def rosters(snapshots: Iterable["Snapshot"]) -> list[dict[str, Any]]:
    """The members of every fixed group by rank, and which local members have forgotten them."""
    groups: dict[str, dict[tuple[int, str], list[str]]] = {}
    for snapshot in snapshots:
        if snapshot.view is not None:
            continue
        roster = groups.setdefault(snapshot.group, {})
        roster.setdefault((snapshot.rank, snapshot.name), [])
        for peer in snapshot.peers:
            forgotten_by = roster.setdefault((peer.rank, peer.name), [])
            if peer.is_forgotten:
                forgotten_by.append(snapshot.name)
    return [
        {
            "group": group,
            "roster": [
                {"rank": rank, "name": name, "forgotten_by": forgotten_by}
                for (rank, name), forgotten_by in sorted(roster.items())
            ],
        }
        for group, roster in groups.items()
    ]


def _row(snapshot: "Snapshot") -> dict[str, object]:
    handled = snapshot.delivered + snapshot.skipped
    row = {
        "member": snapshot.name,
        "state": state_of(snapshot),
        "up": duration(snapshot.up_s),
        "sent": snapshot.sent,
        "delivered": snapshot.delivered,
        "skipped": f"{snapshot.skipped / handled if handled else 0.0:.0%}",
        "waiting": snapshot.queued,
        "oldest": f"{snapshot.oldest_waiting_s:.1f} s" if snapshot.queued else "–",
        "buffer": f"{snapshot.held / snapshot.buffer:.0%}",
    }
    if (server := snapshot.server) is None:
        return row
    served = {"updates": server.updates, "queries": server.queries}
    row = {name: value for name, value in row.items() if name not in UNSERVED}
    return {name: row[name] for name in ("member", "state", "up")} | served | row


def state_of(snapshot: "Snapshot") -> str:
    """The state of a member, in words."""
    states = []
    if any(slow.name == snapshot.name for slow in snapshot.slow):
        states.append("slow")
    if snapshot.is_blocked:
        states.append(f"waits for {snapshot.blocked_by}" if snapshot.blocked_by else "blocked")
    if snapshot.view is not None and snapshot.view.status != "member":
        states.append(snapshot.view.status)
    return ", ".join(states) or (snapshot.server.role if snapshot.server else "ok")


def duration(seconds: float) -> str:
    """A time in its two largest units."""
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
