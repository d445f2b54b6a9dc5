"""A member that packs updates as bytes does what one does that makes messages, to the byte."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast import kernel
from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.terms.effects import Effects
from semcast.terms.errors import BufferFull, LocalProtocolError
from semcast.terms.machine import ForgetMember
from semcast.terms.messages import (
    Data,
    DataMessage,
    FrontierVote,
    Nack,
    SafetyGossip,
    StabilityGossip,
    Update,
)
from semcast.terms.outputs import ROOM, Delivery, delivered
from semcast.wire import GROUP_CODEC, encode

LONG = "n" * 1025
BUILD, _ = kernel.select_build(kernel.REQUESTED_BUILD)
ITEMS = (7, "a", "b", "é" * 20, "n" * 300)


@dataclass
class Twin:
    """One member, and what has become of everything that it was told."""

    recipe: Recipe
    packs: bool  # or makes messages
    log: list[object] = field(default_factory=list)

    def __post_init__(self):
        self.member = Member(self.recipe, 0, Random(1))
        self.now = 0.0

    def call(self, name, *args):
        out = Effects(recording=True)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(kernel, "make_run", BUILD.pack_run if self.packs else BUILD.build_run)
                answer = getattr(self.member, name)(*args, self.now, out)
        except (BufferFull, LocalProtocolError) as error:
            answer = type(error)
        assert not out.refused
        deliveries = [output for output in out.outputs if isinstance(output, Delivery)]
        skips = [(each.run[0], each.skipped) for each in deliveries if each.skipped]
        self.log.append((name, ROOM in out.outputs, skips))
        self.log += [(target, encode(datagram)) for target, datagram in out.send]
        self.log += delivered(out.outputs)
        self.log += out.events
        self.log.append(self.counts)
        return answer

    @property
    def counts(self):
        buffers, outbox = self.member.buffers, self.member.outbox
        return (
            (buffers.messages, buffers.bytes, list(buffers.held_by_sender), buffers.active),
            (buffers.own_bytes, buffers.own_stored_bytes, buffers.ready, buffers.purged),
            (outbox.sent, outbox.last, outbox.unsent_bytes, outbox.flush_at, outbox.credit),
            (self.member.sent, self.member.deadline, buffers.skipped, buffers.has_refused),
        )

    def send(self, updates):
        self.log.append(self.call("submit", updates))

    def step(self, step):
        kind, value = step
        if kind == "send":
            self.send(value)
        elif kind == "ready":
            self.call("on_ready", value)
        elif kind == "flush":
            self.call("on_idle")
        elif kind == "wait":
            self.now += value
            self.call("on_time")
        elif kind == "forget":
            self.call("on_command", ForgetMember(value))
        else:
            self.hear(kind, value)

    def hear(self, kind, value):
        """Something that refers to what was sent, by percent."""
        last, sent = self.member.sent, self.member.outbox.sent
        if kind == "nack":
            places, limit = value
            ends = sorted({1 + percent * last // 100 for percent in places})
            ranges = tuple(zip(ends[::2], ends[1::2], strict=False))
            if ranges:
                self.hear_from(1, Nack(0, ranges, limit, 1))
        elif kind == "other":
            seq = self.member.receiver.frontier[1] + 1
            run = tuple(DataMessage(1, seq + n, n % 3, payload=bytes(9)) for n in range(value))
            self.hear_from(1, Data(run))
        else:
            peers, percent = value
            gossip = StabilityGossip if kind == "stable" else SafetyGossip
            for peer in peers:
                upto = percent * sent // 100
                self.hear_from(peer, gossip((FrontierVote(0, upto, upto, bytes([1 << peer]), 0),)))

    def hear_from(self, source, datagram):
        self.call("on_datagrams", source, (GROUP_CODEC.decode(encode(datagram)),))


updates = st.builds(
    Update,
    payload=st.binary(max_size=8) | st.integers(0, 400).map(bytes),
    item=st.sampled_from([None, *ITEMS]),
    never_purge=st.sampled_from([False, False, False, True]),
)
odd = st.sampled_from(
    [
        Update(bytearray(b"x")),
        Update(b"x", "\ud800"),
        Update(b"x", obsoletes=(1,)),
        Update(bytes(2000)),
        Update(b"x", LONG),
        Update(b"x", True),
        Update(b"x", 1 << 63),
        None,
    ]
)
percents = st.integers(0, 100)
peers = st.sampled_from([(1,), (2,), (1, 2), (1, 2)])
sending = st.tuples(st.just("send"), st.lists(updates, min_size=1, max_size=12))
steps = st.one_of(
    sending,
    sending,
    st.tuples(st.just("send"), st.lists(updates | odd, max_size=6)),
    st.tuples(
        st.just("nack"),
        st.tuples(st.lists(percents, min_size=2, max_size=6), st.sampled_from([0, 1, 3, 99])),
    ),
    st.tuples(st.just("stable"), st.tuples(peers, percents)),
    st.tuples(st.just("safe"), st.tuples(peers, percents)),
    st.tuples(st.just("ready"), st.integers(0, 12)),
    st.tuples(st.just("wait"), st.sampled_from([0.001, 0.02, 0.2, 2.0])),
    st.tuples(st.just("other"), st.integers(1, 5)),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("forget"), st.just(2)),
)
scripts = st.builds(lambda first, rest: [first, *rest], sending, st.lists(steps, min_size=3))
recipes = st.builds(
    Recipe,
    members=st.just(3),
    protocol=st.sampled_from(["s-rm", "s-rm", "s-sm", "rm", "sm"]),
    relation=st.sampled_from(["item", "item", "all", "none"]),
    buffer=st.sampled_from([4, 20, 20, 1000]),
    buffer_bytes=st.sampled_from([300, 2000, 64 << 20, 64 << 20]),
    window_bytes=st.sampled_from([None, None, 200, 5000]),
    message_bytes=st.sampled_from([1500, 65_000]),
    purge=st.sampled_from(["eager", "eager", "lazy"]),
    overflow=st.sampled_from(["block", "error"]),
    datagram_bytes=st.sampled_from([60, 200, 1400, 60_000]),
    coalesce_s=st.sampled_from([0.0, 0.01]),
    bandwidth_max=st.sampled_from([None, None, 2000.0, 100_000.0]),
    unicast=st.booleans(),
    congested_at=st.sampled_from([0.1, 0.5, 1.0]),
    safety_always=st.booleans(),
    direct_gossip=st.booleans(),
    echo=st.booleans(),
)


@given(recipe=recipes, ready=st.sampled_from([0, 5, 1 << 40, 1 << 40]), script=scripts)
@settings(max_examples=400)
def test_packing_changes_nothing(recipe, ready, script):
    """Under congestion and every bound, whatever peers hold, lack, ask for and report."""
    twins = [Twin(recipe, packs) for packs in (False, True)]
    for step in [("ready", ready), *script, ("ready", 1000), ("wait", 5.0), ("flush", None)]:
        for twin in twins:
            twin.log.clear()
            twin.step(step)
        assert twins[0].log == twins[1].log


def test_a_run_of_updates_stays_bytes_to_the_wire(monkeypatch):
    monkeypatch.setattr(kernel, "make_run", BUILD.pack_run)
    recipe = Recipe(members=2, datagram_bytes=200)
    member, out = Member(recipe, 0, Random(1)), Effects(recording=False)
    member.on_ready(99, 0.0, out)
    updates = [Update(b"%d" % n, "a") for n in range(20)]
    assert member.submit(updates, 0.0, out) == 20
    sent = [datagram.messages for _, datagram in out.send]
    assert len(sent) == 3
    assert all(messages.is_packed for messages in sent)
    assert [m.payload for messages in sent for m in messages] == [b"%d" % n for n in range(20)]
    (delivery,) = out.outputs
    assert delivery.run.is_packed
