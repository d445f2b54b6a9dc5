"""Prometheus metrics of a live member, on request.

A snapshot is taken at each scrape; nothing is counted for the metrics' sake.  The server has
threads of its own, so that a slow scraper keeps nobody waiting.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from wsgiref.simple_server import WSGIServer

from semcast.runtime.operations.snapshot import Peer, Snapshot
from semcast.runtime.transport.addresses import Address, format_address, parse_address
from semcast.terms.errors import ConfigError

if TYPE_CHECKING:
    from prometheus_client import Metric


@dataclass(slots=True, frozen=True)
class MetricsServer:
    """An endpoint until it is closed; `address` has the port that was free if 0 was asked for."""

    address: Address
    _server: WSGIServer
    _thread: Thread

    def close(self) -> None:
        """Stop answering; blocks for up to half a second.  Twice is fine."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(address: str, take: Callable[[], Snapshot]) -> MetricsServer:
    """Answer scrapes at `host:port`.

    `take` is called in threads of the server, never on the loop: it must be thread-safe.
    """
    host, port = parse_address(address, "metrics")
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ModuleNotFoundError:
        raise ConfigError(
            "metrics: prometheus_client is not installed; pip install 'semcast[metrics]'"
        ) from None
    registry = CollectorRegistry()
    registry.register(_Collector(take))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ConfigError(
            f"metrics: cannot listen on {format_address((host, port))}: {error.strerror}; "
            "choose another address"
        ) from None
    return MetricsServer((host, server.server_port), server, thread)


class _Collector:
    """What the registry asks at each scrape."""

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        self._take = take

    def collect(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        snapshot = self._take()
        member = [snapshot.group, snapshot.name]
        for name, about, values, label in families(snapshot):
            labels = ["group", "member", *([label] if label else [])]
            metric: CounterMetricFamily | GaugeMetricFamily
            if name.endswith("_total"):
                metric = CounterMetricFamily(name, about, labels=labels)
            else:
                metric = GaugeMetricFamily(name, about, labels=labels)
            for of, value in values.items():
                metric.add_metric([*member, *([of] if label else [])], value)
            yield metric


class MetricFamily(NamedTuple):
    """One metric, a counter if its name says `_total`: a value for each value of its label, or
    the only one under the empty string."""

    name: str
    help: str
    values: Mapping[str, float]
    label: str | None = None


Values: TypeAlias = Callable[[Snapshot], Mapping[str, float]]

# Every metric of a member: its name, its help, its values from a snapshot, and their label.
METRICS: Final[tuple[tuple[str, str, Values, str | None], ...]] = (
    ("messages_sent_total", "Messages multicast by this member", lambda s: {"": s.sent}, None),
    (
        "messages_delivered_total",
        "Messages delivered to the application",
        lambda s: {"": s.delivered},
        None,
    ),
    (
        "messages_skipped_total",
        "Messages purged before delivery because newer ones superseded them",
        lambda s: {"": s.skipped},
        None,
    ),
    (
        "purged_total",
        "Messages purged from the retransmission buffer",
        lambda s: {"": s.purged},
        None,
    ),
    ("buffer_messages", "Messages in the buffer", lambda s: {"": s.held}, None),
    ("buffer_limit", "Maximum number of messages in the buffer", lambda s: {"": s.buffer}, None),
    ("queue_messages", "Messages waiting for delivery", lambda s: {"": s.queued}, None),
    (
        "oldest_waiting_seconds",
        "How long the oldest message has waited for the application",
        lambda s: {"": s.oldest_waiting_s},
        None,
    ),
    ("blocked", "1 while a multicast waits for room", lambda s: {"": s.is_blocked}, None),
    (
        "blocked_seconds_total",
        "How long multicasts have waited for room",
        lambda s: {"": s.blocked_s_total},
        None,
    ),
    (
        "slow_seconds",
        "How long a member has been slow, as this member sees it",
        lambda s: {slow.name: slow.since_s for slow in s.slow},
        "peer",
    ),
    ("view", "Number of the view", lambda s: {"": s.view.id} if s.view else {}, None),
    (
        "view_members",
        "Number of members of the view, or of the fixed group",
        lambda s: {"": len(s.view.members) if s.view else 1 + len(_peers(s))},
        None,
    ),
    (
        "status",
        "1 for the status of this member in its view",
        lambda s: {s.view.status: 1} if s.view else {},
        "status",
    ),
    (
        "suspected",
        "1 for a member that seems to have crashed",
        lambda s: dict.fromkeys(s.view.suspected, 1) if s.view else {},
        "peer",
    ),
    (
        "server_role",
        "1 for the role of this server of a replicated service",
        lambda s: {s.server.role: 1} if s.server else {},
        "role",
    ),
    (
        "server_primary",
        "1 for the primary of a replicated service, as this server knows it",
        lambda s: {s.server.primary: 1} if s.server and s.server.primary else {},
        "peer",
    ),
    (
        "server_slowest",
        "1 for the slowest server of a replicated service, as this server knows it",
        lambda s: {s.server.slowest: 1} if s.server and s.server.slowest else {},
        "peer",
    ),
    (
        "server_updates",
        "Updates that have made the state of this server",
        lambda s: {"": s.server.updates} if s.server else {},
        None,
    ),
    (
        "server_queries_total",
        "Queries that this server has answered",
        lambda s: {"": s.server.queries} if s.server else {},
        None,
    ),
    ("repairs_asked_total", "Repair requests sent", lambda s: {"": s.repairs_asked_total}, None),
    (
        "repairs_answered_total",
        "Repair requests answered",
        lambda s: {"": s.repairs_answered_total},
        None,
    ),
    (
        "peer_lag_messages",
        "Own messages not yet confirmed by the peer",
        lambda s: {peer.name: peer.lag for peer in _peers(s)},
        "peer",
    ),
    (
        "peer_skipped_total",
        "Messages skipped, as reported by the peer",
        lambda s: {peer.name: peer.skipped for peer in _peers(s)},
        "peer",
    ),
    (
        "peer_heard_seconds",
        "Time since the last frame of the peer",
        lambda s: {peer.name: peer.heard_ago_s for peer in _peers(s)},
        "peer",
    ),
    (
        "datagrams_total",
        "Datagrams sent and received",
        lambda s: {"in": s.datagrams_in, "out": s.datagrams_out},
        "direction",
    ),
    (
        "bytes_total",
        "Bytes sent and received",
        lambda s: {"in": s.bytes_in, "out": s.bytes_out},
        "direction",
    ),
    (
        "discarded_total",
        "Datagrams received and discarded, by reason",
        lambda s: s.discarded,
        "reason",
    ),
    ("info", "1, with the version of this member", lambda s: {s.version: 1}, "version"),
)


def families(s: Snapshot) -> list[MetricFamily]:
    """A snapshot as metrics."""
    return [
        MetricFamily(f"semcast_{name}", about, values(s), label)
        for name, about, values, label in METRICS
    ]


def _peers(s: Snapshot) -> list[Peer]:
    """The members that have not left."""
    return [peer for peer in s.peers if not peer.is_forgotten]
