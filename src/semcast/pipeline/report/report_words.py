"""Words and units for the variable names of saved results: JSON keys and columns of tables.

The names themselves stay in the files, where programs read them.  A name that is not known here is
shown as it is: it may be one of the reader's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from semcast.bench.wording import WORDS as BENCH_WORDS
from semcast.experiments.wording import MODELS, PARAMETERS, RESULTS, result_label

# Keys of `profile`, `demo`, `sim swarm`, `bench` and `model` that no experiment has.
FACTS: Final[Mapping[str, str]] = {
    "never_obsolete": "never superseded (share)",
    "distance_p50": "superseded within, half of them (messages)",
    "distance_p90": "superseded within, nine tenths (messages)",
    "purgeable": "superseded within a buffer of … messages (share)",
    "purgeable_limit": "superseded, whatever the buffer (share)",
    "rates": "rates by buffer",
    "sender_rate": "rate of the sender (messages/s)",
    "receiver_rate": "rate of the receiver (messages/s)",
    "predicted_rate": "predicted rate of the sender (messages/s)",
    "stream_count": "streams",
    "bad_rows": "invalid rows",
    "staleness_p50_ms": "age of the slow member's hot items, median (ms)",
    "staleness_p99_ms": "age of the slow member's hot items, p99 (ms)",
    "converged": "all members ended with the same values",
    "slow_ms": "time that the slow member takes for a message (ms)",
    "by_second": "second by second",
    "staleness_ms": "age of the slow member's hot items (ms)",
    "events_per_second": "events judged per second and core",
    "first_failure": "command that replays the first failure",
    "first_failed_seed": "first seed that failed",
    "not_exercised": "properties that were not exercised",
    "purge_ratio": "messages that the buffer can purge (share)",
    "purge_ratio_limit": "messages that an unlimited buffer can purge (share)",
    "low": "low end of the 95 % interval",
    "high": "high end of the 95 % interval",
}
EVENT: Final[Mapping[str, str]] = {
    "pid": "process",
    "inc": "incarnation",
    "n": "event",
    "ts_ns": "time (ms)",
    "grp": "group",
    "sender_inc": "its incarnation",
    "seq": "number",
    "dist": "distance",
    "by_sender": "superseded by sender",
    "by_inc": "superseding incarnation",
    "by_seq": "superseding number",
}
_ENDS: Final = {"_min": ", least", "_max": ", most"}
# Tables of Semcast's own: of `bench`, `figures` and `sweep`.  Others keep their names.
_BENCH_COLUMNS: Final = frozenset({"system", "cpu_us_per_delivery"})
_OWN_COLUMNS: Final = (frozenset({"experiment", "seed"}), frozenset({"result", "mean", "low"}))
# Parameters whose names mean something else elsewhere in results.
_AMBIGUOUS: Final = frozenset({"file", "key", "kind", "time", "payload", "rounds", "runs"})


def fact_label(name: str) -> str:
    """A key of a command's output, in words."""
    return FACTS.get(name) or _label(name)


def record_labels(names: Sequence[str]) -> list[str]:
    """The keys of records in a command's output, in words; `bench` has words of its own."""
    is_bench = set(names) >= _BENCH_COLUMNS
    return [_bench_label(name) if is_bench else fact_label(name) for name in names]


def column_labels(names: Sequence[str]) -> list[str]:
    """The columns of a CSV file, in words if a command of Semcast wrote it."""
    is_own = any(set(names) >= own for own in (_BENCH_COLUMNS, *_OWN_COLUMNS))
    return record_labels(names) if is_own else list(names)


def events_in_words(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Events of a counterexample, with the time since the first of them."""
    known = list(events)
    start = min((event["ts_ns"] for event in known if event.get("ts_ns") is not None), default=0)

    def value_of(name: str, value: Any) -> Any:
        return (value - start) / 1e6 if name == "ts_ns" and value is not None else value

    return [
        {EVENT.get(name, name): value_of(name, value) for name, value in event.items()}
        for event in known
    ]


def value_label(column: str, value: str) -> str:
    """A cell of a table: in the column `result` it is a name, too."""
    return fact_label(value) if column == "result" else value


def _label(name: str) -> str:
    if name in RESULTS or name in MODELS:
        return result_label(name)
    is_parameter = name in PARAMETERS and name not in _AMBIGUOUS
    return PARAMETERS[name].label if is_parameter else name


def _bench_label(name: str) -> str:
    end = next((end for end in _ENDS if name.endswith(end)), "")
    known = BENCH_WORDS.get(name.removesuffix(end))
    if known is None:
        return fact_label(name)
    # On a terminal shares are shown in per cent; files have them as they are.
    return known.replace("(%)", "(share)") + _ENDS.get(end, "")
