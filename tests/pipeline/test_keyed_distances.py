"""Distances of keyed rows on Spark against the definition, read word for word."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from semcast.pipeline.reading.keyed_distances import with_distances
from semcast.workloads.replay import row_distances


def by_definition(rows):
    """For each (key, kind) its distance or None, and whether a later one supersedes it."""
    distances, superseded = [], [False] * len(rows)
    for here, (key, kind) in enumerate(rows):
        distance = None
        if kind in "UD":
            for there in reversed(range(here)):
                if rows[there] in ((key, "C"), (key, "D")):
                    break
                if rows[there] == (key, "U"):
                    distance = here - there
                    superseded[there] = True
                    break
        distances.append(distance)
    return list(zip(distances, superseded, strict=True))


def streams(seed, count):
    rng = Random(seed)
    for _ in range(count):
        keys = rng.choice(["a", "ab", "abcdefgh"])
        kinds = rng.choice(["U", "UUUC", "UD", "UCDR", "UUUUUUDR"])
        length = rng.choice([0, 1, 2, 5, 40])
        yield [(rng.choice(keys), rng.choice(kinds)) for _ in range(length)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("UCDR")), max_size=30))
def test_the_definition_agrees_with_replay(rows):
    distances = [distance or 0 for distance, _ in by_definition(rows)]
    assert distances == list(row_distances((key, kind, None, 0) for key, kind in rows))


def test_windows_agree_with_the_definition(spark):
    """Four hundred streams at once, as senders; stretches of four rows, so that most are cut."""
    cases = {str(number): rows for number, rows in enumerate(streams(1, 400))}
    lines = [
        (sender, place, key, kind)
        for sender, rows in cases.items()
        for place, (key, kind) in enumerate(rows, 1)
    ]
    Random(2).shuffle(lines)
    rows = spark.createDataFrame(lines, "sender string, place bigint, key string, kind string")
    for bits in (2, 20):
        told = with_distances(rows, stretch_bits=bits)
        assert told.columns == [*rows.columns, "dist", "superseded"]
        found = {}
        for row in told.collect():
            found.setdefault(row["sender"], {})[row["place"]] = (row["dist"], row["superseded"])
        for sender, stream in cases.items():
            expected = dict(enumerate(by_definition(stream), 1))
            assert found.get(sender, {}) == expected, (bits, stream)


def test_other_columns_stay_and_gaps_in_places_count(spark):
    rows = spark.range(3).select(
        F.lit("s").alias("sender"),
        (F.col("id") * 3_000_000_000 + 1).alias("place"),
        F.lit("k").alias("key"),
        F.lit("U").alias("kind"),
        F.col("id").alias("order"),
    )
    found = with_distances(rows).orderBy("place").select("order", "dist", "superseded").collect()
    far = 3_000_000_000
    assert [tuple(row) for row in found] == [(0, None, True), (1, far, True), (2, far, False)]
