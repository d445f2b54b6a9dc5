"""Claims of "Reliable Multicast for Publish/Subscribe Systems", each quoted by section."""

import importlib.util
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.effects import Effects
from semcast.terms.machine import GoOffline, GoOnline, JoinGroup
from semcast.terms.pubsub import (
    Ack,
    Appended,
    Collected,
    Gossip,
    GossipDigest,
    Join,
    Publication,
    PublisherHeartbeat,
    Repair,
    RepairRequest,
    StatusList,
    StreamSpans,
    StreamStatus,
    UnusedSeqs,
    Welcome,
)


def _load() -> ModuleType:
    path = Path(__file__).parents[1] / "core" / "pubsub" / "group.py"
    spec = importlib.util.spec_from_file_location("pubsub_group", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Group = _load().Group
LOGGER = 0


def lossy(group, loss: float, seed: int = 1) -> None:
    rng = Random(seed)
    group.lose = lambda source, target, datagram: rng.random() < loss


def healed(group) -> None:
    group.lose = lambda source, target, datagram: False


def publish(group, sender: int, count: int, every_s: float = 0.01) -> None:
    for _ in range(count):
        group.send(sender, None)
        group.run(every_s)


# Chapter 3: protocol L.


def test_two_send_events_have_different_ids() -> None:
    """§3.1, Property 3.1: "If user_send(m) and user_send(m') are two distinct send events, then
    ID(m) ≠ ID(m')"; also across a crash, for which §6.2 reserves blocks."""
    group = Group(PubsubRecipe(members=3, protocol="lbrm", block=4))
    publish(group, 1, 6)
    group.crash(1)
    group.run(1)
    group.recover(1)
    publish(group, 1, 6)
    ids = [(event.sender, event.seq) for event in group.kinds("multicast")]
    assert len(ids) == 12
    assert len(set(ids)) == 12


def test_a_message_is_buffered_until_its_acknowledgement_and_no_longer() -> None:
    """§3.1, Property 3.2: "m ∈ sendbuf if and only if there was a user_send(m) event and no
    corresponding receive(ID(m), ACK) event has arrived yet"."""
    group = Group(PubsubRecipe(members=2, protocol="lbrm"))
    group.lose = lambda source, target, datagram: isinstance(datagram, Ack)
    publish(group, 1, 3)
    group.run(2)
    assert list(group.people[1].publisher.unacknowledged) == [1, 2, 3]
    group.hand(LOGGER, 1, Ack(StreamSpans(1, ((2, 2),))))
    assert list(group.people[1].publisher.unacknowledged) == [1, 3]
    healed(group)
    group.run(1)
    assert not group.people[1].publisher.unacknowledged


def test_the_logger_acknowledges_each_copy_that_it_gets() -> None:
    """§3.2: "Since ACKs could be lost, the logger might receive the same message multiple times …
    the logger must generate an ACK each time"."""
    group = Group(PubsubRecipe(members=2, protocol="lbrm"))
    publish(group, 1, 1)
    message = group.delivered[1][0]
    for _ in range(2):
        out = group.hand(1, LOGGER, Publication((message,)))
        assert ((1,), Ack(StreamSpans(1, ((1, 1),)))) in out.send


def test_the_logger_does_not_queue_requests() -> None:
    """§3.2: "the logger does not queue RTX requests when the requested message is not in logbuf.
    We rely on each receiver to continue sending RTX requests periodically"."""
    group = Group(PubsubRecipe(members=3, protocol="lbrm"))
    group.hand(1, 2, PublisherHeartbeat(1, 1))
    group.run(1)
    assert len(group.sends(RepairRequest, 2)) >= 4
    assert not group.sends(Repair, LOGGER)


@pytest.mark.parametrize("protocol", ["lbrm", "rpbcast"])
def test_missing_and_delivered_are_disjoint_and_cover_everything_seen(protocol: str) -> None:
    """§3.3, Invariant 3.3 and Properties 3.4 and 3.5: each number up to lastseen was delivered,
    waits in deliverbuf, or is missing, exactly one of them, at any time."""
    group = Group(PubsubRecipe(members=4, protocol=protocol, order="fifo"), sync_s=0.0)
    lossy(group, 0.3)
    for _ in range(60):
        group.send(1, None)
        group.run(0.01)
        for pid in (1, 2, 3):
            reception = group.people[pid].delivery
            stream = reception.tracker.streams.get(1)
            if stream is None:
                continue
            counted = Counter(group.seqs(pid, 1)) + Counter(list(reception.held.get(1, ())))
            counted += Counter(m.seq for _, m, _ in reception.awaiting_cursor)
            counted += Counter(n for a, b in stream.missing for n in range(a, b + 1))
            assert counted == Counter(range(1, stream.last + 1))


@pytest.mark.parametrize("loss", [0.05, 0.4])
@pytest.mark.parametrize("protocol", ["lbrm", "rpbcast"])
def test_every_message_is_delivered_once_to_every_receiver(protocol: str, loss: float) -> None:
    """§3.5: "The combination of these two liveness properties guarantees eventual delivery of every
    message to each receiver. Using the at most once property, we get exactly once delivery"."""
    group = Group(PubsubRecipe(members=5, protocol=protocol))
    lossy(group, loss)
    for sender in (1, 2, 3):
        publish(group, sender, 10)
    healed(group)
    group.run(35)
    for pid in range(5):
        for sender in (1, 2, 3):
            assert sorted(group.seqs(pid, sender)) == list(range(1, 11))


def test_heartbeats_back_off_exponentially() -> None:
    """§5.1, table 7.1: LBRM's variable heartbeats, 0.25 s to 32 s, back-off factor 2."""
    group = Group(PubsubRecipe(members=2, protocol="lbrm"))
    publish(group, 1, 1)
    sent_at: list[float] = []
    group.lose = lambda s, t, d: (
        sent_at.append(group.now) if isinstance(d, PublisherHeartbeat) else False
    )
    group.run(130)
    gaps = [round(b - a, 6) for a, b in pairwise(sent_at)]
    assert gaps == [0.5, 1, 2, 4, 8, 16, 32, 32, 32]


# Chapter 4: gossip.


def test_what_is_detected_missing_is_asked_for_at_once() -> None:
    """§4.1: "lower delivery latency because we can request retransmissions immediately upon
    detection through negative gossips instead of waiting until the next gossip round"."""
    group = Group(PubsubRecipe(members=3), sync_s=0.0)
    group.lose = lambda source, target, datagram: target == 2 and isinstance(datagram, Publication)
    group.send(1, None)
    group.run(0.01)
    healed(group)
    group.send(1, None)
    group.run(0.01)
    assert sorted(group.seqs(2, 1)) == [1, 2]
    assert [d.missing for _, _, d in group.sends(RepairRequest, 2)] == [
        (StreamSpans(1, ((1, 1),)),)
    ]


def test_requests_are_bundled_into_one_gossip_message() -> None:
    """§4.1: "These RTX messages can be bundled into one single gossip message"."""
    group = Group(PubsubRecipe(members=3, rounds=1000), sync_s=0.0)
    group.lose = lambda source, target, datagram: (
        target == 2 and not isinstance(datagram, PublisherHeartbeat)
    )
    publish(group, 1, 5)
    publish(group, 0, 3)
    group.run(1.0)
    lacks = [d.missing for _, _, d in group.sends(Gossip, 2)]
    assert (StreamSpans(1, ((1, 5),)), StreamSpans(0, ((1, 3),))) in lacks


def test_a_gossip_buffer_keeps_messages_for_the_collection_limit() -> None:
    """§4.1, §7.2: "we buffer each packet for 10 gossip rounds. Thus each node buffers all packets
    that arrived in the past 2.5 seconds"."""
    group = Group(PubsubRecipe(members=3), sync_s=0.0)
    publish(group, 1, 1)
    wanted = RepairRequest((StreamSpans(1, ((1, 1),)),))
    assert isinstance(group.hand(1, 2, wanted).send[0][1], Repair)
    group.run(2.4)
    assert isinstance(group.hand(1, 2, wanted).send[0][1], Repair)
    group.run(0.5)
    assert group.hand(1, 2, wanted).send == [((1,), Collected((StreamSpans(1, ((1, 1),)),)))]


def test_a_collected_notice_is_sent_only_for_what_was_received() -> None:
    """§4.3: "We generate a GcNOTE if and only if the requested message is not in our gossipbuf and
    that we have received the message before"."""
    group = Group(PubsubRecipe(members=3), sync_s=0.0)
    group.lose = lambda source, target, datagram: target == 2
    publish(group, 1, 1)
    healed(group)
    group.run(4)
    group.lose = lambda source, target, datagram: True
    group.send(1, None, None)
    group.hand(1, 2, PublisherHeartbeat(1, 3))  # 2 and 3 are known and missing
    out = group.hand(1, 2, RepairRequest((StreamSpans(1, ((1, 5),)),)))
    assert [d for _, d in out.send if isinstance(d, Collected)] == [
        Collected((StreamSpans(1, ((1, 1),)),))
    ]


def test_a_late_collected_notice_does_not_make_a_message_wanted_again() -> None:
    """§4.3 moves the id of every GcNOTE to *missing*; of one that was recovered meanwhile that
    would deliver a message twice, so only ids in the gossip phase are moved."""
    group = Group(PubsubRecipe(members=3), sync_s=0.0)
    publish(group, 1, 2)
    group.hand(0, 2, Collected((StreamSpans(1, ((1, 2),)),)))
    group.hand(0, 2, Repair(tuple(group.delivered[1])))
    group.run(5)
    assert group.seqs(2, 1) == [1, 2]
    assert not group.people[2].recovery.logger_phase


def test_every_missing_message_is_recovered_by_gossip_or_passed_on_to_the_logger() -> None:
    """§4.3, Property 4.1: "m is either recovered during the gossip phase or eventually passed on to
    the logger phase recovery"; here all members have collected it."""
    group = Group(PubsubRecipe(members=4, rounds=2), sync_s=0.0)
    group.lose = lambda source, target, datagram: target == 3
    publish(group, 1, 4)
    group.run(5)
    healed(group)
    group.run(5)
    assert sorted(group.seqs(3, 1)) == [1, 2, 3, 4]
    asked = [target for _, target, d in group.sends(RepairRequest, 3) if target == LOGGER]
    served = [d for _, target, d in group.sends(Repair, LOGGER) if target == 3 and d.messages]
    assert asked or served


def test_a_member_that_never_hears_a_notice_still_reaches_the_logger() -> None:
    """§4.3 proves Property 4.1 from the notices of members that had the message. If nobody else
    was there when it was sent, none comes; age then passes the id on."""
    group = Group(PubsubRecipe(members=3, rounds=2), sync_s=0.0)
    group.lose = lambda source, target, datagram: target == 2 or isinstance(datagram, Collected)
    publish(group, 1, 2)
    group.run(1)
    group.lose = lambda s, target, d: isinstance(d, Collected) or (s != LOGGER and target == 2)
    group.run(6)
    assert sorted(group.seqs(2, 1)) == [1, 2]


def test_push_sends_three_messages_where_pull_sends_two() -> None:
    """§4: "Gossiper-pull has lower network traffic because it only sends out two messages instead
    of the three sent in gossiper-push"."""
    exchanges = {}
    for protocol in ("rpbcast", "pbcast"):
        group = Group(PubsubRecipe(members=2, protocol=protocol), sync_s=0.0)
        group.lose = lambda source, target, datagram: isinstance(datagram, Publication)
        group.send(1, None)
        group.run(1.0)
        assert group.seqs(0, 1) == [1]
        kinds = [
            type(d)
            for _, _, d in group.sent
            if isinstance(d, GossipDigest | RepairRequest | Repair)
        ]
        upto = kinds.index(Repair) + 1
        exchanges[protocol] = kinds[max(0, upto - 3) : upto]
    assert exchanges == {
        "rpbcast": [RepairRequest, Repair],
        "pbcast": [GossipDigest, RepairRequest, Repair],
    }


# Chapter 5: heartbeats, collection, membership.


def test_one_heartbeat_is_multicast_before_idling_and_signatures_do_the_rest() -> None:
    """§5.1: "the periodic heartbeat is replaced by one multicast and gossips"."""
    group = Group(PubsubRecipe(members=4), sync_s=0.0)
    group.lose = lambda s, target, d: (
        target == 3 and isinstance(d, PublisherHeartbeat | Publication)
    )
    group.send(1, None)
    group.run(20)
    assert len(group.sends(PublisherHeartbeat)) == 1
    assert group.seqs(3, 1) == [1]


def test_members_that_agree_exchange_no_lists() -> None:
    """§5.1: "If the gossip target has the same signature … no further information exchange is
    necessary"."""
    group = Group(PubsubRecipe(members=4), sync_s=0.0)
    publish(group, 1, 5)
    group.run(5)
    before = len(group.sends(StatusList))
    group.run(20)
    assert len(group.sends(StatusList)) == before
    assert group.sends(Gossip)


def test_a_disagreement_is_merged_both_ways() -> None:
    """§5.1: "the target will respond with a list of its heartbeats and let the gossiper merge the
    difference … also update the target if the target is behind … both pull and push in one
    gossip round"."""
    group = Group(PubsubRecipe(members=4, loggers=(0,)), sync_s=0.0)
    one, two = group.people[1], group.people[2]
    one.tracker.learn_last(3, 7)
    two.tracker.learn_last(0, 9)
    for person in (one, two):
        person.tracker.detected.clear()
        person.tracker.active.clear()
    gossip = one.gossiper._compose(2, Effects(recording=True))
    answer = group.hand(1, 2, gossip).send
    lasts = next(d for _, d in answer if isinstance(d, StatusList))
    back = next(d for _, d in group.hand(2, 1, lasts).send if isinstance(d, StatusList))
    group.hand(1, 2, back)
    assert one.tracker.signature == two.tracker.signature
    assert one.tracker.streams[0].last == 9
    assert two.tracker.streams[3].last == 7


def test_an_acknowledgement_is_the_complement_of_the_nacks() -> None:
    """§5.2: "find the smallest missing message ID for a sender in the gossip message and garbage
    collect messages below that ID. If there are no missing messages … use the sequence number"."""
    group = Group(PubsubRecipe(members=3), sync_s=0.0)
    group.lose = lambda s, target, d: target == 2 and isinstance(d, Repair)
    publish(group, 1, 2)
    group.lose = lambda s, target, d: target == 2 and not isinstance(d, PublisherHeartbeat)
    publish(group, 1, 1)
    group.lose = lambda s, target, d: target == 2 and isinstance(d, Repair)
    publish(group, 1, 2)
    group.run(30)
    assert sorted(group.seqs(2, 1)) == [1, 2, 4, 5]
    assert group.people[LOGGER].logger_role.collector.acknowledged[1] == {1: 5, 2: 2}
    assert max(e.seq for e in group.kinds("reclaim", LOGGER)) == 2


def test_case_1_a_message_after_the_logger_learnt_of_a_member_waits_for_it() -> None:
    """§5.2, case 1: "m arrives at the logger after time t_learn"."""
    group = Group(PubsubRecipe(members=4, founders=3), sync_s=0.0)
    group.tell(3, JoinGroup())
    group.run(0.1)
    assert [e.pid for e in group.kinds("join")] == [0, 1, 2, 3]
    group.unplugged.add(3)
    publish(group, 1, 3)
    group.run(30)
    assert not group.kinds("reclaim")
    group.unplugged.clear()
    group.run(30)
    assert sorted(group.seqs(3, 1)) == [1, 2, 3]
    assert max(e.seq for e in group.kinds("reclaim")) == 3


def test_case_2_a_sponsors_acknowledgement_brings_the_new_member_along() -> None:
    """§5.2, case 2: "there exists another receiver h such that GC of m depends on h and h has not
    sent an acknowledgment of m to the logger before time t_learn"."""
    recipe = PubsubRecipe(members=5, founders=4, sponsors=3)
    group = Group(recipe, sync_s=0.0)
    group.lose = lambda source, target, d: LOGGER in (source, target) and 4 in (source, target)
    group.tell(4, JoinGroup())
    group.run(2)
    assert group.kinds("join", 4), "three members sponsored it, the logger has not heard of it"
    group.unplugged.add(4)
    publish(group, 1, 3)
    group.run(30)
    assert group.people[LOGGER].roster.entry(4) is not None, "it learnt of it by gossip"
    assert not group.kinds("reclaim")
    group.unplugged.clear()
    healed(group)
    group.run(30)
    assert sorted(group.seqs(4, 1)) == [1, 2, 3]


def test_a_join_time_is_the_largest_of_the_sponsorship_times() -> None:
    """§5.3, Property 5.2: "If a join succeeds, then t_join is after TS_i for each sponsor i"."""
    recipe = PubsubRecipe(members=4, founders=3, sponsors=2)
    group = Group(recipe, sync_s=0.0)
    group.lose = lambda source, target, datagram: True
    group.tell(3, JoinGroup())
    fresh = next(d for _, _, d in group.sends(Join, 3)).freshness
    group.hand(1, 3, Welcome(fresh, (StreamStatus(1, 5, 5), StreamStatus(2, 3, 3))))
    assert not group.kinds("join", 3)
    group.hand(1, 3, Welcome(fresh, (StreamStatus(1, 5, 5),)))
    assert not group.kinds("join", 3), "one sponsor twice is one sponsor"
    group.hand(2, 3, Welcome(fresh - 1, (StreamStatus(1, 9, 9),)))
    assert not group.kinds("join", 3), "of an earlier attempt"
    group.hand(
        2, 3, Welcome(fresh, (StreamStatus(1, 4, 4), StreamStatus(2, 6, 6), StreamStatus(0, 1, 1)))
    )
    assert [e.note for e in group.kinds("join", 3)] == ["0:1 1:5 2:6"]
    streams = group.people[3].delivery.tracker.streams
    assert {sender: stream.start for sender, stream in streams.items()} == {1: 5, 2: 6, 0: 1}


def test_one_logger_suffices_as_a_sponsor() -> None:
    """§5.3: "we leave the pending states if we get k sponsors or if we get a sponsorship from a
    logger"; here the logger has written the new member down first."""
    recipe = PubsubRecipe(members=4, founders=3, sponsors=3)
    group = Group(recipe)
    group.lose = lambda source, target, d: isinstance(d, Welcome) and source != LOGGER
    group.tell(3, JoinGroup())
    group.run(0.0015)
    assert not group.kinds("join", 3), "the logger's disk is slower than the network"
    group.run(0.1)
    assert group.kinds("join", 3)


def test_who_is_joining_sponsors_nobody() -> None:
    """§5.3: "pending members are not allowed to be sponsors"."""
    group = Group(PubsubRecipe(members=4, founders=2), sync_s=0.0)
    group.lose = lambda source, target, d: target in (0, 1)
    group.tell(2, JoinGroup())
    group.tell(3, JoinGroup())
    group.run(2)
    assert not group.sends(Welcome)


def test_a_disconnected_member_misses_nothing() -> None:
    """§1.1, §5.3: "intermittently connected members"."""
    group = Group(PubsubRecipe(members=4), sync_s=0.0)
    publish(group, 1, 2)
    group.tell(3, GoOffline())
    publish(group, 1, 5)
    group.run(20)
    assert max((e.seq for e in group.kinds("reclaim")), default=0) <= 2
    group.tell(3, GoOnline())
    group.run(20)
    assert sorted(group.seqs(3, 1)) == list(range(1, 8))
    assert max(e.seq for e in group.kinds("reclaim")) == 7


# Chapter 6: crashes.


def test_numbers_lost_in_a_crash_are_a_gap_that_loggers_spread() -> None:
    """§6.2: "have notifications from the sender to loggers … Loggers can then take over the
    responsibility of spreading that information to other receivers"."""
    group = Group(PubsubRecipe(members=4, block=4, loggers=(0, 3), copies=2), sync_s=0.0)
    publish(group, 1, 5)
    group.crash(1)
    group.run(1)
    group.recover(1)
    group.lose = lambda source, target, d: isinstance(d, UnusedSeqs) and source == 1 and target == 2
    publish(group, 1, 2)
    group.run(10)
    skipped = [e.seq for e in group.kinds("skip", 2) if e.sender == 1]
    delivered = group.seqs(2, 1)
    assert sorted(skipped + delivered) == list(range(1, max(delivered) + 1))
    assert {e.note for e in group.kinds("skip", 2)} == {"block"}
    assert {e.peer for e in group.kinds("skip", 2)} <= {0, 3}


def test_a_census_calls_nothing_a_gap_that_was_acknowledged() -> None:
    """§6.2 has the sender call a gap what is "not in sendbuf", which after a crash is everything;
    L - copies + 1 loggers are asked first."""
    group = Group(PubsubRecipe(members=5, block=64, loggers=(0, 3, 4), copies=2), sync_s=0.0)
    group.lose = lambda source, target, d: target in (2, 4)
    publish(group, 1, 8)
    acknowledged = [e.seq for e in group.kinds("acknowledge")]
    assert acknowledged == list(range(1, 9))
    group.crash(1)
    group.run(0.5)
    group.lose = lambda source, target, d: source == 3
    group.recover(1)
    group.run(5)
    healed(group)
    group.run(10)
    assert sorted(group.seqs(2, 1)) == acknowledged
    assert min(e.seq for e in group.kinds("skip", 2)) > 8


def test_receivers_recover_at_most_once() -> None:
    """§6.1: crash and recovery may drop messages; none is delivered twice, also if the sponsors of
    the new life have not heard of what the old one delivered."""
    group = Group(PubsubRecipe(members=3, recovery="at-most-once"))
    group.lose = lambda source, target, d: source == 1 and target == LOGGER
    publish(group, 1, 3)
    assert group.seqs(2, 1) == [1, 2, 3]
    group.crash(2)
    group.recover(2)
    group.run(1)
    healed(group)
    publish(group, 1, 2)
    group.run(10)
    assert group.seqs(2, 1) == [1, 2, 3, 4, 5]


def test_receivers_recover_at_least_once() -> None:
    """§6.2: "the recovering member can contact a logger and figure out which messages it may not
    have been delivered to the application yet"."""
    group = Group(PubsubRecipe(members=3, recovery="at-least-once"))
    publish(group, 1, 3)
    group.run(1)
    publish(group, 1, 2)
    group.crash(2)
    publish(group, 1, 4)
    group.run(30)
    assert max((e.seq for e in group.kinds("reclaim")), default=0) <= 5
    group.recover(2)
    group.run(10)
    assert set(group.seqs(2, 1)) == set(range(1, 10))
    assert len(group.kinds("join", 2)) == 1, "it is the same member"


def test_a_message_is_durable_before_it_is_acknowledged() -> None:
    """§3.2, §6: loggers "have stable storage for all its operations"."""
    group = Group(PubsubRecipe(members=2, protocol="lbrm"), sync_s=0.5)
    group.send(1, None)
    group.run(0.4)
    assert not group.sends(Publication), "nor is a number used that is not reserved"
    group.run(0.4)
    assert group.sends(Publication)
    assert not group.sends(Ack)
    assert not any(isinstance(record, Appended) for record in group.durable[LOGGER])
    group.run(0.4)
    assert group.sends(Ack)
    assert any(isinstance(record, Appended) for record in group.durable[LOGGER])
