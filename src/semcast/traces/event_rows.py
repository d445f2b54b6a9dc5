"""From events to the columns of a trace and back, by the table in `terms/events.py`.

A trace keeps the item, the distances, the size and a digest of the payload, not the payload.  A
reader puts the eight bytes of the digest in its place: equal where payloads were equal.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, TypeAlias

from semcast.terms.declared import DECLARES
from semcast.terms.events import (
    ATTRIBUTES,
    COLUMNS,
    DEFAULTS,
    EVENT_FIELDS,
    INSTALL,
    INT32_LIST,
    INT64_LIST,
    MULTICAST,
    Event,
)
from semcast.terms.messages import DataMessage
from semcast.terms.relations import RELATIONS, base_name
from semcast.traces.arrow import pyarrow
from semcast.traces.distance_tracker import (
    BITMAP_BYTES_MAX,
    DistanceTracker,
    covers_of,
    distances_covered,
)

EventRow: TypeAlias = tuple[Any, ...]  # values of `ROW`, with defaults in place of nulls

_OF_THE_MESSAGE: Final = ("item", "dist", "covers", "size", "digest")
_OF_THE_EVENT: Final = tuple(
    name for name in EVENT_FIELDS if name not in ("kind", *_OF_THE_MESSAGE)
)
ROW: Final = (*_OF_THE_EVENT, *_OF_THE_MESSAGE, "attrs")
_values_of: Final = attrgetter(*_OF_THE_EVENT)
_NO_MESSAGE: Final = (None, None, None, None)
_NOTE: Final = ATTRIBUTES["note"].names
_NOTES: Final = frozenset(_NOTE.values())
_LISTS: Final = (INT32_LIST, INT64_LIST)


def row_of(
    event: Event, distances: DistanceTracker, payload: tuple[int, int] | None = None
) -> EventRow:
    """The row of an event; `distances` learns from each multicast.  `payload` is the size and the
    digest of the payload where the message itself no longer has it."""
    message = event.message
    if message is None:
        return (*_values_of(event), *_NO_MESSAGE, event.digest, _attrs(event))
    if event.kind == MULTICAST:
        distances.on_multicast(message)
    size, seen = payload or (len(message.payload), digest(message.payload))
    covers = distances_covered(message) or None
    about = (message.item, distances.of(message), covers, size, seen)
    return (*_values_of(event), *about, _attrs(event))


def columns_of(rows: Sequence[EventRow]) -> dict[str, Sequence[Any]]:
    """The columns that these rows fill, with nulls where an event has nothing to say."""
    raw: dict[str, Sequence[Any]] = dict(zip(ROW, zip(*rows, strict=True), strict=True))
    raw["by_sender"], raw["by_inc"] = _superseding(raw)
    cells: dict[str, Sequence[Any]] = {}
    for name, values in raw.items():
        column = COLUMNS[name]
        if column.beside:
            beside, nothing = raw[column.beside], DEFAULTS[column.beside]
            pairs = zip(values, beside, strict=True)
            cells[name] = [None if other == nothing else value for value, other in pairs]
        elif column.keeps_default or name not in DEFAULTS:
            cells[name] = values
        else:
            cells[name] = _with_nulls(values, DEFAULTS[name])
    return cells


def _superseding(raw: Mapping[str, Sequence[Any]]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The sender of `by_seq` and its incarnation: those of the row, unless the event names one."""
    if not any(raw["by_seq"]):
        return raw["by_sender"], raw["by_inc"]
    names = ("by_sender", "by_inc", "sender", "sender_inc")
    whose = [
        (sender, inc) if by_sender < 0 else (by_sender, by_inc)
        for by_sender, by_inc, sender, inc in zip(*(raw[name] for name in names), strict=True)
    ]
    return [sender for sender, _ in whose], [inc for _, inc in whose]


def _with_nulls(values: Sequence[Any], nothing: Any) -> Sequence[Any]:
    absent = values.count(nothing)
    if not absent:
        return values
    if absent == len(values):
        return [None] * absent
    return [None if value == nothing else value for value in values]


def fault_in(table: Any, relation: str) -> tuple[int, str] | None:
    """The first row that no writer would have written, and what is wrong with it."""
    faults = [*_wrong_numbers(table), *_wrong_lists(table, relation), *_wrong_attributes(table)]
    pc = pyarrow("compute")
    has_message = pc.and_(pc.is_valid(table["digest"]), pc.is_valid(table["seq"]))
    lost = pc.and_(has_message, pc.is_null(table["sender"]))
    if pc.any(lost).as_py():
        place = pc.index(lost, True).as_py()
        faults.append((place, "column sender is empty, though the row has a message"))
    return min(faults, default=None)


def _wrong_numbers(table: Any) -> Iterable[tuple[int, str]]:
    pc = pyarrow("compute")
    for name, column in COLUMNS.items():
        if column.minimum is None or column.type in _LISTS:
            continue
        minimum = pc.min(table[name]).as_py()
        if minimum is not None and minimum < column.minimum:
            place = pc.index(pc.less(table[name], column.minimum), True).as_py()
            value = table[name][place].as_py()
            yield place, f"column {name} is {value}, must be {column.minimum} or more"


def _wrong_lists(table: Any, relation: str) -> Iterable[tuple[int, str]]:
    facts = RELATIONS.get(base_name(relation))
    far = 8 * BITMAP_BYTES_MAX if facts is not None and facts.covers is bytes else None
    for name, column in COLUMNS.items():
        if column.type not in _LISTS or table[name].null_count == table.num_rows:
            continue
        minimum = column.minimum or 0
        for place, numbers in enumerate(table[name].to_pylist()):
            wrong = [each for each in numbers or () if each is None or each < minimum]
            if wrong:
                yield place, f"column {name} has {wrong[0]}, must be {minimum} or more"
                break
            if name == "covers" and far is not None and max(numbers or (), default=0) > far:
                yield place, f"column covers has {max(numbers):,}, a bitmap reaches {far:,} back"
                break


def _wrong_attributes(table: Any) -> Iterable[tuple[int, str]]:
    for name, (is_right, rule) in _ATTRIBUTE_RULES.items():
        values = attribute(table, name)
        if values is None or all(map(is_right, set(values))):
            continue
        place = next(place for place, value in enumerate(values) if not is_right(value))
        yield place, f"attribute {name} {rule.format(repr(values[place][:40]))}"


def _is_deps(text: str) -> bool:
    try:
        _deps(text)
    except ValueError:
        return False
    return True


_ATTRIBUTE_RULES: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "deps": (_is_deps, "is not a list of RANK:SEQ"),
    "lineage": (
        re.compile("|[0-9a-f]{1,16}").fullmatch,
        "is {}, must be 16 hexadecimal digits",
    ),
    "declares": (DECLARES.fullmatch, "is {}, must be item=N or never_purge=N"),
}


def events_of(table: Any, kinds: Sequence[str], relation: str) -> list[Event]:
    """The events of a table without faults, whose kinds these are.  Columns that no event of the
    table fills cost nothing."""
    cells: dict[str, Iterable[Any]] = {"kind": kinds}
    for name in EVENT_FIELDS:
        values = None if name in ("kind", "digest") else numbers(table[name], DEFAULTS[name])
        if values is not None:
            cells[name] = values
    _drop_own(cells)
    if table["digest"].null_count < table.num_rows:
        cells["message"], cells["digest"] = _messages(table, cells, relation)
    if notes := {name: found for name in _NOTES if (found := attribute(table, name))}:
        nothing = [""] * table.num_rows
        by_kind = {kind: notes.get(name, nothing) for kind, name in _NOTE.items()}
        cells["note"] = [by_kind[kind][place] for place, kind in enumerate(kinds)]
    if lineages := attribute(table, "lineage"):
        cells["lineage"] = [int(text or "0", 16) for text in lineages]
    if declares := attribute(table, "declares"):
        cells["declares"] = declares
    fields = Event.__struct_fields__
    used = max(fields.index(name) for name in cells) + 1
    return list(map(Event, *(cells.get(name, repeat(DEFAULTS[name])) for name in fields[:used])))


def numbers(column: Any, otherwise: Any) -> list[Any] | None:
    """The values of a column with another in place of null; None if the column has none."""
    if column.null_count == len(column):
        return None
    if pyarrow("types").is_list(column.type):
        return [tuple(each or ()) for each in column.to_pylist()]
    filled = column.fill_null(otherwise) if column.null_count else column
    values: list[Any] = filled.to_numpy().tolist()
    return values


def attribute(table: Any, name: str) -> list[str] | None:
    """An attribute of each row, "" where there is none; None if no row has it."""
    column = table["attrs"]
    if column.null_count == table.num_rows:
        return None
    values = pyarrow("compute").map_lookup(column, name, "last")
    if values.null_count == table.num_rows:
        return None
    texts: list[str] = values.fill_null("").to_pylist()
    return texts


def _drop_own(cells: dict[str, Iterable[Any]]) -> None:
    """An event names the sender of `by_seq` only if it is another one."""
    if "by_sender" not in cells:
        return
    one = repeat(1)
    columns = (cells.get(name, one) for name in ("by_sender", "by_inc", "sender", "sender_inc"))
    whose = [
        (-1, 1) if (by_sender, by_inc) == (sender, inc) else (by_sender, by_inc)
        for by_sender, by_inc, sender, inc in zip(*columns, strict=False)
    ]
    cells["by_sender"], cells["by_inc"] = zip(*whose, strict=True)


def _messages(
    table: Any,
    cells: Mapping[str, Iterable[Any]],
    relation: str,
) -> tuple[list[DataMessage | None], Sequence[int | None]]:
    """The messages of the rows that have one, and the digests of the others."""
    digests, rows = table["digest"].to_pylist(), table.num_rows
    senders, seqs = cells.get("sender", repeat(-1)), cells.get("seq", repeat(0))
    items = table["item"].to_pylist() if table["item"].null_count < rows else repeat(None)
    covers = (
        [covers_of(each, relation) for each in table["covers"].to_pylist()]
        if table["covers"].null_count < rows
        else repeat(covers_of(None, relation))
    )
    numbered = table["seq"].is_valid().to_pylist() if table["seq"].null_count else repeat(True)
    purging = attribute(table, "never_purge")
    never_purged = repeat(False) if purging is None else [each == "1" for each in purging]
    causes = attribute(table, "deps")
    deps = repeat(()) if causes is None else [_deps(each) if each else () for each in causes]
    parts = zip(digests, numbered, senders, seqs, items, covers, never_purged, deps, strict=False)
    messages = [
        DataMessage(
            sender, seq, item, annotation, keep, after, seen.to_bytes(8, "big", signed=True)
        )
        if seen is not None and is_numbered
        else None
        for seen, is_numbered, sender, seq, item, annotation, keep, after in parts
    ]
    others = zip(messages, digests, strict=True)
    return messages, [seen if message is None else None for message, seen in others]


def digest(payload: bytes) -> int:
    """BLAKE2b of a payload: 64 bits, big-endian, signed."""
    return int.from_bytes(blake2b(payload, digest_size=8).digest(), "big", signed=True)


def _attrs(event: Event) -> tuple[tuple[str, str], ...] | None:
    attrs: list[tuple[str, str]] = []
    if event.lineage and event.kind == INSTALL:
        attrs.append(("lineage", f"{event.lineage:016x}"))
    if event.note:
        attrs.append((_NOTE[event.kind], event.note))
    if event.declares:
        attrs.append(("declares", event.declares))
    message = event.message
    if message is not None and message.never_purge:
        attrs.append(("never_purge", "1"))
    if message is not None and message.after:
        attrs.append(("deps", " ".join(f"{rank}:{seq}" for rank, seq in message.after)))
    return tuple(attrs) or None


def _deps(text: str) -> tuple[tuple[int, int], ...]:
    pairs = (pair.split(":") for pair in text.split())
    return tuple((int(rank), int(seq)) for rank, seq in pairs)
