"""Datagrams of publish/subscribe groups: sizes, round trips, refusals."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.terms import pubsub
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.messages import DataMessage
from semcast.wire import GROUP_CODEC, PUBSUB_CODEC, encode

PART = pubsub.StreamSpans(3, ((1, 2), (5, 5)))


@pytest.mark.parametrize(
    ("datagram", "size"),
    [
        (pubsub.Publication((DataMessage(1, 2, 7, payload=b"x" * 10),)), 24),
        (pubsub.PublisherHeartbeat(1, 70_000), 8),
        (pubsub.Gossip(0, 2**63, 2**62), 25),
        (pubsub.Gossip(0, 0, 0), 9),
        (pubsub.RepairRequest((PART,)), 12),
        (pubsub.StatusList(0, 0, (pubsub.StreamStatus(1, 200, 200),), True), 13),
        (pubsub.Ack(PART, 3), 12),
        (pubsub.ResyncRequest(1), 3),
    ],
)
def test_datagrams_are_small_and_come_back(datagram, size) -> None:
    data = encode(datagram)
    assert len(data) == size
    assert PUBSUB_CODEC.decode(data) == datagram
    with pytest.raises(RemoteProtocolError):
        GROUP_CODEC.decode(data)


@pytest.mark.parametrize(
    "datagram",
    [
        pubsub.PublisherHeartbeat(-1, 1),
        pubsub.PublisherHeartbeat(1, 0),
        pubsub.RepairRequest((pubsub.StreamSpans(1, ((5, 4),)),)),
        pubsub.RepairRequest((pubsub.StreamSpans(1, ((1, 4), (4, 6))),)),
        pubsub.RepairRequest((pubsub.StreamSpans(1, ()),)),
        pubsub.Gossip(-2, 0, 0),
        pubsub.Gossip(0, -1, 0),
        pubsub.StatusList(0, 0, (pubsub.StreamStatus(1, 2, 3),), False),
        pubsub.MemberList(0, 5, (pubsub.MemberEntry(1, 4, 0),), False),
        pubsub.Repair((), (), 101),
        pubsub.RecoveryQuery((0, 5)),
        pubsub.Publication((DataMessage(1, 0),)),
    ],
)
def test_numbers_that_cannot_be_are_refused(datagram) -> None:
    with pytest.raises(RemoteProtocolError):
        PUBSUB_CODEC.decode(encode(datagram))


def test_lists_are_bounded() -> None:
    spans = tuple((2 * n + 1, 2 * n + 1) for n in range(pubsub.SPANS_MAX + 1))
    with pytest.raises(RemoteProtocolError):
        PUBSUB_CODEC.decode(encode(pubsub.UnusedSeqs(pubsub.StreamSpans(1, spans))))


@given(st.binary(max_size=60))
def test_only_remote_protocol_errors_escape(data) -> None:
    try:
        datagram = PUBSUB_CODEC.decode(data)
    except RemoteProtocolError:
        return
    assert PUBSUB_CODEC.decode(encode(datagram)) == datagram


def test_records_come_back_from_disk() -> None:
    records = [
        pubsub.ReservedBlock(256, 3),
        pubsub.Appended(DataMessage(1, 2, payload=b"x")),
        pubsub.Superseded(1, 2, 5),
        pubsub.ResolvedSeqs(PART, True),
        pubsub.Reclaimed(1, 9),
        pubsub.MemberRecord(pubsub.MemberEntry(3, pubsub.MEMBER, 4)),
        pubsub.SubscriptionRecord(2, (pubsub.StreamStatus(1, 5, 5),)),
        pubsub.Cursor(1, 7),
        pubsub.Unsubscribed(),
        pubsub.Synchronised(),
    ]
    for record in records:
        data = msgspec.msgpack.encode(record)
        assert msgspec.msgpack.decode(data, type=pubsub.Record) == record
