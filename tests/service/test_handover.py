"""What one server hands another: in small parcels, and taken as a whole or not at all."""

import pytest

from semcast.service.commands import encode_request
from semcast.service.handover import SLICE_BYTES, StateReceiver, StateSender
from semcast.service.store_messages import (
    LogSlice,
    SessionsSlice,
    SnapshotRecord,
    decode_parcel,
    encode_message,
    entries_of,
    update_batch,
)
from semcast.service.store_state import StoreState
from semcast.service.update_log import UpdateLog
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import Incarnation

TO = Incarnation(2, 1)


def a_store(clients, updates):
    """A state with sessions in it, its log, and the updates behind the state."""
    state, log = StoreState(10_000), UpdateLog()
    log.append(update_batch([(client, 1, 1, 0, b"") for client in range(1, clients + 1)]), clients)
    for number in range(2, updates + 2):
        body = encode_request(["set", b"k%d" % number, b"v" * 100])
        entries = [(client, number, 1, client, body) for client in range(1, clients + 1)]
        log.append(update_batch(entries), clients)
    for batch in log.after(0):
        for entry in entries_of(batch.payload):
            state.execute(entry)
    log.drop(state.index)
    log.append(update_batch([(1, 999, 1, 1, encode_request(["set", b"late", b"x"]))]), 1)
    return state, log


def handed(state, log, start):
    """The parcels, as the receiver decodes them, and their sizes."""
    sender = StateSender(7, TO, log, state, start)
    bodies = [encode_message(piece) for piece in iter(sender.next_slice, None)]
    return [decode_parcel(body) for body in bodies], [len(body) for body in bodies]


def test_the_sessions_of_many_clients_travel_in_small_parcels():
    state, log = a_store(300, 64)
    assert len(state.encoded_sessions()) > 6 * SLICE_BYTES
    slices, sizes = handed(state, log, None)
    assert max(sizes) < 2 * SLICE_BYTES
    receiver, records, taken = StateReceiver(), [], StoreState(10_000)
    for piece in slices:
        records += receiver.on_slice(piece)
    taken_log = receiver.adopt(taken, UpdateLog())
    assert (taken.digest(), taken_log.digest) == (state.digest(), log.digest)
    [snapshot] = [record for record in records if isinstance(record, SnapshotRecord)]
    assert snapshot.sessions == state.encoded_sessions()


def lacking_an_update(slices):
    return [LogSlice(7, s.after, s.digest, []) if isinstance(s, LogSlice) else s for s in slices]


def with_bad_sessions(slices):
    return [SessionsSlice(7, b"bad") if isinstance(s, SessionsSlice) else s for s in slices]


@pytest.mark.parametrize(
    ("is_snapshot", "spoil"),
    [(True, lacking_an_update), (True, with_bad_sessions), (False, lacking_an_update)],
)
def test_what_is_incomplete_changes_nothing(is_snapshot, spoil):
    state, log = a_store(3, 4)
    own = UpdateLog(log.base, log.base_digest)
    own.append(update_batch([(2, 5, 1, 2, b"of a lost view")]), 1)
    receiver, mine = StateReceiver(), StoreState(10_000)
    mine.write(b"mine", b"1")
    before = mine.digest(), mine.index, own.length, own.digest
    for piece in spoil(handed(state, log, None if is_snapshot else log.base)[0]):
        list(receiver.on_slice(piece))
    with pytest.raises(RemoteProtocolError, match=r"incomplete|sessions"):
        receiver.adopt(mine, own)
    assert (mine.digest(), mine.index, own.length, own.digest) == before
