"""Claims of "Semantically View Synchronous Multicast", and on order and views of SRM §4.4."""

from collections import defaultdict

import pytest

from semcast.families.views.scenarios import case, recipe
from semcast.faults import Crash, LateJoin
from semcast.sim.run import run
from semcast.terms.events import CRASH, DELIVER, INSTALL, MULTICAST, PURGE, Event

SLOW = {3: 0.02}


class Seen:
    """What a run did, by process."""

    def __init__(self, *args, **settings):
        self.delivered = defaultdict(list)  # in the first view
        self.installed = defaultdict(list)
        self.items = {}
        self.events: list[Event] = []
        self.outcome = run(case(*args, **settings), self.on_event)
        assert self.outcome.violations == ()

    def on_event(self, event: Event) -> None:
        self.events.append(event)
        if event.kind == MULTICAST:
            self.items[event.sender, event.seq] = event.message.item
        elif event.kind == DELIVER and event.view == 1:
            self.delivered[event.pid].append((event.sender, event.seq))
        elif event.kind == INSTALL:
            self.installed[event.pid].append(event)

    def maximal(self, pid: int) -> set[tuple[int, int]]:
        """The last of each item, and everything that has none."""
        newest: dict[object, tuple[int, int]] = {}
        for message in self.delivered[pid]:
            item = self.items[message]
            newest[message if item is None else item] = message
        return set(newest.values())


def test_survivors_deliver_the_maximal_elements():
    """§4.1: "every pair of processes installing two consecutive views will not necessarily deliver
    the same set of messages but (at least) its maximal elements"."""
    seen = Seen(recipe(), Crash(0, 0.8), slow=SLOW)
    assert len(seen.delivered[3]) < len(seen.delivered[1]), "the slow one was spared some"
    assert seen.maximal(1) == seen.maximal(2) == seen.maximal(3)


def test_with_an_empty_relation_it_is_view_synchrony():
    """§4.1: "if no pair m, m′ exist such that m ⊏ m′, Semantic View Synchrony reduces to
    conventional View Synchrony"."""
    seen = Seen(recipe(protocol="vsm"), Crash(0, 0.8), slow=SLOW)
    assert seen.delivered[1] == seen.delivered[2] == seen.delivered[3]


def test_messages_are_delivered_in_the_view_they_were_multicast_in():
    """§4.1: "messages are not delivered in a different view that they were multicast"."""
    seen = Seen(
        recipe(),
        Crash(2, 0.3, back_after_s=0.2),
        LateJoin(4, 0.5),
        size=5,
        founders=4,
        senders=(0, 1),
    )
    sent = {(e.sender, e.sender_inc, e.seq): e.view for e in seen.events if e.kind == MULTICAST}
    taken = [e for e in seen.events if e.kind == DELIVER]
    assert len({e.view for e in taken}) > 2
    assert all(sent[e.sender, e.sender_inc, e.seq] == e.view for e in taken)


def test_all_updates_of_a_request_or_none():
    """§5.3: "upon a view change all replicas in the new view have exactly the same state", for
    updates that are only purged for the *fin* of a later request [fig. 2]."""
    seen = Seen(recipe(relation="update-fin"), Crash(0, 0.7), slow=SLOW)
    finished = {}
    for pid in (1, 2, 3):
        state, open_updates = {}, {}
        for message in seen.delivered[pid]:
            item = seen.items[message]
            if item is None:
                state |= open_updates
                open_updates = {}
            else:
                open_updates[item] = message
        finished[pid] = state
    assert finished[1]
    assert finished[1] == finished[2] == finished[3]


def test_primary_views_are_one_sequence_that_all_survivors_see():
    """§2: "The successive membership of the group is given by a sequence of views"."""
    seen = Seen(recipe(), Crash(0, 0.2, back_after_s=0.2), Crash(1, 0.5, back_after_s=0.2))
    views = [[(e.view, e.members) for e in seen.installed[pid]] for pid in (2, 3)]
    assert views[0] == views[1]
    assert len(views[0]) >= 4
    crashed = {e.pid for e in seen.events if e.kind == CRASH}
    assert crashed == {0, 1}


@pytest.mark.parametrize("slow", [{}, SLOW])
def test_messages_whose_order_is_decided_are_purged_where_they_wait(slow):
    """SRM §4.4: "Purging can be done both on messages waiting to be proposed as well whose order
    has already been decided"; there by the newest of any sender."""
    seen = Seen(recipe(order="total"), senders=(0, 1, 2), slow=slow)
    purged = [e for e in seen.events if e.kind == PURGE and e.note == "delivery"]
    assert bool(purged) == bool(slow)
    assert {e.pid for e in purged} == set(slow)
    assert any(e.by_sender not in (-1, e.sender) for e in purged) == bool(slow)
