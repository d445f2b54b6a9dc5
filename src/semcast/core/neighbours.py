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
    """The datagrams in order: neighbouring first transmissions together, others alone."""
    together: list[Datagram] = []
    for datagram in datagrams:
        if type(datagram) is Data and not datagram.notices and not datagram.nack_number:
            together.append(datagram)
            continue
        if together:
            yield together
            together = []
        yield (datagram,)
    if together:
        yield together


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
