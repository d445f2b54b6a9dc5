"""A bank on three servers: the primary is killed while customers move money, and none is lost.

    python examples/bank.py              three servers, three customers; the primary is killed
    python examples/bank.py serve ada    one server, for a terminal of its own; start three, then
                                         semcast request bank '["deposit", "ada", 100]'

Each server runs the same `Bank`.  The primary executes a transfer, and all servers have applied it
before the customer gets the answer.  So whoever takes over has every transfer that was answered.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable
from multiprocessing import Process, SimpleQueue

import semcast

SERVERS = ["ada", "bob", "cy"]
CUSTOMERS = 3
ACCOUNTS = [f"account {number}" for number in range(5)]
OPENING_BALANCE = 1000
TRANSFERS = 200  # that each customer makes


class Bank:
    """All of its state is in `self.items`, which Semcast replicates."""

    def execute(self, request: list[object]) -> object:
        match request:
            case ["deposit", str(account), int(amount)]:
                self.items[account] = self.items.get(account, 0) + amount
                return self.items[account]
            case ["transfer", str(source), str(target), int(amount)]:
                if self.items.get(source, 0) < amount:
                    raise ValueError(f"{source} has only {self.items.get(source, 0)}")
                self.items[source] -= amount
                self.items[target] = self.items.get(target, 0) + amount
                self.items["transfers"] = self.items.get("transfers", 0) + 1
                return self.items[source]
            case ["report"]:
                return dict(self.items)
        raise ValueError("ask: deposit ACCOUNT AMOUNT, transfer FROM TO AMOUNT, or report")


async def serve(group: str, name: str, said: "SimpleQueue[tuple[str, str]] | None") -> None:
    async with semcast.replicate(Bank(), group=group, name=name, members=len(SERVERS)) as server:
        async for change in server.changes():
            show(f"{name} is {change.role}; servers: {', '.join(change.view.members)}")
            if said is not None:
                said.put((name, change.role))


async def move_money(group: str, seed: int) -> int:
    """One customer; returns how many transfers were answered."""
    chance, answered = random.Random(seed), 0
    async with semcast.Client(group) as bank:
        for _ in range(TRANSFERS):
            source, target = chance.sample(ACCOUNTS, 2)
            try:
                await bank.request(["transfer", source, target, chance.randint(1, 300)])
                answered += 1
            except semcast.RequestFailed:
                pass  # The account has too little.
    return answered


async def customers(group: str, kill_primary: Callable[[], None]) -> bool:
    async with semcast.Client(group) as bank:
        for account in ACCOUNTS:
            await bank.request(["deposit", account, OPENING_BALANCE])
        working = [asyncio.create_task(move_money(group, seed)) for seed in range(CUSTOMERS)]
        await asyncio.sleep(0.3)
        kill_primary()
        answered = sum(await asyncio.gather(*working))
        found = await bank.request(["report"])
    transfers = found.pop("transfers")
    total = sum(found.values())
    show(f"\nAll money is there: {total == OPENING_BALANCE * len(ACCOUNTS)} ({total}).")
    show(f"Every answered transfer is there, once: {transfers == answered} ({transfers}).")
    return total == OPENING_BALANCE * len(ACCOUNTS) and transfers == answered


def show(line: str) -> None:
    """Print in one write, so that lines of several processes do not mix."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(group: str, name: str, said: "SimpleQueue[tuple[str, str]]") -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process.
    asyncio.run(serve(group, name, said))


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] == "serve":
        asyncio.run(serve("bank", sys.argv[2], None))
        return 0
    group = f"bank-{os.getpid()}"  # Two runs at the same time must not meet.
    said: SimpleQueue[tuple[str, str]] = SimpleQueue()
    servers = {name: Process(target=run, args=(group, name, said), daemon=True) for name in SERVERS}
    for server in servers.values():
        server.start()
    primary = ""
    for _ in SERVERS:
        name, role = said.get()
        primary = name if role == "primary" else primary

    def kill_primary() -> None:
        os.kill(servers[primary].pid or 0, signal.SIGKILL)
        show(f"{primary} is killed")

    is_right = asyncio.run(customers(group, kill_primary))
    for server in servers.values():
        server.kill()
        server.join()
    return 0 if is_right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
