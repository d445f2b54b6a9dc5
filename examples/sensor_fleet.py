"""A fleet of sensors, a control room that cannot keep up, and alarms that must not be lost.

    python examples/sensor_fleet.py      four processes: three stations and the control room

Each station sends the readings of its sensors and, now and then, a summary of them all.  The
application itself says what that means: `Summaries` is a relation under which a summary makes all
readings before it obsolete.  Alarms are sent with `never_purge`, so every one of them arrives.
Nothing here is `async`: `semcast.sync` is for scripts like this one.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Iterable
from multiprocessing import Pool

from semcast import Update, sync

STATIONS = ["north", "east", "west"]
SENSORS = 50
ROUNDS = 40
SUMMARY_EVERY = 5  # rounds
TOO_HOT = 39.9
MEMBERS = len(STATIONS) + 1


class Summaries:
    """A summary supersedes the readings since the last one, and that last summary."""

    def __init__(self) -> None:
        self.open: list[int] = []  # what the next summary supersedes

    def obsoletes(self, seq: int, item: str | None, payload: bytes) -> Iterable[int]:
        return self.open if item == "summary" else []

    def sent(self, seq: int, item: str | None, payload: bytes) -> None:
        if item == "summary":
            self.open = []
        if item is not None:  # An alarm is never superseded.
            self.open.append(seq)


def measure(group_name: str, station: str) -> tuple[list[str], str]:
    """Run a station; returns the alarms it raised and its last summary."""
    alarms: list[str] = []
    summary = ""
    with sync.join(group_name, members=MEMBERS, name=station, relation=Summaries()) as group:
        for number in range(1, ROUNDS + 1):
            readings = {f"{station}/{n}": random.uniform(10, 40) for n in range(SENSORS)}
            group.multicast_many(
                Update(f"{value:.1f}".encode(), item=sensor) for sensor, value in readings.items()
            )
            for sensor, value in readings.items():
                if value > TOO_HOT:
                    alarms.append(f"round {number}: {sensor} is at {value:.2f}")
                    group.multicast(alarms[-1].encode(), never_purge=True)
            if number % SUMMARY_EVERY == 0:
                mean = sum(readings.values()) / SENSORS
                summary = f"round {number}: {SENSORS} sensors, mean {mean:.2f}"
                group.multicast(summary.encode(), item="summary")
            time.sleep(0.05)
        group.multicast(b"done", never_purge=True)
    return alarms, summary


def control(group_name: str) -> tuple[dict[str, list[str]], dict[str, str], int, int]:
    """Read everything, slowly; returns alarms and last summaries by station, and counts."""
    alarms: dict[str, list[str]] = {station: [] for station in STATIONS}
    summaries: dict[str, str] = {}
    done = read = skipped = 0
    with sync.join(group_name, members=MEMBERS, name="control", relation="list") as group:
        for message in group:
            read, skipped = read + 1, skipped + message.skipped
            text = message.payload.decode()
            if text == "done":
                done += 1
                if done == len(STATIONS):
                    break
            elif message.item is None:
                alarms[message.sender].append(text)
            elif message.item == "summary":
                summaries[message.sender] = text
            time.sleep(0.002)
    return alarms, summaries, read, skipped


def main() -> int:
    group_name = f"fleet-{os.getpid()}"  # Two runs at the same time must not meet.
    # Ctrl-C reaches this process alone, and `with` ends the others.
    with Pool(MEMBERS, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as processes:
        room = processes.apply_async(control, (group_name,))
        stations = [processes.apply_async(measure, (group_name, station)) for station in STATIONS]
        alarms, summaries, read, skipped = room.get()
        measured = dict(zip(STATIONS, (station.get() for station in stations), strict=True))
    raised = {name: of_station for name, (of_station, _) in measured.items()}
    last = {name: summary for name, (_, summary) in measured.items()}

    no_alarm_lost = alarms == raised
    is_current = summaries == last
    print(
        f"{len(STATIONS)} stations sent {read + skipped:,} messages."
        f"\nThe control room read {read:,} and skipped {skipped:,} that later summaries cover."
        f"\nAll {sum(map(len, raised.values()))} alarms arrived, in order: {no_alarm_lost}."
        f"\nIt has the last summary of every station: {is_current}."
    )
    return 0 if no_alarm_lost and is_current and skipped else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
