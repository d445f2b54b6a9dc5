"""Which numbers of every stream a process has, and which are missing.

Guarantees: for each number above `start` and up to `last`, exactly one is true: it was taken here
once, it was settled without a message, or it is missing [RPB §3.3, Property 3.5].  So nothing is
taken twice.  A gap shows when something later is heard of: a message, a heartbeat, gossip.
Departs: the thesis has no settled numbers (numbers whose message will never come, by a notice).
"""

from collections.abc import Iterable

from semcast.core.pubsub.signature import MASK, fact_hash
from semcast.core.span_set import SpanSet
from semcast.terms.ids import Rank, Seq, Span
from semcast.terms.pubsub import StreamStatus

ACTIVE_ROUNDS = 4  # A stream is active for so many rounds after it went on.


class TrackedStream:
    """One sender's numbers; what lies at or below `start` is not owed here [RPB §5.3]."""

    __slots__ = ("last", "missing", "start")

    def __init__(self, start: Seq) -> None:
        self.start = start
        self.last = start
        self.missing = SpanSet()

    def __repr__(self) -> str:
        return f"TrackedStream({self.start} < {self.last}, missing={self.missing})"

    @property
    def frontier(self) -> Seq:
        """Up to here nothing is missing."""
        missing = self.missing.firsts
        return missing[0] - 1 if missing else self.last


class SeqTracker:
    """Invariant: `signature` is the sum of mix(sender, last) over all streams."""

    __slots__ = ("active", "detected", "gaps", "signature", "streams")

    def __init__(self) -> None:
        self.streams: dict[Rank, TrackedStream] = {}
        self.gaps: dict[Rank, None] = {}  # streams of which something is missing
        self.detected: list[tuple[Rank, Seq, Seq]] = []  # missing, and not yet asked for
        self.signature = 0
        self.active: dict[Rank, int] = {}  # and for how many more rounds

    def __repr__(self) -> str:
        return f"SeqTracker({self.streams})"

    def reset(self) -> None:
        """Know nothing again."""
        self.streams.clear()
        self.gaps.clear()
        self.detected.clear()
        self.signature = 0
        self.active.clear()

    def open_stream(self, sender: Rank, start: Seq) -> TrackedStream:
        """The stream of `sender`, opened after `start` if it is new."""
        stream = self.streams.get(sender)
        if stream is None:
            stream = self.streams[sender] = TrackedStream(start)
            if start:
                self.signature = (self.signature + fact_hash(sender, start)) & MASK
        return stream

    def receive(self, sender: Rank, seq: Seq) -> bool:
        """A message came; whether it is the first time."""
        stream = self.streams.get(sender) or self.open_stream(sender, 0)
        last = stream.last
        if seq == last + 1:
            self._advance(sender, stream, seq)
            return True
        if seq > last:
            self._detect(sender, stream, seq - 1)
            self._advance(sender, stream, seq)
            return True
        return bool(self._remove(sender, stream, seq, seq)) if stream.missing else False

    def learn_last(self, sender: Rank, last: Seq) -> bool:
        """Somebody says that `last` exists; whether that is news."""
        stream = self.streams.get(sender) or self.open_stream(sender, 0)
        if last <= stream.last:
            return False
        self._detect(sender, stream, last)
        self._advance(sender, stream, last)
        return True

    def resolve(self, sender: Rank, first: Seq, last: Seq) -> list[Span]:
        """No message will come for these numbers; the spans that were waited for."""
        stream = self.streams.get(sender) or self.open_stream(sender, 0)
        if first > last:
            return []
        spans = self._remove(sender, stream, first, last)
        ahead = max(first, stream.last + 1)
        if ahead <= last:
            if ahead > stream.last + 1:
                self._detect(sender, stream, ahead - 1)
            self._advance(sender, stream, last)
            spans.append((ahead, last))
        return spans

    def forget(self, sender: Rank, seq: Seq) -> None:
        """A message that was here is not any more: it is missing again."""
        self.streams[sender].missing.add(seq, seq)
        self.gaps[sender] = None
        self.detected.append((sender, seq, seq))

    def has(self, sender: Rank, seq: Seq) -> bool:
        """Whether this number was taken or settled here."""
        stream = self.streams.get(sender)
        return (
            stream is not None and stream.start < seq <= stream.last and seq not in stream.missing
        )

    def _detect(self, sender: Rank, stream: TrackedStream, last: Seq) -> None:
        first = stream.last + 1
        stream.missing.add(first, last)
        self.gaps[sender] = None
        self.detected.append((sender, first, last))

    def _advance(self, sender: Rank, stream: TrackedStream, last: Seq) -> None:
        before = fact_hash(sender, stream.last) if stream.last else 0
        self.signature = (self.signature - before + fact_hash(sender, last)) & MASK
        stream.last = last
        self.active[sender] = ACTIVE_ROUNDS

    def _remove(self, sender: Rank, stream: TrackedStream, first: Seq, last: Seq) -> list[Span]:
        spans = stream.missing.remove(first, last)
        if spans and not stream.missing:
            self.gaps.pop(sender, None)
        return spans

    def on_round(self) -> None:
        """A gossip round has passed: streams that did not go on become idle."""
        if self.active:
            self.active = {s: left - 1 for s, left in self.active.items() if left > 1}

    def signature_without(self, senders: Iterable[Rank]) -> int:
        """The signature of all streams but these."""
        signature = self.signature
        for sender in senders:
            stream = self.streams.get(sender)
            if stream is not None and stream.last:
                signature -= fact_hash(sender, stream.last)
        return signature & MASK

    def status_of(self, sender: Rank, claimed: Seq) -> StreamStatus:
        """What to say of a stream, of which up to `claimed` is acknowledged."""
        return StreamStatus(sender, self.streams[sender].last, claimed)
