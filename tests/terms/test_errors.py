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
