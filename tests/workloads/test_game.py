"""The game's traffic has the published averages and keeps its promises about items."""

from itertools import islice
from random import Random

import pytest

from semcast.models.throughput import purge_ratio_of_distances, sender_rate
from semcast.terms.errors import ConfigError
from semcast.workloads.distances import distances, links, never_obsolete
from semcast.workloads.game import ROUNDS_RECORDED, Game, Round


@pytest.fixture(scope="module", params=[1, 2, 3])
def session(request: pytest.FixtureRequest) -> list[Round]:
    return list(islice(Game().rounds(Random(request.param)), ROUNDS_RECORDED))


def test_published_averages(session: list[Round]) -> None:
    """[SRM §7.1] 42.33 items active, 1.39 modified, 41.88 % of the messages never obsolete.

    Tolerances are three standard deviations of a session of the published length.
    """
    messages = [sent for play in session for sent in play.updates]
    active = sum(play.active for play in session) / len(session)
    assert active == pytest.approx(42.33, abs=0.3)
    assert len(messages) / len(session) - 1 == pytest.approx(1.39, abs=0.03)
    assert never_obsolete(links(messages)) == pytest.approx(0.4188, abs=0.005)
    assert 30 * len(messages) / len(session) == pytest.approx(72, abs=1.2)


def test_related_messages_are_close(session: list[Round]) -> None:
    """[SRM §7.1] "often within 10 messages of each other"; [SRM §7.2] 30 ms hardly disturbs."""
    messages = [sent for play in session for sent in play.updates]
    observed = list(distances(links(messages)))
    related = [distance for distance in observed if distance]
    assert 0.6 < sum(distance <= 10 for distance in related) / len(related) < 0.75
    rate = sender_rate(71.7, 1 / 0.030, purge_ratio_of_distances(observed, 40))
    assert float(rate) > 0.95 * 71.7


def test_a_round_is_one_reliable_message_and_distinct_updates(session: list[Round]) -> None:
    for play in session:
        reliable, *updates = play.updates
        assert reliable.never_purge
        assert len(reliable.payload) < 32
        items = [update.item for update in updates]
        assert None not in items
        assert len(set(items)) == len(items)
        assert not any(update.never_purge for update in updates)
        assert {len(update.payload) for update in updates} <= {52}
    assert [play.number for play in session] == list(range(ROUNDS_RECORDED))


def test_a_destroyed_item_is_never_heard_of_again(session: list[Round]) -> None:
    gone: set[int | None] = set()
    for play in session:
        destroyed = play.updates[0].item
        assert gone.isdisjoint(sent.item for sent in play.updates)
        if destroyed is not None:
            gone.add(destroyed)
            assert destroyed not in {sent.item for sent in play.updates[1:]}
    assert len(gone) == pytest.approx(0.1 * ROUNDS_RECORDED, rel=0.1)  # as many as are born


def test_few_items_are_modified_often_and_most_never(session: list[Round]) -> None:
    """[SRM §7.1] "a small number of items was modified frequently"."""
    counts: dict[int | None, int] = {}
    for play in session:
        for sent in play.updates[1:]:
            counts[sent.item] = counts.get(sent.item, 0) + 1
    lasting = sorted((count for count in counts.values() if count > 100), reverse=True)
    assert len(lasting) == 8  # of 40
    assert lasting[0] > 10 * lasting[-1]


def test_messages_carry_their_round_and_go_at_its_start() -> None:
    game = Game()
    messages = list(islice(game.messages(Random(9)), 50))
    plays = list(islice(game.rounds(Random(9)), 50))
    assert messages == [(p.number, sent) for p in plays for sent in p.updates][:50]
    gaps = list(game.arrivals(number for number, _ in messages))
    starts = [sum(gaps[: place + 1]) for place in range(50)]
    assert starts == pytest.approx([number / 30 for number, _ in messages])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"modified_mean": 3.0}, "modified_mean: 3 is not allowed, must be so low that no item"),
        ({"modified_mean": -1.0}, "modified_mean: -1"),
        ({"lasting_modified": 41}, "lasting_modified: 41 is not allowed, must be 1 to 40"),
        ({"birth_share": 0.5}, "birth_share: 0.5"),
        ({"passing_modified": 1.5}, "passing_modified: 1.5"),
        ({"rounds_per_s": float("inf")}, "rounds_per_s: inf"),
        ({"reliable_bytes": (9, 8)}, "reliable_bytes: 9"),
        ({"update_bytes": -1}, "update_bytes: -1"),
    ],
)
def test_impossible_games(settings, says) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=says):
        Game(**settings)
