"""Settings that cannot work are one clear line."""

from random import Random

import pytest

from semcast.core.pubsub.participant import Participant
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"protocol": "s-rm"}, "protocol"),
        ({"order": "causal"}, "order"),
        ({"period_s": 0}, "period_s"),
        ({"sponsors": 6}, "sponsors"),
        ({"founders": 6}, "founders"),
        ({"copies": 2}, "copies"),
        ({"loggers": ()}, "loggers"),
        ({"loggers": (1, 1)}, "loggers"),
        ({"loggers": (5,)}, "loggers"),
        ({"protocol": "pbcast", "loggers": (0,)}, "loggers"),
        ({"retain": "some"}, "retain"),
        ({"retain": -1.0}, "retain"),
        ({"retain": "latest", "relation": "bitmap"}, "retain"),
        ({"selection": "near"}, "selection"),
        ({"selection_power": 0.0}, "selection_power"),
        ({"recovery": "never"}, "recovery"),
        ({"heartbeat_min_s": 64.0}, "heartbeat_min_s"),
        ({"multicast_at": 1}, "multicast_at"),
        ({"age_s": 0.0}, "age_s"),
        ({"rounds": 0}, "rounds"),
        ({"block": 1.5}, "block"),
    ],
)
def test_impossible_settings_name_their_field(given, field) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: "):
        PubsubRecipe(members=5, **given)


def test_defaults_fit_a_group_of_one() -> None:
    assert PubsubRecipe(members=1).sponsors == 1
    assert PubsubRecipe(members=1, protocol="pbcast").logger_pids == ()


def test_a_process_beyond_the_group_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^pid: "):
        Participant(PubsubRecipe(members=2), 2, Random(0), 0.0)
