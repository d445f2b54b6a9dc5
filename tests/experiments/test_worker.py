"""What a worker notes while time counts."""

import os
import secrets
import subprocess
from time import monotonic_ns, process_time

import msgspec
import pytest

from semcast.fleet import worker as module
from semcast.fleet.plan import WorkerPlan
from semcast.fleet.processes import WORKER, Fleet
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


PLAN = WorkerPlan(
    group=f"test-{secrets.token_hex(4)}", name="a", options={"members": 2, "key": False}
)


@pytest.mark.parametrize("line", [b"", msgspec.json.encode(PLAN) + b"\n"], ids=["idle", "joining"])
def test_a_worker_ends_without_a_word_when_its_launcher_is_gone(line, tmp_path):
    """Also while it waits for members that will not come."""
    done = subprocess.run(
        WORKER,
        input=line,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == module.LEFT_ALONE
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_fleet_that_cannot_be_launched_leaves_no_process():
    plans = [PLAN, msgspec.structs.replace(PLAN, name="b")]
    fleet = Fleet(plans, {"b": ("/no/such/program",)})
    with pytest.raises(FileNotFoundError), fleet:
        pass
    assert list(fleet.pids) == ["a"]
    with pytest.raises(ProcessLookupError):
        os.kill(fleet.pids["a"], 0)
