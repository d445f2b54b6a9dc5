"""The abstract FIFO-SRB keeps every promise of S-RM; without any one guard, a monitor shouts."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from semcast.specs.automaton import execute
from semcast.specs.fifo_srb import D, FifoSrb, MessageId, Tagged
from semcast.specs.monitors import Monitors
from semcast.terms.events import RECEIVE, SKIP
from semcast.terms.ids import Rank
from semcast.terms.messages import DataMessage
from semcast.terms.relations import RELATIONS

STEPS_MAX = 20_000


def stream(rng: Random, relation: str, sender: Rank, length: int) -> list[DataMessage]:
    messages = []
    for seq in range(1, length + 1):
        back = [distance for distance in range(1, seq) if rng.random() < 0.4]
        covers: bytes | tuple[int, ...] = b""
        if relation == "bitmap":
            covers = sum(1 << (distance - 1) for distance in back).to_bytes(2, "little")
        elif relation in ("list", "update-fin"):
            covers = tuple(back)
        item = rng.choice((None, 1, 1, 2))
        messages.append(DataMessage(sender, seq, item, covers, never_purge=rng.random() < 0.1))
    return messages


def judge(system: FifoSrb, *, quiescent: bool) -> Monitors:
    monitors = Monitors("s-rm", "fifo", system.relation.name, system.f, system.n)
    for event in system.events:
        monitors.on_event(event)
    monitors.on_end(system.correct(), quiescent)
    return monitors


def many_senders(seed: int, algorithm: type[FifoSrb]) -> FifoSrb:
    rng = Random(seed)
    n, relation = rng.randint(1, 4), rng.choice(list(RELATIONS))
    plan = [stream(rng, relation, sender, rng.randint(0, 6)) for sender in range(n)]
    return algorithm(plan, relation, f=rng.randrange(n))


def one_sender(n: int, f: int) -> Callable[[int, type[FifoSrb]], FifoSrb]:
    def system(seed: int, algorithm: type[FifoSrb]) -> FifoSrb:
        silent: list[list[DataMessage]] = [[] for _ in range(n - 1)]
        return algorithm([stream(Random(seed), "item", 0, 8), *silent], "item", f)

    return system


def run(seed: int, system: FifoSrb) -> Monitors:
    rng = Random(seed)
    outcome = execute(system.actions(), rng, free_steps=rng.randint(50, 400), steps_max=STEPS_MAX)
    assert outcome.quiescent
    return judge(system, quiescent=True)


def test_random_executions_keep_every_promise() -> None:
    seen: Counter[str] = Counter()
    for seed in range(300):
        system = many_senders(seed, FifoSrb)
        verdict = run(seed, system)
        assert not verdict.violations, f"seed {seed}: {verdict.violations[0]}"
        assert not verdict.unjudged
        seen.update(event.kind + event.note for event in system.events)
    # Otherwise the promises were kept by not being tried.
    for kind in ("multicast", "deliver", "purgedelivery", "purgeretransmission", "skip", "crash"):
        assert seen[kind] > 100, seen


class PurgesUnsafe(FifoSrb):
    """TP5 without safe(m', i)."""

    def safe(self, m: MessageId, i: Rank) -> bool:
        return True


class DeliversAsPrinted(FifoSrb):
    """TP3 as printed: any data in Q_i."""

    def first(self, m: MessageId, queue: Tagged, delivered: object) -> bool:
        return True


class EnqueuesWithoutPrefix(FifoSrb):
    """TP2 without next(m, Q_i)."""

    def next(self, m: MessageId, queue: Tagged) -> bool:
        return any(queue is q for q in self.Q) or super().next(m, queue)


class CrashesMoreThanF(FifoSrb):
    """TE2 without its bound."""

    def can_crash(self, i: Rank) -> bool:
        return not self.c[i] and sum(self.c) + 1 < self.n


class NeverRelays(FifoSrb):
    """TP2 without forwarding what others multicast."""

    def enqueue(self, i: Rank, j: Rank, m: MessageId, o: str) -> None:
        if m[0] == i:
            super().enqueue(i, j, m, o)
        else:
            self.Q[i][m] = o
            self._emit(RECEIVE if o == D else SKIP, i, m, peer=j)


class PurgesTheUnrelated(FifoSrb):
    """TP4 and TP5 without m ⊏ m'."""

    def obsoletes(self, m: MessageId, by: MessageId) -> bool:
        return m[0] == by[0] and m[1] < by[1]


class DeliversAgain(FifoSrb):
    """TP3 without m ∉ elems(D_i), for the first message that a process delivers."""

    def can_deliver(self, i: Rank, m: MessageId) -> bool:
        again = self.D[i] == [m] and not self.c[i]
        return again or super().can_deliver(i, m)


MUTANTS = [
    (PurgesUnsafe, "purge_safety", many_senders, 50),
    (PurgesUnsafe, "fifo_completeness", one_sender(2, f=1), 1000),
    (DeliversAsPrinted, "fifo_order", many_senders, 50),
    (EnqueuesWithoutPrefix, "fifo_order", many_senders, 50),
    (EnqueuesWithoutPrefix, "purge_safety", many_senders, 50),
    (CrashesMoreThanF, "fifo_completeness", one_sender(2, f=0), 1000),
    (NeverRelays, "agreement", one_sender(3, f=1), 500),
    (PurgesTheUnrelated, "purge_safety", many_senders, 50),
    (PurgesTheUnrelated, "validity", many_senders, 50),
    (PurgesTheUnrelated, "sender_reliability", many_senders, 50),
    (DeliversAgain, "at_most_once", many_senders, 50),
    (DeliversAgain, "integrity", many_senders, 50),
]


@pytest.mark.parametrize(
    ("mutant", "name", "system", "seeds"), MUTANTS, ids=[f"{m[0].__name__}-{m[1]}" for m in MUTANTS]
)
def test_a_missing_guard_is_caught(
    mutant: type[FifoSrb],
    name: str,
    system: Callable[[int, type[FifoSrb]], FifoSrb],
    seeds: int,
) -> None:
    assert any(name in run(seed, system(seed, mutant)).counts for seed in range(seeds))


@pytest.mark.parametrize("configuration", [(2, 0), (2, 1), (3, 1)])
def test_the_mutants_scenarios_are_harmless_to_the_algorithm(
    configuration: tuple[int, int],
) -> None:
    n, f = configuration
    for seed in range(60):
        assert not run(seed, one_sender(n, f)(seed, FifoSrb)).violations


def scenario_of_section_2_2(algorithm: type[FifoSrb], f: int) -> FifoSrb:
    """p broadcasts m1, m2 and m3 with m1 ⊏ m3, and enqueues them; nothing has left it yet."""
    m1, m2, m3 = DataMessage(0, 1, item=1), DataMessage(0, 2), DataMessage(0, 3, item=1)
    system = algorithm([[m1, m2, m3], []], "item", f)
    for m in ((0, 1), (0, 2), (0, 3)):
        system.broadcast(0, m)
        system.transmit(0, 0, m)
        system.enqueue(0, 0, m, D)
    return system


def test_m1_is_not_purged_before_m3_is_safe() -> None:
    """[SRB §2.2] "purging of m1 was delayed until m3 was known to be safe"."""
    system = scenario_of_section_2_2(FifoSrb, f=1)
    assert not system.can_purge_r(0, 1, (0, 1), (0, 3))
    for m in ((0, 1), (0, 2), (0, 3)):
        system.transmit(0, 1, m)
        system.enqueue(1, 0, m, D)
    system.transmit(1, 0, (0, 3))
    assert system.can_purge_r(0, 1, (0, 1), (0, 3))
    assert not system.can_purge_r(0, 1, (0, 2), (0, 3))


@pytest.mark.parametrize(("algorithm", "f"), [(PurgesUnsafe, 1), (CrashesMoreThanF, 0)])
def test_the_sequence_that_violates_fifo_completeness(algorithm: type[FifoSrb], f: int) -> None:
    """[SRB §2.2] m1 is purged for m3, m2 is delivered elsewhere, the sender crashes."""
    system = scenario_of_section_2_2(algorithm, f)
    assert system.can_purge_r(0, 1, (0, 1), (0, 3))
    system.purge_r(0, 1, (0, 1), (0, 3))
    for m, o in (((0, 1), "P"), ((0, 2), "D")):
        system.transmit(0, 1, m)
        assert system.can_enqueue(1, 0, m, o)
        system.enqueue(1, 0, m, o)
    system.deliver(1, (0, 2))
    assert system.can_crash(0)
    system.crash(0)
    verdict = judge(system, quiescent=True)
    assert "fifo_completeness" in verdict.counts
    assert ("purge_safety" in verdict.counts) == (algorithm is PurgesUnsafe)


@pytest.mark.parametrize(("n", "f"), [(1, 0), (3, 0), (3, 1), (3, 2)])
def test_at_most_f_processes_crash_and_f_can(n: int, f: int) -> None:
    """TE2 as mended: <= f, where the figure has < f."""
    system = FifoSrb([[] for _ in range(n)], "none", f)
    for i in range(f):
        assert system.can_crash(i)
        system.crash(i)
    assert not any(system.can_crash(i) for i in range(n))


def test_what_others_broadcast_is_forwarded_to_all_but_oneself() -> None:
    """TP2: "for all k ≠ i"; so a process counts itself in `safe` only for its own messages."""
    system = FifoSrb([[DataMessage(0, 1)], [], []], "none", f=0)
    system.broadcast(0, (0, 1))
    system.transmit(0, 0, (0, 1))
    system.enqueue(0, 0, (0, 1), D)
    system.transmit(0, 1, (0, 1))
    system.enqueue(1, 0, (0, 1), D)
    assert [set(system.O[1][k]) for k in range(3)] == [{(0, 1)}, set(), {(0, 1)}]


def test_same_seed_same_trace() -> None:
    systems = [many_senders(7, FifoSrb) for _ in range(2)]
    for system in systems:
        run(7, system)
    assert systems[0].events == systems[1].events
    assert systems[0].events
