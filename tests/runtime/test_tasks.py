"""Nothing that runs beside a group fails in silence, and no disk holds up its event loop."""

import asyncio
import fcntl
import os
import subprocess
import sys
import threading
from time import monotonic

import pytest

from semcast.runtime.membership import view_session as view_session
from semcast.runtime.storage.keyring import incarnation_path
from semcast.runtime.tasks import start_task
from semcast.terms.errors import ConfigError
from semcast.terms.outputs import Ended
from semcast.terms.views import EXCLUDED

PATIENCE_S = 30.0


async def test_a_task_that_fails_is_logged_and_told(caplog):
    told = []

    async def fail() -> None:
        raise KeyError("lost")

    task = start_task(fail(), "the experiment", told.append)
    await asyncio.wait({task})
    await asyncio.sleep(0)
    assert [type(error) for error in told] == [KeyError]
    assert "the experiment failed: 'lost'" in caplog.text


async def test_a_task_that_is_cancelled_is_no_failure(caplog):
    task = start_task(asyncio.sleep(60), "the experiment")
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert not caplog.records


@pytest.mark.parametrize("protocol", ["s-rm", "s-vsm"])
async def test_a_lock_that_another_process_holds_does_not_stop_the_event_loop(join, protocol):
    """The number of a start is counted on disk, under a lock that all processes share."""
    name = "incarnation" if protocol == "s-rm" else "life"
    path = incarnation_path().with_name(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    released = []

    def release(by):
        if not released:
            released.append(by)
            os.close(lock)

    watchdog = threading.Timer(PATIENCE_S, release, ["the watchdog"])
    watchdog.start()
    joining = asyncio.ensure_future(join("a", members=1, protocol=protocol).start())
    await asyncio.wait([joining], timeout=0.2)
    assert not joining.done(), "the lock was held"
    release("the loop")  # which it reaches only if it turns
    await (await joining).close()
    watchdog.cancel()
    assert released == ["the loop"]


async def test_a_member_that_cannot_come_back_says_why(join, monkeypatch):
    group = await join("a", members=1, protocol="s-vsm")

    def fail() -> int:
        raise ConfigError("incarnation: no space left on device")

    monkeypatch.setattr(view_session, "next_inc", fail)
    group._port.put([Ended(EXCLUDED)])
    with pytest.raises(Exception, match="no space left"):
        async for _ in group:
            pass
    await group.close()


async def test_a_goodbye_does_not_overtake_what_was_sent_before_it(meet):
    """Both are read in one drain of the socket; the data wait there for company."""
    async with meet("ab") as (a, b):
        transport = a._driver._channel.transport
        drained = transport.on_drained
        transport.on_drained = lambda _now: None  # One drain, however it is cut.
        for number in range(100):
            await b.multicast(b"%d" % number)
        await b.close()
        drained(monotonic())
        transport.on_drained = drained
        taken = []
        while len(taken) < 100:
            taken += await a.receive()
        assert [int(message.payload) for message in taken] == list(range(100))


def test_a_worker_whose_task_fails_ends():
    """Otherwise its fleet would wait for what never comes."""
    program = (
        "import asyncio, semcast.fleet.worker as w\n"
        "async def broken(self, load): raise KeyError('broken')\n"
        "w.Worker.send = broken\n"
        "raise SystemExit(w.main())"
    )
    plan = (
        b'{"group": "tasks", "name": "a", "options": {"members": 1, "key": false},'
        b' "load": {"seconds": 1.0}}\n{"at": 0}\n'
    )
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as worker:
        worker.stdin.write(plan)
        worker.stdin.flush()  # and left open: nobody tells it to stop
        assert b"broken" in worker.stderr.read()
        assert worker.wait(60) != 0
