"""`semcast members`: one look at the local members, and changes while it watches."""

import os
import signal
import socket
from itertools import count

import pytest

from semcast.cli import members
from semcast.cli.group_changes import GroupWatch, HeldUp, by_process, member_changes
from semcast.runtime.operations.control import Survey
from semcast.runtime.operations.slow_members import SlowMember
from semcast.runtime.operations.snapshot import ServerFigures, ViewSnapshot
from semcast.terms.ids import VIEW_NAMER_BITS


def slow(name, since_s=31.0):
    return SlowMember(
        name=name,
        since_s=since_s,
        why="reads 200 of 1,000 messages/s, skips 80%",
        rate=200.0,
        offered_rate=1_000.0,
        share=0.8,
        oldest_waiting_s=0.7,
    )


@pytest.fixture
def looks(live, snapshot, monkeypatch):
    """`looks(first, second, …)`: a member that reports one after the other, then the last."""
    monkeypatch.setattr(members, "REFRESH_S", 0.01)

    def script(*reports):
        turns = count()
        return live.add(reports[0], take=lambda: reports[min(next(turns), len(reports) - 1)])

    return script


def test_each_group_has_its_members_and_the_answer_comes_first(semcast, live, snapshot, peer):
    live.add(
        snapshot(
            "ada",
            up_s=3723.9,
            sent=12345,
            delivered=12300,
            skipped=45,
            queued=7,
            oldest_waiting_s=0.7,
            held=17,
            slow=[slow("bob")],
            peers=[peer("bob", 1), peer("cy", 2, is_forgotten=True)],
        )
    )
    live.add(snapshot("zed", group="games", order="item"))
    done = semcast("members")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "2 members of 2 groups on this machine; bob is slow",
        "",
        "games  s-rm item, no key",
        "  member  state  up   sent  delivered  skipped  waiting  oldest  buffer",
        "  zed     ok     1 s     0          0  0%             0  –       0%",
        "",
        "quotes  s-rm fifo, no key",
        "  member  state  up           sent  delivered  skipped  waiting  oldest  buffer",
        "  ada     ok     1 h 2 min  12,345     12,300  0%             7  0.7 s   17%",
        "  elsewhere: bob",
        "  left or forgotten: cy",
        "  bob is slow for 31 s: reads 200 of 1,000 messages/s, skips 80%",
        "",
        "next: semcast members --watch · semcast top",
    ]
    assert "quotes" not in semcast("members", "--group", "games").out


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns, semcast, live, snapshot, peer, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    live.add(snapshot("exchange-in-london", up_s=9e4, sent=10**6, delivered=10**6, queued=10**4))
    assert max(map(len, semcast("members").out.splitlines())) <= columns


def test_a_program_gets_everything(semcast, live, snapshot, peer):
    live.add(snapshot("ada", sent=3, slow=[slow("bob")], peers=[peer("bob", 1, is_forgotten=True)]))
    answer = semcast("members", "--json").answer
    assert answer.keys() == {"members", "silent", "groups", "views"}
    (member,) = answer["members"]
    assert (member["name"], member["sent"], member["pid"]) == ("ada", 3, os.getpid())
    assert member["slow"][0]["why"] == "reads 200 of 1,000 messages/s, skips 80%"
    assert answer["groups"] == [
        {
            "group": "quotes",
            "roster": [
                {"rank": 0, "name": "ada", "forgotten_by": []},
                {"rank": 1, "name": "bob", "forgotten_by": ["ada"]},
            ],
        }
    ]


def test_no_members_at_all_is_no_failure(semcast, sockets):
    done = semcast("members")
    assert done.code == 0
    assert done.out == (
        "no live members on this machine; start one with semcast join quotes --members 3\n"
    )
    nothing = {"members": [], "silent": [], "groups": [], "views": []}
    assert semcast("members", "--json").answer == nothing


@pytest.mark.parametrize("command", ["members", "top"])
def test_a_group_that_is_not_there_is_an_error(command, semcast, sockets):
    done = semcast(command, "--group", "games")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "semcast: group: no live members of 'games' on this machine; "
        "start one with semcast join games --members 3\n"
    )


def test_a_process_that_does_not_answer_is_shown(semcast, sockets, monkeypatch):
    monkeypatch.setattr(members, "ANSWER_S", 0.05)
    sockets.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(sockets / f"{1:016x}-{2:016x}-{os.getpid()}"))
        stopped.listen()
        done = semcast("members")
    assert done.code == 0
    assert done.out.startswith("0 members of 0 groups on this machine; 1 do not answer\n")
    assert f"process {os.getpid()} does not answer (process {os.getpid()} is stuck" in done.out


def test_a_watch_prints_changes_and_ends_by_count(semcast, looks, snapshot, peer):
    calm = snapshot("ada", sent=1, peers=[peer("cy", 2)])
    behind = snapshot("ada", sent=2, slow=[slow("bob")], peers=[peer("cy", 2)])
    looks(calm, behind, snapshot("ada", sent=3, peers=[peer("cy", 2, is_forgotten=True)]))
    done = semcast("members", "--watch", "--count", "3", "--json")
    assert done.code == 0
    changes = [
        "quotes  bob is slow: reads 200 of 1,000 messages/s, skips 80%",
        "quotes  bob keeps up again",
        "quotes  cy left the group",
    ]
    assert done.answer["changes"] == changes
    lines = done.err.splitlines()
    assert [line.partition("  ")[2] for line in lines[-5:-2]] == changes
    assert lines[-1] == "next: semcast top · semcast members"


def test_ctrl_c_is_the_way_to_end_a_watch(semcast, live, snapshot, monkeypatch):
    monkeypatch.setattr(members, "REFRESH_S", 0.01)
    turns = count()

    def take():
        if next(turns) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return snapshot("ada")

    live.add(snapshot("ada"), take=take)
    done = semcast("members", "--watch", "--json")
    assert done.code == 0
    assert done.answer["changes"] == []


def test_changes_of_processes(snapshot, peer):
    here = snapshot("ada", pid=999_999_999, peers=[peer("bob", 1)])
    pid, nothing = here.pid, Survey([], [])
    stuck = f"(process {pid} is stuck or runs a different version)"
    for before, after, changes in (
        (nothing, Survey([here], []), [f"quotes  ada started: process {pid}, s-rm fifo"]),
        (Survey([here], []), nothing, [f"quotes  ada ended: process {pid}"]),
        (Survey([here], []), Survey([], [pid]), [f"quotes  ada does not answer {stuck}"]),
        (Survey([], [pid]), Survey([], [pid]), []),
        (Survey([], [pid]), nothing, [f"process {pid} ended: process {pid}"]),
        (Survey([], [pid]), Survey([here], []), ["quotes  ada answers again"]),
        (Survey([here], []), Survey([snapshot("ada", pid=pid, sent=9)], []), []),
    ):
        assert GroupWatch(before).changes(after) == changes


def test_a_member_that_stopped_answering_keeps_its_name(snapshot):
    here = snapshot("ada", pid=999_999_999)
    watch = GroupWatch(Survey([here], []))
    assert watch.changes(Survey([], [here.pid]))[0].startswith("quotes  ada does not answer")
    assert watch.changes(Survey([], [])) == [f"quotes  ada ended: process {here.pid}"]


def test_what_several_members_see_is_printed_once(snapshot):
    quiet = Survey([snapshot(name, pid=7 + n) for n, name in enumerate("abc")], [])
    named = [snapshot(s.name, pid=s.pid, slow=[slow("c")]) for s in quiet.snapshots]
    assert GroupWatch(quiet).changes(Survey(named, [])) == [
        "quotes  c is slow: reads 200 of 1,000 messages/s, skips 80%"
    ]


def test_a_sender_that_is_blocked_again_and_again_is_held_up_once(snapshot):
    """Its buffer is full four fifths of the time, in turns."""
    watch, found = HeldUp(), []
    for second in range(1, 20):
        blocked_s = 0.8 * min(second, 10)
        ada = snapshot("ada", up_s=float(second), blocked_s_total=blocked_s, blocked_by="tokyo")
        found += watch.changes(by_process([ada]))
    assert found == [
        "quotes  ada is held up by tokyo: its buffer is full 80% of the time",
        "quotes  ada is no longer held up",
    ]


def seen(number, *members, status="member", suspected=(), excluded_s=None, left_out_s=None):
    return ViewSnapshot(
        id=number,
        members=list(members),
        status=status,
        is_primary=status == "member",
        needed=len(members) // 2 + 1,
        suspected=list(suspected),
        excluded_s=excluded_s or {},
        left_out_s=left_out_s or {},
    )


def test_views_are_shown_with_their_members_and_what_they_are(semcast, live, snapshot):
    view = seen(4, "ada", "bob", "cy", suspected=["cy"])
    live.add(snapshot("ada", protocol="s-vsm", view=view))
    live.add(snapshot("bob", protocol="s-vsm", rank=1, view=view))
    alone = seen(3, "cy", "dan", "eve", status="minority", suspected=["dan", "eve"])
    live.add(snapshot("cy", protocol="s-vsm", rank=2, view=alone))
    lines = [line.strip() for line in semcast("members").out.splitlines()]
    assert "view 4: ada, bob, cy; needs 2 of 3; cy is suspected by ada, bob" in lines
    assert (
        "view 3: cy, dan, eve; needs 2 of 3; cy is minority; "
        "dan is suspected by cy; eve is suspected by cy"
    ) in lines
    assert any(line.startswith("cy      minority") for line in lines)
    first, second = semcast("members", "--json").answer["views"]
    assert (first["view"], first["at"]) == (4, {"ada": "member", "bob": "member"})
    assert (second["members"], second["is_primary"]) == (["cy", "dan", "eve"], False)


def server(role, primary=None, updates=0, slowest=None):
    return ServerFigures(role=role, primary=primary, updates=updates, queries=3, slowest=slowest)


def test_servers_are_shown_with_role_primary_update_and_slowest(semcast, live, snapshot):
    view = seen(7 << VIEW_NAMER_BITS | 99, "ada", "bob")
    live.add(snapshot("ada", view=view, server=server("primary", "ada", 1_234, "bob")))
    live.add(snapshot("bob", rank=1, view=view, server=server("backup", "ada", 1_230)))
    ran = semcast("members")
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "member state up updates queries skipped waiting buffer" in lines
    assert "ada primary 1 s 1,234 3 0% 0 0%" in lines
    assert "bob backup 1 s 1,230 3 0% 0 0%" in lines
    assert "view 7: ada, bob; needs 2 of 2" in lines
    assert "primary: ada; last update: 1,234; slowest server: bob" in lines


def test_a_server_that_takes_over_is_a_change(snapshot):
    before = Survey([snapshot("bob", pid=7, server=server("backup", "ada"))], [])
    after = Survey([snapshot("bob", pid=7, server=server("primary", "bob"))], [])
    assert GroupWatch(before).changes(after) == ["quotes  bob is primary now"]
    assert GroupWatch(after).changes(after) == []


def test_changes_of_views(snapshot):
    def look(*views):
        pairs = zip(("ada", "bob"), views, strict=False)
        return Survey([snapshot(name, pid=7, view=view) for name, view in pairs], [])

    three = seen(1, "ada", "bob", "cy")
    two = seen(2, "ada", "bob")
    worried = seen(1, "ada", "bob", "cy", suspected=["cy"])
    alone = seen(1, "ada", "bob", "cy", status="minority", suspected=["bob", "cy"])
    for before, after, changes in (
        (look(three, three), look(three, three), []),
        (look(three), look(worried), ["quotes  ada suspects cy"]),
        (look(worried), look(three), ["quotes  ada no longer suspects cy"]),
        (look(three, three), look(two, two), ["quotes  view 2: ada, bob; cy left"]),
        (
            look(three, three),
            look(seen(2, "ada", "bob", excluded_s={"cy": 0.74}), two),
            ["quotes  view 2: ada, bob; cy was excluded after 0.7 s of silence"],
        ),
        (
            look(three, three),
            look(seen(2, "ada", "bob", left_out_s={"cy": 3.96}), two),
            ["quotes  view 2: ada, bob; cy is left out for 4.0 s, because it is too slow"],
        ),
        (look(two), look(seen(3, "ada", "cy")), ["quotes  view 3: ada, cy; cy joined; bob left"]),
        # A member that comes back was in no view and says nothing about the one before.
        (
            look(two, seen(0, status="joining")),
            look(seen(3, "ada", "bob"), seen(3, "ada", "bob")),
            ["quotes  view 3: ada, bob"],
        ),
        (look(worried), look(alone), [
            "quotes  ada is in a minority and waits: reaches 1 of 3 members of view 1, needs 2",
            "quotes  ada suspects bob",
        ]),
        (look(alone), look(three), [
            "quotes  ada is in the majority again",
            "quotes  ada no longer suspects bob",
            "quotes  ada no longer suspects cy",
        ]),
        (look(three), look(seen(0, status="joining")), ["quotes  ada is joining"]),
        (look(), look(two), ["quotes  ada started: process 7, s-rm fifo"]),
    ):  # fmt: skip
        assert GroupWatch(before).changes(after) == changes


def test_a_member_reports_the_changes_of_its_own_group(snapshot, peer):
    before = snapshot("ada", peers=[peer("bob", 1)])
    after = snapshot("ada", peers=[peer("bob", 1, is_forgotten=True)], slow=[slow("cy")])
    assert list(member_changes(before, after)) == ["quotes  bob left the group"]


def test_a_count_of_nothing_is_refused(semcast, sockets):
    done = semcast("members", "--count", "0")
    assert (done.code, done.err) == (2, "semcast: count: 0 is not at least 1\n")


def test_times_have_two_units():
    told = {9.9: "9 s", 61: "1 min 1 s", 7260: "2 h 1 min", 90000: "1 d 1 h"}
    assert {seconds: members.duration(seconds) for seconds in told} == told
