"""What the simulator needs of a family: cases, a referee, scenarios and mutants.

Only the simulator loads this part of a family; a live member never does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from semcast.families.case import AnyCase
from semcast.families.referee import ApplicationState, Referee
from semcast.faults import Constant, Latency
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Command, Machine
from semcast.terms.records import Records

AT_ONCE: Final = Constant(0.0)

F = TypeVar("F", bound=Callable[[Any], Any])
Drawn: TypeAlias = Callable[["Choice", int, Random], AnyCase]
"""(what to run, seed, generator) → the case of the seed."""


class Choice(NamedTuple):
    """What a swarm runs: a protocol, and one of its orders or any."""

    protocol: str
    order: str | None = None


class Mutant(NamedTuple):
    """A deliberately broken protocol: one method replaced, and who must notice.

    `replaced` gets the original method, or property, and returns the broken one.  `protocol` is the
    swarm that must find it; an alias names an order, too.
    """

    owner: type
    method: str
    replaced: Callable[[Any], Any]
    scenario: str
    protocol: str


class MutantTable(dict[str, Mutant]):
    """The mutants of a family, by name; each is added where it is written."""

    def add(
        self, name: str, owner: type, method: str, *, scenario: str, swarm: str
    ) -> Callable[[F], F]:
        """A decorator: the function makes the broken method out of the original."""

        def adding(replaced: F) -> F:
            if name in self:
                raise ValueError(f"the name {name!r} is taken")
            getattr(owner, method)
            self[name] = Mutant(owner, method, replaced, scenario, swarm)
            return replaced

        return adding


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How the applications of a family behave: they hold a state that takes `snapshot` to write
    down, and who was put out of its group comes back after `back_after_s`, or not at all."""

    new_state: Callable[[], ApplicationState] | None = None
    snapshot: Latency = AT_ONCE
    back_after_s: float | None = None


def class_name(datagram: Any) -> Iterable[str]:
    """What a failpoint calls a datagram."""
    return (type(datagram).__name__.lower(),)


@dataclass(frozen=True, kw_only=True)
class Testing:
    """How the simulator runs and judges a family.

    `case` is the type of its cases, from which they are read.  `machine` makes a machine where a
    case says more than the recipe; `chance` names the stream of random numbers that it gets, which
    kept cases depend on.  An incarnation begins with the commands of `begins`.  `kinds`
    are the names that a failpoint may call a datagram by.  `announce` is the command that tells a
    machine of a crash, if it needs that.  `reach` is how far back a list of a recipe may name.
    """

    case: Any
    draw: Drawn
    referee: Callable[[AnyCase], Referee] = Referee
    machine: Callable[[AnyCase, Incarnation, Random, float, Records], Machine] | None = None
    chance: Callable[[Incarnation], tuple[object, ...]] = lambda life: ("member", *life)
    begins: Callable[[AnyCase, Incarnation], Sequence[Command]] = lambda case, life: ()
    kinds: Callable[[Any], Iterable[str]] = class_name
    announce: Callable[[int], Command] | None = None
    habits: Callable[[AnyCase], Habits] = lambda case: Habits()
    reach: Callable[[Any], int] = lambda recipe: int(recipe.k)
    scenarios: Mapping[str, AnyCase] = field(default_factory=dict)
    mutants: Mapping[str, Mutant] = field(default_factory=dict)
