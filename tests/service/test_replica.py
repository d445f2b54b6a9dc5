"""Figure 1 of SVS, step by step, with the five places where it is mended."""

import json

import pytest

from semcast.core.views.recipe import ViewRecipe
from semcast.service.recipe import ServiceRecipe
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.messages import Update
from semcast.terms.service import DONE, FAILED, FORGOTTEN, Applied, Reply, Request
from semcast.terms.views import Stamped


def test_a_request_is_applied_everywhere_before_it_is_answered(world):
    w = world()
    w.ask(3, ("ada", 5))
    w.run(1.0)
    assert w.answers[3] == [(DONE, 5)]
    assert w.items(0) == w.items(1) == w.items(2) == {"ada": 5, "last": "ada"}


def test_nobody_is_answered_before_every_backup_has_acknowledged(world):
    w = world()
    w.ask(3, ("ada", 1))
    w.run(0.02)
    w.lost = lambda source, to, datagram: isinstance(datagram, Applied) and source == 2
    w.ask(3, ("ada", 5))
    w.run(0.1)  # less than it takes to suspect anybody
    assert w.answers[3] == [(DONE, 1)]
    assert w.items(2)["ada"] == 6
    w.lost = lambda source, to, datagram: False
    w.run(0.1)  # The primary asks again.
    assert w.answers[3] == [(DONE, 1), (DONE, 6)]


def test_a_duplicate_is_not_answered_while_its_request_is_incomplete(world):
    w = world()
    w.ask(3, ("ada", 1))
    w.run(0.02)
    w.lost = lambda source, to, datagram: isinstance(datagram, Applied)
    w.ask(3, ("ada", 5))
    client = w.nodes[3]
    again = Request(client.client, client.number, client.body, client.opened)
    before = len(w.sent)
    w.enter(0, "on_datagrams", 3, [again])
    assert not any(isinstance(datagram, Reply) for _, _, datagram in w.sent[before:])


def test_an_answered_request_is_answered_again_and_not_executed_again(world):
    w = world()
    w.ask(3, ("ada", 5))
    w.run(1.0)
    client = w.nodes[3]
    before = len(w.sent)
    again = Request(client.client, client.number, b"\x92\xa3ada\x05", client.opened)
    w.enter(0, "on_datagrams", 3, [again])
    replies = [datagram for _, _, datagram in w.sent[before:] if isinstance(datagram, Reply)]
    assert [reply.body for reply in replies] == [b"\x05"]
    assert w.items(0)["ada"] == 5


def test_a_late_acknowledgement_does_not_count_for_the_next_request(world):
    w = world()
    w.ask(3, ("ada", 1))
    w.run(0.02)
    first = w.nodes[0].applied
    w.lost = lambda source, to, datagram: isinstance(datagram, Applied)
    w.ask(3, ("ada", 5))
    for backup in (1, 2):
        w.enter(0, "on_datagrams", backup, [Applied(7, 1, 1, first)])
        w.enter(0, "on_datagrams", backup, [Applied(7, 9, 1, first + 99)])  # of another view
        w.enter(0, "on_datagrams", backup, [Applied(8, 1, 1, first + 99)])  # of another lineage
        w.enter(0, "on_datagrams", backup, [Applied(7, 1, 2, first + 99)])  # of another life
    assert w.answers[3] == [(DONE, 1)]


def test_one_acknowledgement_that_comes_twice_is_one(world):
    w = world()
    w.ask(3, ("ada", 1))
    w.run(0.02)
    w.lost = lambda source, to, datagram: isinstance(datagram, Applied) and source == 2
    w.ask(3, ("ada", 5))
    acknowledged = Applied(7, 1, 1, w.nodes[0].applied)
    for _ in range(3):
        w.enter(0, "on_datagrams", 1, [acknowledged])
    assert w.answers[3] == [(DONE, 1)]


def test_a_server_alone_answers(world):
    w = world(servers=1)
    w.ask(1, ("ada", 5))
    assert w.answers[1] == [(DONE, 5)]


def test_what_was_finished_is_complete_with_the_next_view(world):
    w = world()
    w.ask(3, ("ada", 1))
    w.run(0.02)
    w.lost = lambda source, to, datagram: isinstance(datagram, Applied) and source == 2
    w.ask(3, ("ada", 5))
    del w.nodes[2]
    w.run(2.0)
    assert w.answers[3] == [(DONE, 1), (DONE, 6)]
    assert w.nodes[0].view.id == 2


def test_the_survivors_know_what_a_dead_primary_answered(world):
    w = world()
    w.ask(3, ("ada", 5))
    w.run(0.02)
    del w.nodes[0]
    w.ask(3, ("ada", 5))
    w.run(2.0)
    assert w.nodes[1].is_primary
    assert w.answers[3] == [(DONE, 5), (DONE, 10)]
    assert w.items(1) == w.items(2) == {"ada": 10, "last": "ada"}


def test_an_incomplete_request_of_a_dead_primary_never_was(world):
    w = world()
    w.ask(3, ("ada", 1))
    w.run(0.02)
    w.lost = lambda source, to, datagram: source == 0 and isinstance(datagram, Stamped | Reply)
    w.ask(3, ("ada", 5))
    assert w.items(0)["ada"] == 6
    del w.nodes[0]
    w.lost = lambda source, to, datagram: False
    w.run(2.0)
    assert w.answers[3] == [(DONE, 1), (DONE, 6)]  # executed once, by the next primary
    assert w.items(1)["ada"] == 6


def test_an_error_is_the_reply_and_changes_nothing(world):
    w = world()
    w.ask(3, ("ada", -5))
    w.run(0.1)
    assert w.answers[3] == [(FAILED, "ValueError: ada has only 0")]
    assert w.items(0) == w.items(2) == {}


def test_what_no_message_holds_is_an_error(world):
    group = ViewRecipe(relation="update-fin", multicast={"message_bytes": 512})
    w = world(group=group)
    w.ask(3, ("x" * 300, 1))
    w.run(0.1)
    [(status, text)] = w.answers[3]
    assert status == FAILED
    assert "has 301 bytes, maximum is 256" in text
    assert w.items(0) == {}


class Recorder:
    """Sets an item for each name in a list as JSON."""

    def execute(self, names):
        for name in json.loads(names):
            self.items[name] = len(name)


NAMES = {"": FAILED, "\0": DONE, " ": DONE, "\ud800": FAILED}
NAMES |= {"ä" * 1024: DONE, "ä" * 1025: FAILED, "\U0001f600" * 1024: DONE}


@pytest.mark.parametrize("relation", ["update-fin", "list"])
def test_a_name_is_refused_as_an_error_or_carried_by_the_group(relation, world):
    w = world(Recorder, group=ViewRecipe(relation=relation, timeout_s=0.2))
    for name in NAMES:
        w.ask(3, json.dumps([name]))
        w.run(0.1)
    assert [status for status, _ in w.answers[3]] == list(NAMES.values())
    carried = {name: len(name) for name, status in NAMES.items() if status == DONE}
    assert w.items(0) == w.items(2) == carried


class Unreadable(Exception):
    def __str__(self):
        raise LookupError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no \ud800"), "ValueError: no \\ud800"),
        (Unreadable(), "Unreadable: its text cannot be read, that raises LookupError"),
        (ValueError("x" * 5000), "ValueError: " + "x" * 244),
        (ValueError("ä" * 5000), "ValueError: " + "ä" * 122),
        (ValueError("xä" + "ä" * 5000), "ValueError: x" + "ä" * 121),
    ],
)
def test_every_error_of_a_service_has_a_text_that_fits(error, text, world):
    class Failing:
        def execute(self, request):
            raise error

    w = world(Failing, group=ViewRecipe(relation="update-fin", multicast={"message_bytes": 512}))
    w.ask(3, ["a"])
    w.run(0.1)
    assert w.answers[3] == [(FAILED, text)]


def test_a_large_reply_leaves_no_room_for_all_that_it_makes_obsolete(world):
    class Writer:
        def execute(self, request):
            first, end, size = request
            self.items.update((f"k{n}", size) for n in range(first, end))
            return "x" * size

    group = ViewRecipe(relation="list", timeout_s=0.2, multicast={"message_bytes": 4096})
    w = world(Writer, group=group)
    for size in (3800, 3000, 0):
        for n in range(200):
            w.ask(3, (n, n + 1, 1))
            w.run(0.0)
        w.ask(3, (0, 200, size))
        w.run(0.5)
        assert w.answers[3][-1] == (DONE, "x" * size)
        assert w.items(0) == w.items(2) == {f"k{n}": size for n in range(200)}


@pytest.mark.parametrize("raises", [False, True])
def test_a_service_that_replaces_its_items_fails_and_goes_on(raises, world):
    class Resetting:
        def execute(self, request):
            if request == "reset":
                self.items = {}
                if raises:
                    raise ValueError("after that")
            self.items[request] = 1
            return len(self.items)

    w = world(Resetting)
    for request in ("a", "reset", "b"):
        w.ask(3, request)
        w.run(0.1)
    text = "ValueError: after that" if raises else "TypeError: the service replaced self.items; "
    (first, (status, failure), last) = w.answers[3]
    assert (first, status, last) == ((DONE, 1), FAILED, (DONE, 2))
    assert failure.startswith(text)
    assert w.items(0) == w.items(2) == {"a": 1, "b": 1}


def test_items_are_deleted_everywhere(world):
    w = world()
    for amount in (5, 0):
        w.ask(3, ("ada", amount))
        w.run(0.1)
    assert w.items(0) == w.items(1) == {"last": "ada"}


def test_a_client_that_was_forgotten_is_told_so(world):
    w = world(clients=2, sessions_max=1)
    w.ask(3, ("ada", 5))
    w.run(0.1)
    w.ask(4, ("bob", 5))
    w.run(0.1)
    w.ask(3, ("ada", 5))
    w.run(0.1)
    assert w.answers[3] == [(DONE, 5), (FORGOTTEN, None)]
    w.ask(3, ("ada", 5))  # in a session of its own
    w.run(0.1)
    assert w.answers[3][-1] == (DONE, 10)


def test_requests_from_before_a_client_was_forgotten_do_not_run_in_a_later_session(world):
    w = world(clients=2, sessions_max=1)
    w.ask(3, ("ada", 5))
    w.run(0.1)
    late = [each for source, to, each in w.sent if (source, to) == (3, 0)]
    assert [each.number for each in late] == [0, 1]
    w.ask(4, ("bob", 5))
    w.run(0.1)
    for each in late:  # They were on their way all the time; the first opens a session again.
        w.enter(0, "on_datagrams", 3, [each])
        w.run(0.1)
    assert w.items(0)["ada"] == w.items(1)["ada"] == 5


def test_a_session_ends_with_its_age(world):
    w = world(clients=2, session_s=10.0)
    w.ask(3, ("ada", 5))
    w.run(20.0)
    w.ask(4, ("bob", 5))
    w.run(0.1)
    w.ask(3, ("ada", 5))
    w.run(0.1)
    assert w.answers[3] == [(DONE, 5), (FORGOTTEN, None)]


def test_requests_that_overlap_see_each_other(world):
    w = world(clients=4)
    for pid in range(3, 7):
        w.ask(pid, ("ada", 1))
    w.run(0.5)
    assert sorted(w.answers[pid][0][1] for pid in range(3, 7)) == [1, 2, 3, 4]


def test_a_server_takes_no_messages_of_an_application(world):
    w = world()
    with pytest.raises(LocalProtocolError, match="a server multicasts only what requests"):
        w.nodes[0].submit([Update(b"x")], 0.0, Effects(recording=False))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"protocol": "s-vsm"}, "protocol: unknown value 's-vsm'"),
        ({"order": "total"}, "order: primary-backup needs fifo, not total"),
        ({"retry_s": 0.0}, "retry_s: 0.0 is not above 0"),
        ({"sessions_max": 0}, "sessions_max: 0 is not at least 1"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        ServiceRecipe(**settings)
