"""The version in every frame: a range is read, greetings stay as they are, the rest is refused."""

import pytest

from semcast.wire import frames
from semcast.wire.frames import (
    DATAGRAM,
    GREETING,
    GREETINGS,
    KINDS,
    Claim,
    FrameRejected,
    member_id,
)
from semcast.wire.sealing import Key, Opener, Sealer

A, B = member_id("a"), member_id("b")
KEY = Key(7, "aes-256-gcm", bytes(range(32)))
VERSION_PLACE = 2


def sealer(version=1, group="quotes"):
    made = Sealer(group, A, 1, KEY)
    made.speak(version)
    return made


@pytest.fixture
def opener():
    return Opener(Sealer("quotes", B, 1, KEY).identity, [KEY])


@pytest.mark.parametrize(
    ("ranges", "version"),
    [
        ([(1, 1)], 1),
        ([(1, 3), (1, 2)], 2),
        ([(1, 3), (2, 5), (2, 4)], 3),
        ([(1, 1), (2, 2)], None),
        ([(1, 2), (2, 3), (3, 3)], None),
    ],
)
def test_the_highest_version_that_all_speak(ranges, version):
    assert frames.common(ranges) == version
    assert frames.common(reversed(ranges)) == version


def test_this_is_version_one():
    assert frames.spoken() == (1, 1)
    assert Sealer("quotes", A, 1, KEY).seal(DATAGRAM, b"")[VERSION_PLACE] == 1


@pytest.mark.parametrize("is_admitted", [False, True])
def test_every_version_in_the_range_is_opened(opener, monkeypatch, is_admitted):
    """Also of a sender that changes from one to another."""
    monkeypatch.setattr(frames, "HIGHEST", 2)
    made = sealer()
    if is_admitted:
        opener.admit([made.identity[1:]])
    for version in (1, 2, 2, 1):
        made.speak(version)
        frame = made.seal(DATAGRAM, b"%d" % version)
        assert frame[VERSION_PLACE] == version
        assert opener.open(frame, False, 0.0).body == b"%d" % version


def test_a_newer_version_is_refused_with_who_sent_it(opener):
    with pytest.raises(
        FrameRejected, match="version 9 of the protocol, this process speaks 1 to 1"
    ) as no:
        opener.open(sealer(9).seal(DATAGRAM, b"body"), True, 0.0)
    assert (no.value.reason, no.value.claim) == ("version", Claim(9, frames.group_id("quotes"), A))


def test_what_other_groups_speak_is_not_told(opener):
    with pytest.raises(FrameRejected) as no:
        opener.open(sealer(9, "games").seal(DATAGRAM, b""), True, 0.0)
    assert (no.value.reason, no.value.claim) == ("group", None)


@pytest.mark.parametrize("kind", range(KINDS))
def test_greetings_stay_in_the_first_version(opener, monkeypatch, kind):
    """Even if all that is later than them was given up: so a process can be told by its name."""
    frame = sealer(9).seal(kind, b"body")
    assert frame[VERSION_PLACE] == (GREETING if kind in GREETINGS else 9)
    monkeypatch.setattr(frames, "LOWEST", 8)
    monkeypatch.setattr(frames, "HIGHEST", 9)
    assert opener.open(frame, True, 0.0).body == b"body"


def test_the_version_is_authenticated(opener, monkeypatch):
    monkeypatch.setattr(frames, "HIGHEST", 2)
    frame = bytearray(sealer(2).seal(DATAGRAM, b"body"))
    frame[VERSION_PLACE] = 1
    with pytest.raises(FrameRejected, match="not sealed with key 7"):
        opener.open(bytes(frame), True, 0.0)
