"""What buffer does a stream need?  Profiles a stream of stock quotes and prints the advice.

Each `# %%` is a cell for editors that know them; `python examples/profile_stream.py` runs all.
"""

# %% A stream: ten thousand quotes of 875 stocks, half of them of 25.  It could be any file with
# keys (`semcast.pipeline.reading.keyed_files.read_keyed`) or a recorded trace (`read_trace`).
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends this at once, without a traceback.

from itertools import islice
from random import Random

from semcast.models.advice import Rates, advise
from semcast.pipeline.profile.spark_profile import profile_rows
from semcast.pipeline.spark_session import SparkTarget, session
from semcast.workloads.stock import quotes

stream = islice(quotes(Random(1)), 10_000)
rows = [("exchange", place, str(quote.item), "U") for place, quote in enumerate(stream, start=1)]

# %% Its profile, on Spark: how far back lies the quote that each one supersedes?
rates = Rates(sender=1000, receiver=250)
with session(SparkTarget("local[2]", conf={"spark.sql.shuffle.partitions": "2"})) as spark:
    frame = spark.createDataFrame(rows, "sender string, place bigint, key string, kind string")
    profile = profile_rows(frame, rates)
distances = profile.total.distances

print(f"{distances.messages:,} quotes of {profile.total.items} stocks")
print(f"never superseded: {distances.never_obsolete:.1%}")
print(f"half of the others within {distances.percentile(0.5)} quotes")

# %% What a buffer of N messages can purge, and the rate it lets the sender keep.
for n in (10, 40, 100, 1000):
    print(f"N = {n:>5,}: R = {float(distances.purge_ratio(n)):.2f}")

# %% The advice: the sender wants 1,000 quotes a second, the slowest receiver takes 250.
advice = advise(distances, rates)
print(f"advice: a buffer of {advice.buffer}, since {advice.reason}")
print("the sender goes undisturbed:", advice.predicted_rate == rates.sender)
