"""Python calls for one datagram of 64 messages to an application that is ready.

    .venv/bin/python bench/calls.py           counts: sent, decoded, received
    .venv/bin/python bench/calls.py --tree    and which calls they are

Sent: from `submit` and `on_idle` to the list of datagrams.  Received: from `on_datagrams` to the
list of outputs; decoding comes before that, handing over to the application after it.

What is counted does not depend on how fast or how busy the machine is.
"""

import argparse
import sys
from collections.abc import Callable
from random import Random
from typing import Any

from semcast import Update, kernel
from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.ids import Incarnation
from semcast.terms.machine import FoundGroup
from semcast.wire import GROUP_CODEC, VIEW_CODEC, encode

MESSAGES = 64
WARM = 20
READY = 1 << 30
NAMES = [f"item-{number % 20}" for number in range(MESSAGES)]
UPDATES = [Update(bytes(100), name) for name in NAMES]


def calls(work: Callable[[], object]) -> list[str]:
    """The Python functions that run, indented by depth."""
    found: list[str] = []
    depth = 0

    def see(frame: Any, event: str, _: object) -> None:
        nonlocal depth
        if event == "call":
            found.append("  " * depth + frame.f_code.co_qualname)
        depth += {"call": 1, "return": -1}.get(event, 0)

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found[1:]  # The first is the work itself.


def between(sender: Any, receiver: Any, source: int, codec: Any) -> tuple[list[str], ...]:
    """The calls of a sender and of a receiver, once both have warmed up."""
    for turn in range(WARM):
        out = Effects(recording=False)
        sender.submit(UPDATES, turn / 1e5, out)
        sender.on_idle(turn / 1e5, out)
        for _, datagram in out.send:
            received = codec.decode(encode(datagram))
            receiver.on_datagrams(source, (received,), turn / 1e5, Effects(recording=False))
    out = Effects(recording=False)
    sent = calls(lambda: (sender.submit(UPDATES, 0.001, out), sender.on_idle(0.001, out)))
    data = encode(out.send[0][1])
    taken = Effects(recording=False)
    decoded: list[Any] = []
    decoding = calls(lambda: decoded.append(codec.decode(data)))
    received = calls(lambda: receiver.on_datagrams(source, (decoded[0],), 0.001, taken))
    assert taken.outputs or isinstance(receiver, ViewMember), "it was delivered at once"
    return sent, decoding, received


def fixed() -> tuple[list[str], ...]:
    """In a group of fixed members."""
    recipe = Recipe(members=3, buffer=4000, datagram_bytes=60_000, echo=False)
    sender, receiver = (Member(recipe, rank, Random(rank)) for rank in (0, 1))
    for member in (sender, receiver):
        member.on_ready(READY, 0.0, Effects(recording=False))
    return between(sender, receiver, 0, GROUP_CODEC)


def views(order: str) -> tuple[list[str], ...]:
    """In a view of three."""
    multicast = {"buffer": 4000, "datagram_bytes": 60_000, "echo": False}
    recipe = ViewRecipe(order=order, multicast=multicast)
    lives = tuple(Incarnation(pid, 1) for pid in range(3))
    members = [ViewMember(recipe, life, Random(life.pid), 0.0) for life in lives]
    for member in members:
        out = Effects(recording=False)
        member.on_command(FoundGroup(lives, 7), 0.0, out)
        member.on_ready(READY, 0.0, out)
    return between(members[1], members[2], 1, VIEW_CODEC)


def main() -> None:
    """One line for each kind of group."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", action="store_true", help="print the calls, too")
    asked = parser.parse_args()
    print(f"{kernel.BUILD} kernel, {MESSAGES} messages in one datagram")
    kinds = {"fixed": fixed, "views, fifo": lambda: views("fifo")}
    for name, find in {**kinds, "views, total": lambda: views("total")}.items():
        sent, decoding, received = find()
        counts = f"decoded with {len(decoding)}, received with {len(received)}"
        print(f"{name:14} sent with {len(sent)} calls, {counts}")
        if asked.tree:
            lines = ("SEND", *sent, "DECODE", *decoding, "RECEIVE", *received)
            print("\n".join(f"    {line}" for line in lines))


if __name__ == "__main__":
    main()
