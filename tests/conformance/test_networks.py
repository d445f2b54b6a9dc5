"""Live groups on every kind of network: sealed or not, one to all or one by one, IPv4 and IPv6."""

import subprocess
from collections.abc import Iterator
from uuid import uuid4

import pytest

from semcast.fleet.plan import Load

LOAD = Load(rate=300, seconds=1.0)
SUBNET = "198.51.100"  # for documentation, so nobody is there


def test_three_senders_in_causal_order(live):
    loads = {name: Load(rate=150, seconds=2.0, seed=seed) for seed, name in enumerate("ace")}
    run = live("abcde", loads, {"d": 0.004}, order="causal")
    assert run.verdict.properties["causal_order"].status == "pass"
    assert all(run.results[name].sent for name in loads)


def test_sealed_peers_on_ipv6(live, free, at, key):
    everyone = at(free("abc", "::1"))
    run = live("abc", {"a": LOAD}, own=lambda _: everyone, ip=6, key=key)
    assert all(result.snapshot["is_sealed"] for result in run.results.values())


def test_sealed_multicast(live, key):
    run = live("abc", {"a": LOAD, "b": LOAD}, key=key, interface="lo")
    assert all(result.snapshot["is_sealed"] for result in run.results.values())


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def namespaces() -> Iterator[list[str]]:
    """Two machines, as far as the network can tell, joined by a cable."""
    tag = uuid4().hex[:8]
    names = [f"semcast-{tag}-{end}" for end in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    try:
        ends = [f"sc-{tag}-{end}" for end in "ab"]
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for number, (name, end) in enumerate(zip(names, ends, strict=True), start=1):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"{SUBNET}.{number}/24", "dev", end)
            for device in ("lo", end):
                ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:
            ip("netns", "delete", name)


def test_sealed_multicast_between_machines(live, key, namespaces):
    """As on a LAN, with two members on each; datagrams are of the cable's size."""
    where = {name: namespaces[place % 2] for place, name in enumerate("abcd")}
    run = live(
        "abcd",
        {"a": LOAD, "b": LOAD},
        own=lambda name: {"interface": f"{SUBNET}.{namespaces.index(where[name]) + 1}"},
        launchers={name: ["ip", "netns", "exec", space] for name, space in where.items()},
        key=key,
    )
    assert all(result.snapshot["is_sealed"] for result in run.results.values())
