"""A warehouse in the replicated store: a server is killed while orders come in; none is lost.

    python examples/warehouse.py

Three servers keep the stock on disk.  Buyers take parts from the shelves, each by a counter that
only goes down.  One server is killed and started again; buyers that talked to it go to another.
"""

import asyncio
import os
import signal
import socket
import sys
from multiprocessing import Process, SimpleQueue
from pathlib import Path
from tempfile import TemporaryDirectory

import semcast

SERVERS = ["ada", "bob", "cy"]
PARTS = {"bolt": 500, "nut": 500, "gear": 300}
BUYERS = 4
ORDERS = 100  # of each buyer


async def serve(name: str, peers: str, place: str, said: "SimpleQueue[tuple[str, str]]") -> None:
    async with semcast.serve(name, peers=peers, data=Path(place) / name) as server:
        async for change in server.changes():
            show(f"{name} is {change.role}; servers: {', '.join(change.view.members)}")
            said.put((name, change.role))


async def buy(peers: str, number: int) -> dict[str, int]:
    """One buyer; returns how many of each part it has got."""
    bought = dict.fromkeys(PARTS, 0)
    async with semcast.open_store(peers) as store:
        for order in range(ORDERS):
            part = list(PARTS)[(number + order) % len(PARTS)]
            if await store.incr(part, -1) >= 0:
                bought[part] += 1
            else:
                await store.incr(part, 1)  # The shelf was empty: put it back.
    return bought


async def sell(peers: str, disturb: "asyncio.Future[None]") -> bool:
    async with semcast.open_store(peers) as store:
        for part, count in PARTS.items():
            await store.set(part, str(count))
        working = [asyncio.create_task(buy(peers, number)) for number in range(BUYERS)]
        await asyncio.sleep(0.2)
        disturb.set_result(None)
        bought = [await each for each in working]
        # A get may be older than what the buyers have written; an update comes after all of that.
        left = {part: await store.incr(part, 0) for part in PARTS}
    sold = {part: sum(each[part] for each in bought) for part in PARTS}
    is_right = all(sold[part] + left[part] == PARTS[part] for part in PARTS)
    show(f"\nSold {describe(sold)}; left {describe(left)}.")
    show(f"Every part was sold once, or is on its shelf: {is_right}.")
    return is_right


def describe(parts: dict[str, int]) -> str:
    return ", ".join(f"{count} x {part}" for part, count in parts.items())


def show(line: str) -> None:
    """Print in one write, so that lines of several processes do not mix."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(name: str, peers: str, place: str, said: "SimpleQueue[tuple[str, str]]") -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process.
    asyncio.run(serve(name, peers, place, said))


def free_ports(count: int) -> list[int]:
    found = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in found:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in found]
    for each in found:
        each.close()
    return ports


def main() -> int:
    with TemporaryDirectory() as place:
        ports = zip(SERVERS, free_ports(len(SERVERS)), strict=True)
        peers = ",".join(f"{name}=127.0.0.1:{port}" for name, port in ports)
        said: SimpleQueue[tuple[str, str]] = SimpleQueue()

        def start(name: str) -> Process:
            process = Process(target=run, args=(name, peers, place, said), daemon=True)
            process.start()
            return process

        servers = {name: start(name) for name in SERVERS}
        ready: set[str] = set()
        while len(ready) < len(SERVERS):
            name, role = said.get()
            ready |= {name} if role == "primary" else set()

        async def work() -> bool:
            disturb: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            selling = asyncio.create_task(sell(peers, disturb))
            await disturb
            os.kill(servers["bob"].pid or 0, signal.SIGKILL)
            show("bob is killed")
            servers["bob"].join()
            servers["bob"] = start("bob")
            return await selling

        is_right = asyncio.run(work())
        for server in servers.values():
            server.kill()
            server.join()
    return 0 if is_right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
