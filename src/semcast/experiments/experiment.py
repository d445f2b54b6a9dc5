"""What an experiment is: named parameters in, rows of numbers out.

Every simulated point runs the machines of `core/` under the monitors of `specs/`; a row that
broke a promise says so.  The same parameters and seed give the same row.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final, NamedTuple, TypeAlias

from semcast.terms.errors import ConfigError, unknown_value

Value: TypeAlias = str | int | float | bool | None
Row: TypeAlias = dict[str, Value]
SUSTAINED: Final = (
    "The sender sustains {accepted_rate}; the slow receiver reads {slow_rate} and skips "
    "{purged_ratio} of the messages."
)


class Parameters(dict[str, Value]):
    """An experiment's parameters by name, read with the type and range that a use needs."""

    def text(self, name: str) -> str:
        """A word."""
        return str(self[name])

    def number(self, name: str, *, above: float = 0.0) -> float:
        """A finite number above a bound."""
        value = self[name]
        if not isinstance(value, int | float) or not above < value < inf:
            raise ConfigError(f"{name}: {value!r} is not a number above {above:g}")
        return float(value)

    def share(self, name: str) -> float:
        """A number from 0 to 1."""
        value = self[name]
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ConfigError(f"{name}: {value!r} is not a number from 0 to 1")
        return float(value)

    def duration_s(self, name: str) -> float:
        """Milliseconds, 0 or more, as seconds."""
        value = self[name]
        if not isinstance(value, int | float) or not 0 <= value < inf:
            raise ConfigError(f"{name}: {value!r} is not a time of 0 or more")
        return value / 1000

    def span_s(self) -> tuple[float, float]:
        """How long a run is, and how much of its beginning is not measured."""
        seconds, warmup_s = self.number("seconds"), self["warmup_s"]
        if not isinstance(warmup_s, int | float) or not 0 <= warmup_s < seconds:
            raise ConfigError(f"warmup_s: {warmup_s!r} is not in 0..seconds, which is {seconds:g}")
        return seconds, float(warmup_s)

    def whole(self, name: str, *, at_least: int = 1) -> int:
        """A whole number from a bound up."""
        value = self[name]
        if not isinstance(value, int) or value < at_least:
            raise ConfigError(f"{name}: {value!r} is not a whole number of at least {at_least}")
        return value


Run: TypeAlias = Callable[[Parameters, int, str | None], Row]


class Experiment(NamedTuple):
    """One point of an experiment: `run(parameters, seed, trace)` gives its row.

    `trace` is a directory to record the execution in, or None.  `run` simulates; `live`, where
    there is one, has real processes do the same and gives the same row.  `is_measured(parameters)`:
    this machine's speed enters the row, so the same seed need not give it again.  `answer` is the
    row as one sentence, with results in braces.
    """

    name: str
    summary: str
    source: str
    defaults: Mapping[str, Value]
    run: Run
    live: Run | None = None
    is_measured: Callable[[Parameters], bool] = lambda p: False
    answer: str = ""

    def parameters(self, given: Mapping[str, Value]) -> Parameters:
        """The defaults with what was given, each converted to its default's type."""
        unknown = [name for name in given if name not in self.defaults]
        if unknown:
            raise unknown_value(f"parameter of {self.name}", unknown[0], sorted(self.defaults))
        converted = {n: convert(n, value, self.defaults[n]) for n, value in given.items()}
        return Parameters({**self.defaults, **converted})


def convert(name: str, value: Value, like: Value) -> Value:
    """A value typed on a command line, as the type of the default it replaces."""
    if not isinstance(value, str) or isinstance(like, str):
        return value
    if like is None and value.lower() in ("", "none"):
        return None
    if isinstance(like, bool):
        if value.lower() not in ("true", "false"):
            raise unknown_value(name, value, ("true", "false"))
        return value.lower() == "true"
    wanted = int if isinstance(like, int) else float
    try:
        return wanted(value)
    except ValueError:
        what = "a whole number" if wanted is int else "a number"
        raise ConfigError(f"{name}: {value!r} is not {what}") from None
