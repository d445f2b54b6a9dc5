"""Real members on a wire that loses, duplicates and reorders, judged by the specification.

Each run has a bad phase, in which anything may happen to a datagram, and then a good one, in which
everything arrives; after it nothing may be owed and nothing may be held.
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.core.recipe import Recipe
from semcast.terms.events import DELIVER, DELIVERY, PURGE, SKIP
from semcast.terms.messages import Update

VARIANTS = st.sampled_from(
    [
        ("s-sm", "fifo"),
        ("s-sm", "item"),
        ("s-rm", "fifo"),
        ("s-rm", "item"),
        ("s-rm", "causal"),
        ("sm", "fifo"),
        ("rm", "fifo"),
        ("rm", "causal"),
    ]
)
RELATIONS = st.sampled_from(["item", "bitmap", "list", "all", "update-fin", "none"])


@st.composite
def recipes(draw):
    protocol, order = draw(VARIANTS)
    relation = draw(RELATIONS)
    if order == "item":
        relation = "item"
    if protocol in ("sm", "rm"):
        relation = "none"
    members = draw(st.integers(1, 3))
    return Recipe(
        members=members,
        protocol=protocol,
        order=order,
        relation=relation,
        k=draw(st.integers(1, 70)),
        f=draw(st.integers(0, members - 1)),
        buffer=draw(st.integers(1, 12)),
        buffer_bytes=draw(st.sampled_from([40, 1000])),
        purge="eager",
        chain_limit=draw(st.sampled_from([None, 1, 3])) if relation == "item" else None,
        fanout=draw(st.integers(1, 3)),
        congested_at=draw(st.sampled_from([0.0, 0.5, 1.0])),
        safety_always=draw(st.booleans()),
        datagram_bytes=draw(st.sampled_from([30, 100, 1400])),
        coalesce_s=draw(st.sampled_from([0.0, 0.005])),
        unicast=draw(st.booleans()),
    )


def update(rng, recipe, seq):
    """Something to multicast; what it makes obsolete is recent enough for any k."""
    listed = recipe.relation in ("bitmap", "list")
    obsolete = () if not listed or seq == 1 or rng.random() < 0.4 else (seq - 1,)
    return Update(
        payload=bytes(rng.randrange(20)),
        item=rng.choice([None, 1, 1, 2, 3]),
        obsoletes=obsolete,
        never_purge=rng.random() < 0.1,
    )


def shake(w, rng, loss):
    """Lose, repeat and reorder what is in transit."""
    w.transit = [d for d in w.transit if rng.random() >= loss]
    w.transit += [d for d in w.transit if rng.random() < 0.1]
    rng.shuffle(w.transit)


def check_bounds(w):
    recipe = w.recipe
    for member in w.members:
        buffers = member.buffers
        assert buffers.messages <= recipe.buffer + recipe.members
        assert sum(buffers.held_by_sender) == buffers.messages
        assert buffers.messages >= len(buffers.queue)
        for kept in buffers.store.streams.values():
            assert len(kept.holes) <= len(kept.buffer.held) + 1
            assert len(kept.buffer.unapplied) <= len(kept.buffer.held)
        for notices in member.receiver.notices.values():
            assert len(notices) <= recipe.buffer
        pairs = zip(member.receiver.frontier, member.receiver.known, strict=True)
        for sender, (frontier, known) in enumerate(pairs):
            assert frontier <= known
            assert (frontier < known) == (sender in member.receiver.gaps)
        passed = len(w.delivered[member.rank]) + buffers.skipped + len(buffers.queue)
        assert passed == sum(member.receiver.frontier)


def skips(w, rank):
    """Before each delivery, how many messages the trace says were passed over; and after all."""
    counts = [0]
    for event in w.events:
        if event.pid != rank:
            continue
        if event.kind == DELIVER:
            counts.append(0)
        elif event.kind == SKIP or (event.kind == PURGE and event.note == DELIVERY):
            counts[-1] += 1
    return counts[:-1], counts[-1]


@given(recipe=recipes(), seed=st.integers(0, 2**32), loss=st.sampled_from([0.0, 0.1, 0.5]))
@settings(max_examples=150)
def test_any_schedule_keeps_the_promises(wire, recipe, seed, loss):
    rng = Random(seed)
    w = wire(recipe, seed=seed, ready=(), judged=True)
    ranks = range(recipe.members)
    for _ in range(60):
        action = rng.choice(["send", "send", "ready", "carry", "carry", "tick"])
        rank = rng.choice(ranks)
        if action == "send":
            batch = rng.choice([1, 1, 3])
            for _ in range(batch):
                w.send(rank, update(rng, recipe, w.members[rank].sent + 1))
        elif action == "ready":
            w.ready(rank, rng.randint(1, 5))
        elif action == "carry":
            shake(w, rng, loss)
            w.carry()
        elif w.deadline < float("inf"):
            w.tick()
        check_bounds(w)
    for rank in ranks:
        w.ready(rank, 10**6)
    w.run(until=w.now + 10, steps=60_000)
    check_bounds(w)
    for member in w.members:
        buffers = member.buffers
        assert (buffers.messages, buffers.bytes, sum(buffers.held_by_sender)) == (0, 0, 0)
        assert member.outbox.sent == member.outbox.last
        assert not member.receiver.gaps
        assert not any(member.receiver.reorder.values())
        for kept in buffers.store.streams.values():
            assert not kept.holes
            assert not kept.buffer.unapplied
    sent = sum(member.sent for member in w.members)
    for rank in ranks:
        assert (w.skips[rank], 0) == skips(w, rank)  # What supersedes the last of them was told.
        assert len(w.delivered[rank]) + sum(w.skips[rank]) == sent
    w.judge()


@given(recipe=recipes(), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_survivors_of_a_crash_keep_the_promises(wire, recipe, seed):
    """At most f members stop for good, in the middle of anything."""
    rng = Random(seed)
    w = wire(recipe, seed=seed, ready=(), judged=True)
    ranks = range(recipe.members)
    crashing = rng.sample(ranks, rng.randint(0, recipe.f))
    for step in range(80):
        up = [rank for rank in ranks if rank not in w.down]
        if step > 40 and crashing and rng.random() < 0.2:
            w.down.add(crashing.pop())
            continue
        action = rng.choice(["send", "send", "ready", "carry", "carry", "tick"])
        rank = rng.choice(up)
        if action == "send":
            w.send(rank, update(rng, recipe, w.members[rank].sent + 1))
        elif action == "ready":
            w.ready(rank, rng.randint(1, 5))
        elif action == "carry":
            shake(w, rng, 0.2)
            w.carry()
        elif w.deadline < float("inf"):
            w.tick()
        check_bounds(w)
    for rank in ranks:
        if rank not in w.down:
            w.ready(rank, 10**6)
    w.run(until=w.now + 5, steps=60_000)
    for rank in ranks:
        for gone in sorted(w.down):
            if rank not in w.down:
                w.forget(rank, gone)
    w.run(until=w.now + 5, steps=60_000)
    w.judge()
    for rank in ranks:
        if rank not in w.down:
            member = w.members[rank]
            assert len(member.buffers.queue) == 0
            # What came early from a crashed sender waits for what nobody has.
            assert member.buffers.messages == member.receiver.reordered_count


@given(recipe=recipes(), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_whoever_leaves_drained_takes_nothing_along(wire, recipe, seed):
    """One after another, beyond f, down to the last one; news of it comes late."""
    rng = Random(seed)
    w = wire(recipe, seed=seed, ready=(), judged=True)
    ranks = range(recipe.members)
    untold = []
    for step in range(200):
        up = [rank for rank in ranks if rank not in w.down]
        rank = rng.choice(up)
        action = rng.choice(["send", "ready", "ready", "carry", "carry", "tick", "leave", "tell"])
        if action == "send" and step < 150:
            w.send(rank, update(rng, recipe, w.members[rank].sent + 1))
        elif action == "ready":
            w.ready(rank, rng.randint(1, 9))
        elif action == "carry":
            shake(w, rng, 0.2)
            w.carry()
        elif action == "tick" and w.deadline < float("inf"):
            w.tick()
        elif action == "leave" and len(up) > 1 and w.members[rank].status(0.0).is_drained:
            w.down.add(rank)
            untold += [(other, rank) for other in ranks if other != rank]
        elif action == "tell" and untold:
            other, gone = untold.pop(rng.randrange(len(untold)))
            if other not in w.down:
                w.forget(other, gone, drained=True)
        check_bounds(w)
    for other, gone in untold:
        if other not in w.down:
            w.forget(other, gone, drained=True)
    staying = [rank for rank in ranks if rank not in w.down]
    for rank in staying:
        w.ready(rank, 10**6)
    w.run(until=w.now + 10, steps=60_000)
    for rank in staying:
        assert w.members[rank].status(0.0).is_drained
        assert w.members[rank].buffers.messages == 0
        for gone in w.down:
            reached = zip(
                w.members[rank].receiver.frontier,
                w.members[gone].receiver.frontier,
                strict=True,
            )
            assert all(mine >= theirs for mine, theirs in reached)
        for number in range(recipe.buffer + recipe.members + 1):  # Nothing holds it up.
            assert w.send(rank, update(rng, recipe, w.members[rank].sent + 1)) == 1, number
            w.run(until=w.now + 5, steps=60_000)
    w.judge()
