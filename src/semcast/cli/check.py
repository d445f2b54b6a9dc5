"""`semcast check`: recorded executions, verified; exit code 1 if a promise was broken.

A trace of up to two million events is judged in this process, unless Spark is asked for.
"""

from functools import partial
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from semcast.cli.check_view import show
from semcast.cli.commands import Json
from semcast.cli.output import Output
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
    "  semcast check lake --property agreement --property purge_safety"
)
EVENTS_PER_S = 200_000  # checked in this process, about
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


def check(
    trace: Source,
    properties: Names = None,
    skew_ms: SkewMs = None,
    master: OptionalMaster = None,
    remote: Remote = None,
    conf: Conf = None,
    verbose: Annotated[
        bool,
        typer.Option("-v", "--verbose", help="Show all examples and all properties not judged."),
    ] = False,
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

    check_names(properties or ())
    check_range("skew_ms", 0.0 if skew_ms is None else skew_ms, 0.0)
    output, began = Output(json), monotonic()
    spare_pandas()
    root = root_of(trace)  # A directory that is not a trace is refused here.
    target = some_target(master, remote, conf)
    if target is None and (count := count_events(root)) <= EVENTS_MAX:
        skew_s, usual_s = None if skew_ms is None else skew_ms / 1e3, 1 + count // EVENTS_PER_S
        with output.waiting(f"checking {count:,} events in this process, usually {usual_s} s"):
            found, where = judge(trace, properties or None, skew_s=skew_s), "in this process"
    else:
        target = target or target_of(LOCAL)
        found, where = _on_spark(output, target, trace, properties or None, skew_ms), "on Spark"
    took = f"{monotonic() - began:.1f} s {where}"
    show(output, trace, found, took, is_verbose=verbose, is_readable=found.events <= EVENTS_MAX)
    facts = facts_of(found)
    if not properties:
        keep(trace, CHECK, facts)
    output.print_json(facts)
    return 1 if found.status == FAIL else 0


def _on_spark(
    output: Output,
    target: "SparkTarget",
    trace: Path,
    properties: list[str] | None,
    skew_ms: float | None,
) -> "CheckVerdict":
    from semcast.pipeline.spark_session import session

    with (
        output.waiting(f"{STARTING}, then checking {trace}"),
        session(target, partial(import_module, "semcast.pipeline.check.verdict")) as spark,
    ):
        from semcast.pipeline.check import verdict
        from semcast.pipeline.check.run_facts import with_skew
        from semcast.pipeline.reading.trace import read_trace

        recorded = read_trace(spark, trace)
        if skew_ms is not None:
            recorded = with_skew(recorded, skew_ms)
        return verdict.check(recorded, properties)
