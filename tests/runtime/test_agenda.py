"""The heap of what is due, on a real loop."""

import asyncio
from math import inf

from semcast.fleet.timer_queue import Agenda


def test_due_in_order_of_time_then_of_scheduling_and_never_early():
    async def scenario():
        agenda, done, ran = Agenda(), asyncio.Event(), []
        start = agenda.now

        def run(name, when):
            assert agenda.now >= when
            ran.append(name)

        for name, after in (("c", 0.02), ("a", 0.01), ("d", 0.02), ("b", 0.01)):
            agenda.at(start + after, run, name, start + after)
        agenda.at(start + 0.03, done.set)
        await asyncio.wait_for(done.wait(), 10)
        return ran

    assert asyncio.run(scenario()) == ["a", "b", "c", "d"]


def test_what_is_due_runs_when_asked_with_what_it_schedules():
    async def scenario():
        agenda, ran = Agenda(), []

        def first():
            ran.append(1)
            agenda.at(0.0, ran.append, 2)
            agenda.at(agenda.now + 3600, ran.append, 4)

        agenda.at(agenda.now + 3600, ran.append, 3)
        agenda.at(0.0, first)
        agenda.run_due()
        assert ran == [1, 2]
        agenda.run_due()
        assert ran == [1, 2]
        agenda.clear()

    asyncio.run(scenario())


def test_a_callback_may_schedule_what_wakes_the_loop_next():
    async def scenario():
        agenda, done = Agenda(), asyncio.Event()
        agenda.at(0.0, lambda: agenda.at(agenda.now + 0.01, done.set))
        agenda.at(agenda.now + 3600, done.clear)
        await asyncio.wait_for(done.wait(), 10)
        agenda.clear()

    asyncio.run(scenario())


def test_a_loop_that_wakes_early_is_asked_again():
    async def scenario():
        asyncio.get_running_loop()._clock_resolution = 0.02
        agenda, done = Agenda(), asyncio.Event()
        due = agenda.now + 0.02
        agenda.at(due, done.set)
        await asyncio.wait_for(done.wait(), 10)
        assert agenda.now >= due

    asyncio.run(scenario())


def test_never_is_not_scheduled_and_clear_forgets():
    async def scenario():
        agenda, ran, turned = Agenda(), [], asyncio.Event()
        agenda.at(inf, ran.append, "never")
        agenda.at(0.0, ran.append, "forgotten")
        agenda.clear()
        agenda.at(0.0, turned.set)
        await asyncio.wait_for(turned.wait(), 10)
        return ran

    assert asyncio.run(scenario()) == []
