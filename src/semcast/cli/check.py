"""`semcast check`: recorded executions, verified; exit code 1 if a promise was broken.

A trace of up to two million events is judged in this process, unless Spark is asked for.
"""

from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from semcast.cli.check_view import show
from semcast.cli.commands import Json
from semcast.cli.output import Output
from semcast.cli.past_waits import WaitTime
from semcast.cli.spark_options import (
    LOCAL,
    STARTING,
    Conf,
    OptionalMaster,
    Remote,
    some_target,
    target_of,
)

if TYPE_CHECKING:
    from semcast.pipeline.spark_session import SparkTarget
    from semcast.specs.verdict import CheckVerdict

EXAMPLE = (
    "\b\nExamples:\n"
    "  semcast check out/trace\n"
    "  semcast check lake --property agreement \\\n"
    "    --property purge_safety"
)
HERE = "in this process"
ON_SPARK = "on Spark"
# How long a check usually takes: to start, and for each event.
USUAL_S = {HERE: (0.4, 5e-6), ON_SPARK: (12.0, 5e-5)}
Source: TypeAlias = Annotated[
    Path, typer.Argument(metavar="TRACE|LAKE", help="Trace directory or lake to check.")
]
Names: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME",
        help="Check only this property; repeat for more.",
        show_default="all",
    ),
]
SkewMs: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Maximum clock difference between two processes, in milliseconds.",
        show_default="as recorded",
    ),
]

Verbose: TypeAlias = Annotated[
    bool, typer.Option("-v", "--verbose", help="Show all examples and all properties not judged.")
]


def check(
    trace: Source,
    properties: Names = None,
    skew_ms: SkewMs = None,
    master: OptionalMaster = None,
    remote: Remote = None,
    conf: Conf = None,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Check recorded runs against their protocol's guarantees.

    Shows the events that prove a violated property. Up to two million events are checked in this
    process, larger traces on Spark. Give --master, --remote or --conf to use Spark in any case.
    """
    from semcast.fleet.trace_verdict import EVENTS_MAX, judge
    from semcast.specs.verdict import FAIL, check_names, facts_of
    from semcast.terms.limits import check_range
    from semcast.traces.arrow import spare_pandas
    from semcast.traces.kept_results import CHECK, keep
    from semcast.traces.trace_files import count_events, root_of

    properties = properties or None
    check_names(properties or ())
    check_range("skew_ms", 0.0 if skew_ms is None else skew_ms, 0.0)
    output, began = Output(json), monotonic()
    spare_pandas()
    root = root_of(trace)  # A directory that is not a trace is refused here.
    target = some_target(master, remote, conf)
    count = count_events(root)
    way = HERE if target is None and count <= EVENTS_MAX else ON_SPARK
    with _waiting(output, count, way):
        if way == HERE:
            found = judge(trace, properties, skew_s=None if skew_ms is None else skew_ms / 1e3)
        else:
            found = _on_spark(target or target_of(LOCAL), trace, properties, skew_ms)
    took = f"{monotonic() - began:.1f} s {way}"
    show(output, trace, found, took, is_verbose=verbose, is_readable=found.events <= EVENTS_MAX)
    facts = facts_of(found)
    if not properties:
        keep(trace, CHECK, facts)
    output.print_json(facts)
    return 1 if found.status == FAIL else 0


def _waiting(output: Output, count: int, way: str) -> AbstractContextManager[None]:
    start_s, event_s = USUAL_S[way]
    estimate = WaitTime(f"check {way}", start_s + event_s * count)
    spark = f"{STARTING}, then " if way == ON_SPARK else ""
    return output.waiting(f"{spark}checking {count:,} events {way}", estimate=estimate)


def _on_spark(
    target: "SparkTarget", trace: Path, properties: list[str] | None, skew_ms: float | None
) -> "CheckVerdict":
    from semcast.pipeline.spark_session import session

    with session(target, partial(import_module, "semcast.pipeline.check.verdict")) as spark:
        from semcast.pipeline.check import verdict
        from semcast.pipeline.check.run_facts import with_skew
        from semcast.pipeline.reading.trace import read_trace

        recorded = read_trace(spark, trace)
        if skew_ms is not None:
            recorded = with_skew(recorded, skew_ms)
        return verdict.check(recorded, properties)
