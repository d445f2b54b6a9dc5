"""EXP-6: a replicated game with one slow replica [SRM §7]."""

from itertools import islice

import pytest

from semcast.experiments.game import FIGURES, GAME, GAME_TRAFFIC, GameScript, GameStaleness
from semcast.experiments.registry import experiment
from semcast.terms.errors import ConfigError
from semcast.terms.events import DELIVER, MULTICAST, Event
from semcast.terms.messages import Update
from semcast.workloads.game import Game

SLOW = 2


def row(seed=1, **given):
    short = {"seconds": 20.0, "warmup_s": 5.0}
    result = GAME.run(GAME.parameters({**short, **given}), seed, None)
    assert result["violations"] == 0
    assert result["fast_purged_ratio"] == 0
    return result


def traffic(**given):
    return GAME_TRAFFIC.run(GAME_TRAFFIC.parameters({"rounds": 3000, **given}), 1, None)


def test_a_slow_replica_holds_up_the_reliable_protocol_only():
    reliable, semantic = row(protocol="rm"), row()
    assert reliable["accepted_rate"] == pytest.approx(50, abs=1)
    assert semantic["accepted_rate"] == pytest.approx(semantic["offered_rate"], abs=2)
    assert semantic["slow_rate"] == pytest.approx(50, abs=0.5)
    assert semantic["purged_ratio"] == pytest.approx(0.3, abs=0.05)
    assert semantic["latency_mean_ms"] < reliable["latency_mean_ms"] / 5


def test_without_purging_nothing_is_out_of_date():
    for reliable in (row(protocol="rm", delay_ms=20.0), row(delay_ms=5.0)):
        assert reliable["purged_ratio"] == 0
        assert reliable["updated_same_round"] == reliable["updated_within_10"] == 1


def test_the_slower_the_replica_the_less_detail_it_sees():
    rows = [row(delay_ms=delay) for delay in (10.0, 15.0, 20.0, 30.0)]
    for key in ("updated_same_round", "updated_within_10"):
        shares = [one[key] for one in rows]
        assert shares == sorted(shares, reverse=True)
    assert all(one["updated_same_round"] <= one["updated_within_10"] for one in rows)
    assert rows[0]["updated_same_round"] > 0.9


def test_a_bitmap_that_reaches_far_enough_purges_the_same():
    assert row(relation="bitmap") == row()


def test_the_same_seed_gives_the_same_row_and_another_does_not():
    assert row(seed=3) == row(seed=3) != row(seed=4)


def test_the_script_remembers_what_was_taken_from_it():
    script = GameScript(Game(), 1)
    taken = list(islice(script.traffic, 100))
    gaps = list(islice(script.arrivals, 100))
    assert script.updates == taken
    assert sum(gaps) == pytest.approx(script.rounds[-1] / 30)


def test_a_modification_is_out_of_date_until_the_item_is_delivered():
    script = GameScript(Game(), 1)
    script.rounds = [0, 0, 3, 7, 7]
    script.updates = [
        Update(item=1),
        Update(item=2),
        Update(item=1),
        Update(item=2, never_purge=True),  # destroyed: no modification, but an end
        Update(),
    ]
    outdated = GameStaleness(script, SLOW, 0.0, 1.0)
    for seq in (1, 2, 3, 4, 5):
        outdated.on_event(Event(MULTICAST, 0, 0, seq, ts_ns=seq))
    outdated.on_event(Event(DELIVER, 1, 0, 1))  # not the slow receiver
    for seq in (3, 4, 5):
        outdated.on_event(Event(DELIVER, SLOW, 0, seq))
    assert outdated.rounds == [3, 0, 7]
    assert outdated.share_within(0) == pytest.approx(1 / 3)
    assert outdated.share_within(3) == pytest.approx(2 / 3)


def test_an_older_value_does_not_bring_a_modification_up_to_date():
    script = GameScript(Game(), 1)
    script.rounds, script.updates = [0, 4], [Update(item=1)] * 2
    outdated = GameStaleness(script, SLOW, 0.0, 1.0)
    for seq in (1, 2):
        outdated.on_event(Event(MULTICAST, 0, 0, seq, ts_ns=seq))
    outdated.on_event(Event(DELIVER, SLOW, 0, 1))
    assert outdated.rounds == [0]
    outdated.on_event(Event(DELIVER, SLOW, 0, 2))
    assert outdated.rounds == [0, 0]


def test_few_items_change_often_and_related_messages_are_close():
    often, seldom = traffic(rank=1), traffic(rank=8)
    assert often["modified_share"] > 0.5 > 0.05 > seldom["modified_share"]
    assert traffic(rank=10_000)["modified_share"] == 0
    assert traffic(distance=10)["related_within"] == pytest.approx(2 / 3, abs=0.03)
    shares = [traffic(distance=distance)["related_share"] for distance in range(1, 6)]
    assert sum(shares) == pytest.approx(traffic(distance=5)["related_within"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"buffer": 0}, "buffer: 0 is not a whole number of at least 1"),
        ({"members": 2}, "members: 2 is not a whole number of at least 3"),
        ({"delay_ms": -1.0}, "delay_ms: -1.0 is not a time of 0 or more"),
        ({"relation": "x"}, "relation"),
        ({"seconds": 5.0}, "warmup_s: 5.0 is not in 0..seconds, which is 5"),
        ({"rate": 100.0}, "parameter of game"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(given, message):
    with pytest.raises(ConfigError) as refusal:
        row(**given)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_every_point_of_the_figures_exists():
    keys = row(seconds=1.0, warmup_s=0.0).keys() | traffic(rounds=10).keys()
    for figure in FIGURES:
        assert {curve.y for panel in figure.panels for curve in panel.curves} <= keys
        for name, given in figure.points():
            experiment(name).parameters(given)
