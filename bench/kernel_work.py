"""What the kernel is measured on: runs of 480 messages of 100 bytes, as a large datagram has them.

Functions that a kernel does not have are left out, so that kernels of different age compare.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from semcast import Update
from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.runtime.application.mailbox import Message as Letter
from semcast.terms.effects import Effects
from semcast.terms.messages import DataMessage
from semcast.terms.outputs import Delivery
from semcast.wire.codec import GROUP_CODEC, encode

RUN = 480
BATCHES = 40
ITEMS = [Random(1).randrange(500) << 40 for _ in range(RUN)]
NAMES = [f"item-{item >> 40}" for item in ITEMS]
PAYLOAD = bytes(100)
MESSAGES = tuple(
    DataMessage(1, place + 1, ITEMS[place], payload=PAYLOAD, name=NAMES[place])
    for place in range(RUN)
)
HELD = {message.seq: message for message in MESSAGES}
LETTERS = [Letter("b", NAMES[n], PAYLOAD, n + 1) for n in range(RUN)]
UPDATES = [Update(PAYLOAD, name) for name in NAMES]
ROOM = (RUN, 1 << 20, 1 << 20)

CALLS: dict[str, Callable[[Callable[..., Any]], object]] = {
    "size_of": lambda f: [f(message) for message in MESSAGES],
    "sizes_of": lambda f: f(MESSAGES),
    "payload_bytes": lambda f: f(MESSAGES),
    "payload_total": lambda f: f(LETTERS),
    "run_of": lambda f: f([*MESSAGES]),
    "runs_of": lambda f: f(MESSAGES),
    "with_item": lambda f: f(MESSAGES),
    "take_fitting": lambda f: f(HELD, 1, RUN, 1 << 20, True),
    "pop_range": lambda f: f(dict(HELD), 1, RUN),
    "drop_upto": lambda f: f(deque(MESSAGES), RUN),
}


def work(kernel: Any) -> dict[str, Callable[[], int]]:
    """By function of this kernel, something that calls it and returns how many messages it took."""
    calls = CALLS | _sending(kernel.ItemLabels()) if hasattr(kernel, "ItemLabels") else CALLS
    return {
        name: _calling(getattr(kernel, name), call)
        for name, call in calls.items()
        if hasattr(kernel, name)
    }


def _sending(labels: Any) -> dict[str, Callable[..., object]]:
    """Calls that older kernels do not understand."""
    return {
        "build_run": lambda f: f(1, 0, UPDATES, labels, *ROOM),
        "pack_run": lambda f: f(1, 0, UPDATES, labels, *ROOM),
    }


def _calling(function: Callable[..., Any], call: Callable[..., object]) -> Callable[[], int]:
    def run() -> int:
        for _ in range(BATCHES):
            call(function)
        return BATCHES * RUN

    return run


def member_to_member() -> int:
    """A member multicasts batches, another takes the datagrams; bytes in between, no sockets."""
    recipe = Recipe(members=2, buffer=2 * BATCHES * RUN, datagram_bytes=60_000)
    members = [Member(recipe, rank, Random(rank)) for rank in range(2)]
    for rank, member in enumerate(members):
        _carry(members, rank, 0.0, partial(member.on_ready, 1 << 40, 0.0))
    delivered = 0
    for batch in range(1, BATCHES + 1):
        now = batch / 1000
        delivered += _carry(members, 0, now, partial(members[0].submit, UPDATES, now))
        delivered += _carry(members, 0, now, partial(members[0].on_idle, now))
        for rank, member in enumerate(members):
            if now >= member.deadline:
                delivered += _carry(members, rank, now, partial(member.on_time, now))
    if delivered != 2 * BATCHES * RUN:
        raise SystemExit(f"{delivered} of {2 * BATCHES * RUN} deliveries happened")
    return delivered


def _carry(
    members: Sequence[Member], rank: int, now: float, call: Callable[[Effects], object]
) -> int:
    """Call a member, and carry out what it asks for and what follows; returns the deliveries."""
    out = Effects(recording=False)
    call(out)
    delivered = sum(each.run.count for each in out.outputs if isinstance(each, Delivery))
    for _, datagram in out.send:
        taker = 1 - rank
        received = GROUP_CODEC.decode(encode(datagram))
        delivered += _carry(
            members, taker, now, partial(members[taker].on_datagrams, rank, (received,), now)
        )
    return delivered
