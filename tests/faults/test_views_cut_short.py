"""A crash inside a handler that delivers, enters a view and delivers again; clocks that jump."""

from math import inf
from random import Random

import pytest

from semcast.faults import ClockJump, truncate_effects
from semcast.kernel import run_of
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, MULTICAST, Event
from semcast.terms.ids import Incarnation
from semcast.terms.messages import DataMessage
from semcast.terms.outputs import ROOM, Delivery, Installed, delivered
from semcast.terms.views import GroupView


def handler() -> Effects:
    """One datagram, a delivery in view 1, the install of view 2, a delivery that is confirmed."""
    out = Effects(recording=True)
    assert out.events is not None
    view = GroupView(2, (Incarnation(0, 1),), (1,))
    out.send.append(((1,), "datagram"))
    before, after = (Delivery(run_of([DataMessage(0, 1)])) for _ in range(2))
    out.outputs += [before, Installed(view, None, False), ROOM, after]
    out.events += [
        Event(MULTICAST, 0, 0, 1, view=1),
        Event(DELIVER, 0, 0, 1, view=1),
        Event(INSTALL, 0, view=2, members=(0,)),
        Event(DELIVER, 0, 0, 2, view=2),
        Event(CONFIRM, 0, 0, 2, view=2),
    ]
    return out


@pytest.mark.parametrize(
    ("share", "sends", "messages", "installed", "kinds"),
    [
        (0.0, 0, 0, 0, [MULTICAST]),
        (0.25, 1, 0, 0, [MULTICAST]),
        (0.5, 1, 1, 0, [MULTICAST, DELIVER]),
        (0.75, 1, 1, 1, [MULTICAST, DELIVER, INSTALL]),
        (1.0, 1, 2, 1, [MULTICAST, DELIVER, INSTALL, DELIVER, CONFIRM]),
    ],
)
def test_a_crash_keeps_a_prefix_of_what_the_application_sees(
    share: float, sends: int, messages: int, installed: int, kinds: list[str]
) -> None:
    out = handler()
    truncate_effects(out, share, (1,), Random(1))
    installs = sum(isinstance(output, Installed) for output in out.outputs)
    assert (len(out.send), len(delivered(out.outputs)), installs) == (sends, messages, installed)
    assert [event.kind for event in out.events or ()] == kinds


@pytest.mark.parametrize(
    "bad", [(-1, 0.0, 1.0), (0, -1.0, 1.0), (0, 0.0, 0.0), (0, 0.0, inf), (0, inf, 1.0)]
)
def test_an_impossible_jump_is_refused(bad: tuple[int, float, float]) -> None:
    with pytest.raises(ConfigError):
        ClockJump(*bad)
