"""Live benchmarks: what is read from a run, what is compared, and short real runs."""

from array import array

import msgspec
import pytest

from semcast.bench import benchmark
from semcast.bench.benchmark import (
    BENCHMARKS,
    HOT,
    BenchCase,
    BenchmarkRun,
    BenchSettings,
    loss_warnings,
    measure,
    plans_of,
    run_once,
    wait_all_received,
)
from semcast.bench.systems import cases_of, systems
from semcast.fleet.plan import MessageTimes, WorkerResult, WorkerStatus
from semcast.runtime.storage.keyring import KeyRing
from semcast.terms.errors import ConfigError

MS = 1_000_000
COLD = 7  # an item that is not hot
SHORT = BenchSettings(receivers=1, seconds=0.5)


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """Nothing of the machine's own settings takes part."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "SEMCAST_KEYS"):
        monkeypatch.setenv(name, str(tmp_path / name))


def result(**facts):
    known = {"sent": 0, "taken": 0, "skipped": 0, "seconds": 0.0, "cpu_s": 0.0, "state": ""}
    return WorkerResult(**known | facts)


def diary(*lines):
    """(when in ms, number, item) for each message."""
    at_ms, numbers, items = zip(*lines, strict=True)
    columns = ([ms * MS for ms in at_ms], numbers, items)
    at_ns, seq, item = (array("q", column).tobytes() for column in columns)
    return MessageTimes(at_ns=at_ns, seq=seq, item=item)


def row(system="semcast", **numbers):
    spread = {key: [value, value] for key, value in numbers.items()}
    return {"system": system, "datagram": None, "sealed": False, **numbers, "spread": spread}


def test_rates_are_those_of_the_slowest_receiver_and_cost_is_everyones():
    results = {
        "sender": result(sent=1000, taken=1000, seconds=2.0, cpu_s=0.3),
        "r1": result(taken=1000, took_s=2.5, cpu_s=0.1),
        "r2": result(taken=600, took_s=1.0, cpu_s=0.4),  # It lost the end of the stream.
    }
    found = BENCHMARKS["throughput"].row(BenchmarkRun(BenchSettings(receivers=2), results, None))
    assert found == {
        "rate": 300.0,
        "sender_rate": 500.0,
        "cpu_us_per_delivery": pytest.approx(500.0),
        "missed_ratio": 0.4,
    }


def test_what_servers_cost_counts():
    results = {"sender": result(sent=10, seconds=1.0), "r1": result(taken=10, took_s=1.0)}
    found = BENCHMARKS["throughput"].row(BenchmarkRun(SHORT, results, None, servers_cpu_s=0.002))
    assert found["cpu_us_per_delivery"] == pytest.approx(200.0)


def test_a_receiver_that_takes_longer_than_the_sender_sends_is_slower():
    results = {"sender": result(sent=100, seconds=1.0), "r1": result(taken=100, took_s=4.0)}
    assert BENCHMARKS["throughput"].row(BenchmarkRun(SHORT, results, None))["rate"] == 25.0


def test_latencies_are_those_of_all_receivers():
    results = {
        "sender": result(sent=4, seconds=1.0),
        "r1": result(taken=2, latencies_us=[1.0, 2.0]),
        "r2": result(taken=2, latencies_us=[3.0, 1000.0, 3.0]),
    }
    found = BENCHMARKS["latency"].row(
        BenchmarkRun(BenchSettings(receivers=2, rate=4.0), results, None)
    )
    assert found["latency_p50_us"] == 3.0
    assert 900 < found["latency_p99_us"] < 1000


def test_the_slow_receiver_is_judged_by_what_it_holds():
    hot = HOT[0]
    sent = diary((0, 1, hot), (0, 2, COLD), (100, 3, hot), (990, 4, COLD))
    taken = diary((10, 1, hot), (20, 2, COLD), (800, 3, hot))
    results = {
        "sender": result(sent=4, seconds=1.0, sent_diary=sent),
        "r1": result(taken=4, took_s=1.0),
        "slow": result(taken=3, skipped=1, taken_diary=taken),
    }
    settings = BenchSettings(receivers=1, seconds=1.0, rate=4.0, slow_rate=1.0)
    found = BENCHMARKS["slow-receiver"].row(BenchmarkRun(settings, results, 3 << 20))
    assert found["wrong_items"] == 1  # the cold one
    assert found["purged_ratio"] == 0.25
    assert found["memory_growth_mib"] == 3.0
    assert found["slow_rate"] == pytest.approx(1 / 0.75)
    # Until 0.8 s it holds what was sent at 0, and then the newest.  The other 24 hot items were
    # never sent, so the oldest 1 % of all samples are the oldest 25 % of this one's.
    assert found["staleness_p50_ms"] == 0.0
    assert found["staleness_p99_ms"] == pytest.approx(610.0, abs=10.0)


def test_runs_alternate_and_rows_tell_medians_and_spread(monkeypatch):
    order = []
    rates = {"semcast": iter((3.0, 9.0, 5.0)), "udp": iter((10.0, 30.0, 20.0))}

    def run(name, settings, case, on_tick):
        order.append(case.system)
        return {"rate": next(rates[case.system]), "cpu_us_per_delivery": None}

    monkeypatch.setattr(benchmark, "run_once", run)
    first, second = measure("throughput", SHORT, [BenchCase("semcast"), BenchCase("udp")], repeat=3)
    assert order == ["semcast", "udp"] * 3
    assert (first["system"], first["rate"], first["runs"]) == ("semcast", 5.0, 3)
    assert first["spread"] == {"rate": [3.0, 9.0]}
    assert first["cpu_us_per_delivery"] is None
    assert second["rate"] == 20.0


def test_losing_is_a_fault_of_systems_that_must_not():
    assert loss_warnings([row(missed_ratio=0.0), row("udp", missed_ratio=0.9)]) == []
    assert loss_warnings([row(missed_ratio=0.5)]) == [
        "semcast: 50.00% did not reach every receiver"
    ]
    assert (
        loss_warnings([row(missed_ratio=0.5, wrong_items=0)]) == []
    )  # It may have been superseded.
    assert loss_warnings([row(wrong_items=2)]) == ["semcast: 2 items wrong at the slow receiver"]


def test_cases_are_every_combination_once(tmp_path):
    cases = cases_of(["semcast", "udp"], [None, 1400], ["none", "new"], tmp_path)
    key = str(tmp_path / "keys")
    assert cases == [
        BenchCase("semcast", None, None),
        BenchCase("semcast", None, key),
        BenchCase("semcast", 1400, None),
        BenchCase("semcast", 1400, key),
        BenchCase("udp", None, None),
        BenchCase("udp", 1400, None),
    ]
    assert len(KeyRing.load(tmp_path / "keys").keys) == 1
    assert str(cases[3]) == "semcast, 1,400-byte datagrams, sealed"


def test_only_a_known_key_is_compared(tmp_path):
    with pytest.raises(ConfigError, match="key: 'x' is not none, new or a key ring file"):
        cases_of([], [None], ["x"], tmp_path)


def test_what_a_member_would_refuse_is_refused_before_any_runs():
    with pytest.raises(ConfigError, match="datagram: 100 is not in"):
        measure("throughput", SHORT, [BenchCase("semcast", 100)])
    with pytest.raises(ConfigError, match="order: unknown value 'x'; allowed:"):
        measure("throughput", msgspec.structs.replace(SHORT, order="x"), [BenchCase("semcast")])


def test_only_those_that_are_measured_closely_keep_a_diary():
    settings = BenchSettings(receivers=2, rate=10.0, slow_rate=4.0)
    plans = {plan.name: plan for plan in plans_of("slow-receiver", settings, BenchCase("semcast"))}
    assert {name for name, plan in plans.items() if plan.keeps_diary} == {"sender", "slow"}
    assert plans["slow"].service_s == 0.25
    assert [name for name, plan in plans.items() if plan.load] == ["sender"]
    assert all(plan.only_counts for plan in plans_of("throughput", SHORT, BenchCase("udp")))


class Script:
    """A fleet whose ticks are written down."""

    def __init__(self, *taken):
        self.taken = iter(taken)

    def watch(self, until, timeout_s):
        for taken in self.taken:
            if until(
                {
                    "sender": WorkerStatus(sent=9),
                    "r1": WorkerStatus(taken=taken),
                    "r2": WorkerStatus(taken=9),
                }
            ):
                return taken
        return pytest.fail("it waits for ever")


def test_a_run_is_over_when_everyone_has_everything():
    script = Script(3, 9, 9)
    wait_all_received(script)
    assert list(script.taken) == [9]


def test_a_run_is_over_when_nothing_comes_any_more(monkeypatch):
    monkeypatch.setattr(benchmark, "NO_PROGRESS_S", -1.0)
    script = Script(3, 5, 5, 9)
    wait_all_received(script)
    assert list(script.taken) == [9]


@pytest.mark.parametrize("system", ["semcast", "udp"])
def test_throughput(system):
    ticks = []
    found = run_once("throughput", SHORT, BenchCase(system), lambda s, t: ticks.append((s, t)))
    assert 0 < found["rate"] <= found["sender_rate"]
    assert found["cpu_us_per_delivery"] > 0
    assert 0 <= found["missed_ratio"] < 1
    if systems()[system].loses_nothing:
        assert found["missed_ratio"] == 0
    assert ticks[0][0] <= ticks[-1][0]
    assert ticks[-1][1].keys() == {"sender", "r1"}


def test_latency_when_sealed_and_in_small_datagrams(tmp_path):
    [case] = cases_of(["semcast"], [1400], ["new"], tmp_path)
    found = run_once("latency", msgspec.structs.replace(SHORT, rate=1000.0), case)
    assert found["missed_ratio"] == 0
    assert 0 < found["latency_p50_us"] <= found["latency_p99_us"]


@pytest.mark.parametrize("system", ["semcast-reliable", "udp"])
def test_slow_receiver(system):
    settings = BenchSettings(
        receivers=1, seconds=1.0, rate=2000.0, slow_rate=1000.0, buffer=1000, order="item"
    )
    found = run_once("slow-receiver", settings, BenchCase(system))
    assert 0 < found["slow_rate"] <= 1.2 * settings.slow_rate
    assert 0 <= found["staleness_p50_ms"] <= found["staleness_p99_ms"]
    assert 0 <= found["purged_ratio"] < 1
    if systems()[system].loses_nothing:
        assert found["wrong_items"] == 0
