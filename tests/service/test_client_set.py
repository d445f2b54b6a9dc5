"""Clients of one socket are one machine for the driver, and clients of their own otherwise."""

from random import Random

import pytest
from tests.service.store_world import StoreWorld

from semcast.service.client_set import ClientSet
from semcast.service.commands import encode_request
from semcast.service.store_client import StoreClient
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import NEVER, Incarnation
from semcast.terms.machine import Withdraw
from semcast.terms.messages import Update
from semcast.terms.outputs import Answered, ClientOutputs, Withdrawn
from semcast.terms.service import DONE
from semcast.terms.store import StoreAnswer, StoreBundle, StoreReply

RECIPE = StoreWorld().recipe
SET = Update(encode_request(("set", b"a", b"1")))
GET = Update(encode_request(("get", b"a")))


class World:
    """A set with some clients that have met server 0 and have sessions."""

    def __init__(self, count=2):
        self.set, self.now = ClientSet(), 0.0
        self.clients = [
            StoreClient(RECIPE, Incarnation(9, 1), Random(n), 0.0) for n in range(count)
        ]
        self.keys = [self.set.add(client) for client in self.clients]
        for number, client in enumerate(self.clients, 1):
            client.server, client.opened, client.is_met = 0, number, True

    def ask(self, *requests):
        out = Effects(recording=False)
        return self.set.ask(requests, self.now, out), out

    def answer(self, *clients):
        out = Effects(recording=False)
        replies = tuple(
            StoreReply(each.client, 1, (StoreAnswer(each.number, DONE, b"", 7),))
            for each in clients
        )
        self.set.on_datagrams(0, (StoreBundle(replies),), self.now, out)
        return out


def test_requests_of_several_clients_are_one_input_and_their_answers_too():
    w = World()
    one, other = w.keys
    accepted, out = w.ask((one, [SET]), (other, [SET]))
    assert accepted == [1, 1]
    assert [request.client for _, request in out.send] == [each.client for each in w.clients]
    assert w.answer(*w.clients).outputs == [
        ClientOutputs(key, (Answered(DONE, b""),)) for key in w.keys
    ]
    assert w.set.sent == 2


def test_a_client_takes_what_it_has_room_for():
    w = World()
    accepted, _ = w.ask((w.keys[0], [SET] * (RECIPE.pipeline + 1)), (w.keys[1], [SET]))
    assert accepted == [RECIPE.pipeline, 1]


def test_the_deadline_is_the_first_of_all_and_each_client_asks_again_at_its_own():
    w = World()
    w.ask((w.keys[0], [SET]))
    w.now = RECIPE.retry_s / 2
    w.ask((w.keys[1], [SET]))
    assert w.set.deadline == w.clients[0].deadline < w.clients[1].deadline
    w.now, out = w.set.deadline, Effects(recording=False)
    w.set.on_time(w.now, out)
    assert [request.client for _, request in out.send] == [w.clients[0].client]
    assert w.set.deadline == w.clients[1].deadline
    w.answer(*w.clients)
    w.set.on_time(w.set.deadline, Effects(recording=False))
    assert w.set.deadline == NEVER


def test_a_decision_is_about_one_client():
    w = World()
    w.ask(*((key, [GET]) for key in w.keys))
    out = Effects(recording=False)
    w.set.command(w.keys[1], Withdraw(1), w.now, out)
    assert out.outputs == [ClientOutputs(w.keys[1], (Withdrawn(1),))]
    assert w.clients[0].pending
    with pytest.raises(LocalProtocolError, match="which one asks"):
        w.set.submit([SET], w.now, out)


def test_a_client_that_has_ended_gets_nothing():
    w = World()
    w.ask(*((key, [SET]) for key in w.keys))
    assert w.set.newest is w.clients[1]
    w.set.remove(w.keys[1])
    assert [each.client for each in w.answer(*w.clients).outputs] == [w.keys[0]]
    assert w.set.newest is w.clients[0]
