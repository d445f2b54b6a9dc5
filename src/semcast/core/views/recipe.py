"""What a member of changing views is assembled from.

`recipe_of` gives the recipe of the reliable multicast inside one view: in a view of n whose
successor needs q = n // 2 + 1 of its members, f = n - q, so that what is safe is known to every
quorum.
Departs: [SVS §4.2] purges on local knowledge; here a message must be safe
(docs/decisions/0021-views.md).
"""

from dataclasses import dataclass, field
from typing import Any, Final

from semcast.core.recipe import Recipe
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.limits import check_finite, check_positive, check_range
from semcast.terms.promises import promised
from semcast.terms.relations import check_order

PROTOCOLS: Final = ("s-vsm", "vsm", "vs")
OVERFLOWS: Final = ("block", "error", "exclude")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRecipe:
    """The settings of a group with views; times are seconds.

    A member that was silent for `timeout_s` is suspected; the timeout adapts upwards, to
    `timeout_max_s` at the most.  A coordinator that waits longer than `patience_s` for an answer
    goes on without it.  An order message waits until all have reported the one before, `order_s` at
    the most.  Under overflow "exclude", a member that holds up a full buffer for `exclude_after_s`
    is put out.  `multicast` has settings of `Recipe`, for every view.
    """

    protocol: str = "s-vsm"
    order: str = "fifo"
    relation: str = "item"
    overflow: str = "block"
    heartbeat_s: float = 0.05
    timeout_s: float = 0.5
    timeout_max_s: float = 5.0
    patience_s: float = 1.0
    retry_s: float = 0.05
    gather_s: float = 0.02
    order_s: float = 0.004
    exclude_after_s: float = 1.0
    chunk_bytes: int = 64 << 10
    multicast: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unknown_value("protocol", self.protocol, PROTOCOLS)
        promised(self.protocol, self.order)
        if self.overflow not in OVERFLOWS:
            raise unknown_value("overflow", self.overflow, OVERFLOWS)
        if self.protocol != "s-vsm":
            object.__setattr__(self, "relation", "none")
        check_order(self.order, self.relation)
        for name in ("heartbeat_s", "timeout_s", "patience_s", "retry_s", "exclude_after_s"):
            check_positive(name, getattr(self, name))
        for name in ("gather_s", "order_s"):
            check_finite(name, getattr(self, name))
        if self.timeout_s < 2 * self.heartbeat_s:
            raise ConfigError(
                f"timeout_s: {self.timeout_s} is less than two heartbeats of {self.heartbeat_s} s"
            )
        if self.timeout_max_s < self.timeout_s:
            raise ConfigError(
                f"timeout_max_s: {self.timeout_max_s} is less than timeout_s, {self.timeout_s}"
            )
        if not self.is_primary and not self.multicast.get("echo", True):
            raise ConfigError(
                "echo: cannot be turned off under vs, which delivers and confirms own messages"
            )
        check_range("chunk_bytes", self.chunk_bytes, 1)
        self.recipe_of(1)

    @property
    def is_primary(self) -> bool:
        """Whether there is one sequence of views, decided by majorities."""
        return self.protocol != "vs"

    def recipe_of(self, members: int) -> Recipe:
        """The reliable multicast inside a view of so many."""
        return Recipe(
            members=members,
            protocol=self.protocol,
            order=self.order,
            relation=self.relation,
            f=members - quorum(members),
            overflow="error" if self.overflow == "error" else "block",
            in_view=True,
            order_s=self.order_s,
            confirms=not self.is_primary,
            **self.multicast,
        )


def quorum(members: int) -> int:
    """How many members of a primary view its successor needs."""
    return members // 2 + 1
