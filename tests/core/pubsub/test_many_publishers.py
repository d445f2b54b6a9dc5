"""As many publishers as a datagram can name, and not one more: that one is told."""

from random import Random

import pytest

from semcast.core.pubsub.participant import Participant
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.events import DISCARD
from semcast.terms.machine import JoinGroup
from semcast.terms.messages import DataMessage, Update
from semcast.terms.pubsub import STREAMS_MAX, Join, Publication, Welcome

RECIPE = PubsubRecipe(members=STREAMS_MAX + 10, protocol="pbcast")


def member(pid: int) -> Participant:
    participant = Participant(RECIPE, pid, Random(1), 0.0)
    participant.on_command(JoinGroup(), 0.0, Effects(recording=False))
    return participant


def test_one_too_many_cannot_publish_and_says_so() -> None:
    last, beyond = member(STREAMS_MAX - 1), member(STREAMS_MAX)
    assert last.submit([Update(b"x")], 0.0, Effects(recording=False)) == 1
    with pytest.raises(LocalProtocolError, match=r"^publish: process 4096 cannot publish"):
        beyond.submit([Update(b"x")], 0.0, Effects(recording=False))


def test_what_it_sends_all_the_same_is_recorded_as_discarded() -> None:
    out = Effects(recording=True)
    message = DataMessage(STREAMS_MAX, 1, payload=b"x")
    member(0).on_datagrams(STREAMS_MAX, (Publication((message,)),), 0.0, out)
    assert [event.kind for event in out.events or ()] == [DISCARD]


def test_all_others_are_followed_and_a_welcome_names_every_one() -> None:
    follower = member(0)
    for sender in range(1, STREAMS_MAX):
        published = Publication((DataMessage(sender, 1, payload=b"x"),))
        follower.on_datagrams(sender, (published,), 0.0, Effects(recording=False))
    assert len(follower.tracker.streams) == STREAMS_MAX - 1
    follower.membership._is_sampled = lambda: True  # type: ignore[method-assign]
    out = Effects(recording=False)
    follower.on_datagrams(STREAMS_MAX + 1, (Join(5),), 0.0, out)
    [welcome] = [sent for _, sent in out.send if isinstance(sent, Welcome)]
    assert {heard.sender for heard in welcome.lasts} == set(range(1, STREAMS_MAX))
