"""Automata that run: actions with a precondition and an effect, and an engine that picks.

An execution is a sequence of enabled actions.  Some actions are declared weakly fair: one that is
enabled for ever is eventually executed.  The engine first lets chance pick freely, which explores
asynchrony, then grants every fair action its turn in rounds until none is enabled.  A finite
execution is weakly fair exactly when no fair action is enabled in its last state, so a quiescent
outcome is a fair execution of which liveness may be judged.

Rejected: a uniform choice over all enabled instances; it drowns the rare actions, crash and purge,
in transmissions, and costs an enumeration of everything at each step.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeAlias

Arguments: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Action:
    """One transition schema.  `domain` yields at least the arguments for which it is enabled."""

    name: str
    domain: Callable[[], Iterable[Arguments]]
    precondition: Callable[..., bool]
    effect: Callable[..., None]
    fair: bool = False
    pick_weight: float = 1.0  # Chance picks in proportion to it; fairness does not care.

    def enabled(self) -> list[Arguments]:
        """The arguments with which the action may be executed in this state."""
        return [arguments for arguments in self.domain() if self.precondition(*arguments)]


class ExecutionEnd(NamedTuple):
    """How an execution ended: quiescent when no fair action was left enabled."""

    steps: int
    quiescent: bool


def execute(
    actions: Sequence[Action], rng: Random, *, free_steps: int, steps_max: int
) -> ExecutionEnd:
    """Run `free_steps` steps of any action, then fair ones only, at most `steps_max` in all."""
    steps = _freely(actions, rng, min(free_steps, steps_max))
    return _fairly([action for action in actions if action.fair], rng, steps, steps_max)


def _freely(actions: Sequence[Action], rng: Random, steps_max: int) -> int:
    # Each execution has its own temper: here links are slow, there everybody purges.
    weight = {action.name: action.pick_weight * 10 ** rng.uniform(-2.5, 0.0) for action in actions}
    for step in range(steps_max):
        for action in sorted(actions, key=lambda a: rng.random() * weight[a.name], reverse=True):
            if choices := action.enabled():
                action.effect(*rng.choice(choices))
                break
        else:
            return step
    return steps_max


def _fairly(fair: Sequence[Action], rng: Random, steps: int, steps_max: int) -> ExecutionEnd:
    while turns := [(action, args) for action in fair for args in action.enabled()]:
        rng.shuffle(turns)
        for action, arguments in turns:
            if not action.precondition(*arguments):
                continue
            if steps == steps_max:
                return ExecutionEnd(steps, quiescent=False)
            action.effect(*arguments)
            steps += 1
    return ExecutionEnd(steps, quiescent=True)
