"""Words and units for the variable names of experiments: in tables, on axes, in help texts."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from semcast.experiments.experiment import Row, Value


class Wording(NamedTuple):
    """What a number is, and its unit."""

    words: str
    unit: str = ""

    @property
    def label(self) -> str:
        """Both, for an axis or a heading."""
        return f"{self.words} ({self.unit})" if self.unit else self.words

    def in_table(self, value: Value) -> tuple[Value, str]:
        """The value and its unit as a table shows them: shares in per cent."""
        if self.unit != "share":
            return value, self.unit
        return (100 * value if isinstance(value, float) else value), "%"


PARAMETERS: Final = {
    "r": Wording("r: messages that overwrite an item", "share"),
    "d": Wording("d: number of items that are overwritten"),
    "k": Wording("k: how far back a bitmap reaches", "messages"),
    "f": Wording("f: crashes to tolerate"),
    "buffer": Wording("buffer of each member", "messages"),
    "receiver_buffer": Wording("buffer of the slow receiver", "messages"),
    "buffers": Wording("what the buffer bounds: each process, split, or one queue"),
    "members": Wording("members, the sender included"),
    "size": Wording("payload of a message", "bytes"),
    "rate": Wording("offered by the sender", "messages/s"),
    "delay_ms": Wording("time that the slow receiver takes for a message", "ms"),
    "perturbation": Wording(
        "what is slow: delivery, latency or bandwidth; of a backup: stopped or slower"
    ),
    "perturbed_percent": Wording("perturbation of one backup", "%"),
    "slice_ms": Wording("time in which the backup is stopped once", "ms"),
    "servers": Wording("servers, the primary included"),
    "clients": Wording("clients, each with one request on its way"),
    "items_max": Wording("items that a request updates, at most"),
    "execute_ms": Wording("time to execute a request, for each item", "ms"),
    "apply_ms": Wording("time to apply an update", "ms"),
    "fin_ms": Wording("time to handle the end of a request", "ms"),
    "overflow": Wording("when a backup holds up a full buffer: block or exclude"),
    "timeout_ms": Wording("silence after which a server is suspected", "ms"),
    "patience_ms": Wording("time that a change of the view waits for a silent server", "ms"),
    "exclude_after_ms": Wording("time after which a backup is excluded for a full buffer", "ms"),
    "back_after_ms": Wording("time after which an excluded backup comes back", "ms"),
    "kbps": Wording("bandwidth of the slow receiver", "kbit/s"),
    "queue_bytes": Wording("queue before a narrow link", "bytes"),
    "queue_packets": Wording("queue of a link", "packets"),
    "protocol": Wording("protocol"),
    "order": Wording("delivery order"),
    "relation": Wording("what makes a message obsolete"),
    "purge": Wording("when obsolete messages are purged: eager, or lazy if the buffer is full"),
    "latency_ms": Wording("one-way latency of the network", "ms"),
    "period_ms": Wording("gossip interval", "ms"),
    "period_max_ms": Wording("gossip interval when nothing is missing", "ms"),
    "safety_period_ms": Wording("gossip interval of safety detection; 0: as the others", "ms"),
    "fanout": Wording("members contacted in a gossip round"),
    "unicast": Wording("send each member its own copy"),
    "seconds": Wording("simulated time", "s"),
    "warmup_s": Wording("time at the beginning that is not measured", "s"),
    "linger_s": Wording("time for repairs after the last message, at most", "s"),
    "bottleneck": Wording("what is slow: receiver or network"),
    "input_percent": Wording("offered", "% of the bottleneck"),
    "capacity": Wording("what the bottleneck carries", "messages/s"),
    "batch": Wording("messages that the sender submits at once"),
    "loss": Wording("datagrams lost", "share"),
    "congested": Wording("one receiver takes a third of what is offered"),
    "safety_always": Wording("detect safety also while buffers are empty"),
    "processor_factor": Wording("processor time charged, as a multiple of the measured one"),
    "rank": Wording("which item: 1 changes most often"),
    "distance": Wording("distance between related messages", "messages"),
    "rounds": Wording("rounds, of the game or of gossip"),
    "file": Wording("file to replay"),
    "key": Wording("its column with the item of a message"),
    "kind": Wording("its column with the kind of a row (U, C, D, R)"),
    "time": Wording("its column with the time"),
    "payload": Wording("its column with the size of the payload, in bytes"),
    "mode": Wording("direction of gossip: pull or push"),
    "reached": Wording("members that have it at first"),
    "error": Wording("accepted probability that a member still lacks it"),
    "runs": Wording("simulated runs"),
    "senders": Wording("members that send"),
    "publishers": Wording("members that may publish"),
    "bias": Wording("choice of gossip partners: 0 uniform, above that nearer ones first"),
    "retry_ms": Wording("time until a request is repeated", "ms"),
    "heartbeat_min_ms": Wording("shortest time between heartbeats", "ms"),
    "heartbeat_max_ms": Wording("longest time between heartbeats", "ms"),
    "heartbeat_factor": Wording("growth of that time while nothing is sent"),
    "sponsors": Wording("members that introduce a new one"),
    "recovery_first": Wording("whom rpbcast asks first: gossip, logger or adaptive"),
    "multicast_at": Wording("requests for a message that make its repair a multicast; 0: never"),
    "repairs_per_s": Wording("repairs that a member sends at most", "messages/s"),
    "bandwidth_mbps": Wording("bandwidth of a link", "Mbit/s"),
    "topology": Wording("file with the network; without one it is generated"),
    "topology_seed": Wording("random seed of the generated network"),
}
RESULTS: Final = {
    "messages": Wording("messages in the file"),
    "offered_rate": Wording("offered by the sender", "messages/s"),
    "accepted_rate": Wording("accepted from the sender", "messages/s"),
    "fast_rate": Wording("delivered to a fast receiver", "messages/s"),
    "slow_rate": Wording("delivered to the slow receiver", "messages/s"),
    "purged_ratio": Wording("purged on the way to the slow receiver", "share"),
    "fast_purged_ratio": Wording("purged on the way to fast receivers", "share"),
    "purged_at_sender": Wording("purged at the sender", "share"),
    "purged_at_receiver": Wording("purged at the slow receiver", "share"),
    "latency_mean_ms": Wording("mean latency", "ms"),
    "latency_std_ms": Wording("standard deviation of the latency", "ms"),
    "latency_p50_ms": Wording("median latency", "ms"),
    "latency_p99_ms": Wording("p99 latency", "ms"),
    "safety_latency_ms": Wording("time until a message is safe", "ms"),
    "stability_latency_ms": Wording("time until a message is stable", "ms"),
    "release_latency_ms": Wording("time until the sender may forget a message", "ms"),
    "sender_held_mean": Wording("held by the sender, mean", "messages"),
    "slow_held_mean": Wording("held by the slow receiver, mean", "messages"),
    "input_percent": Wording("offered", "% of the bottleneck"),
    "output_percent": Wording("sustained", "% of the bottleneck"),
    "throughput_percent": Wording("throughput", "% of what the primary can execute"),
    "request_rate": Wording("answered", "requests/s"),
    "backups_mean": Wording("backups in the view, mean"),
    "backups_min": Wording("backups in the view, fewest"),
    "view_changes": Wording("changes of the view"),
    "updated_same_round": Wording("slow replica up to date in the same round", "share"),
    "updated_within_10": Wording("slow replica up to date within 10 rounds", "share"),
    "modified_share": Wording("rounds that change this item", "share"),
    "related_share": Wording("related messages at exactly this distance", "share"),
    "related_within": Wording("related messages within this distance", "share"),
    "processor_share": Wording("processor time of the sender", "share"),
    "network_bytes_per_s": Wording("sent by the sender", "bytes/s"),
    "gossip_bytes_per_s": Wording("gossip of the sender", "bytes/s"),
    "gossip_share": Wording("gossip among what the sender sends", "share"),
    "rounds_recurrence": Wording("rounds until all have it, by the recurrence"),
    "rounds_exact": Wording("rounds until all have it, by the Markov chain"),
    "rounds_expected": Wording("mean number of rounds, by the Markov chain"),
    "rounds_bound": Wording("rounds until all have it, bound of the thesis"),
    "rounds_simulated": Wording("rounds until all have it, simulated"),
    "probability_recurrence": Wording("all have it after these rounds, by the recurrence", "share"),
    "probability_exact": Wording("all have it after these rounds, by the Markov chain", "share"),
    "probability_simulated": Wording("all have it after these rounds, simulated", "share"),
    "packets": Wording("messages published"),
    "unreliable": Wording("messages that did not reach everyone"),
    "overhead_bytes_per_s": Wording("sent besides messages and repairs", "bytes/s"),
    "member_overhead_bytes_per_s": Wording("the same for each member", "bytes/s"),
    "overhead_datagrams_per_s": Wording("datagrams besides messages and repairs", "per second"),
    "repairs": Wording("messages sent again"),
    "load_max": Wording("most repairs sent by one node", "messages"),
    "link_mean_mb": Wording("traffic of a link, mean", "MB"),
    "link_max_mb": Wording("traffic of the busiest link", "MB"),
    "hub_mb": Wording("traffic of the links of the hub", "MB"),
    "dropped_queue": Wording("datagrams dropped by full queues"),
    "violations": Wording("violations"),
    "wall_s": Wording("wall time", "s"),
    "cpu_s": Wording("processor time", "s"),
}
SYMBOLS: Final = {  # letters of the papers, in titles and names of curves
    "r": "share of messages that overwrite an item",
    "d": "items that are overwritten",
    "N": "buffer (messages)",
    "k": "reach of a bitmap (messages)",
}
_PANELS: Final = re.compile(r"\([a-l](?:(?:, |-)[a-l])*\)")  # (a), (d-f), (g, h)
MODELS: Final = {  # the result that a model's number speaks of
    "model_rate": "accepted_rate",
    "model_purged_ratio": "purged_ratio",
    "model_percent": "output_percent",
}
_DETAILS: Final = {
    "load": Wording("repairs sent by node {}", "messages"),
    "link": Wording("traffic of link {}", "MB"),
}
_DETAIL: Final = re.compile(r"(load|link)_(\d+)")


def symbols(texts: Iterable[str]) -> str:
    """The meaning of the papers' letters in these texts, "" if there are none."""
    text = " ".join(_PANELS.sub("", each) for each in texts)
    known = (letter for letter in SYMBOLS if re.search(rf"(?<![\w']){letter}(?!\w)", text))
    return "; ".join(f"{letter}: {SYMBOLS[letter]}" for letter in known)


def axis_label(name: str) -> str:
    """A parameter in words, with its unit."""
    return PARAMETERS[name].label if name in PARAMETERS else name.replace("_", " ")


def setting(name: str, value: Value) -> str:
    """A parameter with its value, short enough for the end of a curve: delay = 10 ms."""
    unit = PARAMETERS[name].unit if name in PARAMETERS else ""
    shown = f"{value:g}" if isinstance(value, float) else f"{value}"
    if unit in ("", "share"):
        return f"{name.replace('_', ' ')} = {shown}"
    return f"{name.removesuffix(f'_{unit}').replace('_', ' ')} = {shown} {unit}"


def is_detail(name: str) -> bool:
    """Whether a result is one of many of its kind, such as the load of one node."""
    return _DETAIL.fullmatch(name) is not None


def wording(name: str) -> Wording:
    """A result in words."""
    if found := _DETAIL.fullmatch(name):
        words, unit = _DETAILS[found[1]]
        return Wording(words.format(found[2]), unit)
    return RESULTS.get(name) or Wording(name.replace("_", " "))


def result_label(name: str) -> str:
    """A result in words, with its unit."""
    if name in MODELS:
        return f"model: {result_label(MODELS[name])}"
    return wording(name).label


def result_rows(row: Row, source: str) -> list[Row]:
    """A line for each result: its words, its value, that of the model if there is one, its unit."""
    models = {about: row[name] for name, about in MODELS.items() if name in row}
    heading = source if models else "value"
    lines: list[Row] = []
    for name, value in row.items():
        if name in MODELS:
            continue
        about = wording(name)
        shown, unit = about.in_table(value)
        line: Row = {"": about.words, heading: shown}
        if models:
            line["model"] = about.in_table(models.get(name))[0]
        lines.append({**line, "unit": unit})
    return lines
