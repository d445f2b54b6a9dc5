"""EXP-9: loggers, gossip and both on a wide area [RPB §7]; short runs, claims are in papers/."""

from pathlib import Path

import pytest

from semcast.experiments.pubsub import PUBSUB
from semcast.experiments.pubsub_figures import FIGURES
from semcast.experiments.registry import experiment
from semcast.sim.topology import save, tiers
from semcast.terms.errors import ConfigError

SHORT = {"seconds": 1.0, "warmup_s": 0.0, "rate": 90.0, "loss": 0.02}


def row(seed=1, trace=None, **given):
    return PUBSUB.run(PUBSUB.parameters({**SHORT, **given}), seed, trace)


@pytest.fixture(scope="module")
def plain():
    return row()


def test_a_point_repeats_with_its_seed(plain):
    assert row() == plain
    assert row(seed=2) != plain


def test_every_packet_reaches_all_and_no_promise_is_broken(plain):
    assert plain["packets"] > 50
    assert plain["unreliable"] == plain["violations"] == 0
    assert 40 < plain["latency_p50_ms"] < plain["latency_mean_ms"] < plain["latency_p99_ms"]


def test_every_node_and_link_of_the_profile_is_told(plain):
    nodes = [plain[f"load_{node}"] for node in tiers().members]
    assert sum(nodes) == plain["repairs"] > 0
    assert max(nodes) == plain["load_max"]
    links = [plain[f"link_{place}"] for place in range(29)]
    assert min(links) > 0
    assert max(links) == plain["link_max_mb"]


def test_without_loss_there_is_nothing_to_repair():
    still = row(loss=0.0)
    assert still["repairs"] == 0
    assert still["latency_p99_ms"] < 80


def test_publishers_that_do_not_send_are_idle():
    some = row(senders=3, rate=30.0, publishers=12)
    alone = row(senders=3, rate=30.0, publishers=3)
    assert some["packets"] == alone["packets"] + 9


def test_a_file_gives_the_topology(tmp_path: Path, plain):
    save(tiers(), tmp_path / "tiers.json")
    assert row(topology=str(tmp_path / "tiers.json")) == plain


def test_a_large_group_is_a_parameter():
    large = row(members=200, senders=1, publishers=1, rate=10.0)
    assert large["unreliable"] == 0
    assert "load_20" not in large


def test_a_trace_is_judged_like_the_run(tmp_path: Path):
    from semcast.fleet.trace_verdict import judge_trace
    from semcast.traces.parquet import read_trace

    row(trace=str(tmp_path))
    verdict = judge_trace(read_trace(tmp_path))
    assert verdict.properties["reliable_delivery"].status == "pass"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sponsors": 19}, "sponsors: 19 is more than the 18 members"),
        ({"period_ms": 0.0}, "period_ms: 0.0 is not a number above 0"),
        ({"senders": 19}, "senders: senders <= publishers <= members must hold, not 19, 18, 18"),
        ({"senders": 3, "publishers": 2}, "must hold, not 3, 2, 18"),
        ({"members": 1}, "members: 1 is not a whole number of at least 2"),
        ({"protocol": "s-rm"}, "protocol: unknown value 's-rm'; allowed: lbrm, pbcast, rpbcast"),
        ({"bias": 4}, "bias: unknown value 4; allowed: 0, 1, 2, 3"),
        ({"loss": 1.5}, "loss: 1.5 is not a number from 0 to 1"),
        ({"topology": "nowhere.json"}, "topology: nowhere.json: No such file"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(given, message):
    with pytest.raises(ConfigError) as refusal:
        row(**given)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_topology_of_another_size_is_refused(tmp_path: Path):
    save(tiers(5), tmp_path / "five.json")
    with pytest.raises(ConfigError, match="members: 7, but the topology has 5"):
        row(members=7, topology=str(tmp_path / "five.json"))


def test_every_point_of_the_figures_exists(plain):
    for figure in FIGURES:
        curves = [curve for panel in figure.panels for curve in panel.curves]
        shown = {c.key(x) for c in curves if c.experiment == "pubsub" for x in c.xs}
        assert shown <= plain.keys()
        for name, given in figure.points():
            experiment(name).parameters(given)
