"""What clients of the store saw is explained by one order, whatever the servers say about it."""

from collections import defaultdict
from dataclasses import replace

import msgspec
import pytest

from semcast.families.store.judge import expected
from semcast.families.store.script import command_of
from semcast.service.commands import COMMANDS
from semcast.service.replica_state import digest_of, encode_value
from semcast.sim.run import run
from semcast.sim.swarm import draw, mutated, scenarios
from semcast.specs.histories import explains
from semcast.terms.events import REPLY, REQUEST, TAKEN

SEEDS = range(40, 60)
REQUESTS_MAX = 6  # of each client


def step(state, request):
    items = dict(state)
    reply = expected(items, *request)
    return frozenset(items.items()), digest_of(encode_value(reply))


def is_update(request):
    command = COMMANDS.get(command_of(*request)[0])
    return command is not None and command.is_update


def small(case, rate=10.0):
    """The case with few requests, most of them while something happens."""
    senders = tuple(
        msgspec.structs.replace(each, count=REQUESTS_MAX, rate=rate, batch=1)
        for each in case.senders[:3]
    )
    recipe = replace(case.recipe, sessions_max=1000)
    return msgspec.structs.replace(case, senders=senders, recipe=recipe, has_last_words=False)


def saw(case):
    """By client what it saw, and which requests may have been executed beside."""
    events = []
    run(case, events.append)
    seen, asked = defaultdict(dict), set()
    for event in events:
        if event.kind == REPLY and event.note == TAKEN:
            seen[event.client][event.request] = event.digest
        elif event.kind == REQUEST and event.peer < 0:
            asked.add((event.client, event.request))
    histories = {
        client: [((client, number), digest) for number, digest in sorted(answers.items())]
        for client, answers in seen.items()
    }
    answered = {request for history in histories.values() for request, _ in history}
    unknown = [request for request in sorted(asked - answered) if is_update(request)]
    return histories, unknown


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_saw_what_one_server_could_have_answered(seed):
    histories, unknown = saw(small(draw("replicated-data", seed)))
    assert explains(histories, unknown, frozenset(), step) is not None


def test_a_server_that_repeats_updates_is_noticed_without_its_word():
    with mutated("execute-repetitions"):
        histories, unknown = saw(small(scenarios()["lost-answers"], rate=50.0))
    assert explains(histories, unknown, frozenset(), step) is None
