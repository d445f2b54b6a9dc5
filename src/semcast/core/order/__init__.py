"""Orders: which admitted message the application gets next.  One value for each in `ORDERS`.

An order is a queue, and for some orders an `Ordering`, which adds messages that come after others,
or messages that give others their places.  Without one, a member only tests that there is none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from semcast.core.order.causal import Causal
from semcast.core.order.fifo import FifoQueue
from semcast.core.order.item import ItemQueue
from semcast.core.order.protocols import Ordering, Queue
from semcast.core.order.total import SequencedOrder, TotalOrderQueue
from semcast.core.recipe import Recipe
from semcast.terms.ids import Seq


@dataclass(frozen=True, slots=True)
class Order:
    """`queue` is made from the recipe and the numbers that the streams of the view start after,
    `ordering` from recipe, view, own rank, buffers and frontiers.

    If it `gives_places`, every message waits for its place in the queue, even if the application
    is ready, and messages that come after others are those that give places.  If messages
    `come_after` others, each one says which it comes after.
    """

    queue: Callable[[Recipe, Sequence[Seq]], Queue]
    ordering: Callable[..., Ordering] | None = None
    gives_places: bool = False
    come_after: bool = False


ORDERS: dict[str, Order] = {
    "fifo": Order(FifoQueue),
    "item": Order(ItemQueue),
    "causal": Order(FifoQueue, Causal, come_after=True),
    "total": Order(TotalOrderQueue, SequencedOrder, gives_places=True),
}
