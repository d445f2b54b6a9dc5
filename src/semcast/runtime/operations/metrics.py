"""Prometheus metrics of a live member, on request.

A snapshot is taken at each scrape; nothing is counted for the metrics' sake.  The server has
threads of its own, so that a slow scraper keeps nobody waiting.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple
from wsgiref.simple_server import WSGIServer

from semcast.runtime.operations.snapshot import Snapshot
from semcast.runtime.transport.addresses import Address, parse_address, show
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
            f"metrics: cannot listen on {show((host, port))}: {error.strerror}; "
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
    about: str
    values: Mapping[str, int]
    label: str | None = None


def families(s: Snapshot) -> list[MetricFamily]:
    """A snapshot as metrics."""
    datagrams = {"in": s.datagrams_in, "out": s.datagrams_out}
    size = {"in": s.bytes_in, "out": s.bytes_out}
    return [
        MetricFamily(
            "semcast_messages_sent_total", "Messages multicast by this member", {"": s.sent}
        ),
        MetricFamily(
            "semcast_messages_delivered_total",
            "Messages delivered to the application",
            {"": s.delivered},
        ),
        MetricFamily(
            "semcast_messages_skipped_total",
            "Messages purged before delivery because newer ones superseded them",
            {"": s.skipped},
        ),
        MetricFamily(
            "semcast_purged_total", "Messages purged from the retransmission buffer", {"": s.purged}
        ),
        MetricFamily("semcast_buffer_messages", "Messages in the buffer", {"": s.held}),
        MetricFamily(
            "semcast_buffer_limit", "Maximum number of messages in the buffer", {"": s.buffer}
        ),
        MetricFamily("semcast_queue_messages", "Messages waiting for delivery", {"": s.queued}),
        *_of_peers(s),
        MetricFamily(
            "semcast_datagrams_total", "Datagrams sent and received", datagrams, "direction"
        ),
        MetricFamily("semcast_bytes_total", "Bytes sent and received", size, "direction"),
        MetricFamily(
            "semcast_discarded_total",
            "Datagrams received and discarded, by reason",
            s.discarded,
            "reason",
        ),
    ]


def _of_peers(s: Snapshot) -> list[MetricFamily]:
    """The metrics that have a value for each peer; a forgotten member is no peer."""
    peers = [peer for peer in s.peers if not peer.is_forgotten]
    lag = {peer.name: peer.lag for peer in peers}
    skipped = {peer.name: peer.skipped for peer in peers}
    return [
        MetricFamily(
            "semcast_peer_lag_messages", "Own messages not yet confirmed by the peer", lag, "peer"
        ),
        MetricFamily(
            "semcast_peer_skipped_total",
            "Messages skipped, as reported by the peer",
            skipped,
            "peer",
        ),
    ]
