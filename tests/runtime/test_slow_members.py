"""The rule that names slow members: shares of the traffic, with hysteresis."""

import pytest

from semcast.runtime.operations.slow_members import MemberFigures, SlowMembers


def run(members, seconds, start=0):
    """Feed one second after the other; `members` has (delivered/s, skipped/s, waiting) by name."""
    watch = SlowMembers()
    feed(watch, members, start, start + seconds)
    return watch


def feed(watch, members, start, end, base=0):
    for second in range(start, end + 1):
        for name, (delivered, skipped, waiting) in members.items():
            passed = second - start
            figures = MemberFigures(base + delivered * passed, skipped * passed, waiting)
            watch.note(name, figures, float(second))


FAST = (1_000, 0, 0)


def test_a_member_that_skips_four_of_five_messages_is_named_at_any_buffer():
    """The case that a share of a buffer of 65,536 missed: 26,868 of 33,752 messages skipped in 33
    seconds, with about 150 waiting."""
    watch = SlowMembers()
    for second in range(34):
        share = second / 33
        watch.note("london", MemberFigures(round(33_752 * share), 0, 2), float(second))
        delivered, skipped = round(6_884 * share), round(26_868 * share)
        watch.note("tokyo", MemberFigures(delivered, skipped, 137), float(second))
    (slow,) = watch.slow(33.0)
    assert slow.name == "tokyo"
    assert slow.share == pytest.approx(0.796, abs=0.01)
    assert slow.rate == pytest.approx(209, abs=5)
    assert slow.offered_rate == pytest.approx(1_023, abs=10)
    assert slow.oldest_waiting_s == pytest.approx(0.66, abs=0.05)
    assert slow.since_s == pytest.approx(32, abs=1)
    assert slow.why == "reads 209 of 1,023 messages/s, skips 80%"


def test_nobody_is_slow_where_all_keep_up():
    watch = run({"a": FAST, "b": (1_000, 2, 30)}, 20)
    assert watch.slow(20.0) == []
    assert watch.oldest_waiting_s("a", 20.0) == 0.0


def test_without_skips_a_backlog_of_more_than_a_second_is_slow():
    """Under a reliable protocol everyone has the slow one's rate; its queue tells it apart."""
    (slow,) = run({"a": (250, 0, 3), "b": (250, 0, 480)}, 10).slow(10.0)
    assert slow.name == "b"
    assert slow.oldest_waiting_s == pytest.approx(1.92)
    assert slow.why == "reads 250 of 250 messages/s, the oldest waits 1.9 s"


def test_a_member_that_takes_nothing_is_slow():
    watch = run({"a": FAST}, 10)
    feed(watch, {"b": (0, 0, 1)}, 0, 10)
    (slow,) = watch.slow(10.0)
    assert (slow.name, slow.rate) == ("b", 0)
    assert slow.oldest_waiting_s == pytest.approx(10)


def test_a_short_hiccup_is_not_slow():
    watch = SlowMembers()
    feed(watch, {"a": FAST}, 0, 10)
    watch.note("a", MemberFigures(10_100, 900, 0), 11.0)  # one bad second
    assert watch.slow(11.0) == []


def test_few_messages_say_nothing():
    assert run({"a": (1, 1, 0)}, 8).slow(8.0) == []


def test_a_slow_member_is_slow_until_it_kept_up_for_a_while():
    watch = run({"a": (200, 800, 100)}, 10)
    named = []
    for second in range(11, 30):
        passed = second - 10
        watch.note("a", MemberFigures(2_000 + 1_000 * passed, 8_000, 0), float(second))
        named.append(bool(watch.slow(float(second))))
    first = named.index(False)
    assert 5 <= first <= 10
    assert not any(named[first:])


def test_around_the_limit_nothing_flaps():
    watch = SlowMembers()
    delivered = skipped = 0
    changes, before = 0, False
    for second in range(120):
        share = 0.2 if second % 4 < 2 else 0.03
        delivered += round(1_000 * (1 - share))
        skipped += round(1_000 * share)
        watch.note("a", MemberFigures(delivered, skipped, 0), float(second))
        now = bool(watch.slow(float(second)))
        changes += now != before
        before = now
    assert changes <= 1


def test_another_life_of_a_member_starts_again_and_a_member_that_left_is_dropped():
    watch = run({"a": (200, 800, 100), "b": FAST}, 10)
    watch.keep(["b"])
    assert watch.slow(10.0) == []
    watch = run({"a": FAST}, 10)
    watch.note("a", MemberFigures(5, 0, 0), 11.0)
    assert watch.slow(11.0) == []


def test_the_slowest_comes_first():
    watch = run({"a": (500, 500, 10), "b": (100, 900, 10), "c": FAST}, 10)
    assert [slow.name for slow in watch.slow(10.0)] == ["b", "a"]


def test_the_traffic_of_a_slow_member_is_what_it_reads_skips_and_lets_wait():
    """Figures of other members are as old as their last reports: one that reported just now has
    more messages in the window than there were."""
    watch = SlowMembers()
    for second in range(12):
        watch.note("slow", MemberFigures(200 * second, 800 * second, 0), float(second))
        fresh = second + (second > 6)
        watch.note("fast", MemberFigures(1_000 * fresh, 0, 0), float(second))
    (slow,) = watch.slow(11.0)
    assert (slow.name, slow.rate, slow.offered_rate) == ("slow", 200.0, 1_000.0)
    assert slow.why == "reads 200 of 1,000 messages/s, skips 80%"
