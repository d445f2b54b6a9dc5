"""First transmissions in views stay bytes, and nothing becomes one that msgspec would refuse."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast import kernel
from semcast.terms.messages import Data, DataMessage, WindowEmpty
from semcast.terms.views import Stamped, ViewEnvelope
from semcast.wire import VIEW_CODEC, codec, encode

RUN = tuple(DataMessage(1, seq, seq % 3, payload=bytes(seq), name="a") for seq in range(5, 12))
_decoder = msgspec.msgpack.Decoder(Stamped)


@pytest.fixture(autouse=True)
def _scanning(monkeypatch):
    monkeypatch.setattr(codec, "SCANS", True)


@pytest.mark.parametrize("lineage", [0, 7, 300, 2**64 - 1])
@pytest.mark.parametrize("view", [1, 127, 128, 255, 256, 70_000, 2**32 - 1, 2**40])
def test_a_first_transmission_stays_bytes(view, lineage):
    sent = Stamped(lineage, view, ViewEnvelope(view, Data(RUN, safe=9)))
    found = VIEW_CODEC.decode(encode(sent))
    assert (found.lineage, found.inc) == (lineage, view)
    inside = found.datagram
    assert isinstance(inside.datagram.messages, kernel.Run)
    assert (inside.view, inside.datagram.safe) == (view, 9)
    assert tuple(inside.datagram.messages) == RUN
    assert encode(found) == encode(sent)


def test_the_rest_is_decoded():
    sent = Stamped(5, 1, ViewEnvelope(3, WindowEmpty(1, 5)))
    assert VIEW_CODEC.decode(encode(sent)) == sent


@given(st.sampled_from([1, 200, 70_000, 2**40]), st.data())
@settings(max_examples=300)
def test_what_is_taken_for_one_is_one(view, data):
    damaged = bytearray(encode(Stamped(2**63 + view, 9, ViewEnvelope(view, Data(RUN)))))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        found = VIEW_CODEC.decode(bytes(damaged))
    except codec.RemoteProtocolError:
        return
    inside = found.datagram
    if isinstance(inside, ViewEnvelope) and isinstance(inside.datagram, Data):
        stamped = _decoder.decode(bytes(damaged))
        same = stamped.datagram
        assert (found.lineage, found.inc) == (stamped.lineage, stamped.inc)
        assert (inside.view, inside.datagram.safe) == (same.view, same.datagram.safe)
        assert tuple(inside.datagram.messages) == same.datagram.messages
