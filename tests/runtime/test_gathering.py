"""The agreement on a roster, over a network that loses, repeats, delays and replays."""

import heapq
from itertools import count
from random import Random

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from semcast.runtime.membership.gathering import (
    ABORT,
    ACCEPT,
    BROADCAST_AFTER_RETRIES,
    CANDIDATE_TIMEOUT_S,
    CANDIDATES_MAX,
    COMMIT,
    COMPLETE,
    HELLO_BYTES,
    HELLO_PERIOD_S,
    PROPOSE,
    GroupComplete,
    Hello,
    RosterAgreement,
    RosterEntry,
    RosterStep,
)
from semcast.terms.errors import RemoteProtocolError
from semcast.wire.frames import HELLO, ROSTER, member_id

BAD_S = 4.0  # how long the network may misbehave
GOOD_S = 12.0  # within which it then has to come right
DIGEST = 7


class Network:
    """Processes that gather, and everything that is on its way between them."""

    def __init__(self, members, seed, *, loss=0.0, twice=0.0, delay_s=0.0):
        self.members = members
        self.random = Random(seed)
        self.loss, self.twice, self.delay_s = loss, twice, delay_s
        self.now = 0.0
        self.at = {}  # address -> the process there
        self.refused = set()
        self.departed = []  # crashed or turned away
        self.vowed = set()  # (process, seats) that was ever promised or proposed
        self.recorded = []
        self._incarnations = count(1)
        self._ports = count(1)
        self._agenda = []
        self._ties = count()

    def start(self, name):
        """A process of this name begins, whatever was before."""
        address = "10.0.0.1", next(self._ports)
        own = RosterEntry(name, next(self._incarnations), *address)
        rng = Random(self.random.random())
        self.at[address] = process = RosterAgreement(own, self.members, DIGEST, rng)
        self._later(0.0, self._tick, address)
        return process

    def crash(self, process):
        self.departed.append(self.at.pop((process.own.host, process.own.port)))

    def replay(self):
        """Send again what some process, dead or alive, once sent, to everybody."""
        if self.recorded:
            frame = self.random.choice(self.recorded)
            for address in self.at:
                self._later(0.0, self._arrive, address, frame)

    def run(self, until):
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, what, arguments = heapq.heappop(self._agenda)
            what(*arguments)
        self.now = until

    def heal(self):
        self.loss = self.twice = 0.0
        self.delay_s = 0.001

    @property
    def living(self):
        return list(self.at.values())

    @property
    def rosters(self):
        return {p.roster for p in [*self.living, *self.departed] if p.roster}

    def _later(self, wait_s, what, *arguments):
        heapq.heappush(self._agenda, (self.now + wait_s, next(self._ties), what, arguments))

    def _tick(self, address):
        process = self.at.get(address)
        if process is not None:
            self._mail(process, process.on_time(self.now))
            self._later(HELLO_PERIOD_S * self.random.uniform(0.8, 1.2), self._tick, address)

    def _mail(self, process, envelopes):
        own = process.own
        source = own.host, own.port
        if process.promised:
            self.vowed.add((own, process.pending))
        if process.proposal or process.roster:
            self.vowed.add((own, process.proposal or process.roster))
        for to, kind, body in envelopes:
            frame = member_id(own.name), own.incarnation, kind, body, source
            self.recorded.append(frame)
            for address in [to] if to else [a for a in self.at if a != source]:
                copies = 1 + (self.random.random() < self.twice)
                for _ in range(copies):
                    if self.random.random() >= self.loss:
                        wait_s = self.random.uniform(0.0, self.delay_s)
                        self._later(wait_s, self._arrive, address, frame)

    def _arrive(self, address, frame):
        process = self.at.get(address)
        sender, incarnation, kind, body, source = frame
        if process is None or sender == member_id(process.own.name):
            return
        try:
            if kind == HELLO:
                answers = process.on_hello(sender, incarnation, body, source, self.now)
            else:
                answers = process.on_roster_step(sender, incarnation, body)
        except GroupComplete:
            self.refused.add(process.own.name)
            self._mail(process, process.leave())
            self.crash(process)
        else:
            self._mail(process, answers)

    def check_safety(self):
        """Rosters are of the wanted size, nobody is in two, everybody in one meant to be."""
        seated = [seat for roster in self.rosters for seat in roster]
        assert len(seated) == len(set(seated)), "somebody is in two rosters"
        for roster in self.rosters:
            names = [seat.name for seat in roster]
            assert names == sorted(set(names))
            assert len(names) == self.members
            for seat in roster:
                assert (seat, roster) in self.vowed, f"{seat.name} never agreed"
        for process in [*self.living, *self.departed]:
            assert not process.roster or process.own in process.roster

    def check_all_came_out(self):
        self.check_safety()
        (roster,) = self.rosters
        assert [p for p in self.living if p.roster != roster] == []


networks = st.builds(
    Network,
    members=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.1, 0.4, 0.7]),
    twice=st.sampled_from([0.0, 0.5]),
    delay_s=st.sampled_from([0.0, 0.05, 0.5, 3.0]),
)
moments = st.floats(0.0, BAD_S)
names = st.sampled_from("abcdef")


@settings(max_examples=150)
@given(network=networks, late=st.lists(moments, max_size=4), extra=st.integers(0, 2))
@example(Network(3, 256, loss=0.7, twice=0.5, delay_s=0.05), [2.0, 1.9375, 2.453125], 2)
def test_whoever_is_there_comes_out_once_the_network_is_good(network, late, extra):
    """Also where several propose at once, since nobody hears everybody at first."""
    extra = min(extra, network.members - 1)  # More could rightly make a second group.
    wanted = network.members + extra
    starts = sorted((late + [0.0] * wanted)[:wanted])
    order = network.random.sample("abcdef", wanted)
    for moment, name in zip(starts, order, strict=True):
        network.run(moment)
        network.start(name)
    network.run(BAD_S)
    network.heal()
    network.run(BAD_S + GOOD_S)
    network.check_all_came_out()
    assert len(network.living) == network.members
    assert len(network.refused) == extra
    assert len({each.lineage for each in network.living}) == 1


@settings(max_examples=200)
@given(
    network=networks,
    events=st.lists(st.tuples(moments, st.sampled_from(["start", "crash", "replay"]), names)),
)
def test_no_crash_restart_or_replay_leads_to_two_rosters(network, events):
    for name in "abcd"[: network.members]:
        network.start(name)
    for moment, event, name in sorted(events):
        network.run(moment)
        running = [p for p in network.living if p.own.name == name]
        if event == "replay":
            network.replay()
        elif running:
            network.crash(running[0])
        if event == "start":
            network.start(name)
    network.run(BAD_S)
    network.heal()
    network.run(BAD_S + GOOD_S)
    network.check_safety()


@settings(max_examples=100)
@given(
    network=networks,
    victims=st.lists(st.tuples(moments, names, st.booleans()), min_size=1, max_size=4),
)
def test_the_dead_who_promised_nothing_are_no_obstacle(network, victims):
    """They were heard and are gone: neither may they be waited for, nor asked to propose."""
    for name in "abcd"[: network.members]:
        network.start(name)
    for moment, name, stays_away in sorted(victims):
        network.run(moment)
        for process in network.living:
            held = any(p.promised for p in network.living) or network.rosters
            if process.own.name == name and not process.proposal and not held:
                network.crash(process)
                network.start(f"{name}-again" if stays_away else name)
    network.run(BAD_S)
    network.heal()
    network.run(BAD_S + GOOD_S)
    network.check_all_came_out()
    assert len(network.living) == network.members


def machine(name, members=2, peers=None, incarnation=1):
    return RosterAgreement(
        RosterEntry(name, incarnation, "10.0.0.1", 1), members, DIGEST, Random(name), peers
    )


def greet(process, name, echo=0, *, incarnation=1, digest=DIGEST, address=("10.0.0.1", 9), now=0.0):
    hello = Hello(name, digest, 99, echo, bytes(HELLO_BYTES))
    body = msgspec.msgpack.encode(hello)
    return process.on_hello(member_id(name), incarnation, body, address, now)


def ballot(process, sender, step, number, seats=(), incarnation=1):
    body = msgspec.msgpack.encode(RosterStep(step, number, seats))
    return process.on_roster_step(member_id(sender), incarnation, body)


def steps(envelopes):
    kept = [e for e in envelopes if e.kind == ROSTER]
    return [(msgspec.msgpack.decode(e.body, type=RosterStep).step, e.to) for e in kept]


@pytest.mark.parametrize("name", ["a", "n" * 64, "é" * 32])
def test_an_answer_is_never_larger_than_the_hello(name):
    process = machine(name)
    (hello,) = process.on_time(0.0)
    assert len(hello.body) == HELLO_BYTES
    other = machine("o" * 64)
    answers = other.on_hello(member_id(name), 1, hello.body, ("10.0.0.1", 9), 0.0)
    assert [len(answer.body) for answer in answers] == [HELLO_BYTES]
    alone = machine("alone", members=1)
    alone.on_time(0.0)
    (turned_away,) = alone.on_hello(member_id(name), 1, hello.body, ("10.0.0.1", 9), 0.0)
    assert len(turned_away.body) < HELLO_BYTES


def test_a_hello_without_its_padding_is_refused():
    body = msgspec.msgpack.encode(Hello("b", DIGEST, 99, 0))
    with pytest.raises(RemoteProtocolError, match="bytes"):
        machine("a").on_hello(member_id("b"), 1, body, ("10.0.0.1", 9), 0.0)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x90", bytes(HELLO_BYTES), b"\x91" * 5000])
def test_nonsense_is_refused(body):
    with pytest.raises(RemoteProtocolError):
        machine("a").on_hello(member_id("b"), 1, body, ("10.0.0.1", 9), 0.0)
    with pytest.raises(RemoteProtocolError):
        machine("a").on_roster_step(member_id("b"), 1, body)


def test_a_name_that_is_not_the_senders_is_refused():
    body = msgspec.msgpack.encode(Hello("b", DIGEST, 99, 0, bytes(HELLO_BYTES)))
    with pytest.raises(RemoteProtocolError, match="sender"):
        machine("a").on_hello(member_id("c"), 1, body, ("10.0.0.1", 9), 0.0)


def test_only_peers_may_say_hello_where_there_is_a_list():
    peers = {"a": ("10.0.0.1", 1), "b": ("relay", 2)}
    process = machine("a", peers=peers)
    assert process.missing == ["b"]
    assert [e.to for e in process.on_time(0.0)] == [("relay", 2)]
    (answer,) = greet(process, "b")
    assert answer.to == ("relay", 2), "not where it came from: the way may lead through a relay"
    with pytest.raises(RemoteProtocolError, match="peers"):
        greet(process, "c")
    greet(process, "b", process.nonce)
    assert process.missing == []


def test_who_did_not_echo_is_not_proposed():
    """A recording of an old hello says hello too."""
    process = machine("a")
    greet(process, "b")
    greet(process, "b", echo=process.nonce + 2)
    assert steps(process.on_time(0.0)) == []
    greet(process, "b", process.nonce)
    assert steps(process.on_time(1.0)) == [(PROPOSE, ("10.0.0.1", 9))]


def test_a_new_incarnation_has_to_echo_again_and_an_old_one_is_not_heard():
    process = machine("a")
    greet(process, "b", process.nonce, incarnation=5)
    assert greet(process, "b", incarnation=4, address=("elsewhere", 3)) == []
    greet(process, "b", incarnation=6)
    assert steps(process.on_time(0.0)) == []


def test_who_fell_silent_is_not_proposed():
    process = machine("b")
    greet(process, "c", process.nonce, now=0.0)
    greet(process, "a", process.nonce, now=0.0)
    assert steps(process.on_time(1.0)) == [], "it is for a to propose"
    greet(process, "c", process.nonce, now=2.0)
    assert steps(process.on_time(0.1 + CANDIDATE_TIMEOUT_S)) == [(PROPOSE, ("10.0.0.1", 9))]


def test_other_settings_are_named_until_they_agree():
    process = machine("a")
    assert greet(process, "b", digest=8) == []
    assert process.mismatched == {"b"}
    greet(process, "b")
    assert process.mismatched == set()


def test_the_number_of_candidates_is_bounded():
    process = machine("a")
    for number in range(CANDIDATES_MAX + 10):
        greet(process, f"n{number}")
        greet(process, f"d{number}", digest=8)
    assert len(process.candidates) == CANDIDATES_MAX
    assert len(process.mismatched) == CANDIDATES_MAX


def test_a_proposal_must_be_for_this_process_and_of_the_wanted_size():
    process = machine("b", members=2, incarnation=3)
    mine, theirs = RosterEntry("b", 3, "10.0.0.1", 1), RosterEntry("a", 1, "10.0.0.1", 2)
    old = RosterEntry("b", 2, "10.0.0.1", 1)
    assert ballot(process, "a", PROPOSE, 1, (theirs, old)) == [], "for an earlier process"
    assert ballot(process, "a", PROPOSE, 1, (theirs, RosterEntry("c", 1, "10.0.0.1", 3))) == []
    for seats in [(mine, theirs), (theirs,), (theirs, mine, RosterEntry("c", 1, "10.0.0.1", 1))]:
        with pytest.raises(RemoteProtocolError, match="seats"):
            ballot(process, "a", PROPOSE, 1, seats)
    for sender, incarnation in [("c", 1), ("a", 2)]:
        with pytest.raises(RemoteProtocolError, match="proposer"):
            ballot(process, sender, PROPOSE, 1, (theirs, mine), incarnation)
    assert process.promised is None
    assert steps(ballot(process, "a", PROPOSE, 1, (theirs, mine))) == [(ACCEPT, ("10.0.0.1", 2))]


@pytest.mark.parametrize(("host", "port"), [("", 2), ("a.example", 2), ("10.0.0.1", 0)])
def test_a_proposal_must_say_where_everybody_is(host, port):
    process = machine("b")
    with pytest.raises(RemoteProtocolError, match="no address"):
        ballot(process, "a", PROPOSE, 1, (RosterEntry("a", 1, host, port), process.own))
    assert process.promised is None


def test_a_proposal_may_seat_only_peers_where_there_is_a_list():
    process = machine("b", peers={"b": ("10.0.0.1", 1), "c": ("10.0.0.1", 2)})
    with pytest.raises(RemoteProtocolError, match="not among the peers"):
        ballot(process, "a", PROPOSE, 1, (RosterEntry("a", 1, "10.0.0.1", 3), process.own))


def test_a_proposal_is_repeated_to_who_has_not_accepted_it():
    process = machine("a", members=3)
    greet(process, "b", process.nonce, address=("10.0.0.1", 2))
    greet(process, "c", process.nonce, address=("10.0.0.1", 3))
    assert steps(process.on_time(0.0)) == [(PROPOSE, ("10.0.0.1", 2)), (PROPOSE, ("10.0.0.1", 3))]
    ballot(process, "b", ACCEPT, process.number)
    assert steps(process.on_time(0.2)) == [(PROPOSE, ("10.0.0.1", 3))]


def test_whoever_has_a_roster_promises_nothing_more():
    process = machine("b")
    greet(process, "c", process.nonce)
    process.on_time(0.0)
    assert steps(ballot(process, "c", ACCEPT, process.number)) == [(COMMIT, ("10.0.0.1", 9))]
    roster = process.roster
    assert ballot(process, "a", PROPOSE, 1, (RosterEntry("a", 1, "10.0.0.1", 2), process.own)) == []
    assert process.roster == roster
    assert process.promised is None


def test_a_member_is_reached_where_it_was_heard():
    """It may be bound to every address it has, which is none to send to."""
    process = machine("b")
    greet(process, "a", address=("10.0.0.1", 5))
    seats = (RosterEntry("a", 1, "0.0.0.0", 5), process.own)
    assert steps(ballot(process, "a", PROPOSE, 1, seats)) == [(ACCEPT, ("10.0.0.1", 5))]


def test_a_commit_counts_only_for_what_was_promised():
    process = machine("b")
    seats = (RosterEntry("a", 1, "10.0.0.1", 2), process.own)
    ballot(process, "a", COMMIT, 1, seats)
    assert not process.roster
    ballot(process, "a", PROPOSE, 1, seats)
    ballot(process, "a", COMMIT, 2, seats)
    assert not process.roster
    ballot(process, "a", COMMIT, 1, seats)
    assert process.roster == seats


def test_an_acceptance_of_an_aborted_proposal_is_answered_with_its_abort():
    """The abort may have been lost, and only the proposer can release the promise."""
    process = machine("a")
    greet(process, "b", process.nonce)
    process.on_time(0.0)
    assert steps(process.leave()) == [(ABORT, ("10.0.0.1", 9))]
    assert steps(ballot(process, "b", ACCEPT, process.number)) == [(ABORT, ("10.0.0.1", 9))]
    assert process.leave() == []


def test_an_acceptance_counts_only_for_the_proposal_it_names():
    process = machine("a")
    greet(process, "b", process.nonce)
    process.on_time(0.0)
    process.leave()
    process.on_time(1.0)
    assert steps(ballot(process, "b", ACCEPT, process.number - 1)) == [(ABORT, ("10.0.0.1", 9))]
    assert not process.roster
    ballot(process, "b", ACCEPT, process.number)
    assert process.roster


def test_a_late_abort_does_not_release_a_newer_promise():
    process = machine("b")
    seats = (RosterEntry("a", 1, "10.0.0.1", 2), process.own)
    for step, number in [(PROPOSE, 1), (ABORT, 1), (PROPOSE, 2), (ABORT, 1)]:
        ballot(process, "a", step, number, seats)
    assert process.promised == (member_id("a"), 2)
    ballot(process, "c", ABORT, 2)
    assert process.promised == (member_id("a"), 2)
    ballot(process, "a", ABORT, 2)
    assert process.promised is None


def test_complete_is_believed_of_the_proposer_or_before_any_promise():
    process = machine("b")
    with pytest.raises(GroupComplete, match="'b' is not one"):
        ballot(process, "z", COMPLETE, process.nonce)
    ballot(process, "z", COMPLETE, process.nonce + 1)  # an answer to somebody else's hello
    ballot(process, "a", PROPOSE, 1, (RosterEntry("a", 1, "10.0.0.1", 2), process.own))
    ballot(process, "z", COMPLETE, process.nonce)  # of another group by the same name
    with pytest.raises(GroupComplete):
        ballot(process, "a", COMPLETE, process.nonce)
    for moment in range(BROADCAST_AFTER_RETRIES):
        process.on_time(float(moment))
    with pytest.raises(GroupComplete):
        ballot(process, "z", COMPLETE, process.nonce)  # The proposer itself has fallen silent.


def test_the_commit_is_told_by_any_member_once_the_proposer_is_silent():
    a, b, c = (
        RosterEntry("a", 1, "10.0.0.1", 1),
        RosterEntry("b", 1, "10.0.0.1", 2),
        RosterEntry("c", 1, "10.0.0.1", 3),
    )
    informed, waiting = (RosterAgreement(own, 3, DIGEST, Random(1)) for own in (b, c))
    for process in (informed, waiting):
        ballot(process, "a", PROPOSE, 5, (a, b, c))
    ballot(informed, "a", COMMIT, 5, (a, b, c))
    for moment in range(BROADCAST_AFTER_RETRIES):
        asked = steps(waiting.on_time(float(moment)))
    assert asked == [(ACCEPT, ("10.0.0.1", 1)), (ACCEPT, ("10.0.0.1", 2))]
    assert steps(ballot(informed, "c", ACCEPT, 5)) == [(COMMIT, ("10.0.0.1", 3))]
    ballot(waiting, "b", COMMIT, 5, (a, b, c))
    assert waiting.roster == (a, b, c)


def test_a_group_of_one_has_itself():
    network = Network(1, seed=0)
    process = network.start("a")
    network.run(0.1)
    assert [seat.name for seat in process.roster] == ["a"]
