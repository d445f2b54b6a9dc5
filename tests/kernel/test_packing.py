"""What is packed is what msgspec would have written of the messages; and it is cut as they are."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semcast.kernel import HEADER_BYTES, NAME_MAX
from semcast.runtime.application.group import label_of
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import RANK_MAX
from semcast.terms.messages import Data, DataMessage, Submission, Update
from semcast.wire import GROUP_CODEC, codec, encode
from semcast.workloads.items import item_tag

BUILDS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
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


def submission_of(update):
    if type(update) is not Update or type(update.payload) is not bytes:
        raise LocalProtocolError("no bytes")
    tag = None if update.item is None else item_tag(update.item)
    return Submission(update.payload, tag, update.obsoletes, update.never_purge, update.item or "")


def parcel_of(build, updates):
    return build.UpdateBatch(list(updates), {}, label_of, submission_of)


def pack(build, rank, first, updates):
    return build.pack_run(rank, first - 1, parcel_of(build, updates), PLENTY, PLENTY, PLENTY)


def messages_of(rank, first, updates):
    """One by one."""
    made = []
    for seq, update in enumerate(updates, first):
        tag = None if update.item is None else item_tag(update.item)
        made.append(
            DataMessage(
                rank,
                seq,
                tag,
                never_purge=update.never_purge,
                payload=update.payload,
                name=update.item or "",
            )
        )
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


updates = st.builds(
    Update,
    payload=st.binary(max_size=300) | st.sampled_from([bytes(n) for n in LENGTHS[:-2]]),
    item=st.none() | st.sampled_from(NAMES) | st.text(min_size=1, max_size=40),
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
def test_as_many_are_packed_as_would_be_composed(build, given, count_max, payload_max, size_max):
    room = (count_max, payload_max, size_max)
    batch, size = build.pack_run(1, 5, parcel_of(build, given), *room)
    composed = build.build_messages(DataMessage, 1, 5, list(map(submission_of, given)), *room)
    assert (list(batch or ()), size) == composed
    assert batch is None or len(batch)


SPECIAL = {
    "bytearray": Update(bytearray(b"x")),
    "memoryview": Update(memoryview(b"x")),
    "text": Update("x"),
    "lists": Update(b"x", obsoletes=(1,)),
    "empty-item": Update(b"x", ""),
    "number": Update(b"x", 5),
    "surrogate": Update(b"x", "\ud800"),
    "long-item": Update(b"x", "n" * (NAME_MAX + 1)),
    "long-utf8-item": Update(b"x", "é" * NAME_MAX),
    "large": Update(bytes(2000)),
    "submission": Submission(b"x"),
    "none": None,
}


@pytest.mark.parametrize("special", SPECIAL.values(), ids=SPECIAL)
def test_packing_stops_at_what_needs_a_closer_look(build, special):
    before = [Update(b"1", "a"), Update(b"2")]
    parcel = parcel_of(build, [*before, special, Update(b"3")])
    batch, size = build.pack_run(1, 0, parcel, 99, PLENTY, 2000)
    assert batch == messages_of(1, 1, before)
    assert size == 2 * HEADER_BYTES + 3
    assert build.pack_run(1, 0, parcel[2:], 99, PLENTY, 2000) == (None, 0)


def test_labels_are_asked_for_once(build):
    asked = []
    labels = {"known": label_of("known")}

    def label(item):
        asked.append(item)
        labels[item] = label_of(item)
        return labels[item]

    given = [Update(b"", item) for item in ("known", "new", "known", "new")]
    batch, _ = build.pack_run(
        0, 0, build.UpdateBatch(given, labels, label, submission_of), 9, 9, 99
    )
    assert [message.name for message in batch] == ["known", "new", "known", "new"]
    assert asked == ["new"]


def test_a_parcel_is_a_sequence_of_submissions(build):
    given = [Update(b"1", "a", True), Update(b"2", obsoletes=(1,)), Update(b"3")]
    made = [submission_of(update) for update in given]
    parcel = parcel_of(build, given)
    assert isinstance(parcel, Sequence)
    assert len(parcel) == 3
    assert list(parcel) == made
    assert parcel[-1] == made[-1]
    assert isinstance(parcel[1:], build.UpdateBatch)
    assert list(parcel[1:]) == made[1:]
    assert not parcel[3:]
    with pytest.raises(IndexError):
        parcel[3]


def test_what_is_wrong_with_an_update_shows_when_it_is_asked_for(build):
    made = iter(parcel_of(build, [Update(b"1"), Update("text")]))
    assert next(made) == Submission(b"1")
    with pytest.raises(LocalProtocolError):
        next(made)


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
