"""Distances counted in steps, as many as the streams are long, as curves of a few thousand points.

A curve has the farthest distance of each step; and, found in a second look at the steps that hold
them, those at which a percentile or the wanted rate is reached.  All of its points are exact.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from semcast.models.advice import MOST_PAIRS, Distances, Rates
from semcast.pipeline.steps import EXACT_TO

MEDIAN: Final = 0.5

_MARK: Final = "mark_name string, mark_step bigint, before bigint, short double"


class _Mark(NamedTuple):
    """Within a step the first distance is wanted up to which there are `short` messages."""

    name: str | None
    step: int
    before: int  # messages of the steps before
    short: float


class Step(NamedTuple):
    """Some neighbouring distances: the farthest of them, 0 for none, and their messages."""

    step: int
    dist: int
    messages: int


def curves(
    of: Mapping[str | None, Sequence[Step]], named: DataFrame, rates: Rates | None
) -> dict[str | None, Distances]:
    """By name the curve of the steps, which ascend; `named` has what they hold, with `name`.

    As many messages count as superseded as supersede.
    """
    marks = {mark for name, steps in of.items() for mark in _marks(name, steps, rates)}
    extra = _reached(named, sorted(marks, key=str)) if marks else {}
    return {name: _curve(steps, extra.get(name, {})) for name, steps in of.items()}


def _curve(steps: Sequence[Step], extra: Mapping[int, int]) -> Distances:
    far = [step for step in steps if step.dist]
    upto = accumulate(step.messages for step in far)
    points = dict(zip((step.dist for step in far), upto, strict=True)) | dict(extra)
    x = np.array(sorted(points), np.int64)
    related = sum(step.messages for step in far)
    messages = sum(step.messages for step in steps)
    return Distances(messages, related, x, np.array([points[at] for at in x.tolist()], np.int64))


def _marks(name: str | None, steps: Sequence[Step], rates: Rates | None) -> Iterator[_Mark]:
    """Where the steps are too wide to tell."""
    far = [step for step in steps if step.dist]
    upto = list(accumulate((step.messages for step in far), initial=0))
    needs = [MEDIAN * upto[-1], MOST_PAIRS * upto[-1]]
    if rates is not None:
        needs.append(rates.purged_at_least * sum(step.messages for step in steps))
    for needed in needs:
        place = int(np.searchsorted(upto[1:], needed * (1 - 1e-12)))
        if place < len(far) and far[place].step > EXACT_TO:
            short = needed * (1 - 1e-12) - upto[place]
            yield _Mark(name, far[place].step, upto[place], short)


def _reached(named: DataFrame, marks: list[_Mark]) -> dict[str | None, dict[int, int]]:
    """By name, at which distances the marks are reached: dist → messages up to it."""
    wanted = named.sparkSession.createDataFrame(marks, _MARK)
    is_there = F.col("name").eqNullSafe(F.col("mark_name")) & (F.col("step") == F.col("mark_step"))
    # Rows of equal distance are peers: the sum has all of them.
    upto = F.sum("messages").over(Window.partitionBy("name", "step", "short").orderBy("dist"))
    held = F.arrays_zip("dists", F.col("counts").alias("messages"))
    found = (
        named.join(F.broadcast(wanted), is_there)
        .select("name", "step", "before", "short", F.inline(held).alias("dist", "messages"))
        .withColumn("upto", upto)
        .where("upto >= short")
        .groupBy("name", "step", "short")
        .agg(F.min(F.struct("dist", F.col("before") + F.col("upto"))).alias("point"))
    )
    points: dict[str | None, dict[int, int]] = defaultdict(dict)
    for row in found.collect():
        dist, messages = row["point"]
        points[row["name"]][dist] = messages
    return points
