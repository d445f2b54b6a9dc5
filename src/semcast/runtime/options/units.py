"""Amounts as people write them: "64 MiB", "30 ms", "10 MiB/s", or a bare number of the base unit.

Case and the space before the unit do not matter; KB is 1,000 bytes and KiB 1,024.  Amounts are
computed exactly and rounded once, so that "200 us" is the float 0.0002.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from semcast.terms.errors import ConfigError

_TEXT: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) *([a-z/]*)")
_NUMBER_MAX: Final = 1e30  # above every text; a float can hold it

_BYTES: Final = {
    "B": Fraction(1),
    "KB": Fraction(10**3),
    "MB": Fraction(10**6),
    "GB": Fraction(10**9),
    "KiB": Fraction(1 << 10),
    "MiB": Fraction(1 << 20),
    "GiB": Fraction(1 << 30),
}
_SECONDS: Final = {
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "min": Fraction(60),
}
_RATES: Final = {f"{unit}/s": factor for unit, factor in _BYTES.items()}


def parse_bytes(value: object, field: str) -> int:
    """A whole number of bytes."""
    amount = _amount(value, field, "a size", "bytes", _BYTES)
    if amount.denominator != 1:
        raise ConfigError(f"{field}: {value!r} is not a whole number of bytes")
    return int(amount)


def parse_seconds(value: object, field: str) -> float:
    """A time in seconds."""
    return float(_amount(value, field, "a time", "seconds", _SECONDS))


def parse_rate(value: object, field: str) -> float:
    """A rate in bytes per second."""
    return float(_amount(value, field, "a rate", "bytes per second", _RATES))


def _amount(
    value: object, field: str, kind: str, base: str, units: Mapping[str, Fraction]
) -> Fraction:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if 0 <= value <= _NUMBER_MAX:
            return Fraction(value)
    elif isinstance(value, str):
        factors = {unit.lower(): factor for unit, factor in units.items()} | {"": Fraction(1)}
        found = _TEXT.fullmatch(value.lower().replace("µ", "u"))
        if found and found[2] in factors:
            return Fraction(found[1]) * factors[found[2]]
    raise ConfigError(
        f"{field}: {value!r} is not {kind}; give {base} or a unit: {', '.join(units)}"
    )
