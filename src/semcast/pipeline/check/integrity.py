"""Integrity and At Most Once: each message is delivered once, after it was multicast, unchanged.

Rule: Integrity [SRB §2.1], [SRM §4.2].  "After" is by the local order at the sender itself, and by
the clocks of two processes within the run's skew elsewhere; where the skew is not known, a message
that was multicast at all was multicast before.
"""

import numpy as np

from semcast.pipeline.check.event_fields import CARRIED
from semcast.pipeline.check.event_table import EventRecord
from semcast.pipeline.check.stream_block import (
    StreamBlock,
    StreamInfo,
    ViolationRows,
    happened_before,
    has_message,
)
from semcast.terms.events import DELIVER


class IntegrityCheck:
    """Each process delivers m at most once, only after m was multicast, and unchanged."""

    def __init__(self, stream: StreamInfo, findings: ViolationRows) -> None:
        self._stream = stream
        self._findings = findings

    def on_block(self, block: StreamBlock) -> None:
        """Judge multicasts, then deliveries."""
        messages = block.messages
        multicasts, sender = messages.all, self._stream.sender
        foreign = (multicasts["pid"] != sender) | ~has_message(multicasts)
        for one in multicasts[foreign]:
            self._report(one, f"multicast {sender}:{one['seq']}, which is not its own")
        for one in multicasts if len(multicasts) > len(messages.records) else ():
            first = messages.get(one["seq"])
            if first is not None and (first["ts"], first["place"]) < (one["ts"], one["place"]):
                self._report(one, f"multicast {sender}:{one['seq']} twice", first)
        self._judge_deliveries(block)
        for first, again in repeated_deliveries(block):
            self._report(again, f"delivered {sender}:{again['seq']} twice", first)

    def on_end(self) -> None:
        """Nothing is left to judge."""

    def _judge_deliveries(self, block: StreamBlock) -> None:
        delivered, messages, sender = block.of(DELIVER), block.messages, self._stream.sender
        known = messages.known(delivered["seq"] - block.base)
        sound = np.zeros(len(delivered), bool)
        matched = delivered[known]
        source = messages.at(matched["seq"] - block.base)
        after = happened_before(self._stream, source["pid"], source["place"], source["ts"], matched)
        same = np.ones(len(matched), bool)
        for name in ("content", "item"):
            same &= source[name] == matched[name]
        same &= (source["flags"] ^ matched["flags"]) & CARRIED == 0
        sound[known] = after & same
        was_there = known.copy()
        was_there[known] = after
        for i in np.flatnonzero(~sound):
            one = delivered[i]
            if was_there[i]:
                first = messages.get(one["seq"])
                what = f"delivered {sender}:{one['seq']} with different content than was multicast"
                self._report(one, what, first)
            else:
                self._report(
                    one, f"delivered {sender}:{one['seq']}, which no process had multicast"
                )

    def _report(self, one: EventRecord, what: str, first: EventRecord | None = None) -> None:
        self._findings.add(self._stream, "integrity", f"process {one['pid']} {what}", first, one)


class AtMostOnceCheck:
    """Each process delivers m at most once."""

    def __init__(self, stream: StreamInfo, findings: ViolationRows) -> None:
        self._stream = stream
        self._findings = findings

    def on_block(self, block: StreamBlock) -> None:
        """A second delivery of the same message is one too many."""
        for first, again in repeated_deliveries(block):
            what = f"process {again['pid']} delivered {self._stream.sender}:{again['seq']} twice"
            self._findings.add(self._stream, "at_most_once", what, first, again)

    def on_end(self) -> None:
        """Nothing is left to judge."""


def repeated_deliveries(block: StreamBlock) -> list[tuple[EventRecord | None, EventRecord]]:
    """Deliveries that were not the first of their message at their process, after the first."""
    return [
        (deliveries.record(again["seq"] - block.base, again["pid"]), again)
        for deliveries in block.lives.values()
        for again in deliveries.records[~deliveries.is_first]
    ]
