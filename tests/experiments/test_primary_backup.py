"""EXP-7: its parameters, how time passes in it, and what it measures."""

import pytest

from semcast.experiments.experiment import Row, Value
from semcast.experiments.primary_backup import PRIMARY_BACKUP_SERVICE
from semcast.experiments.service_meter import ServiceMeter
from semcast.faults import Stops
from semcast.terms.errors import ConfigError
from semcast.terms.events import DELIVER, DELIVERY, INSTALL, MULTICAST, PURGE, REPLY, SKIP, Event
from semcast.terms.messages import DataMessage
from semcast.traces.parquet import read_runs, read_trace

SHORT: dict[str, Value] = {"seconds": 4.0, "warmup_s": 1.0}


def run(trace: str | None = None, **given: Value) -> Row:
    parameters = PRIMARY_BACKUP_SERVICE.parameters({**SHORT, **given})
    return PRIMARY_BACKUP_SERVICE.run(parameters, 1, trace)


def test_same_parameters_and_seed_give_the_same_row() -> None:
    given: dict[str, Value] = {"seconds": 2.0, "warmup_s": 0.5}
    row = run(**given)
    assert row == run(**given)
    assert row["violations"] == 0


def test_it_is_recorded_with_its_requests(tmp_path) -> None:
    run(str(tmp_path), seconds=1.0, warmup_s=0.2, protocol="vsm")
    [info] = read_runs(tmp_path)
    assert (info.protocol, info.relation, info.complete) == ("primary-backup", "none", True)
    events = read_trace(tmp_path).events
    replies = [event for event in events if event.kind == REPLY]
    assert len(replies) > 30
    assert {event.pid for event in replies} == {0}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"perturbation": "late"}, "perturbation: unknown value 'late'; allowed: stopped, slower"),
        ({"perturbed_percent": 100.0}, "perturbed_percent: 100.0 is not a number from 0 to below"),
        ({"servers": 1}, "servers: 1 is not a whole number of at least 2"),
        ({"relation": "item"}, "relation: primary-backup needs update-fin, list or none, not item"),
        ({"items_max": 876}, "items_max: 876 is not in 1..875"),
        ({"slice_ms": 0.0}, "slice_ms: 0.0 is not a number above 0"),
    ],
)
def test_impossible_parameters_are_named(given: dict[str, Value], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        run(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", ["s-vsm", "vsm"])
def test_a_live_point_says_the_same_and_breaks_no_promise(tmp_path, monkeypatch, protocol) -> None:
    """How fast it is depends on the machine."""
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("SEMCAST_KEYS", f"{tmp_path}/keys")
    given: dict[str, Value] = {"protocol": protocol, "timeout_ms": 5000.0, **SHORT}
    assert PRIMARY_BACKUP_SERVICE.live is not None
    row = PRIMARY_BACKUP_SERVICE.live(PRIMARY_BACKUP_SERVICE.parameters(given), 1, None)
    assert row.keys() == run(seconds=1.0, warmup_s=0.2).keys()
    assert (row["violations"], row["backups_min"]) == (0, 4)
    assert float(row["request_rate"] or 0) > 5
    if protocol == "vsm":
        assert row["purged_ratio"] == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"overflow": "exclude"}, "overflow: 'exclude' cannot be set for live runs; remove it"),
        ({"relation": "list"}, "relation: list cannot be run live here; use update-fin"),
    ],
)
def test_what_cannot_be_live_is_refused(given: dict[str, Value], says: str) -> None:
    assert PRIMARY_BACKUP_SERVICE.live is not None
    with pytest.raises(ConfigError, match=says):
        PRIMARY_BACKUP_SERVICE.live(PRIMARY_BACKUP_SERVICE.parameters(given), 1, None)


class TestStops:
    """A fifth of every second, until the third has begun."""

    stops = Stops(0.2, 1.0, 3.0)

    def test_pauses_are_at_the_beginning_of_slices(self) -> None:
        pauses = [(pause.pid, pause.start, pause.end) for pause in self.stops.pauses(7)]
        assert pauses == [(7, 0.0, 0.2), (7, 1.0, 1.2), (7, 2.0, 2.2)]
        assert list(self.stops._replace(share=0.0).pauses(7)) == []

    @pytest.mark.parametrize(
        ("begin", "work_s", "elapsed_s"),
        [
            (0.5, 0.3, 0.3),  # between two stops
            (0.1, 0.3, 0.4),  # begins during one
            (0.9, 0.3, 0.5),  # is interrupted by one
            (0.9, 1.1, 1.5),  # by two
            (2.9, 0.3, 0.3),  # after the last one
            (9.0, 0.3, 0.3),
        ],
    )
    def test_work_rests_while_the_process_is_stopped(
        self, begin: float, work_s: float, elapsed_s: float
    ) -> None:
        assert self.stops.elapsed_s(begin, work_s) == pytest.approx(elapsed_s)

    def test_without_stops_work_takes_its_time(self) -> None:
        assert self.stops._replace(share=0.0).elapsed_s(0.0, 0.7) == pytest.approx(0.7)

    def test_rounding_never_keeps_it_from_ending(self) -> None:
        odd, at = Stops(0.3, 0.05, 10.0), 0.0
        for _ in range(2_000):
            at += odd.elapsed_s(at, 0.005)
        assert at == pytest.approx(13)  # ten seconds of work, three of which were stops


def test_the_meter_counts_what_was_measured_alone() -> None:
    meter = ServiceMeter(0, 2, 1.0, 3.0)

    def see(kind: str, pid: int, at_s: float, **more: object) -> None:
        meter.on_event(Event(kind, pid, ts_ns=round(at_s * 1e9), **more))  # type: ignore[arg-type]

    see(INSTALL, 0, 0.0, members=(0, 1, 2))
    for seq, item in ((1, 5), (2, 5), (3, 5), (4, None)):
        message = DataMessage(0, seq, item, b"")
        see(MULTICAST, 0, 0.5, sender=0, seq=seq, message=message)
    see(REPLY, 0, 0.9, client=9, request=1)
    see(REPLY, 0, 1.5, client=9, request=2)
    see(REPLY, 0, 1.6, client=9, request=2)  # again, since it was asked again
    see(DELIVER, 2, 1.5, sender=0, seq=1)
    see(SKIP, 2, 1.6, sender=0, seq=2)
    see(PURGE, 2, 1.7, sender=0, seq=3, note=DELIVERY)
    see(DELIVER, 2, 1.8, sender=0, seq=4)  # a fin
    see(DELIVER, 1, 1.8, sender=0, seq=3)  # elsewhere
    see(INSTALL, 0, 2.5, members=(0, 1))
    see(REPLY, 0, 3.5, client=9, request=3)
    assert meter.row() == {
        "request_rate": 0.5,
        "purged_ratio": pytest.approx(2 / 3),
        "backups_mean": pytest.approx(1.75),
        "backups_min": 1,
        "view_changes": 1,
    }
