"""Transcripts say what the events say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.specs.transcript import line, lines, parse
from semcast.terms.events import MULTICAST, Event
from semcast.terms.messages import DataMessage

numbers = st.integers(1, 99)
ranks = st.integers(0, 9)
covers = st.one_of(
    st.just(b""),
    st.binary(min_size=1, max_size=4),
    st.lists(numbers, min_size=1, max_size=4).map(tuple),
)
messages = st.builds(
    DataMessage,
    sender=ranks,
    seq=numbers,
    item=st.none() | st.integers(-9, 9),
    covers=covers,
    never_purge=st.booleans(),
    payload=st.binary(max_size=4),
)
multicasts = st.builds(
    lambda m, declared, declares: Event(
        MULTICAST, m.sender, m.sender, m.seq, m, declared=declared, declares=declares
    ),
    messages,
    st.lists(numbers, max_size=3).map(tuple),
    st.sampled_from(("", "item", "item=-7", "item=3 never_purge=0", "never_purge=1")),
)
others = st.one_of(
    st.builds(Event, st.sampled_from(("receive", "stable", "safe")), ranks, ranks, numbers),
    st.builds(
        Event,
        st.just("purge"),
        ranks,
        ranks,
        numbers,
        by_seq=numbers,
        note=st.sampled_from(("delivery", "retransmission")),
    ),
    st.builds(Event, st.just("leave"), ranks, peer=ranks),
    st.builds(Event, st.just("crash"), ranks),
    st.builds(Event, st.just("join"), ranks, note=st.sampled_from(("", "0:12", "0:12 3:40"))),
    st.builds(
        Event,
        st.just("install"),
        ranks,
        inc=numbers,
        view=numbers,
        members=st.lists(ranks, unique=True).map(tuple),
    ),
    st.builds(
        Event,
        st.just("confirm"),
        ranks,
        ranks,
        numbers,
        sender_inc=numbers,
        position=numbers,
        view=numbers,
    ),
    st.builds(
        Event,
        st.sampled_from(("request", "execute", "reply")),
        ranks,
        client=ranks,
        request=ranks,
        version=ranks,
        digest=st.none() | st.integers(-9, 9),
    ),
)


@given(st.lists(multicasts | others))
def test_what_is_written_reads_back(events: list[Event]) -> None:
    assert parse(lines(events)) == events


def test_a_deliver_takes_the_message_that_was_multicast_unless_it_says_otherwise() -> None:
    sent, same, other = parse(
        """
        0 multicast 0:1 item=7 payload=aa   # what was sent
        1 deliver 0:1

        2 deliver 0:1 payload=bb
        """
    )
    assert same.message == sent.message == DataMessage(0, 1, item=7, payload=b"\xaa")
    assert other.message == DataMessage(0, 1, payload=b"\xbb")
    assert line(sent) == "0 multicast 0:1 item=7 payload=aa"


@pytest.mark.parametrize("text", ["0 multicast 0:1 itme=7", "0 receive 0:1 item=7"])
def test_a_misspelt_option_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="0:1"):
        parse(text)
