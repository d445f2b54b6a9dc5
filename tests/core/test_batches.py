"""Several datagrams of one source as one input: the same as one after the other, and one that fails
costs itself alone."""

from random import Random

import pytest

from semcast.core.member import Member
from semcast.core.pubsub.participant import Participant
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.receiver import Receiver
from semcast.core.recipe import Recipe
from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import Incarnation
from semcast.terms.machine import FoundGroup, JoinGroup
from semcast.terms.messages import Data, DataMessage, FrontierVote, Nack, StabilityGossip
from semcast.terms.outputs import delivered
from semcast.terms.pubsub import Publication, Repair
from semcast.terms.views import OrderProgress, Stamped, ViewEnvelope
from semcast.wire import GROUP_CODEC, VIEW_CODEC, encode

LINEAGE = 7
LIVES = (Incarnation(0, 1), Incarnation(1, 1), Incarnation(2, 1))


def data(first, count=2, **more):
    messages = tuple(DataMessage(1, first + n, payload=b"%d" % n) for n in range(count))
    return Data(messages, **more)


def seqs(out):
    return [message.seq for message in delivered(out.outputs)]


class Fixed:
    """A member of a fixed group, that hears from member 1."""

    bad = Data((DataMessage(9, 1),))
    other = StabilityGossip((FrontierVote(1, 4, 4, b"\2", 0),))

    def __init__(self):
        self.machine = Member(Recipe(members=3), 0, Random(1))
        self.machine.on_ready(1 << 30, 0.0, Effects(recording=False))

    def said(self, datagram):
        return GROUP_CODEC.decode(encode(datagram))


class InView(Fixed):
    """The same in a view."""

    def __init__(self):
        self.machine = ViewMember(ViewRecipe(), LIVES[0], Random(1), 0.0)
        out = Effects(recording=False)
        self.machine.on_command(FoundGroup(LIVES, LINEAGE), 0.0, out)
        self.machine.on_ready(1 << 30, 0.0, out)

    def said(self, datagram, lineage=LINEAGE, inc=1):
        stamped = Stamped(lineage, inc, ViewEnvelope(1, datagram))
        return VIEW_CODEC.decode(encode(stamped))


@pytest.fixture(params=[Fixed, InView])
def group(request):
    return request.param


def hear(one, datagrams):
    out = Effects(recording=True)
    one.machine.on_datagrams(1, [one.said(each) for each in datagrams], 0.01, out)
    return out


def told(out):
    return [(each.kind, each.sender, each.seq, each.note) for each in out.events]


def test_a_batch_is_handled_as_one_after_the_other(group):
    batch = [data(1), data(3), data(4), Fixed.other, data(6, safe=1), data(9), data(8, 1)]
    one, other, singly = group(), group(), []
    for datagram in batch:
        out = hear(other, [datagram])
        assert not out.refused
        singly.append(out)
    out = hear(one, batch)
    assert not out.refused
    assert seqs(out) == [seq for each in singly for seq in seqs(each)] == list(range(1, 11))
    # The frontier moves for all of a run before what everyone has of it is looked at.
    kinds = ("receive", "deliver", "discard")
    expected = [row for each in singly for row in told(each) if row[0] in kinds]
    assert sorted(row for row in told(out) if row[0] in kinds) == sorted(expected)


def test_first_transmissions_that_follow_each_other_are_one_run(group, monkeypatch):
    runs = []
    on_run = Receiver.on_run

    def noted(self, run, *args):
        runs.append((run.first, run.count))
        on_run(self, run, *args)

    monkeypatch.setattr(Receiver, "on_run", noted)
    hear(group(), [data(1), data(3), data(5), Fixed.other, data(7), data(9)])
    assert runs == [(1, 6), (7, 4)]


@pytest.mark.parametrize("place", range(4))
def test_a_datagram_that_makes_no_sense_costs_itself_alone(group, place):
    batch = [data(1), data(3), Fixed.other]
    batch.insert(place, Fixed.bad)
    out = hear(group(), batch)
    assert [type(error) for error in out.refused] == [RemoteProtocolError]
    assert seqs(out) == [1, 2, 3, 4]


def test_a_mistake_of_ours_costs_the_datagrams_that_provoke_it(group, monkeypatch):
    on_run = Receiver.on_run

    def stumble(self, run, *args):
        if any(message.seq == 3 for message in run.messages()):
            raise ZeroDivisionError("ours")
        on_run(self, run, *args)

    monkeypatch.setattr(Receiver, "on_run", stumble)
    out = hear(group(), [data(1), data(3), data(5), Nack(0, (), 1, 1)])
    assert [type(error) for error in out.refused] == [ZeroDivisionError]
    assert seqs(out) == [1, 2]
    assert all(isinstance(sent, Stamped) for _, sent in out.send) or group is Fixed


def test_who_is_excluded_in_a_batch_hears_no_more_of_it():
    one = Fixed()
    out = hear(one, [data(1), Data((DataMessage(0, 3),)), data(3)])
    assert one.machine.excluded
    assert seqs(out) == [1, 2]
    assert len(out.outputs) == 2


def test_what_another_lineage_says_is_counted_each(monkeypatch):
    one, out = InView(), Effects(recording=True)
    foreign = [one.said(data(n), lineage=8) for n in (1, 3, 5)]
    older = [one.said(data(n), inc=0) for n in (1, 3)]
    one.machine.on_datagrams(1, [*foreign, one.said(data(1)), *older], 0.0, out)
    assert one.machine.status(0.0).discarded == {"lineage": 3, "incarnation": 2}
    assert seqs(out) == [1, 2]


def test_what_somebody_outside_a_view_says_in_it_is_refused_each():
    one, out = InView(), Effects(recording=True)
    one.machine.on_datagrams(5, [one.said(data(n)) for n in (1, 3)], 0.0, out)
    assert [type(error) for error in out.refused] == [RemoteProtocolError] * 2


def test_datagrams_between_those_of_a_view_keep_their_place():
    one, out, heard = InView(), Effects(recording=True), []
    member = one.machine.members[-1]
    member.on_progress = lambda source, *rest: heard.append(member.frontier[1])
    between = Stamped(LINEAGE, 1, OrderProgress(1, 0, 0))
    batch = [one.said(data(1)), one.said(data(3)), between, one.said(data(5)), between]
    one.machine.on_datagrams(1, batch, 0.0, out)
    assert heard == [4, 6]


def test_a_participant_goes_on_after_a_mistake(monkeypatch):
    person = Participant(PubsubRecipe(members=3, protocol="pbcast"), 0, Random(1), 0.0)
    out = Effects(recording=True)
    person.on_command(JoinGroup(), 0.0, out)
    person.on_ready(10, 0.0, out)
    monkeypatch.setattr(person.selection, "on_answer", lambda *args: 1 / 0)
    first, second = (Publication((DataMessage(1, seq, payload=b"x"),)) for seq in (1, 2))
    person.on_datagrams(1, [first, Repair(()), Publication((DataMessage(2, 1),)), second], 0.1, out)
    person.on_persisted(1 << 60, 0.2, out)
    assert [type(error) for error in out.refused] == [ZeroDivisionError]
    assert seqs(out) == [1, 2]
