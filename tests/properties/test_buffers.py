"""The indexed buffers against twins that search everything, for every relation.

The twins know one thing: whether one message makes another obsolete.  They find out what to purge
by looking at each pair, again and again.
"""

from itertools import chain
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast import kernel
from semcast.core.order import ORDERS
from semcast.core.purging_buffer import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.core.relation import make_annotator
from semcast.core.retransmission_store import RetransmissionStore
from semcast.terms.messages import Data, DataMessage, Update
from semcast.wire import encode

RELATIONS = ["item", "bitmap", "list", "all", "update-fin", "none"]
K = 6


def obsoletes(relation, old, new):
    """Whether `new` makes `old` obsolete, from the annotations alone."""
    if old.sender != new.sender or old.seq >= new.seq or old.never_purge:
        return False
    if relation == "item":
        return old.item is not None and old.item == new.item
    if relation == "bitmap":
        return bool(int.from_bytes(new.covers, "little") >> (new.seq - old.seq - 1) & 1)
    if relation in ("list", "update-fin"):
        return new.seq - old.seq in new.covers
    return relation == "all"


def stream(recipe, sender, rng):
    """An endless annotated stream: some declare, some are kept, some have no item."""
    made = make_annotator(recipe)
    seq = 0
    while True:
        seq += 1
        listed = recipe.relation in ("list", "bitmap")
        back = [seq - n for n in (1, 2, 3, K) if n < seq]
        update = Update(
            item=rng.choice([None, 1, 2, 3]),
            obsoletes=tuple(rng.sample(back, min(len(back), rng.randrange(3)))) if listed else (),
            never_purge=rng.random() < 0.15,
        )
        annotation = made.annotate(seq, update.item, update)
        made.remember(seq, annotation)
        item, covers, keep = annotation
        yield DataMessage(sender, seq, item, covers, keep)


class DumbBuffer:
    """One stream; `applied` is how far messages were allowed to purge."""

    def __init__(self, relation):
        self.relation = relation
        self.held = []
        self.newest = self.applied = 0

    def add(self, message):
        self.held.append(message)
        self.newest = message.seq

    def purge(self, horizon):
        """Let each message after the last horizon purge, oldest first, while it is still here."""
        purged = []
        for by in sorted(self.held, key=lambda m: m.seq):
            if not self.applied < by.seq <= horizon or by not in self.held:
                continue
            gone = [m for m in self.held if obsoletes(self.relation, m, by)]
            self.held = [m for m in self.held if m not in gone]
            purged += [(m.seq, by.seq) for m in gone]
        self.applied = max(self.applied, min(horizon, self.newest))
        return sorted(purged)


def plain(purged):
    return sorted((message.seq, by) for message, by in purged)


def as_it_came(run, rng):
    """Now and then still in the bytes of a datagram, if it is of the usual kind."""
    found = kernel.parse_run(encode(Data(tuple(run)))) if rng.random() < 0.7 else None
    return kernel.run_of(run) if found is None else found[0]


@pytest.mark.parametrize("relation", RELATIONS)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 60))
@settings(max_examples=40)
def test_purging_buffer(relation, seed, length):
    rng = Random(seed)
    recipe = Recipe(members=1, relation=relation, k=K, buffer=100)
    buffer, twin, arrivals = PurgingBuffer(recipe), DumbBuffer(relation), stream(recipe, 0, rng)
    last = stable = 0
    for _ in range(length):
        action = rng.choice(["add", "add", "run", "ask", "purge", "remove", "reclaim"])
        if action == "add":
            message = next(arrivals)
            last = message.seq
            buffer.add(message)
            twin.add(message)
        elif action == "run":
            run = [next(arrivals) for _ in range(rng.randint(1, 4))]
            last = run[-1].seq
            buffer.add_run(as_it_came(run, rng))
            for message in run:
                twin.add(message)
        elif action == "ask":
            message = next(arrivals)
            last = message.seq  # It is asked about, and does not come.
            obsolete = {m.seq for m in twin.held if obsoletes(relation, m, message)}
            assert {m.seq for m in buffer.would_purge(message)} == obsolete
        elif action == "purge":
            horizon = rng.randrange(last + 2)
            assert plain(buffer.purge(horizon)) == twin.purge(horizon)
        elif action == "remove" and twin.held:
            gone = twin.held.pop(rng.randrange(len(twin.held)))
            assert buffer.remove(gone.seq) == gone
        elif action == "reclaim":
            horizon = rng.randrange(last + 1)
            gone = [m for m in twin.held if m.seq <= horizon]
            assert list(chain(*buffer.remove_range(stable + 1, horizon))) == gone
            twin.held = twin.held[len(gone) :]
            stable = max(stable, horizon)
            twin.applied = max(twin.applied, horizon)
        if rng.random() < 0.3:  # Looking changes how they are held.
            assert list(buffer.held.values()) == twin.held


class DumbQueue:
    """A list.  Under item order a newer value is written over the older one."""

    def __init__(self, recipe):
        self.recipe = recipe
        self.waiting = []
        self.lanes = {}

    def lane(self, sender):
        return self.lanes.setdefault(sender, DumbBuffer(self.recipe.relation))

    def push(self, message):
        lane = self.lane(message.sender)
        lane.add(message)
        purged = lane.purge(message.seq) if self.recipe.purge == "eager" else []
        gone = [(message.sender, seq) for seq, _ in purged]
        places = [n for n, m in enumerate(self.waiting) if (m.sender, m.seq) in gone]
        if self.recipe.order == "item" and places and self._may_take(places[-1], message):
            self.waiting[places[-1]] = message
        else:
            self.waiting.append(message)
        self.waiting = [m for m in self.waiting if (m.sender, m.seq) not in gone]
        return purged

    def _may_take(self, place, message):
        fixed = [m for m in self.waiting[place:] if m.sender == message.sender]
        return not any(m.never_purge or m.item is None for m in [message, *fixed])

    def pop(self):
        message = self.waiting.pop(0)
        lane = self.lane(message.sender)
        lane.held.remove(message)
        lane.applied = max(lane.applied, message.seq)
        return message

    def relieve(self):
        purged = []
        for sender, lane in self.lanes.items():
            for seq, by in lane.purge(10**9):
                purged.append((sender, seq, by))
                self.waiting = [m for m in self.waiting if (m.sender, m.seq) != (sender, seq)]
        return sorted(purged)


@pytest.mark.parametrize("purge", ["eager", "lazy"])
@pytest.mark.parametrize(
    ("order", "relation"), [("item", "item"), ("item", "none"), *(("fifo", r) for r in RELATIONS)]
)
@given(seed=st.integers(0, 2**32), senders=st.integers(1, 3))
@settings(max_examples=25)
def test_delivery_queue(purge, order, relation, seed, senders):
    if order == "item" and purge == "lazy":
        return  # refused by the recipe
    rng = Random(seed)
    recipe = Recipe(members=senders, relation=relation, purge=purge, order=order, k=K, buffer=100)
    queue, twin = ORDERS[order].queue(recipe, ()), DumbQueue(recipe)
    arrivals = [stream(recipe, sender, rng) for sender in range(senders)]
    for _ in range(50):
        action = rng.choice(["push", "push", "push", "pop", "relieve", "ask"])
        if action == "push":
            message = next(rng.choice(arrivals))
            assert plain(queue.push(kernel.run_of([message]))) == twin.push(message)
        elif action == "pop" and twin.waiting:
            assert queue.pop(1)[0] is twin.pop()
        elif action == "relieve" and purge == "lazy":
            found = sorted((m.sender, m.seq, by) for m, by in queue.purge_obsolete())
            assert found == twin.relieve()
        assert list(queue.slots.values()) == twin.waiting
        assert len(queue) == len(twin.waiting)
        assert all(queue.holds(m) for m in twin.waiting)
    while twin.waiting:
        assert queue.pop(1)[0] is twin.pop()
    assert not any(queue.slot_of.values())


class DumbStore:
    """One stream, complete: every message with what became of it."""

    def __init__(self, relation, needs_safety):
        self.relation = relation
        self.needs_safety = needs_safety
        self.lane = DumbBuffer(relation)
        self.gone = {}  # seq -> the latest message that superseded it
        self.stable = self.safe = self.last = 0

    def purge(self):
        purged = self.lane.purge(self.safe if self.needs_safety else self.last)
        self.gone.update(purged)
        return purged

    def reclaim(self, stable):
        self.stable = max(self.stable, stable)
        gone = [m for m in self.lane.held if m.seq <= self.stable]
        self.lane.held = [m for m in self.lane.held if m.seq > self.stable]
        self.lane.applied = max(self.lane.applied, stable)
        self.gone = {seq: by for seq, by in self.gone.items() if seq > self.stable}
        return gone

    def answer(self, first, last, limit):
        """Message by message: data up to the limit, and which are known to be gone."""
        held = {m.seq: m for m in self.lane.held}
        messages, gone = [], set()
        for seq in range(max(first, self.stable + 1), last + 1):
            if seq in held:
                if len(messages) == limit:
                    break
                messages.append(held[seq])
            elif seq in self.gone:
                gone.add(seq)
            else:
                break
        return messages, gone


@pytest.mark.parametrize("protocol", ["s-rm", "s-sm"])
@pytest.mark.parametrize("relation", RELATIONS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_retransmission_store(protocol, relation, seed):
    rng = Random(seed)
    recipe = Recipe(members=3, protocol=protocol, relation=relation, k=K, buffer=100)
    store, twin = RetransmissionStore(recipe), DumbStore(recipe.relation, recipe.needs_safety)
    arrivals = stream(recipe, 0, rng)
    for _ in range(60):
        action = rng.choice(["put", "put", "put", "skip", "safe", "purge", "reclaim", "find"])
        if action in ("put", "skip"):
            message = next(arrivals)
            twin.last = message.seq
            if action == "skip":
                store.add_notice(0, message.seq, message.seq, message.seq + 1)
                twin.gone[message.seq] = message.seq + 1
            else:
                store.add(as_it_came([message], rng))
                twin.lane.add(message)
        elif action == "safe":
            twin.safe = store.stream(0).safe = rng.randint(twin.safe, twin.last)
        elif action == "purge":
            assert plain(store.purge(0)) == twin.purge()
        elif action == "reclaim":
            stable = rng.randrange(twin.last + 1)
            assert list(chain(*store.reclaim(0, stable))) == twin.reclaim(stable)
        elif action == "find":
            first, limit = rng.randint(1, twin.last + 1), rng.randint(1, 5)
            last = first + rng.randrange(10)
            messages, notices = store.find(0, ((first, last),), twin.last, limit)
            expected, gone = twin.answer(first, min(last, twin.last), limit)
            assert messages == expected
            told = {seq for p in notices for seq in range(p.first, p.last + 1)}
            assert gone <= told
            assert all(seq in twin.gone for seq in told)
            assert all(p.witness >= twin.gone[s] for p in notices for s in {p.first, p.last})
        if rng.random() < 0.3:
            kept = store.stream(0)
            assert list(kept.buffer.held.values()) == twin.lane.held
            assert len(kept.holes) <= len(kept.buffer.held) + 1
    store.reclaim(0, twin.last)
    kept = store.stream(0)
    assert not kept.buffer.held
    assert not kept.buffer.unapplied
    assert not kept.holes
