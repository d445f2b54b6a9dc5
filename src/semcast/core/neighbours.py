"""Datagrams of one source that came one after the other and are handled as one.

A member takes the messages of several first transmissions as one run, which costs it as much as one
of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from semcast.kernel import concat_runs
from semcast.terms.messages import Data, Datagram
from semcast.terms.views import Stamped, ViewEnvelope


def group_first_transmissions(datagrams: Sequence[Datagram]) -> Iterator[Sequence[Datagram]]:
    """The datagrams in order: first transmissions that continue each other together, others
    alone."""
    together: list[Datagram] = []
    for datagram in datagrams:
        if together and not _continues(together[-1], datagram):
            yield together
            together = []
        together.append(datagram)
    if together:
        yield together


def _continues(before: Datagram, datagram: Datagram) -> bool:
    """Whether both are one run: what is packed must not be unpacked for the sake of it."""
    for each in (before, datagram):
        if type(each) is not Data or each.notices or each.nack_number or not each.messages:
            return False
    head: Any = before.messages  # type: ignore[union-attr]
    tail: Any = datagram.messages  # type: ignore[union-attr]
    is_packed = getattr(head, "is_packed", False)
    if is_packed != getattr(tail, "is_packed", False):
        return False
    if is_packed:
        return bool(head.sender == tail.sender and head.first + head.count == tail.first)
    last, first = head[-1], tail[0]
    return bool(
        (last.sender, last.seq + 1) == (first.sender, first.seq) and not (last.after or first.after)
    )


def join_first_transmissions(group: Sequence[Any]) -> Data:
    """One first transmission with the messages of all."""
    messages = concat_runs([data.messages for data in group])
    return Data(messages, safe=max([data.safe for data in group]))


def group_by_view(
    datagrams: Sequence[Stamped],
) -> Iterator[tuple[Stamped, Sequence[Datagram]]]:
    """The datagrams in order, each with what its sender said next in the same view."""
    first: Stamped | None = None
    said_in: tuple[int, int, int] | None = None
    more: list[Datagram] = []
    for stamped in datagrams:
        inner, place = stamped.datagram, None
        if isinstance(inner, ViewEnvelope):
            place = stamped.lineage, stamped.inc, inner.view
            if place == said_in:
                more.append(inner.datagram)
                continue
        if first is not None:
            yield first, more
        first, said_in, more = stamped, place, []
    if first is not None:
        yield first, more
