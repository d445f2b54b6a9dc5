"""Who is thought to take part: approximate, merged by freshness, never agreed on [RPB §5.3].

Idea: the founders are known to all from the recipe; a process keeps only what it has heard beyond
that, so ten thousand members share one number.  The signature covers what is kept.
Departs: the thesis lists every member with its last number; here signatures replace those numbers.
"""

from collections.abc import Iterable, Iterator
from random import Random

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.signature import MASK, fact_hash
from semcast.terms.ids import Rank
from semcast.terms.pubsub import ENTRIES_MAX, LEFT, MEMBER, MemberEntry, MemberList

DRAWS_MAX = 32


class MemberTable:
    """Lives as long as the participant.

    Invariant: `overrides` differs from what the recipe says of each process; `signature` sums it
    up; `owed` counts those that have not left.
    """

    def __init__(self, recipe: PubsubRecipe, pid: Rank, unaware_of: Iterable[Rank] = ()) -> None:
        self.pid = pid
        self.members = recipe.members
        self.founders = recipe.founders
        self.overrides: dict[Rank, MemberEntry] = {}
        self.others = [p for p in recipe.logger_pids if p >= recipe.founders]  # to be drawn as well
        self.others_from_start = frozenset(self.others)
        self.away: dict[Rank, None] = {}  # not to be drawn
        self.owed = recipe.founders + len(self.others)
        self.fresh = 0  # what this process last said of itself
        self.signature = 0
        self.changed: dict[Rank, None] = {}  # of whom something new was heard since last asked
        for stranger in unaware_of:
            if stranger != pid:
                self._replace(self.entry(stranger), MemberEntry(stranger, LEFT, -1))

    def __repr__(self) -> str:
        return f"MemberTable({self.founders} founders, {list(self.overrides.values())})"

    def entry(self, pid: Rank) -> MemberEntry | None:
        """What is known of a process; None if nothing."""
        entry = self.overrides.get(pid)
        return entry if entry is not None else self._at_start(pid)

    def _at_start(self, pid: Rank) -> MemberEntry | None:
        known = pid < self.founders or pid in self.others_from_start
        return MemberEntry(pid, MEMBER, 0) if known else None

    def merge(self, entry: MemberEntry) -> bool:
        """Take what is fresher; whether it was."""
        before = self.entry(entry.pid)
        known = (before.freshness, before.status) if before is not None else (-1, LEFT)
        if (entry.freshness, entry.status) <= known:
            return False
        self._replace(before, entry)
        return True

    def _replace(self, before: MemberEntry | None, entry: MemberEntry) -> None:
        pid = entry.pid
        if pid == self.pid:
            self.fresh = entry.freshness
        self.signature = (self.signature - _code(self.overrides.pop(pid, None))) & MASK
        at_start = self._at_start(pid)
        if entry != at_start:
            self.overrides[pid] = entry
            self.signature = (self.signature + _code(entry)) & MASK
        was_owed = before is not None and before.status != LEFT
        self.owed += (entry.status != LEFT) - was_owed
        if entry.status == MEMBER:
            self.away.pop(pid, None)
            if at_start is None and (before is None or pid not in self.others):
                self.others.append(pid)
        else:
            self.away[pid] = None
        self.changed[pid] = None

    def random_peer(self, rng: Random) -> Rank | None:
        """Another member that is thought to be connected, each as likely."""
        size = self.founders + len(self.others)
        for _ in range(DRAWS_MAX):
            place = int(rng.random() * size)
            peer = place if place < self.founders else self.others[place - self.founders]
            if peer != self.pid and peer not in self.away:
                return peer
        reachable = [peer for peer in self._drawn() if peer != self.pid and peer not in self.away]
        return rng.choice(reachable) if reachable else None

    def _drawn(self) -> Iterator[Rank]:
        yield from range(self.founders)
        yield from self.others

    def digest(self, *, wants_answer: bool) -> list[MemberList]:
        """What is kept beyond the recipe, in as many datagrams as it takes."""
        entries = sorted(self.overrides.values(), key=lambda entry: entry.pid)
        cuts = range(0, max(1, len(entries)), ENTRIES_MAX)
        chunks = [tuple(entries[cut : cut + ENTRIES_MAX]) for cut in cuts]
        ends = [chunk[-1].pid for chunk in chunks[:-1]] + [self.members - 1]
        firsts = [0] + [end + 1 for end in ends[:-1]]
        return [
            MemberList(first, last, chunk, wants_answer)
            for first, last, chunk in zip(firsts, ends, chunks, strict=True)
        ]

    def newer_entries(self, members: MemberList) -> tuple[MemberEntry, ...]:
        """What is known here and not there, of the processes that `members` speaks of."""
        listed = {entry.pid: entry for entry in members.entries}
        found = [
            entry
            for pid, entry in sorted(self.overrides.items())
            if members.first <= pid <= members.last and pid not in listed
        ]
        for pid, entry in listed.items():
            known = self.entry(pid)
            if known is not None and (known.freshness, known.status) > (
                entry.freshness,
                entry.status,
            ):
                found.append(known)
        return tuple(found[:ENTRIES_MAX])


def _code(entry: MemberEntry | None) -> int:
    return (
        fact_hash(entry.pid, (entry.freshness << 2 | entry.status) & MASK)
        if entry is not None
        else 0
    )
