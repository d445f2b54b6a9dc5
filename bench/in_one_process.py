"""Processor time per delivery, two members in one process: what one core spends on both sides.

    .venv/bin/python bench/in_one_process.py s-vsm
    .venv/bin/python bench/in_one_process.py s-vsm --round-trips

With `--round-trips` one member answers each message of the other, which then sends the next.  The
script uses the public interface alone, so that `pairs.py` can run it with any tree of Semcast.
"""

import asyncio
import json
import socket
import sys
from contextlib import suppress
from time import process_time

import semcast

MESSAGES = 400_000
ROUND_TRIPS = 5_000
BATCH = 480
UPDATES = [semcast.Update(bytes(100), f"item-{n}") for n in range(BATCH)]


def peers() -> list[str]:
    """Two names with addresses that are free."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab"]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [
        f"{name}=127.0.0.1:{each.getsockname()[1]}"
        for name, each in zip("ab", sockets, strict=True)
    ]
    for each in sockets:
        each.close()
    return found


async def take(group: semcast.Group) -> None:
    """Read until everything was delivered or skipped."""
    passed = 0
    async for batch in group.batches():
        passed += len(batch) + sum(message.skipped for message in batch)
        if passed >= MESSAGES // BATCH * BATCH:
            return


async def join(protocol: str) -> list[semcast.Group]:
    """Two members of a group."""
    options = {"peers": peers(), "protocol": protocol, "echo": False, "key": False}
    group = f"in-one-process-{protocol}"
    return await asyncio.gather(*(semcast.join(group, name=name, **options) for name in "ab"))


async def answer(group: semcast.Group) -> None:
    """Send each message back."""
    messages = aiter(group)
    for _ in range(ROUND_TRIPS):
        message = await anext(messages)
        await group.multicast(message.payload, item="answer")


async def measure_round_trips(protocol: str) -> float:
    """Microseconds for each message that is answered."""
    asking, answering = await join(protocol)
    messages, answers = aiter(asking), asyncio.create_task(answer(answering))
    before = process_time()
    for _ in range(ROUND_TRIPS):
        await asking.multicast(bytes(16), item="question")
        await anext(messages)
    spent = process_time() - before
    await answers
    await asyncio.gather(asking.close(), answering.close())
    return spent / ROUND_TRIPS * 1e6


async def measure(protocol: str) -> float:
    """Microseconds for each message, sent and delivered."""
    sender, receiver = await join(protocol)
    before = process_time()
    reading = asyncio.create_task(take(receiver))
    for _ in range(MESSAGES // BATCH):
        await sender.multicast_many(UPDATES)
    await reading
    spent = process_time() - before
    await asyncio.gather(sender.close(), receiver.close())
    return spent / MESSAGES * 1e6


def main() -> None:
    """Print one JSON object."""
    with suppress(ImportError):  # as `semcast` itself does
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    measured = measure_round_trips if "--round-trips" in sys.argv else measure
    print(json.dumps({"cpu_us_per_delivery": asyncio.run(measured(sys.argv[1]))}))


if __name__ == "__main__":
    main()
