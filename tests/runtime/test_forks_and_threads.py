"""A member belongs to one process and one thread; any other is told so, at once and by name."""

import asyncio
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import semcast
from semcast import Update
from semcast.wire.forks import Ancestry
from semcast.wire.frames import DATAGRAM, member_id
from semcast.wire.sealing import Key, Sealer

DEADLINE_S = 60
KEY = Key(7, "aes-256-gcm", bytes(range(32)))


def in_child(action) -> str:
    """What an action says in a forked child; the child ends with it."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 knows what is tested here.
        child = os.fork()
    if not child:
        try:
            said = str(action())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        said = answers.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("key", [KEY, None], ids=["sealed", "clear"])
def test_a_sealer_refuses_to_work_in_a_child(key):
    sealer = Sealer("quotes", member_id("a"), 1, key)
    first = sealer.seal(DATAGRAM, b"1")
    said = in_child(lambda: sealer.seal(DATAGRAM, b"2"))
    assert said.startswith("LocalProtocolError: seal: semcast was forked")
    assert said.endswith("join again in the child")
    assert first != sealer.seal(DATAGRAM, b"1"), "the parent goes on"


def test_a_child_has_sealers_of_its_own():
    def grandchild():
        made = Sealer("quotes", member_id("a"), 1, KEY)
        made.seal(DATAGRAM, b"")
        return in_child(lambda: made.seal(DATAGRAM, b""))

    assert Ancestry.forks == 0
    assert in_child(grandchild).startswith("LocalProtocolError: seal: semcast was forked")


CALLS = {
    "multicast": lambda group: group.multicast(b"1"),
    "multicast_many": lambda group: group.multicast_many([Update(b"1")]),
    "try_multicast": lambda group: group.try_multicast(b"1"),
    "tombstone": lambda group: group.tombstone("x"),
    "receive": lambda group: group.receive(),
    "receive_events": lambda group: group.receive_events(),
    "events": lambda group: anext(group.events()),
    "forget": lambda group: group.forget("b"),
    "snapshot": lambda group: group.snapshot(),
}


def call(name, group):
    """The error of a call of this name, made by a thread or process with a loop of its own."""

    async def calling():
        result = CALLS[name](group)
        return await result if asyncio.iscoroutine(result) or name == "events" else result

    try:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            return f"nothing was said: {runner.run(asyncio.wait_for(calling(), DEADLINE_S))}"
    except semcast.LocalProtocolError as error:
        return str(error)


async def test_calls_from_another_thread_are_refused_by_name(join):
    group = await join("a", members=1)
    with ThreadPoolExecutor(1, thread_name_prefix="worker") as pool:
        loop = asyncio.get_running_loop()
        for name in CALLS:
            said = await loop.run_in_executor(pool, call, name, group)
            assert said.startswith(f"{name}: called from thread 'worker_0', but group 'quotes-"), (
                said
            )
            assert "use semcast.sync" in said
        for outside in (group.snapshot, lambda: group.try_multicast(b"1")):  # without any loop
            with pytest.raises(semcast.LocalProtocolError, match="called from thread 'worker_0'"):
                await loop.run_in_executor(pool, outside)
        closing = loop.run_in_executor(pool, asyncio.run, group.close())
        with pytest.raises(semcast.LocalProtocolError, match="close: called from thread"):
            await closing
    assert await group.multicast(b"2") == 1, "nothing was sent from there"
    await group.close()


async def test_what_the_error_advises_works(join):
    group = await join("a", members=1)
    loop, sent = asyncio.get_running_loop(), asyncio.Event()

    def send():
        asyncio.run_coroutine_threadsafe(group.multicast(b"1"), loop).result(DEADLINE_S)
        loop.call_soon_threadsafe(lambda: (group.try_multicast(b"2"), sent.set()))

    await asyncio.to_thread(send)
    await sent.wait()
    assert [message.payload for message in await group.receive()] == [b"1", b"2"]
    await group.close()


def test_a_loop_may_go_on_in_another_thread(join):
    """The group belongs to the loop; nothing runs at the same time."""
    loop = asyncio.new_event_loop()

    async def joined():
        return await join("a", members=1)

    group = loop.run_until_complete(joined())
    assert loop.run_until_complete(group.multicast(b"1")) == 1
    others = []

    def go_on():
        others.append(loop.run_until_complete(group.multicast(b"2")))
        loop.run_until_complete(group.close())

    thread = threading.Thread(target=go_on)
    thread.start()
    thread.join(DEADLINE_S)
    loop.close()
    assert others == [2]


async def test_a_group_refuses_calls_in_a_child_by_name(join):
    group = await join("a", members=1)

    def try_all():
        asyncio.set_event_loop(None)
        said = {name: call(name, group) for name in CALLS}
        asyncio.run(group.close())  # as `async with` does; the parent stays a member
        return all(said[n].startswith(f"{n}: semcast was forked") for n in CALLS) or said

    assert in_child(try_all) == "True"
    assert await group.multicast(b"1") == 1
    assert [message.payload for message in await group.receive()] == [b"1"]
    await group.close()


SCRIPT = """
import logging, os, signal, sys, threading
from semcast import sync

logging.getLogger("semcast").setLevel(logging.ERROR)
name, settings = sys.argv[1], {"members": 1, "control": False, "linger": 1}
group = sync.join(name, name="a", **settings)
threading.Thread(target=group.receive, daemon=True).start()  # It may be anywhere in there.
child = os.fork()
if child:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("parent", group.multicast(b"1"), code, flush=True)
    group.close()
    sys.exit()
signal.alarm(30)  # A call that is not refused at once hangs; the child does not outlive the test.
calls = {
    "multicast": lambda: group.multicast(b"1"),
    "try_multicast": lambda: group.try_multicast(b"1"),
    "receive": group.receive,
    "iterate": lambda: next(iter(group)),
    "events": lambda: next(group.events()),
    "snapshot": group.snapshot,
    "forget": lambda: group.forget("a"),
}
for called, action in calls.items():
    try:
        action()
    except sync.LocalProtocolError as error:
        assert "semcast was forked" in str(error) and "join again in the child" in str(error), error
    else:
        raise AssertionError(called)
with group:
    pass
with sync.join(name + "-child", name="a", **settings) as again:
    print("child", again.multicast(b"1"), again.receive(timeout_s=20)[0].payload, flush=True)
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_script_that_forks_is_told(quotes, loop):
    script = SCRIPT
    if loop == "asyncio":
        script = "import sys; sys.modules['uvloop'] = None\n" + SCRIPT
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, quotes]
    ended = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=False, text=True)
    assert ended.stderr == ""
    assert ended.stdout == "child 1 b'1'\nparent 1 0\n"
