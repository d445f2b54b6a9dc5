"""What a replicated service promises to its clients.

Rule: specification S [VSD fig. 2], by its refinement: every server goes through the states in
order, a client never goes back.  The position of an update and the version that a query read are
the witness.
Rejected: sequential consistency from answers alone, which is NP-complete.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from semcast.pipeline.check.evidence import of_kind
from semcast.pipeline.check.violations import event, violations
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import EXECUTE, JOIN, RECOVER, REPLY, UPDATE

_REQUEST: Final = ("client", "request")
_TIME_ORDER: Final = ("ts_ns", "pid", "n")


def _unlike_first(
    rows: DataFrame, key: tuple[str, ...], order: str | tuple[str, ...], value: tuple[str, ...]
) -> DataFrame:
    """The rows that differ in the value from the first of their key."""
    by_key = Window.partitionBy(*key).orderBy(*([order] if isinstance(order, str) else order))
    firsts = [F.first(name).over(by_key).alias(f"first_{name}") for name in value]
    found = rows.select(
        *("run_id", *_REQUEST, *value),
        event().alias("this"),
        F.first(event()).over(by_key).alias("first"),
        *firsts,
    )
    unlike = (~F.col(name).eqNullSafe(F.col(f"first_{name}")) for name in value)
    return found.where(reduce(Column.__or__, unlike))


def is_witnessed(trace: TraceTables) -> DataFrame:
    """By run, whether every update tells its position and every query and reply its version
    (`is_witnessed`); runs without such events are not there."""
    witness = F.when(_is_update(), F.col("position")).otherwise(F.col("version"))
    return (
        of_kind(trace, EXECUTE, REPLY)
        .groupBy("run_id")
        .agg(F.bool_and(witness.isNotNull()).alias("is_witnessed"))
    )


def sequential_consistency(trace: TraceTables) -> DataFrame:
    """There is one sequence of states; each server goes through it, and each client sees it move
    forward only, its own updates included.  Judged of runs that recorded the witness."""
    witnessed = is_witnessed(trace).where("is_witnessed")
    executed = of_kind(trace, EXECUTE).join(F.broadcast(witnessed), "run_id", "left_semi")
    replies = of_kind(trace, REPLY).join(F.broadcast(witnessed), "run_id", "left_semi")
    transfers = of_kind(trace, JOIN, RECOVER).where("version is not null")
    transfers = transfers.join(F.broadcast(witnessed), "run_id", "left_semi")
    updates = executed.where(_is_update())
    two_updates = _unlike_first(updates, ("run_id", "position"), _TIME_ORDER, _REQUEST)
    two_places = _unlike_first(updates, ("run_id", *_REQUEST), _TIME_ORDER, ("position",))
    two_answers = _unlike_first(replies, ("run_id", *_REQUEST), _TIME_ORDER, ("version",))
    frames = [
        *_jumps(executed, transfers),
        _inconsistent(
            two_updates,
            F.format_string(
                "put at position %d, where %d:%d is",
                *("this.position", "first.client", "first.request"),
            ),
            "first",
        ),
        _inconsistent(
            two_places,
            F.format_string("put at position %d and at %d", "this.position", "first.position"),
            "first",
        ),
        _inconsistent(
            two_answers,
            F.format_string("answered by version %d and by %d", "this.version", "first.version"),
            "first",
        ),
        *_client_sessions(executed, replies),
    ]
    return reduce(DataFrame.unionByName, frames)


def _jumps(executed: DataFrame, transfers: DataFrame) -> list[DataFrame]:
    """Servers that leave a state out, or read one that they do not have."""
    local = Window.partitionBy("run_id", "pid").orderBy("inc", "n")
    earlier = local.rowsBetween(Window.unboundedPreceding, -1)
    makes = F.when(F.col("kind") != EXECUTE, F.col("version")).when(_is_update(), F.col("position"))
    steps = (
        executed.unionByName(transfers)
        .withColumn("makes", makes)
        .withColumn("had", F.coalesce(F.last("makes", ignorenulls=True).over(earlier), F.lit(0)))
        .where(F.col("kind") == EXECUTE)
    )
    rows = steps.select(
        *("run_id", *_REQUEST, "had", "position", "version"),
        event().alias("this"),
        _is_update().alias("is_update"),
    )
    put = rows.where("is_update and position <> had + 1")
    read = rows.where("not is_update and version <> had")
    return [
        _inconsistent(
            put, F.format_string("put at position %d when it had version %d", "position", "had")
        ),
        _inconsistent(read, F.format_string("read version %d when it had %d", "version", "had")),
    ]


def _client_sessions(executed: DataFrame, replies: DataFrame) -> list[DataFrame]:
    """Answers that nobody can have given, and clients that go back."""
    key = ["run_id", *_REQUEST]
    answers = replies.groupBy(*key).agg(
        F.min_by(event(), F.struct(*_TIME_ORDER)).alias("this"),
        F.min_by("version", F.struct(*_TIME_ORDER)).alias("version"),
    )
    first = F.struct(*_TIME_ORDER)
    origins = executed.groupBy(*key).agg(
        F.min_by("position", F.when(_is_update(), first)).alias("place"),
        F.collect_set(F.when(~_is_update(), F.col("version"))).alias("read"),
    )
    known = answers.join(origins, key, "left")
    elsewhere = known.where("place is not null and place <> version")
    unread = known.where("place is null and not coalesce(array_contains(read, version), false)")
    session = Window.partitionBy("run_id", "client").orderBy("request")
    back = (
        known.withColumn("before", F.lag("version").over(session))
        .withColumn("last", F.lag("this").over(session))
        .where("version < before + if(place is null, 0, 1)")
    )
    after = "answered by version %d after %d:%d was by version %d"
    return [
        _inconsistent(
            elsewhere,
            F.format_string(
                "answered by version %d, but it is the update at %d", "version", "place"
            ),
        ),
        _inconsistent(
            unread,
            F.format_string("answered by version %d, which no process read for it", "version"),
        ),
        _inconsistent(
            back,
            F.format_string(after, "version", "last.client", "last.request", "before"),
            "last",
        ),
    ]


def _inconsistent(rows: DataFrame, how: Column, *before: str) -> DataFrame:
    this = F.format_string("request %d:%d was ", *_REQUEST)
    what = F.concat(this, how, F.format_string(" at process %d", "this.pid"))
    return violations(
        rows, "sequential_consistency", what, *(F.col(name) for name in before), F.col("this")
    )


def _is_update() -> Column:
    return F.coalesce(F.col("attrs")["op"] == UPDATE, F.lit(False))
