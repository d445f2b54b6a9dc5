"""Messages of a stream that are taken as a whole go the way that they would go one by one."""

from collections import Counter

import msgspec
import pytest

from semcast import kernel
from semcast.core import sending
from semcast.core.member import Member
from semcast.core.receiver import Receiver
from semcast.core.sending import Sending
from semcast.sim.swarm import run_seed
from semcast.terms.messages import Data, Submission, Update
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


def labelled(submissions):
    """The same as a parcel.  Simulated items have no names: made up ones, which do not travel."""
    updates, labels = [], {}
    for each in submissions:
        item = None if each.item is None else f"i{each.item}"
        updates.append(Update(each.payload, item, each.never_purge, each.obsoletes))
        if item is not None:
            labels[item] = (each.item, msgspec.msgpack.encode(each.item), b"\xa0", 0)

    def submission_of(update):
        tag = None if update.item is None else labels[update.item][0]
        return Submission(update.payload, tag, update.obsoletes, update.never_purge)

    assert [submission_of(update) for update in updates] == list(submissions)
    return kernel.UpdateBatch(updates, labels, labels.get, submission_of)


def send_as_bytes(patch):
    """From now on what members multicast is bytes at once; how long batches were."""
    lengths = Counter()
    submit, pack = Sending.submit, kernel.pack_run

    def packed(*args):
        batch, size = pack(*args)
        lengths[len(batch or ())] += 1
        return batch, size

    patch.setattr(sending, "PACKS_RUNS", True)
    patch.setattr(kernel, "pack_run", packed)
    patch.setattr(
        Sending, "submit", lambda self, given, *args: submit(self, labelled(given), *args)
    )
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
        packed = send_as_bytes(patch)
        assert [events_of(protocol, seed) for seed in range(1, 13)] == as_runs
        assert max(packed) > 1
    monkeypatch.setattr(
        kernel, "runs_of", lambda messages: [r for m in messages for r in runs_of([m])]
    )
    monkeypatch.setattr(Sending, "_submit_run", lambda *_: 0)
    assert [events_of(protocol, seed) for seed in range(1, 13)] == as_runs
