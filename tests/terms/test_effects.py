"""Deliveries are a list of messages to whoever wants one, and runs to whoever goes by them."""

import pytest

from semcast import kernel
from semcast.terms.effects import Deliveries
from semcast.terms.messages import Data, Message
from semcast.wire import encode

RUN = tuple(Message(1, seq, payload=b"x") for seq in range(1, 6))


@pytest.fixture
def deliveries():
    """Single ones, then a batch, then a single one."""
    made = Deliveries()
    made += RUN[:1]
    made.append(RUN[1])
    made += kernel.scan(encode(Data(RUN[2:4])))
    made += [RUN[4]]
    return made


def test_they_are_messages_in_order(deliveries):
    assert len(deliveries) == 5
    assert list(deliveries) == list(RUN)
    assert deliveries == list(RUN)
    assert deliveries != RUN[1:]
    assert repr(deliveries) == repr(list(RUN))


def test_single_messages_make_runs_and_batches_stay_whole(deliveries):
    assert [len(run) for run in deliveries.runs] == [2, 2, 1]
    assert isinstance(deliveries.runs[1], kernel.Batch)


def test_they_can_be_asked_for_one_and_cut(deliveries):
    assert deliveries[3] == RUN[3]
    assert deliveries[1:3] == list(RUN[1:3])
    del deliveries[3:]
    assert (len(deliveries), list(deliveries)) == (3, list(RUN[:3]))
    deliveries.clear()
    assert not deliveries
    assert deliveries.runs == []


def test_what_was_added_stays_the_adders():
    mine = [RUN[0]]
    deliveries = Deliveries()
    deliveries += mine
    deliveries += RUN[1:]
    del deliveries[:]
    assert mine == [RUN[0]]
