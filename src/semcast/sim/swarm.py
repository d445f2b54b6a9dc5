"""A swarm: thousands of seeds, each drawing its own group, load and faults.

Guarantees: a seed decides everything, so one line replays a failure.  Half of the seeds (the
odd ones) crash members at failpoints inside handlers, since random moments rarely hit the
window between a purge and what should follow it.  At most f members crash.
"""

import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from os import cpu_count
from random import Random
from time import perf_counter
from typing import TypeAlias

import msgspec

from semcast.core.pubsub import recipe as pubsub
from semcast.core.recipe import Recipe
from semcast.faults import Crash, Failpoint, Fault
from semcast.sim.case import Case, Outcome, run
from semcast.sim.clock import stream
from semcast.sim.draws import draw_cuts, draw_link, draw_senders
from semcast.sim.mutants import mutated
from semcast.sim.process import Observer
from semcast.sim.pubsub.case import PubsubCase
from semcast.sim.pubsub.case import run as run_pubsub
from semcast.sim.pubsub.draw import draw as draw_pubsub
from semcast.sim.views import draw as views
from semcast.sim.views.case import ViewCase
from semcast.sim.views.case import run as run_views
from semcast.terms.errors import one_of

PROTOCOLS = ("s-sm", "s-rm", "sm", "rm", "causal", *pubsub.PROTOCOLS, *views.PROTOCOLS)
AnyCase: TypeAlias = Case | PubsubCase | ViewCase

CHUNK = 8
WATCHDOG_S = 120.0  # a seed takes a hundredth of a second; this one would never end

FAILPOINTS = (
    ("purge", "retransmission"),
    ("purge", "retransmission"),
    ("purge", None),
    ("multicast", None),
    ("deliver", None),
    ("receive", None),
    ("skip", None),
    ("safe", None),
    ("reclaim", None),
)


def draw(protocol: str, seed: int) -> AnyCase:
    """The case of one seed."""
    if protocol not in PROTOCOLS:
        raise one_of("protocol", protocol, PROTOCOLS)
    if protocol in pubsub.PROTOCOLS:
        return draw_pubsub(protocol, seed)
    if protocol in views.PROTOCOLS:
        return views.draw(protocol, seed)
    rng = stream(seed, "swarm", protocol)
    members = rng.choice((1, 2, 3, 3, 4, 5, 6))
    recipe = draw_recipe(protocol, members, rng)
    phase_s = rng.uniform(0.5, 1.5)
    slow = [pid for pid in range(members) if rng.random() < 0.4]
    return Case(
        seed=seed,
        recipe=recipe,
        senders=tuple(draw_senders(members, phase_s, rng)),
        service_s={pid: rng.choice((0.0002, 0.001, 0.005)) for pid in slow},
        take={pid: rng.choice((1, 1, 4)) for pid in slow},
        link=draw_link(rng),
        faults=(*draw_cuts(members, phase_s, rng), *draw_crashes(recipe, phase_s, seed % 2, rng)),
        phase_s=phase_s,
        quiet_within_s=30.0,
        through_bytes=rng.random() < 0.1,
    )


def draw_recipe(protocol: str, members: int, rng: Random) -> Recipe:
    """Settings across their whole range, small buffers above all."""
    causal = protocol == "causal"
    relation = rng.choice(("item", "item", "item", "bitmap", "list", "all", "update-fin", "none"))
    if protocol in ("sm", "rm"):
        relation = "none"
    in_place = relation == "item" and not causal and rng.random() < 0.25
    return Recipe(
        members=members,
        protocol="s-rm" if causal else protocol,
        order="causal" if causal else "item" if in_place else "fifo",
        relation=relation,
        k=rng.choice((16, 64, 256)),
        chain_limit=rng.choice((None, None, 1, 3)) if relation == "item" else None,
        f=rng.choice(((members - 1) // 2, (members - 1) // 2, rng.randrange(members))),
        buffer=rng.choice((1, 3, 8, 20, 40, 100)),
        buffer_bytes=rng.choice((64 << 20, 64 << 20, 200)),
        purge="eager" if in_place else rng.choice(("eager", "eager", "lazy")),
        period_s=rng.choice((0.01, 0.03, 0.05)),
        fanout=rng.choice((1, 2, 3)),
        congested_at=rng.choice((0.0, 0.0, 0.5, 1.0)),
        safety_always=rng.random() < 0.3,
        datagram_bytes=rng.choice((60, 200, 1400)),
        coalesce_s=rng.choice((0.0, 0.0, 0.004)),
        bandwidth_max=rng.choice((None, None, None, 20_000.0)),
        nack_delay_s=rng.choice((0.0, 0.002)),
        timeout_max_s=0.25,
        unicast=rng.random() < 0.3,
        direct_gossip=rng.random() < 0.5,
        gossip_after=rng.choice((None, None, 4)),
        window_bytes=rng.choice((None, None, 50)),
    )


def draw_crashes(
    recipe: Recipe, phase_s: float, at_failpoints: int, rng: Random
) -> Iterator[Fault]:
    """At most f crashes, announced or not."""
    for pid in rng.sample(range(recipe.members), rng.randint(0, recipe.f)):
        announced = rng.choice((None, 0.01, 0.3))
        if not at_failpoints:
            yield Crash(pid, rng.uniform(0, phase_s), announced)
            continue
        kind, note = rng.choice(FAILPOINTS)
        nth, keep = rng.choice((1, 2, 5, 20)), rng.choice((0.0, 0.3, 0.7, 1.0))
        yield Failpoint(pid, kind, note, nth, keep, announced)


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


def carry_out(case: AnyCase, *observers: Observer) -> Outcome:
    """Run a case of any kind; `observers` see every event."""
    if isinstance(case, ViewCase):
        return run_views(case, *observers)
    return run(case, *observers) if isinstance(case, Case) else run_pubsub(case, *observers)


def run_seed(protocol: str, mutant: str | None, seed: int, *observers: Observer) -> Outcome:
    """Draw and run one seed, with a deliberately broken protocol if `mutant` names one."""
    case = draw(protocol, seed)
    try:
        with mutated(mutant), watchdog(WATCHDOG_S):
            return carry_out(case, *observers)
    except Exception as error:  # A machine that raises is one more way to break a promise.
        place = traceback.extract_tb(error.__traceback__)[-1]
        found = f"exception: {error!r} at {place.filename}:{place.lineno} in {place.name}"
        return Outcome(seed=seed, events=0, crashed=0, violations=(found,))


class Summary(msgspec.Struct, kw_only=True):
    """What a swarm found."""

    protocol: str
    seeds: int = 0
    events: int = 0
    events_per_second: float = 0.0
    crashes: int = 0
    violations: int = 0
    first_failure: str | None = None
    first_failed_seed: int | None = None
    explanation: str = ""


def replay_line(protocol: str, mutant: str | None, seed: int) -> str:
    """What to paste in order to see a failure again."""
    broken = f" --mutant {mutant}" if mutant else ""
    return f"semcast sim swarm --protocol {protocol} --seeds 1 --from {seed}{broken}"


def swarm(
    protocol: str,
    seeds: range,
    *,
    mutant: str | None = None,
    jobs: int | None = None,
    until_caught: bool = False,
    on_progress: Callable[[Summary], None] = lambda _: None,
    run_one: Callable[[int], Outcome] | None = None,
) -> Summary:
    """Run every seed on all cores; stop at the first violation if `until_caught`.

    `run_one` runs a seed in place of `run_seed`; then all of them run here.
    """
    draw(protocol, seeds.start)  # A wrong name is told before anything is started.
    jobs = jobs or cpu_count() or 1
    summary = Summary(protocol=protocol)
    started = perf_counter()
    one = run_one or partial(run_seed, protocol, mutant)
    if jobs == 1 or len(seeds) <= CHUNK or run_one is not None:
        _gather(map(one, seeds), summary, mutant, until_caught, on_progress)
        busy = 1
    else:
        with ProcessPoolExecutor(jobs) as pool:
            outcomes = pool.map(one, seeds, chunksize=CHUNK)
            _gather(outcomes, summary, mutant, until_caught, on_progress)
            pool.shutdown(cancel_futures=True)
        busy = jobs
    summary.events_per_second = round(summary.events / (perf_counter() - started) / busy)
    return summary


def _gather(
    outcomes: Iterator[Outcome],
    summary: Summary,
    mutant: str | None,
    until_caught: bool,
    on_progress: Callable[[Summary], None],
) -> None:
    for outcome in outcomes:
        summary.seeds += 1
        summary.events += outcome.events
        summary.crashes += outcome.crashed
        summary.violations += len(outcome.violations)
        if outcome.violations and summary.first_failure is None:
            summary.first_failed_seed = outcome.seed
            summary.first_failure = replay_line(summary.protocol, mutant, outcome.seed)
            summary.explanation = outcome.violations[0]
            if until_caught:
                return
        on_progress(summary)
