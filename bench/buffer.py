"""Nanoseconds per message of the purging buffers, and what the semantic index is worth.

Each message is pushed to a delivery queue that holds at most N; one of four is popped, so the
queue is under 4:1 overload.  The linear queue does the same without an index: it looks at every
message that waits.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

from side_by_side import report, side_by_side

from semcast.core.order.fifo import FifoQueue
from semcast.core.recipe import Recipe
from semcast.core.relation import make_annotator
from semcast.kernel import run_of
from semcast.terms.messages import DataMessage, Update
from semcast.workloads.predecessor_lists import list_predecessors
from semcast.workloads.stock import quotes

MESSAGES = 20_000


def messages(recipe: Recipe) -> list[DataMessage]:
    """The stock mix, annotated for the recipe's relation."""
    mix: Iterator[Update] = quotes(Random(1), size=100)
    if recipe.relation in ("bitmap", "list"):
        mix = list_predecessors(mix, recipe.k)
    notes = make_annotator(recipe)
    annotated = []
    for seq, update in enumerate(islice(mix, MESSAGES), start=1):
        annotation = notes.annotate(seq, update.item, update)
        notes.remember(seq, annotation)
        item, covers, keep = annotation
        annotated.append(DataMessage(0, seq, item, covers, keep, (), update.payload))
    return annotated


def through_queue(recipe: Recipe, held: int) -> Callable[[], int]:
    """Push everything; pop every fourth time, and whenever more than `held` wait."""
    stream = messages(recipe)

    def run() -> int:
        queue = FifoQueue(recipe)
        for place, message in enumerate(stream):
            queue.push(run_of([message]))
            if place % 4 == 3 or len(queue) > held:
                queue.pop(1)
        return len(stream)

    return run


def through_linear_search(held: int) -> Callable[[], int]:
    """The same without an index."""
    stream = messages(Recipe(members=2))

    def run() -> int:
        queue: deque[DataMessage] = deque()
        for place, message in enumerate(stream):
            queue = deque(m for m in queue if m.item != message.item)
            queue.append(message)
            if place % 4 == 3 or len(queue) > held:
                queue.popleft()
        return len(stream)

    return run


def main() -> None:
    """Print the tables."""
    for held in (40, 400):
        candidates = {
            "no relation": through_queue(Recipe(members=2, relation="none"), held),
            "item tags": through_queue(Recipe(members=2), held),
            "item tags, order item": through_queue(Recipe(members=2, order="item"), held),
            "bitmap k=256": through_queue(Recipe(members=2, relation="bitmap"), held),
            "lists": through_queue(Recipe(members=2, relation="list"), held),
            "item tags, linear search": through_linear_search(held),
        }
        rounds = side_by_side(candidates)
        report(f"delivery queue, at most {held} waiting, stock mix", "message", rounds, "item tags")


if __name__ == "__main__":
    main()
