"""Each change of a group is one log line that says what to do; nothing is logged twice."""

import logging

import pytest

from semcast.runtime.operations.group_log import GroupLog
from semcast.runtime.operations.slow_members import SlowMember
from semcast.runtime.operations.snapshot import ViewSnapshot


def slow(name):
    return SlowMember(
        name=name,
        since_s=3.0,
        why="reads 200 of 1,000 messages/s, skips 80%",
        rate=200.0,
        offered_rate=1_000.0,
        share=0.8,
        oldest_waiting_s=0.7,
    )


def view(number, *members, status="member", excluded_s=None, left_out_s=None):
    return ViewSnapshot(
        id=number,
        members=list(members),
        status=status,
        is_primary=True,
        needed=2,
        suspected=[],
        excluded_s=excluded_s or {},
        left_out_s=left_out_s or {},
    )


@pytest.fixture
def lines(caplog):
    """`lines(first, second, …)`: what is logged when a member is in these states."""

    def logged(*snapshots):
        caplog.clear()
        log = GroupLog()
        with caplog.at_level(logging.INFO, "semcast"):
            for each in snapshots:
                log.note(each)
        return [(record.levelname, record.getMessage()) for record in caplog.records]

    return logged


def test_a_slow_member_warns_itself_and_informs_the_others(lines, snapshot):
    calm, behind = snapshot("ada"), snapshot("ada", slow=[slow("ada"), slow("bob")])
    start, first, second, *calmed = lines(calm, behind, behind, calm)
    assert start == ("INFO", "group quotes: members: ada")
    assert first == (
        "WARNING",
        "group quotes: this member is slow: reads 200 of 1,000 messages/s, skips 80%; make its "
        "application faster, or let it read fewer items",
    )
    assert second == (
        "INFO",
        "group quotes: bob is slow: reads 200 of 1,000 messages/s, skips 80%; make its "
        "application faster, or let it read fewer items",
    )
    assert sorted(calmed) == [
        ("INFO", f"group quotes: {name} keeps up again") for name in ("ada", "bob")
    ]


def test_a_blocked_sender_is_logged_once(lines, snapshot):
    states = [
        snapshot("ada", up_s=float(n), blocked_s_total=0.8 * n, blocked_by="bob") for n in range(9)
    ]
    _, (level, line) = lines(*states)
    assert level == "WARNING"
    assert "blocked for 80 % of the last 1 s by bob; use a larger buffer" in line


def test_a_member_that_was_silent_did_not_leave(lines, snapshot):
    before, after = view(1, "ada", "bob", "cy"), view(2, "ada", "bob", excluded_s={"cy": 0.51})
    _, (_, line) = lines(snapshot("ada", view=before), snapshot("ada", view=after))
    assert line == (
        "group quotes: view 2: ada, bob; cy was excluded after 0.5 s of silence; check that "
        "machine and the network"
    )


def test_a_member_that_is_too_slow_did_not_leave(lines, snapshot):
    before, after = view(1, "ada", "bob", "cy"), view(2, "ada", "bob", left_out_s={"cy": 3.96})
    _, (_, line) = lines(snapshot("ada", view=before), snapshot("ada", view=after))
    assert line == (
        "group quotes: view 2: ada, bob; cy is left out for 4.0 s, because it is too slow; give it "
        "more processor time"
    )


def test_views_joins_leaves_and_minorities(lines, snapshot, peer):
    steps = [
        view(1, "ada", "bob", "cy"),
        view(2, "ada", "bob"),
        view(3, "ada", "bob", "dan"),
        view(3, "ada", "bob", "dan", status="minority"),
    ]
    found = lines(*(snapshot("ada", view=each) for each in steps))
    assert found[:3] == [
        ("INFO", "group quotes: view 1: ada, bob, cy"),
        ("INFO", "group quotes: view 2: ada, bob; cy left"),
        ("INFO", "group quotes: view 3: ada, bob, dan; dan joined"),
    ]
    assert [level for level, _ in found[3:]] == ["WARNING"]
    assert "waits for 2 of 3 members: check the others" in found[3][1]
    gone = snapshot("ada", peers=[peer("bob", 1, is_forgotten=True)])
    there = snapshot("ada", peers=[peer("bob", 1)])
    assert lines(there, gone, gone)[1:] == [("INFO", "group quotes: bob left")]


def test_discards_above_a_rate_are_logged_with_the_remedy(lines, snapshot):
    states = [snapshot("ada", up_s=float(n), discarded={"key": 500 * n}) for n in range(4)]
    _, (level, line) = lines(*states)
    assert level == "WARNING"
    assert line.startswith("group quotes: 500 frames/s are discarded (key): a process uses another")
    few = [snapshot("ada", up_s=float(n), discarded={"key": 5 * n}) for n in range(4)]
    assert [level for level, _ in lines(*few)] == ["INFO"]
