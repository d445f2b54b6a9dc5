"""Two senders, two fast readers and a slow one for a minute, judged to the last event."""

from semcast.fleet.plan import Load


def test_five_processes_for_a_minute(live):
    quotes = {
        "a": Load(stream="stock", rate=100, seconds=60, seed=1),
        "b": Load(stream="stock", rate=50, seconds=60, seed=2),
    }
    run = live("abcde", quotes, {"e": 0.02}, order="item", buffer=2000)
    sent = sum(run.results[name].sent for name in quotes)
    assert sent > 8_000
    assert [run.results[name].taken for name in "abcd"] == [sent] * 4
    slow = run.results["e"]
    assert slow.taken + slow.skipped == sent
    assert slow.skipped > sent / 3
