"""Which systems can be measured here, and why others cannot."""

import pytest

from semcast.bench import systems as module
from semcast.bench.systems import OWN, System, cases_of, select_systems
from semcast.terms.errors import ConfigError

PEERS = {
    "here": System(("here",), "Here"),
    "gone": System(("gone",), "Gone", missing=lambda: "libgone"),
    "fast": System(("fast",), "Fast", benchmarks=["throughput"]),
}


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """These, whatever bench/peers holds."""
    monkeypatch.setattr(module, "systems", lambda: {**OWN, **PEERS})


def test_semcast_comes_first_and_everything_once():
    assert select_systems(["udp", "here", "udp"], "latency") == (["semcast", "udp", "here"], {})
    assert select_systems([], "latency") == (["semcast"], {})


def test_all_leaves_out_what_cannot_take_part_and_says_why():
    names, left_out = select_systems(["udp", "all"], "latency")
    assert names == [*OWN, "here"]
    assert left_out == {
        "gone": "not installed: libgone",
        "fast": "supports only throughput",
    }
    assert select_systems(["all"], "throughput")[0] == [*OWN, "here", "fast"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", "gone cannot be measured: not installed: libgone"),
        ("fast", "fast cannot be measured: supports only throughput"),
        ("x", "unknown value 'x'; allowed: semcast, semcast-reliable, udp, here, gone, fast, all"),
    ],
)
def test_what_was_named_must_be_there(name, said):
    with pytest.raises(ConfigError, match=f"^against: {said}$"):
        select_systems(["udp", name], "latency")


def test_without_a_source_tree_there_are_no_peers(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setattr(module, "BENCH", tmp_path)
    module.systems.cache_clear()
    try:
        with pytest.raises(ConfigError, match=r"against: unknown value 'pyzmq'.* source tree"):
            select_systems(["pyzmq"], "latency")
    finally:
        module.systems.cache_clear()


def test_peers_without_datagrams_or_keys_run_once(tmp_path):
    cases = cases_of(["here"], [1400, 8000], ["none", "new"], tmp_path)
    assert [str(case) for case in cases] == ["here"]
