"""SVS figure 3: a primary-backup service with one perturbed backup, 5 servers, the stock mix.

What the paper does not say, and what follows from each reading, is in docs/results.md.
"""

import pytest

approx = pytest.approx
NAME = "primary-backup"
SPAN = {"seconds": 16.0, "warmup_s": 4.0}
RELIABLE = {"protocol": "vsm", **SPAN}
# The buffer is the limit, not the number of clients; it holds 44 updates and their fins.
FULL = {"clients": 20, "buffer": 58, **SPAN}
STOPPED_LONG = {
    "protocol": "vsm",
    "clients": 30,
    "slice_ms": 6000.0,
    "timeout_ms": 5000.0,
    "perturbed_percent": 40.0,
    "seconds": 18.0,
    "warmup_s": 6.0,
}


def test_without_perturbation_the_primary_is_fully_used(point):
    """§6: "the time taken to execute a request is the same as required to transmit and apply the
    resulting updates. This means that in stationary state the primary is fully used"."""
    row = point(NAME, perturbed_percent=0.0, **RELIABLE)
    assert row["throughput_percent"] == approx(100, abs=2)
    assert row["request_rate"] == approx(1000 / (3 * 5), rel=0.05)


def test_a_reliable_service_loses_what_the_backup_is_perturbed(point):
    """§6: "if a maximum 10% performance degradation is accepted, a member has to be expelled
    approximately when 10% perturbed"."""
    assert point(NAME, perturbed_percent=10.0, **RELIABLE)["throughput_percent"] == approx(
        90, abs=3
    )
    slower = point(NAME, perturbed_percent=10.0, perturbation="slower", **RELIABLE)
    assert slower["throughput_percent"] == approx(91, abs=3)


def test_while_enough_can_be_purged_there_is_no_impact(point):
    """§6: "perturbing one replica has no impact in the overall system throughput while enough
    messages can be purged (i.e., up to 30% perturbation)"."""
    row = point(NAME, perturbed_percent=30.0, **FULL)
    assert row["throughput_percent"] > 97
    assert row["purged_ratio"] == approx(0.3, abs=0.03)


def test_a_semantic_service_loses_ten_percent_at_forty(point):
    """§6: "the system can now accommodate up to a 40% perturbation prior to expelling the slow
    replica"."""
    row = point(NAME, perturbed_percent=40.0, **FULL)
    assert row["throughput_percent"] == approx(91, abs=3)


def test_larger_buffers_tolerate_more(point):
    """§6: "Larger buffer sizer allow for more messages to be purged and thus larger delays to be
    tolerated"."""
    large = point(NAME, perturbed_percent=40.0, **FULL)
    small = point(NAME, perturbed_percent=40.0, **{**FULL, "buffer": 24})
    assert small["purged_ratio"] < large["purged_ratio"] - 0.1
    assert small["throughput_percent"] < large["throughput_percent"] - 10


def test_ten_clients_that_wait_leave_less_to_purge(point):
    """Ours: of ten requests on their way a quarter of the updates is obsolete, so the same limit of
    10 % is reached at 28 % of the time, or where updates take 40 % longer (docs/results.md)."""
    stopped = point(NAME, perturbed_percent=28.0, **SPAN)
    slower = point(NAME, perturbed_percent=40.0, perturbation="slower", **SPAN)
    assert stopped["throughput_percent"] == approx(90, abs=3)
    assert slower["throughput_percent"] == approx(90, abs=3)


def test_one_message_for_a_request_is_hardly_ever_obsolete(point):
    """§5.2: "the resulting message only becomes obsolete if a later update message refers to all
    the same data items, which is unlikely in practice"."""
    packed = point(NAME, perturbed_percent=28.0, relation="list", **SPAN)
    single = point(NAME, perturbed_percent=28.0, **SPAN)
    assert packed["purged_ratio"] < 0.06 < 0.15 < single["purged_ratio"]
    assert packed["throughput_percent"] == approx(73, abs=3), "a reliable service has 72"


def test_exclusion_keeps_the_rate_and_costs_a_replica(point):
    """§6: excluding the slow member "reduces the number of active replicas and thus, the service's
    resilience to process failures"."""
    steady = point(NAME, overflow="exclude", **{**STOPPED_LONG, "perturbed_percent": 0.0})
    assert (steady["view_changes"], steady["backups_min"]) == (0, 4), "who keeps up stays"
    blocked = point(NAME, **STOPPED_LONG)
    excluded = point(NAME, overflow="exclude", **STOPPED_LONG)
    assert excluded["throughput_percent"] > blocked["throughput_percent"] + 10
    assert (blocked["backups_mean"], blocked["backups_min"]) == (4, 4)
    assert excluded["backups_mean"] < 3.9
    assert excluded["backups_min"] == 3
