"""What a member is assembled from: protocol, order, relation, bounds and periods.

A recipe is the same at every member of a group, but for its bounds.  `sm` and `rm` are `s-sm` and
`s-rm` with the empty relation: purging off gives the reliable protocols, buffering elsewhere off
gives the sender-reliable ones, and it is one code [SRM §5.3].
"""

from dataclasses import dataclass, field

from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.limits import check_finite, check_positive, check_range, check_whole
from semcast.terms.promises import check_runnable, is_replicated, promised
from semcast.terms.relations import ITEM, NOTHING, RELATIONS, check_order, facts_of

PURGING = ("eager", "lazy")
OVERFLOWS = ("block", "error")
POSITIVE = ("k", "buffer", "buffer_bytes", "message_bytes", "fanout", "datagram_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The settings of a group.  Times are seconds; `bandwidth_max` is bytes per second, of first
    transmissions.

    `buffer` bounds the distinct messages held for retransmission or delivery at a member,
    `buffer_bytes` their payload and `message_bytes` a single message; beyond the first two, at most
    one message per sender is admitted, so that no stream waits for another for ever.
    `window_bytes` bounds the payload of all senders together that is not known to be stable: all
    of it may wait in somebody's socket.  Members gossip every `period_s`, and at once after
    `gossip_after` messages of a stream or `gossip_after_bytes` of payload, so that a fast one does
    not wait for it; with `direct_gossip` mostly to those whose streams it is about.  `f` defaults
    to (members - 1) // 2.  `unicast` is for networks without multicast: first transmissions go to
    each member, and one that is far behind is left to pull.  Without `echo` the application is not
    handed what it sent itself.
    `in_view`: the group is one view of a group with views, where there is a total order, too.
    An order message waits until all have reported the one before, `order_s` at the most.  With
    `confirms`, members confirm what all have taken.
    """

    members: int
    protocol: str = "s-rm"
    order: str = "fifo"
    relation: str = "item"
    k: int = 256
    chain_limit: int | None = None
    f: int = -1
    buffer: int = 1000
    buffer_bytes: int = 64 << 20
    message_bytes: int = 65_000
    window_bytes: int | None = None
    purge: str = "eager"
    overflow: str = "block"
    echo: bool = True
    period_s: float = 0.03
    safety_period_s: float = 0.0
    fanout: int = 3
    gossip_after: int | None = None
    gossip_after_bytes: int | None = None
    direct_gossip: bool = False
    congested_at: float = 0.5
    safety_always: bool = False
    datagram_bytes: int = 1400
    coalesce_s: float = 0.0
    bandwidth_max: float | None = None
    unicast: bool = False
    nack_delay_s: float = 0.002
    timeout_min_s: float = 0.02
    timeout_max_s: float = 1.0
    in_view: bool = False
    order_s: float = 0.004
    confirms: bool = False
    replicated: bool = field(init=False)

    def __post_init__(self) -> None:
        check_whole("members", self.members, 1)
        (promised if self.in_view else check_runnable)(self.protocol, self.order)
        if self.relation not in tuple(RELATIONS):  # Whatever it is, it may have no hash.
            raise unknown_value("relation", self.relation, RELATIONS)
        if self.purge not in PURGING:
            raise unknown_value("purge", self.purge, PURGING)
        if self.overflow not in OVERFLOWS:
            raise unknown_value("overflow", self.overflow, OVERFLOWS)
        self._fill_in()
        self._check_numbers()
        check_order(self.order, self.relation)
        if self.order == "item" and self.purge != "eager":
            raise ConfigError("order: item needs purge eager, not lazy")

    def _fill_in(self) -> None:
        if not self.protocol.startswith("s-"):
            object.__setattr__(self, "relation", "none")
        object.__setattr__(self, "replicated", is_replicated(self.protocol))
        if self.f == -1:
            object.__setattr__(self, "f", (self.members - 1) // 2)
        if not self.safety_period_s:
            object.__setattr__(self, "safety_period_s", self.period_s)

    def _check_numbers(self) -> None:
        for name in POSITIVE:
            check_whole(name, getattr(self, name), 1)
        check_whole("f", self.f, 0)
        if self.f >= self.members:
            raise ConfigError(f"f: {self.f} is not in 0..{self.members - 1} (members - 1)")
        for name in ("period_s", "safety_period_s", "timeout_min_s", "timeout_max_s"):
            check_positive(name, getattr(self, name))
        for name in ("coalesce_s", "nack_delay_s", "order_s"):
            check_finite(name, getattr(self, name))
        check_range("congested_at", self.congested_at, 0, 1)
        if self.timeout_min_s > self.timeout_max_s:
            raise ConfigError(
                f"timeout_min_s: {self.timeout_min_s} is above timeout_max_s {self.timeout_max_s}"
            )
        for name in ("chain_limit", "gossip_after", "gossip_after_bytes", "window_bytes"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 1)
        if self.chain_limit is not None and facts_of(self.relation).replaces != ITEM:
            raise ConfigError(f"chain_limit: needs relation item, not {self.relation}")
        if self.bandwidth_max is not None:
            check_positive("bandwidth_max", self.bandwidth_max)

    @property
    def far_behind_messages(self) -> int:
        """Of a buffer: who lacks more is far behind, who has less room does not ask."""
        return max(1, self.buffer // 8)

    @property
    def purges(self) -> bool:
        """Whether a message can become obsolete."""
        return facts_of(self.relation).replaces != NOTHING

    @property
    def reach(self) -> int | None:
        """How far back a message can name what it makes obsolete; None: any distance."""
        return self.k if facts_of(self.relation).covers is bytes else None

    @property
    def needs_safety(self) -> bool:
        """Whether a message must be safe before it purges others from retransmission."""
        return self.replicated and self.purges
