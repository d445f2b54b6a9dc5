"""Changes in the groups of this machine, a sentence each, as `semcast members --watch` prints them.

Members of a group mostly see the same; what several of them report is printed once, with its cause.
A state that comes and goes is printed when it has lasted, so that nothing flaps.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from semcast.cli.view_changes import MemberKey, view_changes

if TYPE_CHECKING:
    from semcast.runtime.operations.control import Survey
    from semcast.runtime.operations.slow_members import SlowMember
    from semcast.runtime.operations.snapshot import Snapshot

HELD_UP_S: Final = 3.0  # over which the share of blocked time is measured
HELD_UP_SHARE: Final = 0.1


def member_title(group: str, name: str) -> str:
    """A member, as sentences about it begin."""
    return f"{group}  {name}"


class HeldUp:
    """Which senders wait for room, by the share of the last seconds."""

    def __init__(self) -> None:
        self._samples: dict[MemberKey, deque[tuple[float, float]]] = {}
        self._held_up: set[MemberKey] = set()

    def note(self, snapshots: Mapping[MemberKey, "Snapshot"]) -> None:
        """Take the blocked time of every member, by its own clock."""
        self._samples = {key: self._samples.get(key, deque()) for key in snapshots}
        for key, snapshot in snapshots.items():
            samples = self._samples[key]
            samples.append((snapshot.up_s, snapshot.blocked_s_total))
            while len(samples) > 2 and snapshot.up_s - samples[1][0] >= HELD_UP_S:
                samples.popleft()

    def share(self, key: MemberKey) -> float:
        """The share of the last seconds for which a member's multicasts waited for room."""
        samples = self._samples.get(key, deque())
        if len(samples) < 2:
            return 0.0
        (then, before), (now, total) = samples[0], samples[-1]
        return min(1.0, (total - before) / (now - then)) if now > then else 0.0

    def changes(self, snapshots: Mapping[MemberKey, "Snapshot"]) -> Iterator[str]:
        """Senders that are held up from now on, and no longer."""
        self.note(snapshots)
        for key, snapshot in snapshots.items():
            share, is_known = self.share(key), key in self._held_up
            who = f"{snapshot.group}  {snapshot.name}"
            if share >= HELD_UP_SHARE and not is_known:
                self._held_up.add(key)
                by = f" by {snapshot.blocked_by}" if snapshot.blocked_by else ""
                yield f"{who} is held up{by}: its buffer is full {share:.0%} of the time"
            elif share == 0.0 and is_known:
                self._held_up.discard(key)
                yield f"{who} is no longer held up"


class GroupWatch:
    """Compares each look at this machine's members with the looks before."""

    def __init__(self, first: "Survey") -> None:
        self._before = first
        self._names = {s.pid: member_title(s.group, s.name) for s in first.snapshots}
        self._held_up = HeldUp()
        self._held_up.note(by_process(first.snapshots))

    def name_of(self, pid: int) -> str:
        """The group and name of a process, if it ever answered."""
        return self._names.get(pid, f"process {pid}")

    def changes(self, now: "Survey") -> list[str]:
        """Every change since the last look."""
        before, self._before = self._before, now
        old, new = by_process(before.snapshots), by_process(now.snapshots)
        self._names |= {s.pid: member_title(s.group, s.name) for s in now.snapshots}
        silent_before = set(before.silent)
        found = [
            *self._arrivals(old, new, silent_before),
            *self._departures(old, new, before, now),
            *(self.silence(pid) for pid in now.silent if pid not in silent_before),
            *view_changes(old, new),
            *role_changes(old, new),
            *slow_changes(before.snapshots, now.snapshots),
            *self._held_up.changes(new),
        ]
        for key, snapshot in new.items():
            if key in old:
                found += forgotten_changes(old[key], snapshot)
        return list(dict.fromkeys(found))

    def silence(self, pid: int) -> str:
        """The sentence about a process that does not answer."""
        return f"{self.name_of(pid)} does not answer ({why_silent(pid)})"

    def _arrivals(
        self,
        old: Mapping[MemberKey, "Snapshot"],
        new: Mapping[MemberKey, "Snapshot"],
        silent_before: set[int],
    ) -> Iterator[str]:
        for key, snapshot in new.items():
            if key in old:
                continue
            who = f"{snapshot.group}  {snapshot.name}"
            if snapshot.pid in silent_before:
                yield f"{who} answers again"
            else:
                yield f"{who} started: process {snapshot.pid}, {snapshot.protocol} {snapshot.order}"

    def _departures(
        self,
        old: Mapping[MemberKey, "Snapshot"],
        new: Mapping[MemberKey, "Snapshot"],
        before: "Survey",
        now: "Survey",
    ) -> Iterator[str]:
        for key, snapshot in old.items():
            if key not in new and snapshot.pid not in now.silent:
                yield f"{snapshot.group}  {snapshot.name} ended: process {snapshot.pid}"
        alive = {*now.silent, *(snapshot.pid for snapshot in now.snapshots)}
        for pid in before.silent:
            if pid not in alive:
                yield f"{self.name_of(pid)} ended: process {pid}"


def why_silent(pid: int) -> str:
    """The state of a process that does not answer, as far as the system tells."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        state = ""
    if state in ("T", "t"):
        return f"process {pid} is stopped; kill -CONT {pid} resumes it"
    return f"process {pid} is stuck or runs a different version"


def slow_members(snapshots: Iterable["Snapshot"]) -> "dict[tuple[str, str], SlowMember]":
    """The slow members by group and name, each as the one sees it that has watched it longest."""
    found: dict[tuple[str, str], SlowMember] = {}
    for snapshot in snapshots:
        for slow in snapshot.slow:
            key = snapshot.group, slow.name
            if key not in found or slow.since_s > found[key].since_s:
                found[key] = slow
    return found


def slow_changes(before: Iterable["Snapshot"], now: Iterable["Snapshot"]) -> Iterator[str]:
    """Members that are slow from now on, and members that keep up again."""
    now = list(now)
    old, new = slow_members(before), slow_members(now)
    for (group, name), slow in new.items():
        if (group, name) not in old:
            yield f"{group}  {name} is slow: {slow.why}"
    groups = {snapshot.group for snapshot in now}
    for group, name in old:
        if (group, name) not in new and group in groups:
            yield f"{group}  {name} keeps up again"


def role_changes(
    old: Mapping[MemberKey, "Snapshot"], new: Mapping[MemberKey, "Snapshot"]
) -> Iterator[str]:
    """Servers of replicated services that have another role than before."""
    for key, snapshot in new.items():
        before = old[key].server if key in old else None
        if before and snapshot.server and snapshot.server.role != before.role:
            yield f"{snapshot.group}  {snapshot.name} is {snapshot.server.role} now"


def forgotten_changes(old: "Snapshot", new: "Snapshot") -> Iterator[str]:
    """Members of a fixed group that left it, or that it goes on without."""
    before = {peer.name for peer in old.peers if peer.is_forgotten}
    for peer in new.peers:
        if peer.is_forgotten and peer.name not in before:
            yield f"{new.group}  {peer.name} left the group"


def member_changes(old: "Snapshot", new: "Snapshot") -> Iterator[str]:
    """Changes of the membership that one member sees; it logs what is slow by itself."""
    key = new.group, new.name, new.pid
    yield from view_changes({key: old}, {key: new})
    yield from forgotten_changes(old, new)


def by_process(snapshots: Iterable["Snapshot"]) -> "Mapping[MemberKey, Snapshot]":
    """Snapshots by what stays the same for as long as a member lives."""
    return {(snapshot.group, snapshot.name, snapshot.pid): snapshot for snapshot in snapshots}
