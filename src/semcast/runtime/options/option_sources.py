"""Where the value of an option comes from: the call, the environment, a file, in this order.

`Options` knows what is valid; here is only who said it, so that an error can name the place.  A
name that nobody knows is an error wherever it stands, for a misspelt bound would silently be the
default.
"""

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from semcast.terms.errors import ConfigError

PREFIX: Final = "SEMCAST_"
CONFIG: Final = "config"  # names the file, so it cannot stand in it
KEYS: Final = "keys"  # where key rings are, known to the environment alone
KERNEL: Final = "kernel"  # which build runs, likewise
GROUPS: Final = "groups"


class OptionValue(NamedTuple):
    """A value and the place that an error about it names."""

    value: object
    source: str


def collect_options(
    group: str, given: Mapping[str, object], names: Collection[str]
) -> dict[str, OptionValue]:
    """The settings of a group, the nearest to the call winning."""
    _refuse_unknown(given, [*names, CONFIG])
    environment = {
        name: value.strip()
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and value.strip()
    }
    _refuse_unknown(environment, [_variable(name) for name in (*names, CONFIG, KEYS, KERNEL)])
    config = given.get(CONFIG) or environment.get(_variable(CONFIG))
    settings = dict(_of_file(str(config), group, names)) if config else {}
    for name in names:
        if _variable(name) in environment:
            settings[name] = OptionValue(environment[_variable(name)], _variable(name))
        if given.get(name) is not None:
            settings[name] = OptionValue(given[name], name)
    return settings


def ignore_environment() -> None:
    """Forget the options in the environment of this process: a measured group has all its own."""
    spared = {_variable(name) for name in (KEYS, KERNEL)}
    for name in [name for name in os.environ if name.startswith(PREFIX) and name not in spared]:
        del os.environ[name]


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _of_file(path: str, group: str, names: Collection[str]) -> Iterator[tuple[str, OptionValue]]:
    """What the file says of all groups, then what it says of this one."""
    tables = _read(path)
    groups = tables.pop(GROUPS, {})
    if not isinstance(groups, dict) or not all(isinstance(t, dict) for t in groups.values()):
        raise ConfigError(f"{path}: {GROUPS} must contain tables; write [{GROUPS}.{group}]")
    _refuse_unknown(tables, [*names, GROUPS], f"{path}: ")
    for each, table in groups.items():
        _refuse_unknown(table, names, f"{path}: {GROUPS}.{each}.")
    for name, value in tables.items():
        yield name, OptionValue(value, f"{path}: {name}")
    for name, value in groups.get(group, {}).items():
        yield name, OptionValue(value, f"{path}: {GROUPS}.{group}.{name}")


def _read(path: str) -> dict[str, object]:
    try:
        return tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _refuse_unknown(found: Collection[str], known: Collection[str], place: str = "") -> None:
    for name in found:
        if name not in known:
            nearest = get_close_matches(name, known, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{place}{name}: unknown option; did you mean {nearest}?")
