"""`semcast members`: who is live on this machine, as the members themselves say.  It never joins.

Only changes are told while it watches: who came, left, went silent, is blocked, was forgotten,
who is slowest, and how views change.  Counters move all the time; `semcast top` shows those.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from time import localtime, sleep, strftime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output, table
from semcast.cli.views_seen import describe_views, view_changes, views

if TYPE_CHECKING:
    from semcast.runtime.operations.control import Survey
    from semcast.runtime.operations.snapshot import Snapshot

EXAMPLE = "Example: semcast members --group quotes --watch"
LOOK_S: Final = 0.5
ANSWER_S: Final = 0.5
CHANGES_MAX: Final = 1_000

GroupName: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Show only this group.", show_default="every group"),
]


def members(
    group: GroupName = None,
    watch: Annotated[bool, typer.Option("--watch", help="Print changes until Ctrl-C.")] = False,
    count: Annotated[
        int | None,
        typer.Option(help="Watch, and stop after this many changes.", show_default="no end"),
    ] = None,
    json: Json = False,
) -> None:
    """List your live members on this machine, and their groups."""
    from semcast.faults.limits import within
    from semcast.runtime.operations.control import survey

    if count is not None:
        within("count", count, 1)
    output = Output(json)
    seen = survey(group, ANSWER_S)
    output.say(*describe(seen, group))
    told: deque[str] = deque(maxlen=count or CHANGES_MAX)
    try:
        while (watch or count) and len(told) != count:
            sleep(LOOK_S)
            before, seen = seen, survey(group, ANSWER_S)
            for change in list(changes(before, seen))[: count and count - len(told)]:
                output.say(f"{strftime('%H:%M:%S', localtime())}  {change}")
                told.append(change)
    except KeyboardInterrupt:
        pass  # The way to end it.
    facts: dict[str, object] = {"members": seen.snapshots, "silent": seen.silent}
    facts["groups"] = rosters(seen.snapshots)
    facts["views"] = views(seen.snapshots)
    output.answer({**facts, "changes": list(told)} if watch or count else facts)


def remarks(seen: "Survey", group: str | None) -> list[str]:
    """Who does not answer, or what to do when there is nobody."""
    if seen.snapshots or seen.silent:
        return [_silence(pid) for pid in seen.silent]
    of, name = ("", "quotes") if group is None else (f" of group {group!r}", group)
    return [
        f"no live members{of} on this machine; "
        f"start one with semcast join {quote(name)} --members 3"
    ]


def describe(seen: "Survey", group: str | None) -> Iterator[str]:
    """A line for each member, the rosters, and who does not answer."""
    yield from table([_row(snapshot) for snapshot in seen.snapshots])
    yield from describe_views(seen.snapshots)
    for roster in rosters(seen.snapshots):
        names = [
            f"{member['rank']} {member['name']}" + _forgotten(member["forgotten_by"])
            for member in roster["roster"]
        ]
        yield f"roster of {roster['group']}: {', '.join(names)}"
    yield from remarks(seen, group)


def rosters(snapshots: Iterable["Snapshot"]) -> list[dict[str, Any]]:
    """Every fixed group's members by rank, and which local members go on without whom."""
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


def changes(before: "Survey", after: "Survey") -> Iterator[str]:
    """What differs between two looks, a sentence each."""
    old, new = by_process(before.snapshots), by_process(after.snapshots)
    for key, snapshot in new.items():
        who = f"{snapshot.group} {snapshot.name}"
        if key not in old:
            size = 1 + len(snapshot.peers)
            place = f"rank {snapshot.rank} of {size}"
            if snapshot.view is not None:
                place = f"view {snapshot.view.id} ({', '.join(snapshot.view.members)})"
            yield (
                f"{who} is live: process {snapshot.pid}, {place}, "
                f"{snapshot.protocol} {snapshot.order}"
            )
        else:
            yield from (f"{who} {what}" for what in _differences(old[key], snapshot))
    for key, snapshot in old.items():
        if key not in new and snapshot.pid not in after.silent:
            yield f"{snapshot.group} {snapshot.name} left: process {snapshot.pid}"
    yield from (_silence(pid) for pid in after.silent if pid not in before.silent)
    yield from view_changes(old, new)
    alive = {*after.silent, *(snapshot.pid for snapshot in after.snapshots)}
    yield from (f"process {pid} left" for pid in before.silent if pid not in alive)


def _silence(pid: int) -> str:
    return f"process {pid} does not answer: stopped, stuck, or running a different version"


def _differences(old: "Snapshot", new: "Snapshot") -> Iterator[str]:
    if old.is_blocked != new.is_blocked:
        yield "is blocked: its buffer is full" if new.is_blocked else "is no longer blocked"
    if old.slowest != new.slowest:
        yield f"finds {new.slowest} slowest" if new.slowest else "finds no slow member any more"
    forgotten = {peer.name for peer in old.peers if peer.is_forgotten}
    for peer in new.peers:
        if peer.is_forgotten and peer.name not in forgotten:
            yield f"forgot {peer.name}"


def by_process(snapshots: Iterable["Snapshot"]) -> "Mapping[tuple[str, str, int], Snapshot]":
    """Snapshots by what stays the same for as long as a member lives."""
    return {(snapshot.group, snapshot.name, snapshot.pid): snapshot for snapshot in snapshots}


def _row(snapshot: "Snapshot") -> dict[str, object]:
    return {
        "group": snapshot.group,
        "name": snapshot.name,
        "rank": snapshot.rank,
        "pid": str(snapshot.pid),
        "protocol": snapshot.protocol,
        "order": snapshot.order,
        "up": duration(snapshot.up_s),
        "sent": snapshot.sent,
        "delivered": snapshot.delivered,
        "skipped": snapshot.skipped,
        "held": f"{snapshot.held}/{snapshot.buffer}",
        "slowest": snapshot.slowest,
    }


def _forgotten(by: list[str]) -> str:
    return f" (forgotten by {', '.join(by)})" if by else ""


def duration(seconds: float) -> str:
    """A time in its two largest units."""
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
