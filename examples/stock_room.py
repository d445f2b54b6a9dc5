"""A stock room that several clerks sell from at once, whoever crashes, whoever joins.

    python examples/stock_room.py        three clerks; one is killed; a new one takes over

Every clerk keeps the whole stock and takes from it what any of them sells, in one order that is
the same everywhere.  So all refuse the same sales once a shelf is empty, without asking each other.
The new clerk starts from a snapshot that another gave it, as of the moment it became a member.
"""

import asyncio
import json
import os
import random
import signal
import sys
from multiprocessing import Process, SimpleQueue
from typing import Any

import semcast

SHELVES = ["bolts", "nuts", "screws", "nails", "hooks"]
ON_SHELF = 90
SALES = 150  # that each clerk tries to make: about as many as there are
CLERKS = ["ada", "bob", "cy"]
VICTIM, NEWCOMER = "bob", "dora"


class Room:
    """What one clerk knows."""

    def __init__(self) -> None:
        self.stock = dict.fromkeys(SHELVES, ON_SHELF)
        self.refused = 0
        self.done: list[str] = []

    def apply(self, message: semcast.Message) -> None:
        if message.item is None:
            self.done.append(message.sender)
        elif self.stock[message.item]:
            self.stock[message.item] -= 1
        else:
            self.refused += 1

    def snapshot(self) -> bytes:
        return json.dumps(vars(self)).encode()

    def restore(self, state: bytes) -> None:
        vars(self).update(json.loads(state))


async def work(group_name: str, name: str, said: "SimpleQueue[tuple[str, object]]") -> None:
    room = Room()
    async with semcast.join(
        group_name,
        name=name,
        protocol="s-vsm",
        order="total",
        members=len(CLERKS),
        snapshot=room.snapshot,
        restore=room.restore,
    ) as group:
        selling = asyncio.create_task(sell(group))
        async for event in group.events():
            if isinstance(event, semcast.ViewChange):
                show(f"{name}: view {event.view.id} of {', '.join(event.view.members)}")
                said.put((name, list(event.view.members)))
            elif isinstance(event, semcast.Message):
                room.apply(event)
                if set(room.done) >= {*CLERKS, NEWCOMER} - {VICTIM}:
                    break
        await selling
    said.put((name, {"stock": room.stock, "refused": room.refused}))


async def sell(group: semcast.Group) -> None:
    for _ in range(SALES):
        # Never purged: every sale counts, not only the last one from a shelf.
        await group.multicast(b"one", item=random.choice(SHELVES), never_purge=True)
        await asyncio.sleep(0.01)
    await group.multicast(b"that was all", never_purge=True)


def describe(room: dict[str, Any]) -> str:
    shelves = ", ".join(f"{count} {shelf}" for shelf, count in room["stock"].items())
    return f"{shelves}; refused {room['refused']} sales"


def show(line: str) -> None:
    """Print in one write, so that lines of several processes do not mix."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(group_name: str, name: str, said: "SimpleQueue[tuple[str, object]]") -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process.
    asyncio.run(work(group_name, name, said))


def main() -> int:
    group_name = f"stock-room-{os.getpid()}"  # Two runs at the same time must not meet.
    said: SimpleQueue[tuple[str, object]] = SimpleQueue()
    clerks = {
        name: Process(target=run, args=(group_name, name, said), daemon=True) for name in CLERKS
    }
    clerks[NEWCOMER] = Process(target=run, args=(group_name, NEWCOMER, said), daemon=True)
    for name in CLERKS:
        clerks[name].start()
    rooms: dict[str, dict[str, Any]] = {}
    while len(rooms) < len(CLERKS):
        name, what = said.get()
        if isinstance(what, dict):
            rooms[name] = what
        elif len(what) == len(CLERKS) and clerks[VICTIM].is_alive() and name == CLERKS[0]:
            os.kill(clerks[VICTIM].pid or 0, signal.SIGKILL)
            clerks[VICTIM].join()
            show(f"{VICTIM} is killed; {NEWCOMER} takes over")
            clerks[NEWCOMER].start()
    for clerk in clerks.values():
        clerk.join()
    agreed = len({json.dumps(room) for room in rooms.values()}) == 1
    print()
    for name, room in sorted(rooms.items()):
        print(f"{name:>5} has {describe(room)}")
    print(f"They agree, without ever asking each other: {agreed}.")
    return 0 if agreed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
