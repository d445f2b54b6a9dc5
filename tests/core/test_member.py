"""Whole members on a fake wire: S-SM, S-RM and their reliable selves, promise by promise."""

import pytest

from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.terms.effects import Effects
from semcast.terms.errors import BufferFull, ConfigError, LocalProtocolError
from semcast.terms.events import PURGE, RETRANSMISSION, SKIP
from semcast.terms.ids import EVERYONE
from semcast.terms.machine import ForgetMember
from semcast.terms.messages import (
    Data,
    DataMessage,
    Excluded,
    FrontierVote,
    Nack,
    SafetyGossip,
    StabilityGossip,
    Update,
)

PROTOCOLS = ["s-sm", "s-rm", "sm", "rm"]


def empty(member):
    """What a member holds when everything is delivered and stable: nothing."""
    buffers, receiver = member.buffers, member.receiver
    containers = {
        "messages": buffers.messages,
        "bytes": buffers.bytes,
        "held_of": sum(buffers.held_by_sender),
        "slots": len(buffers.queue.slots),
        "slot_of": sum(map(len, buffers.queue.slot_of.values())),
        "ahead": sum(map(len, receiver.reorder.values())),
        "early": receiver.reordered_count,
        "notices": sum(map(len, receiver.notices.values())),
        "waiting": len(receiver.waiting),
        "gaps": len(receiver.gaps),
        "moved": len(receiver.moved),
        "outbox": member.outbox.last - member.outbox.sent,
        "asked": len(member.recovery.pending),
        "noticed": len(member.recovery.gaps_since),
        "behind": len(member.stability.to_update) + len(member.safety.to_update),
        "open": len(member.stability.unagreed),
    }
    for buffer in [
        *buffers.queue.by_sender.values(),
        *(kept.buffer for kept in buffers.store.streams.values()),
    ]:
        for name in ("held", "unapplied"):
            containers[name] = containers.get(name, 0) + len(getattr(buffer, name))
        containers["index"] = containers.get("index", 0) + len(getattr(buffer.index, "held", ()))
    containers["holes"] = sum(len(kept.holes) for kept in buffers.store.streams.values())
    return {name: size for name, size in containers.items() if size}


class TestDissemination:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    @pytest.mark.parametrize("members", [1, 2, 3, 5])
    def test_everyone_delivers_everything_and_then_holds_nothing(self, wire, protocol, members):
        w = wire(Recipe(members=members, protocol=protocol), judged=True)
        for rank in range(members):
            w.send(rank, *(Update(item=i % 3, payload=b"x" * i) for i in range(20)))
        w.run()
        for rank in range(members):
            for sender in range(members):
                assert w.seqs(rank, sender) == list(range(1, 21))
        assert [empty(member) for member in w.members] == [{}] * members
        w.judge()

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_a_lost_datagram_is_repaired(self, wire, protocol):
        w = wire(Recipe(members=3, protocol=protocol, datagram_bytes=60), judged=True)
        lost = iter([True, False, False, True, True, False] * 2)
        w.lose = lambda s, t, d: isinstance(d, Data) and not d.nack_number and next(lost, False)
        w.items(0, *range(10))
        w.run()
        assert w.seqs(1) == w.seqs(2) == list(range(1, 11))
        w.judge()

    @pytest.mark.parametrize("batch", [1, 2, 16, 64, 256, 499])
    @pytest.mark.parametrize("protocol", ["s-sm", "s-rm"])
    @pytest.mark.parametrize("coalesce_s", [0.0, 0.01])
    def test_fast_members_miss_nothing_at_any_batch_size(self, wire, protocol, batch, coalesce_s):
        """Purging acts only on messages that wait; uncongested, nothing does [SRM §6.3]."""
        w = wire(Recipe(members=3, protocol=protocol, buffer=1000, coalesce_s=coalesce_s))
        for _ in range(3):
            assert w.items(0, *[1] * batch) == batch
            w.run()
        for rank in range(3):
            assert w.seqs(rank) == list(range(1, 3 * batch + 1))
            assert w.kinds(PURGE, rank) == []

    def test_a_full_datagram_costs_one_send(self, wire):
        w = wire(Recipe(members=3))
        w.items(0, *range(50))
        assert w.sent == 1

    def test_a_repair_is_closed_by_its_last_datagram(self, wire):
        """Were it the first, the rest would be asked for twice."""
        w = wire(Recipe(members=2, datagram_bytes=48))
        w.items(0, *range(8))
        w.transit.clear()
        w.hand(1, 0, Nack(0, ((1, 8),), 8, 77))
        answers = [(len(d.messages), d.nack_number) for *_, d in w.transit]
        assert answers == [(2, 0), (2, 0), (2, 0), (2, 77)]

    def test_who_has_nothing_to_say_stays_silent(self, wire):
        w = wire(Recipe(members=3))
        w.hand(1, 0, Nack(2, ((1, 8),), 8, 77))
        assert w.transit == []

    def test_any_holder_repairs_under_s_rm_and_none_under_s_sm(self, wire):
        for protocol, delivered in (("s-rm", [1, 2]), ("s-sm", [])):
            w = wire(Recipe(members=3, protocol=protocol))
            w.lose = lambda source, target, datagram: {source, target} == {0, 2}
            w.items(0, 1, 2)
            w.carry()
            w.down = {0}
            w.run(until=5.0)
            assert w.seqs(1) == [1, 2]
            assert w.seqs(2) == delivered, protocol

    def test_the_same_seed_gives_the_same_datagrams(self, wire):
        def history(seed):
            seen = []
            w = wire(Recipe(members=4, buffer=6, fanout=1), seed=seed, ready=[0, 1])
            w.lose = lambda s, t, d: seen.append((s, t, d)) or len(seen) % 5 == 0
            for _ in range(5):
                w.items(0, 1, 2, 3)
                w.run(until=w.now + 0.1)
            return seen

        assert history(1) == history(1)
        assert history(1) != history(2)

    def test_a_rank_outside_the_group_is_refused(self):
        for rank in (-1, 2):
            with pytest.raises(ConfigError, match="rank"):
                Member(Recipe(members=2), rank, None)


class TestSlowMember:
    """A member whose application does not keep up; nobody else notices."""

    @pytest.mark.parametrize("purge", ["eager", "lazy"])
    @pytest.mark.parametrize(
        ("relation", "updates"),
        [
            ("item", [Update(item=1)] * 200),
            ("all", [Update()] * 200),
            ("bitmap", [Update(obsoletes=(n,) if n else ()) for n in range(200)]),
            ("list", [Update(obsoletes=(n,) if n else ()) for n in range(200)]),
            ("update-fin", [Update(item=1), Update()] * 100),
        ],
        ids=["item", "all", "bitmap", "list", "update-fin"],
    )
    @pytest.mark.parametrize("protocol", ["s-sm", "s-rm"])
    def test_obsolete_messages_never_push_back(self, wire, protocol, relation, updates, purge):
        """It ends with the last word; fins are never obsolete, so of those some must be read."""
        w = wire(
            Recipe(members=3, protocol=protocol, relation=relation, buffer=12, purge=purge),
            ready=[0, 1],
            judged=True,
        )
        for update in updates:
            assert w.send(0, update) == 1
            w.run(until=w.now + 0.2)
            if relation == "update-fin" and w.members[0].sent % 4 == 0:
                w.ready(2, 2)
        assert w.most_held[2] <= 12 + 3
        w.ready(2, 1000)
        w.run(until=w.now + 100)
        assert w.seqs(0) == w.seqs(1) == list(range(1, 201))
        assert w.seqs(2)[-1] == 200
        assert len(w.seqs(2)) < 200
        w.judge()

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_what_is_not_obsolete_pushes_back_and_is_never_lost(self, wire, protocol):
        w = wire(Recipe(members=3, protocol=protocol, buffer=10), ready=[0, 1], judged=True)
        sent = 0
        for _ in range(100):
            sent += w.items(0, sent)
            w.run(until=w.now + 0.5)
        assert 10 <= sent <= 2 * 10 + 3
        assert max(w.most_held) <= 10 + 3
        for _ in range(400):
            w.ready(2, 1)
            w.run(until=w.now + 0.5)
            if 0 in w.roomy:
                w.roomy.clear()
                while sent < 100 and w.items(0, sent):
                    sent += 1
        assert sent == 100
        assert w.seqs(2) == list(range(1, 101))
        w.judge()

    def test_purging_off_is_the_reliable_protocol(self, wire):
        """The same item over and over: rm delivers each value, s-rm the last."""
        for protocol, delivered in (("rm", [1, 2, 3]), ("s-rm", [3])):
            w = wire(Recipe(members=2, protocol=protocol), ready=[0])
            w.items(0, 1, 1, 1)
            w.run()
            w.ready(1, 9)
            assert w.seqs(1) == delivered

    def test_never_purge_is_never_purged(self, wire):
        w = wire(Recipe(members=2), ready=[0])
        w.send(0, Update(item=1, never_purge=True), *[Update(item=1)] * 3)
        w.run()
        w.ready(1, 9)
        assert w.seqs(1) == [1, 4]

    def test_a_chain_limit_shows_through(self, wire):
        w = wire(Recipe(members=2, chain_limit=3), ready=[0])
        w.items(0, *[1] * 12)
        w.run()
        w.ready(1, 99)
        assert w.seqs(1) == [5, 9, 12]

    def test_item_order_keeps_the_place_of_a_hot_item(self, wire):
        for order, delivered in (("fifo", [2, 3, 5]), ("item", [5, 2, 3])):
            w = wire(Recipe(members=2, order=order), ready=[0], judged=True)
            w.items(0, 1, 2, 3, 1, 1)
            w.run()
            w.ready(1, 9)
            assert w.seqs(1) == delivered
            w.judge()

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_two_streams_never_lock_each_other_out(self, wire, protocol):
        """Everybody fills everybody's buffer at once; nothing is obsolete."""
        w = wire(Recipe(members=3, protocol=protocol, buffer=2), judged=True)
        left = [10, 10, 10]
        for _ in range(500):
            for rank in range(3):
                if left[rank]:
                    left[rank] -= w.items(rank, left[rank])
            w.run(until=w.now + 0.05)
        assert left == [0, 0, 0]
        w.run(until=w.now + 100)
        for rank in range(3):
            assert [w.seqs(rank, sender) for sender in range(3)] == [list(range(1, 11))] * 3
        assert max(w.most_held) <= 2 + 3
        w.judge()


class TestOverflow:
    def test_block_returns_how_many_were_taken_from_the_front(self, wire):
        w = wire(Recipe(members=2, buffer=4))
        w.down = {1}
        assert w.items(0, *range(9)) == 4
        assert w.items(0, 9) == 0
        assert w.items(0) == 0

    def test_error_raises_when_there_is_room_for_none(self, wire):
        w = wire(Recipe(members=2, buffer=4, overflow="error"))
        w.down = {1}
        assert w.items(0, *range(9)) == 4
        with pytest.raises(BufferFull, match="none of its 4 messages"):
            w.items(0, 9)
        assert w.members[0].sent == 4
        assert w.items(0) == 0

    def test_room_is_announced_after_a_refusal(self, wire):
        w = wire(Recipe(members=2, buffer=4))
        w.items(0, *range(9))
        assert w.roomy == set()
        w.run()
        assert w.roomy == {0}
        w.roomy.clear()
        w.items(0, 1)
        w.run()
        assert w.roomy == set()

    def test_what_precedes_the_impossible_in_its_batch_is_on_its_way(self, wire):
        w = wire(Recipe(members=2, relation="list"))
        out = Effects(recording=False)
        given = [Update(), Update(obsoletes=(7,))]
        assert w.members[0].submit(given, 0.0, out) == 1
        with pytest.raises(LocalProtocolError, match="obsoletes"):
            w.members[0].submit(given[1:], 0.0, out)
        w.carry_out(0, out)
        w.run()
        assert w.seqs(0) == w.seqs(1) == [1]

    def test_a_bug_is_never_taken_for_an_impossible_update(self, wire, monkeypatch):
        """Only what the caller said wrong may wait until it is the first."""
        w = wire(Recipe(members=2, relation="list"))
        annotator, out = w.members[0].sending.annotator, Effects(recording=False)
        annotate, calls = annotator.annotate, []

        def broken(seq, item, update):
            calls.append(seq)
            return annotate(seq, item, update) if len(calls) == 1 else {}["a bug"]

        monkeypatch.setattr(annotator, "annotate", broken)
        with pytest.raises(KeyError, match="a bug"):
            w.members[0].submit([Update(), Update()], 0.0, out)
        assert calls == [1, 2]
        assert w.members[0].sent == 1

    @pytest.mark.parametrize("obsolete", [0, 5, 2])
    def test_declaring_the_impossible_is_an_error_and_sends_nothing(self, wire, obsolete):
        w = wire(Recipe(members=2, relation="list"))
        w.send(0, Update())
        w.transit.clear()
        with pytest.raises(LocalProtocolError, match="obsoletes"):
            w.send(0, Update(obsoletes=(obsolete,)))
        assert w.members[0].sent == 1
        assert w.transit == []


class TestUnicast:
    """Without IP multicast everyone gets a copy; who is far behind is left to pull."""

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_everyone_delivers_everything(self, wire, protocol):
        w = wire(Recipe(members=3, protocol=protocol, unicast=True), judged=True)
        for rank in range(3):
            w.items(rank, *range(30))
        w.run()
        assert [len(delivered) for delivered in w.delivered] == [90] * 3
        assert [empty(member) for member in w.members] == [{}] * 3
        w.judge()

    def test_who_asks_for_much_is_sent_to_again_once_it_caught_up(self, wire):
        w = wire(Recipe(members=3, unicast=True, buffer=40))
        w.items(0, *range(10))
        w.transit.clear()
        w.hand(1, 0, Nack(0, ((1, 3), (8, 10)), 1, 1))
        w.transit.clear()
        w.items(0, 10)
        assert {target for _, target, d in w.transit if isinstance(d, Data)} == {2}
        w.run()
        assert w.seqs(1) == w.seqs(2) == list(range(1, 12))
        w.items(0, 11)
        assert {target for _, target, d in w.transit if isinstance(d, Data)} == {1, 2}

    @pytest.mark.parametrize("ranges", [((1, 2),), ((1, 1), (4, 4), (10, 10))])
    def test_a_request_for_a_few_changes_nothing(self, wire, ranges):
        """However far apart they are: single losses are not congestion."""
        w = wire(Recipe(members=3, unicast=True, buffer=40))
        w.items(0, *range(10))
        w.transit.clear()
        w.hand(1, 0, Nack(0, ranges, 1, 1))
        w.transit.clear()
        w.items(0, 10)
        assert {target for _, target, d in w.transit if isinstance(d, Data)} == {1, 2}

    def test_the_forgotten_get_no_copies(self, wire):
        w = wire(Recipe(members=3, unicast=True))
        w.forget(0, 1)
        w.items(0, 1)
        assert {target for _, target, d in w.transit if isinstance(d, Data)} == {2}


class TestSafety:
    def test_nothing_is_said_of_safety_while_uncongested(self, wire):
        w = wire(Recipe(members=3, buffer=100))
        kinds = set()
        w.lose = lambda s, t, d: kinds.add(type(d)) or False
        w.items(0, *[1] * 49)
        w.run()
        assert SafetyGossip not in kinds

    def test_congested_it_is_determined(self, wire):
        w = wire(Recipe(members=3, buffer=100))
        w.down = {2}
        w.items(0, *[1] * 60)
        w.run(until=1.0)
        assert w.members[0].safety.agreed[0] == 60
        assert list(w.members[0].buffers.store.stream(0).buffer.held) == [60]

    def test_safety_always_does_not_wait_for_congestion(self, wire):
        w = wire(Recipe(members=3, buffer=100, safety_always=True))
        w.down = {2}
        w.items(0, 1)
        w.run(until=1.0)
        assert w.members[0].safety.agreed[0] == 1

    @pytest.mark.parametrize(("f", "purged"), [(0, 9), (1, 0), (2, 0)])
    def test_a_purge_waits_for_f_plus_one(self, wire, f, purged):
        """Alone with its messages, a sender may purge only if nobody is expected to crash."""
        w = wire(Recipe(members=3, buffer=10, f=f), judged=True)
        w.down = {1, 2}
        w.items(0, *[1] * 10)
        w.run(until=2.0)
        assert len([e for e in w.kinds(PURGE, 0) if e.note == RETRANSMISSION]) == purged

    def test_the_reliable_protocols_never_ask_for_it(self, wire):
        for protocol in ("rm", "s-sm", "sm"):
            w = wire(Recipe(members=2, protocol=protocol, buffer=4, safety_always=True))
            kinds = set()
            w.lose = lambda s, t, d, kinds=kinds: kinds.add(type(d)) or False
            w.items(0, 1, 2, 3, 4)
            w.run()
            assert SafetyGossip not in kinds


class TestSilentMember:
    """A crashed or stopped member pins only what is not obsolete."""

    @pytest.mark.parametrize("seed", range(12))
    def test_two_full_senders_do_not_wait_for_each_others_votes(self, wire, seed):
        """Each is behind the other's candidate, and both are full of obsolete messages."""
        w = wire(Recipe(members=3, buffer=30), seed=seed)
        w.down = {2}
        w.items(0, *[1] * 30)
        w.items(1, *[2] * 5)
        w.run(until=20.0)
        assert w.members[0].receiver.frontier == [30, 5, 0]
        assert w.members[1].receiver.frontier == [30, 5, 0]

    def test_everything_obsolete_pins_one_message(self, wire):
        w = wire(Recipe(members=3, buffer=20))
        w.down = {2}
        for _ in range(300):
            assert w.items(0, 1) == 1
            w.run(until=w.now + 0.1)
        assert w.seqs(1) == list(range(1, 301))
        assert w.members[0].buffers.messages < 20

    def test_what_is_not_obsolete_fills_the_bound_and_forget_releases_it(self, wire):
        w = wire(Recipe(members=3, buffer=20), judged=True)
        w.down = {2}
        assert w.items(0, *range(30)) == 20
        w.run(until=5.0)
        assert w.items(0, 99) == 0
        w.forget(0, 2)
        w.forget(1, 2)
        w.run(until=10.0)
        assert w.roomy >= {0}
        assert w.items(0, 99) == 1
        w.run()
        assert [empty(w.members[rank]) for rank in (0, 1)] == [{}, {}]
        w.judge()

    def test_one_who_forgets_is_enough_for_the_others_to_go_on(self, wire):
        """What was agreed without the member is told to everyone."""
        w = wire(Recipe(members=3, buffer=20))
        w.down = {2}
        w.items(0, 1, 2)
        w.run(until=1.0)
        w.forget(0, 2)
        w.run(until=5.0)
        assert w.members[1].stability.agreed[0] == 2
        assert w.members[1].buffers.messages == 0

    def test_at_most_f_can_be_forgotten(self, wire):
        w = wire(Recipe(members=5, f=2))
        w.forget(0, 1)
        w.forget(0, 2)
        w.forget(0, 2)
        with pytest.raises(LocalProtocolError, match="limit of f = 2"):
            w.forget(0, 3)

    @pytest.mark.parametrize("member", [0, -1, 3])
    def test_only_another_member_can_be_forgotten(self, wire, member):
        w = wire(Recipe(members=3))
        with pytest.raises(LocalProtocolError, match="not another member"):
            w.forget(0, member)

    def test_a_forgotten_member_that_returns_is_told(self, wire):
        w = wire(Recipe(members=3))
        w.forget(0, 2)
        w.forget(1, 2)
        w.items(2, 1)
        w.run(until=1.0)
        assert w.members[2].excluded
        assert w.seqs(0, sender=2) == []
        with pytest.raises(LocalProtocolError, match="excluded"):
            w.items(2, 1)

    def test_an_excluded_member_neither_listens_nor_speaks(self, wire):
        w = wire(Recipe(members=3))
        w.items(2, 1)
        w.transit.clear()
        w.hand(0, 2, Excluded(2))
        assert w.members[2].deadline == float("inf")
        w.items(0, 1)
        w.carry()
        assert w.seqs(2) == []

    def test_a_word_about_somebody_else_excludes_nobody(self, wire):
        w = wire(Recipe(members=3))
        w.hand(0, 2, Excluded(1))
        assert not w.members[2].excluded

    def test_a_member_that_was_away_gets_the_last_word_and_notices_for_the_rest(self, wire):
        w = wire(Recipe(members=3, buffer=20), judged=True)
        w.down = {2}
        for step in range(200):
            assert w.items(0, step % 3) == 1
            w.run(until=w.now + 0.1)
        w.down = set()
        w.run()
        assert w.seqs(2)[-3:] == [198, 199, 200]
        assert len(w.seqs(2)) <= 20
        assert len(w.kinds(SKIP, 2)) == 200 - len(w.seqs(2))
        assert [empty(member) for member in w.members] == [{}] * 3
        w.judge()

    def test_the_senders_crash_after_a_purge_leaves_survivors_that_agree(self, wire):
        """The notices survive the purger: whoever passed m keeps m or its notice until stable."""
        w = wire(Recipe(members=3, buffer=8), judged=True)
        w.down = {2}
        for step in range(40):
            w.items(0, step % 2)
            w.run(until=w.now + 0.1)
        w.down = {0}
        w.run(until=w.now + 20)
        assert w.seqs(2)[-2:] == [39, 40]
        w.judge()


class TestCausalOrder:
    @pytest.mark.parametrize("protocol", ["s-rm", "rm"])
    def test_an_answer_is_delivered_after_its_question(self, wire, protocol):
        w = wire(Recipe(members=3, order="causal", protocol=protocol), judged=True)
        w.lose = lambda s, t, d: isinstance(d, Data) and (s, t) == (0, 2) and not d.nack_number
        w.items(0, 1)
        w.carry()
        assert w.seqs(1) == [1]
        w.items(1, 1)
        w.run()
        assert [m.sender for m in w.delivered[2]] == [0, 1]
        assert w.delivered[2][1].after == ((0, 1),)
        w.judge()

    def test_under_fifo_it_need_not_be(self, wire):
        w = wire(Recipe(members=3))
        w.lose = lambda s, t, d: isinstance(d, Data) and (s, t) == (0, 2) and not d.nack_number
        w.items(0, 1)
        w.carry()
        w.items(1, 1)
        w.run()
        assert [m.sender for m in w.delivered[2]] == [1, 0]
        assert w.delivered[2][0].after == ()

    def test_only_what_was_delivered_counts_as_known(self, wire):
        w = wire(Recipe(members=2, order="causal"), ready=[0])
        w.items(0, 1)
        w.carry()
        w.items(1, 1)
        assert [m.after for *_, d in w.transit if isinstance(d, Data) for m in d.messages] == [()]


class TestAnnouncing:
    """A sender tells at once what everybody has of its stream, however it came to know."""

    def announced(self, out):
        """Up to where, by announcement."""
        return [
            ballot.agreed
            for to, datagram in out.send
            if to is EVERYONE and isinstance(datagram, StabilityGossip)
            for ballot in datagram.votes
        ]

    def sender(self, wire, *, direct=True):
        w = wire(Recipe(members=3, f=1, direct_gossip=direct, period_s=1000.0))
        w.items(0, 1, 2)
        return w

    @pytest.mark.parametrize("direct", [False, True])
    @pytest.mark.parametrize(
        "ballot",
        [FrontierVote(0, 2, 2, b"\x06", 0), FrontierVote(0, 2, 0, b"", 2)],
        ids=["counted here", "agreed elsewhere"],
    )
    def test_by_gossip(self, wire, ballot, direct):
        w = self.sender(wire, direct=direct)
        out = w.hand(1, 0, StabilityGossip((ballot,)))
        assert w.members[0].stability.agreed[0] == 2
        assert self.announced(out) == ([2] if direct else [])

    def test_by_claims(self, wire):
        w = self.sender(wire)
        assert self.announced(w.hand(1, 0, StabilityGossip((FrontierVote(0, 2, 0, b"", 0),)))) == []
        assert self.announced(w.hand(2, 0, StabilityGossip((FrontierVote(0, 1, 0, b"", 0),)))) == [
            1
        ]
        assert self.announced(w.hand(2, 0, StabilityGossip((FrontierVote(0, 2, 0, b"", 0),)))) == [
            2
        ]

    def test_by_forgetting(self, wire):
        w = self.sender(wire)
        w.hand(1, 0, StabilityGossip((FrontierVote(0, 2, 2, b"\x02", 0),)))
        out = Effects(recording=False)
        w.members[0].on_command(ForgetMember(2), w.now, out)
        assert self.announced(out) == [2]

    def test_not_of_the_streams_of_others(self, wire):
        w = self.sender(wire)
        w.hand(1, 0, Data((DataMessage(1, 1),)))
        out = w.hand(2, 0, StabilityGossip((FrontierVote(1, 1, 1, b"\x06", 0),)))
        assert w.members[0].stability.agreed[1] == 1
        assert self.announced(out) == []


def test_much_payload_is_gossiped_about_at_once(wire):
    w = wire(Recipe(members=2, period_s=1000.0, gossip_after_bytes=100, relation="none"))
    soon = []
    for seq in range(1, 7):
        w.hand(0, 1, Data((DataMessage(0, seq, payload=bytes(40)),)))
        soon.append(w.members[1].stability.deadline <= w.now)
        w.tick() if soon[-1] else None
    assert soon == [False, False, True, False, False, True]


def test_alone_there_is_nobody_to_gossip_with(wire):
    w = wire(Recipe(members=1, direct_gossip=True))
    w.send(0, Update(), Update())
    while w.deadline < 60:
        w.tick()
    assert w.transit == []
    assert empty(w.members[0]) == {}
