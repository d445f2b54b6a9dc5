"""One message for all updates of a request: which earlier one a later request replaces."""

import pytest

from semcast.core.views.recipe import ViewRecipe
from semcast.service import replaced_requests
from semcast.service.replaced_requests import ReplacedRequests
from semcast.terms.messages import Data
from semcast.terms.service import DONE, FAILED
from semcast.terms.views import Stamped, ViewEnvelope

PACKING = ViewRecipe(relation="list", timeout_s=0.2)


def test_only_a_request_that_writes_all_its_items_replaces_it():
    replaced = ReplacedRequests()
    assert replaced.replace(["a", "b"], 1) == ()
    assert replaced.replace(["a"], 3) == ()
    assert replaced.replace(["b", "c"], 5) == ()
    assert replaced.replace(["c", "b", "a"], 7) == (1, 3, 5)
    assert replaced.replace(["a", "b", "c"], 9) == (7,)


def test_what_is_replaced_is_listed_once():
    replaced = ReplacedRequests()
    replaced.replace(["a"], 1)
    assert [replaced.replace(["a"], seq) for seq in (3, 5)] == [(1,), (3,)]


def test_nothing_of_an_earlier_view_is_listed():
    replaced = ReplacedRequests()
    replaced.replace(["a"], 1)
    replaced.clear()
    assert replaced.replace(["a"], 3) == ()


def test_what_was_sent_longest_ago_is_forgotten(monkeypatch):
    monkeypatch.setattr(replaced_requests, "REMEMBERED", 2)
    replaced = ReplacedRequests()
    for seq, name in enumerate("abc", start=1):
        replaced.replace([name], seq)
    assert replaced.replace(["a", "b", "c"], 4) == (2, 3)


def messages_of(world):
    """The messages that the primary multicast, each once."""
    found = {}
    for source, _, datagram in world.sent:
        if source == 0 and isinstance(datagram, Stamped):
            inner = datagram.datagram
            inner = inner.datagram if isinstance(inner, ViewEnvelope) else inner
            if isinstance(inner, Data):
                found |= {message.seq: message for message in inner.messages}
    return found


def test_all_updates_of_a_request_are_one_message(world):
    w = world(group=PACKING)
    for name, amount in (("ada", 5), ("bob", 1), ("ada", 2), ("ada", 0)):
        w.ask(3, (name, amount))
        w.run(0.1)
    assert [status for status, _ in w.answers[3]] == [DONE] * 4
    assert w.items(0) == w.items(1) == w.items(2) == {"bob": 1, "last": "ada"}
    covers = {seq: message.covers for seq, message in messages_of(w).items() if message.covers}
    # After the opening each request is an update and a fin; each wrote its account and "last".
    assert covers == {7: (5,), 9: (3,)}


def test_a_failed_request_is_a_fin_alone(world):
    w = world(group=PACKING)
    w.ask(3, ("ada", -1))
    w.run(0.1)
    assert w.answers[3] == [(FAILED, "ValueError: ada has only 0")]
    assert len(messages_of(w)) == 2  # with that of the opening
    assert w.items(2) == {}


def test_what_a_request_wrote_must_fit_one_message(world):
    small = {"message_bytes": 1000}
    w = world(group=ViewRecipe(relation="list", timeout_s=0.2, multicast=small))
    w.ask(3, ("a" * 400, 5))  # which is the name of an item and the value of another
    w.run(0.1)
    [(status, text)] = w.answers[3]
    assert status == FAILED
    assert text.startswith("ValueError: all that it wrote has 8")
    assert text.endswith("maximum is 744")


@pytest.mark.parametrize("relation", ["update-fin", "list"])
def test_the_size_of_a_write_counts_in_both_forms(world, relation):
    group = ViewRecipe(relation=relation, timeout_s=0.2, multicast={"message_bytes": 500})
    w = world(group=group)
    w.ask(3, ("a" * 300, 5))
    w.run(0.1)
    assert w.answers[3][0][0] == FAILED
