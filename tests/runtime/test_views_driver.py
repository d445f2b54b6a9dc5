"""The driver of a member with views, over a machine that only says what it is told to."""

from collections import Counter
from types import SimpleNamespace

import pytest

from semcast.runtime.views.host import State, ViewHost
from semcast.terms.ids import Life
from semcast.terms.machine import Machine, Status
from semcast.terms.messages import Message, Submission
from semcast.terms.outputs import Delivery, Ended, PhaseChanged
from semcast.terms.views import CHANGING, LEFT, MEMBER


class Scripted(Machine):
    """Refuses what is sent, and appends the outputs of a script to the next input."""

    sent = 0

    def __init__(self, unseen: int) -> None:
        self.deadline = float("inf")
        self.life = Life(1, 1)
        self.recipe = SimpleNamespace(relation="item", overflow="block", is_primary=True)
        self.script: list[object] = []
        self.unseen, self.asked = unseen, []

    def submit(self, submissions, now, out):
        out.outputs += self.script
        return 0

    def on_datagram(self, source, datagram, now, out):
        raise AssertionError("nobody sends anything here")

    def on_ready(self, count, now, out):
        self.asked.append(count)
        self.unseen = 0

    def status(self, now):
        return Status(unseen=self.unseen)


@pytest.fixture
def driver():
    """`driver(machine)`: nothing is sent anywhere."""
    made = []

    def driving(machine):
        introductions = SimpleNamespace(addresses={}, peers=None)
        transport = SimpleNamespace(discarded=Counter())
        settings = {"state": State(), "rejoin": False, "servers": 1, "flushes_on_turn": True}
        made.append(ViewHost(machine, introductions, transport, None, None, **settings))
        return made[-1]

    yield driving
    for each in made:
        each.stop()


async def test_who_waits_for_a_view_is_handed_what_comes_before_it(driver):
    """Otherwise an application that sends while it handles a message waits for itself."""
    machine = Scripted(unseen=3)
    machine.script = [PhaseChanged(CHANGING)]
    assert driver(machine).multicast([Submission()]) == 0
    assert machine.asked == [3]


@pytest.mark.parametrize("outputs", [[PhaseChanged(MEMBER)], [Ended(LEFT)]])
async def test_who_waits_for_room_or_has_left_is_not(driver, outputs):
    machine = Scripted(unseen=3)
    machine.script = outputs
    driver(machine).multicast([Submission()])
    assert machine.asked == []


async def test_an_end_is_noticed_wherever_it_stands_among_the_outputs(driver):
    machine = Scripted(unseen=0)
    host = driver(machine)
    host._names = ("a",)
    machine.script = [Ended(LEFT), Delivery((Message(0, 1, payload=b"x"),), skipped=2)]
    host.multicast([Submission()])
    assert host._phase == LEFT
    assert [(m.sender, m.skipped) for m in await host.mailbox.take(9)] == [("a", 2)]
