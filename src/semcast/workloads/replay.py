"""Replay of recorded keyed rows as a stream of updates with item tags.

What a row means, by its kind:
  U  update: supersedes the latest earlier U on its key, unless a C or D of that key lies between
  D  delete: supersedes that U too, and is itself never superseded
  C  create, R  one-off: neither supersede nor are superseded
A key therefore lives in generations, each an item of its own.  C and D end one; D carries the
tag of the generation it ends.  So equal tags say exactly the above (and its transitive closure).
What may never be superseded is also marked `never_purge`.

Rejected: one tag per key, with D and C told apart by their payload; the protocol never looks
into a payload [SRM §3.2].
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.items import item_tag
from semcast.terms.messages import Update
from semcast.workloads.distances import distances
from semcast.workloads.payloads import numbered_payload

UPDATE: Final = "U"
CREATE: Final = "C"
DELETE: Final = "D"
ONE_OFF: Final = "R"
KINDS: Final = (UPDATE, CREATE, DELETE, ONE_OFF)

# key, kind, time in µs if known, payload bytes
ReplayRow: TypeAlias = tuple[str, str, int | None, int]


def replay(rows: Iterable[ReplayRow]) -> Iterator[Update]:
    """One update per row; the payload has the row's size and begins with its number."""
    for number, (name, exempt, size) in enumerate(_named(rows)):
        yield Update(
            payload=numbered_payload(number, size),
            item=None if name is None else item_tag(name),
            never_purge=exempt,
        )


def row_distances(rows: Iterable[ReplayRow]) -> Iterator[int]:
    """D of each row: places back to the row it supersedes, 0 if it supersedes none."""
    return distances(row_links(rows))


def row_links(rows: Iterable[ReplayRow]) -> Iterator[tuple[str | None, bool]]:
    """For each row the name of its item, if any, and whether it may never be superseded."""
    return ((name, exempt) for name, exempt, _ in _named(rows))


def _named(rows: Iterable[ReplayRow]) -> Iterator[tuple[str | None, bool, int]]:
    """Item name, exemption and size of each row; checks the rows."""
    generations: dict[str, int] = {}
    for key, kind, _, size in rows:
        if kind not in KINDS:
            raise unknown_value("kind", kind, KINDS)
        if size < 0:
            raise ConfigError(f"size: {size} is not allowed, must be 0 or more")
        generation = generations.get(key, 0)
        # The last "@" divides, so no key can pass for another key's generation.
        name = f"{key}@{generation}" if kind in (UPDATE, DELETE) else None
        if kind in (CREATE, DELETE):
            generations[key] = generation + 1
        yield name, kind != UPDATE, size
