"""RPB: how soon gossip converges (fig. 4-2), and protocols on a wide area (chapter 7)."""

import pytest


@pytest.mark.parametrize("reached", [1, 20, 51, 80, 99])
def test_pull_converges_faster_than_push(point, reached):
    """§4.2: "From the graph, we see pull converges faster than push"."""
    pull = point("convergence", mode="pull", reached=reached, runs=1)
    push = point("convergence", mode="push", reached=reached, runs=1)
    for how in ("rounds_recurrence", "rounds_exact"):
        assert pull[how] < push[how]


def test_the_recurrence_is_exact_but_for_few_holders(point):
    """Ours: it takes members as independent, which they are not while few have the message."""
    one, many = (point("convergence", reached=n, runs=1) for n in (1, 51))
    assert (one["rounds_recurrence"], one["rounds_exact"]) == (13, 23)
    assert many["rounds_recurrence"] == many["rounds_exact"] == 6


@pytest.mark.parametrize("mode", ["pull", "push"])
@pytest.mark.parametrize("reached", [1, 20])
def test_a_simulation_lies_on_the_chain(point, mode, reached):
    """Ours: at an error that can be sampled."""
    row = point("convergence", mode=mode, reached=reached, error=1e-2)
    assert abs(row["rounds_simulated"] - row["rounds_exact"]) <= 1
    assert row["probability_simulated"] == pytest.approx(row["probability_exact"], abs=0.01)


WIDE = {"seconds": 2.5, "warmup_s": 0.0}
LOSSY = {"loss": 0.08}
IDLE = {"rate": 180.0, "seconds": 4.0, "warmup_s": 3.0}  # The others have long been idle.
TO_THE_HUB = ("link_13", "link_6", "link_3", "link_0")  # from node 14, the logger


@pytest.fixture
def wide(point):
    """A short run of chapter 7, 18 senders of together 360 packets a second."""
    return lambda protocol, **given: point("pubsub", protocol=protocol, **{**WIDE, **given})


def test_gossip_spreads_the_load_that_a_logger_bears_alone(wide):
    """§7.2: "the logger in LBRM, node 14, has significantly more retransmissions than any
    receivers in rpbcast"."""
    logged, gossiped = wide("lbrm"), wide("rpbcast")
    assert logged["load_14"] == logged["load_max"] > 0.75 * logged["repairs"]
    assert gossiped["load_max"] < 0.25 * gossiped["repairs"]


def test_links_around_the_logger_are_spared(wide):
    """§7.2: "Notice the four peaks in the figure for LBRM. These four links are the bottleneck
    links from the logger to the hub"."""
    logged, gossiped = wide("lbrm", **LOSSY), wide("rpbcast", **LOSSY)
    for link in TO_THE_HUB:
        assert logged[link] > 1.3 * gossiped[link]


def test_a_logger_is_quick_until_it_is_overloaded(wide):
    """§7.3: "Before the cross-over, the logger in LBRM is not overloaded. [...] After the
    cross-over point, the logger at node 14 cannot keep up with retransmission requests"."""
    assert wide("lbrm")["latency_mean_ms"] < 1.05 * wide("rpbcast")["latency_mean_ms"]
    limited = {"repairs_per_s": 40.0, "linger_s": 10.0}
    logged, gossiped = wide("lbrm", **limited), wide("rpbcast", **limited)
    assert logged["latency_mean_ms"] > 3 * gossiped["latency_mean_ms"]
    assert gossiped["latency_mean_ms"] < 1.3 * wide("rpbcast")["latency_mean_ms"]


def test_pull_is_quicker_than_push_and_loses_nothing(wide):
    """§7.3: "rpbcast has lower latency than pbcast", which "does not deliver packets to all
    receivers"."""
    pushed, pulled = wide("pbcast", **LOSSY), wide("rpbcast", **LOSSY)
    assert pulled["latency_mean_ms"] < 0.8 * pushed["latency_mean_ms"]
    assert pushed["unreliable"] > 0 == pulled["unreliable"]


def test_the_overhead_of_digests_grows_with_the_senders(wide):
    """§7.4: "overhead for pbcast is approximately linear with the number of senders. On the
    other hand, LBRM and our rpbcast are insensitive to the number of senders"."""
    overhead = {
        (protocol, senders): wide(protocol, senders=senders, **IDLE)["overhead_bytes_per_s"]
        for protocol in ("pbcast", "rpbcast", "lbrm")
        for senders in (3, 18)
    }
    assert overhead["pbcast", 18] > 1.8 * overhead["pbcast", 3]
    assert overhead["rpbcast", 18] < 1.1 * overhead["rpbcast", 3]
    assert overhead["lbrm", 18] < 1.1 * overhead["lbrm", 3]
