"""The verdict on recorded executions, by monitors in this process or by Spark.

A property is `not applicable` if no run promises it, or if it cannot be judged in those that do.
It is `not exercised` if no event of the runs could have broken it (there was no obligation).
Neither counts as passed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from semcast.specs.liveness import LIVENESS
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.events import (
    ACKNOWLEDGE,
    CONFIRM,
    DEFAULTS,
    DELIVER,
    EVENT_FIELDS,
    EXECUTE,
    INSTALL,
    MULTICAST,
    PURGE,
    RECLAIM,
    REFUSE,
    REPLY,
    REQUEST,
    SAFE,
    SKIP,
    STABLE,
    Event,
)
from semcast.terms.promises import PROPERTIES, promised

PASS: Final = "pass"
FAIL: Final = "fail"
NOT_APPLICABLE: Final = "not applicable"
NOT_EXERCISED: Final = "not exercised"
EXAMPLES: Final = 3  # of each property
# Why a property had no obligation, where it is not that nothing it judges was recorded.
_NO_EVENTS: Final = "no event that it judges was recorded"
_NO_OBLIGATIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(LIVENESS, "no process was owed a message"),
    "fifo_order": "no process delivered two messages of a sender",
    "item_order": "no process delivered two messages that have an order",
    "causal_order": "no process delivered a message of a sender that it knew of",
    "causal_completeness": "no process delivered a message",
    "semantic_integrity": "no process delivered two messages of a sender",
    "semantic_view_synchrony": "no message was delivered in a view that two processes left",
    "total_order": "no process delivered two messages, and no two delivered the same one",
    "primary_order": "no primary view followed another one",
    "reliable_delivery": "no subscriber was owed a message",
    "acknowledged_survives": "no server entered a view after an answer",
    "replica_equality": "no two servers entered the same view",
    "never_blocked": "no query was given to a server in turn",
    "refused_never_executed": "no update was refused",
    "collection_safety": "nothing that a subscriber was owed was reclaimed",
}

# Properties that speak of the end of a run, which must have been left to fall quiet.
AT_THE_END: Final = frozenset({*LIVENESS, "causal_completeness", "reliable_delivery"})

# Properties that compare the clocks of several processes; the events that would tell the order are
# too many to wait for.
BY_CLOCKS: Final = frozenset({"collection_safety", "durability"})
UNKNOWN_CLOCKS: Final = (
    "it is not known by how much the clocks of the processes differ; give --skew-ms"
)

# The events by which columns, which see no monitor, count the obligations of a property.
EXERCISED_BY: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(PROPERTIES, frozenset((DELIVER,))),
    **dict.fromkeys(("integrity", *LIVENESS), frozenset((MULTICAST, DELIVER))),
    "purge_safety": frozenset((PURGE, SKIP, SAFE, STABLE, RECLAIM)),
    "view_order": frozenset((INSTALL,)),
    "primary_order": frozenset((INSTALL,)),
    "confirmation": frozenset((CONFIRM,)),
    "reliable_delivery": frozenset((ACKNOWLEDGE,)),
    "collection_safety": frozenset((RECLAIM,)),
    "durability": frozenset((ACKNOWLEDGE,)),
    "exactly_once_requests": frozenset((EXECUTE, REPLY)),
    "acknowledged_survives": frozenset((REPLY,)),
    "replica_equality": frozenset((INSTALL,)),
    "never_blocked": frozenset((REQUEST,)),
    "refused_never_executed": frozenset((REFUSE,)),
    "sequential_consistency": frozenset((EXECUTE, REPLY)),
}

# The fields of an event that a person needs; `note` says where, why or which operation.
SHOWN: Final = (
    *("pid", "inc", "n", "ts_ns", "kind", "view", "sender", "sender_inc", "seq", "item"),
    *("by_seq", "position", "peer", "client", "request", "version"),
)
_ALWAYS_SHOWN: Final = ("pid", "inc", "n", "ts_ns", "kind")
NOTES_SHOWN: Final = ("where", "reason", "op")


@dataclass(frozen=True, slots=True)
class ViolationExample:
    """One violation: the run, what happened, and the events that prove it, in order."""

    run_id: int
    what: str
    events: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class PropertyResult:
    """The result of one property: `violations` counts all, `examples` are the first few;
    `obligations` says how often it could have been broken.  It was judged on `runs`, and broken
    on `broken_runs` of them."""

    status: str
    reason: str = ""
    violations: int = 0
    obligations: int = 0
    examples: tuple[ViolationExample, ...] = ()
    runs: int = 0
    broken_runs: int = 0


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The verdict on a trace: the number of its events, and the result of each property."""

    events: int
    properties: Mapping[str, PropertyResult]

    @property
    def status(self) -> str:
        """Fail if a promise was broken, pass if some were judged and none was."""
        found = {result.status for result in self.properties.values()}
        return FAIL if FAIL in found else PASS if PASS in found else NOT_APPLICABLE

    @property
    def passed(self) -> bool:
        """Whether something could be judged, and nothing that was judged failed."""
        return self.status == PASS

    @property
    def violations(self) -> int:
        """The number of violations of all properties."""
        return sum(result.violations for result in self.properties.values())


def facts_of(found: CheckVerdict) -> dict[str, object]:
    """The verdict as JSON has it."""
    return {
        "verdict": found.status,
        "events": found.events,
        "properties": {
            name: {
                "status": judged.status,
                "reason": judged.reason,
                "violations": judged.violations,
                "obligations": judged.obligations,
                "runs": judged.runs,
                "broken_runs": judged.broken_runs,
                "examples": [
                    {"run_id": one.run_id, "what": one.what, "events": list(one.events)}
                    for one in judged.examples
                ],
            }
            for name, judged in found.properties.items()
        },
    }


def check_names(names: Iterable[str]) -> None:
    """Raise `ConfigError` unless all are names of properties."""
    for name in names:
        if name not in PROPERTIES:
            raise unknown_value("property", name, sorted(PROPERTIES))


def reason_against(
    name: str, protocol: str, order: str, absent: Collection[int], *, complete: bool
) -> str:
    """Why the property cannot be judged of such a run, if so; `absent` are processes whose record
    is missing."""
    try:
        if name not in promised(protocol, order):
            return f"{protocol} with order {order} does not guarantee it"
    except ConfigError as error:
        return f"the guarantees of the run are unknown: {error}"
    if absent:
        return f"the trace has no record of process {', '.join(map(str, absent))}"
    if name in AT_THE_END and not complete:
        return "the run is not complete: it was stopped before it became quiet"
    return ""


def result_of(
    name: str,
    runs: tuple[int, int],
    reasons: Iterable[str],
    found: tuple[int, int],
    examples: Sequence[ViolationExample],
    obligations: int,
) -> PropertyResult:
    """The result of a property that was judged on the first of two numbers of runs, `runs`, of the
    second; `reasons` say why it was not judged on the others.  `found` has the number of violations
    and of runs with some."""
    (judged, of), (violations, broken_runs) = runs, found
    if not judged:
        why = "; ".join(sorted(set(filter(None, reasons)))) or "the trace has no runs"
        return PropertyResult(NOT_APPLICABLE, why)
    on = "" if of == 1 else f"checked on {judged} of {of} runs"
    if violations:
        what = examples[0].what
        reason = f"{what} ({on})" if on else what
        at_least = max(obligations, violations)
        first = tuple(examples)
        return PropertyResult(FAIL, reason, violations, at_least, first, judged, broken_runs)
    if not obligations:
        return PropertyResult(NOT_EXERCISED, _NO_OBLIGATIONS.get(name, _NO_EVENTS), runs=judged)
    return PropertyResult(PASS, on, obligations=obligations, runs=judged)


def shown(event: Event, attribute: str) -> dict[str, Any]:
    """The fields of an event for an example; its note has the name `attribute` in a trace."""
    fields: dict[str, Any] = {}
    for name in SHOWN:
        if name == "item":
            value = event.message.item if event.message is not None else None
            is_shown = value is not None
        else:
            value, other = getattr(event, name), EVENT_FIELDS[name].beside or name
            is_shown = name in _ALWAYS_SHOWN or getattr(event, other) != DEFAULTS[other]
        if is_shown:
            fields[name] = value
    if event.note and attribute in NOTES_SHOWN:
        fields["note"] = event.note
    return fields
