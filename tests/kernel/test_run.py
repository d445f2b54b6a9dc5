"""Runs are what msgspec would have decoded, or nothing; and sequences like any other."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semcast.kernel import NAME_MAX
from semcast.runtime.application.mailbox import Message as Letter
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import RANK_MAX, SEQ_MAX
from semcast.terms.items import ITEM_MAX
from semcast.terms.messages import CHECKS, Data, Datagram, DataMessage, PurgeNotice
from semcast.wire import Codec, encode

RUN = tuple(
    DataMessage(1, 250 + n, item, never_purge=n == 1, payload=bytes(n * 90), name=name)
    for n, (item, name) in enumerate(
        [(None, ""), (-1, "a"), (1 << 62, "é" * 20), (-(1 << 63), "n" * 300), (200, "")]
    )
)
BUILDS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
BY_MSGSPEC = Codec(Datagram, CHECKS)

messages = st.builds(
    DataMessage,
    sender=st.just(3),
    seq=st.just(1),
    item=st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    never_purge=st.booleans(),
    payload=st.binary(max_size=300),
    name=st.text(max_size=40),
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[DataMessage, ...]:
    first = draw(st.integers(1, 300) | st.integers(1, SEQ_MAX - 10))
    made = draw(st.lists(messages, min_size=1, max_size=6))
    return tuple(msgspec.structs.replace(m, seq=first + n) for n, m in enumerate(made))


def by_msgspec(data):
    """The datagram, or None if there is none in these bytes."""
    try:
        return BY_MSGSPEC.decode(data)
    except RemoteProtocolError:
        return None


def agrees(build, data):
    """Whether these bytes are a run, which is then what they are to msgspec."""
    found = build.parse_run(data)
    if found is None:
        return False
    run, safe = found
    assert by_msgspec(data) == Data(tuple(run), safe=safe)
    assert run.payload_bytes == sum(len(message.payload) for message in run)
    return True


def scanned(build, messages):
    """A run as it lies in a datagram."""
    return build.parse_run(encode(Data(tuple(messages), safe=7)))[0]


@given(run=runs(), safe=st.integers(0, SEQ_MAX))
@BUILDS
def test_what_is_usual_is_recognised(build, run, safe):
    data = encode(Data(run, safe=safe))
    found, told = build.parse_run(data)
    assert (found.sender, found.first, told) == (3, run[0].seq, safe)
    assert list(found) == list(run)
    assert found.is_packed
    assert agrees(build, data)


@given(
    run=runs(),
    edits=st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.none() | st.integers(0, 1 << 12),
    more=st.binary(max_size=4),
)
@settings(BUILDS, max_examples=500)
def test_what_is_almost_usual_is_what_it_is_to_msgspec(build, run, edits, cut, more):
    data = bytearray(encode(Data(run)))
    for place, value in edits:
        data[place % len(data)] = value
    agrees(build, bytes(data[:cut]) + more)


@given(st.binary(max_size=60))
@settings(BUILDS, max_examples=500)
def test_any_bytes(build, more):
    agrees(build, more)
    agrees(build, b"\x95\x01\x91\x98" + more)


def test_nothing_is_read_beyond_the_end(build):
    data = encode(Data(RUN, safe=70_000))
    assert agrees(build, data)
    assert not any(agrees(build, data[:end]) for end in range(len(data)))
    assert not agrees(build, data + b"\x00")


HEAD = bytes.fromhex("9501919801")  # a datagram with a message of member 1
TAIL = bytes.fromhex("a0900000")  # an empty name, and the rest of the datagram


@pytest.mark.parametrize(
    ("message", "is_batch"),
    [
        ("01c0c400c290c400", True),
        ("01c0c400c290c50000", True),  # more bytes than a length needs
        ("cf0000000000000001c0c400c290c600000000", True),
        ("d001c0c400c290c400", True),
        ("01d3ffffffffffffffffc400c290c400", True),
        ("00c0c400c290c400", False),
        ("ffc0c400c290c400", False),
        ("cf8000000000000000c0c400c290c400", False),
        ("d38000000000000000c0c400c290c400", False),
        ("01cf8000000000000000c400c290c400", False),  # an item of 64 bits
        ("c3c0c400c290c400", False),  # true for a number
        ("cb3ff0000000000000c0c400c290c400", False),  # 1.0
        ("9101c0c400c290c400", False),
        ("01c0c40100c290c400", False),  # covers
        ("01c090c290c400", False),
        ("01c0c4000190c400", False),  # 1 for true
        ("01c0c400c0c290c400", False),
        ("01c0c400c291920001c400", False),  # waits
        ("01c0c400c290a0", False),  # text for a payload
        ("01c0c400c290c4ff", False),
        ("01c0c400c290c6ffffffff", False),
        ("01c0c400c290c67fffffff", False),
    ],
)
def test_messages_byte_by_byte(build, message, is_batch):
    assert agrees(build, HEAD + bytes.fromhex(message) + TAIL) == is_batch


@pytest.mark.parametrize(
    ("name", "is_batch"),
    [
        ("a161", True),
        ("d90161", True),
        ("db0000000161", True),
        ("a2c3a9", True),
        ("a1ff", False),
        ("a1c3", False),
        ("a3eda080", False),  # half a surrogate
        ("a2c080", False),  # an overlong NUL
        ("bf61", False),
        ("dbffffffff61", False),
        ("c40161", False),
        ("c0", False),
        ("da0401" + "61" * 1025, False),
    ],
)
def test_names_byte_by_byte(build, name, is_batch):
    body = bytes.fromhex(f"01c0c400c290c400{name}900000")
    assert agrees(build, HEAD + body) == is_batch


@pytest.mark.parametrize(
    "datagram",
    [
        Data(()),
        Data(RUN, (PurgeNotice(1, 1, 1, 2),)),
        Data(RUN, nack_number=1),
        Data((RUN[0], RUN[2])),
        Data((RUN[0], RUN[0])),
        Data((RUN[0], DataMessage(2, 251))),
        Data((DataMessage(0, 2, covers=b"\x01"),)),
        Data((DataMessage(0, 2, covers=(1,)),)),
        Data((DataMessage(0, 2, after=((1, 1),)),)),
    ],
)
def test_the_unusual_is_left_to_msgspec(build, datagram):
    assert build.parse_run(encode(datagram)) is None


def test_ranks_and_numbers_have_bounds(build):
    assert agrees(build, encode(Data((DataMessage(RANK_MAX, SEQ_MAX),), safe=SEQ_MAX)))
    for data in (
        Data((DataMessage(RANK_MAX + 1, 1),)),
        Data((DataMessage(-1, 1),)),
        Data((DataMessage(0, 1),), safe=-1),
        Data((DataMessage(0, 1),), safe=SEQ_MAX + 1),
    ):
        assert not agrees(build, encode(data))


def test_an_array_that_claims_to_be_huge(build):
    assert not agrees(build, bytes.fromhex("9501ddffffffff"))
    assert not agrees(build, bytes.fromhex("9501dcffff"))


FORMS = {"packed": scanned, "made": lambda build, messages: build.run_of([*messages])}


@pytest.mark.parametrize("form", FORMS)
def test_a_run_is_a_sequence(build, form):
    batch = FORMS[form](build, RUN)
    assert isinstance(batch, Sequence)
    assert len(batch) == len(RUN)
    assert list(batch) == list(RUN)
    assert batch == RUN == batch
    assert batch == list(RUN)
    assert batch != RUN[1:]
    assert batch != 5
    assert repr(RUN[0]) in repr(batch)
    for place in range(-len(RUN), len(RUN)):
        assert batch[place] == RUN[place]
    for place in (len(RUN), -len(RUN) - 1):
        with pytest.raises(IndexError):
            batch[place]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start", [None, 0, 1, 3, 5, -2, 9])
@pytest.mark.parametrize("stop", [None, 0, 2, 5, -1, 9])
def test_a_slice_is_a_run(build, start, stop, form):
    part = FORMS[form](build, RUN)[start:stop]
    expected = RUN[start:stop]
    assert isinstance(part, build.Run)
    assert (len(part), list(part)) == (len(expected), list(expected))
    assert part.payload_bytes == sum(len(message.payload) for message in expected)
    if expected:
        assert (part.sender, part.first) == (1, expected[0].seq)
        assert part.to_msgpack() == encode(expected)
        assert part[1:] == expected[1:]


def test_steps_give_a_list(build):
    assert scanned(build, RUN)[::-2] == list(RUN[::-2])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("position", [0, 7])
def test_letters_speak_of_names_or_numbers(build, form, position):
    made = FORMS[form](build, RUN).app_messages(Letter, "ada", position)
    assert made == [
        Letter(
            "ada", m.name or m.item, m.payload, m.seq, 0, m.never_purge, position and position + n
        )
        for n, m in enumerate(RUN)
    ]


def but(place, **fields):
    """The run with another message in one place."""
    changed = [*RUN]
    changed[place] = msgspec.structs.replace(RUN[place], **fields)
    return changed


@pytest.mark.parametrize(
    ("messages", "counts"),
    [
        (RUN, [5]),
        ((), []),
        (but(2, seq=900), [2, 1, 2]),
        (but(1, sender=0), [1, 1, 3]),
        (but(1, after=((0, 1),)), [1, 1, 3]),
        (but(4, after=((0, 1),)), [4, 1]),
    ],
)
def test_messages_are_cut_into_runs(build, messages, counts):
    found = build.runs_of(messages)
    assert [run.count for run in found] == counts
    assert [m for run in found for m in run] == [*messages]
    assert all(bool(run.after) == any(m.after for m in run) for run in found)
    whole = scanned(build, RUN)
    assert build.runs_of(whole) == (whole,)


def test_what_is_plain(build):
    assert build.run_of([*RUN]).is_plain
    assert build.run_of(but(1, item=ITEM_MAX, name="a" * NAME_MAX)).is_plain
    for fields in (
        {"covers": b"\x01"},
        {"after": ((0, 1),)},
        {"item": ITEM_MAX + 1},
        {"name": "a" * (NAME_MAX + 1)},
    ):
        assert not build.run_of(but(1, **fields)).is_plain
    assert not build.run_of([DataMessage(1, 1)]).is_tagged


def test_runs_that_continue_each_other_are_one(build):
    parts = [scanned(build, RUN[a:b]) for a, b in ((0, 2), (2, 3), (3, 5))]
    whole = build.concat_runs(parts)
    assert isinstance(whole, build.Run)
    assert whole == RUN
    assert whole.payload_bytes == sum(len(message.payload) for message in RUN)
    assert whole[1:4] == RUN[1:4]
    assert build.concat_runs(parts[:1]) is parts[0]
    assert build.concat_runs([parts[0][1:], parts[1]]) == RUN[1:3]


def test_others_are_joined_one_by_one(build):
    first, second = (scanned(build, RUN[a:b]) for a, b in ((0, 2), (3, 5)))
    other = scanned(build, [DataMessage(2, 252)])
    assert build.concat_runs([first, second]) == RUN[:2] + RUN[3:]
    assert build.concat_runs([first, other]) == (*RUN[:2], DataMessage(2, 252))
    assert build.concat_runs([first, RUN[2:3]]) == RUN[:3]
    assert build.concat_runs([RUN[:2], second]) == RUN[:2] + RUN[3:]
