"""First transmissions in views stay bytes, and nothing becomes one that msgspec would refuse."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast import kernel
from semcast.terms.messages import Data, Message, WindowEmpty
from semcast.terms.views import Enclosed, ViewDatagram
from semcast.wire import codec, encode
from semcast.wire.views import decode_view

RUN = tuple(Message(1, seq, seq % 3, payload=bytes(seq), name="a") for seq in range(5, 12))
_decoder = msgspec.msgpack.Decoder(ViewDatagram)


@pytest.fixture(autouse=True)
def _scanning(monkeypatch):
    monkeypatch.setattr(codec, "SCANS", True)


@pytest.mark.parametrize("view", [1, 127, 128, 255, 256, 70_000, 2**32 - 1])
def test_a_first_transmission_stays_bytes(view):
    sent = Enclosed(view, Data(RUN, safe=9))
    found = decode_view(encode(sent))
    assert isinstance(found.datagram.messages, kernel.Batch)
    assert (found.view, found.datagram.safe) == (view, 9)
    assert tuple(found.datagram.messages) == RUN
    assert encode(found) == encode(sent)


@pytest.mark.parametrize("sent", [Enclosed(2**40, Data(RUN)), Enclosed(3, WindowEmpty(1, 5))])
def test_the_rest_is_decoded(sent):
    assert decode_view(encode(sent)) == sent


@given(st.sampled_from([1, 200, 70_000, 2**40]), st.data())
@settings(max_examples=300, deadline=None)
def test_what_is_taken_for_one_is_one(view, data):
    damaged = bytearray(encode(Enclosed(view, Data(RUN))))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        found = decode_view(bytes(damaged))
    except codec.RemoteProtocolError:
        return
    if isinstance(found, Enclosed) and isinstance(found.datagram, Data):
        same = _decoder.decode(bytes(damaged))
        assert (found.view, found.datagram.safe) == (same.view, same.datagram.safe)
        assert tuple(found.datagram.messages) == same.datagram.messages
