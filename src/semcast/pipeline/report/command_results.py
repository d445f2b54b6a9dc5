"""The answers of commands (`semcast … --json`), recognised by their keys, and what they decide.

A class lists the keys that its command's answer has and no other has together; those with a
default may be missing.  Of the commands that judge something, `to_verdict` is that in one line.
"""

from typing import Any, ClassVar, Final, NamedTuple

import msgspec


class ResultVerdict(NamedTuple):
    """What was judged, what was found, and whether that is as promised."""

    what: str
    text: str
    passed: bool


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that decides nothing."""

    command: ClassVar[str] = ""

    def to_verdict(self) -> ResultVerdict | None:
        """The verdict, if there is one."""
        return None


class ExampleRow(msgspec.Struct, frozen=True):
    """A violation: what happened, and the events that prove it, in order."""

    what: str
    events: list[dict[str, Any]] = []
    run_id: int | None = None


class PropertyRow(msgspec.Struct, frozen=True):
    """What `check` found of one property."""

    status: str
    reason: str | None = None
    violations: int = 0
    examples: list[ExampleRow] = []
    obligations: int | None = None  # None in files of before they were counted


class CheckResult(CommandResult, frozen=True, kw_only=True):
    """Of a trace."""

    command: ClassVar[str] = "check"
    verdict: str
    properties: dict[str, PropertyRow]
    events: int = 0

    def to_verdict(self) -> ResultVerdict:
        """Which properties were violated, how many hold."""
        unjudged = ("not exercised", "not applicable")
        of = {status: self._of(status) for status in ("fail", "pass", *unjudged)}
        parts = [f"holding: {len(of['pass'])} of {len(self.properties)}"]
        if of["fail"]:
            parts.insert(0, f"violated: {', '.join(of['fail'])}")
        parts += [f"{status}: {len(of[status])}" for status in unjudged if of[status]]
        return ResultVerdict(
            f"check of {self.events:,} events", "; ".join(parts), self.verdict == "pass"
        )

    def _of(self, status: str) -> list[str]:
        return [name for name, found in self.properties.items() if found.status == status]


class AdviceResult(msgspec.Struct, frozen=True):
    """What buffer a stream needs, in numbers and in words."""

    reason: str
    buffer: int | None = None
    k: int | None = None
    predicted_rate: float | None = None


class ProfileResult(CommandResult, frozen=True, kw_only=True):
    """Of a stream."""

    command: ClassVar[str] = "profile"
    messages: int
    never_obsolete: float
    advice: AdviceResult | None = None


class SwarmResult(CommandResult, frozen=True, kw_only=True):
    """Of fault-injected runs."""

    command: ClassVar[str] = "sim swarm"
    protocol: str
    seeds: int
    violations: int
    first_failure: str | None
    mutant: str | None = None

    def to_verdict(self) -> ResultVerdict:
        """How many violations."""
        what = f"swarm of {self.protocol}" + (f", mutant {self.mutant}" if self.mutant else "")
        return ResultVerdict(
            what, f"{self.seeds:,} seeds, {_count(self.violations)}", not self.violations
        )


class MutantRow(msgspec.Struct, frozen=True):
    """A broken protocol."""

    name: str
    caught: bool


class MutantsResult(CommandResult, frozen=True, kw_only=True):
    """Of all broken protocols."""

    command: ClassVar[str] = "sim mutants"
    mutants: list[MutantRow]

    def to_verdict(self) -> ResultVerdict:
        """Which of them nobody noticed."""
        survived = [mutant.name for mutant in self.mutants if not mutant.caught]
        text = f"survived: {', '.join(survived)}" if survived else "all caught"
        return ResultVerdict(f"{len(self.mutants)} broken protocols", text, not survived)


class SimResult(CommandResult, frozen=True, kw_only=True):
    """Of one run of an experiment."""

    command: ClassVar[str] = "sim"
    experiment: str
    seed: int
    parameters: dict[str, Any]
    results: Any
    source: str = "simulation"
    violations: int = 0

    def to_verdict(self) -> ResultVerdict:
        """How many violations."""
        what = f"{self.experiment}, {self.source}, seed {self.seed}"
        return ResultVerdict(what, _count(self.violations), not self.violations)


class DemoRow(msgspec.Struct, frozen=True):
    """One run of the demonstration."""

    converged: bool


class DemoResult(CommandResult, frozen=True, kw_only=True):
    """Of the demonstration."""

    command: ClassVar[str] = "demo"
    reliable: DemoRow
    semantic: DemoRow

    def to_verdict(self) -> ResultVerdict:
        """Whether all members ended up the same."""
        apart = [n for n in ("reliable", "semantic") if not getattr(self, n).converged]
        text = f"did not converge: {', '.join(apart)}" if apart else "all members end up the same"
        return ResultVerdict("demo", text, not apart)


class SweepResult(CommandResult, frozen=True, kw_only=True):
    """Of a sweep, which its own directory tells more about."""

    command: ClassVar[str] = "sweep"
    runs: int
    skipped: int
    failed: int
    digest: str
    violations: int = 0

    def to_verdict(self) -> ResultVerdict:
        """How many runs failed."""
        text = f"{self.runs:,} runs, {self.failed:,} failed, {_count(self.violations)}"
        return ResultVerdict("sweep", text, not self.failed and not self.violations)


class FiguresResult(CommandResult, frozen=True, kw_only=True):
    """Of the papers' figures."""

    command: ClassVar[str] = "figures"
    figures: list[dict[str, Any]]


class BenchResult(CommandResult, frozen=True, kw_only=True):
    """Of a live benchmark."""

    command: ClassVar[str] = "bench"
    results: list[dict[str, Any]]
    settings: Any


class LakeResult(CommandResult, frozen=True, kw_only=True):
    """Of the lake."""

    command: ClassVar[str] = "lake"
    files: int
    rows: int
    quarantined: int


class ThroughputResult(CommandResult, frozen=True, kw_only=True):
    """Of equations 1 to 3."""

    command: ClassVar[str] = "model throughput"
    purge_ratio: float
    purge_ratio_limit: float


class GossipResult(CommandResult, frozen=True, kw_only=True):
    """Of the model of gossip."""

    command: ClassVar[str] = "model gossip"
    rounds: Any
    probability: list[float]


RESULT_TYPES: Final[tuple[type[CommandResult], ...]] = (
    CheckResult,
    ProfileResult,
    SwarmResult,
    MutantsResult,
    SimResult,
    SweepResult,
    DemoResult,
    FiguresResult,
    BenchResult,
    LakeResult,
    ThroughputResult,
    GossipResult,
)


def parse_result(facts: dict[str, Any]) -> CommandResult | None:
    """The answer that this object is; `msgspec.ValidationError` if it only looks like one."""
    for kind in RESULT_TYPES:
        needed = {field.name for field in msgspec.structs.fields(kind) if field.required}
        if needed <= facts.keys():
            return msgspec.convert(facts, kind)
    return None


def _count(violations: int) -> str:
    return f"{violations:,} violations" if violations else "no violation"
