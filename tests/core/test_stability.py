"""Stability and safety by gossip: what a quorum's frontiers have reached."""

from random import Random

import pytest

from semcast.core.stability import RANDOM_PEER_EVERY, QuorumDetector
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER
from semcast.terms.messages import FrontierVote, SafetyGossip, StabilityGossip

PERIOD_S = 1.0


def detector(rank, frontier, quorum=None, fanout=9, members=None):
    kind = StabilityGossip if quorum is None else SafetyGossip
    members = members or 3
    frontier = [frontier] + [0] * (members - 1)
    return QuorumDetector(rank, members, quorum, frontier, Random(7), PERIOD_S, fanout, kind)


def gossip(one):
    """What a detector says when its time has come: by target, the ballots."""
    out = Effects(recording=False)
    for sender, seq in enumerate(one.frontier):
        if seq:
            one.on_frontier(sender, 0.0)
    one.on_time(one.deadline, out)
    return {target: datagram.votes for to, datagram in out.send for target in to}


def told(one, *others):
    """Let `one` hear everything the others have to say."""
    for other in others:
        for ballots in gossip(other).values():
            one.on_gossip(other.rank, ballots, 0.0)
            break


def test_a_group_of_one_agrees_with_itself():
    alone = detector(0, 5, members=1)
    alone.on_frontier(0, 0.0)
    out = Effects(recording=False)
    assert alone.on_time(9.0, out) == [0]
    assert alone.agreed == [5]
    assert out.send == []
    assert alone.deadline == NEVER


def test_stability_is_the_lowest_frontier_once_all_have_voted():
    a, b, c = detector(0, 5), detector(1, 3), detector(2, 4)
    told(a, b)
    assert a.agreed[0] == 0
    told(a, c)
    assert a.agreed[0] == 3


def test_stability_waits_for_every_member():
    a, b = detector(0, 5), detector(1, 5)
    for _ in range(5):
        told(a, b)
        told(b, a)
    assert a.agreed[0] == b.agreed[0] == 0


@pytest.mark.parametrize(("quorum", "agreed"), [(1, 5), (2, 5), (3, 0)])
def test_safety_takes_f_plus_one_votes(quorum, agreed):
    a, b = detector(0, 5, quorum), detector(1, 5, quorum)
    told(a, b)
    told(b, a)
    told(a, b)
    assert a.agreed[0] == agreed


def test_who_is_ahead_votes_for_the_lower_candidate():
    """Whoever reached a higher candidate reached the lower one."""
    a, b = detector(0, 5, 2), detector(1, 3, 2)
    told(b)
    told(a, b)
    assert a.agreed[0] == 3


def test_a_vote_is_given_only_for_what_was_reached():
    """Who is behind lowers the candidate to its own frontier, or safety stands still."""
    a = detector(0, 2, 2)
    a.on_gossip(1, (FrontierVote(0, 5, 5, b"\2", 0),), 0.0)
    assert a.agreed[0] == 2
    a.frontier[0] = 5
    gossip(a)
    assert a.agreed[0] == 2
    a.on_gossip(1, (FrontierVote(0, 5, 5, b"\2", 2),), 0.0)
    assert a.agreed[0] == 5


def test_who_is_behind_what_was_agreed_has_no_vote():
    """A slow member does not hold up safety."""
    a = detector(0, 2, 2)
    a.on_gossip(1, (FrontierVote(0, 9, 9, b"\2", 5),), 0.0)
    assert (a.agreed[0], a.candidate[0], a.voters[0]) == (5, 9, 2)
    a.on_gossip(2, (FrontierVote(0, 9, 9, b"\4", 5),), 0.0)
    assert a.agreed[0] == 9


def test_catching_up_with_what_was_agreed_is_nothing_to_talk_about():
    a = detector(0, 0, 2)
    a.on_gossip(1, (FrontierVote(0, 5, 0, b"", 5),), 0.0)
    a.frontier[0] = 5
    a.on_frontier(0, 1.0)
    assert a.deadline == NEVER
    assert not a.unagreed


def test_what_was_agreed_elsewhere_is_taken_on():
    a = detector(0, 5)
    assert a.on_gossip(1, (FrontierVote(0, 5, 0, b"", 4),), 0.0) == [0]
    assert a.agreed[0] == 4


def test_repeated_and_stale_gossip_change_nothing():
    a, b, c = detector(0, 5), detector(1, 5), detector(2, 5)
    old = gossip(b)[0]
    told(a, b, c)
    assert a.agreed[0] == 5
    assert a.on_gossip(1, old, 0.0) == []
    assert a.on_gossip(1, old, 0.0) == []
    assert (a.agreed[0], a.candidate[0], a.voters[0]) == (5, 0, 0)


def test_votes_for_a_candidate_do_not_count_for_a_later_one():
    a = detector(0, 5, 2)
    a.on_gossip(1, (FrontierVote(0, 5, 5, b"\2", 0),), 0.0)
    assert a.agreed[0] == 5
    a.frontier[0] = 9
    gossip(a)
    assert a.agreed[0] == 5


def test_a_member_that_is_behind_is_told():
    a, b = detector(0, 5), detector(1, 5)
    a.agreed[0] = 5
    a.on_gossip(1, gossip(b)[0], 0.0)
    out = Effects(recording=False)
    a.on_time(9.0, out)
    assert [(to, g.votes[0].agreed) for to, g in out.send] == [((1,), 5)]


def test_once_agreed_there_is_silence():
    a, b, c = detector(0, 5), detector(1, 5), detector(2, 5)
    everyone = [a, b, c]
    for one in everyone:
        one.on_frontier(0, 0.0)
    for _ in range(100):
        for one in everyone:
            out = Effects(recording=False)
            one.on_time(one.deadline, out)
            for target, datagram in [(target, d) for to, d in out.send for target in to]:
                everyone[target].on_gossip(one.rank, datagram.votes, 0.0)
    assert [one.agreed[0] for one in everyone] == [5, 5, 5]
    assert [one.deadline for one in everyone] == [NEVER] * 3
    assert not any(one.unagreed or one.to_update for one in everyone)


def test_gossip_goes_to_as_many_peers_as_the_fanout_says():
    assert sorted(gossip(detector(0, 5))) == [1, 2]
    assert len(gossip(detector(0, 5, fanout=1))) == 1


def test_switched_off_it_takes_no_initiative_but_answers():
    """Safety is switched off while uncongested; who asks gets the vote [SRM §6.4]."""
    a, b = detector(0, 5, 2), detector(1, 5, 2)
    b.enable(False, (), 0.0)
    b.on_frontier(0, 0.0)
    assert b.deadline == NEVER
    b.on_gossip(0, gossip(a)[1], 0.0)
    out = Effects(recording=False)
    b.on_time(9.0, out)
    ((audience, answer),) = out.send
    assert audience == (0,)
    a.on_gossip(1, answer.votes, 0.0)
    assert a.agreed[0] == 5
    assert b.deadline == NEVER


def test_switched_off_it_still_gives_its_vote_where_that_completes_nothing():
    a, b = detector(0, 5, 3, members=4), detector(1, 5, 3, members=4)
    b.enable(False, (), 0.0)
    b.on_gossip(0, gossip(a)[1], 0.0)
    out = Effects(recording=False)
    b.on_time(b.deadline, out)
    ((audience, answer),) = out.send
    assert (audience, answer.votes[0].voters, b.agreed[0]) == ((0,), b"\3", 0)
    b.on_gossip(0, answer.votes, 20.0)  # now that the vote is counted, there is no more to say
    assert b.deadline == NEVER


def test_who_is_told_counts_towards_the_fanout():
    a = detector(0, 5, fanout=1, members=4)
    a.agreed[0] = 3
    a.on_gossip(2, (FrontierVote(0, 5, 0, b"", 0),), 0.0)
    assert list(gossip(a)) == [2]


def test_switched_on_it_speaks_up_soon():
    a = detector(0, 5, 2)
    a.enable(False, (), 0.0)
    a.on_frontier(0, 0.0)
    a.enable(True, [0, 1], 10.0)
    assert 10.0 <= a.deadline <= 10.0 + PERIOD_S


def test_the_first_gossip_comes_within_a_period():
    a = detector(0, 5)
    a.on_frontier(0, 10.0)
    assert 10.0 < a.deadline <= 10.0 + PERIOD_S
    before = a.deadline
    a.on_frontier(0, 10.1)
    assert a.deadline == before
    out = Effects(recording=False)
    assert a.on_time(10.0, out) == []
    assert out.send == []


def test_forgetting_the_last_voter_completes_stability():
    a, b = detector(0, 5), detector(1, 4)
    told(a, b)
    assert a.forget(2) == [0]
    assert a.agreed[0] == 4
    assert a.peers == [1]


def test_a_forgotten_member_is_not_gossiped_to():
    a = detector(0, 5)
    a.agreed[0] = 3
    a.on_gossip(2, (FrontierVote(0, 1, 0, b"", 0),), 0.0)
    assert 2 in a.to_update
    a.forget(2)
    assert 2 not in gossip(a)


def test_a_ballot_says_what_is_known_and_does_not_change_afterwards():
    a = detector(0, 5)
    (ballot,) = gossip(a)[1]
    assert ballot == FrontierVote(0, 5, 5, b"\1", 0)
    a.frontier[0] = 8
    a.on_gossip(1, (FrontierVote(0, 3, 3, b"\6", 0),), 0.0)
    assert ballot == FrontierVote(0, 5, 5, b"\1", 0)


def direct(rank, frontier, quorum=None, members=3):
    kind = StabilityGossip if quorum is None else SafetyGossip
    return QuorumDetector(
        rank, members, quorum, frontier, Random(7), PERIOD_S, 1, kind, direct=True
    )


def test_a_sender_counts_what_its_peers_claim():
    sender = direct(0, [9, 0, 0])
    assert not sender.on_peer_frontier(1, 7)
    assert sender.on_peer_frontier(2, 5)
    assert sender.agreed[0] == 5
    assert not sender.on_peer_frontier(1, 8)
    assert sender.on_peer_frontier(2, 8)
    assert sender.agreed[0] == 8


@pytest.mark.parametrize(("quorum", "agreed"), [(1, 9), (2, 7), (3, 5)])
def test_of_f_plus_one_claims_the_lowest_is_safe(quorum, agreed):
    sender = direct(0, [9, 0, 0], quorum)
    for peer, frontier in ((1, 7), (2, 5)):
        sender.on_peer_frontier(peer, frontier)
    assert sender.agreed[0] == agreed


def test_no_claim_makes_agreed_what_was_not_sent():
    sender = direct(0, [3, 0, 0])
    for peer in (1, 2):
        sender.on_peer_frontier(peer, 4)
    assert sender.agreed[0] == 3


def test_gossip_goes_to_the_senders_and_now_and_then_to_anybody():
    one = direct(1, [5, 0, 0, 0, 0], members=5)
    rounds = [set(gossip(one)) for _ in range(RANDOM_PEER_EVERY)]
    assert rounds[:-1] == [{0}] * (RANDOM_PEER_EVERY - 1)
    assert len(rounds[-1]) == 1
    one.forget(0)
    assert gossip(one).keys() <= {2, 3, 4}


def test_what_a_sender_announces_it_does_not_tell_each_peer_again():
    sender = direct(0, [5, 0, 0])
    sender.on_peer_frontier(1, 5)
    sender.on_peer_frontier(2, 5)
    out = Effects(recording=False)
    sender.announce(EVERYONE, out)
    assert [(to, ballots.votes[0].agreed) for to, ballots in out.send] == [(EVERYONE, 5)]
    late = (FrontierVote(0, 5, 0, b"", 0),)
    sender.on_gossip(1, late, 0.0)
    assert sender.deadline == NEVER
    sender.on_gossip(1, late, 0.0)  # The announcement was lost.
    sender.on_time(sender.deadline, out)
    assert out.send[-1][0] == (1,)


def test_who_completes_agreement_on_a_stream_tells_its_sender():
    one = direct(1, [5, 0], members=2)
    one.on_gossip(0, (FrontierVote(0, 5, 5, b"\x01", 0),), 0.0)
    assert one.agreed[0] == 5
    assert gossip(one)[0][0].agreed == 5
