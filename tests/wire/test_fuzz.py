"""Whatever comes in: only `RemoteProtocolError` escapes, and all work and memory is bounded.

The targets are those of `bench/fuzz.py`, which runs a million inputs guided by coverage.
"""

import importlib.util
import sys
import tracemalloc
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.core.member import Member
from semcast.core.receiver import SKIPS_MAX
from semcast.core.recipe import Recipe
from semcast.kernel import run_of
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.messages import Data, DataMessage, Nack, PurgeNotice, StabilityGossip, Update
from semcast.terms.messages import FrontierVote as Vote
from semcast.wire import GROUP_CODEC, encode
from semcast.wire.codec import LARGE_BYTES

HUGE = 1 << 62
FRAME_BYTES = 65_000


def _load(name):
    path = Path(__file__).parents[2] / "bench" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


targets = _load("fuzz_targets")
SEEDS = list(targets.seeds())


@pytest.mark.parametrize("target", targets.TARGETS, ids=lambda target: target.__name__)
@given(script=st.binary(max_size=150))
@settings(max_examples=400)
def test_any_bytes_are_survived(target, script):
    target(script)


@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), max_size=8),
    more=st.binary(max_size=60),
)
@settings(max_examples=800)
def test_what_is_almost_valid_is_survived(seed, edits, more):
    data = bytearray(seed)
    for place, value in edits:
        data[place % len(data)] = value
    targets.one_input(bytes(data) + more)


@given(st.data())
@settings(max_examples=150)
def test_a_forged_frame_changes_nothing(data):
    """A frame of a member with one bit changed, or sealed by somebody without the key."""
    live = targets.Live(targets.RECIPES[0], up=3, recording=True)
    frame = live.seal(1, 0, encode(Data((DataMessage(1, 3, 1),))))
    place = data.draw(st.integers(0, 8 * len(frame) - 1))
    forged = bytearray(frame)
    forged[place // 8] ^= 1 << place % 8
    before = live.state()
    with pytest.raises(RemoteProtocolError):
        live.hear(bytes(forged))
    assert live.state() == before
    live.hear(frame)
    assert live.state() != before


def test_the_targets_see_what_is_wrong(monkeypatch):
    """A target that cannot fail is decoration: here the member believes everything."""
    monkeypatch.setattr(
        "semcast.core.datagram_validator.DatagramValidator.check",
        lambda self, source, datagram: None,
    )
    rng = Random(1)
    broken = 0
    for _ in range(400):
        data = bytearray(rng.choice(SEEDS))
        data[rng.randrange(2, len(data))] = rng.randrange(256)
        try:
            targets.frames(bytes(data[1:]))
        except Exception:
            broken += 1
    assert broken > 0


def calls_of(action):
    """How many Python functions an action calls, or lets go on."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def hear(member, datagram, *, recording=False):
    out = Effects(recording=recording)
    member.on_datagrams(1, (GROUP_CODEC.decode(encode(datagram)),), 0.0, out)
    assert not out.refused
    return out


def test_a_notice_of_any_width_is_taken_in_portions():
    member = Member(Recipe(members=3), 0, Random(1))
    wide = Data((), (PurgeNotice(1, 1, HUGE, HUGE + 1), PurgeNotice(1, 1, HUGE - 1, HUGE)))
    for portion in (1, 2, 3):
        out = hear(member, wide, recording=True)
        assert member.receiver.frontier[1] == portion * SKIPS_MAX
        assert len(out.events) == SKIPS_MAX
    assert member.buffers.skipped == 3 * SKIPS_MAX
    assert 1 in member.receiver.gaps  # The rest is asked for.


def many(make, element_bytes):
    return tuple(make(n) for n in range(1, FRAME_BYTES // element_bytes))


FULL = {
    "notices of one each": Data((), many(lambda n: PurgeNotice(1, n, n, HUGE), 16)),
    "notices with gaps": Data((), many(lambda n: PurgeNotice(1, 3 * n, 3 * n, HUGE), 16)),
    "notices, backwards": Data(
        (), many(lambda n: PurgeNotice(1, 10**6 - 3 * n, 10**6 - 3 * n, HUGE), 16)
    ),
    "messages in order": Data(many(lambda n: DataMessage(1, n, 1), 16)),
    "messages backwards": Data(many(lambda n: DataMessage(1, 10**6 - n, 1), 16)),
    "messages far apart": Data(many(lambda n: DataMessage(1, n * 10**9, 1), 16)),
    "the same message": Data(many(lambda n: DataMessage(1, 2, 1), 16)),
}


@pytest.mark.parametrize("ready", [0, 1 << 40])
@pytest.mark.parametrize("name", FULL)
def test_work_per_datagram_is_in_proportion_to_its_size(name, ready):
    datagram = FULL[name]
    member = Member(Recipe(members=3, buffer=500), 0, Random(1))
    member.on_ready(ready, 0.0, Effects(recording=False))
    elements = len(datagram.messages) + len(datagram.notices)
    assert calls_of(lambda: hear(member, datagram)) <= 50 * elements
    targets.check_bounds(member)


def test_what_waits_behind_a_gap_is_passed_in_one_go():
    """Every other message purged, the rest ahead: once it was quadratic."""
    count = 2000
    member = Member(Recipe(members=3, buffer=2 * count), 0, Random(1))
    member.on_ready(1 << 40, 0.0, Effects(recording=False))
    hear(member, Data(tuple(DataMessage(1, 2 * n + 1, 1) for n in range(1, count))))
    hear(member, Data((), tuple(PurgeNotice(1, 2 * n, 2 * n, HUGE) for n in range(1, count))))
    assert member.receiver.frontier[1] == 0
    assert calls_of(lambda: hear(member, Data((DataMessage(1, 1, 1),)))) <= 50 * count
    assert member.receiver.frontier[1] == 2 * count - 1


def test_a_request_for_everything_brings_each_message_once():
    member = Member(Recipe(members=3), 0, Random(1))
    member.submit([Update(bytes(100))] * 50, 0.0, Effects(recording=False))
    ranges = tuple((n, n) for n in range(1, 51))
    out = hear(member, Nack(0, ranges, HUGE, 1))
    assert [m.seq for _, d in out.send for m in d.messages] == list(range(1, 51))


def test_what_others_call_stable_is_reclaimed_without_counting_up_to_it():
    member = Member(Recipe(members=2), 0, Random(1))
    store = member.buffers.store
    store.add(run_of([DataMessage(1, 1)]))
    assert calls_of(lambda: store.reclaim(1, HUGE)) < 50
    assert store.stream(1).buffer.held == {}


@pytest.mark.parametrize(
    "fields",
    [
        (1, [(0, 1)] * 200_000),
        (1, [(0, 1)], [(0, 1, 1, 2)] * 200_000),
        (1, [(0, HUGE, None, [300] * 200_000)]),
        (1, [(0, HUGE, None, b"", False, [(1, 1)] * 200_000)]),
        (2, 0, [(1, 1)] * 200_000, 1, 1),
        (3, [(0, 1, 1, b"", 1)] * 100_000),
    ],
    ids=["messages", "notices", "covers", "deps", "ranges", "ballots"],
)
def test_a_large_datagram_is_one_message_and_lists_cost_no_memory(fields):
    data = msgspec.msgpack.encode(fields)
    assert len(data) > LARGE_BYTES
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            GROUP_CODEC.decode(data)
        assert tracemalloc.get_traced_memory()[1] < LARGE_BYTES
    finally:
        tracemalloc.stop()


def test_a_large_message_is_decoded():
    large = Data(
        (DataMessage(0, 1, payload=bytes(1 << 20), name="ACME"),), (PurgeNotice(0, 1, 2, 3),)
    )
    assert GROUP_CODEC.decode(encode(large)) == large


def test_a_lie_about_stability_takes_no_time():
    member = Member(Recipe(members=3), 0, Random(1))
    hear(member, Data((DataMessage(1, 1),)))
    lie = StabilityGossip((Vote(1, HUGE, HUGE, b"\7", HUGE),))
    assert calls_of(lambda: hear(member, lie)) < 200
    assert member.excluded
