"""The expertise of servers, and what is pending at them: bad traces are rejected, repaired ones are
accepted [VSD fig. 8]."""

import pytest

from semcast.specs.expertise import CumulativeExpertise, ToldExpertise
from semcast.specs.pending import AnswersInTransit, PendingUpdates
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    ADOPT,
    APPEND,
    CRASH,
    DELIVER,
    DISK,
    EXECUTE,
    INSTALL,
    LOG,
    MULTICAST,
    OLD_DISK,
    QUERY,
    RECOVER,
    REFUSE,
    REPLY,
    REQUEST,
    SAFE,
    TAKEN,
    UPDATE,
    Event,
)
from semcast.terms.store import REFUSED

SAID = {}  # by identity: the event, and what its message says


def read(event):
    return SAID.get(id(event), (event, None))[1]


def judged(make, *events):
    """What a monitor finds in these events, a step each; those of a tuple are one step."""
    ledger = ViolationLog()
    monitor = make(ledger)
    for step, together in enumerate(events):
        for event in together if isinstance(together, tuple) else (together,):
            event.ts_ns = step
            monitor.handlers().get(event.kind, lambda _: None)(event)
    if hasattr(monitor, "on_end"):
        monitor.on_end()
    return [each.explanation for each in ledger.stored]


def says(kind, pid, view, message):
    event = Event(kind, pid, view=view)
    SAID[id(event)] = event, message
    return event


def expertise(ledger, durable=True):
    return CumulativeExpertise(ledger, read, (0, 1, 2), lambda pids: len(pids) > 1, durable=durable)


def enters(view, *members, version=0):
    return [Event(INSTALL, pid, view=view, members=members, version=version) for pid in members]


def tells(pid, view, level=0, length=0, safe=0, has_state=True, known=()):
    return says(MULTICAST, pid, view, ToldExpertise(level, length, safe, has_state, known))


def adopts(pid, view, level, length):
    return Event(ADOPT, pid, view=view, note=str(level), position=length)


def gets(pid, view, *updates):
    return says(DELIVER, pid, view, [(7, each) for each in updates])


def safe(pid, length):
    return Event(SAFE, pid, note=LOG, position=length)


def executes(pid, place, request):
    return Event(EXECUTE, pid, note=UPDATE, position=place, client=7, request=request)


def refuses(pid, view):
    return Event(REFUSE, pid, view=view, note=REFUSED, client=7, request=9)


def founded():
    """All three begin, in view 1, and server 0 and 1 have update 1 there."""
    return [
        *enters(1, 0, 1, 2),
        *(tells(pid, 1, has_state=False) for pid in range(3)),
        *(adopts(pid, 1, 1, 0) for pid in range(3)),
        *(gets(0, 1, 1), gets(1, 1, 1), safe(0, 1), executes(0, 1, 1)),
    ]


def parted():
    """Server 2 is alone in view 2, the others go on in view 3 with update 2."""
    return [
        *founded(),
        *(*enters(2, 2), tells(2, 2, 1), adopts(2, 2, 1, 0)),
        *(*enters(3, 0, 1), tells(0, 3, 1, 1, 1), tells(1, 3, 1, 1)),
        *(adopts(0, 3, 3, 1), (adopts(1, 3, 3, 1), safe(1, 1)), gets(0, 3, 2)),
    ]


def merged(told=(1, 0), adopted=(4, 2), known_safe=1):
    """All are in view 4, where server 2 lacks all."""
    return [
        *parted(),
        *enters(4, 0, 1, 2),
        *(tells(0, 4, 3, 2, 1), tells(1, 4, 3, 1, 1), tells(2, 4, *told)),
        *(adopts(0, 4, 4, 2), (adopts(2, 4, *adopted), safe(2, known_safe))),
    ]


def test_servers_adopt_the_cumulative_expertise():
    assert not judged(expertise, *merged(), safe(2, 2), executes(2, 1, 1), executes(2, 2, 2))


def test_a_minority_refuses_updates():
    assert not judged(expertise, *parted(), refuses(2, 2))


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([*merged(told=(2, 0))], "told (2, 0, 0, True), and has (1, 0, True)"),
        ([*merged(told=(1, 1))], "told (1, 1, 0, True), and has (1, 0, True)"),
        ([*merged(adopted=(4, 1))], "adopted 1 updates of level 4, and the view has 2 of level 4"),
        ([*merged(adopted=(3, 2))], "adopted 2 updates of level 3, and the view has 2 of level 4"),
        ([*founded(), *enters(2, 2), tells(2, 2, 1), adopts(2, 2, 2, 0)], "adopted 0 updates of"),
        ([*founded(), *enters(2, 2), tells(2, 2, 1), gets(2, 2, 5)], "which is not primary"),
        ([*founded(), gets(2, 1, 5)], "received (7, 5) at 1, others another update"),
        ([*founded(), safe(1, 2)], "takes 2 updates for safe, and has 1"),
        ([*founded(), executes(1, 1, 1)], "executed update 1, and 0 are safe"),
        ([*founded(), safe(1, 1), executes(1, 1, 5)], "executed another update at 1"),
        ([*founded(), Event(APPEND, 2, position=1)], "has 1 updates on disk of 0"),
        ([*merged(known_safe=0)], "does not take for safe what is safe at a member of the view"),
        ([*parted(), refuses(0, 3)], "refused (7, 9) in view 3, which is primary"),
    ],
)
def test_what_is_not_the_cumulative_expertise_is_reported(events, what):
    assert any(what in each for each in judged(expertise, *events))


def restarted(pid, note, *begins):
    return [
        *founded(),
        Event(APPEND, pid, position=1),
        Event(CRASH, pid, note=note),
        Event(RECOVER, pid),
        *begins,
        *enters(5, pid),
    ]


def test_a_life_begins_with_what_was_on_disk():
    assert not judged(expertise, *restarted(0, "", adopts(0, 0, 1, 1)))
    assert not judged(expertise, *restarted(0, DISK))
    assert not judged(expertise, *restarted(0, OLD_DISK, adopts(0, 0, 1, 0)))
    for begins in ([adopts(0, 0, 1, 0)], [adopts(0, 0, 9, 1)], []):
        assert judged(expertise, *restarted(0, "", *begins))
    assert judged(expertise, *restarted(0, DISK, adopts(0, 0, 1, 1)))


def test_safe_prefixes_agree():
    """Servers of view 1 and view 3 take different updates for safe at one place."""
    apart = [
        *founded(),
        *(*enters(3, 1, 2), tells(1, 3, 1, 1), tells(2, 3, 1)),
        *(adopts(1, 3, 3, 1), gets(1, 3, 8), safe(1, 2), gets(0, 1, 9)),
    ]
    assert not judged(expertise, *apart)
    assert any("elsewhere (7, 8) is" in each for each in judged(expertise, *apart, safe(0, 2)))


def test_a_step_that_a_crash_ended_may_lack_its_deliveries():
    cut_off = [*founded(), safe(2, 1), Event(CRASH, 2)]
    assert judged(expertise, *cut_off[:-1])
    assert not judged(expertise, *cut_off)


def pending(ledger):
    return PendingUpdates(ledger, read)


def sends(pid, view, request):
    return says(MULTICAST, pid, view, [(7, request)])


def answers(pid, request=1, version=1, view=1):
    return Event(REPLY, pid, client=7, request=request, version=version, view=view)


def refuses(pid, note, request=1):
    return Event(REFUSE, pid, note=note, client=7, request=request)


def test_an_own_update_is_pending_until_it_is_executed():
    sent = [*enters(1, 0, 1), sends(0, 1, 1)]
    assert not judged(pending, *sent, executes(0, 1, 1), answers(0))
    assert not judged(pending, *sent, *enters(2, 0), refuses(0, "unknown"))
    assert not judged(pending, *sent, refuses(9, "given-up"), executes(0, 1, 1))
    assert not judged(pending, *sent, executes(0, 1, 1), Event(CRASH, 0))


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([executes(0, 1, 1)], "which was not pending any more"),
        ([executes(0, 1, 1), executes(0, 2, 2), answers(0)], "which was not pending any more"),
        ([executes(0, 1, 1), answers(0, request=2)], "which was not pending any more"),
        ([answers(0)], "which it has not executed"),
        ([refuses(0, "refused")], "which it has multicast"),
        ([refuses(0, "unknown")], "in the view of its multicast"),
    ],
)
def test_an_update_that_is_not_pending_is_reported(events, what):
    found = judged(pending, *enters(1, 0, 1), sends(0, 1, 1), *events)
    assert any(what in each for each in found)


def asks(pid, peer=-1, version=0, view=1):
    about = {"client": 7, "request": 1, "version": version, "view": view}
    return Event(REQUEST, pid, note=QUERY, peer=peer, **about)


def reads(pid, version, peer=0, view=1):
    about = {"client": 7, "request": 1, "version": version, "view": view}
    return Event(EXECUTE, pid, note=QUERY, peer=peer, **about)


def test_an_answer_in_transit_is_to_a_pending_query():
    asked = [*enters(1, 0, 1), executes(1, 1, 9), asks(0), asks(1, peer=0, version=1)]
    assert not judged(AnswersInTransit, *asked, reads(1, 1), answers(0))
    again = [*enters(2, 0, 1), asks(1, peer=0, view=2), reads(1, 1, view=2), answers(0, view=2)]
    assert not judged(AnswersInTransit, *asked, reads(1, 1), *again)
    taken = Event(REPLY, 9, note=TAKEN, client=7, request=1, version=1)
    assert not judged(AnswersInTransit, *asked, reads(1, 1), answers(0), taken)


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([asks(0), asks(1, peer=0, version=1), reads(1, 0)], "its client had seen 1"),
        ([asks(0), asks(1, peer=0), reads(1, 2)], "of state 2 of 1"),
        ([asks(1, peer=0), reads(1, 1)], "where it is not pending"),
        ([asks(0), asks(1, peer=0), reads(1, 1), answers(0, version=0)], "not in transit"),
        (
            [asks(0), asks(1, peer=0), reads(1, 1), *enters(2, 0, 1), answers(0, view=2)],
            "not in transit in its view",
        ),
    ],
)
def test_an_answer_that_nobody_waits_for_is_reported(events, what):
    found = judged(AnswersInTransit, *enters(1, 0, 1), executes(1, 1, 9), *events)
    assert any(what in each for each in found)
