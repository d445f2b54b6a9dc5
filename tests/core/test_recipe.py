"""A recipe that cannot work is refused, and the error names the field."""

import pytest

from semcast.core.recipe import Recipe
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.errors import ConfigError

IMPOSSIBLE = [
    ("members", {"members": 0}),
    ("protocol", {"protocol": "tcp"}),
    ("order", {"order": "total"}),
    ("relation", {"relation": "newest"}),
    ("purge", {"purge": "never"}),
    ("overflow", {"overflow": "drop"}),
    ("f", {"f": 3}),
    ("f", {"f": -2}),
    ("k", {"k": 0}),
    ("buffer", {"buffer": 0}),
    ("buffer_bytes", {"buffer_bytes": 0}),
    ("message_bytes", {"message_bytes": 0}),
    ("message_bytes", {"message_bytes": 1e6}),
    ("fanout", {"fanout": 0}),
    ("datagram_bytes", {"datagram_bytes": 0}),
    ("period_s", {"period_s": 0}),
    ("safety_period_s", {"safety_period_s": -1}),
    ("timeout_min_s", {"timeout_min_s": 0}),
    ("timeout_max_s", {"timeout_max_s": 0}),
    ("coalesce_s", {"coalesce_s": -0.1}),
    ("nack_delay_s", {"nack_delay_s": -0.1}),
    ("congested_at", {"congested_at": 1.1}),
    ("congested_at", {"congested_at": -0.1}),
    ("chain_limit", {"chain_limit": 0}),
    ("chain_limit", {"chain_limit": 3, "relation": "bitmap"}),
    ("chain_limit", {"chain_limit": 3, "protocol": "rm"}),
    ("bandwidth_max", {"bandwidth_max": 0}),
    ("order", {"order": "item", "relation": "bitmap"}),
    ("order", {"order": "item", "relation": "list"}),
    ("order", {"order": "item", "relation": "update-fin"}),
    ("order", {"order": "item", "relation": "all"}),
    ("order", {"order": "item", "purge": "lazy"}),
    ("order", {"order": "causal", "protocol": "s-sm"}),
]


@pytest.mark.parametrize(("field", "settings"), IMPOSSIBLE, ids=str)
def test_an_impossible_setting_is_refused_by_name(field, settings):
    with pytest.raises(ConfigError, match=f"^{field}"):
        Recipe(**{"members": 3} | settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"members": 1},
        {"congested_at": 0},
        {"congested_at": 1},
        {"f": 0},
        {"f": 2},
        {"k": 1, "relation": "bitmap"},
        {"buffer": 1, "buffer_bytes": 1, "fanout": 1, "datagram_bytes": 1},
        {"coalesce_s": 0, "nack_delay_s": 0},
        {"order": "item"},
        {"order": "item", "protocol": "rm"},
        {"order": "causal"},
        {"chain_limit": 1},
    ],
    ids=str,
)
def test_settings_at_their_bounds_are_possible(settings):
    Recipe(**{"members": 3} | settings)


@pytest.mark.parametrize(("members", "f"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_f_defaults_to_the_largest_minority(members, f):
    assert Recipe(members=members).f == f


@pytest.mark.parametrize(
    ("protocol", "relation", "elsewhere", "needs_safety"),
    [
        ("s-rm", "item", True, True),
        ("s-sm", "item", False, False),
        ("rm", "none", True, False),
        ("sm", "none", False, False),
    ],
)
def test_purging_off_is_reliable_and_buffering_elsewhere_off_is_sender_reliable(
    protocol, relation, elsewhere, needs_safety
):
    """Both can be switched, thus obtaining S-SM, S-RM and the reliable protocols [SRM §5.3]."""
    recipe = Recipe(members=3, protocol=protocol)
    assert (recipe.relation, recipe.replicated, recipe.needs_safety) == (
        relation,
        elsewhere,
        needs_safety,
    )


def test_safety_gossips_as_often_as_stability_unless_told_otherwise():
    assert Recipe(members=2, period_s=0.5).safety_period_s == 0.5
    assert Recipe(members=2, period_s=0.5, safety_period_s=0.1).safety_period_s == 0.1


def test_under_vs_own_messages_are_handed_over():
    """Confirmation speaks of what was delivered."""
    with pytest.raises(ConfigError, match="echo"):
        ViewRecipe(protocol="vs", order="total", multicast={"echo": False})
