"""The VS automaton accepts good traces, rejects one for each precondition, and runs."""

from random import Random

import pytest

from semcast.specs.automaton import execute
from semcast.specs.monitors import Monitors
from semcast.specs.transcript import parse
from semcast.specs.view_service import ViewService
from semcast.specs.violations import ViolationLog
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, MULTICAST, Event
from semcast.terms.messages import DataMessage

BOTH = "0 install view=1 members=0,1\n1 install view=1 members=0,1"
SENT = f"{BOTH}\n0 multicast 0:1 view=1\n1 multicast 1:1 view=1"
ONE = f"{SENT}\n0 deliver 0:1 view=1 position=1"
TWO = f"{ONE}\n0 deliver 1:1 view=1 position=2"
ALL = f"{TWO}\n1 deliver 0:1 view=1 position=1\n1 deliver 1:1 view=1 position=2"

GOOD = {
    "each alone, then together": (
        f"0 install view=1 members=0\n1 install view=2 members=1\n{BOTH.replace('=1 ', '=3 ')}"
    ),
    "components go on apart, the lower id later": (
        f"{BOTH}\n0 install view=5 members=0\n1 install view=4 members=1"
    ),
    "all deliver, all confirm": f"{ALL}\n0 confirm 1:1 view=1\n1 confirm 1:1 view=1",
    "confirmed by sender, the earlier place last": (
        f"{ALL}\n0 confirm 1:1 view=1\n0 confirm 0:1 view=1"
    ),
    "confirmed while another waits": (
        f"{TWO}\n1 deliver 0:1 view=1 position=1\n1 confirm 0:1 view=1 position=1"
    ),
    "a prefix is enough": f"{TWO}\n1 install view=2 members=1",
    "what says the order takes no place": (
        f"{BOTH}\n0 multicast 0:1 view=1 note=order\n0 multicast 0:2 view=1\n"
        "0 deliver 0:2 view=1 position=1"
    ),
    "a new life in a new view": (
        f"{ALL}\n0 install view=2 members=0,1\n1 install inc=2 view=2 members=0,1\n"
        "1 multicast 1:1 inc=2 sender_inc=2 view=2\n"
        "0 deliver 1:1 sender_inc=2 view=2 position=1"
    ),
}

BAD = {
    "createview: the id names another view": (
        "0 install view=1 members=0,1\n1 install view=1 members=1",
        "newview at process 1 in view 1 is not enabled: view 1 has members 0, 1",
    ),
    "newview: no member": ("1 install view=1 members=0", "newview at process 1 in view 1"),
    "newview: back": (
        "0 install view=2 members=0\n0 install view=1 members=0",
        "newview at process 0 in view 1 is not enabled: view 1 has members 0 and it is in view 2",
    ),
    "newview: another life of a member": (
        f"{BOTH}\n1 install inc=2 view=1 members=0,1",
        "newview at process 1 in view 1",
    ),
    "gpsnd: in no view": ("0 multicast 0:1", "gpsnd of 0:1 at process 0 in view 0"),
    "gpsnd: in another view": (
        f"{BOTH}\n0 multicast 0:1 view=2",
        "gpsnd of 0:1 at process 0 in view 2 is not enabled: it is in view 1",
    ),
    "vs-order: never sent": (
        f"{BOTH}\n0 deliver 0:1 view=1 position=1",
        "vs-order of 0:1 at process 0 in view 1 is not enabled: pending are []",
    ),
    "vs-order: not the head": (
        f"{SENT}\n0 multicast 0:2 view=1\n0 deliver 0:2 view=1 position=1",
        "vs-order of 0:2 at process 0 in view 1 is not enabled: pending are [1, 2]",
    ),
    "vs-order: twice": (
        f"{ONE}\n0 deliver 0:1 view=1 position=2",
        "vs-order of 0:1 at process 0 in view 1 is not enabled: pending are []",
    ),
    "vs-order: sent in another view": (
        f"{SENT}\n0 install view=2 members=0\n0 deliver 0:1 view=2 position=1",
        "vs-order of 0:1 at process 0 in view 2",
    ),
    "gprcv: in another view": (
        f"{ONE}\n1 install view=2 members=1\n1 deliver 0:1 view=1 position=1",
        "gprcv of 0:1 at process 1 in view 1 is not enabled: it is in view 2",
    ),
    "gprcv: another message at that place": (
        f"{ONE}\n1 deliver 1:1 view=1 position=1",
        "gprcv of 1:1 at process 1 in view 1 is not enabled: it is in view 1, next is place 1, "
        "place 1 is of 0:1",
    ),
    "gprcv: a place left out": (
        f"{TWO}\n1 deliver 1:1 view=1 position=2",
        "gprcv of 1:1 at process 1 in view 1 is not enabled: it is in view 1, next is place 1",
    ),
    "gprcv: again": (
        f"{TWO}\n0 deliver 1:1 view=1 position=2",
        "next is place 3, place 2 is of 1:1",
    ),
    "gprcv: no place told": (f"{SENT}\n0 deliver 0:1 view=1", "place 0 is of nobody"),
    "safe: one is behind": (
        f"{TWO}\n1 deliver 0:1 view=1 position=1\n0 confirm 1:1 view=1",
        "safe of 1:1 at process 0 in view 1 is not enabled: it is in view 1, the place is 2, "
        "next is place 1, behind are [1]",
    ),
    "safe: no such place": (f"{SENT}\n0 confirm 0:1 view=1", "the place is none"),
    "safe: in another view": (
        f"{ALL}\n0 install view=2 members=0\n0 confirm 1:1 view=1",
        "safe of 1:1 at process 0 in view 1 is not enabled: it is in view 2",
    ),
    "safe: said again, in another view": (
        f"{ALL}\n0 confirm 1:1 view=1\n0 install view=2 members=0\n0 confirm 1:1 view=1",
        "safe of 1:1 at process 0 in view 1 is not enabled: it is in view 2",
    ),
    "safe: at another place": (f"{ALL}\n0 confirm 1:1 view=1 position=1", "the place is 2"),
}


def judge(trace: list[Event]) -> list[str]:
    ledger = ViolationLog()
    watches = ViewService(ledger).handlers()
    for event in trace:
        watches[event.kind](event)
    return [violation.explanation for violation in ledger.stored]


@pytest.mark.parametrize("name", GOOD)
def test_accepts(name: str) -> None:
    assert judge(parse(GOOD[name])) == []


@pytest.mark.parametrize("name", BAD)
def test_rejects(name: str) -> None:
    text, says = BAD[name]
    (found,) = judge(parse(text))
    assert says in found


def test_an_execution_of_the_automaton_is_accepted_by_it_and_by_the_monitors() -> None:
    seen: set[str] = set()
    for seed in range(100):
        rng = Random(seed)
        n = rng.randint(1, 4)
        plan = [[DataMessage(i, seq) for seq in range(1, rng.randint(1, 8))] for i in range(n)]
        views = {
            rng.randint(1, 20): tuple(sorted(rng.sample(range(n), rng.randint(1, n))))
            for _ in range(rng.randint(1, 6))
        }
        service = ViewService(ViolationLog())
        outcome = execute(service.actions(plan, views), rng, free_steps=120, steps_max=2000)
        assert outcome.quiescent
        assert judge(service.events) == []
        monitors = Monitors("vs", "total", "none", 0, n)
        for event in service.events:
            monitors.on_event(event)
        monitors.on_end(frozenset(range(n)), complete=True)
        assert monitors.violations == []
        seen |= {event.kind for event in service.events}
    assert seen == {INSTALL, MULTICAST, DELIVER, CONFIRM}
