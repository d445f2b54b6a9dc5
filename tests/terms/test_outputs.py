"""Outputs are values in one order; a run stays what it is until somebody reads it."""

import pytest

from semcast import kernel
from semcast.terms.messages import Data, DataMessage
from semcast.terms.outputs import ROOM, Delivery, Ended, Room, delivered
from semcast.wire import encode

RUN = tuple(DataMessage(1, seq, payload=b"x") for seq in range(1, 6))


def test_delivered_messages_come_one_by_one_whatever_their_runs_are():
    packed, _ = kernel.parse_run(encode(Data(RUN[1:4])))
    first, last = kernel.run_of([RUN[0]]), kernel.run_of([RUN[4]])
    outputs = [Delivery(first), ROOM, Delivery(packed, skipped=2), Delivery(last)]
    assert delivered(outputs) == list(RUN)
    assert outputs[2].run is packed


def test_they_are_values():
    assert Room() == ROOM
    assert Ended("left") != Ended("excluded")
    with pytest.raises(AttributeError, match="immutable"):
        Delivery(kernel.run_of([*RUN])).skipped = 1  # type: ignore[misc]
