"""The application's state, piece by piece."""

import pytest

from semcast.core.views.recipe import ViewRecipe
from semcast.core.views.state_transfer import StateTransfer
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import Incarnation
from semcast.terms.views import StateChunk, StateRequest

JOINER = Incarnation(5, 1)


class Wire:
    """A donor (process 1) and a joiner (process 5), and a network that loses what it is told to."""

    def __init__(self, chunk_bytes=4):
        recipe = ViewRecipe(chunk_bytes=chunk_bytes)
        self.donor, self.joiner = StateTransfer(recipe), StateTransfer(recipe)
        self.donor.on_view(2, (JOINER,), gives=True)
        self.now = 0.0
        self.asked = []

    def carry(self, out, lose=lambda datagram: False):
        while out.send:
            _, datagram = out.send.pop(0)
            if lose(datagram):
                continue
            if isinstance(datagram, StateRequest):
                self.asked.append(datagram.offset)
                self.donor.on_state_request(5, datagram, out)
            else:
                self.joiner.on_chunk(1, datagram, self.now, out)

    def want(self, **carry):
        out = Effects(recording=False)
        self.joiner.request_state(2, 1, self.now, out)
        self.carry(out, **carry)

    def give(self, state, **carry):
        out = Effects(recording=False)
        self.donor.on_state(2, state, out)
        self.carry(out, **carry)

    def wait(self, **carry):
        out = Effects(recording=False)
        self.now = self.joiner.deadline
        self.joiner.on_time(self.now, out)
        self.carry(out, **carry)


@pytest.mark.parametrize("state", [b"", b"abc", b"abcd", b"abcdefghi"])
def test_it_comes_whole(state):
    wire = Wire()
    wire.give(state)
    wire.want()
    assert wire.joiner.state == state
    assert not wire.joiner.is_waiting
    wire.donor.on_stateful(Incarnation(5, 2))
    assert 2 in wire.donor.states, "another life of it"
    wire.donor.on_stateful(JOINER)
    assert not wire.donor.states
    assert not wire.donor.receivers


def test_who_asks_before_the_application_gave_it_is_answered_then():
    wire = Wire()
    wire.want()
    assert wire.joiner.is_waiting
    wire.give(b"abcdefghi")
    assert wire.joiner.state == b"abcdefghi"


def test_it_goes_on_where_it_broke_off():
    wire = Wire()
    wire.give(b"abcdefghi")
    wire.want(lose=lambda d: isinstance(d, StateChunk) and d.offset == 4)
    assert wire.joiner.state is None
    wire.wait()
    assert wire.joiner.state == b"abcdefghi"
    assert wire.asked == [0, 4, 4, 8]


def test_pieces_that_are_not_the_next_or_from_others_are_ignored():
    wire = Wire()
    wire.want()
    out = Effects(recording=False)
    for source, chunk in [
        (3, StateChunk(2, 0, 4, b"evil")),
        (1, StateChunk(1, 0, 4, b"old!")),
        (1, StateChunk(2, 4, 9, b"next")),
    ]:
        wire.joiner.on_chunk(source, chunk, 0.0, out)
    assert wire.joiner.is_waiting
    assert not wire.joiner.received


def test_an_offset_beyond_the_state_is_refused():
    wire = Wire()
    wire.give(b"abc")
    with pytest.raises(RemoteProtocolError, match="offset 9"):
        wire.donor.on_state_request(5, StateRequest(2, 9), Effects(recording=False))


def test_a_state_is_kept_while_somebody_waits_for_it():
    wire = Wire()
    wire.give(b"abc")
    wire.donor.on_view(3, (JOINER,), gives=False)
    assert 2 in wire.donor.states
    wire.donor.on_view(4, (), gives=False)
    assert not wire.donor.states


def test_nobody_else_gets_it():
    wire = Wire()
    wire.give(b"abc")
    out = Effects(recording=False)
    wire.donor.on_state_request(6, StateRequest(2, 0), out)
    assert not out.send
