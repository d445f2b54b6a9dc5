"""Any split comes back whole, in any order and company; nothing else does; the bounds hold."""

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.wire.fragments import PART_COST_BYTES, PART_HEADER_BYTES, PARTS_MAX, Reassembler, split


def roomy(body_bytes_max=65_536, sender_bytes_max=1 << 20, **bounds):
    return Reassembler(body_bytes_max, sender_bytes_max, **bounds)


def feed(reassembly, sender, parts, now=0.0):
    """The bodies that these parts complete."""
    return [body for part in parts if (body := reassembly.add(sender, part, now)) is not None]


def test_the_bytes_of_parts_are_fixed():
    assert [part.hex() for part in split(b"abcde", 2, 0x01020304)] == [
        "0403020100000300" + b"ab".hex(),
        "0403020101000300" + b"cd".hex(),
        "0403020102000300" + b"e".hex(),
    ]
    assert PART_HEADER_BYTES == 8


bodies = st.binary(min_size=1, max_size=300)
sizes = st.integers(1, 400)


@given(st.data(), bodies, sizes)
def test_a_body_comes_back_whatever_the_order(data, body, size):
    parts = data.draw(st.permutations(split(body, size, 1)))
    assert feed(roomy(), 1, parts) == [body]


@given(st.data(), st.dictionaries(st.tuples(st.integers(1, 3), st.integers(0, 3)), bodies), sizes)
def test_bodies_of_many_senders_mix_and_repeat(data, sent, size):
    parts = [
        (sender, part)
        for (sender, number), body in sent.items()
        for part in split(body, size, number)
    ]
    again = data.draw(st.lists(st.sampled_from(parts), max_size=20)) if parts else []
    reassembly = roomy(sender_bytes_max=10**6)
    came = [
        (sender, body)
        for sender, part in data.draw(st.permutations(parts + again))
        if (body := reassembly.add(sender, part, 0.0)) is not None
    ]
    assert sorted(came) == sorted((sender, body) for (sender, _), body in sent.items())
    assert reassembly.held_bytes == 0
    assert reassembly.dropped == 0


def test_too_many_parts_are_refused_at_the_call():
    assert len(split(bytes(PARTS_MAX), 1, 0)) == PARTS_MAX
    with pytest.raises(LocalProtocolError, match="65536 parts of 1 bytes, maximum is 65535"):
        split(bytes(PARTS_MAX + 1), 1, 0)


def part(number, index, count, body=b"x"):
    return (
        b"".join(
            (number.to_bytes(4, "little"), index.to_bytes(2, "little"), count.to_bytes(2, "little"))
        )
        + body
    )


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([b""], "part of 0 bytes"),
        ([part(1, 0, 1, b"")], "part of 8 bytes, which contains no data"),
        ([part(1, 0, 0)], "out of range: 0 of 0"),
        ([part(1, 2, 2)], "out of range: 2 of 2"),
        ([part(1, 0, 2), part(1, 1, 3)], "part 1 of 3, but earlier parts said 2"),
        ([part(1, 0, 11)], "out of range: 0 of 11"),
        ([part(1, 0, 1, bytes(11))], "body of more than 10 bytes"),
        ([part(1, 0, 3, bytes(5)), part(1, 1, 3, bytes(6))], "body of more than 10 bytes"),
    ],
)
def test_nonsense_is_refused(parts, told):
    reassembly = roomy(body_bytes_max=10)
    *fine, bad = parts
    assert feed(reassembly, 1, fine) == []
    with pytest.raises(RemoteProtocolError, match=told):
        reassembly.add(1, bad, 0.0)


def test_the_largest_body_comes_back():
    body = Random(1).randbytes(10_000)
    assert feed(roomy(body_bytes_max=10_000), 1, split(body, 1300, 1)) == [body]


def test_a_body_too_large_leaves_nothing_behind():
    reassembly = roomy(body_bytes_max=10)
    reassembly.add(1, part(1, 0, 3, bytes(10)), 0.0)
    with pytest.raises(RemoteProtocolError):
        reassembly.add(1, part(1, 1, 3), 0.0)
    assert (reassembly.held_bytes, reassembly.dropped) == (0, 1)


def test_the_oldest_gives_way_when_there_are_too_many():
    reassembly = roomy(bodies_max=2)
    for number in (1, 2, 3):
        assert reassembly.add(1, part(number, 0, 2), 0.0) is None
    assert reassembly.dropped == 1
    assert feed(reassembly, 1, [part(2, 1, 2), part(3, 1, 2)]) == [b"xx", b"xx"]
    assert feed(reassembly, 1, [part(1, 1, 2)]) == []


def test_the_oldest_gives_way_when_they_are_too_large():
    room = 2 * (1000 + PART_COST_BYTES)
    reassembly = roomy(sender_bytes_max=room)
    for number in (1, 2, 3):
        reassembly.add(1, part(number, 0, 2, bytes(1000)), 0.0)
        assert reassembly.held_bytes <= room
    assert reassembly.dropped == 1
    assert feed(reassembly, 1, [part(3, 1, 2), part(2, 1, 2)]) == [bytes(1000) + b"x"] * 2


def test_parts_of_one_byte_do_not_take_more_than_the_room():
    reassembly = roomy(sender_bytes_max=10 * PART_COST_BYTES)
    for index in range(1000):
        reassembly.add(1, part(1, index, 1001), 0.0)
        assert reassembly.held_bytes <= 10 * PART_COST_BYTES
    assert reassembly.dropped > 0


def test_what_is_too_old_is_dropped():
    reassembly = roomy(age_max_s=2.0)
    reassembly.add(1, part(1, 0, 2), 10.0)
    reassembly.add(1, part(2, 0, 2), 11.0)
    assert reassembly.add(1, part(2, 1, 2), 12.5) == b"xx"
    assert reassembly.add(1, part(1, 1, 2), 12.5) is None
    assert reassembly.dropped == 1


def test_a_body_that_still_grows_is_not_old():
    reassembly = roomy(age_max_s=2.0, bodies_max=2)
    for number, index, now in ((1, 0, 0.0), (2, 0, 1.0), (1, 1, 2.0), (1, 2, 3.5)):
        assert reassembly.add(1, part(number, index, 4), now) is None
    assert reassembly.dropped == 1
    assert reassembly.add(1, part(1, 3, 4), 5.0) == b"xxxx"


def test_one_sender_takes_no_room_from_another():
    reassembly = roomy(bodies_max=2)
    reassembly.add(1, part(1, 0, 2), 0.0)
    for number in range(10):
        reassembly.add(2, part(number, 0, 2), 0.0)
    assert reassembly.add(1, part(1, 1, 2), 0.0) == b"xx"


def test_strangers_do_not_add_up():
    """However many senders there are, what they hold together is bounded, the latest heard stay."""
    bounded = Reassembler(10_000, 2_000, senders_max=100)
    for sender in range(1, 1001):
        bounded.add(sender, part(1, 0, 2, b"x" * 1_000), 0.0)
        assert bounded.held_bytes <= 16 * 2_000
    assert bounded.dropped > 900
    assert bounded.add(1000, part(1, 1, 2, b"y"), 0.0) == b"x" * 1_000 + b"y"
    few = Reassembler(10_000, 2_000, senders_max=2)
    for sender in (1, 2, 3):
        few.add(sender, part(1, 0, 2), 0.0)
    assert few.add(1, part(1, 1, 2), 0.0) is None
    assert few.add(3, part(1, 1, 2), 0.0) is not None


likely = st.builds(
    part, st.integers(0, 5), st.integers(0, 4), st.integers(0, 4), st.binary(max_size=30)
)


@given(st.lists(st.tuples(st.integers(1, 2), likely | st.binary(max_size=20), st.floats(0, 9))))
def test_whatever_comes_the_bounds_hold(came):
    reassembly = roomy(body_bytes_max=50, sender_bytes_max=500, bodies_max=3, age_max_s=1.0)
    now = 0.0
    for sender, data, pause in came:
        now += pause
        with suppress(RemoteProtocolError):
            body = reassembly.add(sender, data, now)
            assert body is None or 1 <= len(body) <= 50
        assert reassembly.held_bytes <= 2 * 500
