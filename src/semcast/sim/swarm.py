"""A swarm: thousands of seeds, each drawing its own group, load and faults.

Guarantees: a seed decides everything, so one line replays a failure.
"""

import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from os import cpu_count
from time import perf_counter

import msgspec

from semcast.families import ALIASES, families, find, protocols
from semcast.families.case import AnyCase, CaseOutcome
from semcast.families.family import untested
from semcast.families.testing import Choice, Mutant, Testing
from semcast.sim.circumstances import Observer
from semcast.sim.clock import rng_stream
from semcast.sim.run import run
from semcast.terms.errors import unknown_value

CHUNK = 8
WATCHDOG_S = 120.0  # a seed takes a hundredth of a second; this one would never end


def swarms() -> tuple[str, ...]:
    """The names that a swarm can be asked for: protocols, and those of a protocol with an order."""
    return (*protocols(), *ALIASES)


def chosen(name: str, order: str | None = None) -> Choice:
    """What a name of a protocol, or an alias, stands for."""
    if name in ALIASES and order in (None, ALIASES[name][1]):
        return Choice(*ALIASES[name])
    if name not in protocols():
        raise unknown_value("protocol", name, swarms())
    find(name, order)
    return Choice(name, order)


def draw(protocol: str, seed: int, order: str | None = None) -> AnyCase:
    """The case of one seed."""
    choice = chosen(protocol, order)
    rng = rng_stream(seed, "swarm", *(part for part in choice if part is not None))
    return find(choice.protocol).testing().draw(choice, seed, rng)


def testings() -> list[Testing]:
    """What the simulator has of all families that it can run."""
    return [family.testing() for family in families() if family.testing is not untested]


def scenarios() -> Mapping[str, AnyCase]:
    """The named cases of all families."""
    return {name: case for testing in testings() for name, case in testing.scenarios.items()}


def mutants() -> Mapping[str, Mutant]:
    """The deliberately broken protocols of all families."""
    return {name: each for testing in testings() for name, each in testing.mutants.items()}


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Break a protocol while the context lasts; None leaves all as they are."""
    if name is None:
        yield
        return
    known = mutants()
    if name not in known:
        raise unknown_value("mutant", name, known)
    mutant = known[name]
    original = getattr(mutant.owner, mutant.method)
    setattr(mutant.owner, mutant.method, mutant.replaced(original))
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.method, original)


@contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """Raise TimeoutError inside what takes longer, where signals allow it: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def bark(*_: object) -> None:
        raise TimeoutError(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_seed(
    protocol: str,
    mutant: str | None,
    seed: int,
    *observers: Observer,
    order: str | None = None,
) -> CaseOutcome:
    """Draw and run one seed, with a deliberately broken protocol if `mutant` names one."""
    case = draw(protocol, seed, order)
    try:
        with mutated(mutant), watchdog(WATCHDOG_S):
            return run(case, *observers)
    except Exception as error:  # A machine that raises is one more way to break a promise.
        place = traceback.extract_tb(error.__traceback__)[-1]
        found = f"exception: {error!r} at {place.filename}:{place.lineno} in {place.name}"
        return CaseOutcome(seed=seed, events=0, crashed=0, violations=(found,), count=1)


class SwarmSummary(msgspec.Struct, kw_only=True):
    """What a swarm found.  `violations` counts all of them.  `obligations` says of each property
    that some seed promises how often it could have been broken."""

    protocol: str
    order: str | None = None
    seeds: int = 0
    events: int = 0
    events_per_second: float = 0.0
    crashes: int = 0
    violations: int = 0
    first_failure: str | None = None
    first_failed_seed: int | None = None
    explanation: str = ""
    obligations: dict[str, int] = {}
    not_exercised: list[str] = []


def replay_line(protocol: str, mutant: str | None, seed: int, order: str | None = None) -> str:
    """What to paste in order to see a failure again."""
    under = f" --order {order}" if order else ""
    broken = f" --mutant {mutant}" if mutant else ""
    return f"semcast sim swarm --protocol {protocol}{under} --seeds 1 --from {seed}{broken}"


def swarm(
    protocol: str,
    seeds: range,
    *,
    order: str | None = None,
    mutant: str | None = None,
    jobs: int | None = None,
    until_caught: bool = False,
    on_progress: Callable[[SwarmSummary], None] = lambda _: None,
    run_one: Callable[[int], CaseOutcome] | None = None,
) -> SwarmSummary:
    """Run every seed on all cores; stop at the first violation if `until_caught`.

    `run_one` runs a seed in place of `run_seed`; then all of them run here.
    """
    draw(protocol, seeds.start, order)  # A wrong name is told before anything is started.
    jobs = jobs or cpu_count() or 1
    summary = SwarmSummary(protocol=protocol, order=order)
    started = perf_counter()
    one = run_one or partial(_run_seed, protocol, mutant, order)
    if jobs == 1 or len(seeds) <= CHUNK or run_one is not None:
        _gather(map(one, seeds), summary, mutant, until_caught, on_progress)
        busy = 1
    else:
        with worker_pool(jobs) as pool:
            outcomes = pool.map(one, seeds, chunksize=CHUNK)
            _gather(outcomes, summary, mutant, until_caught, on_progress)
        busy = jobs
    summary.not_exercised = sorted(name for name, n in summary.obligations.items() if not n)
    summary.events_per_second = round(summary.events / (perf_counter() - started) / busy)
    return summary


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that do what the block asks for.  When it ends they finish what they are at, and
    begin nothing more.  Ctrl-C reaches every process; only this one answers it.
    """
    with ProcessPoolExecutor(jobs, initializer=_ignore_interrupts) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_seed(protocol: str, mutant: str | None, order: str | None, seed: int) -> CaseOutcome:
    return run_seed(protocol, mutant, seed, order=order)


def _gather(
    outcomes: Iterator[CaseOutcome],
    summary: SwarmSummary,
    mutant: str | None,
    until_caught: bool,
    on_progress: Callable[[SwarmSummary], None],
) -> None:
    for outcome in outcomes:
        summary.seeds += 1
        summary.events += outcome.events
        summary.crashes += outcome.crashed
        summary.violations += outcome.count
        for name, number in outcome.obligations.items():
            summary.obligations[name] = summary.obligations.get(name, 0) + number
        if outcome.violations and summary.first_failure is None:
            summary.first_failed_seed = outcome.seed
            line = replay_line(summary.protocol, mutant, outcome.seed, summary.order)
            summary.first_failure = line
            summary.explanation = outcome.violations[0]
            if until_caught:
                return
        on_progress(summary)
