"""Nanoseconds per event of a journal, beside what it is made of and what the simulator writes.

A receiver records `receive` and `deliver` of each message, 64 messages to a batch as a full
datagram brings them, or one; a sender that is ready records `multicast` and `deliver`.
"""

from collections.abc import Callable
from hashlib import blake2b
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from side_by_side import report, side_by_side

from semcast.terms.events import DELIVER, MULTICAST, RECEIVE, Event
from semcast.terms.messages import DataMessage
from semcast.traces.journal import Journal
from semcast.traces.journal_file import JournalHeader
from semcast.traces.parquet import TraceWriter
from semcast.traces.schema import RunInfo

MESSAGES = 20_000
HEADER = JournalHeader(
    run_id=1,
    pid=0,
    names=("a", "b"),
    incarnations=(1, 1),
    group="bench",
    protocol="s-rm",
    order="fifo",
    relation="item",
    f=0,
)
RUN = RunInfo(name="bench", protocol="s-rm", order="fifo", relation="item", f=0, seed=0)


def receiving(batch: int, size: int) -> list[list[Event]]:
    """What a receiver records, by batch."""
    batches: list[list[Event]] = []
    for first in range(1, MESSAGES, batch):
        events = []
        for seq in range(first, first + batch):
            message = DataMessage(1, seq, item=seq % 500 << 40, payload=seq.to_bytes(size, "big"))
            events.append(Event(RECEIVE, 0, 1, seq, peer=1, buffered=40))
            events.append(Event(DELIVER, 0, 1, seq, message, buffered=40))
        batches.append(events)
    return batches


def sending(batch: int, size: int) -> list[list[Event]]:
    """What a sender records, by batch."""
    batches: list[list[Event]] = []
    for first in range(1, MESSAGES, batch):
        events = []
        for seq in range(first, first + batch):
            message = DataMessage(0, seq, item=seq % 500 << 40, payload=seq.to_bytes(size, "big"))
            events.append(Event(MULTICAST, 0, 0, seq, message, buffered=40))
            events.append(Event(DELIVER, 0, 0, seq, message, buffered=40))
        batches.append(events)
    return batches


def to_journal(folder: Path, batches: list[list[Event]]) -> Callable[[], int]:
    """Record everything in a journal that goes on from round to round."""
    journal = Journal(folder / str(id(batches)), HEADER)

    def run() -> int:
        for events in batches:
            journal.record(events, 1)
        return sum(map(len, batches))

    return run


def to_parquet(folder: Path, batches: list[list[Event]]) -> Callable[[], int]:
    """Record everything as a simulation does."""
    numbers = count()

    def run() -> int:
        with TraceWriter(folder / f"parquet-{next(numbers)}", RUN, "ab") as writer:
            for events in batches:
                writer.append(events)
            writer.close(complete=True)
        return sum(map(len, batches))

    return run


def digests(batches: list[list[Event]]) -> Callable[[], int]:
    """Nothing but the digests, counted over all events."""

    def run() -> int:
        for events in batches:
            for event in events:
                if event.message is not None:
                    blake2b(event.message.payload, digest_size=8).digest()
        return sum(map(len, batches))

    return run


def main() -> None:
    """Print the tables."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        batches = receiving(64, 100)
        candidates = {
            "receiver": to_journal(folder, batches),
            "  of that, the digests": digests(batches),
            "receiver, 1,000 bytes": to_journal(folder, receiving(64, 1000)),
            "receiver, a message a batch": to_journal(folder, receiving(1, 100)),
            "sender": to_journal(folder, sending(64, 100)),
            "Parquet at once": to_parquet(folder, batches),
        }
        rounds = side_by_side(candidates)
        report("journal, batches of 64 messages of 100 bytes", "event", rounds, "receiver")
        journal = Journal(folder / "closed", HEADER)
        for events in batches:
            journal.record(events, 1)
        started = perf_counter()
        journal.close()
        each = (perf_counter() - started) / sum(map(len, batches))
        print(f"\nclosing makes Parquet of it: {each * 1e9:,.0f} ns per event")


if __name__ == "__main__":
    main()
