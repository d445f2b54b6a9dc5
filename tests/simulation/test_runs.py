"""Messages of a stream that are taken as a whole go the way that they would go one by one."""

from collections import Counter

import pytest

from semcast import kernel
from semcast.core.member import Member
from semcast.core.reception import Reception
from semcast.sim.swarm import run_seed
from semcast.terms.messages import Data
from semcast.wire import codec, decode, encode


def events_of(protocol, seed):
    seen = []
    outcome = run_seed(protocol, None, seed, seen.append)
    assert not outcome.violations
    return Counter(
        (e.ts_ns, e.kind, e.pid, e.sender, e.seq, e.by_seq, e.note, e.peer, e.position)
        for e in seen
    )


def is_batch(datagram):
    return isinstance(datagram, Data) and isinstance(datagram.messages, kernel.Batch)


def leave_in_bytes(patch):
    """From now on members get datagrams as they come from the network; how long batches were."""
    lengths = Counter()
    on_datagram = Member.on_datagram

    def received(self, source, datagram, *args):
        if not is_batch(datagram):  # It may have come as bytes, which may be damaged on their way.
            datagram = decode(encode(datagram))
        if is_batch(datagram):
            lengths[len(datagram.messages)] += 1
        on_datagram(self, source, datagram, *args)

    patch.setattr(codec, "SCANS", True)
    patch.setattr(Member, "on_datagram", received)
    return lengths


@pytest.mark.parametrize("protocol", ["s-rm", "s-sm", "s-vsm", "total"])
def test_runs_change_nothing(protocol, monkeypatch):
    lengths = Counter()
    take_run = Reception._take_run

    def counted(self, *args):
        taken = take_run(self, *args)
        lengths[taken] += 1
        return taken

    monkeypatch.setattr(Reception, "_take_run", counted)
    as_runs = [events_of(protocol, seed) for seed in range(1, 13)]
    assert max(lengths) > 1
    with monkeypatch.context() as patch:
        batches = leave_in_bytes(patch)
        assert [events_of(protocol, seed) for seed in range(1, 13)] == as_runs
        assert max(batches) > 1
    monkeypatch.setattr(Reception, "_take_run", lambda *_: 0)
    monkeypatch.setattr(Member, "_multicast_run", lambda *_: 0)
    assert [events_of(protocol, seed) for seed in range(1, 13)] == as_runs
