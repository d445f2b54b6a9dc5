"""First transmissions of one member that came one after the other, as one datagram.

The machine then takes their messages as one run, which costs it as much as one of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from semcast.kernel import concat_runs
from semcast.terms.messages import Data


def joined_runs(datagrams: Sequence[Any]) -> Iterator[Any]:
    """The datagrams of one member in order, neighbouring first transmissions joined."""
    run: list[Data] = []
    for datagram in datagrams:
        if type(datagram) is Data and not datagram.notices and not datagram.nack_number:
            run.append(datagram)
            continue
        if run:
            yield _joined(run)
            run = []
        yield datagram
    if run:
        yield _joined(run)


def _joined(run: list[Data]) -> Data:
    last = run[-1]
    return (
        last
        if len(run) == 1
        else Data(concat_runs([data.messages for data in run]), safe=last.safe)
    )
