"""Numbers, room and retransmission to loggers."""

import pytest

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.errors import BufferFull, LocalProtocolError
from semcast.terms.messages import Update
from semcast.terms.pubsub import Ack, Gossip, Publication, ReservedBlock, ResyncRequest, StreamSpans


def test_subscribers_never_hold_a_publisher_up(group) -> None:
    wire = group(PubsubRecipe(members=4, buffer=4), sync_s=0.0)
    wire.lose = lambda source, target, datagram: target in (2, 3) or source in (2, 3)
    for _ in range(20):
        assert wire.send(1, None) == 1
        wire.run(0.01)
    assert len(wire.kinds("acknowledge", 1)) == 20


def test_loggers_do_and_room_is_told_when_they_are_back(group) -> None:
    wire = group(PubsubRecipe(members=3, buffer=4), sync_s=0.0)
    wire.lose = lambda source, target, datagram: target == 0
    wire.run(0.01)
    assert wire.send(1, *[None] * 6) == 4
    assert wire.send(1, None) == 0
    wire.roomy.clear()
    wire.lose = lambda source, target, datagram: False
    wire.run(1)
    assert wire.roomy == {1}
    assert wire.send(1, None, None) == 2


def test_an_error_instead_of_waiting_on_request(group) -> None:
    wire = group(PubsubRecipe(members=2, buffer=1, overflow="error"), sync_s=0.0)
    wire.lose = lambda source, target, datagram: True
    assert wire.send(1, None, None) == 1
    with pytest.raises(BufferFull, match=r"^buffer full: "):
        wire.send(1, None)


def test_what_came_before_an_impossible_update_is_on_its_way(group) -> None:
    wire = group(PubsubRecipe(members=2, relation="item", message_bytes=100), sync_s=0.0)
    wire.send(1, 1)
    wire.run(0.1)
    with pytest.raises(LocalProtocolError, match=r"^payload: "):
        wire.do(1, "submit", [Update(item=2), Update(b"x" * 200), Update(item=3)])
    wire.run(0.1)
    assert wire.seqs(0, 1) == wire.seqs(1, 1) == [1, 2]


def test_no_number_leaves_before_its_block_is_on_disk(group) -> None:
    wire = group(PubsubRecipe(members=2, block=4), sync_s=0.05)
    assert wire.send(1, *[None] * 10) == 10
    for _ in range(40):
        wire.run(0.01)
        promised = max((r.upto for r in wire.durable[1] if isinstance(r, ReservedBlock)), default=0)
        sent = [m.seq for _, _, d in wire.sends(Publication, 1) for m in d.messages]
        assert max(sent, default=0) <= promised
    assert sorted(wire.seqs(0, 1)) == list(range(1, 11))


def test_copies_are_counted_by_logger_and_lost_acks_are_derived_from_gossip(group) -> None:
    """[RPB §5.2]: "derive ACKs from logger's gossip, if the initial ACK was lost"."""
    wire = group(PubsubRecipe(members=4, loggers=(0, 1, 2), copies=2), sync_s=0.0)
    wire.lose = lambda source, target, datagram: isinstance(datagram, Ack) or target == 2
    wire.send(3, None)
    wire.run(10)
    assert [e.seq for e in wire.kinds("acknowledge", 3)] == [1]
    appended = {e.pid for e in wire.kinds("append")}
    assert appended == {0, 1}
    assert any(d.streams for _, target, d in wire.sends(Gossip) if target == 3)


def test_a_group_of_one_talks_to_itself(group) -> None:
    wire = group(PubsubRecipe(members=1, relation="item"))
    wire.send(0, 1, 2, 3)
    wire.run(3)
    assert wire.seqs(0) == [1, 2, 3]
    assert [e.seq for e in wire.kinds("acknowledge")] == [1, 2, 3]
    assert wire.kinds("reclaim")[-1].seq == 3
    assert not wire.sends(Ack)


def test_an_acknowledgement_of_a_disk_that_is_gone_does_not_count(group) -> None:
    wire = group(PubsubRecipe(members=4, loggers=(0, 1, 2), copies=2), sync_s=0.0)
    wire.lose = lambda source, target, datagram: True
    wire.send(3, None)
    wire.run(0.1)
    ack = Ack(StreamSpans(3, ((1, 1),)))
    wire.hand(0, 3, ack)
    wire.hand(0, 3, ResyncRequest(1))
    wire.hand(1, 3, ack)
    assert not wire.kinds("acknowledge"), "the first of the two copies was lost"
    wire.hand(0, 3, ack)
    assert not wire.kinds("acknowledge"), "it was on its way before"
    wire.hand(0, 3, Ack(StreamSpans(3, ((1, 1),)), 1))
    assert [e.seq for e in wire.kinds("acknowledge")] == [1]
