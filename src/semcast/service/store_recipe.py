"""Settings of the servers and clients of a replicated store [VSD §5].

`founders` is the paper's P, the fixed set of all servers; a quorum is a set of founders.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf
from typing import Final

from semcast.core.views.recipe import ViewRecipe
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.ids import Pid
from semcast.terms.store import REQUESTS_MAX

REPLICATED_DATA: Final = "replicated-data"
READS: Final = ("local", "rotate")
CONFIRMS: Final = ("quorum", "all")


def store_group() -> ViewRecipe:
    """Partitionable views and total order, with *safe* notices."""
    return ViewRecipe(protocol="vs", order="total")


def check_quorums(quorums: Iterable[Sequence[object]], founders: Collection[object]) -> None:
    """Each is a set of founders, and each two have a founder in common."""
    quorums = list(quorums)
    for quorum in quorums:
        if not quorum:
            raise ConfigError("quorums: one of them has no server")
        for server in quorum:
            if server not in founders:
                servers = ", ".join(map(str, founders))
                raise ConfigError(
                    f"quorums: unknown server {str(server)[:60]!r}; the servers are {servers}"
                )
    for one, other in combinations(quorums, 2):
        if not set(one) & set(other):
            both = " and ".join("+".join(map(str, each)) for each in (one, other))
            raise ConfigError(
                f"quorums: {both} have no server in common, so both could go on apart"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecipe:
    """The settings of a store; times are seconds.

    `quorums` are sets of founders, each two of which have one in common; none given: every
    majority.  `reads`: a query is answered by the server that it reached ("local"), or by each
    server of the view in turn ("rotate").  `confirm`: an update is safe once a quorum has it on
    disk ("quorum"), or every member of the view ("all").  Without `durable` nothing is on disk: a
    server that restarts counts in no quorum until it has taken the state.

    What was not answered is asked for again after `retry_s`.  A client tries twice at each
    server; when it has tried all of them in vain, it doubles the time, up to `retry_max_s`.  A
    client has up to `pipeline` requests on their way.  Servers remember the last replies to the
    `sessions_max` clients that updated last.  They drop updates that all founders have from
    memory once there are `truncate_after` of them.  They keep `tail_max` updates, or `tail_bytes`,
    for founders that lack them; one that lacks more gets the state.  They write
    a snapshot to disk after `snapshot_after` updates, or after as many as a quarter of the items
    if that is more: a server that restarts executes the updates behind its last snapshot.  They
    also write one when the updates since then have `snapshot_bytes`, and twice as many as the
    snapshot: such a server holds them in memory.
    """

    founders: tuple[Pid, ...]
    quorums: tuple[tuple[Pid, ...], ...] = ()
    reads: str = "local"
    confirm: str = "quorum"
    durable: bool = True
    protocol: str = REPLICATED_DATA
    order: str = "total"
    group: ViewRecipe = field(default_factory=store_group)
    retry_s: float = 0.1
    retry_max_s: float = 1.0
    pipeline: int = 64
    sessions_max: int = 10_000
    truncate_after: int = 1_000
    snapshot_after: int = 100_000
    snapshot_bytes: int = 64 << 20
    tail_max: int = 100_000
    tail_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if self.protocol != REPLICATED_DATA:
            raise unknown_value("protocol", self.protocol, (REPLICATED_DATA,))
        if self.order != "total" or self.group.protocol != "vs":
            raise ConfigError(f"group: {self.protocol} needs protocol vs with total order")
        if self.reads not in READS:
            raise unknown_value("reads", self.reads, READS)
        if self.confirm not in CONFIRMS:
            raise unknown_value("confirm", self.confirm, CONFIRMS)
        if not self.founders or len(set(self.founders)) < len(self.founders):
            raise ConfigError(f"founders: {self.founders} must name each server once")
        check_quorums(self.quorums, self.founders)
        for name in ("retry_s", "retry_max_s"):
            if not 0 < getattr(self, name) < inf:
                raise ConfigError(f"{name}: {getattr(self, name)} is not above 0")
        counts = ("pipeline", "sessions_max", "truncate_after", "snapshot_after")
        for name in (*counts, "snapshot_bytes", "tail_max", "tail_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} is not at least 1")
        if self.pipeline > REQUESTS_MAX:
            raise ConfigError(f"pipeline: {self.pipeline} is more than {REQUESTS_MAX}")

    @property
    def servers(self) -> int:
        """How many founders there are."""
        return len(self.founders)

    @property
    def quorum_sets(self) -> str:
        """The quorums as a trace has them: "0 1, 0 2"; "" stands for every majority."""
        return ", ".join(" ".join(map(str, quorum)) for quorum in self.quorums)

    @property
    def is_primary(self) -> bool:
        """Whether there is one sequence of views."""
        return False

    @property
    def relation(self) -> str:
        """The relation of the group."""
        return self.group.relation

    def has_quorum(self, pids: Collection[Pid]) -> bool:
        """Whether these contain a quorum of the founders."""
        if self.quorums:
            return any(set(quorum) <= set(pids) for quorum in self.quorums)
        return 2 * len(set(pids) & set(self.founders)) > len(self.founders)

    def reached_by_quorum(self, reached: Mapping[Pid, int]) -> int:
        """The highest number that all servers of some quorum have reached."""
        founders = self.founders
        if self.quorums:
            return max(min(reached.get(pid, 0) for pid in quorum) for quorum in self.quorums)
        ranked = sorted([reached.get(pid, 0) for pid in founders])
        return ranked[(len(founders) - 1) // 2]
