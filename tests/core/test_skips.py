"""What the application never sees is counted, and told with the next delivery."""

import pytest

from semcast.core.recipe import Recipe
from semcast.terms.events import SKIP
from semcast.terms.items import item_tag
from semcast.terms.messages import Data, DataMessage, PurgeNotice, Update


def told(w, rank=1):
    """What was delivered, each with how many were passed over before it."""
    return list(zip([m.seq for m in w.delivered[rank]], w.skips[rank], strict=True))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fifo", [(2, 3), (5, 0), (6, 0)]),
        ("item", [(5, 3), (2, 0), (6, 0)]),
        ("causal", [(2, 3), (5, 0), (6, 0)]),
    ],
)
def test_what_the_queue_purged_is_told_with_the_next_delivery(wire, order, expected):
    w = wire(Recipe(members=2, order=order), ready=[0])
    w.items(0, 1, 2, 1, 1, 1, 3)
    w.run()
    w.ready(1, 9)
    assert told(w) == expected


@pytest.mark.parametrize("order", ["fifo", "item", "causal"])
def test_what_a_notice_passes_over_is_told_with_the_next_delivery(wire, order):
    w = wire(Recipe(members=2, order=order))
    w.hand(0, 1, Data((DataMessage(0, 1, 1), DataMessage(0, 5, 2), DataMessage(0, 8, 1))))
    w.hand(0, 1, Data((), (PurgeNotice(0, 6, 7, 8), PurgeNotice(0, 2, 4, 8))))
    assert told(w) == [(1, 0), (5, 3), (8, 2)]


def test_a_purge_and_a_notice_add_up(wire):
    w = wire(Recipe(members=2), ready=[0])
    w.hand(0, 1, Data((DataMessage(0, 1, 1), DataMessage(0, 2, 1), DataMessage(0, 5, 1))))
    w.hand(0, 1, Data((), (PurgeNotice(0, 3, 4, 5),)))
    w.ready(1, 1)
    assert told(w) == [(5, 4)]


def test_it_is_told_once(wire):
    w = wire(Recipe(members=2), ready=[0])
    w.items(0, 1, 1, 2)
    w.run()
    w.ready(1, 1)
    w.items(0, 3, 4, 3)
    w.run()
    w.ready(1, 9)
    assert told(w) == [(2, 1), (3, 1), (5, 0), (6, 0)]


def test_a_ready_application_misses_nothing(wire):
    w = wire(Recipe(members=2))
    w.items(0, *[1] * 9)
    w.run()
    assert sum(w.skips[0]) == sum(w.skips[1]) == 0
    assert w.members[1].buffers.skipped == 0


def test_the_purges_of_the_store_are_counted_apart(wire):
    w = wire(Recipe(members=3, f=0, buffer=10))
    w.down = {1, 2}
    w.items(0, *[1] * 10)
    w.run(until=2.0)
    assert w.members[0].buffers.purged == 9
    assert w.members[0].buffers.skipped == 0


def test_the_name_of_an_item_travels_with_the_message(wire):
    w = wire(Recipe(members=2))
    w.send(0, Update(b"101", item="ACME"), Update(b"1"))
    w.run()
    for rank in (0, 1):
        named, unnamed = w.delivered[rank]
        assert (named.name, named.item) == ("ACME", item_tag("ACME"))
        assert (unnamed.name, unnamed.item) == ("", None)


def test_a_wide_notice_is_taken_in_portions_and_passed_over_in_the_end(wire, monkeypatch):
    """A handler's work is bounded; what is left of the gap is asked for again."""
    monkeypatch.setattr("semcast.core.receiver.SKIPS_MAX", 7)
    w = wire(Recipe(members=3, buffer=20), judged=True)
    w.down = {2}
    for step in range(200):
        assert w.items(0, step % 3) == 1
        w.run(until=w.now + 0.1)
    w.down = set()
    w.run()
    assert len(w.seqs(2)) <= 20
    assert len(w.kinds(SKIP, 2)) == sum(w.skips[2]) == 200 - len(w.seqs(2))
    w.judge()
