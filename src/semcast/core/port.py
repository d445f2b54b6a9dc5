"""Sends a member's datagrams: machines name members by rank, drivers by process.

In a fixed group ranks are the names of processes, and datagrams leave as they are.  In a view they
leave in a `ViewEnvelope` that names the view; it is one object for all receivers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, Pid, Rank
from semcast.terms.views import GroupView, ViewEnvelope


class Port:
    """In a fixed group.  `rank_of` has the ranks of processes that have other names."""

    rank_of: Mapping[Pid, Rank] = {}

    def send(self, to: Sequence[Rank], datagram: Any, out: Effects) -> None:
        """To some, or to EVERYONE."""
        out.send.append((to, datagram))


class ViewPort(Port):
    """In a view."""

    def __init__(self, view: GroupView) -> None:
        self._pids = [life.pid for life in view.members]
        self._view = view.id
        self.rank_of = {pid: rank for rank, pid in enumerate(self._pids)}

    def send(self, to: Sequence[Rank], datagram: Any, out: Effects) -> None:
        """To some, or to EVERYONE."""
        pids = to if to is EVERYONE else [self._pids[rank] for rank in to]
        out.send.append((pids, ViewEnvelope(self._view, datagram)))
