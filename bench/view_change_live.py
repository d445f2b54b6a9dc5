"""View changes of live processes on loopback, with default timeouts.

`measure(members, how)` starts a group, has its last member leave or kills it, and tells how long it
took until the application of every other one was told of the view without it.
A member runs as `python bench/view_change_live.py GROUP NAME MEMBERS`: it prints the time and size
of every view, and leaves when told to.
"""

import asyncio
import selectors
import subprocess
import sys
from contextlib import ExitStack
from secrets import token_hex
from time import monotonic, monotonic_ns

import semcast
from semcast.runtime.event_loop import run

LEAVE, CRASH = "leave", "crash"
PATIENCE_S = 30.0


async def member(group_name: str, name: str, members: str) -> None:
    """Tell of views until standard input says or ends."""
    loop = asyncio.get_running_loop()
    options = {"interface": "127.0.0.1", "key": False, "control": False}
    async with semcast.join(
        group_name, name=name, members=int(members), protocol="s-vsm", **options
    ) as group:
        print(monotonic_ns(), len(group.view.members), flush=True)
        telling = asyncio.create_task(tell(group))
        await loop.run_in_executor(None, sys.stdin.readline)
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def tell(group: semcast.Group) -> None:
    """One line a view."""
    async for event in group.events():
        if isinstance(event, semcast.ViewChange):
            print(monotonic_ns(), len(event.view.members), flush=True)


class Group:
    """So many processes, and what they say."""

    def __init__(self, members: int, stack: ExitStack) -> None:
        self.selector = stack.enter_context(selectors.DefaultSelector())
        self.told: dict[int, dict[int, int]] = {i: {} for i in range(members)}  # size: time
        group, pipe = f"views-{token_hex(4)}", subprocess.PIPE
        self.processes = []
        for i in range(members):
            words = [sys.executable, __file__, group, f"m{i}", str(members)]
            process = subprocess.Popen(words, stdin=pipe, stdout=pipe, bufsize=0)
            stack.callback(_stop, process)
            assert process.stdout is not None
            self.selector.register(process.stdout, selectors.EVENT_READ, i)
            self.processes.append(process)

    def wait(self, size: int, count: int) -> int:
        """Until the first `count` members are in a view of that size; when the last one was."""
        deadline = monotonic() + PATIENCE_S
        while not all(size in self.told[i] for i in range(count)):
            for key, _ in self.selector.select(max(0.0, deadline - monotonic())):
                self._read(key)
            if monotonic() > deadline:
                raise SystemExit(f"no view of {size} members within {PATIENCE_S:g} s: {self.told}")
        return max(self.told[i][size] for i in range(count))

    def _read(self, key: selectors.SelectorKey) -> None:
        line = self.processes[key.data].stdout.readline()
        if line:
            time, size = map(int, line.split())
            self.told[key.data].setdefault(size, time)
        else:
            self.selector.unregister(key.fileobj)


def measure(members: int, how: str) -> float:
    """Seconds from when the last of so many members leaves or is killed."""
    with ExitStack() as stack:
        group = Group(members, stack)
        group.wait(members, members)
        *_, last = group.processes
        started = monotonic_ns()
        if how == CRASH:
            last.kill()
        else:
            last.stdin.write(b"leave\n")
        return (group.wait(members - 1, members - 1) - started) / 1e9


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


if __name__ == "__main__":
    run(member(*sys.argv[1:]))
