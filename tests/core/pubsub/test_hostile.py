"""Whatever a peer says, nothing is raised and no guarantee breaks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.core.pubsub.participant import Participant
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms import pubsub
from semcast.terms.effects import Effects
from semcast.terms.machine import JoinGroup
from semcast.terms.messages import DataMessage, PurgeNotice
from semcast.terms.outputs import delivered
from semcast.wire import PUBSUB_CODEC, encode

PIDS = st.integers(0, 6)  # two of them beyond the group
SEQS = st.one_of(st.integers(1, 6), st.just(2**63 - 1))
FRESH = st.one_of(st.integers(-1, 3), st.just(2**62))
INCS = st.one_of(st.integers(0, 3), st.just(2**62))
SPANS = st.lists(st.integers(1, 30), min_size=2, max_size=6, unique=True).map(
    lambda ns: tuple(zip(sorted(ns)[::2], sorted(ns)[1::2], strict=False))
)
PARTS = st.builds(pubsub.StreamSpans, PIDS, st.one_of(SPANS, st.just(((1, 2**63 - 1),))))
HEARD = st.builds(lambda s, a, b: pubsub.StreamStatus(s, max(a, b), min(a, b)), PIDS, SEQS, SEQS)
ENTRIES = st.builds(pubsub.MemberEntry, PIDS, st.integers(1, 3), FRESH)
MESSAGES = st.builds(DataMessage, PIDS, SEQS, st.one_of(st.none(), st.integers(0, 3)))
PURGED = st.builds(PurgeNotice, PIDS, st.just(1), st.integers(1, 5), st.integers(6, 9))
SIGNATURES = st.sampled_from([0, 1, 2**64 - 1])


def some(elements):
    return st.lists(elements, max_size=3).map(tuple)


DATAGRAMS = st.one_of(
    st.builds(pubsub.Publication, some(MESSAGES)),
    st.builds(pubsub.Repair, some(MESSAGES), some(PURGED), st.integers(0, 100)),
    st.builds(pubsub.PublisherHeartbeat, PIDS, SEQS),
    st.builds(pubsub.RepairRequest, some(PARTS)),
    st.builds(
        pubsub.Gossip,
        FRESH,
        SIGNATURES,
        SIGNATURES,
        some(PARTS),
        some(HEARD),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(pubsub.GossipDigest, SIGNATURES, some(PARTS)),
    st.builds(pubsub.Collected, some(PARTS)),
    st.builds(pubsub.StatusList, FRESH, SIGNATURES, some(HEARD), st.booleans()),
    st.builds(pubsub.MemberList, PIDS, PIDS, some(ENTRIES), st.booleans()),
    st.builds(pubsub.Join, FRESH),
    st.builds(pubsub.Welcome, FRESH, some(HEARD)),
    st.builds(pubsub.LeaveRequest, FRESH, SIGNATURES),
    st.builds(pubsub.LeaveAck, FRESH),
    st.builds(pubsub.Ack, PARTS, INCS),
    st.builds(pubsub.RecoveryQuery, st.just((1, 2**63 - 1))),
    st.builds(pubsub.RecoveryReply, st.just((1, 5)), PARTS),
    st.builds(pubsub.UnusedSeqs, PARTS),
    st.builds(pubsub.LostSeqs, PARTS),
    st.builds(pubsub.ResyncRequest, INCS),
    st.builds(pubsub.NotHeld, PARTS),
)
RECIPES = [
    PubsubRecipe(members=5, protocol="lbrm", loggers=(0, 1), copies=2),
    PubsubRecipe(members=5, relation="item", retain="latest", order="fifo", founders=4, age_s=3.0),
    PubsubRecipe(members=5, protocol="pbcast"),
    PubsubRecipe(members=5, recovery="at-least-once", recovery_first="adaptive", multicast_at=2),
]


@settings(max_examples=150)
@given(
    st.sampled_from(RECIPES),
    st.sampled_from([0, 4]),
    st.lists(st.tuples(PIDS, DATAGRAMS), max_size=25),
    st.randoms(use_true_random=False),
)
def test_no_sequence_of_datagrams_raises(recipe, pid, datagrams, rng) -> None:
    person = Participant(recipe, pid, rng, 0.0)
    seen: list[tuple[int, int]] = []
    now = 0.0
    steps = [None, *datagrams]
    for step in steps:
        out = Effects(recording=True)
        if step is None:
            person.on_command(JoinGroup(), now, out)
        else:
            person.on_datagrams(step[0], (PUBSUB_CODEC.decode(encode(step[1])),), now, out)
            assert not out.refused
        now += 0.1
        person.on_persisted(1 << 60, now, out)
        person.on_time(now, out)
        assert person.deadline > now
        seen += [(m.sender, m.seq) for m in delivered(out.outputs)]
        for _, datagram in out.send:
            assert PUBSUB_CODEC.decode(encode(datagram)) == datagram
        assert len(out.send) < 200
    assert len(seen) == len(set(seen))
