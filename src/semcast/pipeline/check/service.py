"""Which runs of a replicated service recorded the witness that sequential consistency is judged by.

Rejected: sequential consistency from answers alone, which is NP-complete.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.check.evidence import of_kind
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import EXECUTE, PASSED, REPLY, UPDATE


def is_witnessed(trace: TraceTables) -> DataFrame:
    """By run, whether every update tells its position and every query and reply its version
    (`is_witnessed`); runs without such events are not there."""
    is_update = F.coalesce(F.col("attrs")["op"].isin(UPDATE, PASSED), F.lit(False))
    witness = F.when(is_update, F.col("position")).otherwise(F.col("version"))
    return (
        of_kind(trace, EXECUTE, REPLY)
        .groupBy("run_id")
        .agg(F.bool_and(witness.isNotNull()).alias("is_witnessed"))
    )
