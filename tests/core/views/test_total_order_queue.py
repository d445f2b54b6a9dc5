"""Positions: the same at every member, whatever it purged."""

from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.core.order.quorum_count import QuorumCount
from semcast.core.order.total import TotalOrderQueue
from semcast.core.recipe import Recipe
from semcast.kernel import ItemLabels, make_run, run_of
from semcast.terms.messages import DataMessage, Update


def queue(relation="item", members=3):
    return TotalOrderQueue(Recipe(members=members, relation=relation))


def push(placed, sender, *seqs, item=None, keep=False):
    for seq in seqs:
        placed.push(run_of([DataMessage(sender, seq, item=item, never_purge=keep)]))


def mark(placed, seq, *runs):
    placed.push(run_of([DataMessage(0, seq, never_purge=True, after=runs)]))


def drain(placed, limit=99):
    placed.final_upto = placed.last
    taken = []
    while placed.has_next:
        first = placed.cursor
        for n, message in enumerate(placed.pop(limit)):
            taken.append((first + n, message.sender, message.seq))
        assert placed.position == first + n
    return taken


def test_what_waits_for_its_place_is_not_handed_out():
    placed = queue()
    push(placed, 1, 1, 2)
    placed.final_upto = 99
    assert not placed.has_next
    assert len(placed) == 2


def test_runs_are_placed_one_after_the_other():
    placed = queue()
    push(placed, 1, 1, 2)
    push(placed, 2, 1)
    placed.assign_positions([(2, 1), (1, 2)])
    assert drain(placed) == [(1, 2, 1), (2, 1, 1), (3, 1, 2)]


def test_a_purged_message_leaves_its_position_empty():
    """Total order is equal relative order of what is delivered [SRM §4.4]."""
    everything, purged = queue(), queue()
    for placed in (everything, purged):
        push(placed, 1, 1, 2, 3)
    assert purged.remove_unordered(1, [DataMessage(1, 2), DataMessage(1, 9)]) == 1
    for placed in (everything, purged):
        placed.assign_positions([(1, 3)])
    assert drain(everything) == [(1, 1, 1), (2, 1, 2), (3, 1, 3)]
    assert drain(purged) == [(1, 1, 1), (3, 1, 3)]


def test_order_messages_take_no_position():
    placed = queue()
    push(placed, 0, 1)
    mark(placed, 2, (0, 1))
    push(placed, 0, 3)
    placed.assign_positions([(0, 3)])
    assert drain(placed) == [(1, 0, 1), (2, 0, 3)]


def test_a_later_position_purges_an_earlier_one_of_another_sender():
    placed = queue()
    push(placed, 1, 1, item=7)
    push(placed, 2, 1, item=7)
    placed.assign_positions([(1, 1), (2, 1)])
    assert placed.purge() == [], "their order is not final"
    placed.final_upto = 2
    ((old, position, by),) = placed.purge()
    assert (old.sender, position, by.sender) == (1, 1, 2)
    assert not placed.holds(old)
    assert drain(placed) == [(2, 2, 1)]


def test_nothing_purges_a_message_that_is_to_be_kept_nor_with_the_empty_relation():
    kept, strict = queue(), queue(relation="none")
    push(kept, 1, 1, item=7, keep=True)
    push(kept, 2, 1, item=7)
    push(strict, 1, 1, item=7)
    push(strict, 2, 1, item=7)
    for placed in (kept, strict):
        placed.assign_positions([(1, 1), (2, 1)])
        placed.final_upto = 2
        assert placed.purge() == []
        assert drain(placed) == [(1, 1, 1), (2, 2, 1)]


def test_what_was_handed_out_is_not_purged_any_more():
    placed = queue()
    push(placed, 1, 1, item=7)
    placed.assign_positions([(1, 1)])
    assert drain(placed) == [(1, 1, 1)]
    push(placed, 2, 1, item=7)
    placed.assign_positions([(2, 1)])
    placed.final_upto = 2
    assert placed.purge() == []


def test_positions_open_with_the_order_message_that_gave_them():
    placed = queue()
    push(placed, 1, 1, 2)
    mark(placed, 1, (1, 1))
    mark(placed, 2, (1, 2))
    placed.finalize(1)
    assert placed.has_next
    placed.pop(1)
    assert not placed.has_next
    placed.finalize(2)
    assert placed.has_next


def test_enough_reports_agree():
    count = QuorumCount(4, 2)
    count.on_report(0, 5)
    assert count.agreed == 0
    count.on_report(3, 3)
    assert count.agreed == 3
    count.on_report(3, 2)
    assert count.agreed == 3, "an old report"
    count.on_report(1, 9)
    assert count.agreed == 5


class Pair:
    """The same into two queues: by runs as they travel, and message by message."""

    def __init__(self, relation):
        self.queues = (queue(relation), queue(relation))
        self.sent = [0, 0, 0]
        self.messages = []

    def push(self, sender, items):
        updates = [Update(b"x" * n, item, item == 3) for n, item in enumerate(items)]
        room = (99, 1 << 20, 1 << 20)
        run, _ = make_run(sender, self.sent[sender], updates, ItemLabels(), *room)
        self.messages += run
        self.queues[0].push(run)
        for message in run:
            self.queues[1].push(run_of([message]))
        self.sent[sender] += len(run)

    def mark(self, percent):
        upto = [(s, seq * percent // 100) for s, seq in enumerate(self.sent)]
        self.sent[0] += 1
        runs = tuple((s, seq) for s, seq in upto if seq > self.queues[0].reached[s])
        for placed in self.queues if runs else ():
            mark(placed, self.sent[0], *runs)

    def drop(self, places):
        chosen = [self.messages[place % len(self.messages)] for place in places if self.messages]
        for sender in range(3):
            gone = [message for message in chosen if message.sender == sender]
            one, other = (placed.remove_unordered(sender, gone) for placed in self.queues)
            assert one == other

    def take(self, limit):
        found = []
        for placed in self.queues:
            placed.finalize(placed.last_order)
            taken = []
            while len(taken) < limit and placed.has_next:
                first = placed.cursor
                taken += enumerate(placed.pop(limit - len(taken)), first)
            found.append((taken, placed.purge(), placed.position, len(placed)))
        assert found[0] == found[1]
        for message in self.messages:
            one, other = (placed.holds(message) for placed in self.queues)
            assert one == other
        for sender in range(3):
            own = [message for message in self.messages if message.sender == sender]
            for some in (own, own[1:], own[-2:]):
                held = [message for message in some if self.queues[0].holds(message)]
                expected = (len(held), sum(len(message.payload) for message in held))
                for placed in self.queues if some else ():
                    assert placed.count_waiting(some) == expected
                    assert len(placed.absent[sender]) <= self.sent[sender]


few = st.lists(st.sampled_from([None, 1, 2, 3]), min_size=1, max_size=6)
steps = st.one_of(
    st.tuples(st.just("push"), st.integers(0, 2), few),
    st.tuples(st.just("push"), st.integers(0, 2), few),
    st.tuples(st.just("mark"), st.sampled_from([50, 100, 100])),
    st.tuples(st.just("drop"), st.lists(st.integers(0, 99), max_size=3)),
    st.tuples(st.just("take"), st.integers(0, 9)),
)


@given(relation=st.sampled_from(["item", "none"]), script=st.lists(steps, max_size=25))
@settings(max_examples=300)
def test_runs_wait_as_their_messages_would(relation, script):
    pair = Pair(relation)
    for name, *args in [*script, ("mark", 100), ("take", 99)]:
        getattr(pair, name)(*args)


def test_a_ready_application_gets_whole_runs():
    placed = queue()
    messages = [DataMessage(1, seq) for seq in range(1, 6)]
    placed.push(run_of(messages))
    mark(placed, 1, (1, 5))
    placed.finalize(1)
    assert placed.has_next
    assert len(placed.pop(99)) == 5


def test_a_sequencer_that_sends_nothing_else_leaves_nothing_behind():
    placed = queue()
    for turn in range(1, 100):
        push(placed, 1, turn)
        mark(placed, turn, (1, turn))
        drain(placed)
    assert not any(placed.absent)
    assert not placed.orders


def test_what_waits_is_told_from_what_does_not():
    """One is purged, one was never sent here, one is an order message."""
    placed = queue()
    push(placed, 0, 1, 2, 4)
    mark(placed, 5, (1, 0))
    assert placed.remove_unordered(0, [DataMessage(0, 2)]) == 1
    held = [seq for seq in range(7) if placed.holds(DataMessage(0, seq))]
    assert held == [1, 4]
