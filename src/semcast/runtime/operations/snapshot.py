"""What a live member says about itself when asked: through its control socket, `Group.snapshot`,
and the metrics endpoint.  Counters go on from the moment it joined; rates are for the reader."""

import msgspec

from semcast.runtime.operations.slow_members import SlowMember


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Another member, as this one sees it.

    `lag` is how many of this member's own messages the peer is not known to have received.
    The rest comes from the peer's own reports, about one a second: what its application was
    handed, what it skipped because it was superseded, what waits there.
    """

    name: str
    rank: int
    lag: int
    heard_ago_s: float
    delivered: int
    skipped: int
    queued: int
    held: int
    is_forgotten: bool


class ViewSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The view that a member is in, and what it is there.

    `status` is a word: joining, member, changing (between two views), minority (too few can be
    reached), excluded (the group went on without it), left.  `needed` is how many of `members` it
    takes to go on; `suspected` names those of them that seem to have crashed.  `excluded_s` has
    those of the view before that are not in this one because they did not answer, and how long.
    `left_out_s` has those that answer and are too slow, with the seconds for which no view is made
    with them.
    """

    id: int
    members: list[str]
    status: str
    is_primary: bool
    needed: int
    suspected: list[str]
    excluded_s: dict[str, float] = {}
    left_out_s: dict[str, float] = {}


class ServerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a server of a replicated service is: its `role` among the others, the name of the
    `primary` if there is one, how many `updates` have made its state, how many `queries` it has
    answered, and which server is `slowest`, if that is known."""

    role: str
    primary: str | None
    updates: int
    queries: int
    slowest: str | None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One member at one moment.

    `sent` counts its own messages, `delivered` what its application was handed, `skipped` what
    was purged before it could be (by notices or in its queue), `purged` what left its
    retransmission store as obsolete.  `held` of `buffer` messages are held now, `queued` of them
    wait for the application.  `is_blocked`: a multicast waits for room.  `slow` has the
    members that do not keep up, as this one sees them, and `slowest` names the first of them, or
    the member that a sender waits for.  `blocked_s_total` is how long multicasts have waited for
    room, `blocked_by` the member they last waited for.  `oldest_waiting_s` is how long the oldest
    message has waited for the application.  `repairs_asked_total` counts requests for repair that
    were sent, `repairs_answered_total` those that were answered.  `view` is
    there if the membership may change; then `peers` are the others in it, and `purged` counts since
    it began.  `server` is there if the member is a server of a replicated service.
    """

    group: str
    name: str
    rank: int
    pid: int
    version: str
    protocol: str
    order: str
    f: int
    up_s: float
    sent: int
    delivered: int
    skipped: int
    purged: int
    queued: int
    held: int
    held_bytes: int
    buffer: int
    is_blocked: bool
    is_sealed: bool
    datagrams_in: int
    datagrams_out: int
    bytes_in: int
    bytes_out: int
    discarded: dict[str, int]
    slowest: str | None
    peers: list[Peer]
    view: ViewSnapshot | None = None
    slow: list[SlowMember] = []
    blocked_s_total: float = 0.0
    blocked_by: str | None = None
    oldest_waiting_s: float = 0.0
    repairs_asked_total: int = 0
    repairs_answered_total: int = 0
    server: ServerFigures | None = None
