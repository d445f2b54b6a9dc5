"""What is packed is what msgspec would have written of the messages; and it is cut as they are."""

from enum import IntEnum, StrEnum

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semcast.kernel import HEADER_BYTES, NAME_MAX
from semcast.kernel.packing import LABELS_REMEMBERED
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import RANK_MAX
from semcast.terms.items import ITEM_MAX, ITEM_MIN, item_tag
from semcast.terms.messages import Data, DataMessage, Update
from semcast.wire import GROUP_CODEC, codec, encode

BUILDS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
PLENTY = 1 << 40
RANKS = [0, 127, 128, RANK_MAX]
SEQS = [1, 127, 128, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32]
LENGTHS = [0, 31, 255, 256, 65535, 65536]
NAMES = [letter * length for letter in "aé" for length in (1, 31, 32, 255, 256, 512)]
NAMES += ["a" * NAME_MAX, "\N{SNOWMAN}" * 10 + "a"]


@pytest.fixture(autouse=True)
def the_build_travels(build, monkeypatch):
    """Batches of the build under test are what the codec knows."""
    monkeypatch.setattr(codec.kernel, "Run", build.Run)
    monkeypatch.setattr(codec, "SCANS", True)
    monkeypatch.setattr(codec.kernel, "parse_run", build.parse_run)


def pack(build, rank, first, updates):
    room = (PLENTY, PLENTY, PLENTY)
    return build.pack_run(rank, first - 1, updates, build.ItemLabels(), *room)


def messages_of(rank, first, updates):
    """One by one."""
    made = []
    for seq, update in enumerate(updates, first):
        name = update.item if isinstance(update.item, str) else ""
        tag = item_tag(name) if name else update.item
        keep = update.never_purge
        made.append(DataMessage(rank, seq, tag, b"", keep, (), update.payload, name))
    return made


def check(build, rank, first, updates, safe=0):
    """Packed, they are the same messages to everybody, and the same bytes."""
    messages = messages_of(rank, first, updates)
    batch, size = pack(build, rank, first, updates)
    assert size == build.sizes_of(messages)
    assert (batch.sender, batch.first, len(batch)) == (rank, first, len(messages))
    assert batch.payload_bytes == sum(len(message.payload) for message in messages)
    assert batch.is_tagged == any(message.item is not None for message in messages)
    assert batch.messages() == messages
    data = encode(Data(batch, safe=safe))
    assert data == encode(Data(tuple(messages), safe=safe))
    again, told = build.parse_run(data)
    assert (again, told, again.is_tagged) == (batch, safe, batch.is_tagged)
    assert isinstance(GROUP_CODEC.decode(data).messages, build.Run)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("first", SEQS)
def test_ranks_and_numbers_of_any_size(build, rank, first):
    check(build, rank, first, [Update(b"x"), Update(b"", "a", True)])


@pytest.mark.parametrize("length", LENGTHS)
def test_payloads_of_any_size(build, length):
    check(build, 1, 1, [Update(bytes([7]) * length, "a"), Update(b"end")])


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name[0]}{len(name)}")
def test_names_of_any_size(build, name):
    check(build, 1, 1, [Update(b"x", name), Update(b"y", name, True), Update(b"z")])


@pytest.mark.parametrize("count", [1, 15, 16, 17, 300])
def test_any_number_of_messages(build, count):
    check(build, 1, 200, [Update(b"%d" % n, f"i{n % 7}") for n in range(count)], safe=70_000)


def test_more_messages_than_two_bytes_count(build):
    """A batch need not come from `pack`, which is slow in plain Python."""
    count = 65_536
    one, _ = build.parse_run(encode(Data((DataMessage(1, 1),))))
    body = one.to_msgpack()[1:] * count
    many = build.Run(body, 0, len(body), count, 1, 1, 0, False)
    assert encode(Data(many)) == encode(Data((DataMessage(1, 1),) * count))


numbers = st.integers(ITEM_MIN, ITEM_MAX)
updates = st.builds(
    Update,
    payload=st.binary(max_size=300) | st.sampled_from([bytes(n) for n in LENGTHS[:-2]]),
    item=st.none()
    | st.integers(ITEM_MIN, ITEM_MAX)
    | st.sampled_from(NAMES)
    | st.text(min_size=1, max_size=40),
    never_purge=st.booleans(),
)
many_updates = st.lists(updates, min_size=1, max_size=20)


@given(
    rank=st.sampled_from(RANKS) | st.integers(0, RANK_MAX),
    first=st.sampled_from(SEQS) | st.integers(1, 1 << 62),
    given=many_updates,
    safe=st.integers(0, 1 << 62),
)
@BUILDS
def test_packed_is_as_msgspec_writes_it(build, rank, first, given, safe):
    check(build, rank, first, given, safe)


@given(given=many_updates, cut=st.tuples(st.integers(0, 20), st.integers(0, 20)))
@BUILDS
def test_a_part_travels_by_itself(build, given, cut):
    batch, _ = pack(build, 1, 1, given)
    messages = messages_of(1, 1, given)
    start, stop = cut
    assert encode(Data(batch[start:stop])) == encode(Data(tuple(messages[start:stop])))


@given(
    given=st.lists(updates, max_size=8),
    count_max=st.integers(0, 9),
    payload_max=st.integers(0, 900),
    size_max=st.integers(0, 400),
)
@BUILDS
def test_as_many_are_packed_as_are_built(build, given, count_max, payload_max, size_max):
    room = (count_max, payload_max, size_max)
    batch, size = build.pack_run(1, 5, given, build.ItemLabels(), *room)
    built, same = build.build_run(1, 5, given, build.ItemLabels(), *room)
    assert (list(batch or ()), size) == (list(built or ()), same)
    assert (batch is None) == (built is None)
    assert batch is None or len(batch)


SPECIAL = {
    "bytearray": Update(bytearray(b"x")),
    "memoryview": Update(memoryview(b"x")),
    "text": Update("x"),
    "lists": Update(b"x", obsoletes=(1,)),
    "empty-item": Update(b"x", ""),
    "truth": Update(b"x", True),
    "large-number": Update(b"x", ITEM_MAX + 1),
    "small-number": Update(b"x", ITEM_MIN - 1),
    "surrogate": Update(b"x", "\ud800"),
    "long-item": Update(b"x", "n" * (NAME_MAX + 1)),
    "long-utf8-item": Update(b"x", "é" * NAME_MAX),
    "large": Update(bytes(2000)),
    "message": DataMessage(1, 1),
    "none": None,
}


@pytest.mark.parametrize("make", ["pack_run", "build_run"])
@pytest.mark.parametrize("special", SPECIAL.values(), ids=SPECIAL)
def test_a_run_stops_at_what_needs_a_closer_look(build, special, make):
    before = [Update(b"1", "a"), Update(b"2")]
    given, labels = [*before, special, Update(b"3")], build.ItemLabels()
    batch, size = getattr(build, make)(1, 0, given, labels, 99, PLENTY, 2000)
    assert batch == messages_of(1, 1, before)
    assert size == 2 * HEADER_BYTES + 3
    assert getattr(build, make)(1, 0, given[2:], labels, 99, PLENTY, 2000) == (None, 0)


@pytest.mark.parametrize("item", ["a", "é" * 9, 7, -1, ITEM_MAX, ITEM_MIN])
def test_an_item_is_hashed_and_written_once(build, item):
    labels = build.ItemLabels()
    first = labels.label(item)
    assert labels.label(item) is first
    assert first[0] == (item if isinstance(item, int) else item_tag(item))
    assert labels.label(None) == (None, b"\xc0", b"\xa0", 0)


def test_labels_of_long_ago_are_made_again(build):
    labels = build.ItemLabels()
    first = labels.label(0)
    for item in range(1, 2 * LABELS_REMEMBERED + 1):
        labels.label(item)
    assert len(labels.recent) + len(labels.older) <= 2 * LABELS_REMEMBERED
    assert labels.label(0) == first
    assert labels.label(0) is not first


class Symbol(StrEnum):
    ACME = "acme"


class Entity(IntEnum):
    DOOR = 7


@pytest.mark.parametrize(
    ("item", "tag", "name"),
    [
        (None, None, ""),
        ("acme", item_tag("acme"), "acme"),
        (Symbol.ACME, item_tag("acme"), "acme"),
        (7, 7, ""),
        (Entity.DOOR, 7, ""),
    ],
)
def test_what_an_item_is_called(build, item, tag, name):
    found = build.ItemLabels().identify(Update(b"x", item))
    assert found == (tag, name)
    assert type(found[1]) is str


@pytest.mark.parametrize(
    ("special", "problem"),
    [
        ("bytearray", "payload: must be bytes, not bytearray"),
        ("text", "payload: must be bytes, not str"),
        ("empty-item", "item: must be a non-empty string, a whole number or None, not ''"),
        ("truth", "item: must be a non-empty string, a whole number or None, not True"),
        ("large-number", "is not a signed 64-bit number"),
        ("surrogate", "cannot be encoded as UTF-8"),
        ("message", "only an Update can be sent, not DataMessage"),
        ("none", "only an Update can be sent, not NoneType"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(build, special, problem):
    with pytest.raises(LocalProtocolError, match=problem):
        build.ItemLabels().identify(SPECIAL[special])


@given(
    given=many_updates,
    rooms=st.lists(st.integers(0, 700) | st.integers(0, 60_000), min_size=1, max_size=9),
    is_empty=st.booleans(),
)
@BUILDS
def test_a_batch_is_cut_where_its_messages_would_be(build, given, rooms, is_empty):
    batch, _ = pack(build, 1, 7, given)
    messages = messages_of(1, 7, given)
    held = {message.seq: message for message in messages}
    cut, rest = [], batch
    for room in rooms:
        if not len(rest):
            break
        head, size = rest.take_prefix(room, is_empty)
        expected = build.take_fitting(held, rest.first, messages[-1].seq, room, is_empty)
        assert (list(head), size) == expected
        assert head.payload_bytes == build.payload_bytes(expected[0])
        if len(head):
            assert encode(Data(head)) == encode(Data(tuple(expected[0])))
        cut += head
        rest = rest.behind(head)
        assert rest.payload_bytes == build.payload_bytes(messages[len(cut) :])
    assert cut + list(rest) == messages


def test_what_fits_whole_is_itself(build):
    batch, size = pack(build, 1, 1, [Update(b"x"), Update(b"y", "a")])
    assert batch.take_prefix(size, True) == (batch, size)
    assert batch.take_prefix(size, True)[0] is batch
    assert len(batch.take_prefix(size - 1, True)[0]) == 1


def test_what_was_cut_is_one_again_when_joined(build):
    batch, _ = pack(build, 1, 1, [Update(b"%d" % n, "a") for n in range(9)])
    head, _ = batch.take_prefix(4 * HEADER_BYTES, True)
    whole = build.concat_runs([head, batch.behind(head)])
    assert isinstance(whole, build.Run)
    assert (whole, whole.to_msgpack()) == (batch, batch.to_msgpack())
