"""One fault in an execution that was sound."""

from random import Random

import msgspec

from semcast.terms.events import CONFIRM, DELIVER, MULTICAST, Event

NOTES = {
    "install": ("", "0"),
    "join": ("", "0:1", "0:4 1:2"),
    "skip": ("", "lost", "age", "interest"),
    "reclaim": ("", "age"),
    "crash": ("", "disk"),
    "execute": ("update", "query"),
}


def spoil(rng: Random, events: list[Event], changes: dict[str, tuple[str, ...]]) -> None:
    """One fault: an event that is missing, out of place, or says something else.

    `changes` has, by kind, the numbers that may be wrong; events of other kinds are left alone.
    """
    kinds = sorted({event.kind for event in events} & changes.keys())
    if not kinds:
        return
    kind = rng.choice(kinds)
    place = rng.choice([place for place, event in enumerate(events) if event.kind == kind])
    event = events[place] = msgspec.structs.replace(events[place])
    elsewhere = () if kind == MULTICAST else ("missing", "moved", "moved")  # Integrity's concern.
    if kind == DELIVER and rng.random() < 0.3:
        double(rng, events, place)
    what = rng.choice((*elsewhere, *changes[kind] * 2))
    if what == "missing":
        del events[place]
    elif what == "moved":
        to = min(max(0, place + rng.randrange(-12, 12)), len(events) - 1)
        if is_possible(event, events[min(place, to) : max(place, to) + 1]):
            events.insert(to, events.pop(place))
    elif what == "note":
        event.note = rng.choice([note for note in NOTES[event.kind] if note != event.note])
    elif what == "members":
        event.members = tuple(rng.sample(event.members, rng.randint(1, len(event.members))))
    else:
        value = max(0, getattr(event, what) + rng.choice((-2, -1, 1, 2)))
        if what == "seq" and kind != CONFIRM:
            value = min(value, last_multicast(event.sender, events[:place])) or event.seq
        setattr(event, what, value)


def double(rng: Random, events: list[Event], place: int) -> None:
    """The same delivery again, later in the same life."""
    event = events[place]
    rest = events[place + 1 :]
    ends = (i for i, one in enumerate(rest) if not is_possible(event, [one]))
    to = place + 1 + rng.randint(0, next(ends, len(rest)))
    events.insert(to, msgspec.structs.replace(event))


def is_possible(event: Event, crossed: list[Event]) -> bool:
    """Lives do not overlap, and nobody speaks of messages before they are multicast."""
    return all(
        (one.pid != event.pid or one.inc == event.inc)
        and (one.kind != MULTICAST or one.sender != event.sender)
        for one in crossed
    )


def last_multicast(sender: int, events: list[Event]) -> int:
    """The number that the sender has come to."""
    sent = (one.seq for one in events if one.kind == MULTICAST and one.sender == sender)
    return max(sent, default=0)
