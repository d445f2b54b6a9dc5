"""Puts together what clients of one process and a server of the store say to each other at once.

A frame for each request would cost client and server more than the request itself.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from semcast.terms.store import BUNDLE_MAX, StoreBundle, StoreReply, StoreRequest

HEAD_BYTES: Final = 72  # of a request or a reply, at most, beside its bodies
BODY_BYTES: Final = 40  # of a body, at most, for what stands beside it


def bundled(
    parts: Iterable[StoreRequest | StoreReply], bytes_max: int
) -> Iterator[StoreRequest | StoreReply | StoreBundle]:
    """The parts in their order, as many together as `bytes_max` lets; a larger one goes alone."""
    together: list[StoreRequest | StoreReply] = []
    size = 0
    for part in parts:
        own = HEAD_BYTES + _body_bytes(part)
        if together and (size + own > bytes_max or len(together) == BUNDLE_MAX):
            yield _joined(together)
            together, size = [], 0
        together.append(part)
        size += own
    if together:
        yield _joined(together)


def _body_bytes(part: StoreRequest | StoreReply) -> int:
    if isinstance(part, StoreRequest):
        return BODY_BYTES * len(part.bodies) + sum(map(len, part.bodies))
    size = 0
    for answer in part.answers:
        size += BODY_BYTES + len(answer.body)
    return size


def _joined(
    together: list[StoreRequest | StoreReply],
) -> StoreRequest | StoreReply | StoreBundle:
    return together[0] if len(together) == 1 else StoreBundle(tuple(together))
