"""Topologies: drawn from a seed, kept in a file, refused when they have a hole."""

from pathlib import Path

import msgspec
import pytest

from semcast.sim.topology import Topology, TopologyLink, load, save, tiers
from semcast.terms.errors import ConfigError

LINE = ((0, 1, 5.0), (1, 2, 5.0))


def line(**changed):
    given = {"nodes": 3, "members": (0, 2), "links": LINE, **changed}
    return Topology(
        given["nodes"], given["members"], tuple(TopologyLink(*c) for c in given["links"])
    )


def test_the_thesis_has_thirty_nodes_and_eighteen_members_at_the_fringe():
    topology = tiers()
    ends = [end for cable in topology.links for end in (cable.a, cable.b)]
    assert (topology.nodes, len(topology.members)) == (30, 18)
    assert all(ends.count(member) == 1 for member in topology.members)
    assert topology.members[topology.farthest_member] == 14
    assert topology.hops_from(0)[14] == 4


@pytest.mark.parametrize("members", [2, 3, 4, 7, 100, 1000])
def test_any_number_of_members_has_a_connected_topology_of_its_own(members):
    topology = tiers(members, seed=3)
    assert len(topology.members) == members
    ends = {end for cable in topology.links for end in (cable.a, cable.b)}
    assert ends == set(range(topology.nodes))
    assert topology == tiers(members, seed=3) != tiers(members, seed=5)


def test_links_between_members_are_averaged():
    assert line().mean_hops == 2
    assert line(members=(0, 1, 2)).mean_hops == pytest.approx(4 / 3)
    small, large = tiers(), tiers(500)
    assert small.mean_hops == pytest.approx(5.45, abs=0.01)
    assert large.mean_hops > small.mean_hops


def test_no_router_is_a_dead_end():
    topology = tiers(50, seed=2)
    ends = [end for cable in topology.links for end in (cable.a, cable.b)]
    assert {node for node in range(topology.nodes) if ends.count(node) == 1} == set(
        topology.members
    )


def test_a_file_keeps_it(tmp_path):
    save(tiers(), tmp_path / "tiers.json")
    assert load(tmp_path / "tiers.json") == tiers()
    documented = Path(__file__).parents[2] / "docs" / "topology.json"
    assert documented.read_text() == (tmp_path / "tiers.json").read_text()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"links": LINE[:1]}, "node 2 is not connected to the others"),
        ({"links": (*LINE, (1, 7, 1.0))}, "link 1-7: 7 is not a node below 3"),
        ({"links": (LINE[0], (1, 2, -1.0))}, "link 1-2: a latency of -1 ms is not 0 or more"),
        ({"links": (LINE[0], (1, 2, float("nan")))}, "a latency of nan ms"),
        ({"links": (*LINE, (1, 1, 1.0))}, "link 1-1: joins a node to itself"),
        ({"links": (*LINE, (2, 1, 1.0))}, "links: two of them join the same nodes"),
        ({"members": (0, 3)}, "member 3 is not a node below 3"),
        ({"members": (0, 0)}, "members: must name at least one node, and none twice"),
        ({"members": ()}, "members: must name at least one node"),
        ({"nodes": 1}, "nodes: 1 is not within 2.."),
    ],
)
def test_a_hole_is_one_clear_line(changed, message, tmp_path):
    with pytest.raises(ConfigError, match="topology: ") as refusal:
        line(**changed)
    assert message in str(refusal.value)
    if "nan" not in message:
        (tmp_path / "hole.json").write_bytes(
            msgspec.json.encode({"nodes": 3, "members": (0, 2), "links": LINE, **changed})
        )
        with pytest.raises(ConfigError) as refusal:
            load(tmp_path / "hole.json")
        assert message in str(refusal.value)
        assert "hole.json" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Input data was truncated"),
        ("{", "Input data was truncated"),
        ('{"nodes": 3}', "missing required field `members`"),
        ('{"nodes": "x", "members": [], "links": []}', "Expected `int`, got `str`"),
        ('{"nodes": 3, "members": [0], "links": [], "hosts": 1}', "unknown field `hosts`"),
    ],
)
def test_a_file_that_is_no_topology_is_one_clear_line(text, message, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load(tmp_path / "bad.json")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"topology: .*none\.json: No such file"):
        load(tmp_path / "none.json")
