"""Purge safety: nothing is forgotten that somebody may still need.

A process reaches m when its frontier does: with its first multicast, receive or skip at or beyond
m.  A frontier moves by one message at a time, never past the sender's; a purge is of an obsolete
message, for one that the process has reached (delivery) or that is safe (retransmission); a claim
that messages are safe or stable, and a reclaim, hold of where the processes are at that time.

"At that time" is by local order at one process, and by clocks within the run's skew between two:
wrong is what no order of events that the clocks allow makes right.  Where the skew is not known, a
claim is wrong only if it never came true.
Rule: TP4, TP5 [SRB §2.3]; purge_d, purge_r [SRM §4.3]; S-SM buffers and purges at the sender only.
"""

from typing import Final

import numpy as np

from semcast.pipeline.check.event_fields import FLAG_BITS, KINDS, PURGED_FROM
from semcast.pipeline.check.event_table import EventRecord, EventTable, concat
from semcast.pipeline.check.purge_obsolescence import PurgeObsolescence
from semcast.pipeline.check.running_state import EarliestEvent
from semcast.pipeline.check.stream_block import (
    NEVER,
    FirstEvents,
    Mask,
    Places,
    StreamBlock,
    StreamInfo,
    ViolationRows,
    happened_before,
    scatter_min,
)
from semcast.terms.events import (
    DELIVERY,
    MULTICAST,
    PURGE,
    RECEIVE,
    RECLAIM,
    RETRANSMISSION,
    SAFE,
    SKIP,
    STABLE,
)

_DELIVERY: Final = PURGED_FROM.index(DELIVERY)
_RETRANSMISSION: Final = PURGED_FROM.index(RETRANSMISSION)


class PurgeSafetyCheck:
    """One per stream; blocks come newest first."""

    def __init__(self, stream: StreamInfo, findings: ViolationRows) -> None:
        self._stream = stream
        self._findings = findings
        self._sent = EarliestEvent(stream.n)
        self._reached = EarliestEvent(stream.n)
        self._obsolete = PurgeObsolescence(stream)
        self._noticed: dict[int, int] = {}  # by number, when an older message was first purged
        self._lowest: dict[
            int, EventRecord
        ] = {}  # by pid, the step with which the last block begins

    def on_block(self, block: StreamBlock) -> None:
        """Judge steps, purges, skips and claims."""
        steps = self._steps(block)
        self._judge_steps(block, steps)
        reached = ReachedFrontiers(self._stream, self._reached, steps)
        purges = block.of(PURGE)
        self._judge_purges(block, purges, reached)
        for one in self._obsolete.not_obsolete(block, purges):
            self._report_purge(one, "which does not make it obsolete", block)
        self._judge_skips(block, purges)
        self._judge_claims(block, reached)
        self._reached.update(steps)

    def on_end(self) -> None:
        """Nothing older will come to make it right."""
        for one in self._lowest.values():
            self._report_gap(one)
        for one in self._obsolete.never_multicast():
            self._report_purge(one, "which does not make it obsolete")

    def _steps(self, block: StreamBlock) -> FirstEvents:
        """What moves a frontier; reports what cannot, as nobody had multicast it."""
        sender, multicasts = self._stream.sender, block.of(MULTICAST)
        own = block.firsts(multicasts[multicasts["pid"] == sender])
        arrivals = block.of(RECEIVE, SKIP)
        rows = arrivals["seq"] - block.base
        places, times = self._sent.places(own, rows, sender), self._sent.times(own, rows, sender)
        is_sent = happened_before(self._stream, sender, places, times, arrivals)
        for one in arrivals[~is_sent]:
            self._report(one, f"{_of(self._stream, one)}, which no process had multicast")
        self._sent.update(own)
        foreign = arrivals["pid"] != sender  # Its own copy the multicast has counted.
        return block.firsts(concat((multicasts, arrivals[is_sent & foreign])))

    def _judge_steps(self, block: StreamBlock, steps: FirstEvents) -> None:
        """A frontier moves by one, and only forward."""
        for pid, one in self._lowest.items():
            if block.base + block.size != one["seq"] or steps.place[-1, pid] > one["place"]:
                self._report_gap(one)
        places, rows, pids = steps.records["place"], steps.rows, steps.pids
        passed = self._reached.passed(steps) | ~steps.is_first
        gap = ~passed & (steps.place_before > places)
        at_base = rows == 0
        for i in np.flatnonzero(passed):
            one = steps.records[i]
            last = self._reached.record(steps, rows[i] + steps.is_first[i], pids[i])
            beyond = f"{self._stream.sender}:{last['seq']}" if last is not None else "it"
            self._report(one, f"{_of(self._stream, one)}, after it had reached {beyond}", last)
        for one in steps.records[gap & ~at_base]:
            self._report_gap(one)
        lowest = steps.records[at_base & ~passed & (steps.records["seq"] != 1)]
        self._lowest = {one["pid"]: one for one in lowest}

    def _judge_purges(
        self, block: StreamBlock, purges: EventTable, reached: "ReachedFrontiers"
    ) -> None:
        """For a message that is here (delivery) or safe (retransmission)."""
        where = purges["flags"] >> FLAG_BITS
        rows = purges["by"] - block.base
        for one in purges[(where == _DELIVERY) & ~reached.at_own_process(purges, rows)]:
            self._report_purge(one, "which it had not received", block)  # TP4 [SRB §2.3]
        for one in purges[(where != _DELIVERY) & (where != _RETRANSMISSION)]:
            self._report_purge(one, "from no known buffer", block)
        from_store = where == _RETRANSMISSION
        if not self._stream.is_replicated:
            for one in purges[from_store & (purges["pid"] != self._stream.sender)]:
                self._report_purge(one, "but only the sender keeps messages for recovery", block)
            return
        count = reached.at_all_processes(purges, rows).sum(axis=1)
        for i in np.flatnonzero(from_store & (count <= self._stream.f)):  # TP5 [SRB §2.3]
            why = f"which was not safe: {self._too_few(count[i])}"
            self._report_purge(purges[i], why, block)

    def _judge_skips(self, block: StreamBlock, purges: EventTable) -> None:
        """A notice exists only of what was purged for good somewhere."""
        for_good = purges[purges["flags"] >> FLAG_BITS == _RETRANSMISSION]
        when: Places = np.full((block.size, 1), NEVER)
        in_block = for_good[(for_good["seq"] >= block.base) & (for_good["seq"] < for_good["by"])]
        scatter_min(when, in_block["seq"] - block.base, 0, in_block["ts"])
        for seq, ts in self._noticed.items():
            if 0 <= seq - block.base < block.size:
                when[seq - block.base] = min(when[seq - block.base, 0], ts)
        skips = block.of(SKIP)
        announced = when[skips["seq"] - block.base, 0] <= skips["ts"] + self._stream.skew_ns
        for one in skips[~announced]:
            multicast = block.messages.get(one["seq"])
            self._report(one, f"{_of(self._stream, one)}, which no process had purged", multicast)
        self._noticed = {seq: ts for seq, ts in self._noticed.items() if seq < block.base}
        for one in for_good[for_good["seq"] < block.base]:
            seq, ts = one["seq"], one["ts"]
            self._noticed[seq] = min(self._noticed.get(seq, ts), ts)

    def _judge_claims(self, block: StreamBlock, reached: "ReachedFrontiers") -> None:
        """Safe: more than f have reached it.  Stable: all have that nobody has forgotten."""
        safe, sender = block.of(SAFE), self._stream.sender
        count = reached.at_all_processes(safe, safe["seq"] - block.base).sum(axis=1)
        for i in np.flatnonzero(count <= self._stream.f):
            what = f"claim that {sender}:{safe['seq'][i]} is safe: {self._too_few(count[i])}"
            self._report(safe[i], what)
        stable = block.of(STABLE, RECLAIM)
        by_whom = reached.at_all_processes(stable, stable["seq"] - block.base)
        by_whom |= self._stream.left_at <= stable["ts"][:, None] + self._stream.skew_ns
        for i in np.flatnonzero(~by_whom.all(axis=1)):
            behind = ", ".join(map(str, np.flatnonzero(~by_whom[i])))
            kind = KINDS[stable["kind"][i]]
            what = (
                f"{kind} up to {sender}:{stable['seq'][i]}, which process {behind} had not reached"
            )
            self._report(stable[i], what)

    def _too_few(self, count: int) -> str:
        return f"{count} of {self._stream.n} processes had reached it and f = {self._stream.f}"

    def _report_gap(self, one: EventRecord) -> None:
        before_it = f"{self._stream.sender}:{one['seq'] - 1}"
        self._report(one, f"{_of(self._stream, one)}, before it had reached {before_it}")

    def _report_purge(self, one: EventRecord, why: str, block: StreamBlock | None = None) -> None:
        sender, where = self._stream.sender, PURGED_FROM[one["flags"] >> FLAG_BITS]
        what = f"purge of {sender}:{one['seq']} ({where}) for {sender}:{one['by']}, {why}"
        known = [block.messages.get(one[of]) for of in ("seq", "by")] if block else []
        self._report(one, what, *known)

    def _report(self, one: EventRecord, what: str, *earlier: EventRecord | None) -> None:
        what = f"process {one['pid']}: {what}"
        self._findings.add(self._stream, "purge_safety", what, *earlier, one)


class ReachedFrontiers:
    """Who has reached which messages of a block when something else happens."""

    def __init__(self, stream: StreamInfo, beyond: EarliestEvent, steps: FirstEvents) -> None:
        self._stream, self._beyond, self._steps = stream, beyond, steps

    def at_own_process(self, events: EventTable, rows: Places) -> Mask:
        """Whether the process of each event had, by its own order."""
        had: Mask = self._beyond.places(self._steps, rows, events["pid"]) < events["place"]
        return had

    def at_all_processes(self, events: EventTable, rows: Places) -> Mask:
        """By event and process."""
        times = self._beyond.times(self._steps, rows)
        had: Mask = times <= events["ts"][:, None] + self._stream.skew_ns
        had[np.arange(len(events)), events["pid"]] = self.at_own_process(events, rows)
        return had


def _of(stream: StreamInfo, one: EventRecord) -> str:
    return f"{KINDS[one['kind']]} of {stream.sender}:{one['seq']}"
