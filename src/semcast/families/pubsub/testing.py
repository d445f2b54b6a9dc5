"""What the simulator needs of publish/subscribe."""

from collections.abc import Sequence
from random import Random
from typing import Final

from semcast.core.pubsub.participant import Participant
from semcast.families.case import AnyCase
from semcast.families.pubsub.draw import PubsubCase, draw
from semcast.families.pubsub.judge import PubsubReferee
from semcast.families.pubsub.mutants import MUTANTS
from semcast.families.pubsub.scenarios import SCENARIOS
from semcast.families.testing import Testing
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Command, JoinGroup
from semcast.terms.records import Records


def machine(
    case: AnyCase, life: Incarnation, rng: Random, now: float, records: Records
) -> Participant:
    """A participant that may decline messages, or not know of founders."""
    k = case.more.declines.get(life.pid)
    return Participant(
        case.recipe,
        life.pid,
        rng,
        now,
        inc=life.inc - 1,
        records=records,
        interest=None if k is None else lambda sender, seq: bool(seq % k),
        unaware_of=case.more.unaware.get(life.pid, ()),
    )


def begins(case: AnyCase, life: Incarnation) -> Sequence[Command]:
    """Everybody subscribes who is not silent."""
    return () if life.pid in case.more.silent else (JoinGroup(),)


TESTING: Final = Testing(
    case=PubsubCase,
    draw=draw,
    referee=PubsubReferee,
    machine=machine,
    chance=lambda life: ("participant", life.pid, life.inc - 1),
    begins=begins,
    scenarios=SCENARIOS,
    mutants=MUTANTS,
)
