"""A game world that every player sees: positions of what each of them moves.

    python examples/game_world.py        four processes, one player each; the last one is slow

Every player moves its own creatures and tells the group where they are: one item for each
creature, so a position supersedes the one before.  With order "item" a newer position takes the
place of the older one in the queue of a slow player, which so sees its world move evenly.  A
creature that dies gets a tombstone: that supersedes its positions, and nothing supersedes it.
"""

import asyncio
import os
import random
import signal
import sys
from multiprocessing import Pool

import semcast

PLAYERS = ["ann", "bob", "cem", "dot"]
SLOW = "dot"
CREATURES = 5
MOVES = 100
FRAME_S = 0.02

World = dict[str, str]  # creature -> position


async def play(group: semcast.Group) -> World:
    """Move this player's creatures; the first of them dies half-way.  Returns where they are."""
    mine = {f"{group.member}/{number}": [0, 0] for number in range(CREATURES)}
    for frame in range(MOVES):
        if frame == MOVES // 2:
            dead = next(iter(mine))
            del mine[dead]
            await group.tombstone(dead)
        for creature, position in mine.items():
            position[random.randrange(2)] += random.choice((-1, 1))
            await group.multicast(show(position).encode(), item=creature)
        await asyncio.sleep(FRAME_S)
    await group.multicast(b"done", never_purge=True)
    return {creature: show(position) for creature, position in mine.items()}


async def see(group: semcast.Group) -> tuple[World, int, int]:
    """Follow the world until all are done; returns it, the deaths seen, the positions skipped."""
    world: World = {}
    done: set[str] = set()
    deaths = skipped = 0
    async for message in group:
        skipped += message.skipped
        if message.item is None:
            done.add(message.sender)
            if len(done) == len(group.members):
                break
        elif message.kept:
            world.pop(message.item, None)  # A tombstone; its creature was perhaps never seen.
            deaths += 1
        else:
            world[message.item] = message.payload.decode()
        if group.member == SLOW:
            await asyncio.sleep(0.003)
    return world, deaths, skipped


def show(position: list[int]) -> str:
    return f"{position[0]},{position[1]}"


async def take_part(group_name: str, player: str) -> tuple[World, World, int, int]:
    async with semcast.join(group_name, members=len(PLAYERS), name=player, order="item") as group:
        mine, (world, deaths, skipped) = await asyncio.gather(play(group), see(group))
    print(f"{player}: sees {len(world)} creatures, skipped {skipped:,} positions")
    return mine, world, deaths, skipped


def run(group_name: str, player: str) -> tuple[World, World, int, int]:
    return asyncio.run(take_part(group_name, player))


def main() -> int:
    group_name = f"game-{os.getpid()}"  # Two runs at the same time must not meet.
    # Ctrl-C reaches this process alone, and `with` ends the others.
    with Pool(len(PLAYERS), signal.signal, (signal.SIGINT, signal.SIG_IGN)) as processes:
        ran = processes.starmap(run, [(group_name, player) for player in PLAYERS], chunksize=1)
    owned, worlds, deaths, skipped = zip(*ran, strict=True)

    truth = {creature: position for mine in owned for creature, position in mine.items()}
    agreed = all(world == truth for world in worlds)
    mourned = all(count == len(PLAYERS) for count in deaths)
    slow_skipped = skipped[PLAYERS.index(SLOW)]
    print(
        f"\n{len(PLAYERS)} players moved {CREATURES} creatures each, of which one died."
        f"\nAll see the same {len(truth)} creatures where their owners left them: {agreed}."
        f"\nThe slow player, {SLOW}, skipped {slow_skipped:,} positions that were superseded."
        f"\nNobody missed a death: {mourned}."
    )
    return 0 if agreed and mourned and slow_skipped else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
