"""The automata of reliable multicast accept good traces and reject bad ones, and run."""

from collections.abc import Callable
from random import Random

import pytest

from semcast.specs.automaton import execute
from semcast.specs.channel import UnreliableChannel
from semcast.specs.monitors import Monitors
from semcast.specs.multicast_with_crashes import AtLeastOnce, MulticastWithCrashes
from semcast.specs.reliable_multicast import ReliableMulticast
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    ACKNOWLEDGE,
    APPEND,
    CRASH,
    DELIVER,
    JOIN,
    LEAVE,
    MULTICAST,
    RECLAIM,
    RECOVER,
    SKIP,
    Event,
)
from semcast.terms.messages import DataMessage

LOGGER = 3
FIXED, CRASHES, AGAIN = ReliableMulticast, MulticastWithCrashes, AtLeastOnce
JOINS = [Event(JOIN, pid) for pid in range(3)]
DISK_LOST = Event(CRASH, LOGGER, note="disk")
BACK_0, BACK_1 = ([Event(CRASH, pid), Event(RECOVER, pid)] for pid in (0, 1))


def sent(seq: int, item: int | None = None) -> Event:
    return Event(MULTICAST, 0, 0, seq, DataMessage(0, seq, item))


def got(pid: int, *seqs: int) -> list[Event]:
    return [Event(DELIVER, pid, 0, seq) for seq in seqs]


def skip(pid: int, seq: int, note: str = "", by: int = 0) -> Event:
    return Event(SKIP, pid, 0, seq, by_seq=by, note=note)


def promised(seq: int) -> list[Event]:
    return [Event(APPEND, LOGGER, 0, seq), Event(ACKNOWLEDGE, 0, 0, seq)]


def judge(kind: type[ReliableMulticast], trace: list[Event], owed: tuple[int, ...]) -> list[str]:
    ledger = ViolationLog()
    automaton = kind(4, "item", ledger)
    watches = automaton.handlers()
    for event in trace:
        if event.kind in watches:
            watches[event.kind](event)
    automaton.on_end(owed)
    return [violation.explanation for violation in ledger.stored]


ALL_GOT = [*got(0, 1), *got(1, 1), *got(2, 1)]

GOOD: dict[str, tuple[type[ReliableMulticast], list[Event], tuple[int, ...]]] = {
    "everybody delivers": (FIXED, [sent(1), *ALL_GOT], (0, 1, 2)),
    "in any order": (FIXED, [sent(1), sent(2), *got(1, 2, 1)], (1,)),
    "superseded, the newer delivered": (
        FIXED,
        [sent(1, 7), sent(2, 7), *got(1, 2), skip(1, 1, by=2)],
        (1,),
    ),
    "superseded, the newer still comes": (
        FIXED,
        [sent(1, 7), sent(2, 7), skip(1, 1, by=2), *got(1, 2)],
        (1,),
    ),
    "declined by the application": (FIXED, [sent(1), skip(1, 1, "interest")], (1,)),
    "nobody is owed anything before it joins": (CRASHES, [sent(1)], (1, 2)),
    "owed from the join time on": (
        CRASHES,
        [sent(1), sent(2), Event(JOIN, 1, note="0:1"), *got(1, 2)],
        (1,),
    ),
    "who left is owed nothing": (CRASHES, [*JOINS, sent(1), Event(LEAVE, 1)], (1,)),
    "who was forgotten is owed nothing": (
        CRASHES,
        [*JOINS, sent(1), Event(LEAVE, 0, peer=1)],
        (1,),
    ),
    "who is down is owed nothing": (CRASHES, [*JOINS, sent(1), Event(CRASH, 1)], (1,)),
    "an unpromised message dies with its sender": (
        CRASHES,
        [*JOINS, sent(1), Event(CRASH, 0), *got(1, 1)],
        (1, 2),
    ),
    "a gap takes what was in doubt": (
        CRASHES,
        [
            *JOINS,
            sent(1),
            sent(2),
            *promised(1),
            Event(CRASH, 0),
            Event(RECOVER, 0),
            *got(1, 1),
            skip(1, 2, "block"),
            skip(1, 8, "block"),
        ],
        (1,),
    ),
    "lost with the last disk that had it": (
        CRASHES,
        [*JOINS, sent(1), *promised(1), DISK_LOST, skip(1, 1, "lost")],
        (1,),
    ),
    "too old": (
        CRASHES,
        [*JOINS, sent(1), Event(RECLAIM, LOGGER, 0, 1, note="age"), skip(1, 1, "age")],
        (1,),
    ),
    "rejoined from scratch": (
        CRASHES,
        [
            *JOINS,
            sent(1),
            Event(CRASH, 1),
            Event(RECOVER, 1),
            Event(JOIN, 1, note="0:1"),
            sent(2),
            *got(1, 2),
        ],
        (1,),
    ),
    "delivered again after a crash": (
        AGAIN,
        [*JOINS, sent(1), *got(1, 1), *BACK_1, *got(1, 1)],
        (1,),
    ),
}

BAD: dict[str, tuple[type[ReliableMulticast], list[Event], tuple[int, ...], str]] = {
    "never delivered": (FIXED, [sent(1)], (1,), "never delivered 0:1"),
    "never sent": (FIXED, got(1, 1), (), "deliver of 0:1 at process 1 is not enabled"),
    "twice": (FIXED, [sent(1), *got(1, 1, 1)], (), "deliver of 0:1 at process 1"),
    "one number, two messages": (FIXED, [sent(1), sent(1)], (), "multicast of 0:1"),
    "skipped though nothing newer": (FIXED, [sent(1, 7), skip(1, 1, by=2)], (), "superseded"),
    "skipped for another item": (
        FIXED,
        [sent(1, 7), sent(2, 8), skip(1, 1, by=2)],
        (),
        "skip (superseded) of 0:1",
    ),
    "the last word was skipped too": (
        FIXED,
        [sent(1, 7), sent(2, 7), skip(1, 1, by=2), skip(1, 2, by=3)],
        (),
        "skip (superseded) of 0:2",
    ),
    "delivered without joining": (CRASHES, [sent(1), *got(1, 1)], (), "deliver of 0:1"),
    "delivered from before the join": (
        CRASHES,
        [sent(1), Event(JOIN, 1, note="0:1"), *got(1, 1)],
        (),
        "deliver of 0:1 at process 1",
    ),
    "delivered while down": (
        CRASHES,
        [*JOINS, sent(1), Event(CRASH, 1), *got(1, 1)],
        (),
        "deliver of 0:1",
    ),
    "sent while down": (CRASHES, [Event(CRASH, 0), sent(1)], (), "multicast of 0:1"),
    "crashed twice": (CRASHES, [Event(CRASH, 0), Event(CRASH, 0)], (), "crash of"),
    "a promised message is owed": (
        CRASHES,
        [*JOINS, sent(1), *promised(1), Event(CRASH, 0)],
        (1,),
        "never delivered 0:1",
    ),
    "a gap over a promised number": (
        CRASHES,
        [*JOINS, sent(1), *promised(1), Event(CRASH, 0), skip(1, 1, "block")],
        (),
        "skip (block) of 0:1",
    ),
    "a gap over what a living sender sent": (
        CRASHES,
        [*JOINS, sent(1), skip(1, 1, "block")],
        (),
        "skip (block) of 0:1",
    ),
    "said to be lost, though a disk has it": (
        CRASHES,
        [
            *JOINS,
            sent(1),
            *promised(1),
            Event(APPEND, 2, 0, 1),
            DISK_LOST,
            skip(1, 1, "lost"),
        ],
        (),
        "skip (lost) of 0:1",
    ),
    "said to be too old, though nothing was collected": (
        CRASHES,
        [*JOINS, sent(1), skip(1, 1, "age")],
        (),
        "skip (age) of 0:1",
    ),
    "delivered again, but at most once is promised": (
        CRASHES,
        [
            *JOINS,
            sent(1),
            *got(1, 1),
            Event(CRASH, 1),
            Event(RECOVER, 1),
            Event(JOIN, 1),
            *got(1, 1),
        ],
        (),
        "deliver of 0:1 at process 1",
    ),
    "delivered again without a crash": (
        AGAIN,
        [*JOINS, sent(1), *got(1, 1, 1)],
        (),
        "deliver of 0:1 at process 1",
    ),
    "delivered twice again": (
        AGAIN,
        [*JOINS, sent(1), *got(1, 1), *BACK_1, *got(1, 1, 1)],
        (),
        "deliver of 0:1 at process 1",
    ),
    "a crash of the receiver loses nothing": (
        AGAIN,
        [*JOINS, sent(1), *BACK_1],
        (1,),
        "never delivered 0:1",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_accepts(name: str) -> None:
    assert judge(*GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_rejects(name: str) -> None:
    kind, trace, owed, says = BAD[name]
    (found,) = judge(kind, trace, owed)
    assert says in found


def stream(i: int, rng: Random) -> list[DataMessage]:
    return [DataMessage(i, seq, rng.choice((None, 1, 2))) for seq in range(1, rng.randint(1, 8))]


@pytest.mark.parametrize("kind", [FIXED, CRASHES, AGAIN])
def test_an_execution_of_the_automaton_is_accepted_by_it_and_by_the_monitors(
    kind: type[ReliableMulticast],
) -> None:
    seen: set[str] = set()
    for seed in range(100):
        rng = Random(seed)
        automaton = kind(4, "item", ViolationLog())
        plan = [stream(i, rng) for i in range(3)] + [[]]
        outcome = execute(automaton.actions(plan), rng, free_steps=80, steps_max=2000)
        assert outcome.quiescent
        assert judge(kind, automaton.events, (0, 1, 2)) == []
        seen |= {event.kind for event in automaton.events}
        if kind is not AGAIN:  # it delivers twice on purpose
            monitors = Monitors("pbcast", "none", "item", 0, 4)
            for event in automaton.events:
                monitors.on_event(event)
            assert monitors.violations == []
    expected = {MULTICAST, DELIVER} | (set() if kind is FIXED else {JOIN, CRASH, RECOVER})
    assert seen == expected


def channel(*steps: Callable[[UnreliableChannel], None]) -> list[str]:
    ledger = ViolationLog()
    made = UnreliableChannel(3, 2, ledger)
    for step in steps:
        step(made)
    return [violation.explanation for violation in ledger.stored]


def test_the_channel_drops_and_doubles() -> None:
    assert not channel(
        lambda c: c.multisend(0, b"m"),
        lambda c: c.receive(1, 0, b"m"),
        lambda c: c.receive(1, 0, b"m"),
        lambda c: c.unisend(1, 2, b"n"),
    )


@pytest.mark.parametrize("step", [(0, 1, b"m"), (2, 0, b"m"), (1, 0, b"n")])
def test_the_channel_creates_nothing(step: tuple[int, int, bytes]) -> None:
    (found,) = channel(lambda c: c.unisend(0, 1, b"m"), lambda c: c.receive(*step))
    assert "had not sent it" in found


def test_the_channel_doubles_finitely_often() -> None:
    assert channel(
        lambda c: c.unisend(0, 1, b"m"), *[lambda c: c.receive(1, 0, b"m") for _ in range(3)]
    )


def test_the_channel_owes_one_of_many_to_who_listens() -> None:
    silent = [lambda c: c.be_fair(), *[lambda c: c.unisend(0, 1, b"m") for _ in range(10)]]
    assert not channel(*silent, lambda c: c.on_end((0, 2), 10))
    assert not channel(*silent, lambda c: c.on_end((1,), 11))
    assert channel(*silent, lambda c: c.on_end((1,), 10)) == [
        "none of 10 datagrams from 0 reached 1"
    ]
    assert not channel(*silent, lambda c: c.receive(1, 0, b"m"), lambda c: c.on_end((1,), 10))
