"""Two senders, two fast readers and a slow one, nine thousand messages judged to the last event."""

import os

from semcast.fleet.plan import Load

SECONDS = 60.0 if os.environ.get("SOAK") else 15.0
MESSAGES = 9_000


def test_five_processes(live):
    rate = MESSAGES / SECONDS
    quotes = {
        "a": Load(stream="stock", rate=2 / 3 * rate, seconds=SECONDS, seed=1),
        "b": Load(stream="stock", rate=1 / 3 * rate, seconds=SECONDS, seed=2),
    }
    run = live("abcde", quotes, {"e": 3 / rate}, order="item", buffer=2000)
    sent = sum(run.results[name].sent for name in quotes)
    assert [run.results[name].taken for name in "abcd"] == [sent] * 4
    slow = run.results["e"]
    assert slow.taken + slow.skipped == sent
    assert slow.skipped > sent / 3
