"""Round trips, golden bytes, hostile bytes: only `RemoteProtocolError` may escape."""

import tracemalloc
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast import kernel
from semcast.terms import pubsub, views
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.ids import RANK_MAX, SEQ_MAX, Incarnation
from semcast.terms.messages import (
    Data,
    Datagram,
    DataMessage,
    Excluded,
    FrontierVote,
    Nack,
    PurgeNotice,
    SafetyGossip,
    StabilityGossip,
    WindowEmpty,
)
from semcast.wire import DATAGRAM_BYTES_MAX, GROUP_CODEC, PUBSUB_CODEC, VIEW_CODEC, encode

VIEW = views.GroupView(4, (Incarnation(1, 1), Incarnation(2, 3)), (0, 9), 2**63 + 5)
PROPOSAL = views.ViewProposal(VIEW, (5, 6), 1, (Incarnation(2, 3),))
PART = pubsub.StreamSpans(3, ((1, 2), (5, 5)))
GOLDEN: list[tuple[Datagram, str]] = [
    (
        Data(
            (DataMessage(1, 2, 7, b"\x01", True, ((0, 5),), b"hi"), DataMessage(1, 3)),
            (PurgeNotice(1, 1, 1, 2),),
        ),
        "95019298010207c40101c391920005c4026869a0980103c0c400c290c400a09194010101020000",
    ),
    (
        Data((DataMessage(0, 9, covers=(1, 8), payload=b"x"),), nack_number=300),
        "950191980009c0920108c290c40178a090cd012c00",
    ),
    (Nack(2, ((4, 4), (70000, 70001)), 10, 1), "9502029292040492ce00011170ce000111710a01"),
    (StabilityGossip((FrontierVote(0, 5, 4, b"\x07", 3),)), "92039195000504c4010703"),
    (SafetyGossip(()), "920490"),
    (WindowEmpty(1, 0), "93050100"),
    (Excluded(65535), "9206cdffff"),
]


@pytest.mark.parametrize(("datagram", "golden"), GOLDEN)
def test_the_bytes_of_each_kind_are_fixed(datagram, golden):
    assert encode(datagram).hex() == golden
    assert GROUP_CODEC.decode(bytes.fromhex(golden)) == datagram


ranks = st.integers(0, RANK_MAX)
seqs = st.integers(1, SEQ_MAX)
places = st.integers(0, SEQ_MAX)


@st.composite
def messages(draw: st.DrawFn) -> DataMessage:
    seq = draw(seqs)
    distances = st.lists(st.integers(1, max(seq - 1, 1)), max_size=3).map(tuple)
    bitmaps = st.binary(max_size=min((seq - 1) // 8, 6))
    return DataMessage(
        draw(ranks),
        seq,
        draw(st.none() | st.integers(-(2**63), 2**64 - 1)),
        draw(bitmaps if seq == 1 else bitmaps | distances),
        draw(st.booleans()),
        draw(st.lists(st.tuples(ranks, places), max_size=3).map(tuple)),
        draw(st.binary(max_size=40)),
    )


@st.composite
def notices(draw: st.DrawFn) -> PurgeNotice:
    first, last, witness = sorted(draw(st.sets(seqs, min_size=3, max_size=3)))
    return PurgeNotice(draw(ranks), first, last, witness)


def tuples(of):
    return st.lists(of, max_size=4).map(tuple)


ballots = st.builds(FrontierVote, ranks, places, places, st.binary(max_size=8), places)
ranges = st.tuples(seqs, seqs).map(lambda pair: (min(pair), max(pair)))
datagrams = st.one_of(
    st.builds(Data, tuples(messages()), tuples(notices()), places),
    st.builds(Nack, ranks, tuples(ranges), places, seqs),
    st.builds(StabilityGossip, tuples(ballots)),
    st.builds(SafetyGossip, tuples(ballots)),
    st.builds(WindowEmpty, ranks, places),
    st.builds(Excluded, ranks),
)


@given(datagrams)
def test_every_datagram_survives_the_wire(datagram):
    assert GROUP_CODEC.decode(encode(datagram)) == datagram


HOSTILE: list[Datagram] = [
    Excluded(-1),
    Excluded(RANK_MAX + 1),
    WindowEmpty(-1, 1),
    WindowEmpty(0, -1),
    WindowEmpty(0, SEQ_MAX + 1),
    Data((DataMessage(-1, 1),)),
    Data((DataMessage(0, 0),)),
    Data((DataMessage(0, 1), DataMessage(0, -5))),
    Data((DataMessage(0, SEQ_MAX + 1),)),
    Data((DataMessage(0, 9, covers=(9,)),)),
    Data((DataMessage(0, 9, covers=(1, 0)),)),
    Data((DataMessage(0, 9, covers=(-3,)),)),
    Data((DataMessage(0, 8, covers=b"\x80"),)),
    Data((DataMessage(0, 1, covers=b"\x01"),)),
    Data((DataMessage(0, 1, after=((-1, 1),)),)),
    Data((DataMessage(0, 1, after=((1, -1),)),)),
    Data((), nack_number=-1),
    Data((), notices=(PurgeNotice(-1, 1, 1, 2),)),
    Data((), notices=(PurgeNotice(0, 0, 1, 2),)),
    Data((), notices=(PurgeNotice(0, 2, 1, 3),)),
    Data((), notices=(PurgeNotice(0, 1, 2, 2),)),
    Data((), notices=(PurgeNotice(0, 1, 2, SEQ_MAX + 1),)),
    Nack(-1, (), 1, 1),
    Nack(0, ((0, 1),), 1, 1),
    Nack(0, ((2, 1),), 1, 1),
    Nack(0, ((1, SEQ_MAX + 1),), 1, 1),
    Nack(0, (), -1, 1),
    Nack(0, (), 1, 0),
    StabilityGossip((FrontierVote(-1, 0, 0, b"", 0),)),
    StabilityGossip((FrontierVote(0, -1, 0, b"", 0),)),
    StabilityGossip((FrontierVote(0, 0, -1, b"", 0),)),
    SafetyGossip((FrontierVote(0, 0, 0, b"", -1),)),
    SafetyGossip((FrontierVote(0, 0, 0, bytes(RANK_MAX // 8 + 2), 0),)),
]


@pytest.mark.parametrize("datagram", HOSTILE, ids=repr)
def test_numbers_that_mean_nothing_are_refused(datagram):
    with pytest.raises(
        RemoteProtocolError,
        match=r"out of range|must list earlier|Expected `(int` |bytes` of length )[<>]=",
    ):
        GROUP_CODEC.decode(encode(datagram))


@pytest.mark.parametrize(
    "datagram",
    [
        Data(
            (
                DataMessage(0, 9, covers=(8, 1)),
                DataMessage(0, 9, covers=b"\x80\x00"),
                DataMessage(0, 1),
            )
        ),
        Data((DataMessage(0, 1, item=-(2**63)),), notices=(PurgeNotice(0, 1, 1, 2),)),
        Nack(0, ((1, 1),), 0, 1),
        StabilityGossip((FrontierVote(RANK_MAX, 0, 0, bytes(RANK_MAX // 8 + 1), 0),)),
    ],
)
def test_the_edges_of_the_ranges_are_inside(datagram):
    assert GROUP_CODEC.decode(encode(datagram)) == datagram


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc0",
        b"\x92\x07\x90",  # no such tag
        b"\x90",
        b"\x92\x06\xa1x",  # a string for a rank
        b"\x92\x06\x00\x00",  # something after the end
        b"\x95\x01\x90\x90\x00" + b"\x91" * 60_000,  # deep nesting where newer fields would be
        bytes(DATAGRAM_BYTES_MAX + 1),
    ],
)
def test_bytes_that_are_no_datagram_are_refused(data):
    with pytest.raises(RemoteProtocolError):
        GROUP_CODEC.decode(data)


def test_a_length_that_lies_costs_no_memory():
    tracemalloc.start()
    try:
        for liar in (
            b"\x92\x01\xdd\xff\xff\xff\xff",
            b"\x93\x01\x91\x97\x00\x01\xc0\xdd\x7f\xff\xff\xff",
        ):
            with pytest.raises(RemoteProtocolError):
                GROUP_CODEC.decode(liar)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def mutated(data: bytes, rng: Random) -> bytes:
    """A few bytes changed, cut out, repeated or put in."""
    bytes_ = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(bytes_) + 1)
        edit = rng.randrange(4)
        if edit == 0:
            bytes_[at : at + 1] = rng.randbytes(1)
        elif edit == 1:
            del bytes_[at : at + rng.randint(1, 4)]
        elif edit == 2:
            bytes_[at:at] = bytes_[at : at + rng.randint(1, 8)]
        else:
            bytes_[at:at] = rng.choice(
                (b"\xff", b"\xdd\xff\xff\xff\xff", b"\xd3" + b"\x80" * 8, b"\x91")
            )
    return bytes(bytes_)


FAMILIES = [
    (GROUP_CODEC, [datagram for datagram, _ in GOLDEN]),
    (
        VIEW_CODEC,
        [
            views.Stamped(VIEW.lineage, 3, datagram)
            for datagram in (
                views.Heartbeat(1, 4, True, False, VIEW.members, 3, 2),
                *(views.ViewEnvelope(4, datagram) for datagram, _ in GOLDEN[:-1]),
                views.Promise(4, 6, (5, 6), 5, False, 3, PROPOSAL),
                views.Decided(4, PROPOSAL, 1),
                views.StateChunk(4, 0, 3, b"abc"),
            )
        ],
    ),
    (
        PUBSUB_CODEC,
        [
            pubsub.Publication((DataMessage(1, 2, 7, b"\x01"), DataMessage(1, 3, covers=(1,)))),
            pubsub.Gossip(0, 2**63, 9, (PART,), (pubsub.StreamStatus(1, 5, 4),), True),
            pubsub.Repair((DataMessage(1, 2),), (PurgeNotice(1, 1, 1, 2),), 5),
            pubsub.Ack(PART, 3),
        ],
    ),
]


@pytest.mark.parametrize(("codec", "datagrams"), FAMILIES, ids=["group", "views", "pubsub"])
def test_whatever_bytes_come_only_a_remote_protocol_error_escapes(codec, datagrams):
    rng = Random(20_000)
    seeds = [codec.encode(datagram) for datagram in datagrams]
    taken = refused = 0
    for i in range(20_000):
        data = rng.randbytes(rng.randrange(40)) if i % 4 == 0 else mutated(rng.choice(seeds), rng)
        try:
            datagram = codec.decode(data)
        except RemoteProtocolError:
            refused += 1
            continue
        assert codec.decode(codec.encode(datagram)) == datagram
        taken += 1
    assert taken > 200
    assert refused > 5_000


def test_what_does_not_fit_is_refused_at_the_sender():
    with pytest.raises(LocalProtocolError, match="maximum is 33554432"):
        encode(Data((DataMessage(0, 1, payload=bytes(DATAGRAM_BYTES_MAX)),)))
    with pytest.raises(LocalProtocolError, match="more than 64 bits"):
        encode(Data((DataMessage(0, 1, item=2**64),)))


def test_a_later_version_may_append_fields():
    fields = msgspec.msgpack.decode(encode(WindowEmpty(1, 2)))
    assert GROUP_CODEC.decode(msgspec.msgpack.encode([*fields, "new"])) == WindowEmpty(1, 2)


@pytest.mark.parametrize("purged", [(), (PurgeNotice(1, 1, 1, 2),)])
def test_messages_that_are_bytes_travel_as_they_are(purged):
    run = tuple(DataMessage(1, seq, 7, payload=b"x" * seq, name="é") for seq in range(2, 30))
    batch, _ = kernel.parse_run(encode(Data(run)))
    for part in (slice(None), slice(3, 9), slice(5, 5)):
        written = encode(Data(batch[part], purged, safe=300))
        assert written == encode(Data(run[part], purged, safe=300))
        assert GROUP_CODEC.decode(written) == Data(run[part], purged, safe=300)


def test_nothing_else_travels():
    with pytest.raises(TypeError, match="cannot encode object"):
        encode(Data(object()))
