"""One run of an experiment: all that decides its row, in a value that can travel to a worker."""

import shlex
from typing import NamedTuple

from semcast.experiments.experiment import Parameters, Row, Value
from semcast.experiments.registry import experiment
from semcast.terms.errors import SemcastError


class PointError(SemcastError):
    """One point could not be run; the message names it."""


class Point(NamedTuple):
    """One run: an experiment with all its parameters, sorted by name, and a seed."""

    experiment: str
    parameters: tuple[tuple[str, Value], ...]
    seed: int
    is_live: bool = False

    def __str__(self) -> str:
        given = " ".join(f"{name}={value}" for name, value in self.given())
        return f"{self.experiment} {given} ({'live, ' if self.is_live else ''}seed {self.seed})"

    def given(self) -> list[tuple[str, Value]]:
        """The parameters that are not the experiment's defaults."""
        defaults = experiment(self.experiment).defaults
        return [(name, value) for name, value in self.parameters if value != defaults[name]]

    def replay(self) -> str:
        """The command line that runs it again."""
        words = ["semcast", "sim", self.experiment]
        for name, value in self.given():
            words += ["--set", f"{name}={value}"]
        return shlex.join([*words, "--seed", str(self.seed), *(["--live"] if self.is_live else [])])


def run_point(point: Point) -> Row:
    """One run; also what a worker process executes."""
    try:
        return run_or_error(point)
    except Exception as error:
        raise PointError(f"{point}: {error_line(error)}") from error


def run_or_error(point: Point) -> Row:
    """One run, whose errors are its own."""
    chosen = experiment(point.experiment)
    run = chosen.live if point.is_live else chosen.run
    assert run is not None
    return run(Parameters(dict(point.parameters)), point.seed, None)


def error_line(error: Exception) -> str:
    """What went wrong in one line; a bug is named by its type."""
    text = " ".join(str(error).split())
    if isinstance(error, SemcastError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
