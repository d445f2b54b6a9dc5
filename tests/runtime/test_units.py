"""Amounts as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.runtime.options.units import parse_bytes, parse_rate, parse_seconds
from semcast.terms.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (1400, 1400),
        (64e6, 64_000_000),
        ("1400", 1400),
        ("1400 B", 1400),
        ("2KB", 2000),
        ("2 kb", 2000),
        ("2 MB", 2_000_000),
        ("2 GB", 2_000_000_000),
        ("2 KiB", 2048),
        ("64 MiB", 64 << 20),
        ("64MIB", 64 << 20),
        ("1.5 MiB", 3 << 19),
        ("1 GiB", 1 << 30),
    ],
)
def test_bytes(value, expected):
    size = parse_bytes(value, "buffer_bytes")
    assert size == expected
    assert isinstance(size, int)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2, 2.0),
        (0.25, 0.25),
        (1e-7, 1e-7),
        ("2", 2.0),
        ("200 us", 0.0002),
        ("200 µs", 0.0002),
        ("30 ms", 0.03),
        ("30MS", 0.03),
        ("1.5 s", 1.5),
        ("2 min", 120.0),
    ],
)
def test_seconds(value, expected):
    time = parse_seconds(value, "period")
    assert time == expected
    assert isinstance(time, float)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1e6, 1e6), ("1000", 1000.0), ("10 MiB/s", 10.0 * (1 << 20)), ("1.5kb/s", 1500.0)],
)
def test_rates(value, expected):
    assert parse_rate(value, "bandwidth") == expected


NOT_AMOUNTS = ["", "many", "-1", "1..2", "1.", ".5", "1e3", "3 parsecs", "1 2", -1, True, None, [1]]
NOT_AMOUNTS += [float("inf"), float("nan"), 10**400, "9" * 5000, "1\n"]


@pytest.mark.parametrize("value", [*NOT_AMOUNTS, "3 ms", "3 MiB/s"], ids=lambda v: repr(v)[:20])
def test_what_is_no_size_is_refused(value):
    with pytest.raises(ConfigError) as refused:
        parse_bytes(value, "buffer_bytes")
    assert str(refused.value) == (
        f"buffer_bytes: {value!r} is not a size; give bytes or a unit: B, KB, MB, GB, KiB, MiB, GiB"
    )


@pytest.mark.parametrize("value", [*NOT_AMOUNTS, "3 MiB", "3 m"], ids=lambda v: repr(v)[:20])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(ConfigError) as refused:
        parse_seconds(value, "period")
    assert str(refused.value) == (
        f"period: {value!r} is not a time; give seconds or a unit: us, ms, s, min"
    )


@pytest.mark.parametrize("value", [*NOT_AMOUNTS, "3 MiB", "3 /s"], ids=lambda v: repr(v)[:20])
def test_what_is_no_rate_is_refused(value):
    with pytest.raises(ConfigError) as refused:
        parse_rate(value, "bandwidth")
    assert str(refused.value) == (
        f"bandwidth: {value!r} is not a rate; give bytes per second or a unit: "
        "B/s, KB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s"
    )


@pytest.mark.parametrize("value", ["1.5", "0.3 KiB", 0.5])
def test_a_part_of_a_byte_is_refused(value):
    with pytest.raises(ConfigError, match=r"^datagram: .* is not a whole number of bytes$"):
        parse_bytes(value, "datagram")


texts = st.from_regex(
    r"[0-9]{1,20}(\.[0-9]{1,20})? ?([kmgKMG]?i?[bB]?(/s)?|[mu]?s|min)", fullmatch=True
)


@given(texts | st.text() | st.floats() | st.integers())
@pytest.mark.parametrize("parse", [parse_bytes, parse_seconds, parse_rate])
def test_an_amount_stays_what_it_was_read_as(parse, value):
    try:
        amount = parse(value, "field")
    except ConfigError:
        return
    assert amount >= 0
    assert parse(amount, "field") == amount
