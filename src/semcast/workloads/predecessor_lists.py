"""The same traffic for relations that name messages instead of items."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from semcast.terms.items import Item
from semcast.terms.messages import Update


def list_predecessors(updates: Iterable[Update], k: int) -> Iterator[Update]:
    """Each message names the latest earlier one on its item, if it lies at most `k` back.

    For a stream that starts at message 1 and is sent whole and in order.
    """
    latest: dict[Item, int] = {}
    for seq, update in enumerate(updates, start=1):
        item = update.item
        if item is None:
            yield update
            continue
        before = latest.get(item)
        latest[item] = seq
        if before is None or seq - before > k:
            yield update
        else:
            yield replace(update, obsoletes=(before,))
