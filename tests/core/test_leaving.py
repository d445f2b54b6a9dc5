"""Members that leave when nothing depends on them any more, and how they know."""

import pytest

from semcast.core.recipe import Recipe
from semcast.terms.errors import LocalProtocolError
from semcast.terms.events import DRAINED, LEAVE
from semcast.terms.messages import Data, DataMessage, WindowEmpty

PROTOCOLS = ["s-sm", "s-rm", "sm", "rm"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_is_drained_when_everyone_has_what_it_knows(wire, protocol):
    w = wire(Recipe(members=3, protocol=protocol))
    assert all(member.status(0.0).is_drained for member in w.members)
    w.items(0, 1)
    assert not w.members[0].status(0.0).is_drained
    w.carry()
    assert not w.members[1].status(0.0).is_drained  # It cannot know yet that member 2 has it.
    w.run()
    assert all(member.status(0.0).is_drained for member in w.members)


def test_whoever_waits_for_a_message_is_not_drained(wire):
    w = wire(Recipe(members=3))
    w.hand(0, 1, WindowEmpty(0, 1))
    assert not w.members[1].status(0.0).is_drained


def test_while_somebody_is_silent_nobody_with_something_new_is_drained(wire):
    w = wire(Recipe(members=3))
    w.down = {2}
    w.items(0, 1)
    w.run(until=5.0)
    assert not w.members[0].status(0.0).is_drained
    w.forget(0, 2)
    w.forget(1, 2)
    w.run()
    assert w.members[0].status(0.0).is_drained


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_crash_of_a_sender_keeps_nobody_from_being_drained(wire, protocol):
    """Under S-SM nobody can bring what only some received; it is no reason to wait."""
    w = wire(Recipe(members=3, protocol=protocol))
    w.lose = lambda source, target, datagram: (source, target) == (0, 2)
    w.items(0, 1)
    w.carry()
    w.down = {0}
    w.run(until=0.5)
    for rank in (1, 2):
        w.forget(rank, 0)
    w.run(until=5.0)
    assert w.members[1].status(0.0).is_drained
    assert w.members[2].status(0.0).is_drained
    assert w.seqs(2) == ([1] if protocol in ("s-rm", "rm") else [])
    assert w.deadline == float("inf")


def test_any_number_may_leave_drained_and_the_last_one_goes_on(wire):
    w = wire(Recipe(members=5, f=1, buffer=10), judged=True)
    for leaving in range(1, 5):
        assert w.items(0, *range(8)) == 8
        assert w.items(leaving, *range(8)) == 8
        w.run()
        assert w.members[leaving].status(0.0).is_drained
        w.down.add(leaving)
        for rank in set(range(5)) - w.down:
            w.forget(rank, leaving, drained=True)
    for _ in range(5):
        assert w.items(0, *range(10)) == 10
        w.run()
    assert w.members[0].buffers.messages == 0
    assert [event.note for event in w.kinds(LEAVE, 0)] == [DRAINED] * 4
    w.judge()


def test_those_who_left_drained_do_not_count_towards_f(wire):
    w = wire(Recipe(members=5, f=1))
    w.forget(0, 1, drained=True)
    w.forget(0, 2)
    w.forget(0, 3, drained=True)
    with pytest.raises(LocalProtocolError, match="limit of f = 1"):
        w.forget(0, 4)
    w.forget(0, 4, drained=True)


def test_what_the_forgotten_said_of_each_other_is_forgotten_too(wire):
    """A hint about the first one's stream, given by the second, came between their ends."""
    w = wire(Recipe(members=4, order="causal", f=2))
    w.down = {1, 2}
    w.forget(0, 1)
    w.hand(2, 0, Data((DataMessage(2, 1, after=((1, 7),)),)))
    assert w.members[0].receiver.gaps == {1: None, 2: None}
    w.forget(0, 2)
    w.run(until=5.0)
    assert w.members[0].status(0.0).is_drained
    assert w.members[0].buffers.messages == 0
    assert w.deadline == float("inf")
