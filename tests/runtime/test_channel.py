"""What a member's channel counts of the datagrams that pass through it."""

from types import SimpleNamespace

import pytest

from semcast.runtime.channel import MemberChannel, bulk_bytes
from semcast.terms.ids import EVERYONE
from semcast.terms.messages import Data, DataMessage, Nack
from semcast.terms.views import Stamped, ViewEnvelope
from semcast.wire import GROUP_CODEC

NACK = Nack(sender=0, spans=((1, 3),), limit=8, number=1)
MESSAGE = DataMessage(sender=0, seq=1, payload=b"x" * 10)


def in_a_view(datagram):
    return Stamped(lineage=7, inc=1, datagram=ViewEnvelope(view=3, datagram=datagram))


@pytest.fixture
def channel():
    transport = SimpleNamespace(send=lambda *sent: None, send_all=lambda *sent: None)
    directory = SimpleNamespace(addresses={}, group_addresses=())
    return MemberChannel(transport, None, directory, GROUP_CODEC)


@pytest.mark.parametrize("wrap", [lambda datagram: datagram, in_a_view])
def test_repairs_count_with_and_without_views(channel, wrap):
    first, again = Data(messages=(MESSAGE,)), Data(messages=(MESSAGE,), nack_number=1)
    for datagram in (NACK, first, again, again):
        channel.send([(EVERYONE, wrap(datagram))], is_repair=False)
    assert (channel.repairs_asked, channel.repairs_answered) == (1, 2)


@pytest.mark.parametrize("wrap", [lambda datagram: datagram, in_a_view])
def test_only_payload_may_go_over_tcp(wrap):
    assert bulk_bytes(wrap(Data(messages=(MESSAGE,)))) == 10
    assert not bulk_bytes(wrap(NACK))
