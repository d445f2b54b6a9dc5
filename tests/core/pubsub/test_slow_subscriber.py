"""An application that is not ready: what waits for it, what is refused, and who never notices."""

import pytest

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.messages import DataMessage, PurgeNotice
from semcast.terms.pubsub import Cursor, Publication, Repair, RepairRequest, StreamSpans

BUFFER = 8


@pytest.mark.parametrize("protocol", ["lbrm", "rpbcast"])
@pytest.mark.parametrize("order", ["none", "fifo"])
def test_it_holds_up_nobody_but_itself(group, protocol: str, order: str) -> None:
    """§1.1: the sender is never stalled by a subscriber."""
    recipe = PubsubRecipe(members=3, protocol=protocol, order=order, buffer=BUFFER)
    wire = group(recipe, sync_s=0.0, ready=0)
    wire.do(1, "on_ready", 1000)
    for _ in range(10):
        assert wire.send(1, *[None] * 5) == 5
        wire.run(0.1)
        assert wire.people[2].delivery.waiting <= BUFFER
    assert len(wire.seqs(1, 1)) == 50
    assert not wire.seqs(2, 1)
    for count in range(1, 51):
        wire.do(2, "on_ready", 1)
        wire.run(0.2)
        assert len(wire.seqs(2, 1)) == count
    assert sorted(wire.seqs(2, 1)) == list(range(1, 51))


def test_it_asks_for_nothing_while_it_has_no_room(group) -> None:
    wire = group(PubsubRecipe(members=3, protocol="lbrm", buffer=BUFFER), sync_s=0.0, ready=0)
    wire.send(1, *[None] * BUFFER)
    wire.run(0.1)
    wire.send(1, *[None] * BUFFER)
    wire.run(1.0)
    assert not wire.sends(RepairRequest, 2)
    wire.do(2, "on_ready", 1)
    wire.run(0.05)
    assert wire.sends(RepairRequest, 2)


def test_readiness_may_be_taken_back(group) -> None:
    wire = group(PubsubRecipe(members=3, protocol="lbrm"), sync_s=0.0, ready=4)
    wire.do(2, "on_ready", -3)
    wire.send(1, None, None)
    wire.run(0.1)
    assert wire.seqs(2, 1) == [1]


def test_a_cursor_never_covers_what_waits(group) -> None:
    recipe = PubsubRecipe(members=3, protocol="lbrm", recovery="at-least-once")
    wire = group(recipe, sync_s=0.0, ready=3)
    wire.send(1, *[None] * 6)
    wire.run(1.0)
    assert wire.seqs(2, 1) == [1, 2, 3]
    cursors = [record for record in wire.durable[2] if isinstance(record, Cursor)]
    assert cursors[-1] == Cursor(1, 3)
    wire.crash(2)
    wire.recover(2)
    wire.run(1.0)
    assert wire.seqs(2, 1) == [1, 2, 3, 4, 5, 6]


def test_the_subscriber_of_a_logger_waits_in_the_log(group) -> None:
    wire = group(PubsubRecipe(members=3, protocol="rpbcast", buffer=BUFFER), sync_s=0.0, ready=0)
    wire.do(1, "on_ready", 1000)
    wire.do(2, "on_ready", 1000)
    for _ in range(5):
        wire.send(1, *[None] * BUFFER)
        wire.run(0.2)
    assert wire.people[0].delivery.waiting <= BUFFER
    assert max((e.seq for e in wire.kinds("reclaim", 0)), default=0) <= BUFFER
    wire.do(0, "on_ready", 1000)
    wire.run(1.0)
    assert sorted(wire.seqs(0, 1)) == list(range(1, 5 * BUFFER + 1))
    assert wire.kinds("reclaim", 0)[-1].seq == 5 * BUFFER


def test_what_is_furthest_ahead_gives_way_to_what_closes_a_gap(group) -> None:
    """Message 1 is obsolete, and is skipped only with the newer one; all room is used up."""
    recipe = PubsubRecipe(members=3, protocol="lbrm", order="fifo", buffer=2)
    wire = group(recipe, sync_s=0.0)
    second, third, newer = (DataMessage(1, seq) for seq in (2, 3, 4))
    wire.hand(1, 2, Publication((second, third)))
    wire.hand(0, 2, Repair((newer,), (PurgeNotice(1, 1, 1, 4),)))
    assert max(event.buffered for event in wire.kinds("receive", 2)) == 2
    assert [(event.seq, event.note) for event in wire.kinds("discard", 2)] == [(3, "full")]
    wire.run(0.01)
    assert wire.seqs(2, 1) == [2]
    assert wire.sends(RepairRequest, 2)[-1][2].missing == (StreamSpans(1, ((3, 3),)),)
    wire.hand(0, 2, Repair((third,)))
    wire.run(0.01)
    assert wire.seqs(2, 1) == [2, 3, 4]
