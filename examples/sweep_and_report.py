# %% [markdown]
# # How large a buffer does a slow reader need?
# One receiver takes 20 ms for each message, 100 messages a second are offered, and half of them
# overwrite one of five items.  We sweep the size of the buffer on Spark, read the results as a
# table, and write a page to send to a colleague.
#
#     python examples/sweep_and_report.py        or cell by cell, in an editor that knows `# %%`

# %%
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends this at once, without a traceback.

import csv
import tempfile
from pathlib import Path

from semcast.pipeline.report.report import report
from semcast.pipeline.spark_session import SparkTarget, session
from semcast.pipeline.sweep.sweep import plan, run_sweep

folder = Path(tempfile.mkdtemp(prefix="semcast-"))

# %% [markdown]
# ## The grid
# Every point runs three times, each time with a seed of its own.  The seeds follow from the
# configuration, so whoever runs this gets the same numbers.

# %%
sweep = plan(
    "slow-receiver",
    grid={"buffer": [4, 16, 64], "protocol": ["s-rm", "rm"]},
    settings={"d": 5, "seconds": 8.0, "warmup_s": 3.0},
    repeat=3,
)
print(f"{len(sweep.runs())} runs; the first: {sweep.runs()[0].run.point.replay()}")

# %% [markdown]
# ## Run it
# The session is shared by all that follows.  Interrupted, `run_sweep` goes on where it was.

# %%
with session(SparkTarget("local[*]")) as spark:
    swept = run_sweep(sweep, folder / "buffers")
    results = spark.read.parquet(swept.files["results"])
    best = (
        results.where("protocol = 's-rm' AND error IS NULL")
        .groupBy("buffer")
        .agg({"accepted_rate": "avg"})
        .withColumnRenamed("avg(accepted_rate)", "accepted")
        .where("accepted >= 95")
        .agg({"buffer": "min"})
        .first()
    )
print(f"{swept.runs} runs, {swept.failed} failed, {swept.violations} violations")

# %% [markdown]
# ## Read it
# Means with their 95 % intervals, semantic beside reliable.

# %%
with open(swept.files["summary"], newline="") as file:
    for line in csv.DictReader(file):
        if line["result"] == "accepted_rate":
            low, mean, high = (float(line[name]) for name in ("low", "mean", "high"))
            print(f"{line['protocol']:5} {line['buffer']:>3}  {mean:6.1f}  [{low:.1f}, {high:.1f}]")
print(f"the smallest buffer with at least 95 messages a second: {best[0]}")

# %% [markdown]
# ## Send it

# %%
page = report(folder, folder / "report.html")
print(f"{page['html']}: every verdict is good: {page['failed'] == 0}")
