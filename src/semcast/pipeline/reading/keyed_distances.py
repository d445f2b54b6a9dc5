"""The obsolescence distance of every row of keyed streams, and whether it is superseded.

U supersedes the latest earlier U on its key unless a C or D of that key lies between; D does so
too.  C and R neither supersede nor are superseded.  So only neighbours matter: of the rows of a
sender and key that are not R, a U or D supersedes the row before it if that is a U.

Idea: a key's rows are cut into stretches of the sender's stream, within which a window finds the
neighbours; only the first and last row of a stretch look further, in a second window.  So a key
with half of all rows is no more work for one task than any other.
Rejected: one window over sender and key, which gives all rows of a hot key to one task.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

CHUNK_BITS: Final = 20  # about a million places

_CHAIN: Final = ("sender", "key", "is_one_off")
_PART: Final = (*_CHAIN, "stretch")


def with_distances(rows: DataFrame, *, stretch_bits: int = CHUNK_BITS) -> DataFrame:
    """Rows (sender, place, key, kind) with `dist`, null where a row supersedes nothing, and
    `superseded`."""
    cut = rows.withColumns(
        {
            "is_one_off": F.col("kind") == "R",
            "stretch": F.shiftright("place", stretch_bits),
            "self": F.struct("place", "kind"),
        }
    )
    near = Window.partitionBy(*_PART).orderBy("place")
    found = cut.withColumns(
        {"before": F.lag("self").over(near), "after": F.lead("self").over(near)}
    ).join(_neighbours_of_stretches(cut), [*_PART], "left")
    before = F.coalesce("before", "last_before")
    after = F.coalesce("after", "first_after")
    dist = F.when(supersedes(F.col("kind"), before["kind"]), F.col("place") - before["place"])
    is_superseded = F.coalesce(supersedes(after["kind"], F.col("kind")), F.lit(False))
    return found.select(
        *(F.col(name) for name in rows.columns),
        dist.alias("dist"),
        is_superseded.alias("superseded"),
    )


def supersedes(kind: Column, before: Column) -> Column:
    """Whether a row supersedes the one before it on its key, by their kinds."""
    return kind.isin("U", "D") & (before == "U")


def _neighbours_of_stretches(cut: DataFrame) -> DataFrame:
    """For each stretch of a key what comes before its first row and after its last."""
    ends = cut.groupBy(*_PART).agg(F.min("self").alias("first"), F.max("self").alias("last"))
    far = Window.partitionBy(*_CHAIN).orderBy("stretch")
    return ends.select(
        *_PART,
        F.lag("last").over(far).alias("last_before"),
        F.lead("first").over(far).alias("first_after"),
    )
