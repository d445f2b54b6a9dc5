"""Live groups on bad networks, with members that are killed or stopped: every promise holds."""

import os
from collections.abc import Mapping

import pytest

from semcast.faults import Link, OneWayCut, Partition, Uniform
from semcast.fleet.plan import Load, WorkerStatus
from semcast.fleet.processes import Fleet

MEMBERS = "abcde"
BAD = Link(latency=Uniform(0.0005, 0.005), loss=0.05, duplicate=0.05, reorder=0.05)
WAIT_S = 60.0
IS_LONG = bool(os.environ.get("SOAK"))
SENDING_S = 20.0 if IS_LONG else 2.0
BURSTS = (100, 500, 2000, 5000, 20_000) if IS_LONG else (2000,)
LIVE_ITEMS, BUFFER = 300, 600
MISSED = (10 if IS_LONG else 2) * BUFFER


def test_loss_duplicates_reordering_and_delay_are_mended(live, bad_network):
    network = bad_network(MEMBERS, BAD)
    load = Load(rate=300, seconds=SENDING_S)
    run = live(
        MEMBERS, {"a": load, "b": load}, {"e": 0.004}, network.own, network.begin, buffer=300
    )
    assert network.dropped["loss"] > 0
    assert network.duplicated > 0
    assert run.results["e"].skipped > 0


@pytest.mark.parametrize(
    "fault",
    [Partition(0.3, 1.5, ((0, 1), (2, 3, 4))), OneWayCut(0.3, 1.5, source=0, destination=4)],
    ids=["partition", "one-way cut"],
)
def test_a_cut_that_heals_is_made_up_for(live, bad_network, fault):
    network = bad_network(MEMBERS, Link(), [fault])
    load = Load(rate=300, seconds=2.0)
    live(MEMBERS, {"a": load, "e": load}, own=network.own, disturb=network.begin)
    assert network.dropped["cut"] > 0


@pytest.mark.parametrize("burst", BURSTS)
def test_survivors_of_a_killed_sender_agree(live, burst):
    """It dies while it sends as fast as it can, one member lags behind, and others purge."""

    def kill(fleet: Fleet) -> None:
        assert fleet.watch(lambda ticks: ticks["a"].sent >= burst, WAIT_S)
        fleet.kill("a")
        fleet.forget("a")

    loads = {"a": Load(rate=None, seconds=60.0), "b": Load(rate=200, seconds=2.0)}
    run = live(MEMBERS, loads, {"e": 0.004}, disturb=kill, buffer=300)
    assert run.results.keys() == set("bcde")
    assert run.results["e"].skipped > 0


def test_a_stopped_member_slows_nobody_and_comes_back(live):
    """What is sent meanwhile fits neither its socket nor the buffer; what is live of it does."""
    was_blocked = False

    def look(ticks: Mapping[str, WorkerStatus]) -> None:
        nonlocal was_blocked
        was_blocked |= ticks["a"].is_blocked

    def stop(fleet: Fleet) -> None:
        assert fleet.watch(lambda ticks: ticks["a"].sent >= BUFFER, WAIT_S, look)
        fleet.pause("e")
        sent = fleet.ticks["a"].sent + MISSED
        # Held up, it could send no more than the buffer holds.
        assert fleet.watch(lambda ticks: ticks["a"].sent >= sent, WAIT_S, look), fleet.ticks
        fleet.resume("e")
        assert fleet.watch(lambda ticks: ticks["e"].accounted >= sent, WAIT_S), fleet.ticks

    rate = 700
    load = Load(stream="overwrites", r=1, d=LIVE_ITEMS, rate=rate, seconds=2 * MISSED / rate + 2)
    run = live(
        MEMBERS,
        {"a": load},
        own=lambda name: {"socket_buffer": "16 KiB"} if name == "e" else {},
        disturb=stop,
        buffer=BUFFER,
    )
    assert not was_blocked
    assert run.results["e"].skipped > 0
