"""Memory and work per message do not grow with the number of messages ever sent.

Sizes are counted over everything a member refers to, so a container that nobody thought of counts
as well; work is counted in calls of Python functions, never in time.
"""

import sys
from collections import deque

import pytest

from semcast.core.recipe import Recipe
from semcast.terms.messages import DataMessage, Update

FEW, MANY = 10_000, 100_000


def census(thing, seen=None):
    """How many elements all containers below `thing` hold, and how many words its integers."""
    seen = set() if seen is None else seen
    if isinstance(thing, int):
        return thing.bit_length() // 64
    if isinstance(thing, str | bytes | float | Recipe | type) or id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, dict):
        inside = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset | deque):
        inside = list(thing)
    else:
        names = [*getattr(thing, "__slots__", ()), *getattr(thing, "__dict__", ())]
        inside = [getattr(thing, name) for name in names]
        return sum(census(each, seen) for each in inside)
    return len(inside) + sum(census(each, seen) for each in inside)


def calls_of(action):
    """How many Python functions an action calls."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def feed(w, first, last, update, batch=40):
    """Member 0 multicasts messages `first` to `last - 1`; everything may then settle."""
    for start in range(first, last, batch):
        made = [update(seq) for seq in range(start, min(start + batch, last))]
        assert w.send(0, *made) == len(made)
        w.run(until=w.now + 0.2)


RELATIONS = {
    "item": lambda seq: Update(item=seq % 7),
    "none": lambda seq: Update(),
    "all": lambda seq: Update(),
    "bitmap": lambda seq: Update(obsoletes=(seq - 1,) if seq > 1 else ()),
    "update-fin": lambda seq: Update(item=seq % 14 if seq % 2 else None),
}


@pytest.mark.parametrize("protocol", ["s-sm", "s-rm"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_members_are_as_large_after_many_messages_as_after_few(wire, protocol, relation):
    w = wire(
        Recipe(members=2, protocol=protocol, relation=relation, k=64, buffer=200), recording=False
    )
    sizes, last = [], 1
    for upto in (FEW // 10, MANY // 10):
        feed(w, last, upto, RELATIONS[relation])
        w.delivered = [[], []]
        sizes.append([census(member) for member in w.members])
        last = upto
    assert sizes[0] == sizes[1]
    assert [m.buffers.messages for m in w.members] == [0, 0]


def test_lists_are_remembered_up_to_a_bound(wire):
    w = wire(Recipe(members=2, relation="list", buffer=200), recording=False)
    sizes, last = [], 1
    for upto in (2_000, 4_000):
        feed(w, last, upto, lambda seq: Update(obsoletes=(seq - 7,) if seq > 7 else ()))
        sizes.append([census(member) for member in w.members])
        last = upto
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)


def test_a_silent_member_and_everything_obsolete_costs_no_memory(wire):
    """Holes merge into ranges: notices do not add up either."""
    w = wire(Recipe(members=3, buffer=100), recording=False)
    w.down = {2}
    sizes, last = [], 1
    for upto in (FEW + 1, MANY + 1):
        feed(w, last, upto, lambda seq: Update(item=seq % 5))
        w.delivered = [[], [], []]
        w.transit.clear()
        sizes.append([census(member) for member in w.members[:2]])
        last = upto
    assert max(sizes[1]) <= 1.2 * max(sizes[0])
    assert max(w.most_held) <= 100 + 3
    assert len(w.members[0].buffers.store.stream(0).holes) <= 100


def test_a_stopped_application_and_everything_obsolete_costs_no_memory(wire):
    w = wire(Recipe(members=2, buffer=100, protocol="s-sm"), ready=[0], recording=False)
    sizes, last = [], 1
    for upto in (FEW + 1, MANY + 1):
        feed(w, last, upto, lambda seq: Update(item=seq % 5))
        w.delivered = [[], []]
        sizes.append(census(w.members[1]))
        last = upto
    assert sizes[0] == sizes[1]
    assert len(w.members[1].buffers.queue) == 5


def test_ten_thousand_items_are_held_as_ten_thousand_messages(wire):
    w = wire(Recipe(members=2, buffer=20_000), ready=[0], recording=False)
    feed(w, 1, 20_001, lambda seq: Update(item=seq % 10_000), batch=500)
    assert len(w.members[1].buffers.queue) == 10_000
    assert w.members[1].buffers.messages == 10_000
    assert w.members[0].buffers.messages == 0
    w.ready(1, 10_000)
    assert w.members[1].buffers.messages == 0


@pytest.mark.parametrize("protocol", ["s-sm", "s-rm"])
def test_work_per_message_is_the_same_after_many_as_after_few(wire, protocol):
    w = wire(Recipe(members=2, protocol=protocol, buffer=200), recording=False)
    counts, last = [], 1
    for upto in (2_000, 20_000):
        feed(w, last, upto, RELATIONS["item"])
        counts.append(calls_of(lambda a=upto: feed(w, a, a + 2_000, RELATIONS["item"])))
        last = upto + 2_000
    assert counts[1] == pytest.approx(counts[0], rel=0.05)


def test_work_per_message_is_the_same_with_many_items_as_with_few(wire):
    counts = []
    for items in (10, 10_000):
        w = wire(Recipe(members=2, buffer=30_000, protocol="s-sm"), ready=[0], recording=False)
        feed(w, 1, items + 1, lambda seq, n=items: Update(item=seq % n), batch=500)
        assert len(w.members[1].buffers.queue) == items
        counts.append(
            calls_of(lambda w=w, n=items: feed(w, n + 1, n + 1001, lambda s: Update(item=s % n)))
        )
    assert counts[1] == pytest.approx(counts[0], rel=0.05)


def test_the_census_sees_what_grows():
    """A census that cannot fail is decoration."""

    class Thing:
        def __init__(self):
            self.inner = {"deque": deque([DataMessage(0, 1)])}

    thing = Thing()
    before = census(thing)
    thing.inner["deque"].append(DataMessage(0, 2))
    assert census(thing) > before
    assert census(1 << 6400) == 100
