"""Points of experiments, each run once per session however many claims it serves."""

from collections.abc import Callable
from functools import cache

import pytest

from semcast.experiments.experiment import Row, Value
from semcast.experiments.registry import experiment


@cache
def _point(name: str, seed: int, given: tuple[tuple[str, Value], ...]) -> Row:
    chosen = experiment(name)
    row = chosen.run(chosen.parameters(dict(given)), seed, None)
    assert row["violations"] == 0
    return row


@pytest.fixture
def point() -> Callable[..., Row]:
    """`point("stock", input_percent=150.0)` is the row of that point, and breaks no promise."""

    def run(name: str, *, seed: int = 1, **given: Value) -> Row:
        return _point(name, seed, tuple(sorted(given.items())))

    return run
