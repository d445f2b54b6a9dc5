"""Whom to ask, what for, and when not at all."""

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.ids import EVERYONE
from semcast.terms.machine import GoOffline, GoOnline
from semcast.terms.pubsub import Publication, PublisherHeartbeat, Repair, RepairRequest, StreamSpans


def miss(wire, *pids: int) -> None:
    wire.lose = lambda source, target, d: target in pids and isinstance(d, Publication)


def test_the_application_decides_whether_a_message_is_worth_recovering(group) -> None:
    """[RPB §2.2]: "allowing the application layer to decide whether our protocol should ask for a
    missing message"."""
    for protocol in ("lbrm", "pbcast", "rpbcast"):
        recipe = PubsubRecipe(members=3, protocol=protocol, order="fifo")
        wire = group(recipe, sync_s=0.0, interest=lambda sender, seq: seq % 2 == 0)
        miss(wire, 2)
        wire.send(1, *[None] * 5)
        wire.run(0.1)
        wire.lose = lambda source, target, d: False
        wire.send(1, None)
        wire.run(5)
        assert wire.seqs(2, 1) == [2, 4, 6]
        assert [e.seq for e in wire.kinds("skip", 2) if e.note == "interest"] == [1, 3, 5]
        asked = {n for *_, d in wire.sends(RepairRequest, 2) for p in d.missing for a, _ in p.spans
                 for n in [a]}  # fmt: skip
        assert asked <= {2, 4}


def test_pbcast_gives_up_after_the_collection_limit(group) -> None:
    wire = group(PubsubRecipe(members=3, protocol="pbcast", rounds=4), sync_s=0.0)
    wire.lose = lambda source, target, d: target == 2
    wire.send(1, None)
    wire.run(2)
    wire.lose = lambda source, target, d: False
    wire.send(1, None)
    wire.run(5)
    assert wire.seqs(2, 1) == [2]
    assert [(e.seq, e.note) for e in wire.kinds("skip", 2)] == [(1, "age")]


def test_loggers_are_asked_first_while_they_are_not_busy(group) -> None:
    """[RPB §7.3, §8]: "use LBRM for low send rate and switch to rpbcast after detecting logger
    congestion"."""
    wire = group(PubsubRecipe(members=6, recovery_first="adaptive"), sync_s=0.0)
    wire.lose = lambda source, target, d: True
    wire.hand(1, 5, PublisherHeartbeat(1, 1))
    assert [target for _, target, _ in wire.sends(RepairRequest, 5)] == [0]
    wire.hand(0, 5, Repair((), (), 90))
    for pid in (1, 2, 3, 4):
        wire.hand(pid, 5, PublisherHeartbeat(pid, 2))
    asked = [target for _, target, d in wire.sends(RepairRequest, 5)][1:]
    assert set(asked) != {0}
    assert len(wire.people[5].recovery.gossip_phase) == 4
    wire.run(0.2)
    wire.now += 5
    wire.hand(2, 5, PublisherHeartbeat(2, 9))
    assert wire.sends(RepairRequest, 5)[-1][1] == 0, "a report fades"


def test_a_logger_that_does_not_answer_counts_as_busy(group) -> None:
    wire = group(PubsubRecipe(members=6, recovery_first="adaptive"), sync_s=0.0)
    wire.lose = lambda source, target, d: source == 0 or target == 0
    wire.hand(1, 5, PublisherHeartbeat(1, 1))
    wire.run(0.3)
    assert wire.people[5].recovery.load == 100


def test_what_many_ask_for_is_multicast_once(group) -> None:
    """Beyond [RPB §8]: requesters are a sample of those that miss a message."""
    wire = group(PubsubRecipe(members=6, multicast_at=3), sync_s=0.0)
    wire.lose = lambda source, target, d: True
    wire.send(1, None)
    wire.run(0.1)
    wanted = RepairRequest((StreamSpans(1, ((1, 1),)),))
    targets = [[t for t, d in wire.hand(pid, 1, wanted).send if isinstance(d, Repair)]
               for pid in (0, 2, 2, 3, 4, 3)]  # fmt: skip
    assert targets == [[(0,)], [(2,)], [(2,)], [EVERYONE], [], [(3,)]]


def test_a_long_absence_is_caught_up_without_waiting_for_timeouts(group) -> None:
    """A request names at most 512 messages; the next follows when the last was answered."""
    wire = group(PubsubRecipe(members=3, protocol="lbrm", order="fifo"), sync_s=0.0)
    wire.tell(2, GoOffline())
    for _ in range(40):
        wire.send(1, *[None] * 100)
        wire.run(0.1)
    wire.tell(2, GoOnline())
    wire.run(0.2)
    assert wire.seqs(2, 1) == list(range(1, 4001))


def test_fifo_holds_no_more_than_its_bound(group) -> None:
    wire = group(PubsubRecipe(members=3, order="fifo", buffer=8), sync_s=0.0)
    wire.lose = lambda source, target, d: (
        target == 2
        and (isinstance(d, Repair) or (isinstance(d, Publication) and d.messages[0].seq == 1))
    )
    for _ in range(50):
        wire.send(1, None)
        wire.run(0.01)
        assert wire.people[2].delivery.waiting <= 8
    wire.lose = lambda source, target, d: False
    wire.run(10)
    assert wire.seqs(2, 1) == list(range(1, 51))


def test_the_same_seed_gives_the_same_datagrams(group) -> None:
    def sent(seed: int) -> list:
        wire = group(PubsubRecipe(members=5, selection="linear"), seed=seed)
        miss(wire, 3)
        for pid in (1, 2, 4):
            wire.send(pid, None, None)
            wire.run(0.3)
        return wire.sent

    assert sent(1) == sent(1)
    assert sent(1) != sent(2)
