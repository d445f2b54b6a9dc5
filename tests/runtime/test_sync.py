"""The facade for scripts: the same group, from threads that block."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

import semcast
from semcast import Update, sync

DEADLINE_S = 60
KNOWN = {"control": False, "join_timeout": 60, "linger": 10}


@pytest.fixture
def pair(quotes):
    """Two members, each in a thread of its own."""
    with ThreadPoolExecutor(2) as pool:
        joins = [pool.submit(sync.join, quotes, name=n, members=2, **KNOWN) for n in "ab"]
        groups = [join.result(DEADLINE_S) for join in joins]
    yield groups
    for group in groups:
        group.close()


def received(group, count):
    found = []
    while len(found) < count:
        batch = group.receive(timeout_s=DEADLINE_S)
        assert batch, f"only {len(found)} of {count} came"
        found += batch
    return [message.payload for message in found]


def test_a_script_sends_and_receives(pair):
    a, b = pair
    assert a.name.startswith("quotes-")
    assert (a.member, b.member) == ("a", "b")
    assert a.members == b.members == ("a", "b")
    assert repr(a).startswith("Group('quotes-")
    assert a.multicast(b"1", item="x", never_purge=True) == 1
    a.multicast_many(Update(b"%d" % number, item="y", never_purge=True) for number in (2, 3))
    assert a.try_multicast(b"4", item="z") == 4
    assert a.tombstone("z", b"5") == 5
    for group in pair:
        payloads = received(group, 5 - group.snapshot().skipped)
        assert payloads[:3] == [b"1", b"2", b"3"]
        assert payloads[-1] == b"5"


def test_iteration_ends_when_the_group_is_closed(pair):
    a, b = pair
    a.multicast_many([Update(b"%d" % number) for number in range(3)])
    found = []
    for message in b:
        found.append(message.payload)
        if len(found) == 3:
            b.close()
    assert found == [b"0", b"1", b"2"]


def test_nothing_comes_within_the_time(pair):
    assert pair[0].receive(timeout_s=0.02) == []
    pair[0].multicast(b"1")
    assert received(pair[0], 1) == [b"1"]


def test_a_thread_that_waits_is_told_of_the_end(pair):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(list, pair[0])
        pair[0].close()
        assert waiting.result(DEADLINE_S) == []


def test_a_closed_group_says_so_and_leaves_no_thread(pair):
    group = pair[0]
    group.close()
    group.close()
    assert group.receive() == []
    assert list(group) == []
    for call in (
        lambda: group.multicast(b""),
        lambda: group.try_multicast(b""),
        lambda: group.multicast_many([]),
        lambda: group.forget("b"),
        group.snapshot,
    ):
        with pytest.raises(semcast.LocalProtocolError, match="closed"):
            call()
    pair[1].close()
    assert "semcast" not in {thread.name for thread in threading.enumerate()}


def test_errors_reach_the_script(pair, quotes):
    with pytest.raises(semcast.LocalProtocolError, match="must be bytes"):
        pair[0].multicast("text")
    with pytest.raises(semcast.LocalProtocolError, match="limit of f"):
        pair[0].forget("b")
    with pytest.raises(semcast.GroupComplete):
        sync.join(quotes, name="c", members=2, **KNOWN)
    with pytest.raises(semcast.ConfigError, match="members or peers"):
        sync.join(quotes, name="c")


def test_whoever_is_interrupted_withdraws_what_it_waited_for():
    loop = sync.LoopThread()

    def interrupt(_number, _frame):
        raise KeyboardInterrupt

    async def others():
        return len(asyncio.all_tasks()) - 1

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(KeyboardInterrupt):
        loop.run(asyncio.Event().wait())
    signal.signal(signal.SIGALRM, before)
    deadline = monotonic() + DEADLINE_S
    while loop.run(others()):
        assert monotonic() < deadline
    loop.close()


def test_closing_ends_whatever_runs():
    loop = sync.LoopThread()
    running = asyncio.run_coroutine_threadsafe(asyncio.Event().wait(), loop._loop)
    loop.close()
    assert running.cancelled()


INTERRUPTED = """
import logging, signal, sys, threading
from semcast import sync

logging.getLogger("semcast").setLevel(logging.ERROR)

def interrupt(number, frame):
    raise KeyboardInterrupt

def interrupt_soon():
    signal.setitimer(signal.ITIMER_REAL, 1.0)

signal.signal(signal.SIGALRM, interrupt)
members = int(sys.argv[1])
try:
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # which tells of busy machines, too
    if members > 1:
        interrupt_soon()
    with sync.join(sys.argv[2], name="a", members=members, control=False) as group:
        interrupt_soon()
        for message in group:
            pass
except KeyboardInterrupt:
    print("interrupted", threading.active_count())
"""


@pytest.mark.parametrize("members", [1, 2], ids=["receiving", "joining"])
def test_an_interrupt_ends_a_wait_and_leaves_nothing_behind(quotes, members):
    script = [sys.executable, "-W", "error", "-X", "dev", "-c", INTERRUPTED, str(members), quotes]
    ended = subprocess.run(script, capture_output=True, timeout=DEADLINE_S, check=False)
    assert (ended.stdout, ended.stderr) == (b"interrupted 1\n", b"")
    assert ended.returncode == 0


def test_a_script_sees_views_and_gives_its_state(quotes):
    shares = {"ACME": "1"}

    def join(name, **more):
        return sync.join(quotes, name=name, protocol="s-vsm", members=1, **KNOWN, **more)

    with join("a", snapshot=lambda: json.dumps(shares).encode()) as a:
        [founded] = a.receive_events(timeout_s=DEADLINE_S)
        assert founded == semcast.ViewChange(semcast.View(1, ("a",), True), ("a",), (), "member")
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(join, "b", restore=lambda state: taken.update(json.loads(state)))
            taken = {}
            events = a.events()
            assert next(events).joined == ("b",)
            b = late.result(DEADLINE_S)
        a.multicast(b"2", item="ACME")
        for event in b.events():
            if isinstance(event, semcast.Message):
                break
            assert event.joined == ("a", "b")
        assert taken == shares
        assert b.view.members == ("a", "b")
        b.close()
        assert next(events).payload == b"2"
        assert next(events).left == ("b",)
