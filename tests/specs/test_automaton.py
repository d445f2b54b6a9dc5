"""The engine: enabled actions only, weak fairness, a bound, and the same run for the same seed."""

from collections.abc import Iterator
from random import Random

from semcast.specs.automaton import Action, execute


class Counter:
    """Counts up to a limit; may be reset, which is not fair."""

    def __init__(self, limits: list[int]) -> None:
        self.limits = limits
        self.counts = [0] * len(limits)
        self.log: list[str] = []

    def actions(self) -> tuple[Action, ...]:
        return (
            Action("step", self._indices, self.can_step, self.step, fair=True),
            Action("reset", self._indices, self.can_reset, self.reset),
        )

    def _indices(self) -> Iterator[tuple[int]]:
        return ((i,) for i in range(len(self.limits)))

    def can_step(self, i: int) -> bool:
        return self.counts[i] < self.limits[i]

    def step(self, i: int) -> None:
        assert self.can_step(i)
        self.counts[i] += 1
        self.log.append(f"step {i}")

    def can_reset(self, i: int) -> bool:
        return self.counts[i] > 0

    def reset(self, i: int) -> None:
        assert self.can_reset(i)
        self.counts[i] = 0
        self.log.append(f"reset {i}")


def test_ends_quiescent_once_no_fair_action_is_enabled() -> None:
    for seed in range(50):
        counter = Counter([3, 1, 0])
        outcome = execute(counter.actions(), Random(seed), free_steps=20, steps_max=1000)
        assert outcome.quiescent
        assert counter.counts == [3, 1, 0]
        assert outcome.steps == len(counter.log)


def test_unfair_actions_happen_in_the_free_steps_and_never_after_them() -> None:
    free = Counter([3, 3])
    execute(free.actions(), Random(1), free_steps=200, steps_max=1000)
    assert any(entry.startswith("reset") for entry in free.log[:200])
    assert not any(entry.startswith("reset") for entry in free.log[200:])


def test_every_forever_enabled_fair_action_gets_its_turn_in_each_round() -> None:
    counter = Counter([10**9] * 3)
    outcome = execute(counter.actions(), Random(2), free_steps=0, steps_max=31)
    assert outcome == (31, False)
    assert max(counter.counts) - min(counter.counts) <= 1


def test_the_bound_holds_in_the_free_steps_too() -> None:
    counter = Counter([10**9])
    assert execute(counter.actions(), Random(3), free_steps=500, steps_max=7) == (7, False)
    assert len(counter.log) == 7


def test_nothing_enabled_is_quiescent_at_once() -> None:
    counter = Counter([0])
    assert execute(counter.actions(), Random(4), free_steps=10, steps_max=10) == (0, True)


def test_same_seed_same_execution() -> None:
    logs = []
    for seed in (5, 5, 6):
        counter = Counter([4, 4])
        execute(counter.actions(), Random(seed), free_steps=40, steps_max=100)
        logs.append(counter.log)
    assert logs[0] == logs[1] != logs[2]


def test_chance_orders_the_turns_within_a_round() -> None:
    orders = set()
    for seed in range(20):
        counter = Counter([1, 1, 1])
        execute(counter.actions(), Random(seed), free_steps=0, steps_max=10)
        orders.add(tuple(counter.log))
    assert len(orders) > 3
