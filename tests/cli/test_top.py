"""`semcast top`: rates from two looks, the table, and how it ends."""

import os
import pty
import signal
import subprocess
import sys
from io import StringIO
from itertools import count

import pytest
from rich.console import Console

from semcast.cli import top
from semcast.runtime.operations.control import Survey


@pytest.fixture
def before(snapshot, peer):
    """Two members of a group of four: ada sends, cy is slow, bob is elsewhere, dan forgotten."""
    others = [peer("bob", 1), peer("dan", 3)]
    ada = snapshot("ada", up_s=10.0, sent=1000, peers=[*others, peer("cy", 2)])
    cy = snapshot("cy", rank=2, up_s=5.0, skipped=10, discarded={"key": 1}, peers=others)
    return Survey([ada, cy], [])


@pytest.fixture
def after(snapshot, peer):
    """The same, two seconds later at ada and four at cy."""
    dan = peer("dan", 3, lag=900, is_forgotten=True)
    ada = snapshot(
        "ada",
        up_s=12.0,
        sent=3000,
        delivered=2000,
        purged=9,
        datagrams_in=50,
        datagrams_out=150,
        held=25,
        is_blocked=True,
        slowest="cy",
        peers=[peer("bob", 1, lag=3, held=4), peer("cy", 2, lag=40), dan],
    )
    cy = snapshot(
        "cy",
        rank=2,
        up_s=9.0,
        skipped=50,
        discarded={"key": 1, "replay": 4},
        held=100,
        peers=[peer("ada", 0, lag=1), peer("bob", 1, lag=8, held=6, heard_ago_s=0.01), dan],
    )
    return Survey([ada, cy], [])


def test_rates_are_differences_over_the_members_own_time(before, after):
    ada, bob, cy, dan = top.rows(before, after)
    assert (ada.name, ada.sent_rate, ada.delivered_rate, ada.purged_rate) == (
        "ada",
        1000,
        1000,
        4.5,
    )
    assert (ada.datagrams_rate, ada.discarded, ada.held, ada.buffer) == (100, 0, 25, 100)
    assert (cy.name, cy.skipped_rate, cy.sent_rate, cy.discarded) == ("cy", 10, 0, 5)
    assert [row.lag for row in (ada, bob, cy, dan)] == [1, 8, 40, None]
    assert [row.is_slow for row in (ada, bob, cy, dan)] == [False, False, True, False]
    assert [row.is_forgotten for row in (ada, bob, cy, dan)] == [False, False, False, True]
    assert (bob.name, bob.rank, bob.held, bob.pid, bob.sent_rate) == ("bob", 1, 6, None, None)


def test_a_member_seen_once_has_no_rates(snapshot, after):
    (ada, *_) = top.rows(Survey([], []), after)
    assert (ada.sent_rate, ada.held) == (None, 25)
    restarted = Survey([snapshot("ada", pid=1, sent=9_999)], [])
    assert top.rows(restarted, after)[0].sent_rate is None


def test_groups_do_not_mix(snapshot, peer):
    quotes = snapshot("ada", slowest="bob", peers=[peer("bob", 1, lag=5)])
    games = snapshot("ada", group="games", peers=[peer("bob", 1, lag=7)])
    found = top.rows(Survey([], []), Survey([games, quotes], []))
    assert [(row.group, row.name, row.lag, row.is_slow) for row in found] == [
        ("games", "ada", None, False),
        ("games", "bob", 7, False),
        ("quotes", "ada", None, False),
        ("quotes", "bob", 5, True),
    ]


def test_the_table_fits_80_columns_and_the_slow_one_stands_out(before, after):
    console = Console(width=80, record=True, file=StringIO(), force_terminal=True)
    console.print(top.picture(top.rows(before, after), ["a [remark]"]))
    styled = console.export_text(styles=True, clear=False).splitlines()
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    told = {words[0]: " ".join(words) for words in map(str.split, lines)}
    assert told["ada"] == "ada 1,000 1,000 0 4.5 100 0 1 █▎ 25% blocked"
    assert told["bob"] == "bob – – – – – – 8 6 held remote"
    assert told["cy"] == "cy 0 0 10 0 0 5 40 █████ 100% slow"
    assert told["dan"].startswith("dan – – – – – – – 0 held forgotten")
    assert lines[-1] == "a [remark]"
    assert [line for line in styled if "\x1b[1;31m" in line] == [
        line for line in styled if "slow" in line
    ]


@pytest.fixture
def sender(live, snapshot):
    """A member whose every look finds it a second older, with 100 more messages sent."""
    turns = count(1)

    def take():
        turn = next(turns)
        return snapshot("ada", up_s=float(turn), sent=100 * turn, pid=os.getpid())

    return live.add(snapshot("ada"), take=take)


def test_without_a_terminal_it_prints_lines(semcast, sender):
    done = semcast("top", "--seconds", "0.3", "--every", "0.1")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) == 9
    assert lines[0].split()[:4] == ["group", "member", "sent/s", "delivered/s"]
    assert [line.split()[:3] for line in lines[1::3]] == [["quotes", "ada", "100"]] * 3


def test_a_program_gets_the_last_table(semcast, sender):
    done = semcast("top", "--group", "quotes", "--seconds", "0.1", "--json")
    assert done.code == 0
    assert done.answer["silent"] == []
    (row,) = done.answer["members"]
    assert (row["name"], row["sent_rate"], row["lag"], row["is_slow"]) == ("ada", 100, None, False)
    assert "ada" in done.err


def test_on_a_terminal_it_draws_in_place(sender):
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "semcast.cli.main", "top", "--seconds", "0.1"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(command, stdout=terminal, env=environment, check=False, timeout=60)
    os.write(terminal, b"the end")
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    os.close(terminal)
    assert done.returncode == 0
    assert "ada" in shown
    assert "\x1b[2K" in shown  # It clears a line to draw it again.


def test_nobody_is_no_failure(semcast, sockets):
    done = semcast("top", "--seconds", "0.1")
    assert done.code == 0
    assert done.out.startswith("no live members on this machine; start one with semcast join ")
    assert semcast("top", "--seconds", "0.1", "--json").answer == {"members": [], "silent": []}


def test_ctrl_c_is_the_way_to_end_it(semcast, live, snapshot):
    turns = count()

    def take():
        if next(turns) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return snapshot("ada")

    live.add(snapshot("ada"), take=take)
    done = semcast("top", "--every", "0.1", "--json")
    assert done.code == 0
    assert [row["name"] for row in done.answer["members"]] == ["ada"]


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("--every", "0.01"), "every: 0.01 is not a finite number of at least 0.1"),
        (("--every", "inf"), "every: inf is not a finite number"),
        (("--seconds", "0"), "seconds: 0.0 is not a finite number above 0"),
    ],
)
def test_impossible_times_are_refused(argv, reason, semcast, sockets):
    done = semcast("top", *argv)
    assert (done.code, done.out) == (2, "")
    assert reason in done.err
