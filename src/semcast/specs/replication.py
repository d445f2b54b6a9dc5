"""What replicas of a service owe each other where a view begins [SVS §5.3].

The state of a service is counted by `version`: how many requests have made it.  A server says at
`install` which version it enters the view with, and a digest of that state; at `execute` the place
of the request, and at `reply` the version that the request made.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from semcast.specs.history import EventHandler
from semcast.specs.service import RequestId
from semcast.specs.violations import ViolationLog
from semcast.terms.events import EXECUTE, INSTALL, REPLY, Event

Life: TypeAlias = tuple[int, int]  # a process and its incarnation
ViewNumber: TypeAlias = int


class AcknowledgedSurvives:
    """What was answered in a view is in the state of every member of every later view: it executed
    that request at that place, or began with a state that has as many."""

    __slots__ = ("_executed", "_installs", "_ledger", "_replies", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # answers, at each server that entered a later view
        self._replies: defaultdict[ViewNumber, list[Event]] = defaultdict(list)
        self._installs: defaultdict[Life, list[Event]] = defaultdict(list)
        self._executed: defaultdict[Life, dict[int, RequestId]] = defaultdict(dict)

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {EXECUTE: self.on_execute, REPLY: self.on_reply, INSTALL: self.on_install}

    def on_execute(self, event: Event) -> None:
        """Learn what a server has where."""
        self._executed[event.pid, event.inc][event.position] = event.client, event.request

    def on_install(self, event: Event) -> None:
        """A server has what was answered since it entered the view before, or ever."""
        installs = self._installs[event.pid, event.inc]
        since = installs[-1].view if installs else 0
        installs.append(event)
        for view in [view for view in self._replies if since <= view < event.view]:
            for reply in self._replies[view]:
                self._judge(reply, event, (reply, event))

    def on_reply(self, event: Event) -> None:
        """Who entered a later view already had it then."""
        self._replies[event.view].append(event)
        for installs in self._installs.values():
            later = next((each for each in installs if each.view > event.view), None)
            if later is not None:
                self._judge(event, later, (later, event))

    def _judge(self, reply: Event, install: Event, evidence: tuple[Event, Event]) -> None:
        self.checked += 1
        request = reply.client, reply.request
        executed = self._executed.get((install.pid, install.inc), {})
        name = f"{reply.client}:{reply.request}"
        if install.version < reply.version:
            how = (
                f"with version {install.version}, before version {reply.version} of request {name}"
            )
        elif executed.get(reply.version, request) != request:
            other = "{}:{}".format(*executed[reply.version])
            how = f"with request {other} at version {reply.version}, where {name} was answered"
        else:
            return
        what = f"process {install.pid} entered view {install.view} {how}"
        self._ledger.add("acknowledged_survives", what, *evidence)


class ReplicaEquality:
    """All who enter a view have the same state."""

    __slots__ = ("_first", "_ledger", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # states that were compared with one of another server
        self._first: dict[ViewNumber, Event] = {}

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        return {INSTALL: self.on_install}

    def on_install(self, event: Event) -> None:
        """Compare with who entered the view first."""
        if event.digest is None:
            return
        first = self._first.setdefault(event.view, event)
        self.checked += first is not event
        if (first.version, first.digest) != (event.version, event.digest):
            what = f"process {event.pid} entered view {event.view} with another state"
            beside = f"{what} than process {first.pid}: versions {event.version}, {first.version}"
            self._ledger.add("replica_equality", beside, first, event)
