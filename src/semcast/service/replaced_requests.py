"""Which earlier requests a later one replaces, if each request is one message [SVS §5.2].

A message with all updates of a request is obsolete only once a later request has written all the
same items; the *fin* of that request lists it.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from semcast.terms.ids import Seq

REMEMBERED: Final = 1 << 10  # requests; past it less is purged, never what is still needed


class ReplacedRequests:
    """Lives as long as a server; has the requests of one view that nothing has replaced yet."""

    __slots__ = ("_items_by_seq",)

    def __init__(self) -> None:
        self._items_by_seq: OrderedDict[Seq, frozenset[str]] = OrderedDict()

    def replace(self, names: Iterable[str], seq: Seq) -> tuple[Seq, ...]:
        """Message `seq` writes these items; returns the messages that it leaves nothing of."""
        items = frozenset(names)
        found = self._items_by_seq.items()
        replaced = tuple(old for old, wrote in found if self._is_replaced(wrote, items))
        for old in replaced:
            del self._items_by_seq[old]
        self._items_by_seq[seq] = items
        if len(self._items_by_seq) > REMEMBERED:
            self._items_by_seq.popitem(last=False)
        return replaced

    def _is_replaced(self, wrote: frozenset[str], items: frozenset[str]) -> bool:
        return wrote <= items

    def clear(self) -> None:
        """Another view begins; nothing of the one before is held any more."""
        self._items_by_seq.clear()
