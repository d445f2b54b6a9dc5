"""Who is thought to take part: approximate, merged by freshness, never agreed on [RPB §5.3].

Idea: the founders are known to all from the recipe; a process keeps only what it has heard beyond
that, so ten thousand members share one number.  The signature covers what is kept.
Departs: the thesis lists every member with its last number; ours are the signatures' business.
"""

from collections.abc import Iterable, Iterator
from random import Random

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.signature import MASK, mix
from semcast.terms.ids import Rank
from semcast.terms.pubsub import ENTRIES_MAX, LEFT, MEMBER, Entry, Members

DRAWS_MAX = 32


class Roster:
    """Lives as long as the participant.

    Invariant: `beyond` differs from what the recipe says of each process; `signature` sums it up;
    `owed` counts those that have not left.
    """

    def __init__(self, recipe: PubsubRecipe, pid: Rank, unaware_of: Iterable[Rank] = ()) -> None:
        self.pid = pid
        self.members = recipe.members
        self.founders = recipe.founders
        self.beyond: dict[Rank, Entry] = {}
        self.others = [p for p in recipe.keepers if p >= recipe.founders]  # to be drawn as well
        self.others_from_start = frozenset(self.others)
        self.away: dict[Rank, None] = {}  # not to be drawn
        self.owed = recipe.founders + len(self.others)
        self.fresh = 0  # what this process last said of itself
        self.signature = 0
        self.news: dict[Rank, None] = {}  # of whom something new was heard since last asked
        for stranger in unaware_of:
            if stranger != pid:
                self._replace(self.entry(stranger), Entry(stranger, LEFT, -1))

    def __repr__(self) -> str:
        return f"Roster({self.founders} founders, {list(self.beyond.values())})"

    def entry(self, pid: Rank) -> Entry | None:
        """What is known of a process; None if nothing."""
        entry = self.beyond.get(pid)
        return entry if entry is not None else self._at_start(pid)

    def _at_start(self, pid: Rank) -> Entry | None:
        known = pid < self.founders or pid in self.others_from_start
        return Entry(pid, MEMBER, 0) if known else None

    def merge(self, entry: Entry) -> bool:
        """Take what is fresher; whether it was."""
        before = self.entry(entry.pid)
        known = (before.fresh, before.status) if before is not None else (-1, LEFT)
        if (entry.fresh, entry.status) <= known:
            return False
        self._replace(before, entry)
        return True

    def _replace(self, before: Entry | None, entry: Entry) -> None:
        pid = entry.pid
        if pid == self.pid:
            self.fresh = entry.fresh
        self.signature = (self.signature - _code(self.beyond.pop(pid, None))) & MASK
        at_start = self._at_start(pid)
        if entry != at_start:
            self.beyond[pid] = entry
            self.signature = (self.signature + _code(entry)) & MASK
        was_owed = before is not None and before.status != LEFT
        self.owed += (entry.status != LEFT) - was_owed
        if entry.status == MEMBER:
            self.away.pop(pid, None)
            if at_start is None and (before is None or pid not in self.others):
                self.others.append(pid)
        else:
            self.away[pid] = None
        self.news[pid] = None

    def draw(self, rng: Random) -> Rank | None:
        """Another member that is thought to be connected, each as likely."""
        size = self.founders + len(self.others)
        for _ in range(DRAWS_MAX):
            place = int(rng.random() * size)
            peer = place if place < self.founders else self.others[place - self.founders]
            if peer != self.pid and peer not in self.away:
                return peer
        there = [peer for peer in self._drawn() if peer != self.pid and peer not in self.away]
        return rng.choice(there) if there else None

    def _drawn(self) -> Iterator[Rank]:
        yield from range(self.founders)
        yield from self.others

    def digest(self, *, wants_answer: bool) -> list[Members]:
        """What is kept beyond the recipe, in as many datagrams as it takes."""
        entries = sorted(self.beyond.values(), key=lambda entry: entry.pid)
        cuts = range(0, max(1, len(entries)), ENTRIES_MAX)
        chunks = [tuple(entries[cut : cut + ENTRIES_MAX]) for cut in cuts]
        ends = [chunk[-1].pid for chunk in chunks[:-1]] + [self.members - 1]
        firsts = [0] + [end + 1 for end in ends[:-1]]
        return [
            Members(first, last, chunk, wants_answer)
            for first, last, chunk in zip(firsts, ends, chunks, strict=True)
        ]

    def fresher(self, members: Members) -> tuple[Entry, ...]:
        """What is known here and not there, of the processes that `members` speaks of."""
        told = {entry.pid: entry for entry in members.entries}
        found = [
            entry
            for pid, entry in sorted(self.beyond.items())
            if members.first <= pid <= members.last and pid not in told
        ]
        for pid, entry in told.items():
            known = self.entry(pid)
            if known is not None and (known.fresh, known.status) > (entry.fresh, entry.status):
                found.append(known)
        return tuple(found[:ENTRIES_MAX])


def _code(entry: Entry | None) -> int:
    return mix(entry.pid, (entry.fresh << 2 | entry.status) & MASK) if entry is not None else 0
