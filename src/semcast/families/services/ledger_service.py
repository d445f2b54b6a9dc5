"""The service of simulated runs: every reply depends on every request before."""

from collections.abc import MutableMapping
from typing import Any, Final

ITEMS: Final = 8


class LedgerService:
    """Counts requests.  The n-th writes n into a few of its items, deletes one now and then, fails
    now and then, and replies with n and what it found in the items that it wrote.  Which ones these
    are depends on the `server`, too: only the primary executes, so servers may differ."""

    def __init__(self, server: int) -> None:
        self.server = server
        self.items: MutableMapping[str, Any] = {}

    def execute(self, request: Any) -> Any:
        """Count, write and tell."""
        count = self.items.get("count", 0) + 1
        self.items["count"] = count
        first = count * 7 + self.server * 3
        names = [f"i{(first + step * step) % ITEMS}" for step in range(1 + count % 3)]
        found = [self.items.get(name) for name in names]
        for name in names:
            self.items[name] = count
        if count % 5 == 0:
            self.items.pop(f"i{count % ITEMS}", None)
        if found[0] is not None and found[0] % 11 == 3:
            raise ValueError(f"{names[0]} was {found[0]}")
        return count, found
