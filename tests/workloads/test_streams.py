"""Synthetic and stock streams have the distribution they claim; arrivals the rate."""

import subprocess
import sys
from collections import Counter
from itertools import islice
from random import Random

import numpy as np
import pytest
from scipy.stats import chisquare

from semcast.models.throughput import (
    distance_pmf,
    purge_ratio_of_distances,
    purge_ratio_of_items,
)
from semcast.terms.errors import ConfigError
from semcast.terms.items import item_tag
from semcast.terms.messages import Update
from semcast.workloads.arrivals import constant, poisson, recorded
from semcast.workloads.distances import distances, links, never_obsolete
from semcast.workloads.payloads import numbered_payload
from semcast.workloads.stock import quotes, stock_probabilities
from semcast.workloads.synthetic import overwrites


@pytest.mark.parametrize(("r", "d"), [(0.5, 1), (0.25, 1), (0.75, 5), (1.0, 20)])
def test_synthetic_distances_follow_equation_3(r: float, d: int) -> None:
    """[SRM §6.1] P(D = x) = r (1 − r/d)^(x−1) r/d, and 1 − r for x = 0."""
    warmup, kept = 1_000, 40_000  # until every item has been updated once
    stream = islice(overwrites(r, d, Random(d)), warmup + kept)
    observed = np.array(list(distances(links(stream)))[warmup:])
    pmf = distance_pmf(r, d, np.arange(200))
    cells = [x for x in range(200) if pmf[x] * kept >= 20]  # a chi-square needs full cells
    counts = [np.count_nonzero(observed == x) for x in cells]
    expected = [pmf[x] * kept for x in cells]
    rest = kept - sum(expected)
    if rest >= 20:
        counts.append(kept - sum(counts))
        expected.append(rest)
    else:
        expected = list(np.array(expected) * sum(counts) / sum(expected))
    # Messages are not independent draws of D, so the threshold is for gross deviations.
    assert chisquare(counts, expected).pvalue > 1e-3


def test_independent_messages_stay_out_of_the_relation() -> None:
    stream = list(islice(overwrites(0.5, 3, Random(1), size=20), 2_000))
    assert len({message.item for message in stream}) == 4  # three items and None
    assert not any(message.never_purge for message in stream)
    assert {len(message.payload) for message in stream} == {20}
    assert len({message.payload for message in stream}) == len(stream)


def test_stock_shares_are_the_published_table() -> None:
    """[SRB §3.2] 25, 100 and 750 stocks at 50, 40 and 10 %."""
    probabilities = stock_probabilities()
    assert len(probabilities) == 875
    assert sum(probabilities) == pytest.approx(1)
    drawn = Counter(message.item for message in islice(quotes(Random(3)), 40_000))
    places = [drawn[item_tag(f"stock-{number}")] for number in range(875)]
    groups = [sum(places[:25]), sum(places[25:125]), sum(places[125:])]
    assert sum(groups) == 40_000
    assert [count / 40_000 for count in groups] == pytest.approx([0.5, 0.4, 0.1], abs=0.01)


def test_stock_purge_ratio_is_the_exact_formula() -> None:
    stream = islice(quotes(Random(4)), 60_000)
    observed = list(distances(links(stream)))[10_000:]
    for n in (10, 40, 256):
        model = float(purge_ratio_of_items(stock_probabilities(), n))
        assert float(purge_ratio_of_distances(observed, n)) == pytest.approx(model, abs=0.01)


def test_same_seed_same_stream() -> None:
    for make in (lambda rng: overwrites(0.5, 5, rng), quotes):
        one, two, other = (list(islice(make(Random(seed)), 100)) for seed in (7, 7, 8))
        assert one == two
        assert one != other


def test_exempt_messages_are_passed_over() -> None:
    stream = [Update(item=1), Update(item=1, never_purge=True), Update(item=1)]
    assert list(distances(links(stream))) == [0, 1, 2]
    assert never_obsolete(links(stream)) == pytest.approx(2 / 3)  # all but the first
    assert never_obsolete([]) == 1


def test_item_tags_are_fixed_for_ever() -> None:
    """They stand in traces: changing the hash orphans every recorded one."""
    assert item_tag("stock-0") == -5_454_941_658_324_750_591
    assert item_tag("") == -1_970_711_489_451_281_740
    assert all(-(2**63) <= item_tag(str(n)) < 2**63 for n in range(100))


def test_payloads_have_the_size_asked_for() -> None:
    assert [len(numbered_payload(300, size)) for size in (0, 1, 8, 52)] == [0, 1, 8, 52]
    assert numbered_payload(300, 10) == (300).to_bytes(8, "big") + b"\0\0"


def test_arrivals() -> None:
    assert list(islice(constant(50), 3)) == [0.02, 0.02, 0.02]
    gaps = np.array(list(islice(poisson(50, Random(5)), 20_000)))
    assert gaps.mean() == pytest.approx(0.02, rel=0.03)
    assert gaps.std() == pytest.approx(0.02, rel=0.05)
    late = recorded([5_000_000, 5_500_000, None, 5_400_000, 7_500_000], speed=2)
    assert list(late) == pytest.approx([0, 0.25, 0, 0, 1.0])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: overwrites(1.1, 1, Random(0)), "r: 1.1"),
        (lambda: overwrites(0.5, 0, Random(0)), "d: 0"),
        (lambda: overwrites(0.5, 1.5, Random(0)), "d: 1.5"),
        (lambda: overwrites(0.5, 1, Random(0), size=-1), "size: -1"),
        (lambda: quotes(Random(0), size=-1), "size: -1"),
        (lambda: constant(0), "rate: 0"),
        (lambda: poisson(float("inf"), Random(0)), "rate: inf"),
        (lambda: recorded([], speed=-1), "speed: -1"),
    ],
)
def test_impossible_settings_fail_at_the_call(call, says) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=says):
        call()


def test_importing_workloads_is_cheap() -> None:
    modules = ["arrivals", "distances", "game", "payloads", "replay", "stock", "synthetic"]
    imports = ", ".join(f"semcast.workloads.{module}" for module in modules)
    program = f"import sys, {imports}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
