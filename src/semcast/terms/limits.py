"""The one-line refusal of a setting outside its range."""

from math import inf

from semcast.terms.errors import ConfigError


def check_range(field: str, value: float, low: float, high: float = inf) -> None:
    """Refuse a value outside low..high, and NaN."""
    if not low <= value <= high:
        allowed = f"at least {low:g}" if high == inf else f"within {low:g}..{high:g}"
        raise ConfigError(f"{field}: {value!r} is not {allowed}")


def check_whole(field: str, value: object, low: int) -> None:
    """Refuse what is not a whole number of at least `low`."""
    if not isinstance(value, int):
        raise ConfigError(f"{field}: {value!r} is not a whole number")
    check_range(field, value, low)


def check_finite(field: str, value: float, low: float = 0.0) -> None:
    """Refuse a value below `low`, infinity and NaN."""
    if not low <= value < inf:
        raise ConfigError(f"{field}: {value!r} is not a finite number of at least {low:g}")


def check_positive(field: str, value: float) -> None:
    """Refuse zero, negative numbers, infinity and NaN."""
    if not 0 < value < inf:
        raise ConfigError(f"{field}: {value!r} is not a finite number above 0")


def check_interval(start: float, end: float) -> None:
    """Refuse a period that is empty or begins before time 0; it may last for ever."""
    check_finite("start", start)
    if not end > start:
        raise ConfigError(f"end: {end!r} is not after start {start!r}")
