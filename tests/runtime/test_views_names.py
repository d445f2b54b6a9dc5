"""Who is who: numbers from names, lives that only go up, and introductions."""

from random import Random

import msgspec
import pytest

from semcast.runtime.membership import incarnations as lives
from semcast.runtime.membership import reasons
from semcast.runtime.membership.gathering import HELLO_BYTES, Hello, RosterEntry, encode_hello
from semcast.runtime.membership.introductions import PeerDirectory, ViewMemberReport, report_decoder
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import PID_MAX, Incarnation
from semcast.wire.frames import HELLO, REPORT, member_id

HERE, THERE = ("127.0.0.1", 7001), ("127.0.0.1", 7002)
DIGEST = 7


def test_a_pid_is_of_the_name_and_fits_a_trace():
    pids = {lives.pid_of_name(f"member {number}") for number in range(1000)}
    assert len(pids) == 1000
    assert 0 <= min(pids) <= max(pids) <= PID_MAX == 2**31 - 1
    assert lives.pid_of(member_id("a")) == lives.pid_of_name("a")


def test_lives_only_go_up_whatever_the_clock_says(place, monkeypatch):
    found = []
    for year_ns in (0, 10**18, 1_800_000_000 * 10**9, 0, 1_900_000_000 * 10**9, 10**9):
        monkeypatch.setattr(lives, "time_ns", lambda told=year_ns: told)
        found.append(lives.next_inc())
    assert found == sorted(set(found))
    assert found[0] == 1
    assert max(found) < 2**31


def test_an_incarnation_tells_the_life_and_is_new_even_if_the_disk_is_lost(place):
    one, other = (lives.frame_incarnation(1000) for _ in range(2))
    assert lives.inc_of_frame(one) == lives.inc_of_frame(other) == 1000
    assert lives.frame_incarnation(1001) > one


def introduced(name="a", peers=None):
    return PeerDirectory(RosterEntry(name, 1, *HERE), DIGEST, Random(1), peers)


def hello(name="b", digest=DIGEST, echo=0):
    return member_id(name), encode_hello(Hello(name, digest, 99, echo))


def standing(**fields):
    known = {"echo": 0, "lineage": 5, "view": 2, "members": (Incarnation(1, 1), Incarnation(2, 1))}
    return ViewMemberReport(**{**known, "names": ("x", "y"), "status": "member", **fields})


def test_who_asks_is_known_and_answered_with_how_the_group_is_doing():
    here = introduced()
    answers = here.on_hello(*hello(), THERE, standing())
    assert [(each.to, each.kind) for each in answers] == [(THERE, HELLO), (THERE, REPORT)]
    assert len(answers[0].body) == HELLO_BYTES
    assert report_decoder.decode(answers[1].body).echo == 99
    assert here.names == {lives.pid_of_name("b"): "b"}
    assert here.addresses == {lives.pid_of_name("b"): THERE}
    assert here.on_hello(*hello(echo=5), THERE, standing()) == [], "an answer needs none"
    assert len(here.on_hello(*hello("c"), THERE, None)) == 1, "nothing runs here yet"


def test_who_has_other_settings_is_not_known_until_it_has_ours():
    here = introduced()
    here.on_hello(*hello(), THERE, None)
    assert here.on_hello(*hello(digest=8), THERE, None) == []
    assert (here.names, list(here.mismatched.values())) == ({}, ["b"])
    assert here.on_unknown_sender(member_id("b"), THERE, 1.0) == [], "it was asked enough"
    here.on_hello(*hello(), THERE, None)
    assert (list(here.names.values()), here.mismatched) == (["b"], {})


def test_a_stranger_is_asked_who_it_is_but_not_at_every_word():
    here = introduced()
    asked = [len(here.on_unknown_sender(member_id("b"), THERE, now)) for now in (0.0, 0.01, 0.06)]
    assert asked == [1, 0, 1]


def test_peers_are_reached_where_the_list_says_and_nobody_else_is():
    here = introduced(peers={"a": HERE, "b": ("127.0.0.1", 7999)})
    here.on_hello(*hello(), THERE, None)
    assert here.addresses == {lives.pid_of_name("b"): ("127.0.0.1", 7999)}
    with pytest.raises(RemoteProtocolError, match="not among the peers"):
        here.on_hello(*hello("c"), THERE, None)
    assert [each.to for each in here.hellos(asking=True)] == [("127.0.0.1", 7999)]


def test_names_are_also_known_from_those_who_have_met():
    here = introduced()
    here.on_report(1, standing())
    assert [here.name_of(pid) for pid in (1, 2, 3)] == ["x", "y", "#3"]
    assert [here.is_named(pid) for pid in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", msgspec.msgpack.encode([0] * 6), msgspec.msgpack.encode("x" * 99)]
)
def test_a_standing_that_is_none_is_refused(body):
    with pytest.raises(msgspec.MsgspecError):
        report_decoder.decode(body)


def test_reports_of_another_lineage_name_its_members_and_tell_nothing_else():
    here = introduced()
    here.lineage = 5
    for name, lineage in (("b", 5), ("c", 6)):
        here.on_hello(*hello(name), THERE, None)
        here.on_report(lives.pid_of_name(name), standing(lineage=lineage))
    assert lives.pid_of_name("b") in here.heard
    assert lives.pid_of_name("c") not in here.heard
    assert here.names_in(6) == ["c"]
    assert "c" in reasons.two_groups(("a", "b"), 6, here)
    assert "founded separately" in reasons.excluded(6, here)
    assert "too slow" in reasons.excluded(0, here)
