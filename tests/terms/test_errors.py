"""Errors that people read: an unknown value is answered with the nearest known one."""

import pytest

from semcast.terms.errors import unknown_value

PROTOCOLS = ("s-rm", "s-vsm", "rm")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("s-rmm", "protocol: unknown value 's-rmm'; did you mean 's-rm'? Allowed: s-rm, s-vsm, rm"),
        ("paxos", "protocol: unknown value 'paxos'; allowed: s-rm, s-vsm, rm"),
        (5, "protocol: unknown value 5; allowed: s-rm, s-vsm, rm"),
    ],
)
def test_an_unknown_value_names_the_nearest(value, message):
    assert str(unknown_value("protocol", value, PROTOCOLS)) == message


def test_a_long_list_is_left_out_where_a_name_was_meant():
    names = [f"mutant-{number}" for number in range(88)]
    assert str(unknown_value("mutant", "mutant-88", [*names[:-1], "mutant-8"])).endswith("'?")
    assert str(unknown_value("mutant", "none", names)).endswith("mutant-86, mutant-87")
