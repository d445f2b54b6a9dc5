"""Every fault is drawn for every family, and can happen."""

from typing import get_args

import pytest

from semcast.families import find, wire_tags
from semcast.faults import (
    ClockJump,
    Crash,
    Disconnection,
    FailpointCrash,
    Isolation,
    LateJoin,
    LeaveAt,
    OneWayCut,
    Partition,
    Pause,
    SlowDisk,
)
from semcast.sim.swarm import draw
from semcast.terms.events import KINDS

ALL = {
    Partition,
    OneWayCut,
    Pause,
    ClockJump,
    Crash,
    FailpointCrash,
    Isolation,
    Disconnection,
    LateJoin,
}
PROTOCOLS = ("s-rm", "rpbcast", "s-vsm", "vs", "primary-backup", "replicated-data")
WITH_DISKS = ("rpbcast", "replicated-data")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_fault_is_drawn(protocol: str) -> None:
    cases = [draw(protocol, seed) for seed in range(300)]
    faults = {type(fault) for case in cases for fault in case.faults}
    assert faults >= ALL
    assert (LeaveAt in faults) is (protocol != "s-rm")  # Members of a fixed group stay.
    assert (SlowDisk in faults) is (protocol in WITH_DISKS)
    assert {case.through for case in cases} == {"objects", "bytes", "fingerprint"}
    assert {case.idle_s for case in cases} == {None, 0.0, 0.0005}
    assert any(case.busy_s for case in cases)
    assert any(case.service_s for case in cases)
    assert {case.is_watched for case in cases} == {False, True}
    assert True in {case.has_last_words for case in cases}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_drawn_failpoint_can_trip(protocol: str) -> None:
    """It names an event, or a datagram by its class: a renamed class must not disable it."""
    datagrams = {kind.__name__.lower() for kind in wire_tags(find(protocol).codec).values()}
    faults = [fault for seed in range(300) for fault in draw(protocol, seed).faults]
    points = {
        fault.point.kind
        for fault in faults
        if isinstance(fault, get_args(FailpointCrash | Isolation))
    }
    assert points & datagrams - KINDS
    assert points <= datagrams | KINDS
