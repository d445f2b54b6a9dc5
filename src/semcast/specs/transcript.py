"""Traces as text, one event a line, to read in a report and to write by hand in a test.

    0 multicast 0:1 item=7
    0 multicast 0:4 list=1,2 declared=3
    1 receive 0:1
    1 purge 0:1 by=2 note=delivery
    1 deliver 0:2
    1 leave peer=2
    2 install inc=2 view=4 members=0,2
    2 execute note=update client=7 request=1 position=3

A deliver that says nothing about its message delivers what was multicast under that number.  A
multicast declares what its list or bitmap says, unless `declared` has other numbers.
Bitmaps and payloads are hexadecimal.  Times, local indices, buffer levels and causal
dependencies are left out; monitors use none of them.
"""

from collections.abc import Iterable
from typing import Final

from semcast.specs.relation import distances
from semcast.terms.events import DEFAULTS, DELIVER, EVENT_FIELDS, MULTICAST, Event
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage

NOTHING: Final = "none"
_LEFT_OUT: Final = ("n", "ts_ns", "buffered")
# Numbers that only some events have, beside those with a notation of their own, by their default.
_NUMBERS: Final = {
    name: DEFAULTS[name]
    for name in (*EVENT_FIELDS, "lineage")
    if name
    not in {"kind", "pid", "sender", "seq", "by_seq", "peer", "members", "declared", *_LEFT_OUT}
}


def lines(events: Iterable[Event]) -> str:
    """The transcript of `events`."""
    return "\n".join(line(event) for event in events)


def line(event: Event) -> str:
    """One event as one line, without its end."""
    words = [str(event.pid), event.kind]
    if event.sender >= 0:
        words.append(f"{event.sender}:{event.seq}")
    if event.by_seq:
        words.append(f"by={event.by_seq}")
    if event.peer >= 0:
        words.append(f"peer={event.peer}")
    if event.note:
        words.append(f"note={event.note.replace(' ', ',')}")
    for name, nothing in _NUMBERS.items():
        if (value := getattr(event, name)) != nothing:
            words.append(f"{name}={value}")
    if event.members:
        words.append("members=" + ",".join(map(str, event.members)))
    if event.message is not None:
        words.extend(_annotation(event.message))
        if event.kind == MULTICAST and event.declared != _listed(event.message):
            words.append("declared=" + (",".join(map(str, event.declared)) or NOTHING))
    if event.declares:
        words.append(f"declares={event.declares.replace(' ', ',')}")
    return " ".join(words)


def _annotation(message: DataMessage) -> Iterable[str]:
    if message.item is not None:
        yield f"item={message.item}"
    if message.covers:
        if isinstance(message.covers, tuple):
            yield "list=" + ",".join(map(str, message.covers))
        else:
            yield f"bitmap={message.covers.hex()}"
    if message.never_purge:
        yield "keep"
    if message.payload:
        yield f"payload={message.payload.hex()}"


def parse(text: str) -> list[Event]:
    """The events of a transcript.  Empty lines and what follows a # are ignored."""
    multicast: dict[tuple[Rank, int, Seq], DataMessage] = {}
    events = []
    for row in text.splitlines():
        words = row.partition("#")[0].split()
        if words:
            events.append(_event(words, multicast))
    return events


def _event(words: list[str], multicast: dict[tuple[Rank, int, Seq], DataMessage]) -> Event:
    pid, kind, *rest = words
    event = Event(kind=kind, pid=int(pid))
    if rest and "=" not in rest[0]:
        sender, _, seq = rest.pop(0).partition(":")
        event.sender, event.seq = int(sender), int(seq)
    options = dict(_option(word) for word in rest)
    event.by_seq = int(options.pop("by", "0"))
    event.peer = int(options.pop("peer", "-1"))
    event.note = options.pop("note", "").replace(",", " ")
    for name in _NUMBERS.keys() & options.keys():
        setattr(event, name, int(options.pop(name)))
    if "members" in options:
        event.members = tuple(int(pid) for pid in options.pop("members").split(","))
    declared, event.declares = options.pop("declared", None), options.pop("declares", "")
    event.declares = event.declares.replace(",", " ")
    if kind in (MULTICAST, DELIVER):
        source = event.sender, event.sender_inc, event.seq
        known = multicast.get(source)
        own = _message(event.sender, event.seq, options)
        event.message = own if options or known is None else known
        if kind == MULTICAST:
            multicast.setdefault(source, own)
            event.message = own
            event.declared = _listed(own) if declared is None else _numbers(declared)
    elif options:
        raise ValueError(f"{' '.join(words)}: {', '.join(options)} does not belong to {kind}")
    return event


def _option(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _message(sender: Rank, seq: Seq, options: dict[str, str]) -> DataMessage:
    unknown = options.keys() - {"item", "list", "bitmap", "keep", "payload"}
    if unknown:
        raise ValueError(f"{sender}:{seq}: unknown {', '.join(sorted(unknown))}")
    covers: bytes | tuple[int, ...] = bytes.fromhex(options.get("bitmap", ""))
    if "list" in options:
        covers = tuple(int(distance) for distance in options["list"].split(","))
    return DataMessage(
        sender=sender,
        seq=seq,
        item=int(options["item"]) if "item" in options else None,
        covers=covers,
        never_purge="keep" in options,
        payload=bytes.fromhex(options.get("payload", "")),
    )


def _listed(message: DataMessage) -> tuple[Seq, ...]:
    return tuple(sorted(message.seq - distance for distance in distances(message)))


def _numbers(text: str) -> tuple[Seq, ...]:
    return () if text == NOTHING else tuple(int(word) for word in text.split(","))
