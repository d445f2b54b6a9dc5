"""The application's state, from a member that has it to one that joins [SVS §5.1].

The donor keeps its state as it was when the view began, until everybody it was kept for has it.
A joiner asks for one piece after the other, again if nothing comes, and goes on where it was if the
connection broke.  Should the donor be gone, it starts over with the state at a later view.
The group meanwhile goes on: to it the joiner is a slow member.
"""

from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import NEVER, Incarnation, Pid, ViewId
from semcast.terms.views import StateChunk, StateRequest


class StateTransfer:
    """Lives as long as the process: it may be a joiner first and a donor later."""

    def __init__(self, recipe: ViewRecipe) -> None:
        self.chunk_bytes = recipe.chunk_bytes
        self.retry_s = 4 * recipe.retry_s
        self.states: dict[ViewId, bytes] = {}
        self.receivers: dict[
            ViewId, set[Incarnation]
        ] = {}  # who has yet to get the state at a view
        self.requested: dict[ViewId, dict[Pid, int]] = {}  # before the application gave it
        self.view: ViewId = 0  # whose state this process wants
        self.donor: Pid = -1
        self.received = bytearray()
        self.state: bytes | None = None  # once it is complete
        self.deadline = NEVER

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(view={self.view}, received={len(self.received)}, owed={self.receivers})"

    @property
    def is_waiting(self) -> bool:
        """Whether the own state has yet to come."""
        return self.deadline != NEVER

    def on_view(self, view: ViewId, stateless: tuple[Incarnation, ...], *, gives: bool) -> None:
        """A view begins, in which these have yet to get a state; perhaps from here."""
        waiting = set(stateless)
        for old in list(self.receivers):
            self.receivers[old] &= waiting
            self._settle(old)
        if gives and waiting:
            self.receivers[view] = waiting

    def on_state(self, view: ViewId, state: bytes, out: Effects) -> None:
        """The application's state as of the beginning of a view."""
        if view not in self.receivers:
            return
        self.states[view] = state
        for pid, offset in self.requested.pop(view, {}).items():
            self._give(view, pid, offset, out)

    def on_state_request(self, source: Pid, want: StateRequest, out: Effects) -> None:
        """A joiner asks for the next piece."""
        if all(life.pid != source for life in self.receivers.get(want.view, ())):
            return
        state = self.states.get(want.view)
        if state is None:
            self.requested.setdefault(want.view, {})[source] = want.offset
            return
        if want.offset > len(state):
            raise RemoteProtocolError(
                f"state transfer: offset {want.offset} exceeds the {len(state)} bytes of the state"
            )
        self._give(want.view, source, want.offset, out)

    def on_stateful(self, life: Incarnation) -> None:
        """This one has its state, from wherever."""
        for view in list(self.receivers):
            self.receivers[view].discard(life)
            self._settle(view)

    def _settle(self, view: ViewId) -> None:
        if not self.receivers[view]:
            del self.receivers[view]
            self.states.pop(view, None)
            self.requested.pop(view, None)

    def _give(self, view: ViewId, pid: Pid, offset: int, out: Effects) -> None:
        state = self.states[view]
        data = state[offset : offset + self.chunk_bytes]
        out.send.append(((pid,), StateChunk(view, offset, len(state), data)))

    def request_state(self, view: ViewId, donor: Pid, now: float, out: Effects) -> None:
        """Start from the state at this view."""
        self.view, self.donor = view, donor
        self.received = bytearray()
        self.state = None
        self._ask(now, out)

    def _ask(self, now: float, out: Effects) -> None:
        out.send.append(((self.donor,), StateRequest(self.view, len(self.received))))
        self.deadline = now + self.retry_s

    def on_chunk(self, source: Pid, chunk: StateChunk, now: float, out: Effects) -> None:
        """A piece; those that are not the next one are ignored."""
        if not self.is_waiting or source != self.donor or chunk.view != self.view:
            return
        if chunk.offset != len(self.received):
            return
        self.received += chunk.data
        if len(self.received) < chunk.total:
            if not chunk.data:
                raise RemoteProtocolError("state transfer: received an empty chunk before the end")
            self._ask(now, out)
            return
        self.state = bytes(self.received)
        self.received = bytearray()
        self.deadline = NEVER

    def on_time(self, now: float, out: Effects) -> None:
        """Ask again."""
        if now >= self.deadline:
            self._ask(now, out)
