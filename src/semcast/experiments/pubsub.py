"""EXP-9: LBRM, pbcast and rpbcast on a wide area, and in large groups [RPB §7].

Eighteen members at the fringe of thirty nodes.  `senders` of them publish packets of 1 kB at random
moments for `seconds`, together `rate` a second; the other `publishers` send one at the beginning
and are idle then; overhead is counted after `warmup_s`, when that one is forgotten.  The run goes
on until all members have all packets, or for `linger_s` (pbcast: until what it gossips about is
too old).  The member farthest from the hub is the logger.
`loss` is what a datagram between two members suffers on average.  It strikes on links, all of them
alike, so that neighbours lack the same: the thesis's effect of near targets needs that.
Parameters are those of table 7.1; `bias` is 0 for uniform selection of gossip targets, 1 for
linear, 2 for quadratic.
Any number of members has a topology of its own; `topology` names a file instead.
"""

from itertools import repeat
from typing import NamedTuple

from semcast.core.pubsub.recipe import SELECTIONS, PubsubRecipe
from semcast.experiments.experiment import Experiment, Parameters, Row, Value
from semcast.experiments.pubsub_meter import Overhead, PacketReach, load_row, repairs_in
from semcast.experiments.simulated_group import RunRecording, recording
from semcast.families.pubsub import PUBSUB as PUBSUB_FAMILY
from semcast.sim.application import Producer
from semcast.sim.circumstances import Machines
from semcast.sim.clock import rng_stream
from semcast.sim.routed_network import LinkConditions, RoutedNetwork
from semcast.sim.simulation import Simulation
from semcast.sim.topology import DEFAULT_SEED, Topology, load, tiers
from semcast.specs.monitors import Monitors
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.machine import JoinGroup
from semcast.terms.messages import Update
from semcast.workloads import arrivals

IDLE_FROM_S = 0.25
ROUNDS_BEYOND = 2  # how many times its limit pbcast is given to end

DEFAULTS: dict[str, Value] = {
    "protocol": "rpbcast",
    "members": 18,
    "senders": 18,
    "publishers": 18,
    "rate": 360.0,
    "loss": 0.01,
    "bias": 1,
    "size": 1000,
    "period_ms": 250.0,
    "period_max_ms": 250.0,
    "rounds": 10,
    "retry_ms": 250.0,
    "heartbeat_min_ms": 250.0,
    "heartbeat_max_ms": 32_000.0,
    "heartbeat_factor": 2.0,
    "sponsors": 2,
    "recovery_first": "gossip",
    "multicast_at": 0,  # never
    "repairs_per_s": 1000.0,
    "bandwidth_mbps": 100.0,
    "queue_packets": 50,
    "topology": "",
    "topology_seed": DEFAULT_SEED,
    "seconds": 10.0,
    "warmup_s": 3.0,
    "linger_s": 30.0,
}


class PubsubRunInfo(NamedTuple):
    """What a trace says of a run."""

    protocol: str
    order: str
    relation: str
    f: int
    members: int


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figures 7-2 to 7-8."""
    topology = _topology(p)
    recipe = recipe_of(p, topology)
    network = RoutedNetwork(topology, _conditions(p, topology), repairs_in)
    reach = PacketReach(recipe.members)
    facts = PubsubRunInfo(recipe.protocol, recipe.order, recipe.relation, 0, recipe.members)
    with recording(trace, "pubsub", facts, seed, p) as record:
        monitors = Monitors(*facts)
        simulation = Simulation(
            Machines(  # Nobody crashes, so nobody has a disk.
                born=lambda life, now, records: PUBSUB_FAMILY.machine(
                    recipe, life, rng_stream(seed, "member", *life), now, records
                ),
                begins=lambda _: (JoinGroup(),),
            ),
            network,
            seed=seed,
            producers=_producers(p, recipe, seed),
            on_events=monitors.on_events,
            observers=(reach.on_event, *record.observers),
        )
        seconds, warmup_s = p.span_s()
        simulation.run(warmup_s)
        before = Overhead.upto_now(network)
        simulation.run(seconds)
        overhead = Overhead.upto_now(network)
        _linger(simulation, reach, p, record)
    monitors.on_end(frozenset(range(recipe.members)), complete=record.complete)
    return {
        **reach.row(),
        **overhead.row(before, seconds - warmup_s, recipe.members),
        **load_row(network),
        "violations": sum(monitors.counts.values()),
    }


def _linger(
    simulation: Simulation, reach: PacketReach, p: Parameters, record: RunRecording
) -> None:
    """Go on until all have everything, but not for ever."""
    end_s = simulation.now + p.number("linger_s")
    if p["protocol"] == "pbcast":
        age_s = p.whole("rounds") * p.number("period_ms") / 1000
        end_s = min(end_s, simulation.now + ROUNDS_BEYOND * age_s)
    while reach.waiting and simulation.now < end_s:
        simulation.run(min(simulation.now + 0.5, end_s))
    record.complete = not reach.waiting


def recipe_of(p: Parameters, topology: Topology) -> PubsubRecipe:
    """The recipe that the parameters describe, its logger at the remotest member."""
    protocol, bias = p.text("protocol"), p.whole("bias", at_least=0)
    if bias >= len(SELECTIONS):
        raise unknown_value("bias", bias, range(len(SELECTIONS)))
    return PubsubRecipe(
        members=len(topology.members),
        protocol=protocol,
        loggers=() if protocol == "pbcast" else (topology.farthest_member,),
        sponsors=p.whole("sponsors"),
        selection=SELECTIONS[bias],
        recovery_first=p.text("recovery_first"),
        multicast_at=p.whole("multicast_at", at_least=0) or None,
        period_s=p.number("period_ms") / 1000,
        period_max_s=p.number("period_max_ms") / 1000,
        rounds=p.whole("rounds"),
        retry_s=p.number("retry_ms") / 1000,
        heartbeat_min_s=p.number("heartbeat_min_ms") / 1000,
        heartbeat_max_s=p.number("heartbeat_max_ms") / 1000,
        heartbeat_factor=p.number("heartbeat_factor"),
        service_max=p.number("repairs_per_s"),
        buffer=100_000,  # What no logger acknowledged yet never stalls a sender here.
        log_buffer=1 << 40,  # Loggers keep everything in memory: nobody has a disk.
    )


def _topology(p: Parameters) -> Topology:
    if not p["topology"]:
        return tiers(p.whole("members", at_least=2), p.whole("topology_seed", at_least=0))
    topology = load(p.text("topology"))
    if p["members"] not in (len(topology.members), DEFAULTS["members"]):
        raise ConfigError(
            f"members: {p['members']}, but the topology has {len(topology.members)}; remove it"
        )
    return topology


def _conditions(p: Parameters, topology: Topology) -> LinkConditions:
    return LinkConditions(
        loss=1 - (1 - p.share("loss")) ** (1 / topology.mean_hops),
        bandwidth_bps=p.number("bandwidth_mbps") * 1e6,
        queue_packets=p.whole("queue_packets"),
        repairs_per_s=p.number("repairs_per_s"),
    )


def _producers(p: Parameters, recipe: PubsubRecipe, seed: int) -> dict[int, Producer]:
    """Members that are not the logger come first; who is idle has sent one packet."""
    senders, publishers = p.whole("senders"), p.whole("publishers")
    if not senders <= publishers <= recipe.members:
        raise ConfigError(
            f"senders: senders <= publishers <= members must hold, not "
            f"{senders}, {publishers}, {recipe.members}"
        )
    ranks = sorted(range(recipe.members), key=lambda rank: rank in recipe.logger_pids)
    rate, seconds = p.number("rate") / senders, p.number("seconds")
    packets = repeat(Update(payload=bytes(p.whole("size", at_least=0))))
    producers = {}
    for place, rank in enumerate(ranks[:publishers]):
        rng = rng_stream(seed, "arrivals", rank)
        gaps = (
            arrivals.poisson(rate, rng) if place < senders else iter([IDLE_FROM_S * rng.random()])
        )
        producers[rank] = Producer(gaps, packets, until_s=seconds)
    return producers


PUBSUB = Experiment(
    "pubsub",
    "LBRM, pbcast and rpbcast on a wide-area network: load, latency, overhead",
    "RPB figs. 7-2 to 7-8, table 7.2",
    DEFAULTS,
    run,
    answer="{unreliable} of {packets} messages did not reach everyone; mean latency of the others: "
    "{latency_mean_ms}.",
)
