"""`semcast members`: one look at the local members, and changes while it watches."""

import os
import signal
import socket
from itertools import count

import pytest

from semcast.cli import members
from semcast.runtime.operations.control import Survey
from semcast.runtime.operations.snapshot import ViewSeen


@pytest.fixture
def looks(live, snapshot, monkeypatch):
    """`looks(first, second, …)`: a member that says one after the other, then the last."""
    monkeypatch.setattr(members, "LOOK_S", 0.01)

    def script(*said):
        turns = count()
        return live.add(said[0], take=lambda: said[min(next(turns), len(said) - 1)])

    return script


def test_a_line_for_each_member_and_a_roster_for_each_group(semcast, live, snapshot, peer):
    live.add(
        snapshot(
            "ada",
            up_s=3723.9,
            sent=12345,
            delivered=12300,
            skipped=45,
            held=17,
            slowest="bob",
            peers=[peer("bob", 1), peer("cy", 2, is_forgotten=True)],
        )
    )
    live.add(snapshot("zed", group="games", order="item"))
    done = semcast("members")
    assert (done.code, done.err) == (0, "")
    header, games, quotes, *rest = done.out.splitlines()
    columns = "group name rank pid protocol order up sent delivered skipped held slowest"
    assert header.split() == columns.split()
    pid = str(os.getpid())
    assert games.split() == f"games zed 0 {pid} s-rm item 1 s 0 0 0 0/100 –".split()
    assert quotes.split() == (
        f"quotes ada 0 {pid} s-rm fifo 1 h 2 min 12,345 12,300 45 17/100 bob".split()
    )
    assert rest == [
        "roster of games: 0 zed",
        "roster of quotes: 0 ada, 1 bob, 2 cy (forgotten by ada)",
    ]
    assert semcast("members", "--group", "games").out.splitlines()[2:] == rest[:1]


def test_a_program_gets_everything(semcast, live, snapshot, peer):
    live.add(snapshot("ada", sent=3, peers=[peer("bob", 1, is_forgotten=True)]))
    answer = semcast("members", "--json").answer
    assert answer.keys() == {"members", "silent", "groups", "views"}
    (member,) = answer["members"]
    assert (member["name"], member["sent"], member["pid"]) == ("ada", 3, os.getpid())
    assert answer["groups"] == [
        {
            "group": "quotes",
            "roster": [
                {"rank": 0, "name": "ada", "forgotten_by": []},
                {"rank": 1, "name": "bob", "forgotten_by": ["ada"]},
            ],
        }
    ]


def test_nobody_is_no_failure(semcast, sockets):
    done = semcast("members")
    assert done.code == 0
    assert done.out == (
        "no live members on this machine; start one with semcast join quotes --members 3\n"
    )
    assert "of group 'games' on this machine" in semcast("members", "--group", "games").out
    nothing = {"members": [], "silent": [], "groups": [], "views": []}
    assert semcast("members", "--json").answer == nothing


def test_who_does_not_answer_is_named(semcast, sockets, monkeypatch):
    monkeypatch.setattr(members, "ANSWER_S", 0.05)
    sockets.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(sockets / f"{1:016x}-{2:016x}-{os.getpid()}"))
        stopped.listen()
        done = semcast("members")
    assert done.code == 0
    assert done.out.startswith(f"process {os.getpid()} does not answer: ")


def test_a_watch_tells_changes_and_ends_by_count(semcast, looks, snapshot):
    calm, slow = snapshot("ada", sent=1), snapshot("ada", sent=2, slowest="bob")
    looks(calm, slow, snapshot("ada", sent=3, is_blocked=True))
    done = semcast("members", "--watch", "--count", "2", "--json")
    assert done.code == 0
    told = ["quotes ada finds bob slowest", "quotes ada is blocked: its buffer is full"]
    assert done.answer["changes"] == told
    assert [line.partition("  ")[2] for line in done.err.splitlines()[-2:]] == told


def test_ctrl_c_is_the_way_to_end_a_watch(semcast, live, snapshot, monkeypatch):
    monkeypatch.setattr(members, "LOOK_S", 0.01)
    turns = count()

    def take():
        if next(turns) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return snapshot("ada")

    live.add(snapshot("ada"), take=take)
    done = semcast("members", "--watch", "--json")
    assert done.code == 0
    assert done.answer["changes"] == []


def test_what_counts_as_a_change(snapshot, peer):
    here = snapshot("ada", pid=7, peers=[peer("bob", 1)])
    without_bob = snapshot("ada", pid=7, peers=[peer("bob", 1, is_forgotten=True)])
    slow, blocked = snapshot("ada", pid=7, slowest="b"), snapshot("ada", pid=7, is_blocked=True)
    nothing, stuck = Survey([], []), Survey([], [7])
    silence = "process 7 does not answer: stopped, stuck, or running a different version"
    arrival = "quotes ada is live: process 7, rank 0 of 2, s-rm fifo"
    for before, after, told in (
        (nothing, Survey([here], []), [arrival]),
        (Survey([here], []), nothing, ["quotes ada left: process 7"]),
        (Survey([here], []), stuck, [silence]),
        (stuck, stuck, []),
        (stuck, nothing, ["process 7 left"]),
        (stuck, Survey([here], []), [arrival]),
        (Survey([here], []), Survey([without_bob], []), ["quotes ada forgot bob"]),
        (Survey([without_bob], []), Survey([without_bob], []), []),
        (Survey([slow], []), Survey([here], []), ["quotes ada finds no slow member any more"]),
        (Survey([blocked], []), Survey([here], []), ["quotes ada is no longer blocked"]),
        (Survey([here], []), Survey([snapshot("ada", pid=7, sent=9)], []), []),
    ):
        assert list(members.changes(before, after)) == told


def seen(number, *members, status="member", suspected=()):
    return ViewSeen(
        id=number,
        members=list(members),
        status=status,
        is_primary=status == "member",
        needed=len(members) // 2 + 1,
        suspected=list(suspected),
    )


def test_views_are_shown_with_who_is_in_them_and_what_it_is_there(semcast, live, snapshot):
    view = seen(4, "ada", "bob", "cy", suspected=["cy"])
    live.add(snapshot("ada", protocol="s-vsm", view=view))
    live.add(snapshot("bob", protocol="s-vsm", rank=1, view=view))
    alone = seen(3, "cy", "dan", "eve", status="minority", suspected=["dan", "eve"])
    live.add(snapshot("cy", protocol="s-vsm", rank=2, view=alone))
    assert semcast("members").out.splitlines()[4:] == [
        "view 4 of quotes: ada, bob, cy; member: ada, bob; cy is suspected by ada, bob",
        "view 3 of quotes: cy, dan, eve; minority: cy; "
        "dan is suspected by cy; eve is suspected by cy",
    ]
    first, second = semcast("members", "--json").answer["views"]
    assert (first["view"], first["at"]) == (4, {"ada": "member", "bob": "member"})
    assert (second["members"], second["is_primary"]) == (["cy", "dan", "eve"], False)


def test_what_counts_as_a_change_of_views(snapshot):
    def look(*views):
        pairs = zip(("ada", "bob"), views, strict=False)
        return Survey([snapshot(name, pid=7, view=view) for name, view in pairs], [])

    three = seen(1, "ada", "bob", "cy")
    two = seen(2, "ada", "bob")
    worried = seen(1, "ada", "bob", "cy", suspected=["cy"])
    alone = seen(1, "ada", "bob", "cy", status="minority", suspected=["bob", "cy"])
    for before, after, told in (
        (look(three, three), look(three, three), []),
        (look(three), look(worried), ["quotes ada suspects cy"]),
        (look(worried), look(three), ["quotes ada no longer suspects cy"]),
        (
            look(three, three),
            look(two, two),
            ["quotes view 2: ada, bob; left: cy; installed by ada, bob"],
        ),
        (look(two), look(seen(3, "ada", "cy")), [
            "quotes view 3: ada, cy; joined: cy; left: bob; installed by ada"
        ]),
        (look(worried), look(alone), [
            "quotes ada is in a minority and waits: reaches 1 of 3 members of view 1, needs 2",
            "quotes ada suspects bob",
        ]),
        (look(alone), look(three), [
            "quotes ada is in the majority again",
            "quotes ada no longer suspects bob",
            "quotes ada no longer suspects cy",
        ]),
        (look(three), look(seen(0, status="joining")), ["quotes ada is joining"]),
        (look(), look(two), ["quotes ada is live: process 7, view 2 (ada, bob), s-rm fifo"]),
    ):  # fmt: skip
        assert list(members.changes(before, after)) == told


def test_a_count_of_nothing_is_refused(semcast, sockets):
    done = semcast("members", "--count", "0")
    assert (done.code, done.err) == (2, "semcast: count: 0 is not at least 1\n")


def test_times_are_told_in_two_units():
    told = {9.9: "9 s", 61: "1 min 1 s", 7260: "2 h 1 min", 90000: "1 d 1 h"}
    assert {seconds: members.duration(seconds) for seconds in told} == told
