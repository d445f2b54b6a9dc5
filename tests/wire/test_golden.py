"""Recorded bytes of every wire version, which this version and all later ones must decode.

One file for each version in `golden/`, with one line for each thing that travels.  What this
version writes is recorded anew by

    SEMCAST_RECORD=1 python -m pytest tests/wire/test_golden.py

and only before a release: afterwards a change of the bytes is a new version with its own file.
"""

import json
import os
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from semcast.runtime.membership import gathering, introductions, reports
from semcast.terms import messages, pubsub, service, store, views
from semcast.terms.ids import Incarnation
from semcast.terms.messages import Data, DataMessage, FrontierVote, PurgeNotice
from semcast.terms.pubsub import MemberEntry, StreamSpans, StreamStatus
from semcast.terms.views import GroupView, ViewProposal
from semcast.wire import (
    GROUP_CODEC,
    PUBSUB_CODEC,
    SERVICE_CODEC,
    STORE_CODEC,
    VIEW_CODEC,
    encode,
    frames,
)
from semcast.wire.frames import (
    DATAGRAM,
    HEADER_BYTES,
    HELLO,
    MULTICAST,
    REPORT,
    TCP,
    UDP,
    member_id,
)
from semcast.wire.sealing import CIPHERS, Key, OpenedFrame, Opener, Sealer

GOLDEN = Path(__file__).parent / "golden"
FILE = GOLDEN / f"v{frames.HIGHEST}.json"

SECRET = bytes(range(32))
RUN = tuple(DataMessage(1, seq, 7, payload=b"x" * seq, name="ACME") for seq in range(2, 5))
ODD = DataMessage(1, 9, None, (1, 8), True, ((0, 5),), b"payload", "name")
MARKED = DataMessage(1, 12, 2**64 - 1, b"\x05", False, (), b"", "é")
VOTES = (FrontierVote(0, 5, 4, b"\x07", 3), FrontierVote(65535, 0, 0, b"", 0))
LIVES = (Incarnation(1, 1), Incarnation(2**31 - 1, 3))
VIEW = GroupView(4, LIVES, (0, 9), 2**63 + 5)
PROPOSAL = ViewProposal(VIEW, (5, 6), 1, (Incarnation(2**31 - 1, 3),))
PART = StreamSpans(3, ((1, 2), (5, 5)))
STREAMS = (StreamStatus(1, 200, 150), StreamStatus(2, 0, 0))
SEAT = gathering.RosterEntry("ada", 2**40, "127.0.0.1", 7101, 2**63, (1, 1))

# By the name of a line.  Fields that later versions append keep their defaults here.
FIXED = {
    "Data": Data((ODD, MARKED), (PurgeNotice(1, 1, 1, 2),), 300, 4),
    "Data, usual": Data(RUN, safe=300),
    "Nack": messages.Nack(2, ((4, 4), (70_000, 70_001)), 10, 1),
    "StabilityGossip": messages.StabilityGossip(VOTES),
    "SafetyGossip": messages.SafetyGossip(VOTES),
    "WindowEmpty": messages.WindowEmpty(1, 2**40),
    "Excluded": messages.Excluded(65535),
}
IN_LINEAGE = {
    "Heartbeat": views.Heartbeat(1, 4, True, False, LIVES, 3, 2, True),
    "Enclosed": views.ViewEnvelope(4, messages.Nack(1, ((1, 2),), 4, 1)),
    "Enclosed, usual": views.ViewEnvelope(300, Data(RUN, safe=2)),
    "Reached": views.OrderProgress(4, 1, 0),
    "Prepare": views.Prepare(4, 6),
    "Promise": views.Promise(4, 6, (5, 6), 5, False, 3, PROPOSAL),
    "Propose": views.Propose(4, 6, PROPOSAL, (0, 1)),
    "Accepted": views.Accepted(4, 6),
    "Decided": views.Decided(4, PROPOSAL, 1),
    "Refused": views.BallotRejected(4, 9),
    "Departed": views.NotInView(1, 5),
    "Invite": views.Invite(4, LIVES),
    "Consent": views.Consent(4, 9),
    "Formed": views.Formed(VIEW),
    "WantState": views.StateRequest(4, 70_000),
    "StateChunk": views.StateChunk(4, 1, 5, b"abc"),
}
VIEWS = {
    name: views.Stamped(VIEW.lineage, 70_000, datagram) for name, datagram in IN_LINEAGE.items()
}
PUBSUB = {
    "Publication": pubsub.Publication(RUN),
    "Repair": pubsub.Repair((ODD,), (PurgeNotice(1, 1, 1, 2),), 40),
    "Heartbeat": pubsub.PublisherHeartbeat(1, 70_000),
    "Request": pubsub.RepairRequest((PART,)),
    "Gossip": pubsub.Gossip(1, 2**63, 2**62, (PART,), STREAMS, True, True),
    "Digest": pubsub.GossipDigest(2**63, (PART,)),
    "Collected": pubsub.Collected((PART,)),
    "Lasts": pubsub.StatusList(1, 2, STREAMS, True, False),
    "Members": pubsub.MemberList(
        0, 9, (MemberEntry(1, pubsub.LEFT, 5), MemberEntry(2, pubsub.MEMBER, 0)), True
    ),
    "Join": pubsub.Join(3),
    "Welcome": pubsub.Welcome(3, STREAMS),
    "Leave": pubsub.LeaveRequest(3, 2**64 - 1),
    "Goodbye": pubsub.LeaveAck(3),
    "Ack": pubsub.Ack(PART, 3),
    "Census": pubsub.RecoveryQuery((1, 70_000)),
    "Holds": pubsub.RecoveryReply((1, 9), PART),
    "Gap": pubsub.UnusedSeqs(PART),
    "Gone": pubsub.LostSeqs(PART),
    "Resync": pubsub.ResyncRequest(1),
    "Absent": pubsub.NotHeld(PART),
}
SERVICES = {
    "Request": service.Request(2**63 - 1, 70_000, b"body", 300),
    "Reply": service.Reply(1, 0, service.FAILED, b"why", 300),
    "Applied": service.Applied(VIEW.lineage, 4, 70_000, 300),
    "AskApplied": service.AskApplied(VIEW.lineage, 4),
}
STORE = {
    "StoreRequest": store.StoreRequest(2**63 - 1, 9, 300, 2**40, 5, 6, (b"body", b"")),
    "StoreReply": store.StoreReply(1, 2**40, (store.StoreAnswer(6, service.DONE, b"why", 301),)),
    "StoreBundle": store.StoreBundle(
        (store.StoreRequest(1, 0, 0, 0, 1, 1, (b"",)), store.StoreReply(2, 0, ()))
    ),
    "StoreProgress": store.StoreProgress(2**40, 2, 300, 299, True),
    "Parcel": store.Parcel(2, 1, 70_000, b"body"),
    "ParcelReceipt": store.ParcelReceipt(2, 1, 70_000),
}
RUNTIME = {
    "Hello": gathering.Hello("ada", 2**64 - 1, 2**62, 5, bytes(3), (1, 1), 2**63 + 5),
    "RosterStep": gathering.RosterStep(gathering.COMMIT, 2**62, (SEAT,)),
    "Report": reports.MemberReport(70_000, 3, 2, 1),
    "Goodbye": reports.Goodbye(True),
    "Standing": introductions.ViewMemberReport(
        5, 2**40, 4, LIVES, ("ada", "bob"), "member", (1,), 9, 3, 2, 1
    ),
}
DECODERS = {
    "fixed": GROUP_CODEC.decode,
    "views": VIEW_CODEC.decode,
    "pubsub": PUBSUB_CODEC.decode,
    "services": SERVICE_CODEC.decode,
    "store": STORE_CODEC.decode,
}
VALUES = {
    f"{family}: {name}": value
    for family, values in {
        "fixed": FIXED,
        "views": VIEWS,
        "pubsub": PUBSUB,
        "services": SERVICES,
        "store": STORE,
    }.items()
    for name, value in values.items()
} | {f"runtime: {name}": value for name, value in RUNTIME.items()}

# Frames of ada in incarnation 2^40 with salt 2^63 + 1: cipher ("clear" is none), kind, channel, and
# how many frames came before on the channel.
FRAMES = {
    f"frame: {cipher}, {name}": (cipher, *shape)
    for cipher in ("clear", *CIPHERS)
    for name, shape in {
        "first": (DATAGRAM, UDP, 0),
        "hello": (HELLO, MULTICAST, 2),
        "later": (REPORT, TCP, 1000),
    }.items()
}
BODY = b"a body of some length"


def key_of(cipher: str) -> Key | None:
    return None if cipher == "clear" else Key(7, cipher, SECRET)


def sealed(cipher: str, kind: int, channel: int, before: int) -> bytes:
    sealer = Sealer("quotes", member_id("ada"), 2**40, key_of(cipher), salt=2**63 + 1)
    sealer.speak(frames.HIGHEST)
    sealer._counters[channel] = before
    return sealer.seal(kind, BODY, channel)


def opened(cipher: str, frame: bytes) -> OpenedFrame:
    own = Sealer("quotes", member_id("bob"), 1, None).identity
    key = key_of(cipher)
    return Opener(own, () if key is None else (key,)).open(frame, True, 0.0)


def written() -> dict[str, str]:
    """What this version writes, by the name of the line."""
    lines = {
        name: msgspec.msgpack.encode(value) if name.startswith("runtime") else encode(value)
        for name, value in VALUES.items()
    }
    return {name: data.hex() for name, data in lines.items()} | {
        name: sealed(*shape).hex() for name, shape in FRAMES.items()
    }


def read(name: str, data: bytes) -> object:
    family, _ = name.split(": ")
    if family == "runtime":
        return msgspec.msgpack.decode(data, type=type(VALUES[name]))
    return DECODERS[family](data)


@pytest.fixture(scope="module", autouse=True)
def recording() -> None:
    """Record first, if that was asked for."""
    if os.environ.get("SEMCAST_RECORD"):
        FILE.write_text(json.dumps(written(), indent=1) + "\n")


def recorded() -> list[Path]:
    return sorted(GOLDEN.glob("v*.json"))


def test_every_version_up_to_this_one_is_recorded() -> None:
    spoken = range(frames.LOWEST, frames.HIGHEST + 1)
    assert {path.stem for path in recorded()} >= {f"v{version}" for version in spoken}
    for path in recorded():
        lines = json.loads(path.read_text())
        assert lines.keys() <= VALUES.keys() | FRAMES.keys(), f"{path.name}: nobody reads some"


@pytest.mark.parametrize("name", VALUES)
def test_what_was_recorded_is_decoded(name: str) -> None:
    for path in recorded():
        lines = json.loads(path.read_text())
        if name in lines:
            assert read(name, bytes.fromhex(lines[name])) == VALUES[name], path.name


@pytest.mark.parametrize("name", FRAMES)
def test_frames_that_were_recorded_are_opened(name: str) -> None:
    cipher, kind, _, _ = FRAMES[name]
    for path in recorded():
        lines = json.loads(path.read_text())
        if name in lines:
            frame = bytes.fromhex(lines[name])
            told = OpenedFrame(kind, member_id("ada"), 2**40, BODY, 2**63 + 1)
            assert opened(cipher, frame) == told, path.name


def test_this_version_writes_what_was_recorded() -> None:
    """If this fails, the bytes have changed: that takes a new version once this one is out."""
    lines = json.loads(FILE.read_text())
    now = written()
    assert now.keys() == lines.keys()
    assert {name for name in now if now[name] != lines[name]} == set()


def test_each_type_of_each_family_is_recorded() -> None:
    families = (
        (FIXED, messages.Datagram),
        (IN_LINEAGE, views.ViewDatagram),
        (PUBSUB, pubsub.PubsubDatagram),
    )
    for values, types in families:
        assert {type(value) for value in values.values()} == set(get_args(types))


def test_recorded_frames_carry_their_version_where_every_version_has_it() -> None:
    for path in recorded():
        version = int(path.stem.removeprefix("v"))
        for name, line in json.loads(path.read_text()).items():
            if name.startswith("frame"):
                data = bytes.fromhex(line)
                assert len(data) >= HEADER_BYTES
                assert data[:2] == frames.MAGIC
                assert data[2] == (frames.GREETING if "hello" in name else version)
