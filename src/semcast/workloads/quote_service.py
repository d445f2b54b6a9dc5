"""A replicated service that keeps the latest quotes of stocks, and takes its time."""

from collections.abc import Callable, MutableMapping
from itertools import count
from typing import Any


class QuoteService:
    """A request names items; each gets the number of the request as its new value.
    `spend(items)` lets the time pass that this takes."""

    def __init__(self, spend: Callable[[int], object]) -> None:
        self.items: MutableMapping[str, Any] = {}
        self._spend = spend
        self._numbers = count(1)

    def execute(self, request: Any) -> Any:
        """Write the items; the reply is the number."""
        number = next(self._numbers)
        for name in request:
            self.items[name] = number
        self._spend(len(request))
        return number
