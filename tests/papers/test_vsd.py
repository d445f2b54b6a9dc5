"""Claims of VSD, "… Group Communication as a Base for a Load-Balancing Replicated Data Service"."""

from collections import defaultdict

from semcast.families.views.scenarios import case, recipe
from semcast.faults import Partition
from semcast.sim.run import run
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, Event

APART = Partition(0.3, 0.7, ((0, 1), (2, 3)))


def events_of(*turns, **settings) -> list[Event]:
    events: list[Event] = []
    outcome = run(case(recipe(protocol="vs", order="total"), *turns, **settings), events.append)
    assert outcome.violations == ()
    return events


def test_components_go_on_apart_and_merge():
    """§1: "The failures and recoveries may cause the network or its components to partition and
    merge"; VS stays available in each."""
    events = events_of(APART, senders=(0, 3))
    views = {e.view: e.members for e in events if e.kind == INSTALL}
    assert {(0, 1), (2, 3)} <= set(views.values())
    assert views[max(views)] == (0, 1, 2, 3)
    for component in ((0, 1), (2, 3)):
        inside = [e for e in events if e.kind == DELIVER and views[e.view] == component]
        assert {e.pid for e in inside} == set(component)


def test_deliveries_in_a_view_are_prefixes_of_one_order():
    """App. A, *gprcv*: a process receives queue[g](next[q, g])."""
    events = events_of(APART, senders=(0, 1, 2, 3), slow={3: 0.01})
    queues = defaultdict(dict)
    for e in events:
        if e.kind == DELIVER:
            queues[e.view].setdefault(e.pid, []).append((e.sender, e.sender_inc, e.seq))
    for by_process in queues.values():
        longest = max(by_process.values(), key=len)
        assert all(queue == longest[: len(queue)] for queue in by_process.values())


def test_safe_follows_the_delivery_at_every_member():
    """App. A, *safe*: "for all r in S: next[r, g] > next_safe[q, g]"; here it is *confirm*."""
    events = events_of(senders=(0,), slow={2: 0.02})
    members, taken = {}, defaultdict(set)
    confirmed = 0
    for e in events:
        if e.kind == INSTALL:
            members[e.view] = set(e.members)
        elif e.kind == DELIVER:
            taken[e.view, e.sender, e.seq].add(e.pid)
        elif e.kind == CONFIRM:
            confirmed += 1
            assert taken[e.view, e.sender, e.seq] == members[e.view]
    assert confirmed
