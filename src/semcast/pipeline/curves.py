"""Counts of distances, as many as the streams are long, as curves of a few thousand points.

A curve has every distance up to 1,024, then the farthest of each of 64 steps in a doubling; and,
found in a second look at the steps that hold them, those at which a percentile or the wanted rate
is reached.  All of its points are exact.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from semcast.models.advice import MOST_PAIRS, Distances, Rates

EXACT_TO: Final = 1024
PER_DOUBLING: Final = 64
MEDIAN: Final = 0.5

_MARK: Final = "mark_name string, mark_step bigint, before bigint, short double"


class _Mark(NamedTuple):
    """Within a step the first distance is wanted up to which there are `short` messages."""

    name: str | None
    step: int
    before: int  # messages of the steps before
    short: float


def curves(counts: DataFrame, rates: Rates | None) -> dict[str | None, Distances]:
    """By name the curve of (name, dist, messages), where dist 0 is none.

    As many messages count as superseded as supersede.
    """
    wide = EXACT_TO + 1 + F.floor(F.log2(F.col("dist") / EXACT_TO) * PER_DOUBLING)
    step = F.when(F.col("dist") <= EXACT_TO, F.col("dist")).otherwise(wide)
    stepped = counts.withColumn("step", step.cast("bigint"))
    steps = stepped.groupBy("name", "step").agg(
        F.max("dist").alias("dist"), F.sum("messages").alias("messages")
    )
    of: dict[str | None, list[Row]] = defaultdict(list)
    for row in steps.orderBy("step").collect():
        of[row["name"]].append(row)
    marks = [mark for name, rows in of.items() for mark in _marks(name, rows, rates)]
    extra = _reached(stepped, marks) if marks else {}
    return {name: _curve(rows, extra.get(name, {})) for name, rows in of.items()}


def _curve(steps: list[Row], extra: Mapping[int, int]) -> Distances:
    far = [row for row in steps if row["dist"]]
    upto = accumulate(row["messages"] for row in far)
    points = dict(zip((row["dist"] for row in far), upto, strict=True)) | dict(extra)
    x = np.array(sorted(points), np.int64)
    related = sum(row["messages"] for row in far)
    messages = sum(row["messages"] for row in steps)
    return Distances(messages, related, x, np.array([points[at] for at in x.tolist()], np.int64))


def _marks(name: str | None, steps: list[Row], rates: Rates | None) -> Iterator[_Mark]:
    """Where the steps are too wide to tell."""
    far = [row for row in steps if row["dist"]]
    upto = list(accumulate((row["messages"] for row in far), initial=0))
    needs = [MEDIAN * upto[-1], MOST_PAIRS * upto[-1]]
    if rates is not None:
        needs.append(rates.purged_at_least * sum(row["messages"] for row in steps))
    for needed in needs:
        place = int(np.searchsorted(upto[1:], needed * (1 - 1e-12)))
        if place < len(far) and far[place]["step"] > EXACT_TO:
            short = needed * (1 - 1e-12) - upto[place]
            yield _Mark(name, far[place]["step"], upto[place], short)


def _reached(stepped: DataFrame, marks: list[_Mark]) -> dict[str | None, dict[int, int]]:
    """By name, at which distances the marks are reached: dist → messages up to it."""
    wanted = stepped.sparkSession.createDataFrame(marks, _MARK)
    is_there = F.col("name").eqNullSafe(F.col("mark_name")) & (F.col("step") == F.col("mark_step"))
    # Rows of equal distance are peers: the sum has all of them.
    upto = F.sum("messages").over(Window.partitionBy("name", "step", "short").orderBy("dist"))
    found = (
        stepped.join(F.broadcast(wanted), is_there)
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
