"""Views as the members of this machine see them: which there are, and what changed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from semcast.terms.ids import view_number
from semcast.terms.views import MEMBER

if TYPE_CHECKING:
    from semcast.runtime.operations.snapshot import Snapshot, ViewSnapshot

MemberKey: TypeAlias = tuple[str, str, int]  # group, name, process

_STATUS_TEXT = {
    "joining": "is joining",
    "member": "is in the majority again",
    "left": "has left",
    "excluded": "was excluded from the group",
}


def views(snapshots: Iterable["Snapshot"]) -> list[dict[str, Any]]:
    """The views of every group, the latest first, and who is in them: `at` has the status of each
    local member there, `suspected` who seems to have crashed and to whom."""
    found: dict[tuple[str, int, tuple[str, ...]], dict[str, Any]] = {}
    for snapshot in snapshots:
        if (seen := snapshot.view) is None:
            continue
        key = snapshot.group, -seen.id, tuple(seen.members)
        view = found.setdefault(
            key,
            {
                "group": snapshot.group,
                "view": seen.id,
                "members": seen.members,
                "is_primary": seen.is_primary,
                "needed": seen.needed,
                "at": {},
                "suspected": {},
            },
        )
        view["at"][snapshot.name] = seen.status
        for name in seen.suspected:
            view["suspected"].setdefault(name, []).append(snapshot.name)
    return [found[key] for key in sorted(found)]


def describe_views(snapshots: Iterable["Snapshot"]) -> Iterator[str]:
    """A line for each view."""
    for view in views(snapshots):
        line = f"view {view_number(view['view'])}: {', '.join(view['members'])}"
        if view["needed"] > 1:
            line += f"; needs {view['needed']} of {len(view['members'])}"
        for name, status in view["at"].items():
            line += f"; {name} is {status}" if status != MEMBER else ""
        for name, by in view["suspected"].items():
            line += f"; {name} is suspected by {', '.join(by)}"
        yield line


def view_changes(
    old: Mapping[MemberKey, "Snapshot"], new: Mapping[MemberKey, "Snapshot"]
) -> Iterator[str]:
    """Differences between two looks: views first, each once for all members that entered it."""
    entered: dict[tuple[str, int, tuple[str, ...]], set[tuple[str, ...]]] = {}
    for key, snapshot in new.items():
        seen, before = snapshot.view, old[key].view if key in old else None
        if seen is not None and before is not None and seen.id != before.id and seen.id:
            change = (snapshot.group, seen.id, tuple(seen.members))
            # A member that was in no view knows nothing of the view before.
            entered.setdefault(change, set()).update([tuple(before.members)] if before.id else [])
    for (group, number, members), views_before in sorted(entered.items()):
        before_members = max(views_before, key=len, default=members)
        line = f"{group}  view {view_number(number)}: {', '.join(members)}"
        joined = [name for name in members if name not in before_members]
        line += f"; {', '.join(joined)} joined" if joined else ""
        looks = [
            each.view for each in new.values() if each.group == group and each.view is not None
        ]
        silent_s, slow_s = _excluded_s(looks), _left_out_s(looks)
        gone = [name for name in before_members if name not in members]
        left = [name for name in gone if not {(number, name)} & (silent_s.keys() | slow_s.keys())]
        line += f"; {', '.join(left)} left" if left else ""
        for name in gone:
            if (number, name) in silent_s:
                line += f"; {name} was excluded after {silent_s[number, name]:.1f} s of silence"
            elif (number, name) in slow_s:
                line += (
                    f"; {name} is left out for {slow_s[number, name]:.1f} s, because it is too slow"
                )
        yield line
    for key, snapshot in new.items():
        if key in old and snapshot.view is not None and (before := old[key].view) is not None:
            who = f"{snapshot.group}  {snapshot.name}"
            yield from (f"{who} {what}" for what in _differences(before, snapshot.view))


def _excluded_s(seen: Iterable["ViewSnapshot"]) -> dict[tuple[int, str], float]:
    """By view and name, how long a member that is not in that view had been silent, at most."""
    return _longest((view.id, view.excluded_s) for view in seen)


def _left_out_s(seen: Iterable["ViewSnapshot"]) -> dict[tuple[int, str], float]:
    """By view and name, for how long a member is left out of later views, at most."""
    return _longest((view.id, view.left_out_s) for view in seen)


def _longest(each: Iterable[tuple[int, dict[str, float]]]) -> dict[tuple[int, str], float]:
    found: dict[tuple[int, str], float] = {}
    for number, by_name in each:
        for name, seconds in by_name.items():
            found[number, name] = max(seconds, found.get((number, name), 0.0))
    return found


def _differences(old: "ViewSnapshot", new: "ViewSnapshot") -> Iterator[str]:
    if new.status == "minority" != old.status:
        reached = len(new.members) - len(new.suspected)
        yield (
            f"is in a minority and waits: reaches {reached} of {len(new.members)} members of view "
            f"{view_number(new.id)}, needs {new.needed}"
        )
    elif new.status != old.status and new.status in _STATUS_TEXT and _is_news(old, new):
        yield _STATUS_TEXT[new.status]
    yield from (f"suspects {name}" for name in new.suspected if name not in old.suspected)
    for name in old.suspected:
        if name not in new.suspected and name in new.members:
            yield f"no longer suspects {name}"


def _is_news(old: "ViewSnapshot", new: "ViewSnapshot") -> bool:
    """A view that was entered has been told; so has what comes between two."""
    return new.status != "member" or (old.id == new.id and old.status == "minority")
