"""The channels between servers: numbered, acknowledged, repeated, between two lives."""

from random import Random

import pytest

from semcast.service.point_to_point import WINDOW, PointToPoint
from semcast.specs.store import ReliableChannels
from semcast.specs.violations import ViolationLog
from semcast.terms.effects import Effects
from semcast.terms.ids import NEVER, Incarnation
from semcast.terms.store import Parcel, ParcelReceipt

A, B = Incarnation(0, 1), Incarnation(1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_everything_comes_once_and_in_order_over_a_bad_network(seed):
    rng = Random(seed)
    ends = {life.pid: PointToPoint(life, 0.05) for life in (A, B)}
    ledger = ViolationLog()
    monitor = ReliableChannels(ledger)
    got, transit, now = [], [], 0.0
    bodies = [b"%d" % number for number in range(3 * WINDOW)]

    def watch(out):
        for event in out.events:
            monitor.handlers()[event.kind](event)

    out = Effects(recording=True)
    for body in bodies:
        ends[0].send(B, body, out)
    watch(out)
    while len(got) < len(bodies):
        now += 0.01
        for pid, end in ends.items():
            sends = []
            end.poll(now, sends)
            transit += [(pid, to[0], datagram) for to, datagram in sends if rng.random() > 0.3]
        rng.shuffle(transit)
        for source, to, datagram in [transit.pop() for _ in range(len(transit))]:
            if rng.random() < 0.2:
                transit.append((source, to, datagram))
            out = Effects(recording=True)
            if isinstance(datagram, Parcel):
                body = ends[to].on_parcel(source, datagram, out)
                got += [] if body is None else [body]
            else:
                ends[to].on_receipt(source, datagram)
            watch(out)
        assert now < 60
    assert got == bodies
    monitor.on_quiet([A, B])
    assert not ledger.stored


def test_a_channel_is_between_two_lives():
    end, out = PointToPoint(B, 0.05), Effects(recording=False)
    assert end.on_parcel(0, Parcel(1, 2, 1, b"later"), out) is None  # for another life
    assert end.on_parcel(0, Parcel(1, 1, 1, b"one"), out) == b"one"
    assert end.on_parcel(0, Parcel(2, 1, 1, b"new"), out) == b"new"  # The sender restarted.
    assert end.on_parcel(0, Parcel(1, 1, 2, b"two"), out) is None


def test_parcels_for_a_life_that_is_over_are_given_up():
    end, out = PointToPoint(A, 0.05), Effects(recording=False)
    end.send(B, b"x", out)
    assert not end.is_empty
    end.meet([A, Incarnation(1, 2)])
    assert end.is_empty


def sent_between(end, start, stop):
    """How many parcels leave, polled every 10 ms."""
    count = 0
    for tick in range(round(start * 100), round(stop * 100)):
        sends = []
        end.poll(tick / 100, sends)
        count += len(sends)
    return count


def test_nothing_is_sent_to_a_server_that_left_the_view_until_it_is_back():
    end, out = PointToPoint(A, 0.1), Effects(recording=False)
    end.meet([A, B])
    for number in range(WINDOW):
        end.send(B, b"%d" % number, out)
    assert sent_between(end, 0, 0.1) == WINDOW
    end.meet([A, Incarnation(2, 1)])
    assert sent_between(end, 0.1, 60) == 0
    assert end.deadline == NEVER
    assert not end.is_empty
    end.meet([A, B])
    assert sent_between(end, 60, 60.1) == WINDOW
    end.on_receipt(1, ParcelReceipt(1, 1, WINDOW))
    assert end.is_empty


def test_a_server_that_does_not_answer_is_asked_ever_more_slowly():
    end, out = PointToPoint(A, 0.1), Effects(recording=False)
    end.meet([A, B])
    end.send(B, b"x", out)
    assert sent_between(end, 0, 10) < 12
    assert sent_between(end, 10, 30) >= 10
    end.send(B, b"y", out)
    end.on_receipt(1, ParcelReceipt(1, 1, 1))
    assert sent_between(end, 30, 31) >= 3
