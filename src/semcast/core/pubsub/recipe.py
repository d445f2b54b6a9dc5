"""What a publish/subscribe group is assembled from: recovery, loggers, membership and periods.

One participant with replaceable recovery [RPB §4.3]: `lbrm` asks loggers, `pbcast` pushes digests
among members, `rpbcast` asks members first and loggers after.  A recipe is the same at every
process of a group.
"""

from dataclasses import dataclass, field
from math import inf

from semcast.core.recipe import OVERFLOWS, Recipe
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.ids import Rank
from semcast.terms.limits import check_positive, check_range, check_whole
from semcast.terms.promises import promised
from semcast.terms.relations import facts_of

PROTOCOLS = ("lbrm", "pbcast", "rpbcast")
SELECTIONS = ("uniform", "linear", "quadratic", "inverse")
RECOVERIES = ("at-most-once", "at-least-once", "none")
RECOVERY_FIRST = ("gossip", "logger", "adaptive")

_WHOLE = (
    "members", "founders", "sponsors", "copies", "rounds", "buffer", "buffer_bytes",
    "gossip_buffer", "gossip_buffer_bytes", "log_buffer", "block", "datagram_bytes",
    "message_bytes",
)  # fmt: skip
_TIMES = ("period_s", "period_max_s", "retry_s", "heartbeat_min_s", "heartbeat_max_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class PubsubRecipe:
    """The settings of a group.  Times are seconds.

    Processes are 0 to `members` - 1; the first `founders` (all of them by default) and the loggers
    are members from the start, others when they join, by `sponsors` members or `copies` loggers.
    A message is acknowledged once it is durable at `copies` of the `loggers`; a publisher holds at
    most `buffer` messages and `buffer_bytes` that are not, then `overflow` says what happens.

    Members gossip every `period_s`, less often up to `period_max_s` while nothing is amiss, and
    keep messages for each other over `rounds` periods, at most `gossip_buffer` of them and
    `gossip_buffer_bytes`.  Loggers are asked again every `retry_s`.  They keep messages until every
    member that is owed them has them, at most `age_s`; with retain="latest" they purge what is
    obsolete, with a number of seconds what has been for that long.  Of older ones than the last
    `log_buffer` a logger has the payloads on disk alone.

    After a crash a subscriber goes on at most once or at least once, by `recovery`; with "none" it
    keeps nothing on disk and comes back as a new one.  `recovery_first` says whom rpbcast asks
    first; "adaptive" asks a logger while those report to be below half of `service_max` repairs a
    second.  A message that `multicast_at` others ask for within a period is multicast again.  A
    publisher reserves numbers in blocks of `block`.  `selection` biases gossip towards near peers;
    "inverse" by 1/RTT to the power of `selection_power`.
    """

    members: int
    protocol: str = "rpbcast"
    order: str = "none"
    relation: str = "none"
    k: int = 256
    chain_limit: int | None = None
    loggers: tuple[Rank, ...] | None = None  # pid 0 by default; pbcast has none
    copies: int = 1
    founders: int = -1
    sponsors: int = -1
    retain: str | float = "all"
    age_s: float | None = None
    recovery: str = "at-most-once"
    recovery_first: str = "gossip"
    multicast_at: int | None = None
    selection: str = "uniform"
    selection_power: float = 1.0
    period_s: float = 0.25
    period_max_s: float = 1.0
    rounds: int = 10
    retry_s: float = 0.25
    heartbeat_min_s: float = 0.25
    heartbeat_max_s: float = 32.0
    heartbeat_factor: float = 2.0
    buffer: int = 1000
    buffer_bytes: int = 64 << 20
    gossip_buffer: int = 100_000
    gossip_buffer_bytes: int = 64 << 20
    log_buffer: int = 65_536
    block: int = 256
    overflow: str = "block"
    datagram_bytes: int = 1400
    message_bytes: int = 65_000
    service_max: float = 1000.0
    annotation: Recipe = field(init=False, repr=False)  # what annotators and indices read

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unknown_value("protocol", self.protocol, PROTOCOLS)
        promised(self.protocol, self.order)
        for name, allowed in (
            ("selection", SELECTIONS),
            ("recovery", RECOVERIES),
            ("recovery_first", RECOVERY_FIRST),
            ("overflow", OVERFLOWS),
        ):
            if getattr(self, name) not in allowed:
                raise unknown_value(name, getattr(self, name), allowed)
        self._fill_in()
        self._check_numbers()
        self._check_loggers()
        self._check_retain()

    def _fill_in(self) -> None:
        if self.loggers is None:
            object.__setattr__(self, "loggers", () if self.protocol == "pbcast" else (0,))
        if self.founders == -1:
            object.__setattr__(self, "founders", self.members)
        if self.sponsors == -1:
            object.__setattr__(self, "sponsors", max(1, min(2, self.members - 1)))
        if self.period_max_s < self.period_s:
            object.__setattr__(self, "period_max_s", self.period_s)
        annotation = Recipe(
            members=1,
            relation=self.relation,
            k=self.k,
            chain_limit=self.chain_limit,
            buffer=self.gossip_buffer,
        )
        object.__setattr__(self, "annotation", annotation)

    def _check_numbers(self) -> None:
        for name in _WHOLE:
            check_whole(name, getattr(self, name), int(name != "founders"))
        for name in (*_TIMES, "selection_power", "service_max"):
            check_positive(name, getattr(self, name))
        if self.heartbeat_min_s > self.heartbeat_max_s:
            raise ConfigError(
                f"heartbeat_min_s: {self.heartbeat_min_s} is above heartbeat_max_s "
                f"{self.heartbeat_max_s}"
            )
        if not 1 < self.heartbeat_factor < inf:
            raise ConfigError(f"heartbeat_factor: {self.heartbeat_factor} is not above 1")
        for name in ("founders", "sponsors"):
            if getattr(self, name) > self.members:
                raise ConfigError(
                    f"{name}: {getattr(self, name)} is more than the {self.members} members"
                )
        if self.multicast_at is not None:
            check_range("multicast_at", self.multicast_at, 2)
        if self.age_s is not None:
            check_positive("age_s", self.age_s)

    def _check_loggers(self) -> None:
        loggers = self.loggers or ()
        if self.protocol == "pbcast":
            if loggers:
                raise ConfigError("loggers: not allowed with pbcast; use rpbcast")
            return
        if not loggers:
            raise ConfigError(f"loggers: {self.protocol} needs at least 1")
        if len(set(loggers)) < len(loggers) or not all(0 <= p < self.members for p in loggers):
            raise ConfigError(f"loggers: {loggers} must be distinct pids below {self.members}")
        if self.copies > len(loggers):
            raise ConfigError(f"copies: {self.copies} is more than the {len(loggers)} loggers")

    def _check_retain(self) -> None:
        if self.retain == "all":
            return
        if facts_of(self.relation).covers is not None:
            raise ConfigError(
                f"retain: keeping only the latest value needs relation item, not {self.relation}"
            )
        if self.retain == "latest":
            return
        if isinstance(self.retain, str):
            raise ConfigError(f"retain: {self.retain!r} is not all, latest or a number of seconds")
        if not 0 < self.retain < inf:
            raise ConfigError(f"retain: {self.retain} is not above 0")

    @property
    def logger_pids(self) -> tuple[Rank, ...]:
        """The loggers."""
        return self.loggers or ()

    @property
    def purges_after_s(self) -> float | None:
        """How long what is obsolete is kept; None: as long as anything else."""
        if self.retain == "all":
            return None
        return 0.0 if isinstance(self.retain, str) else self.retain

    @property
    def has_gossip(self) -> bool:
        """Whether members gossip."""
        return self.protocol != "lbrm"
