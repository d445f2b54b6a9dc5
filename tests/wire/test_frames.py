"""The clear header: its bytes are fixed, and nothing else is read before authentication."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.wire import frames
from semcast.wire.frames import HEADER_BYTES, FrameHeader, FrameRejected

WORDS = st.integers(0, 2**64 - 1)
GOLDEN = FrameHeader(frames.HELLO, frames.TCP, 7, 0x1122334455667788, 2, 3, 4, 5)
GOLDEN_BYTES = (
    "534301120700000088776655443322110200000000000000"  # magic, version, kind and channel, …
    "030000000000000004000000000000000500000000000000"
)


def test_the_bytes_of_the_header_are_fixed():
    assert frames.pack(GOLDEN).hex() == GOLDEN_BYTES
    assert frames.parse(bytes.fromhex(GOLDEN_BYTES)) == GOLDEN
    assert HEADER_BYTES == 48


def test_the_numbers_of_names_are_fixed():
    assert frames.group_id("quotes") == 0xF180034E8A2463B1
    assert frames.member_id("quotes") == 0xB6894862A5C9A8EE


@given(
    st.integers(0, frames.KINDS - 1),
    st.integers(0, frames.CHANNELS - 1),
    st.integers(0, 2**32 - 1),
    st.tuples(WORDS, WORDS, WORDS, WORDS, WORDS),
    st.binary(max_size=20),
)
def test_a_header_comes_back(kind, channel, key, rest, body):
    header = FrameHeader(kind, channel, key, *rest)
    assert frames.parse(frames.pack(header) + body) == header
    assert frames.fields(memoryview(frames.pack(header) + body)) == header


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "short"),
        (bytes.fromhex(GOLDEN_BYTES)[:-1], "short"),
        (bytes(HEADER_BYTES), "foreign"),
        (b"SC\x02" + bytes(HEADER_BYTES), "version"),
        (b"SC\x01" + bytes([frames.KINDS]) + bytes(HEADER_BYTES), "kind"),
        (b"SC\x01" + bytes([frames.CHANNELS << 4]) + bytes(HEADER_BYTES), "kind"),
    ],
)
def test_what_is_no_frame_is_refused_with_a_word(frame, reason):
    with pytest.raises(FrameRejected) as refused:
        frames.parse(frame)
    assert refused.value.reason == reason


@given(st.binary(max_size=80))
def test_any_bytes_are_a_header_or_refused(data):
    try:
        header = frames.parse(data)
    except FrameRejected:
        return
    assert frames.pack(header) == data[:HEADER_BYTES]
