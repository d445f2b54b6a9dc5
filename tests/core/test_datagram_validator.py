"""What no member of the group could say: refused without a trace, or proof of being out of it."""

from random import Random

import pytest

from semcast.core.datagram_validator import NAME_MAX
from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.messages import (
    Data,
    DataMessage,
    FrontierVote,
    Nack,
    PurgeNotice,
    SafetyGossip,
    StabilityGossip,
    Update,
    WindowEmpty,
)
from semcast.terms.outputs import Ended
from semcast.terms.views import EXCLUDED

HUGE = 1 << 62
EVERYBODY = b"\7"
FIFO = {"protocol": "s-rm"}
CAUSAL = {"protocol": "s-rm", "order": "causal"}
SM = {"protocol": "s-sm"}
BITMAP = {"relation": "bitmap", "k": 16}
LIST = {"relation": "list"}


def member(settings=FIFO):
    """Member 0 of three, which has sent two messages and heard nothing."""
    made = Member(Recipe(members=3, buffer=8, **settings), 0, Random(1))
    made.submit([Update(), Update()], 0.0, Effects(recording=False))
    return made


def state(of):
    machines = (of, of.stability, of.safety, of.outbox)
    return repr((machines, of.receiver.notices, of.recovery.holders, of.excluded, of.deadline))


def said(message):
    return Data((message,))


REFUSED = [
    (FIFO, said(DataMessage(3, 1))),
    (FIFO, Data((), (PurgeNotice(3, 1, 1, 2),))),
    (FIFO, Nack(3, ((1, 1),), 1, 1)),
    (FIFO, Nack(0, tuple((2 * n, 2 * n) for n in range(1, 66)), 1, 1)),
    (FIFO, Nack(0, ((2, 2), (1, 1)), 1, 1)),
    (FIFO, Nack(0, ((1, 2), (2, 2)), 1, 1)),
    (FIFO, StabilityGossip((FrontierVote(3, 0, 0, b"", 0),))),
    (FIFO, StabilityGossip((FrontierVote(1, 0, 0, b"", 0),) * 4)),
    (FIFO, SafetyGossip((FrontierVote(1, 1, 1, b"\x08", 0),))),
    (FIFO, WindowEmpty(2, 5)),
    (FIFO, said(DataMessage(1, 1, item=1 << 63))),
    (FIFO, said(DataMessage(1, 1, item=1, name="x" * (NAME_MAX + 1)))),
    (FIFO, said(DataMessage(1, 9, covers=b"\1"))),
    (FIFO, said(DataMessage(1, 1, after=((2, 1),)))),
    (CAUSAL, said(DataMessage(1, 1, after=((3, 1),)))),
    (CAUSAL, said(DataMessage(1, 1, after=((1, 1),)))),
    (CAUSAL, said(DataMessage(1, 1, after=((2, 1),) * 3))),
    (BITMAP, said(DataMessage(1, 99, covers=(1,)))),
    (BITMAP, said(DataMessage(1, 99, covers=b"\1\0\1"))),
    (LIST, said(DataMessage(1, 99, covers=(1, 1)))),
    (LIST, said(DataMessage(1, 99, covers=(2, 1)))),
    (LIST, said(DataMessage(1, 9999, covers=tuple(range(1, 4098))))),
    (SM, said(DataMessage(2, 1))),
    (SM, Data((), (PurgeNotice(2, 1, 1, 2),))),
]


@pytest.mark.parametrize(("settings", "datagram"), REFUSED, ids=str)
def test_what_makes_no_sense_is_refused_and_changes_nothing(settings, datagram):
    one = member(settings)
    before, out = state(one), Effects(recording=True)
    one.on_datagrams(1, (datagram,), 0.0, out)
    assert [type(error) for error in out.refused] == [RemoteProtocolError]
    assert state(one) == before
    assert (out.send, out.outputs, out.events) == ([], [], [])


ALLOWED = [
    (FIFO, Nack(0, tuple((n, n) for n in (1, 2)), HUGE, 1)),
    (FIFO, Nack(1, tuple((2 * n, 2 * n) for n in range(1, 65)), 1, 1)),
    (FIFO, said(DataMessage(2, 1, item=(1 << 63) - 1, name="x" * NAME_MAX))),
    (CAUSAL, said(DataMessage(1, 1, after=((2, 1), (0, 2))))),
    (BITMAP, said(DataMessage(1, 99, covers=b"\1\x80"))),
    (BITMAP, said(DataMessage(1, 1, covers=()))),
    (LIST, said(DataMessage(1, 9999, covers=tuple(range(1, 4097))))),
    (FIFO, StabilityGossip(tuple(FrontierVote(rank, 0, 0, b"", 0) for rank in range(3)))),
    (FIFO, StabilityGossip((FrontierVote(0, 2, 2, EVERYBODY, 2),))),
    (FIFO, StabilityGossip((FrontierVote(1, HUGE, HUGE, b"\6", 0),))),
    (FIFO, SafetyGossip((FrontierVote(1, HUGE, HUGE, b"\6", HUGE),))),
]


@pytest.mark.parametrize(("settings", "datagram"), ALLOWED, ids=str)
def test_what_a_peer_may_know_better_is_believed(settings, datagram):
    one = member(settings)
    out = Effects(recording=True)
    one.on_datagrams(1, (datagram,), 0.0, out)
    assert not out.refused
    assert not one.excluded


EXCLUDING = [
    (FIFO, said(DataMessage(0, 3))),
    (FIFO, Data((), (PurgeNotice(0, 1, 2, 3),))),
    (CAUSAL, said(DataMessage(1, 1, after=((0, 3),)))),
    (FIFO, Nack(0, ((1, 3),), 1, 1)),
    (FIFO, StabilityGossip((FrontierVote(0, 3, 0, b"", 0),))),
    (FIFO, SafetyGossip((FrontierVote(0, 0, 0, b"", 3),))),
    (FIFO, StabilityGossip((FrontierVote(1, 0, 0, b"", 1),))),
    (FIFO, StabilityGossip((FrontierVote(1, 5, 5, EVERYBODY, 0),))),
    (FIFO, SafetyGossip((FrontierVote(1, 5, 5, b"\1", 0),))),
]


@pytest.mark.parametrize(("settings", "datagram"), EXCLUDING, ids=str)
def test_what_cannot_be_said_of_this_process_means_that_it_is_out(settings, datagram):
    """It names what this process never sent or reached: another had its rank, or it was left."""
    one, out = member(settings), Effects(recording=True)
    one.on_datagrams(1, (datagram,), 0.0, out)
    assert out.outputs == [Ended(EXCLUDED)]
    assert one.excluded
    assert one.deadline == float("inf")
