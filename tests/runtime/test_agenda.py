"""The heap of what is due, on a real loop."""

import asyncio
from math import inf

from semcast.fleet.timer_queue import TimerQueue


def test_due_in_order_of_time_then_of_scheduling_and_never_early():
    async def scenario():
        agenda, done, ran = TimerQueue(), asyncio.Event(), []
        start = agenda.now

        def run(name, when):
            assert agenda.now >= when
            ran.append(name)

        for name, after in (("c", 0.02), ("a", 0.01), ("d", 0.02), ("b", 0.01)):
            agenda.call_at(start + after, run, name, start + after)
        agenda.call_at(start + 0.03, done.set)
        await asyncio.wait_for(done.wait(), 60)
        return ran

    assert asyncio.run(scenario()) == ["a", "b", "c", "d"]


def test_what_is_due_runs_when_asked_with_what_it_schedules():
    async def scenario():
        agenda, ran = TimerQueue(), []

        def first():
            ran.append(1)
            agenda.call_at(0.0, ran.append, 2)
            agenda.call_at(agenda.now + 3600, ran.append, 4)

        agenda.call_at(agenda.now + 3600, ran.append, 3)
        agenda.call_at(0.0, first)
        agenda.run_expired()
        assert ran == [1, 2]
        agenda.run_expired()
        assert ran == [1, 2]
        agenda.clear()

    asyncio.run(scenario())


def test_a_callback_may_schedule_what_wakes_the_loop_next():
    async def scenario():
        agenda, done = TimerQueue(), asyncio.Event()
        agenda.call_at(0.0, lambda: agenda.call_at(agenda.now + 0.01, done.set))
        agenda.call_at(agenda.now + 3600, done.clear)
        await asyncio.wait_for(done.wait(), 60)
        agenda.clear()

    asyncio.run(scenario())


def test_a_loop_that_wakes_early_is_asked_again():
    async def scenario():
        asyncio.get_running_loop()._clock_resolution = 0.02
        agenda, done = TimerQueue(), asyncio.Event()
        due = agenda.now + 0.02
        agenda.call_at(due, done.set)
        await asyncio.wait_for(done.wait(), 60)
        assert agenda.now >= due

    asyncio.run(scenario())


def test_never_is_not_scheduled_and_clear_forgets():
    async def scenario():
        agenda, ran, turned = TimerQueue(), [], asyncio.Event()
        agenda.call_at(inf, ran.append, "never")
        agenda.call_at(0.0, ran.append, "forgotten")
        agenda.clear()
        agenda.call_at(0.0, turned.set)
        await asyncio.wait_for(turned.wait(), 60)
        return ran

    assert asyncio.run(scenario()) == []
