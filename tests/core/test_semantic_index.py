"""An arrival costs work proportional to what it purges, whatever is held.

Work is counted, never timed: sequence numbers here count what is done with them.
"""

import pytest

from semcast.core.purging_buffer import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.terms.messages import DataMessage


class Counted(int):
    """A number that counts comparisons, look-ups and arithmetic."""

    operations = 0


def _counting(name):
    plain = getattr(int, name)

    def operation(self, *args):
        Counted.operations += 1
        return plain(self, *args)

    return operation


for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__hash__", "__sub__", "__rsub__"):
    setattr(Counted, _name, _counting(_name))


def work(action):
    """How many operations on sequence numbers an action takes."""
    Counted.operations = 0
    action()
    return Counted.operations


def filled(relation, size, covers):
    """A buffer that holds `size` unrelated messages, and the next, which `covers` one of them."""
    buffer = PurgingBuffer(Recipe(members=1, relation=relation, k=100_000))
    for seq in range(1, size + 1):
        buffer.add(DataMessage(0, Counted(seq), item=seq))
    buffer.purge(size)
    return buffer, DataMessage(0, Counted(size + 1), item=size, covers=covers)


@pytest.mark.parametrize(
    ("relation", "covers"), [("item", b""), ("bitmap", b"\1"), ("list", (1,)), ("update-fin", (1,))]
)
def test_an_arrival_that_purges_one_costs_the_same_however_many_are_held(relation, covers):
    costs = []
    for size in (10, 10_000):
        buffer, message = filled(relation, size, covers)
        buffer.add(message)
        costs.append(work(lambda b=buffer, m=message: b.purge(m.seq)))
        assert len(buffer.held) == size
    assert costs[0] == costs[1] < 20


@pytest.mark.parametrize(("relation", "covers"), [("item", b""), ("bitmap", b""), ("list", ())])
def test_an_arrival_that_purges_nothing_costs_the_same_however_many_are_held(relation, covers):
    costs = []
    for size in (10, 10_000):
        buffer, message = filled(relation, size, covers)
        message = DataMessage(0, message.seq, item=-1, covers=covers)
        buffer.add(message)
        costs.append(work(lambda b=buffer, m=message: b.purge(m.seq)))
        assert len(buffer.held) == size + 1
    assert costs[0] == costs[1] < 20


def test_a_stubborn_channel_purges_what_is_held_and_looks_at_nothing_else():
    """Under "everything before" one is held at a time, after many as after few."""
    costs = []
    for size in (10, 10_000):
        buffer = PurgingBuffer(Recipe(members=1, relation="all"))
        for seq in range(1, size + 1):
            buffer.add(DataMessage(0, Counted(seq)))
            buffer.purge(seq)
        last = DataMessage(0, Counted(size + 1))
        buffer.add(last)
        costs.append(work(lambda b=buffer, m=last: b.purge(m.seq)))
        assert list(buffer.held) == [size + 1]
    assert costs[0] == costs[1] < 20


@pytest.mark.parametrize(
    ("relation", "covers"), [("item", b""), ("bitmap", b"\xff" * 200), ("all", b"")]
)
def test_the_cost_is_that_of_what_is_purged(relation, covers):
    """One arrival that purges n messages costs about n times what a single one costs."""
    costs = {}
    for size in (1, 100, 1000):
        buffer = PurgingBuffer(Recipe(members=1, relation=relation, k=2000))
        for seq in range(1, size + 1):
            buffer.add(DataMessage(0, Counted(seq), item=1))
        assert not buffer.would_purge(DataMessage(0, 1))  # Now they are indexed,
        buffer.unapplied.clear()  # and will purge nothing.
        last = DataMessage(0, Counted(size + 1), item=1, covers=covers)
        buffer.add(last)
        costs[size] = work(lambda b=buffer, m=last: b.purge(m.seq))
        assert list(buffer.held) == [size + 1]
    assert costs[1000] <= 1000 * costs[1]
    assert costs[1000] <= 11 * costs[100]


def test_a_kept_message_is_in_no_index():
    for relation, covers in (("item", b""), ("bitmap", b"\3"), ("list", (1, 2)), ("all", b"")):
        buffer = PurgingBuffer(Recipe(members=1, relation=relation))
        buffer.add(DataMessage(0, 1, item=1, never_purge=True))
        buffer.add(DataMessage(0, 2, item=1))
        buffer.add(DataMessage(0, 3, item=1, covers=covers))
        assert [m.seq for m, _ in buffer.purge(3)] == [2], relation
        assert list(buffer.held) == [1, 3]
        for seq in (1, 3):
            buffer.remove(seq)


def test_the_empty_relation_neither_indexes_nor_waits():
    buffer = PurgingBuffer(Recipe(members=1, relation="none"))
    for seq in range(1, 10):
        buffer.add(DataMessage(0, seq, item=1))
    assert buffer.purge(9) == []
    assert not buffer.unapplied
    assert buffer.index.obsoleted_by(DataMessage(0, 10, item=1)) == ()


def test_a_bitmap_index_forgets_what_lies_beyond_its_width():
    """Less complete, never wrong: what is out of reach stays and can still be removed."""
    buffer = PurgingBuffer(Recipe(members=1, relation="bitmap", k=4, buffer=4))
    buffer.add(DataMessage(0, 1))
    buffer.add(DataMessage(0, 100, covers=b"\7"))
    assert buffer.purge(100) == []
    assert buffer.remove(1).seq == 1
    assert buffer.index.bits == 1


def test_a_bitmap_index_is_no_wider_than_k_and_a_buffer():
    """However long one message stays while the stream goes on."""
    buffer = PurgingBuffer(Recipe(members=1, relation="bitmap", k=4, buffer=4))
    buffer.add(DataMessage(0, 1))
    for seq in range(2, 1000):
        buffer.add(DataMessage(0, seq, covers=b"\1" if seq > 2 else b""))
        buffer.purge(seq)
    assert list(buffer.held) == [1, 999]
    assert buffer.index.bits.bit_length() <= 8


def test_a_bitmap_index_answers_for_a_message_that_is_not_in_it():
    """The question of a full buffer: what would this message purge?"""
    buffer = PurgingBuffer(Recipe(members=1, relation="bitmap", k=8))
    for seq in (1, 2, 3):
        buffer.add(DataMessage(0, seq))

    def ask(message):
        return [m.seq for m in buffer.would_purge(message)]

    assert ask(DataMessage(0, 5, covers=b"\x0a")) == [3, 1]
    assert ask(DataMessage(0, 3, covers=b"\x03")) == [2, 1]
