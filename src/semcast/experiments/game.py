"""EXP-6: a replicated game with one slow replica [SRM §7, fig. 9].

The sender multicasts the game's traffic, the messages of a round together at its start, to a fast
receiver and to one that spends `delay_ms` on each message.

Out of date, by rounds and not by clocks: a modification of an item in round j counts as j' - j
rounds out of date at the slow receiver, where j' is the round of the first message on that item,
at or after the modification, that it delivers (a destruction ends an item's last value).  Under
FIFO order that is how far the receiver's own game moved on in between.  An item changes at most
once a round, so "updated in the same round" says that the modification itself was delivered.
"""

from collections.abc import Iterator, Mapping
from itertools import islice, tee

from semcast.core.recipe import Recipe
from semcast.experiments.experiment import SUSTAINED, Experiment, Parameters, Row, Value
from semcast.experiments.figure import Curve, Figure, Panel, PaperValue
from semcast.experiments.simulated_group import (
    SimulatedGroup,
    for_relation,
    reach_of,
    recipe_of,
    recording,
)
from semcast.faults import Constant, Link
from semcast.sim.clock import rng_stream, rng_stream_seed
from semcast.sim.network import Network
from semcast.terms.events import DELIVER, MULTICAST, Event
from semcast.terms.items import Item
from semcast.terms.messages import Update
from semcast.workloads.distances import distances, links
from semcast.workloads.game import ROUNDS_RECORDED, Game

FAST = 1

DEFAULTS: dict[str, Value] = {
    "protocol": "s-rm",
    "order": "fifo",
    "relation": "item",
    "purge": "eager",
    "members": 3,
    "f": 1,
    "delay_ms": 20.0,
    "k": 32,
    "buffer": 40,
    "latency_ms": 0.1,
    "period_ms": 30.0,
    "fanout": 3,
    "seconds": 60.0,
    "warmup_s": 10.0,
}


class GameScript:
    """A session as it is played: which round and which update every message was."""

    def __init__(self, game: Game, seed: int) -> None:
        self.game = game
        self.rounds: list[int] = []
        self.updates: list[Update] = []
        numbers, traffic = tee(game.messages(rng_stream(seed, "workload")))
        self.arrivals = game.arrivals(number for number, _ in numbers)
        self.traffic = self._play(traffic)

    def _play(self, messages: Iterator[tuple[int, Update]]) -> Iterator[Update]:
        for number, update in messages:
            self.rounds.append(number)
            self.updates.append(update)
            yield update

    @property
    def offered_rate(self) -> float:
        """Messages per second at the game's own pace."""
        return len(self.rounds) / (self.rounds[-1] + 1) * self.game.rounds_per_s


class GameStaleness:
    """For each modification, how many rounds it was missing at process `pid`."""

    def __init__(self, script: GameScript, pid: int, start_s: float, end_s: float) -> None:
        self.script = script
        self.pid = pid
        self.start_ns, self.end_ns = round(start_s * 1e9), round(end_s * 1e9)
        self.waiting: dict[Item, list[int]] = {}  # by item, the rounds of changes not delivered
        self.rounds: list[int] = []

    def on_event(self, event: Event) -> None:
        """Note a modification that is sent, and settle those that a delivery brings or ends."""
        if event.kind == MULTICAST:
            self._on_multicast(event)
        elif event.kind == DELIVER and event.pid == self.pid:
            self._on_delivery(event)

    def _on_multicast(self, event: Event) -> None:
        sent = self.script.updates[event.seq - 1]
        if sent.item is None or sent.never_purge:
            return  # no modification
        if self.start_ns < event.ts_ns <= self.end_ns:
            self.waiting.setdefault(sent.item, []).append(self.script.rounds[event.seq - 1])

    def _on_delivery(self, event: Event) -> None:
        item = self.script.updates[event.seq - 1].item
        now = self.script.rounds[event.seq - 1]
        if item in self.waiting:
            self.rounds += [now - then for then in self.waiting[item] if then <= now]
            self.waiting[item] = [then for then in self.waiting[item] if then > now]

    def share_within(self, rounds: int) -> float:
        """The share of modifications that were at most so many rounds out of date."""
        if not self.rounds:
            return 1.0
        return sum(late <= rounds for late in self.rounds) / len(self.rounds)


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figure 9, c to e."""
    recipe = recipe_of(p)
    seconds, warmup_s = p.span_s()
    slow = p.whole("members", at_least=FAST + 2) - 1
    script = GameScript(Game(), seed)
    outdated = GameStaleness(script, slow, warmup_s, seconds)
    with recording(trace, "game", recipe, seed, p) as record:
        group = SimulatedGroup(
            recipe,
            Network(recipe.members, Link(latency=Constant(p.duration_s("latency_ms")))),
            script.arrivals,
            for_relation(script.traffic, recipe),
            seed=seed,
            seconds=seconds,
            warmup_s=warmup_s,
            service_s={slow: p.duration_s("delay_ms")},
            observers=[outdated.on_event],
            record=record,
        )
        row = group.run().row(FAST, slow)
    return {**_row(row, p, script, outdated), "violations": group.violations}


def live(p: Parameters, seed: int, trace: str | None) -> Row:
    """The same point with real processes on this machine's network."""
    from semcast.experiments.live_group import LiveGroup, reject_overrides
    from semcast.fleet.plan import Load

    reject_overrides(p, DEFAULTS, "latency_ms")
    recipe = recipe_of(p)
    seconds, warmup_s = p.span_s()
    slow = p.whole("members", at_least=FAST + 2) - 1
    script = GameScript(Game(), seed)
    outdated = GameStaleness(script, slow, warmup_s, seconds)

    def observe(event: Event) -> None:
        if event.kind == MULTICAST:
            next(script.traffic)  # what the sender has played from the same seed
        outdated.on_event(event)

    group = LiveGroup(
        "game",
        recipe,
        Load(
            stream="game",
            seconds=seconds,
            seed=rng_stream_seed(seed, "workload"),
            reach=reach_of(recipe),
        ),
        warmup_s=warmup_s,
        service_s={slow: p.duration_s("delay_ms")},
        observers=[observe],
        trace=trace,
    )
    row = group.run().row(FAST, slow)
    return {**_row(row, p, script, outdated), "violations": group.violations}


def _row(
    measured: Mapping[str, float], p: Parameters, script: GameScript, outdated: GameStaleness
) -> Row:
    return {
        "offered_rate": script.offered_rate,
        **measured,
        "updated_same_round": outdated.share_within(0),
        "updated_within_10": outdated.share_within(10),
        "model_rate": _model_rate(p, recipe_of(p), script),
    }


def _model_rate(p: Parameters, recipe: Recipe, script: GameScript) -> float:
    from semcast.models.throughput import (  # numpy is an extra, and slow to import
        horizon,
        purge_ratio_of_distances,
        sender_rate,
    )

    delay_s, offered = p.duration_s("delay_ms"), script.offered_rate
    reach = horizon(recipe.buffer, recipe.reach)
    observed = list(distances(links(script.updates)))
    purges = recipe.purges
    ratio = purge_ratio_of_distances(observed, reach) if purges else 0.0
    return float(sender_rate(offered, min(offered, 1 / delay_s) if delay_s else offered, ratio))


GAME = Experiment(
    "game",
    "a game's state replicated to one slow replica: throughput, purging, rounds out of date",
    "SRM fig. 9",
    DEFAULTS,
    run,
    live,
    answer=SUSTAINED,
)

TRAFFIC_DEFAULTS: dict[str, Value] = {"rank": 1, "distance": 10, "rounds": ROUNDS_RECORDED}


def run_traffic(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figure 9, a and b: the traffic alone, nothing is sent."""
    rank, distance = p.whole("rank"), p.whole("distance")
    rounds = list(islice(Game().rounds(rng_stream(seed, "workload")), p.whole("rounds")))
    sent = [update for played in rounds for update in played.updates]
    changes: dict[Item, int] = {}
    for update in sent:
        if update.item is not None and not update.never_purge:
            changes[update.item] = changes.get(update.item, 0) + 1
    busiest = sorted(changes.values(), reverse=True)
    related = [found for found in distances(links(sent)) if found]
    return {
        "modified_share": busiest[rank - 1] / len(rounds) if rank <= len(busiest) else 0.0,
        "related_share": sum(found == distance for found in related) / max(1, len(related)),
        "related_within": sum(found <= distance for found in related) / max(1, len(related)),
        "violations": 0,
    }


GAME_TRAFFIC = Experiment(
    "game-traffic",
    "the game's traffic: update rate of each item, distance between related messages",
    "SRM fig. 9",
    TRAFFIC_DEFAULTS,
    run_traffic,
    answer="{modified_share} of the rounds change this item; {related_within} of related messages "
    "are within this distance.",
)

_DELAYS = (5.0, 10.0, 12.0, 14.0, 16.0, 20.0, 25.0, 30.0, 32.0, 34.0, 40.0, 50.0)
_RANKS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20)
_DISTANCES = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40)
_RELIABLE: dict[str, Value] = {"protocol": "rm"}
_BITMAP: dict[str, Value] = {"relation": "bitmap"}


def _by_delay(
    label: str, y: str, fixed: dict[str, Value] | None = None, style: str = "simulation"
) -> Curve:
    return Curve(label, "game", "delay_ms", _DELAYS, y, fixed or {}, style)


_ACCEPTED = (
    _by_delay("reliable", "accepted_rate", _RELIABLE, "reliable"),
    _by_delay("semantic", "accepted_rate"),
)
_PURGED = (
    _by_delay("slow receiver", "purged_ratio"),
    _by_delay("slow receiver, bitmap k=32", "purged_ratio", _BITMAP),
    _by_delay("fast receiver", "fast_purged_ratio"),
)
_UPDATED = (
    _by_delay("in the same round", "updated_same_round"),
    _by_delay("within 10 rounds", "updated_within_10"),
)


def _live(*curves: Curve) -> tuple[Curve, ...]:
    """Longer runs than elsewhere: purging nearly suffices, so that buffers fill slowly."""
    return tuple(
        curve.live(*xs, seconds=14.0, warmup_s=8.0)
        for curve in curves
        for xs in [(10.0, 20.0) if curve.style == "reliable" else (20.0, 30.0, 40.0)]
    )


FIGURES = (
    Figure(
        "game",
        "A replicated game with one slow replica",
        "SRM fig. 9",
        (
            Panel(
                "(a) how often items change",
                "rank of the item",
                "share of rounds",
                (Curve("items", "game-traffic", "rank", _RANKS, "modified_share"),),
            ),
            Panel(
                "(b) distance between related messages",
                "distance (messages)",
                "share of related pairs",
                (
                    Curve("at", "game-traffic", "distance", _DISTANCES, "related_share"),
                    Curve("within", "game-traffic", "distance", _DISTANCES, "related_within"),
                ),
            ),
            Panel(
                "(c) throughput",
                "processing delay (ms)",
                "accepted (msg/s)",
                (
                    *_ACCEPTED,
                    _by_delay("semantic, bitmap k=32", "accepted_rate", _BITMAP),
                    _by_delay("model", "model_rate", style="model"),
                ),
                live=_live(*_ACCEPTED),
            ),
            Panel(
                "(d) purging",
                "processing delay (ms)",
                "purged (share)",
                _PURGED,
                (PaperValue("SRM §7.2: up to 60 %", 30.0, 0.60),),
                live=_live(_PURGED[0], _PURGED[2]),
            ),
            Panel(
                "(e) modifications up to date",
                "processing delay (ms)",
                "share of modifications",
                _UPDATED,
                (
                    PaperValue("SRM §7.2: same round", 10.0, 0.78),
                    PaperValue("SRM §7.2: within 10", 10.0, 0.94),
                ),
                live=_live(*_UPDATED),
            ),
        ),
        note="The prototype slept in steps of 10 ms [SRM §6.1], so its 10 ms were up to 20.",
    ),
)
