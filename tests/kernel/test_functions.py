"""What each function of the kernel returns, in both builds."""

from collections import deque

import msgspec
import pytest

from semcast.kernel import HEADER_BYTES
from semcast.runtime.application.mailbox import Message as Letter
from semcast.terms.items import item_tag
from semcast.terms.messages import DataMessage, Update

RUN = [DataMessage(1, seq, item=seq % 2, payload=bytes(seq), name="a") for seq in (4, 5, 6)]
BESIDE_PAYLOAD = HEADER_BYTES + 1


def but(place: int, **fields: object) -> list[DataMessage]:
    """The run with another message in one place."""
    changed = list(RUN)
    changed[place] = msgspec.structs.replace(RUN[place], **fields)
    return changed


def test_fields_come_in_the_order_of_the_classes(build):
    message = DataMessage(1, 2, 3, b"\x04", True, ((5, 6),), b"7", "8")
    update = Update(b"13", "14", True, (15,))
    told = build.fields(message, update)
    assert told == tuple(
        field for each in (message, update) for field in msgspec.structs.astuple(each)
    )


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (DataMessage(0, 1), 0),
        (DataMessage(0, 1, payload=bytes(7)), 7),
        (DataMessage(0, 1, name="abc"), 3),
        (DataMessage(0, 1, name="é"), 2),
        (DataMessage(0, 1, covers=b"\x01\x02"), 2),
        (DataMessage(0, 1, covers=(1, 2)), 6),
        (DataMessage(0, 1, after=((0, 1), (1, 1))), 20),
    ],
)
def test_size_of_a_message(build, message, size):
    assert build.size_of(message) == HEADER_BYTES + size


def test_sizes_of_a_run(build):
    assert build.sizes_of(RUN) == 15 + 3 * BESIDE_PAYLOAD
    assert build.sizes_of(()) == 0
    assert build.payload_bytes(RUN) == build.payload_bytes(tuple(RUN)) == 15
    assert build.payload_total([Letter("ada", None, bytes(3), 1)] * 2) == 6


def test_those_with_an_item(build):
    assert build.with_item(but(1, item=None)) == [RUN[0], RUN[2]]
    assert build.with_item(but(1, item=0)) == but(1, item=0)


def test_messages_are_built_of_updates(build):
    given = [Update(b"x", "é", True), Update(b"yz"), Update(b"", 7)]
    assert build.build_run(1, 4, given, build.ItemLabels(), 3, 3, 100) == (
        [
            DataMessage(1, 5, item_tag("é"), never_purge=True, payload=b"x", name="é"),
            DataMessage(1, 6, payload=b"yz"),
            DataMessage(1, 7, 7),
        ],
        3 * HEADER_BYTES + 5,
    )


@pytest.mark.parametrize(
    ("count_max", "payload_max", "built"),
    [(0, 99, 0), (2, 99, 2), (99, 99, 4), (99, 12, 4), (99, 11, 3), (99, 2, 0), (99, 0, 0)],
)
def test_no_more_is_built_than_there_is_room_for(build, count_max, payload_max, built):
    given = [Update(bytes(3), seq) for seq in range(4)]
    for make in (build.build_run, build.pack_run):
        run, size = make(1, 0, given, build.ItemLabels(), count_max, payload_max, 99)
        assert [message.item for message in run or ()] == list(range(built))
        assert size == build.sizes_of(run or ())


def test_a_datagram_is_filled_with_neighbours(build):
    held = {message.seq: message for message in RUN}
    all_bytes = build.sizes_of(RUN)
    assert build.take_fitting(held, 4, 6, all_bytes, True) == (RUN, all_bytes)
    assert build.take_fitting(held, 4, 6, all_bytes - 1, True) == (RUN[:2], build.sizes_of(RUN[:2]))
    assert build.take_fitting(held, 4, 5, 1000, True)[0] == RUN[:2]
    assert build.take_fitting(held, 3, 6, 1000, True) == ([], 0)
    assert build.take_fitting(held, 4, 6, 1, True)[0] == RUN[:1]
    assert build.take_fitting(held, 4, 6, 1, False) == ([], 0)


@pytest.mark.parametrize("last", [5, 1 << 70])
def test_a_range_is_taken_out(build, last):
    held = {message.seq: message for message in RUN}
    taken = [message for message in RUN if message.seq <= last]
    assert build.pop_range(held, 1, last) == taken
    assert list(held) == [message.seq for message in RUN if message.seq > last]


def test_settling_takes_from_the_front(build):
    unapplied = deque(RUN)
    build.drop_upto(unapplied, 5)
    assert list(unapplied) == RUN[2:]
    build.drop_upto(unapplied, 9)
    assert not unapplied
