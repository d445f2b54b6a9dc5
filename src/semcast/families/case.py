"""One run of a swarm, as a value: the same case gives the same trace, byte for byte.

A case has a safety phase, in which faults happen and applications send, and a liveness phase, in
which they have stopped.  All families use the same fields, except `recipe` and `more`, which have
the settings of one family.
"""

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from semcast.faults import Constant, Fault, Latency, Link
from semcast.terms.messages import Update
from semcast.terms.relations import LISTED, facts_of

R = TypeVar("R")
M = TypeVar("M")

Through: TypeAlias = Literal["objects", "bytes", "fingerprint"]
LAST_WORD = Update(payload=b"last", never_purge=True)


class SenderLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What one member sends: `count` messages over `items` items, a share `keep` never purged."""

    pid: int
    rate: float
    count: int
    items: int
    overwrite: float
    keep: float
    batch: int
    size: int


class NoMore(msgspec.Struct, frozen=True):
    """Of a family that needs nothing beside."""


class Case(msgspec.Struct, Generic[R, M], frozen=True, kw_only=True):
    """A group of `processes`, its load, its network, and its faults.

    The application of p spends `service_s[p]` on each message and takes `take[p]` at a time; who is
    not named is always ready.  `busy_s[p]` is the processor time that p is charged for each input.
    With `idle_s` a machine is told so long after it was sent something that the loop has turned.
    Datagrams travel as objects, or are decoded from their bytes, or are compared with their bytes
    at arrival.  With `is_watched` the automaton of the channel sees every datagram.  The run must
    settle within `quiet_within_s`; quiet is what was still for `still_s`.  With `has_last_words`
    everybody then sends once more, which hides what was not delivered before: not in every case.
    """

    seed: int
    recipe: R
    processes: int
    senders: tuple[SenderLoad, ...]
    service_s: dict[int, float] = {}
    take: dict[int, int] = {}
    busy_s: dict[int, float] = {}
    idle_s: float | None = None
    link: Link
    sync: Latency = Constant(0.0)
    faults: tuple[Fault, ...] = ()
    phase_s: float
    quiet_within_s: float
    still_s: float
    through: Through = "objects"
    is_watched: bool = False
    has_last_words: bool = False
    more: M


AnyCase: TypeAlias = Case[Any, Any]


class CaseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a case went.  `violations` has examples, `count` is the number of all; `obligations`
    says of each property promised how often it could have been broken."""

    seed: int
    events: int
    crashed: int
    violations: tuple[str, ...]
    count: int
    obligations: dict[str, int] = {}


def updates_of(sender: SenderLoad, relation: str, reach: int, rng: Random) -> Iterator[Update]:
    """What a sender's application says, in the form that the relation takes; a message names none
    that is more than `reach` before it."""
    payload, lists = bytes(sender.size), facts_of(relation).replaces == LISTED
    recent: deque[int] = deque(maxlen=8)  # sequence numbers a list may name
    for seq in range(1, sender.count + 1):
        overwrites = rng.random() < sender.overwrite
        item = rng.randrange(sender.items) if overwrites else None
        named: tuple[int, ...] = ()
        if lists and overwrites:
            near = [old for old in recent if seq - old <= reach]
            named = tuple(sorted(rng.sample(near, min(len(near), rng.choice((1, 1, 2))))))
        if overwrites:
            recent.append(seq)
        yield Update(
            payload=payload, item=item, obsoletes=named, never_purge=rng.random() < sender.keep
        )
