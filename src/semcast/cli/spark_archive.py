"""`semcast spark-archive`: after it, commands on Spark start faster."""

from time import monotonic

from semcast.cli.commands import Json
from semcast.cli.output import Output
from semcast.cli.past_waits import WaitTime
from semcast.terms.palette import HOLDS

EXAMPLE = "Example: semcast spark-archive"


def spark_archive(json: Json = False) -> None:
    """Archive Spark's Java classes, so that Spark starts faster.

    Takes half a minute to a minute and about 200 MB in the user's cache directory. Commands that
    start Spark on this machine find the archive there, as long as Java and Spark stay the same.
    """
    from semcast.pipeline.archive_making import make_archive

    output, began = Output(json), monotonic()
    with output.waiting("archiving Spark's Java classes", estimate=WaitTime("archive", 40.0)):
        folder = make_archive()
    size = sum(file.stat().st_size for file in folder.iterdir())
    took = monotonic() - began
    output.print_text(
        f"ok  Spark starts faster from now on ({size / 1e6:,.0f} MB, {took:.0f} s)", colour=HOLDS
    )
    output.print_text(f"{folder}")
    output.next("semcast doctor")
    output.print_json({"folder": str(folder), "bytes": size, "seconds": took})
