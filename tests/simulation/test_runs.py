"""Messages of a stream that are taken as a whole go the way that they would go one by one."""

from collections import Counter

import pytest

from semcast import kernel
from semcast.core.member import Member
from semcast.core.receiver import Receiver
from semcast.core.sending import Sending
from semcast.sim.swarm import run_seed
from semcast.terms.messages import Data
from semcast.wire import GROUP_CODEC, codec, encode


def events_of(protocol, seed):
    seen = []
    outcome = run_seed(protocol, None, seed, seen.append)
    assert not outcome.violations
    return Counter(
        (e.ts_ns, e.kind, e.pid, e.sender, e.seq, e.by_seq, e.note, e.peer, e.position)
        for e in seen
    )


def is_batch(datagram):
    return isinstance(datagram, Data) and isinstance(datagram.messages, kernel.Run)


def leave_in_bytes(patch):
    """From now on members get datagrams as they come from the network; how long batches were."""
    lengths = Counter()
    on_datagrams = Member.on_datagrams

    def received(self, source, datagrams, *args):
        datagrams = [GROUP_CODEC.decode(encode(datagram)) for datagram in datagrams]
        for datagram in filter(is_batch, datagrams):
            lengths[len(datagram.messages)] += 1
        on_datagrams(self, source, datagrams, *args)

    patch.setattr(codec, "SCANS", True)
    patch.setattr(Member, "on_datagrams", received)
    return lengths


def make_runs_by(make, patch):
    """From now on what members multicast is made so; how long runs were."""
    lengths = Counter()

    def counted(*args):
        run, size = make(*args)
        lengths[len(run or ())] += 1
        return run, size

    patch.setattr(kernel, "make_run", counted)
    return lengths


@pytest.mark.parametrize("protocol", ["s-rm", "s-sm", "s-vsm", "total"])
def test_runs_change_nothing(protocol, monkeypatch):
    lengths = Counter()
    on_run, runs_of = Receiver.on_run, kernel.runs_of

    def counted(self, run, *args):
        lengths[run.count] += 1
        on_run(self, run, *args)

    monkeypatch.setattr(Receiver, "on_run", counted)
    as_runs = [events_of(protocol, seed) for seed in range(1, 13)]
    assert max(lengths) > 1
    with monkeypatch.context() as patch:
        batches = leave_in_bytes(patch)
        assert [events_of(protocol, seed) for seed in range(1, 13)] == as_runs
        assert max(batches) > 1
        build, _ = kernel.select_build(kernel.REQUESTED_BUILD)
        for make in (build.pack_run, build.build_run):
            made = make_runs_by(make, patch)
            assert [events_of(protocol, seed) for seed in range(1, 13)] == as_runs
            assert max(made) > 1
    monkeypatch.setattr(
        kernel, "runs_of", lambda messages: [r for m in messages for r in runs_of([m])]
    )
    monkeypatch.setattr(Sending, "_submit_run", lambda *_: 0)
    assert [events_of(protocol, seed) for seed in range(1, 13)] == as_runs
