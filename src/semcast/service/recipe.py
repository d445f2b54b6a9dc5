"""Settings of the servers and clients of a replicated service."""

from dataclasses import dataclass, field
from math import inf
from typing import Final

from semcast.core.views.recipe import ViewRecipe
from semcast.terms.errors import ConfigError, unknown_value

PRIMARY_BACKUP: Final = "primary-backup"


def default_group() -> ViewRecipe:
    """Updates are purged by the relation of SVS figure 2."""
    return ViewRecipe(relation="update-fin")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecipe:
    """The settings of a service; times are seconds.

    `group` is the group of its servers: fifo order, and one of the relations of a service, or the
    reliable protocol.  With `update-fin` each update is a message; with `list` all updates of a
    request are one, which is fewer messages, but fewer of them become obsolete [SVS §5.2].  What
    was not answered is asked for again after `retry_s`, which a client doubles each time up to
    `retry_max_s`; after `give_up_s` it stops.  The servers remember the last reply to each of the
    `sessions_max` clients that asked last, unless that was more than `session_s` ago.
    """

    protocol: str = PRIMARY_BACKUP
    order: str = "fifo"
    group: ViewRecipe = field(default_factory=default_group)
    retry_s: float = 0.1
    retry_max_s: float = 1.0
    give_up_s: float = 30.0
    sessions_max: int = 10_000
    session_s: float = 3600.0

    def __post_init__(self) -> None:
        if self.protocol != PRIMARY_BACKUP:
            raise unknown_value("protocol", self.protocol, (PRIMARY_BACKUP,))
        for order in (self.order, self.group.order):
            if order != "fifo":
                raise ConfigError(f"order: {self.protocol} needs fifo, not {order}")
        if not self.group.is_primary:
            raise ConfigError(f"group: {self.protocol} needs s-vsm or vsm, not vs")
        if self.relation not in ("update-fin", "list", "none"):
            raise ConfigError(
                f"relation: {self.protocol} needs update-fin, list or none, not {self.relation}"
            )
        if not self.group.multicast.get("echo", True):
            raise ConfigError(
                "echo: a primary applies its own updates when the group delivers them"
            )
        for name in ("retry_s", "retry_max_s", "give_up_s", "session_s"):
            if not 0 < getattr(self, name) < inf:
                raise ConfigError(f"{name}: {getattr(self, name)} is not above 0")
        if self.sessions_max < 1:
            raise ConfigError(f"sessions_max: {self.sessions_max} is not at least 1")

    @property
    def is_primary(self) -> bool:
        """Whether there is one sequence of views."""
        return self.group.is_primary

    @property
    def relation(self) -> str:
        """The relation of the group."""
        return self.group.relation

    @property
    def packs_updates(self) -> bool:
        """Whether all updates of a request are one message."""
        return self.relation == "list"
