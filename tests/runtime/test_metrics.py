"""The Prometheus endpoint: what a scrape finds, and what is refused."""

import sys
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from semcast.runtime.operations import metrics
from semcast.runtime.operations.slow_members import SlowMember
from semcast.runtime.operations.snapshot import ServerFigures, ViewSnapshot
from semcast.runtime.transport.addresses import format_address
from semcast.terms.errors import ConfigError

DEADLINE_S = 60


@pytest.fixture
def serve():
    """Endpoints on a free port, closed after the test."""
    opened = []

    def on(take):
        opened.append(metrics.serve("127.0.0.1:0", take))
        return opened[-1]

    yield on
    for server in opened:
        server.close()


def scrape(server):
    """Every sample by name, and the labels beyond group and member."""
    with urlopen(f"http://{format_address(server.address)}/metrics", timeout=DEADLINE_S) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.pop("group") == "quotes"
            assert sample.labels.pop("member") == "ada"
            found[sample.name, *sample.labels.items()] = sample.value
    return found


SLOW = SlowMember(
    name="bob",
    since_s=31.0,
    why="reads 200 of 1,000 messages/s, skips 80%",
    rate=200.0,
    offered_rate=1_000.0,
    share=0.8,
    oldest_waiting_s=0.7,
)


def test_a_server_says_what_it_is(serve, snapshot):
    figures = ServerFigures(role="primary", primary="ada", updates=12, queries=3, slowest="bob")
    found = scrape(serve(lambda: snapshot("ada", server=figures)))
    assert found["semcast_server_role", ("role", "primary")] == 1
    assert found["semcast_server_primary", ("peer", "ada")] == 1
    assert found["semcast_server_slowest", ("peer", "bob")] == 1
    assert found["semcast_server_updates",] == 12
    assert found["semcast_server_queries_total",] == 3


def test_a_scrape_finds_what_the_member_says(serve, snapshot, peer):
    said = snapshot(
        "ada",
        sent=1,
        delivered=2,
        skipped=3,
        purged=4,
        held=5,
        queued=6,
        datagrams_in=7,
        datagrams_out=8,
        bytes_in=9,
        bytes_out=10,
        discarded={"key": 11, "replay": 12},
        is_blocked=True,
        blocked_s_total=1.5,
        oldest_waiting_s=0.5,
        repairs_asked_total=17,
        repairs_answered_total=18,
        slow=[SLOW],
        view=ViewSnapshot(
            id=3,
            members=["ada", "bob"],
            status="minority",
            is_primary=False,
            needed=2,
            suspected=["bob"],
        ),
        peers=[
            peer("bob", 1, lag=13, skipped=14, heard_ago_s=0.25),
            peer("cy", 2, lag=15, skipped=16, is_forgotten=True),
        ],
    )
    assert scrape(serve(lambda: said)) == {
        ("semcast_messages_sent_total",): 1,
        ("semcast_messages_delivered_total",): 2,
        ("semcast_messages_skipped_total",): 3,
        ("semcast_purged_total",): 4,
        ("semcast_buffer_messages",): 5,
        ("semcast_buffer_limit",): 100,
        ("semcast_queue_messages",): 6,
        ("semcast_datagrams_total", ("direction", "in")): 7,
        ("semcast_datagrams_total", ("direction", "out")): 8,
        ("semcast_bytes_total", ("direction", "in")): 9,
        ("semcast_bytes_total", ("direction", "out")): 10,
        ("semcast_discarded_total", ("reason", "key")): 11,
        ("semcast_discarded_total", ("reason", "replay")): 12,
        ("semcast_peer_lag_messages", ("peer", "bob")): 13,
        ("semcast_peer_skipped_total", ("peer", "bob")): 14,
        ("semcast_peer_heard_seconds", ("peer", "bob")): 0.25,
        ("semcast_oldest_waiting_seconds",): 0.5,
        ("semcast_blocked",): 1,
        ("semcast_blocked_seconds_total",): 1.5,
        ("semcast_slow_seconds", ("peer", "bob")): 31,
        ("semcast_view",): 3,
        ("semcast_view_members",): 2,
        ("semcast_status", ("status", "minority")): 1,
        ("semcast_suspected", ("peer", "bob")): 1,
        ("semcast_repairs_asked_total",): 17,
        ("semcast_repairs_answered_total",): 18,
        ("semcast_info", ("version", "0")): 1,
    }


def test_each_scrape_takes_a_snapshot_and_none_is_taken_between(serve, snapshot):
    taken = []

    def take():
        taken.append(snapshot("ada", sent=len(taken)))
        return taken[-1]

    server = serve(take)
    assert not taken
    assert [scrape(server)["semcast_messages_sent_total",] for _ in range(3)] == [0, 1, 2]
    assert len(taken) == 3


def test_closing_ends_it(serve, snapshot):
    server = serve(snapshot)
    scrape(server)
    server.close()
    with pytest.raises(URLError, match="refused"):
        scrape(server)


def test_what_cannot_be_listened_on_is_refused(serve, snapshot):
    taken = format_address(serve(snapshot).address)
    with pytest.raises(ConfigError, match=f"metrics: cannot listen on {taken}: Address already"):
        metrics.serve(taken, snapshot)
    with pytest.raises(ConfigError, match=r"metrics: cannot listen on 192\.0\.2\.1:0: "):
        metrics.serve("192.0.2.1:0", snapshot)
    with pytest.raises(ConfigError, match="metrics: 'nowhere'"):
        metrics.serve("nowhere", snapshot)


def test_without_the_package_it_says_what_to_install(snapshot, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigError, match=r"pip install 'semcast\[metrics\]'"):
        metrics.serve("127.0.0.1:0", snapshot)
