"""Parses the value of an option: from Python, from TOML, or text from the environment.

A parser gets a value and the name of its field.  It returns the normal form of the value (parsing
that again returns it unchanged), or raises a `ConfigError` that begins with the name.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from semcast.runtime.options.units import parse_bytes
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.relations import RELATIONS

Parse: TypeAlias = Callable[[object, str], Any]

_WHOLE: Final = re.compile("-?[0-9]{1,18}")
_FLAGS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def choice(*allowed: object) -> Parse:
    """One of a few words or numbers."""
    by_text = {str(each): each for each in allowed}

    def parse(value: object, field: str) -> object:
        if str(value) not in by_text:
            raise unknown_value(field, value, allowed)
        return by_text[str(value)]

    return parse


def integer(minimum: int, maximum: int | None = None) -> Parse:
    """A whole number."""

    def parse(value: object, field: str) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(f"{field}: {value!r} is not a whole number")
        if maximum is not None and not minimum <= value <= maximum:
            raise ConfigError(f"{field}: {value} is not in {minimum}..{maximum}")
        if value < minimum:
            raise ConfigError(f"{field}: {value} is not at least {minimum}")
        return value

    return parse


def byte_count(minimum: int, maximum: int | None = None) -> Parse:
    """A number of bytes."""
    within = integer(minimum, maximum)
    return lambda value, field: within(parse_bytes(value, field), field)


def positive(parse_amount: Callable[[object, str], float]) -> Parse:
    """An amount that may not be 0."""

    def parse(value: object, field: str) -> float:
        amount = parse_amount(value, field)
        if not amount:
            raise ConfigError(f"{field}: {value!r} is not above 0")
        return amount

    return parse


def parse_flag(value: object, field: str) -> bool:
    """True or false, in any of the usual words."""
    word = str(value).lower()
    if word not in _FLAGS:
        raise unknown_value(field, value, _FLAGS)
    return _FLAGS[word]


def parse_text(value: object, field: str) -> str:
    """Any text but the empty one."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{field}: {value!r} is not a name or an address")
    return value


def parse_path(value: object, field: str) -> Path:
    """A place in the file system, which need not exist yet."""
    if not isinstance(value, str | Path) or not str(value):
        raise ConfigError(f"{field}: {value!r} is not a path")
    if "\0" in str(value):
        raise ConfigError(f"{field}: {str(value)[:60]!r} has a NUL character; no path has one")
    return Path(value).expanduser()


def parse_key(value: object, field: str) -> Path | Literal[False]:
    """The file of a key ring, or False for no key."""
    if value is False or (isinstance(value, str) and value.lower() == "none"):
        return False
    return parse_path(value, field)


def parse_relation(value: object, field: str) -> object:
    """The name of a relation, or an object that is one."""
    methods = (getattr(value, name, None) for name in ("obsoletes", "sent"))
    if all(map(callable, methods)) or value in tuple(RELATIONS):
        return value
    raise unknown_value(field, value, [*RELATIONS, "an object with methods obsoletes and sent"])
