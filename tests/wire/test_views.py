"""Datagrams about views: round trips, refusals."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.terms import views
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import Incarnation
from semcast.terms.messages import Data, DataMessage, Nack
from semcast.wire import GROUP_CODEC, VIEW_CODEC, encode

LIVES = (Incarnation(1, 1), Incarnation(2, 3))
VIEW = views.GroupView(4, LIVES, (0, 9), 2**63 + 5)
PROPOSAL = views.ViewProposal(VIEW, (5, 6), 1, (Incarnation(2, 3),))


@pytest.mark.parametrize(
    "datagram",
    [
        views.Heartbeat(1, 4, True, False, LIVES, 3, 2),
        views.ViewEnvelope(4, Data((DataMessage(1, 2, 7, payload=b"x"),))),
        views.ViewEnvelope(4, Nack(1, ((1, 2),), 4, 1)),
        views.OrderProgress(4, 1, 0),
        views.Prepare(4, 6),
        views.Promise(4, 6, (5, 6), 5, True),
        views.Promise(4, 6, (5, 6), 5, False, 3, PROPOSAL),
        views.Propose(4, 6, PROPOSAL, (0, 1)),
        views.Accepted(4, 6),
        views.Decided(4, PROPOSAL, 1),
        views.BallotRejected(4, 9),
        views.NotInView(1, 5),
        views.Invite(4, LIVES),
        views.Consent(4, 9),
        views.Formed(VIEW),
        views.StateRequest(4, 0),
        views.StateChunk(4, 0, 3, b"abc"),
    ],
)
def test_datagrams_come_back(datagram) -> None:
    stamped = views.Stamped(VIEW.lineage, 3, datagram)
    data = encode(stamped)
    assert VIEW_CODEC.decode(data) == stamped
    with pytest.raises(RemoteProtocolError):
        GROUP_CODEC.decode(data)


@pytest.mark.parametrize(
    "datagram",
    [
        views.Heartbeat(-1, 4),
        views.Heartbeat(1, 2**63),
        views.Heartbeat(1, 4, to_exclude=(Incarnation(-1, 1),)),
        views.ViewEnvelope(4, Data((DataMessage(1, 0),))),
        views.Promise(4, 6, (5, -6), 5, True),
        views.Promise(4, 6, (5, 6), 5, True, 3),
        views.Promise(4, 6, (5, 6), 5, True, 0, PROPOSAL),
        views.Propose(
            4,
            6,
            views.ViewProposal(views.GroupView(5, LIVES, (0,), VIEW.lineage), (5, 6), 1, ()),
            (0, 1),
        ),
        views.Decided(
            4, views.ViewProposal(views.GroupView(5, (), (), VIEW.lineage), (), 1, ()), 0
        ),
        views.Formed(views.GroupView(4, (LIVES[0], LIVES[0]), (0, 0), VIEW.lineage)),
        views.StateChunk(4, 2, 3, b"ab"),
        views.StateRequest(4, -1),
    ],
)
def test_numbers_that_cannot_be_are_refused(datagram) -> None:
    with pytest.raises(RemoteProtocolError):
        VIEW_CODEC.decode(encode(views.Stamped(VIEW.lineage, 3, datagram)))


def test_lists_are_bounded() -> None:
    lives = tuple(Incarnation(pid, 1) for pid in range(views.MEMBERS_MAX + 1))
    with pytest.raises(RemoteProtocolError):
        VIEW_CODEC.decode(encode(views.Stamped(1, 3, views.Invite(4, lives))))


@pytest.mark.parametrize(("lineage", "inc"), [(1, -1), (1, 2**63), (-1, 1)])
def test_stamps_that_cannot_be_are_refused(lineage, inc) -> None:
    with pytest.raises(RemoteProtocolError):
        VIEW_CODEC.decode(encode(views.Stamped(lineage, inc, views.OrderProgress(4, 1, 0))))


@pytest.mark.parametrize(
    "datagram",
    [
        views.Decided(4, PROPOSAL, 1),
        views.Propose(4, 6, PROPOSAL, (0, 1)),
        views.Promise(4, 6, (5, 6), 5, False, 3, PROPOSAL),
        views.Formed(VIEW),
    ],
)
def test_a_view_is_of_the_lineage_of_its_sender(datagram) -> None:
    with pytest.raises(RemoteProtocolError, match="lineage"):
        VIEW_CODEC.decode(encode(views.Stamped(VIEW.lineage + 1, 3, datagram)))


@given(st.binary(max_size=64))
def test_no_bytes_bring_it_down(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        VIEW_CODEC.decode(data)


def test_a_large_datagram_is_one_message_or_a_piece_of_state() -> None:
    for datagram in (
        views.ViewEnvelope(4, Data((DataMessage(1, 1, payload=bytes(300_000)),))),
        views.StateChunk(4, 0, 300_000, bytes(300_000)),
    ):
        stamped = views.Stamped(2**60, 9, datagram)
        assert VIEW_CODEC.decode(encode(stamped)) == stamped
    many = tuple(DataMessage(1, seq, payload=bytes(90)) for seq in range(1, 4_000))
    with pytest.raises(RemoteProtocolError):
        VIEW_CODEC.decode(encode(views.Stamped(2**60, 9, views.ViewEnvelope(4, Data(many)))))
