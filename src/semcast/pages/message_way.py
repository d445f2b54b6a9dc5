"""The way of one message through all processes of a run: who has it, who lacks it, where they part.

A violation is proved by events of the process that has the message.  A reader also needs the other
side: what the process that lacks it did instead, what it requested, and who answered.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from semcast.pages.space_time import Columns, columns_of
from semcast.specs.verdict import ViolationExample
from semcast.terms.events import (
    ACKNOWLEDGE,
    APPEND,
    DELIVER,
    DISCARD,
    MULTICAST,
    NACK,
    PURGE,
    RECEIVE,
    REPAIR,
    SKIP,
)
from semcast.traces.parquet import read_processes, read_runs_in
from semcast.traces.recorded_events import CODES, read_events
from semcast.traces.schema import EVENTS
from semcast.traces.trace_files import root_of

REPLAY: Final = "replay"  # parameter of a run: the command line that runs it again
REPAIRS_MAX: Final = 3  # requests and answers shown of each process
SPANS_SHOWN: Final = 24  # characters
_OF_IT: Final = (MULTICAST, RECEIVE, DELIVER, PURGE, SKIP, DISCARD, APPEND, ACKNOWLEDGE)
_GOT: Final = (MULTICAST, RECEIVE, SKIP, DELIVER)


class Step(NamedTuple):
    """One line: a process, the time since the run began if it is an event, and what happened."""

    process: str
    ms: float | None
    text: str
    is_difference: bool = False


class MessageWay(NamedTuple):
    """The steps of a message, by process; `around` names the event to look at."""

    run_id: int
    message: str
    steps: list[Step]
    around: str
    replay: str | None


def message_way(trace: Path, example: ViolationExample) -> MessageWay | None:
    """The way of the message that a violation is about; None if it is not about a message."""
    root = root_of(trace)
    run = next((run for run in read_runs_in(root) if run.run_id == example.run_id), None)
    about = [event for event in example.events if "sender" in event]
    if run is None or not about:
        return None
    processes = read_processes(root).get(run.run_id, ())
    columns = columns_of(
        read_events(root / EVENTS).table_of(run), [process.pid for process in processes]
    )
    names = {process.pid: process.name or f"p{process.pid}" for process in processes}
    evidence = {(event["pid"], event["n"]) for event in example.events}
    reader = _WayReader(columns, names, about[-1], evidence)
    crashed = {process.pid for process in processes if not process.correct}
    steps, around = reader.steps(crashed)
    return MessageWay(
        run.run_id, reader.name_of(reader.seq), steps, around, run.parameters.get(REPLAY)
    )


class _WayReader:
    """Reads the events of one message and of its stream."""

    def __init__(
        self,
        columns: Columns,
        names: dict[int, str],
        event: Any,
        evidence: set[tuple[int, int]],
    ) -> None:
        self.columns, self.names, self.evidence = columns, names, evidence
        self.pids = columns.pids.tolist()
        self.sender, self.seq = event["sender"], event["seq"]
        stream = (self.sender, event.get("sender_inc", 1))
        known = [tuple(pair) for pair in columns.streams.tolist()]
        self.of_stream = columns.stream == (known.index(stream) + 1 if stream in known else -1)
        self.seqs = columns.numbers["seq"]
        self.of_message = self.of_stream & (self.seqs == self.seq) & columns.of_kind(*_OF_IT)

    @property
    def is_answered(self) -> bool:
        """Whether an answer to a request has the message or the notice that it was purged."""
        answers = np.flatnonzero(self.of_stream & self.columns.of_kind(REPAIR)).tolist()
        return any(self._covers(self.columns.note_of(row)) for row in answers)

    def name_of(self, seq: int) -> str:
        """A message of the stream in words."""
        return f"{self.process(self.sender)}:{seq}"

    def process(self, pid: int) -> str:
        """The name of a process."""
        return self.names.get(pid, f"p{pid}")

    def steps(self, crashed: set[int]) -> tuple[list[Step], str]:
        """The steps of all processes, and the event to look at, as PROCESS:N."""
        columns, steps = self.columns, list[Step]()
        around = ""
        difference = self._difference(crashed)
        for lane, pid in enumerate(self.pids):
            rows = np.flatnonzero(self.of_message & (columns.lane == lane)).tolist()
            repairs = self._repairs(lane)[:REPAIRS_MAX]
            if not rows:
                steps.append(Step(self.process(pid), None, self._lack(lane, pid in crashed)))
                for row in repairs[:1]:
                    around = around or f"{pid}:{columns.n[row]}"
            first = {difference} if difference >= 0 and columns.lane[difference] == lane else set()
            for row in sorted({*rows, *repairs, *first}):
                steps.append(self._step(row, row == difference))
            if not rows and repairs and not self.is_answered:
                count = len(self._repairs(lane))
                steps.append(Step(self.process(pid), None, f"{count} requests, no answer has it"))
        if not around:
            last = max(self.evidence, default=(0, 0))
            around = f"{last[0]}:{last[1]}"
        return steps, around

    def _step(self, row: int, is_difference: bool) -> Step:
        columns = self.columns
        kind, note = CODES[columns.kind[row]], columns.note_of(row)
        text = f"{kind} {self.name_of(int(self.seqs[row]))}"
        peer = self.process(self.pids[columns.peer[row] - 1]) if columns.peer[row] else ""
        if kind in (NACK, REPAIR):
            text = f"{'requests' if kind == NACK else 'sends'} {note[:SPANS_SHOWN]}"
            text += "…" if len(note) > SPANS_SHOWN else ""
            text += f" {'from' if kind == NACK else 'to'} {peer}"
        elif columns.numbers["by_seq"][row]:
            by = columns.by_stream[row]
            sender = int(columns.streams[by - 1][0]) if by else self.sender
            text += f" (obsolete by {self.process(sender)}:{columns.numbers['by_seq'][row]})"
        elif kind == RECEIVE and peer != self.process(self.sender):
            text += f" (from {peer})"
        ms = float(columns.us[row]) / 1e3
        return Step(self.process(self.pids[columns.lane[row]]), ms, text, is_difference)

    def _lack(self, lane: int, is_crashed: bool) -> str:
        """What a process that has nothing of the message has instead."""
        rows = np.flatnonzero(
            self.of_stream & (self.columns.lane == lane) & self.columns.of_kind(*_GOT)
        )
        why = "crashed" if is_crashed else "lacks it"
        if not len(rows):
            return f"{why}: has no message of {self.process(self.sender)}"
        last = rows[self.seqs[rows].argmax()]
        ms = self.columns.us[last] / 1e3
        return f"{why}: its last is {self.name_of(int(self.seqs[last]))}, at {ms:,.2f} ms"

    def _repairs(self, lane: int) -> list[int]:
        """The requests for the message by a process, and its answers that have the message."""
        rows = np.flatnonzero(
            self.of_stream & (self.columns.lane == lane) & self.columns.of_kind(NACK, REPAIR)
        )
        return [row for row in rows.tolist() if self._covers(self.columns.note_of(row))]

    def _covers(self, spans: str) -> bool:
        for span in spans.split():
            first, _, last = span.lstrip("~").partition("-")
            if first.isdecimal() and int(first) <= self.seq <= int(last or first):
                return True
        return False

    def _difference(self, crashed: set[int]) -> int:
        """The first event about a message that a process which lacks this one never got."""
        columns = self.columns
        lacking = [
            lane
            for lane, pid in enumerate(self.pids)
            if pid not in crashed and not (self.of_message & (columns.lane == lane)).any()
        ]
        if not lacking:  # The order is wrong, not the presence: the last event of the proof.
            return max((columns.place_of(*each) for each in self.evidence), default=-1)
        got = self.of_stream & columns.of_kind(*_GOT)
        has = np.unique(self.seqs[got & (columns.lane == lacking[0])])
        apart = got & ~np.isin(columns.lane, lacking) & ~np.isin(self.seqs, has)
        if len(has):
            apart &= self.seqs > has[0]  # A process that joined later is not owed the start.
        rows = np.flatnonzero(apart)
        return int(rows[0]) if len(rows) else -1
