"""Sealed frames: who may read and make them, once each, and what forged ones cannot do."""

import gc
import tracemalloc
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.terms.errors import ConfigError
from semcast.wire import sealing
from semcast.wire.frames import (
    DATAGRAM,
    FRAGMENT,
    HEADER_BYTES,
    HELLO,
    MULTICAST,
    REPORT,
    SENDER_OFFSET,
    TCP,
    UDP,
    FrameHeader,
    FrameRejected,
    member_id,
    pack,
)
from semcast.wire.replay_window import REPLAY_WINDOW, ReplayWindow
from semcast.wire.sealing import (
    CIPHERS,
    UNKNOWN_SENDERS_BURST,
    UNKNOWN_SENDERS_MAX,
    UNKNOWN_SENDERS_PER_S,
    Key,
    OpenedFrame,
    Opener,
    Sealer,
)

A, B, C = (member_id(name) for name in "abc")
KEY = Key(7, "aes-256-gcm", bytes(range(32)))
CHACHA = Key(8, "chacha20-poly1305", bytes(range(32)))
FALSE = Key(7, "aes-256-gcm", bytes(32))  # made by somebody who knows only the number
GROUP = "quotes"

GOLDEN = {
    "aes-256-gcm": "48573ba704b008b1b84433a0a5dc09859879a43207",
    "chacha20-poly1305": "ffe9fd973a4224fcc2336dcc96ffe76859ab35d788",
}


def sealer(sender=A, incarnation=1, key=KEY, group=GROUP, salt=9):
    return Sealer(group, sender, incarnation, key, salt)


def opener(*keys, own=B, group=GROUP):
    return Opener(sealer(own, group=group).identity, keys or (KEY,))


def reason(at: Opener, frame: bytes, is_loopback=False, now=0.0) -> str:
    """The word under which the frame is refused."""
    with pytest.raises(FrameRejected) as refused:
        at.open(frame, is_loopback, now)
    return refused.value.reason


def opens(at: Opener, frame: bytes, now=0.0) -> OpenedFrame:
    return at.open(frame, False, now)


@pytest.mark.parametrize("key", [KEY, CHACHA], ids=CIPHERS)
def test_the_bytes_of_a_sealed_frame_are_fixed(key):
    frame = sealer(incarnation=3, key=key).seal(REPORT, b"hello", TCP)
    assert frame[HEADER_BYTES:].hex() == GOLDEN[key.cipher]
    assert frame[:HEADER_BYTES] == pack(
        FrameHeader(REPORT, TCP, key.id, sealing.group_id(GROUP), A, 3, 9, 1)
    )
    assert opens(opener(key), frame) == OpenedFrame(REPORT, A, 3, b"hello", 9)


@given(st.binary(max_size=200), st.integers(0, 5), st.sampled_from([UDP, TCP]))
def test_what_is_sealed_is_opened(body, kind, channel):
    assert opens(opener(), sealer().seal(kind, body, channel)) == OpenedFrame(kind, A, 1, body, 9)


@pytest.mark.parametrize("key", [KEY, CHACHA], ids=CIPHERS)
def test_a_flipped_bit_anywhere_is_refused_and_changes_nothing(key):
    frame = sealer(key=key).seal(DATAGRAM, b"body")
    at = opener(key)
    before = repr(at)
    for place in range(len(frame) * 8):
        bad = bytearray(frame)
        bad[place // 8] ^= 1 << place % 8
        assert reason(at, bytes(bad)) != "replay"
    assert repr(at) == before
    assert opens(at, frame).body == b"body"  # Nothing took its place in the window.


def test_forged_frames_of_a_member_change_nothing():
    at, honest = opener(), sealer()
    at.admit([(A, 1, 9), (B, 1, 9)])
    other = sealer(key=Key(KEY.id, KEY.cipher, bytes(32)))
    forged = [other.seal(DATAGRAM, b"lies") for _ in range(REPLAY_WINDOW * 2)]
    assert {reason(at, frame) for frame in forged} == {"forged"}
    assert opens(at, honest.seal(DATAGRAM, b"truth")).body == b"truth"


def test_a_sealed_frame_without_room_for_a_tag_is_refused():
    frame = sealer().seal(DATAGRAM, b"")
    for size in range(HEADER_BYTES, len(frame)):
        assert reason(opener(), frame[:size]) == "forged"


@pytest.mark.parametrize(
    ("frame", "word"),
    [
        (sealer(group="other").seal(DATAGRAM, b""), "group"),
        (sealer(sender=B).seal(DATAGRAM, b""), "own"),
        (sealer(sender=B, incarnation=2).seal(DATAGRAM, b""), "namesake"),
        (sealer(sender=B, incarnation=2, key=CHACHA).seal(DATAGRAM, b""), "key"),
        (sealer(sender=B, incarnation=2, key=None).seal(DATAGRAM, b""), "clear"),
        (sealer(sender=B, incarnation=2, key=FALSE).seal(DATAGRAM, b""), "forged"),
        (sealer(key=CHACHA).seal(DATAGRAM, b""), "key"),
        (sealer(key=None).seal(DATAGRAM, b""), "clear"),
        (sealer(key=Key(7, "chacha20-poly1305", KEY.secret)).seal(DATAGRAM, b""), "forged"),
    ],
)
def test_frames_not_for_us_are_refused_with_a_word(frame, word):
    assert reason(opener(), frame, is_loopback=True) == word


def test_our_own_frames_are_not_even_decrypted():
    frame = bytearray(sealer(sender=B).seal(DATAGRAM, b"body"))
    frame[-1] ^= 1
    assert reason(opener(), bytes(frame)) == "own"


def test_a_namesake_is_authenticated_and_counts_once_for_each_frame():
    at, namesake = opener(), sealer(sender=B, incarnation=2)
    frames = [namesake.seal(DATAGRAM, b"body") for _ in range(3)]
    assert [reason(at, frame) for frame in frames] == ["namesake"] * 3
    assert [reason(at, frame) for frame in frames] == ["replay"] * 3
    at.admit([(A, 1, 9), (B, 1, 9)])
    assert reason(at, sealer(sender=B, incarnation=3).seal(HELLO, b"")) == "namesake"
    assert reason(at, sealer(sender=B).seal(DATAGRAM, b"")) == "own"


def test_frames_are_marked_with_who_made_them():
    made = sealer(A, 3)
    others = sealer(A, 4), sealer(C, 3), sealer(A, 3, group="games"), sealer(A, 3, salt=10)
    for other in others:
        assert other.sender_bytes != made.sender_bytes
    for kind, channel in ((DATAGRAM, MULTICAST), (REPORT, TCP)):
        frame = made.seal(kind, b"body", channel)
        assert frame[SENDER_OFFSET : SENDER_OFFSET + len(made.sender_bytes)] == made.sender_bytes


def test_without_keys_frames_in_clear_are_for_this_machine_only():
    at = Opener(sealer(B).identity, ())
    first, second = (sealer(key=None).seal(DATAGRAM, b"body") for _ in range(2))
    assert reason(at, first) == "clear"
    assert at.open(first, True, 0.0) == OpenedFrame(DATAGRAM, A, 1, b"body", 9)
    assert reason(at, second, is_loopback=True) == "replay"  # Both have counter 1.
    assert reason(at, sealer().seal(DATAGRAM, b""), is_loopback=True) == "key"


def test_every_frame_counts_once_on_each_channel():
    at, by = opener(), sealer()
    frames = [by.seal(DATAGRAM, bytes([n]), channel) for n in range(20) for channel in (UDP, TCP)]
    Random(1).shuffle(frames)
    assert len({opens(at, frame) for frame in frames}) == 20
    assert {reason(at, frame) for frame in frames} == {"replay"}


def test_a_frame_that_many_have_overtaken_is_too_late():
    by = sealer()
    frames = [by.seal(DATAGRAM, b"") for _ in range(REPLAY_WINDOW + 1)]
    at = opener()
    opens(at, frames[-1])
    assert reason(at, frames[0]) == "replay"
    opens(at, frames[1])


@given(st.lists(st.integers(0, 60) | st.integers(0, 2**64 - 1), max_size=60))
def test_the_window_remembers_like_a_set(counters):
    window, seen, highest = ReplayWindow(), {0}, 0
    for counter in counters:
        new = counter not in seen and counter > highest - REPLAY_WINDOW
        assert window.take(counter) == new
        seen.add(counter)
        highest = max(highest, counter)
        assert window.missing.bit_length() <= REPLAY_WINDOW


def test_rotation_passes_through_two_keys():
    by, at = sealer(), opener(KEY)
    opens(at, by.seal(DATAGRAM, b"1"))
    by.use(CHACHA)
    early = by.seal(DATAGRAM, b"2")
    assert reason(at, early) == "key"
    at.use([KEY, CHACHA])
    opens(at, early)
    by.use(KEY)
    late = by.seal(DATAGRAM, b"3")
    opens(at, late)
    assert reason(at, early) == "replay"  # The window does not turn with the key.
    at.use([CHACHA])
    assert reason(at, late) == "key"
    by.use(CHACHA)
    assert opens(at, by.seal(DATAGRAM, b"4")).body == b"4"


def test_a_key_replaced_under_its_number_no_longer_opens():
    by, at = sealer(), opener()
    opens(at, by.seal(DATAGRAM, b""))
    at.use([Key(KEY.id, KEY.cipher, bytes(32))])
    assert reason(at, by.seal(DATAGRAM, b"")) == "forged"


def test_no_two_frames_of_one_name_share_key_and_nonce():
    """Same counter and body: incarnation, salt, sender, group, channel and key differ."""
    sealers = [
        sealer(),
        sealer(incarnation=2),
        sealer(salt=10),
        sealer(sender=C),
        sealer(group="other"),
        sealer(key=Key(7, "aes-256-gcm", bytes(32))),
    ]
    sealed = [by.seal(DATAGRAM, bytes(16))[HEADER_BYTES:][:16] for by in sealers]
    sealed += [by.seal(DATAGRAM, bytes(16), TCP)[HEADER_BYTES:][:16] for by in sealers]
    assert len({*sealed}) == len(sealed)


def test_every_sealer_draws_a_salt_of_its_own():
    """A cloned disk gives out an incarnation twice; still no nonce repeats under one key."""
    twins = [Sealer(GROUP, A, 1, KEY) for _ in range(2)]
    assert twins[0].identity[:3] == twins[1].identity[:3]
    sealed = {twin.seal(DATAGRAM, bytes(64))[HEADER_BYTES:] for twin in twins}
    assert len(sealed) == 2


def test_twins_that_draw_the_same_numbers_have_different_salts(monkeypatch):
    """A machine that was cloned a moment ago may draw what the other draws."""
    monkeypatch.setattr(sealing.secrets, "token_bytes", bytes)
    assert len({Sealer(GROUP, A, 1, KEY).identity.salt for _ in range(100)}) == 100


@pytest.mark.parametrize("is_admitted", [False, True])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_of_two_processes_with_one_incarnation_the_first_is_heard(is_admitted, is_sealed):
    key = KEY if is_sealed else None
    first, second = sealer(salt=9, key=key), sealer(salt=10, key=key)
    at = Opener(sealer(B).identity, [KEY] if is_sealed else [])
    at.open(first.seal(HELLO, b""), True, 0.0)
    if is_admitted:
        at.admit([(A, 1, 9), (B, 1, 9)])
    for _ in range(2):
        assert reason(at, second.seal(HELLO, b""), is_loopback=True) == "clone"
        seen = first.seal(DATAGRAM, b"body")
        assert at.open(seen, True, 0.0).body == b"body"
        assert reason(at, seen, is_loopback=True) == "replay", "each has its window"
    third = sealer(incarnation=2, salt=11, key=key)
    at.open(third.seal(HELLO, b""), True, 0.0)  # A restart ends it.


def test_a_member_is_who_the_roster_says_and_no_other():
    at = opener()
    at.admit([(A, 1, 9), (B, 1, 9)])
    assert reason(at, sealer(salt=10).seal(DATAGRAM, b"")) == "clone"
    opens(at, sealer().seal(DATAGRAM, b""))


def test_a_clone_of_our_own_is_a_namesake():
    at, clone = opener(), sealer(sender=B, salt=10)
    assert reason(at, clone.seal(DATAGRAM, b"")) == "namesake"
    at.admit([(A, 1, 9), (B, 1, 9)])
    assert reason(at, clone.seal(DATAGRAM, b"")) == "namesake"
    assert reason(at, sealer(sender=B).seal(DATAGRAM, b"")) == "own"


def test_a_forged_salt_changes_nothing():
    at, by = opener(), sealer()
    opens(at, by.seal(DATAGRAM, b""))
    for salt in range(10, 10 + 2 * UNKNOWN_SENDERS_BURST):
        forged = sealer(salt=salt, key=FALSE).seal(DATAGRAM, b"")
        assert reason(at, forged) in ("forged", "flood")
    opens(at, by.seal(DATAGRAM, b""))


def test_a_clone_costs_one_derivation_and_little_memory(monkeypatch):
    at, clones = opener(), [sealer(salt=10 + n) for n in range(3 * sealing.CLONES_MAX)]
    opens(at, sealer().seal(DATAGRAM, b""))
    assert {reason(at, clone.seal(DATAGRAM, b"")) for clone in clones} == {"clone"}
    assert len(at._clones) <= sealing.CLONES_MAX
    monkeypatch.setattr(sealing, "derive", None)
    assert reason(at, clones[-1].seal(DATAGRAM, b"")) == "clone"


def test_a_restarted_sender_counts_anew_and_its_past_is_refused():
    at = opener()
    past = sealer(incarnation=5)
    opens(at, past.seal(HELLO, b""))
    opens(at, sealer(incarnation=6).seal(HELLO, b""))
    assert reason(at, past.seal(HELLO, b"")) == "replay"


def test_a_forged_newer_incarnation_does_not_end_the_older():
    at, by = opener(), sealer(incarnation=5)
    opens(at, by.seal(DATAGRAM, b""))
    forger = sealer(incarnation=6, key=Key(7, "aes-256-gcm", bytes(32)))
    assert reason(at, forger.seal(HELLO, b"")) == "forged"
    opens(at, by.seal(DATAGRAM, b""))


def test_once_members_are_admitted_others_may_only_greet():
    at = opener()
    member = sealer(incarnation=5)
    seen = member.seal(DATAGRAM, b"")
    opens(at, seen)
    at.admit([(A, 5, 9), (B, 1, 9)])
    assert reason(at, seen) == "replay"  # Admission forgets no window.
    opens(at, member.seal(DATAGRAM, b""))
    restarted = sealer(incarnation=6)
    assert reason(at, restarted.seal(DATAGRAM, b"")) == "stranger"
    hello = restarted.seal(HELLO, b"")
    opens(at, hello)
    assert reason(at, hello) == "replay"
    opens(at, member.seal(DATAGRAM, b""))
    assert reason(at, sealer(sender=C).seal(FRAGMENT, b"")) == "stranger"
    opens(at, sealer(sender=C).seal(HELLO, b""))


def test_the_past_of_a_member_is_refused_before_it_was_heard():
    at = opener()
    at.admit([(A, 5, 9)])
    assert reason(at, sealer(incarnation=4).seal(HELLO, b"")) == "replay"


def test_who_is_admitted_anew_keeps_its_window():
    at = opener()
    at.admit([(A, 1, 9)])
    by, returned = sealer(), sealer(sender=C)
    seen = by.seal(DATAGRAM, b"")
    hello = returned.seal(HELLO, b"")
    opens(at, seen)
    opens(at, hello)
    at.admit([(A, 1, 9), (C, 1, 9)])
    assert reason(at, seen) == "replay"
    assert reason(at, hello) == "replay"
    opens(at, returned.seal(DATAGRAM, b""))


def test_strangers_are_not_worth_a_derivation_each(monkeypatch):
    derived = []

    def derive(*identity):
        derived.append(identity)
        return original(*identity)

    original = sealing.derive
    monkeypatch.setattr(sealing, "derive", derive)
    at = opener()
    at.admit([(A, 1, 9)])
    member = sealer()
    garbage = [
        pack(FrameHeader(HELLO, UDP, KEY.id, sealing.group_id(GROUP), n, 1, 1, 1)) + bytes(16)
        for n in range(3 * UNKNOWN_SENDERS_BURST)
    ]
    derived.clear()
    words = [reason(at, frame) for frame in garbage]
    assert len(derived) == UNKNOWN_SENDERS_BURST
    assert words == ["forged"] * UNKNOWN_SENDERS_BURST + ["flood"] * 2 * UNKNOWN_SENDERS_BURST
    opens(at, member.seal(DATAGRAM, b"members are not concerned"))
    later = 100.5 / UNKNOWN_SENDERS_PER_S
    assert [reason(at, frame, now=later) for frame in garbage].count("forged") == 100
    words = [reason(at, frame, now=1e6) for frame in garbage]
    assert words.count("forged") == UNKNOWN_SENDERS_BURST
    assert reason(at, garbage[0][:3] + bytes([DATAGRAM]) + garbage[0][4:]) == "stranger"


def test_known_senders_need_no_second_derivation(monkeypatch):
    at, by = opener(), sealer()
    opens(at, by.seal(DATAGRAM, b""))
    monkeypatch.setattr(sealing, "derive", None)
    opens(at, by.seal(DATAGRAM, b""))


@pytest.mark.parametrize("incarnation", [1, 2])
def test_of_many_strangers_the_latest_heard_are_remembered(incarnation):
    at = opener()
    first = sealer(sender=100)
    hellos = [first.seal(HELLO, b"")]
    hellos += [sealer(sender=101 + n).seal(HELLO, b"") for n in range(UNKNOWN_SENDERS_MAX)]
    for n, hello in enumerate(hellos[:-1]):
        opens(at, hello, now=float(n))
    again = first if incarnation == 1 else sealer(sender=100, incarnation=2)
    opens(at, again.seal(HELLO, b""), now=1e6)  # So it is the second that gives way.
    opens(at, hellos[-1], now=1e6)
    assert reason(at, hellos[0]) == "replay"
    assert reason(at, hellos[2]) == "replay"
    opens(at, hellos[1], now=1e6)


def test_garbage_takes_no_memory():
    at = opener()
    at.admit([(A, 1, 9)])
    rng = Random(5)
    group = sealing.group_id(GROUP)

    def flood():
        for n in range(3000):
            header = FrameHeader(
                rng.randrange(6), rng.randrange(2), KEY.id, group, rng.getrandbits(64), 1, 1, n
            )
            reason(at, pack(header) + rng.randbytes(30), now=n / 1000)

    flood()
    tracemalloc.start()
    flood()
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 50_000


HEADERS = st.builds(
    FrameHeader,
    st.integers(0, 5),
    st.integers(0, 1),
    st.sampled_from([0, 7, 9]),
    st.sampled_from([sealing.group_id(GROUP), 1]),
    st.sampled_from([A, B, C]),
    st.sampled_from([1, 2]) | st.integers(0, 2**64 - 1),
    st.sampled_from([9, 10]) | st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)


@given(
    st.lists(st.binary(max_size=100) | st.builds(lambda h, b: pack(h) + b, HEADERS, st.binary())),
    st.booleans(),
    st.booleans(),
)
def test_whatever_comes_only_a_refusal_escapes(frames, is_sealed, is_admitted):
    at = Opener(sealer(B).identity, [KEY] if is_sealed else [])
    if is_admitted:
        at.admit([(A, 1, 9), (B, 1, 9)])
    for frame in frames:
        with suppress(FrameRejected):
            at.open(frame, True, 0.0)
            assert not is_sealed, "nobody has the key"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ((0, "aes-256-gcm", bytes(32)), "id: 0 is not within 1"),
        ((2**32, "aes-256-gcm", bytes(32)), "id: "),
        ((1, "rot13", bytes(32)), "cipher: unknown value 'rot13'; allowed: aes-256-gcm"),
        ((1, "aes-256-gcm", bytes(31)), "secret: 31 bytes, must be 32"),
    ],
)
def test_an_impossible_key_is_refused(fields, told):
    with pytest.raises(ConfigError, match=told):
        Key(*fields)


def test_a_key_does_not_print_its_secret():
    assert repr(KEY) == "Key(id=7, cipher='aes-256-gcm')"
    assert "x" * 8 not in repr(sealer(key=Key(1, "aes-256-gcm", b"x" * 32)))
