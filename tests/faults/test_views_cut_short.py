"""A crash inside a handler that delivers, enters a view and delivers again; clocks that jump."""

from math import inf
from random import Random

import pytest

from semcast.faults import ClockJump, cut_short
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, MULTICAST, Event
from semcast.terms.messages import Message
from semcast.terms.views import Installation, Life, View


def handler() -> Effects:
    """One datagram, a delivery in view 1, the install of view 2, a delivery that is confirmed."""
    out = Effects(recording=True)
    assert out.events is not None
    view = View(2, (Life(0, 1),), (1,))
    out.send.append((1, "datagram"))
    out.deliver += [Message(0, 1), Message(0, 1)]
    out.positions += [1, 1]
    out.installs.append((1, Installation(view, None, False)))
    out.events += [
        Event(MULTICAST, 0, 0, 1, view=1),
        Event(DELIVER, 0, 0, 1, view=1),
        Event(INSTALL, 0, view=2, members=(0,)),
        Event(DELIVER, 0, 0, 2, view=2),
        Event(CONFIRM, 0, 0, 2, view=2),
    ]
    return out


@pytest.mark.parametrize(
    ("share", "sends", "delivered", "installed", "kinds"),
    [
        (0.0, 0, 0, 0, [MULTICAST]),
        (0.25, 1, 0, 0, [MULTICAST]),
        (0.5, 1, 1, 0, [MULTICAST, DELIVER]),
        (0.75, 1, 1, 1, [MULTICAST, DELIVER, INSTALL]),
        (1.0, 1, 2, 1, [MULTICAST, DELIVER, INSTALL, DELIVER, CONFIRM]),
    ],
)
def test_a_crash_keeps_a_prefix_of_what_the_application_sees(
    share: float, sends: int, delivered: int, installed: int, kinds: list[str]
) -> None:
    out = handler()
    cut_short(out, share, (1,), Random(1))
    assert (len(out.send), len(out.deliver), len(out.installs)) == (sends, delivered, installed)
    assert len(out.positions) == delivered
    assert [event.kind for event in out.events or ()] == kinds


@pytest.mark.parametrize(
    "bad", [(-1, 0.0, 1.0), (0, -1.0, 1.0), (0, 0.0, 0.0), (0, 0.0, inf), (0, inf, 1.0)]
)
def test_an_impossible_jump_is_refused(bad: tuple[int, float, float]) -> None:
    with pytest.raises(ConfigError):
        ClockJump(*bad)
