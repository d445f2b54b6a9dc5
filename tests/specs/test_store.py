"""Each monitor of the store rejects a bad trace and accepts the repaired one."""

import pytest

from semcast.specs.replicated_data import Refinement, mapped
from semcast.specs.store import ReliableChannels, ReplyOnDisk, Truncation
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    APPEND,
    COLLECT,
    EXECUTE,
    GIVEN_UP,
    JOIN,
    LOG,
    PASSED,
    POST,
    QUERY,
    RECLAIM,
    REFUSE,
    REPLY,
    REQUEST,
    TAKEN,
    UPDATE,
    Event,
)


def judged(make, *events):
    """What a monitor finds in these events."""
    ledger = ViolationLog()
    monitor = make(ledger)
    for event in events:
        monitor.handlers()[event.kind](event)
    if isinstance(monitor, Refinement):
        monitor.on_end()
    return [each.explanation for each in ledger.stored]


def update(pid, place, client=7, request=1):
    return Event(EXECUTE, pid, note=UPDATE, position=place, client=client, request=request)


def asked(client=7, request=1):
    return Event(REQUEST, 0, client=client, request=request, version=0)


def took(version, client=7, request=1):
    return Event(REPLY, 9, note=TAKEN, client=client, request=request, version=version)


def test_an_answer_needs_a_quorum_of_disks():
    def make(ledger):
        return ReplyOnDisk(ledger, lambda pids: len(pids) > 1)

    reply = Event(REPLY, 0, client=7, request=1, version=1)
    events = [Event(APPEND, 0, position=1), update(0, 1)]
    assert judged(make, *events, reply) == [
        "process 0 answered update 1, which is on the disks of [0]"
    ]
    assert not judged(make, Event(APPEND, 1, position=4), *events, reply)


@pytest.mark.parametrize("durable", [True, False])
def test_what_a_founder_lacks_is_not_dropped(durable):
    def make(ledger):
        return Truncation(ledger, (0, 1), 2, durable=durable)

    drop = Event(RECLAIM, 0, note=LOG, position=1)
    disks = [Event(APPEND, 0, position=1), Event(APPEND, 1, position=1)]
    assert judged(make, *disks, update(0, 1), drop) == [
        "process 0 dropped updates to 1, which [1] lack"
    ]
    assert not judged(make, *disks, update(0, 1), Event(JOIN, 1, version=1), drop)
    assert bool(judged(make, update(0, 1), update(1, 1), drop)) == durable
    assert judged(make, Event(JOIN, 0, version=2), drop)
    assert not judged(make, Event(JOIN, 0, version=3), drop)  # It keeps as many as it has to.


def parcel(kind, pid, peer, number, inc="1"):
    return Event(kind, pid, seq=number, peer=peer, note=inc)


def test_a_parcel_is_collected_once_after_it_was_posted():
    post, collect = parcel(POST, 0, 1, 1), parcel(COLLECT, 1, 0, 1)
    assert not judged(ReliableChannels, post, collect)
    assert judged(ReliableChannels, collect)
    assert judged(ReliableChannels, post, collect, collect)
    assert judged(ReliableChannels, post, parcel(POST, 0, 1, 2), parcel(COLLECT, 1, 0, 2))
    assert judged(ReliableChannels, post, parcel(COLLECT, 1, 0, 1, inc="2"))  # of another life


def test_a_parcel_between_two_that_go_on_is_collected_in_the_end():
    ledger = ViolationLog()
    channels = ReliableChannels(ledger)
    channels.on_post(parcel(POST, 0, 1, 1))
    channels.on_quiet([(0, 1)])  # Its receiver is gone.
    assert not ledger.stored
    channels.on_quiet([(0, 1), (1, 1)])
    assert ledger.stored


def read(pid, version, request=2):
    return Event(EXECUTE, pid, note=QUERY, version=version, client=7, request=request)


def test_the_servers_refine_the_specification():
    assert not judged(
        Refinement,
        *(asked(), update(0, 1), update(1, 1), took(1)),
        *(asked(request=2), read(1, 1), took(1, request=2)),
        *(Event(EXECUTE, 0, note=PASSED, position=2, client=7, request=1), asked(request=3)),
    )


@pytest.mark.parametrize(
    "events",
    [
        [update(0, 1)],  # Nobody asked for it.
        [asked(), update(0, 1), update(0, 2)],  # It is executed twice.
        [asked(), update(0, 2)],  # A place is left out.
        [asked(), asked(8), update(0, 1), update(1, 1, client=8)],  # Servers disagree.
        [asked(), took(1)],  # It answers from a state that is not there.
        [asked(), update(0, 1), took(0)],  # An update is answered as of another place.
        [asked(), update(0, 1), took(1), asked(request=2), took(0, request=2)],  # It goes back.
        [asked(), read(0, 1, request=1)],
        [Event(JOIN, 0, version=3)],
        [asked(), asked(request=2), took(0, request=2), took(0)],  # Answers overtake each other.
    ],
    ids=map(str, range(10)),
)
def test_what_does_not_refine_it_is_reported(events):
    assert judged(Refinement, *events)


def test_an_update_in_delay_is_answered_in_s_and_its_client_has_witnessed_it():
    both = Refinement(ViolationLog())
    both.on_request(asked())
    both.on_execute(update(0, 1))
    assert both.d.delay == {7: {1: 1}}
    assert mapped(both.d) == (both.s.length, both.s.map, both.s.last)
    assert both.s.map != both.d.map
    assert (both.s.last[7], both.d.last[7]) == (1, 0)


def told(note, request=1):
    return Event(REFUSE, 9, note=note, client=7, request=request)


def test_what_a_client_gave_up_goes_on_without_it():
    later = asked(request=2), read(0, 0), took(0, request=2)
    for early, late in ((update(0, 1), ()), ((), update(0, 1))):
        steps = (asked(), early, told(GIVEN_UP), *later, late)
        assert not judged(Refinement, *(each for each in steps if each))
    assert judged(Refinement, asked(), update(0, 1), *later)  # It had not given up.


def test_what_was_refused_is_not_executed():
    assert not judged(Refinement, asked(), told(TAKEN), asked(request=2), update(0, 1, request=2))
    assert judged(Refinement, asked(), told(TAKEN), update(0, 1))
    assert judged(Refinement, asked(), update(0, 1), told(TAKEN))
