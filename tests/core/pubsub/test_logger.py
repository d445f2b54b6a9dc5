"""What loggers keep, give, purge, reclaim and get back."""

from semcast.core.pubsub.logger import READING_MAX
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.effects import Effects
from semcast.terms.machine import LeaveGroup
from semcast.terms.messages import PurgeNotice
from semcast.terms.outputs import PassedOver
from semcast.terms.pubsub import (
    Ack,
    LostSeqs,
    Repair,
    RepairRequest,
    StatusList,
    StreamSpans,
    StreamStatus,
)
from semcast.terms.records import ReadResult


def away(wire, pid: int) -> None:
    wire.lose = lambda source, target, datagram: pid in (source, target)


def back(wire) -> None:
    wire.lose = lambda source, target, datagram: False


def test_the_last_word_comes_with_the_notice(group) -> None:
    """A request for purged messages brings one datagram: the newest of the item, and the notice."""
    recipe = PubsubRecipe(members=3, protocol="lbrm", relation="item", retain="latest")
    wire = group(recipe, sync_s=0.0)
    away(wire, 2)
    for item in (7, 8, 7, 7):
        wire.send(1, item)
        wire.run(0.01)
    assert [(e.seq, e.by_seq) for e in wire.kinds("purge", 0)] == [(1, 3), (3, 4)]
    out = wire.hand(2, 0, RepairRequest((StreamSpans(1, ((1, 1), (3, 3))),)))
    (repair,) = [d for _, d in out.send if isinstance(d, Repair)]
    assert [m.seq for m in repair.messages] == [4]
    assert [(p.first, p.last, p.witness) for p in repair.purged] == [(1, 1, 4), (3, 3, 4)]
    back(wire)
    wire.run(3)
    assert sorted(wire.seqs(2, 1)) == [2, 4]
    assert {(e.seq, e.by_seq) for e in wire.kinds("skip", 2)} == {(1, 4), (3, 4)}
    assert wire.passed_over[2] == [PassedOver(1, 1, 1, ""), PassedOver(1, 3, 3, "")]


def test_a_notice_without_its_witness_skips_nothing(group) -> None:
    wire = group(PubsubRecipe(members=3, relation="item", retain="latest"), sync_s=0.0)
    wire.lose = lambda source, target, datagram: True
    wire.hand(0, 2, Repair((), (PurgeNotice(1, 1, 2, 5),)))
    assert not wire.kinds("skip", 2)


def test_nothing_is_purged_for_a_message_that_is_not_durable(group) -> None:
    recipe = PubsubRecipe(members=3, protocol="lbrm", relation="item", retain="latest")
    wire = group(recipe, sync_s=0.0)
    away(wire, 2)
    wire.send(1, 7)
    wire.run(0.1)
    wire.sync_s = 9.0
    wire.send(1, 7)
    wire.run(1)
    assert list(wire.people[0].logger_role.log.volumes[1].messages) == [1, 2]
    assert not wire.kinds("purge", 0)


def test_obsolete_messages_are_kept_for_as_long_as_the_topic_says(group) -> None:
    wire = group(PubsubRecipe(members=3, protocol="lbrm", relation="item", retain=1.0), sync_s=0.0)
    away(wire, 2)
    wire.send(1, 7, 7)
    wire.run(0.9)
    assert not wire.kinds("purge", 0)
    wire.run(0.3)
    assert [e.seq for e in wire.kinds("purge", 0)] == [1]


def test_age_is_the_fail_safe_and_who_lacks_it_is_told(group) -> None:
    wire = group(PubsubRecipe(members=3, age_s=2.0), sync_s=0.0)
    away(wire, 2)
    wire.send(1, None, None)
    wire.run(5)
    assert [(e.seq, e.note) for e in wire.kinds("reclaim", 0)] == [(2, "age")]
    back(wire)
    wire.run(10)
    assert wire.seqs(2, 1) == []
    assert [(e.seq, e.note) for e in wire.kinds("skip", 2)] == [(1, "age"), (2, "age")]
    assert wire.passed_over[2] == [PassedOver(1, 1, 2, "age")]
    assert wire.sends(LostSeqs)


def test_a_leaver_is_struck_from_all_waits(group) -> None:
    """Unlike [RPB §5.2], whose remove_member leaves it in the lists of messages it was in."""
    wire = group(PubsubRecipe(members=4), sync_s=0.0)
    away(wire, 3)
    wire.send(1, None)
    wire.run(10)
    assert not wire.kinds("reclaim")
    wire.lose = lambda source, target, datagram: target == 3 and source == 1
    wire.tell(3, LeaveGroup())
    wire.run(10)
    assert wire.people[3].membership.state == "outside"
    assert wire.kinds("reclaim")[-1].seq == 1
    assert wire.seqs(3, 1) == []


def test_a_claim_counts_only_in_the_life_and_membership_that_the_logger_knows(group) -> None:
    wire = group(PubsubRecipe(members=3), sync_s=0.0)
    wire.lose = lambda source, target, datagram: target == 2 or source == 2
    wire.send(1, None)
    wire.run(0.1)
    keeping = wire.people[0].logger_role
    signature = wire.people[0].roster.signature
    wire.hand(2, 0, StatusList(5, signature, (StreamStatus(1, 1, 1),), False))
    assert 2 not in keeping.collector.acknowledged.get(1, {}), "of another life"
    wire.hand(2, 0, StatusList(0, signature + 1, (StreamStatus(1, 1, 1),), False))
    assert 2 not in keeping.collector.acknowledged.get(1, {}), "it knows other members"
    wire.hand(2, 0, StatusList(0, signature, (StreamStatus(1, 1, 1),), False))
    assert keeping.collector.acknowledged[1][2] == 1


def payloads(wire, pid: int) -> set[int]:
    """The numbers of process 1 whose payloads a logger has in memory."""
    volume = wire.people[pid].logger_role.log.volumes[1]
    return {seq for seq, message in volume.messages.items() if message.payload}


def test_a_logger_answers_from_its_disk_what_it_has_no_longer_in_memory(group) -> None:
    wire = group(PubsubRecipe(members=3, protocol="lbrm", log_buffer=2), sync_s=0.01)
    away(wire, 2)
    for number in range(6):
        wire.send(1, None, payload=b"%d" % number)
        wire.run(0.1)
    assert payloads(wire, 0) == {5, 6}
    back(wire)
    wire.run(5)
    assert {m.payload for m in wire.delivered[2] if m.sender == 1} == {b"%d" % n for n in range(6)}
    assert wire.reads == 4


def test_what_is_not_durable_stays_in_memory(group) -> None:
    wire = group(PubsubRecipe(members=3, protocol="lbrm", log_buffer=1), sync_s=0.0)
    wire.send(1, None, payload=b"x")  # Its block of numbers is on disk.
    wire.run(0.1)
    wire.sync_s = 9.0
    for _ in range(4):
        wire.send(1, None, payload=b"x")
    wire.run(1)
    assert payloads(wire, 0) == {1, 2, 3, 4, 5}
    wire.run(10)
    assert payloads(wire, 0) == {5}


def test_a_logger_that_restarts_leaves_old_payloads_on_the_disk(group) -> None:
    wire = group(PubsubRecipe(members=3, protocol="lbrm", log_buffer=2), sync_s=0.0)
    away(wire, 2)
    for number in range(6):
        wire.send(1, None, payload=b"%d" % number)
    wire.run(0.1)
    wire.crash(0)
    wire.recover(0)
    assert payloads(wire, 0) == {5, 6}
    back(wire)
    wire.run(5)
    assert {m.payload for m in wire.delivered[2] if m.sender == 1} == {b"%d" % n for n in range(6)}


def test_the_last_word_may_be_on_the_disk_and_what_is_reclaimed_meanwhile_is_said_so(group) -> None:
    recipe = PubsubRecipe(
        members=3, protocol="lbrm", relation="item", retain="latest", log_buffer=1
    )
    wire = group(recipe, sync_s=0.0)
    away(wire, 2)
    for item in (7, 7, 8, 9):
        wire.send(1, item, payload=b"x")
        wire.run(0.01)
    logger = wire.people[0].logger_role
    out = wire.hand(2, 0, RepairRequest((StreamSpans(1, ((1, 1), (4, 4))),)))
    [request] = out.read
    assert request.purpose == (2, 1, (1,))
    [(_, here)] = [entry for entry in out.send if isinstance(entry[1], Repair)]
    assert [m.seq for m in here.messages] == [4]
    durable = {number: wire.durable[0][number - 1] for number in request.numbers}
    out = Effects(recording=True)
    logger.logger.on_read(ReadResult(durable, request.purpose), wire.now, out)
    [(_, repair)] = out.send
    assert [(m.seq, m.payload) for m in repair.messages] == [(2, b"x")]
    assert [(p.first, p.last, p.witness) for p in repair.purged] == [(1, 1, 2)]
    logger.log.reclaim(1, 2)
    out = Effects(recording=True)
    logger.logger.on_read(ReadResult({}, request.purpose), wire.now, out)
    assert [datagram for _, datagram in out.send] == [LostSeqs(StreamSpans(1, ((1, 1),)))]


def test_reads_under_way_are_bounded(group) -> None:
    wire = group(PubsubRecipe(members=3, protocol="lbrm", log_buffer=1), sync_s=0.0)
    away(wire, 2)
    for _ in range(3):
        wire.send(1, None, payload=b"x")
        wire.run(0.01)
    wire.people[0].logger_role.logger.reading = READING_MAX - 1
    assert not wire.hand(2, 0, RepairRequest((StreamSpans(1, ((1, 2),)),))).read
    assert wire.hand(2, 0, RepairRequest((StreamSpans(1, ((1, 1),)),))).read


def test_loggers_catch_up_with_each_other(group) -> None:
    wire = group(PubsubRecipe(members=4, protocol="lbrm", loggers=(0, 1)), sync_s=0.0)
    away(wire, 1)
    for _ in range(700):
        wire.send(3, None)
    wire.run(1)
    assert len(wire.kinds("acknowledge")) == 700
    back(wire)
    wire.run(40)
    assert len(wire.kinds("append", 1)) == 700


def test_a_logger_that_lost_its_disk_acknowledges_nothing_until_it_has_everything(group) -> None:
    wire = group(PubsubRecipe(members=4, loggers=(0, 1), copies=2), sync_s=0.0)
    for _ in range(5):
        wire.send(3, None)
    wire.run(1)
    wire.crash(1, disk=False)
    wire.run(1)
    wire.lose = lambda source, target, datagram: {source, target} == {0, 1}
    wire.recover(1)
    wire.send(3, None)
    before = len(wire.sends(Ack, 1))
    wire.run(2)
    assert not wire.people[1].logger_role.log.is_complete
    assert len(wire.sends(Ack, 1)) == before
    assert [e.seq for e in wire.kinds("acknowledge")] == [1, 2, 3, 4, 5]
    back(wire)
    wire.run(3)
    assert wire.people[1].logger_role.log.is_complete
    assert [e.seq for e in wire.kinds("acknowledge")] == [1, 2, 3, 4, 5, 6]
    assert len(wire.seqs(1, 3)) == len(set(wire.seqs(1, 3)))


def test_what_nobody_has_any_more_is_told_as_lost(group) -> None:
    wire = group(PubsubRecipe(members=3, loggers=(0,), rounds=1), sync_s=0.0)
    away(wire, 2)
    wire.send(1, None, None)
    wire.run(3)
    assert len(wire.kinds("acknowledge")) == 2
    wire.crash(0, disk=False)
    wire.run(1)
    wire.recover(0)
    back(wire)
    wire.run(20)
    assert wire.seqs(2, 1) == []
    assert [(e.seq, e.note) for e in wire.kinds("skip", 2)] == [(1, "age"), (2, "age")]
    wire.send(1, None)
    wire.run(1)
    assert wire.seqs(2, 1) == [3]


def test_a_logger_recovers_its_log_from_disk(group) -> None:
    recipe = PubsubRecipe(members=3, protocol="lbrm", relation="item", retain="latest")
    wire = group(recipe)
    away(wire, 2)
    for item in (1, 2, 1, 3):
        wire.send(1, item)
        wire.run(0.05)
    kept = wire.people[0].logger_role.log.volumes[1]
    wire.crash(0)
    wire.recover(0)
    again = wire.people[0].logger_role.log.volumes[1]
    assert (again.messages, again.superseded_by) == (kept.messages, kept.superseded_by)
    back(wire)
    wire.run(5)
    assert sorted(wire.seqs(2, 1)) == [2, 3, 4]
