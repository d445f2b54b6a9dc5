"""What a worker notes while time counts."""

import os
from time import monotonic_ns, process_time

from semcast.fleet import worker as module
from semcast.fleet.worker import LATENCIES_MAX, LatencySample, cpu_s, cpu_s_of
from semcast.runtime.application.mailbox import Message


def stamped(age_us, now_ns):
    return Message("a", None, (now_ns - age_us * 1000).to_bytes(8, "little") + b"rest", 1)


def test_latencies_are_ages_when_taken(monkeypatch):
    now = monotonic_ns()
    monkeypatch.setattr(module, "monotonic_ns", lambda: now)
    sample = LatencySample()
    sample.note([stamped(5, now), stamped(70, now)])
    sample.note([stamped(900, now)])
    assert sample.latencies_us == [5.0, 70.0, 900.0]


def test_of_many_latencies_an_even_share_is_kept(monkeypatch):
    now, batch, batches = monotonic_ns(), 7, 10 * LATENCIES_MAX // 7
    monkeypatch.setattr(module, "monotonic_ns", lambda: now)
    sample = LatencySample()
    for number in range(batches):
        sample.note([stamped(number * batch + place, now) for place in range(batch)])
    kept = sample.latencies_us
    assert LATENCIES_MAX // 2 <= len(kept) <= LATENCIES_MAX
    assert kept == list(range(0, batches * batch, 16))


def test_processor_time_of_a_process():
    before = cpu_s_of(os.getpid())
    until = process_time() + 0.05
    while process_time() < until:
        pass
    assert before < cpu_s_of(os.getpid()) <= cpu_s() + 0.02
