"""Figures 6 and 7 of VSD, and where the store departs from them."""

import pytest
from tests.service.store_world import StoreWorld

from semcast.service.client_lines import ClientLines
from semcast.service.commands import encode_request
from semcast.service.store_bundle import bundled
from semcast.service.store_disk import StoredState
from semcast.service.store_recipe import StoreRecipe
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.machine import Withdraw
from semcast.terms.messages import Update
from semcast.terms.outputs import ROOM, Withdrawn
from semcast.terms.records import Records
from semcast.terms.service import DONE, FAILED, FORGOTTEN, MINORITY_ROLE, PRIMARY
from semcast.terms.store import (
    BUNDLE_MAX,
    REFUSED,
    REQUESTS_MAX,
    UNKNOWN,
    WITHDRAWN,
    Parcel,
    StoreAnswer,
    StoreBundle,
    StoreProgress,
    StoreReply,
    StoreRequest,
)
from semcast.wire.codec import STORE_CODEC

PAPER = {"reads": "rotate", "confirm": "all"}


@pytest.mark.parametrize("settings", [{}, PAPER, {"durable": False}], ids=str)
def test_updates_and_queries_are_answered(settings):
    w = StoreWorld(**settings)
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.ask(3, "incr", b"a", 4)
    w.ask(3, "get", b"a")
    w.ask(3, "del", b"a")
    w.ask(3, "get", b"a")
    w.run(0.3)
    assert w.answers[3] == [(DONE, True), (DONE, 5), (DONE, b"5"), (DONE, True), (DONE, None)]
    assert w.items(0) == w.items(1) == w.items(2) == {}


def test_bad_commands_are_answered_as_errors_and_change_nothing():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"x")
    w.ask(3, "incr", b"a", 1)
    w.ask(3, "flush")
    w.ask(3, "set", b"a")
    w.ask(3, "get", 7)
    w.ask(3, "set", b"k" * 2000, b"")
    w.ask(3, "set", b"a", b"v" * 70_000)
    w.run(0.5)
    texts = [text for status, text in w.answers[3] if status == FAILED]
    assert len(texts) == 6
    assert texts[0] == "incr: the value is not an integer"
    assert texts[-1] == "the request has 70013 bytes, and 64440 are the maximum"
    assert w.items(1) == {b"a": b"x"}


def test_a_store_begins_when_all_founders_are_there():
    w = StoreWorld()
    assert all(w.nodes[pid].replica.has_state for pid in range(3))
    w = StoreWorld(servers=2, clients=1, founders=(0, 1, 9))
    w.ask(2, "set", b"a", b"1")
    w.run(1.0)
    assert w.answers[2] == [(REFUSED, None)]
    assert not w.nodes[0].replica.has_state


def test_updates_behind_an_opening_that_failed_are_refused_in_their_order():
    w = StoreWorld(clients=2)
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.part((0,), (1, 2))
    w.run(1.0)
    w.nodes[4].server = 0
    requests = (("set", b"a", b"2"), ("incr", b"n", 1), ("get", b"a"), ("incr", b"n", 1))
    w.enter(4, "submit", [Update(encode_request(request)) for request in requests])
    w.run(0.5)  # The client goes to another server, and opens its session there.
    assert w.answers[4] == [(REFUSED, None), (REFUSED, None), (DONE, b"1"), (REFUSED, None)]


def test_a_refusal_says_nothing_of_a_server_that_was_asked_before():
    w = StoreWorld()
    w.ask(3, "incr", b"n", 1)
    w.run(0.3)
    w.part((0,), (1, 2))
    is_parted = w.lost
    w.lost = lambda source, to, datagram: to == 3 or is_parted(source, to, datagram)
    w.run(1.0)
    w.nodes[3].server, w.nodes[3].route = 1, [1, 0, 0]
    w.ask(3, "incr", b"n", 1)  # Server 1 makes the update, and its answer is lost.
    w.run(0.05)
    w.lost = is_parted
    w.nodes[3].server = 0
    w.run(2.0)
    assert w.answers[3][1:] == [(UNKNOWN, None)]
    assert w.items(1) == {b"n": b"2"}


def test_updates_are_refused_while_the_other_servers_are_gone():
    w = StoreWorld(pipeline=8)
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.nodes[3].server = 0
    w.crash(1)
    w.crash(2)
    w.run(1.0)
    for number in range(5):  # The client asks the others in vain whether they are there.
        w.ask(3, "set", b"a", b"%d" % number)
        w.run(1.0)
    assert w.answers[3][1:] == [(REFUSED, None)] * 5
    requests = [Update(encode_request(("incr", b"n", number))) for number in range(4)]
    w.enter(3, "submit", requests)
    w.run(1.0)
    assert w.answers[3][6:] == [(REFUSED, None)] * 4
    w.start(1)
    w.run(1.0)
    w.ask(3, "incr", b"n", 1)
    w.run(1.0)
    assert w.answers[3][10:] == [(DONE, 1)]


def test_an_update_in_a_minority_is_refused_and_queries_go_on():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.part((0,), (1, 2))
    w.run(1.0)
    w.nodes[3].server = 0
    w.ask(3, "get", b"a")
    w.ask(3, "set", b"a", b"2")
    w.run(0.02)
    assert w.answers[3][1:] == [(DONE, b"1"), (REFUSED, None)]
    w.ask(3, "set", b"a", b"3")  # The client has gone to another server.
    w.run(0.5)
    assert w.answers[3][3:] == [(DONE, True)]
    assert w.items(1) == {b"a": b"3"}
    assert w.items(0) == {b"a": b"1"}
    w.part()
    w.run(1.0)
    assert w.items(0) == {b"a": b"3"}


def test_an_update_whose_view_is_lost_is_unknown():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.nodes[3].server = 0
    w.part((0,), (1, 2))
    w.nodes[3].recipe = StoreRecipe(founders=(0, 1, 2), retry_s=9.0, retry_max_s=9.0)
    w.nodes[3].wait_s = 9.0
    w.ask(3, "set", b"a", b"2")
    w.run(1.0)
    assert w.answers[3][1:] == [(UNKNOWN, None)]


def test_with_a_quorum_a_stopped_disk_stops_no_update():
    for confirm, expected in (("quorum", [(DONE, True)]), ("all", [])):
        w = StoreWorld(confirm=confirm)
        w.slow = {2}
        w.nodes[3].server = 0
        w.ask(3, "set", b"a", b"1")
        w.run(0.1)
        assert w.answers[3] == expected


def test_nothing_is_answered_before_a_quorum_has_it_on_disk():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.slow = {1, 2}
    w.ask(3, "set", b"a", b"2")
    w.run(0.1)
    assert w.answers[3] == [(DONE, True)]
    w.sync(2)
    w.run(0.1)
    assert w.answers[3] == [(DONE, True)] * 2


def test_a_server_tells_its_progress_before_it_executes_for_others():
    """A client of another server may wait for the progress; nobody waits for the execution here."""
    w = StoreWorld(durable=False)
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    read_late = []

    def is_read_late(source, to, datagram):
        if (source, to) == (0, 1):
            read_late.append(datagram)
        return (source, to) == (0, 1)

    w.lost = is_read_late
    w.ask(3, "set", b"a", b"2")
    w.run(0.01)
    w.lost = lambda source, to, datagram: False
    sent_before = len(w.sent)
    w.enter(1, "on_datagrams", 0, read_late)  # the update, and that another server has it
    told = [sent[2] for sent in w.sent[sent_before:] if isinstance(sent[2], StoreProgress)]
    assert told[0].persisted == w.nodes[1].replica.log.length == told[0].executed + 1
    w.run(0.1)
    assert w.items(1) == {b"a": b"2"}


def progress_since(w, place):
    """Who told whom what."""
    return [each for each in w.sent[place:] if isinstance(each[2], StoreProgress)]


@pytest.mark.parametrize("durable", [True, False])
def test_progress_is_told_at_once_only_to_those_that_wait_for_it(durable):
    """The server of the client, and the sequencer; here that is server 0."""
    w = StoreWorld(durable=durable)
    sequencer, *others = [life.pid for life in w.nodes[0].replica.view.members]
    for asked in (sequencer, others[0]):
        w.nodes[3].server = asked
        w.ask(3, "set", b"a", b"1")
        w.run(0.3)
        before = len(w.sent)
        w.ask(3, "set", b"a", b"2")
        assert w.answers[3][-1] == (DONE, True)
        waiting = {asked, sequencer}
        routes = {(source, to) for source, to, _ in progress_since(w, before)}
        told = {(source, to) for source, to in routes if to in waiting and source not in waiting}
        assert told == {(pid, to) for pid in {0, 1, 2} - waiting for to in waiting}
        assert all(to in waiting for source, to in routes if source != sequencer)


def test_the_sequencer_tells_all_what_is_safe_soon_and_with_its_next_batch():
    w = StoreWorld()
    sequencer, *others = [life.pid for life in w.nodes[0].replica.view.members]
    assert w.nodes[3].server == sequencer == 0
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.ask(3, "set", b"a", b"2")
    assert w.answers[3][-1] == (DONE, True)
    assert [w.items(pid)[b"a"] for pid in others] == [b"1", b"1"]
    before = len(w.sent)
    w.ask(3, "set", b"a", b"3")
    told = [(to, progress) for source, to, progress in progress_since(w, before) if not source]
    assert {to for to, _ in told} == set(others)
    assert {progress.executed for _, progress in told} == {w.nodes[0].replica.executed - 1}
    assert [w.items(pid)[b"a"] for pid in others] == [b"2", b"2"]
    w.run(w.recipe.group.order_s)
    assert [w.items(pid)[b"a"] for pid in others] == [b"3", b"3"]


def test_a_server_asks_again_while_nothing_becomes_safe():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.lost = lambda source, to, datagram: isinstance(datagram, StoreProgress) and not datagram.asks
    before = len(w.sent)
    w.ask(3, "set", b"a", b"2")
    w.run(0.02)
    assert w.answers[3] == [(DONE, True)]
    w.lost = lambda source, to, datagram: False
    w.run(2 * w.recipe.retry_s)
    assert w.answers[3] == [(DONE, True)] * 2
    assert any(progress.asks for _, _, progress in progress_since(w, before))


def test_a_server_restarts_with_what_its_disk_holds():
    w = StoreWorld()
    for value in (b"1", b"2", b"3"):
        w.ask(3, "set", b"a", value)
    w.run(0.3)
    for pid in range(3):
        w.crash(pid)
    for pid in range(3):
        w.start(pid)
    w.run(1.0)
    w.ask(3, "get", b"a")
    w.run(0.3)
    assert w.answers[3][-1] == (DONE, b"3")


def test_a_server_without_its_disk_counts_only_once_it_has_the_state():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.crash(2)
    w.crash(1)
    w.disks[2].clear()
    w.start(2)
    w.run(1.0)
    w.nodes[3].server = 0
    w.ask(3, "set", b"a", b"2")
    w.run(0.05)
    assert w.answers[3][1:] == [(REFUSED, None)]  # Server 2 is there and does not count.
    assert not w.nodes[2].replica.has_state
    w.start(1)
    w.run(1.0)
    assert w.nodes[2].replica.has_state
    assert w.items(2) == {b"a": b"1"}


def test_a_disk_that_went_back_in_time_counts_in_no_quorum():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    old = list(w.disks[2])
    w.ask(3, "set", b"a", b"2")
    w.run(0.3)
    w.crash(2)
    w.disks[2] = old
    w.crash(1)
    w.start(2)
    w.run(1.0)
    assert not w.nodes[0].replica.is_primary
    w.start(1)
    w.run(1.0)
    assert w.nodes[2].replica.is_primary
    assert w.items(2) == {b"a": b"2"}


def test_an_update_that_is_sent_again_to_another_server_runs_once():
    w = StoreWorld()
    w.ask(3, "incr", b"n", 1)
    w.run(0.3)
    w.nodes[3].server = 0
    w.lost = lambda source, to, datagram: (source, to) == (0, 3)
    w.ask(3, "incr", b"n", 1)
    w.run(1.0)  # No answer comes, so the client asks elsewhere.
    assert w.answers[3] == [(DONE, 1), (DONE, 2)]
    assert w.items(0) == w.items(1) == {b"n": b"2"}


def test_a_forgotten_session_does_not_run_again():
    w = StoreWorld(clients=3, sessions_max=2)
    for pid in (3, 4, 5):
        w.ask(pid, "incr", b"n", 1)
        w.run(0.3)
    w.ask(3, "incr", b"n", 1)
    w.run(0.3)
    w.ask(3, "incr", b"n", 1)
    w.run(0.3)
    assert w.answers[3] == [(DONE, 1), (FORGOTTEN, None), (DONE, 4)]


def test_a_server_far_behind_takes_a_snapshot_and_updates_go_on():
    w = StoreWorld(truncate_after=1, snapshot_after=3)
    for value in range(10):
        w.ask(3, "set", b"%d" % value, b"v" * 9000)
        w.run(0.05)
    w.crash(2)
    w.disks[2].clear()
    w.run(0.5)
    w.ask(3, "set", b"more", b"x")
    w.run(0.2)
    w.start(2)
    w.run(1.0)
    assert w.nodes[0].replica.log.base > 0
    assert w.items(2) == w.items(0)
    assert w.nodes[2].replica.has_state


def test_a_server_that_restarts_begins_with_all_that_was_safe():
    w = StoreWorld()
    for value in range(5):
        w.ask(3, "set", b"a", b"%d" % value)
        w.run(0.06)
    stored = StoredState(w.recipe.sessions_max, Records(w.disks[1]))
    assert stored.state.items == {b"a": b"4"}
    assert (stored.state.index, stored.snapshot_index) == (stored.safe, 0)


def test_snapshots_are_due_by_the_last_one_on_disk_and_by_the_number_of_items():
    w = StoreWorld(snapshot_after=4)
    for value in range(7):  # With the session that is eight: the second snapshot.
        w.ask(3, "set", b"%d" % value, b"x")
        w.run(0.05)
    assert StoredState(10, Records(w.disks[1])).snapshot_index == 8
    for value in range(7, 40):
        w.ask(3, "set", b"%d" % value, b"x")
        w.run(0.05)
    w.crash(1)
    w.start(1)
    before = StoredState(10, Records(w.disks[1])).snapshot_index
    w.run(0.5)
    for value in range(2):  # A quarter of 40 items are ten updates, nine of which were made.
        w.ask(3, "set", b"%d" % value, b"y")
        w.run(0.05)
    assert StoredState(10, Records(w.disks[1])).snapshot_index == before
    for value in range(8):
        w.ask(3, "set", b"%d" % value, b"y")
        w.run(0.05)
    assert StoredState(10, Records(w.disks[1])).snapshot_index > before


def test_a_query_waits_until_its_server_has_what_the_client_has_seen():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.nodes[3].server = 0
    w.lost = lambda source, to, datagram: to == 1 and source < 3
    w.ask(3, "set", b"a", b"2")
    w.run(0.01)
    assert w.answers[3][1:] == [(DONE, True)]
    assert w.items(1) == {b"a": b"1"}
    w.nodes[3].server = 1
    w.ask(3, "get", b"a")
    w.run(0.01)
    assert w.answers[3][2:] == []
    w.part()
    w.run(0.3)
    assert w.answers[3][2:] == [(DONE, b"2")]


def test_what_a_client_has_seen_is_safe_where_it_comes():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.nodes[3].server = 0
    w.lost = lambda source, to, datagram: to == 1 and isinstance(datagram, StoreProgress)
    w.slow = {1}
    w.ask(3, "set", b"a", b"2")
    w.run(0.01)
    assert w.items(1) == {b"a": b"1"}  # It has the update, and does not know that it is safe.
    w.nodes[3].server = 1
    w.ask(3, "get", b"a")
    w.run(0.01)
    assert w.answers[3][2:] == [(DONE, b"2")]


def test_in_turn_a_minority_answers_by_what_it_has_executed_whatever_its_level():
    w = StoreWorld(reads="rotate")
    w.ask(3, "set", b"a", b"1")
    w.run(0.5)
    w.part((0, 1), (2,))
    w.run(1.0)
    w.ask(3, "get", b"a")  # The client learns of the level of a view that server 2 was not in.
    w.run(0.5)
    w.crash(0)
    w.crash(1)
    w.ask(3, "get", b"a")
    w.run(3.0)
    assert w.nodes[3].level > w.nodes[2].replica.level
    assert w.answers[3] == [(DONE, True), (DONE, b"1"), (DONE, b"1")]


def test_in_turn_a_minority_answers_behind_updates_that_are_not_safe():
    w = StoreWorld(reads="rotate", clients=2)
    w.ask(3, "set", b"a", b"1")
    w.run(0.5)
    w.lost = lambda source, to, datagram: to == 1 and isinstance(datagram, StoreProgress)
    w.slow = {1}
    w.ask(3, "set", b"a", b"2")
    w.run(0.01)
    w.crash(0)
    w.crash(2)
    w.slow.clear()
    w.sync(1)
    w.ask(4, "get", b"a")  # It has seen nothing.
    w.run(3.0)
    replica = w.nodes[1].replica
    assert (replica.safe, replica.log.length) == (2, 3)
    assert w.answers[4] == [(DONE, b"1")]


def test_a_watch_is_answered_when_the_value_changes():
    w = StoreWorld(clients=2)
    w.ask(3, "watch", b"a", None)
    w.run(0.3)
    assert w.answers[3] == []
    w.ask(4, "set", b"a", b"1")
    w.run(0.3)
    assert w.answers[3] == [(DONE, b"1")]


@pytest.mark.parametrize("reads", ["local", "rotate"])
def test_a_query_that_nobody_waits_for_holds_up_no_later_request(reads):
    w = StoreWorld(reads=reads)
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.ask(3, "watch", b"a", b"1")
    w.ask(3, "get", b"a")
    w.ask(3, "set", b"b", b"2")
    w.run(0.3)
    assert w.answers[3][1:] == []
    w.enter(3, "on_command", Withdraw(2))
    w.run(0.01)  # The server need not be asked again.
    assert w.answers[3][1:] == [(WITHDRAWN, 2), (DONE, b"1"), (DONE, True)]


def test_a_server_is_told_of_the_query_that_is_not_awaited():
    w = StoreWorld()
    w.nodes[3].server = 0
    w.ask(3, "watch", b"a", None)
    assert [len(line.pending) for line in w.nodes[0].desk.lines] == [1]
    w.enter(3, "on_command", Withdraw(1))
    assert [len(line.pending) for line in w.nodes[0].desk.lines] == [0]
    assert not w.nodes[3].status(w.now).is_blocked


def test_an_update_is_withdrawn_if_no_server_was_sent_it():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.ask(3, "watch", b"a", b"1")
    w.ask(3, "set", b"a", b"2")  # Updates wait for the queries before them.
    w.ask(3, "incr", b"n", 5)
    w.run(0.1)
    w.enter(3, "on_command", Withdraw(3))
    assert w.answers[3][1:] == [(WITHDRAWN, 3)]
    w.enter(3, "on_command", Withdraw(2))
    w.run(0.3)
    assert w.answers[3][2:] == [(WITHDRAWN, 2), (DONE, 5)]
    assert w.items(0) == {b"a": b"1", b"n": b"5"}
    w.lost = lambda source, to, datagram: to == 3
    w.ask(3, "incr", b"n", 1)
    w.enter(3, "on_command", Withdraw(5))  # A server may have it.
    w.part()
    w.run(0.3)
    assert w.answers[3][4:] == [(DONE, 6)]


def test_an_answer_that_comes_twice_is_kept_by_nobody():
    w = StoreWorld()
    w.nodes[3].server = 0
    w.ask(3, "get", b"a")
    replies = [each for _, _, each in w.sent if isinstance(each, StoreReply)]
    assert w.answers[3] == [(DONE, None)]
    w.enter(3, "on_datagrams", 0, replies)
    w.ask(3, "watch", b"a", None)
    w.enter(3, "on_datagrams", 0, replies)
    assert not w.nodes[3].early


def test_requests_of_several_clients_in_one_datagram_are_answered_in_one():
    w = StoreWorld()
    asked = [StoreRequest(client, 0, 0, 0, 1, 1, (b"",)) for client in (7, 8, 9)]
    w.enter(0, "on_datagrams", 3, [StoreBundle(tuple(asked))])
    w.run(0.5)
    (reply,) = [each for _, to, each in w.sent if to == 3 and isinstance(each, StoreBundle)]
    assert [(part.client, part.answers[0].status) for part in reply.parts] == [
        (client, DONE) for client in (7, 8, 9)
    ]


def test_a_bundle_has_as_much_as_fits_and_keeps_the_order():
    asked = [StoreRequest(n, 0, 0, 0, 1, 1, (b"x" * size,)) for n, size in enumerate((9, 9, 999))]
    assert list(bundled(asked, 60_000)) == [StoreBundle(tuple(asked))]
    assert list(bundled(asked, 1400)) == [StoreBundle(tuple(asked))]
    assert list(bundled(asked, 400)) == [StoreBundle(tuple(asked[:2])), asked[2]]
    assert list(bundled(asked, 1)) == asked
    many = asked[:1] * (BUNDLE_MAX + 1)
    assert list(bundled(many, 1 << 20)) == [StoreBundle(tuple(many[1:])), asked[0]]


@pytest.mark.parametrize("sizes", [(0,), (100,), (0, 1, 300)])
def test_a_bundle_is_no_larger_than_it_may_be(sizes):
    answers = tuple(StoreAnswer(2**62, FORGOTTEN, b"x" * size, 2**62) for size in sizes)
    reply = StoreReply(2**62, 2**62, answers)
    bodies = tuple(b"x" * size for size in sizes)
    request = StoreRequest(*[2**62] * 6, bodies)
    for bundle in bundled([request, reply] * 20, 1400):
        assert len(STORE_CODEC.encode(bundle)) <= 1400


def test_a_server_keeps_a_bounded_number_of_requests_of_one_client():
    lines, body = ClientLines(10, 1.0, 1400), encode_request(("watch", b"a", None))
    for number in range(1, 5 * REQUESTS_MAX):
        lines.on_request(9, StoreRequest(1, 0, 0, 0, 1, number, (body,)), 0.0)
    assert len(lines.get(1).pending) == REQUESTS_MAX
    lines.on_request(9, StoreRequest(1, 0, 0, 0, 3, REQUESTS_MAX + 1, (body,) * 9), 0.0)
    assert lines.get(1).pending[-1].number == REQUESTS_MAX + 2


def test_what_is_withdrawn_makes_room():
    w = StoreWorld(pipeline=1)
    w.ask(3, "watch", b"a", None)
    client, out = w.nodes[3], Effects(recording=False)
    assert client.submit([Update(encode_request(("get", b"a")))], w.now, out) == 0
    client.on_command(Withdraw(1), w.now, out)
    assert out.outputs == [Withdrawn(1), ROOM]


def test_clients_that_left_while_they_waited_give_way_to_others():
    w = StoreWorld(clients=4, sessions_max=2, retry_max_s=0.1)
    for pid in (3, 4):
        w.nodes[pid].server = 0
        w.ask(pid, "watch", b"a", None)
        del w.nodes[pid]
    w.nodes[5].server = w.nodes[6].server = 0
    w.lost = lambda source, to, datagram: source > 3 and to in (1, 2)  # All ask server 0.
    w.ask(5, "get", b"a")
    w.run(0.2)
    assert w.answers[5] == []  # The others may still ask again.
    w.run(1.0)
    assert w.answers[5] == [(DONE, None)]
    w.ask(6, "get", b"a")
    w.run(0.5)
    assert w.answers[6] == [(DONE, None)]


def test_a_server_says_how_it_is_doing():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.ask(3, "get", b"a")
    w.run(0.3)
    status = w.nodes[0].status(w.now)
    assert status.role == PRIMARY
    assert status.version == 2  # The first update opened the session.
    assert sum(w.nodes[pid].status(w.now).queries for pid in range(3)) == 1
    assert len(status.view.members) == 3
    w.part((0,), (1, 2))
    w.run(1.0)
    assert w.nodes[0].status(w.now).role == MINORITY_ROLE
    w.part()
    w.run(1.0)
    w.crash(2)
    w.run(1.0)
    w.ask(3, "set", b"a", b"2")
    w.ask(3, "set", b"a", b"3")
    w.run(1.0)
    assert w.nodes[0].status(w.now).slowest == 2


def test_a_server_takes_no_updates_of_its_own():
    w = StoreWorld()
    with pytest.raises(LocalProtocolError, match="only what clients ask for"):
        w.nodes[0].submit([Update(b"x")], w.now, Effects(recording=False))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"founders": ()}, "founders"),
        ({"founders": (1, 1)}, "founders"),
        ({"quorums": ((0, 1), (2,))}, "have no server in common"),
        ({"quorums": ((0, 7),)}, "unknown server '7'"),
        ({"reads": "fast"}, "reads"),
        ({"confirm": "some"}, "confirm"),
        ({"pipeline": 5000}, "pipeline"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        StoreRecipe(**({"founders": (0, 1, 2)} | settings))


def test_answers_to_one_client_are_cut_into_datagrams_that_its_network_takes():
    w = StoreWorld(pipeline=64)
    for number in range(20):
        w.ask(3, "set", b"%d" % number, b"v" * 20_000)
        w.run(0.05)
    w.sent.clear()
    w.enter(3, "submit", [Update(encode_request(("get", b"%d" % number))) for number in range(20)])
    w.run(0.3)
    assert w.answers[3][20:] == [(DONE, b"v" * 20_000)] * 20
    replies = [datagram for _, _, datagram in w.sent if isinstance(datagram, StoreReply)]
    assert [len(reply.answers) for reply in replies] == [2] * 10


@pytest.mark.parametrize("bound", [{"tail_max": 4}, {"tail_bytes": 40_000}])
@pytest.mark.parametrize("durable", [True, False])
def test_what_is_kept_for_a_founder_that_is_away_is_bounded(bound, durable):
    w = StoreWorld(truncate_after=1, durable=durable, **bound)
    w.ask(3, "set", b"first", b"x")
    w.run(0.2)
    w.part((0, 1), (2,))
    w.run(0.5)
    for value in range(10):
        w.ask(3, "set", b"%d" % value, b"v" * 9000)
        w.run(0.05)
    log = w.nodes[0].replica.log
    assert 4 <= log.length - log.base <= 5
    assert log.bytes < 60_000
    assert w.nodes[2].replica.log.length < log.base
    w.lost = lambda source, to, datagram: False
    w.run(1.0)
    assert w.items(2) == w.items(0)
    assert len(w.items(2)) == 11
    w.ask(3, "set", b"last", b"x")
    w.run(0.2)
    assert w.items(2) == w.items(0)
    assert w.nodes[2].replica.log.base > 0


def test_large_updates_are_bounded_by_their_bytes_however_few_they_are():
    w = StoreWorld(tail_bytes=100_000)
    w.part((0, 1), (2,))
    w.run(0.5)
    for value in range(20):
        w.ask(3, "set", b"%d" % value, b"v" * 20_000)
        w.run(0.05)
    log = w.nodes[0].replica.log
    assert 60_000 < log.bytes < 130_000
    w.lost = lambda source, to, datagram: False
    w.run(1.0)
    assert w.items(2) == w.items(0)
    assert len(w.items(2)) == 20


def test_updates_that_are_dropped_after_the_exchange_are_handed_over_as_a_state():
    w = StoreWorld(truncate_after=1, tail_max=12)
    w.part((0, 1), (2,))
    w.run(0.5)
    for value in range(10):
        w.ask(3, "set", b"%d" % value, b"x")
        w.run(0.05)
    donor = w.nodes[0].replica
    assert donor.log.base == 0
    w.lost = lambda source, to, datagram: type(datagram) is Parcel  # It cannot ask yet.
    w.run(0.5)
    assert donor.view.members == w.nodes[2].replica.view.members
    assert not w.nodes[2].replica.is_in_place
    donor.log.drop(donor.executed)
    w.lost = lambda source, to, datagram: False
    w.run(2.0)
    assert w.items(2) == w.items(0)
    assert len(w.items(2)) == 10
