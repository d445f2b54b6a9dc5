"""`semcast top`: rates from two looks, the table, and how it ends."""

import os
import pty
import signal
import subprocess
import sys
from itertools import count
from time import monotonic, sleep

import msgspec
import pytest

from semcast.cli.top import TopScreen
from semcast.cli.top_rows import rows
from semcast.runtime.operations.control import Survey
from semcast.runtime.operations.slow_members import SlowMember
from semcast.runtime.operations.snapshot import ServerFigures
from semcast.terms.palette import SLOW

CY = SlowMember(
    name="cy",
    since_s=31.0,
    why="reads 200 of 1,000 messages/s, skips 80%",
    rate=200.0,
    offered_rate=1_000.0,
    share=0.8,
    oldest_waiting_s=0.7,
)


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
        slow=[CY],
        blocked_s_total=1.6,
        blocked_by="cy",
        peers=[peer("bob", 1, lag=3, held=4), peer("cy", 2, lag=40), dan],
    )
    cy = snapshot(
        "cy",
        rank=2,
        up_s=9.0,
        skipped=50,
        discarded={"key": 1, "replay": 4},
        held=100,
        queued=60,
        oldest_waiting_s=0.7,
        peers=[peer("ada", 0, lag=1), peer("bob", 1, lag=8, held=6, heard_ago_s=0.01), dan],
    )
    return Survey([ada, cy], [])


def test_rates_are_differences_over_the_members_own_time(before, after):
    ada, bob, cy, dan = rows(before, after)
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
    (ada, *_) = rows(Survey([], []), after)
    assert (ada.sent_rate, ada.held) == (None, 25)
    restarted = Survey([snapshot("ada", pid=1, sent=9_999)], [])
    assert rows(restarted, after)[0].sent_rate is None


def test_groups_do_not_mix(snapshot, peer):
    bob = msgspec.structs.replace(CY, name="bob")
    quotes = snapshot("ada", slow=[bob], peers=[peer("bob", 1, lag=5)])
    games = snapshot("ada", group="games", peers=[peer("bob", 1, lag=7)])
    found = rows(Survey([], []), Survey([games, quotes], []))
    assert [(row.group, row.name, row.lag, row.is_slow) for row in found] == [
        ("games", "ada", None, False),
        ("games", "bob", 7, False),
        ("quotes", "ada", None, False),
        ("quotes", "bob", 5, True),
    ]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_screen_fits_and_names_the_slow_member(columns, before, after):
    screen = TopScreen(before)
    screen.look(after, rows(before, after))
    lines = list(screen.lines(columns))
    assert max(len(line) for line, _ in lines) <= columns
    sentence = " ".join(line for line, colour in lines if colour == SLOW)
    assert " ".join(sentence.split()).startswith(
        "! cy is slow for 31 s: reads 200 of 1,000 messages/s, skips 80%; "
        "ada waits for it 80% of the time"
    )
    found = {line.split()[0]: " ".join(line.split()) for line, _ in lines if line.strip()}
    assert found["quotes"].startswith("quotes · s-rm fifo · 3 members · up 12 s")
    if columns == 60:
        assert found["member"] == "member deliv/s skip % waiting state"
        assert found["cy"] == "cy 0 100 60 slow"
    else:
        assert found["ada"].startswith("ada 1,000 1,000 0 0 – █▎ 25% waits for cy")
        assert found["bob"].startswith("bob – – – 0 – 6 held elsewhere")
        assert found["cy"].startswith("cy 0 0 100 60 0.7 s █████ 100% slow")
        assert found["dan"].startswith("dan – – – 0 – 0 held left")
    assert ("last minute" in found["member"]) == (columns == 120)


def test_servers_have_roles_and_the_title_their_service(snapshot):
    figures = ServerFigures(role="primary", primary="ada", updates=12, queries=0, slowest="bob")
    looked = Survey([snapshot("ada", server=figures)], [])
    screen = TopScreen(looked)
    screen.look(looked, rows(looked, looked))
    lines = [line for line, _ in screen.lines(100)]
    assert "primary: ada · last update: 12 · slowest server: bob" in lines[2]
    assert "primary" in lines[4].split()


def test_keys_sort_and_explain(before, after):
    screen = TopScreen(before)
    screen.look(after, rows(before, after))

    def first_names():
        lines = [line for line, _ in screen.lines(80)]
        start = next(n for n, line in enumerate(lines) if line.startswith("member"))
        return [line.split()[0] for line in lines[start + 1 : start + 5]]

    assert first_names() == ["ada", "bob", "cy", "dan"]
    screen.on_key("s")
    screen.on_key("s")  # by waiting messages
    assert first_names()[0] == "cy"
    screen.on_key("h")
    assert any(line.startswith("skip %: share of its messages") for line, _ in screen.lines(80))


def test_a_counter_that_begins_again_gives_no_negative_rate(snapshot):
    old = Survey([snapshot("ada", up_s=1.0, purged=500)], [])
    new = Survey([snapshot("ada", up_s=2.0, purged=3)], [])
    assert rows(old, new)[0].purged_rate == 0


def test_a_low_rate_has_one_digit(snapshot):
    old, new = (
        Survey([snapshot("ada", up_s=up_s, delivered=delivered)], [])
        for up_s, delivered in ((0.0, 0), (2.0, 1))
    )
    screen = TopScreen(old)
    screen.look(new, rows(old, new))
    ada = next(line for line, _ in screen.lines(60) if line.startswith("ada "))
    assert ada.split()[:2] == ["ada", "0.5"]
    later = Survey([snapshot("ada", up_s=5.001, delivered=4)], [])
    screen.look(later, rows(new, later))
    ada = next(line for line, _ in screen.lines(60) if line.startswith("ada "))
    assert ada.split()[:2] == ["ada", "1"]


def test_a_member_that_does_not_answer_is_named(snapshot):
    ada = snapshot("ada", pid=999_999_999)
    screen = TopScreen(Survey([ada], []))
    screen.look(Survey([], [ada.pid]), [])
    (line, *_), _colour = next(iter(screen.lines(120)))[0].split(" ("), None
    assert line == "! quotes  ada does not answer"


def test_a_member_that_does_not_answer_is_not_elsewhere(snapshot, peer):
    ada = snapshot("ada", pid=999_999_998, peers=[peer("bob", 1), peer("cy", 2)])
    bob = snapshot("bob", pid=999_999_999, rank=1)
    screen, looked = TopScreen(Survey([ada, bob], [])), Survey([ada], [bob.pid])
    screen.look(looked, rows(looked, looked))
    shown = [line for line, _ in screen.lines(80)]
    assert next(line for line in shown if line.startswith("bob ")).endswith("no answer")
    assert next(line for line in shown if line.startswith("cy ")).endswith("elsewhere")


def test_the_last_line_says_what_the_members_are_sorted_by(before, after):
    screen = TopScreen(before)
    screen.look(after, rows(before, after))
    assert screen.sort == "rank"
    screen.on_key("s")
    assert screen.sort == "rate"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_fits_a_small_terminal_in_place_of_the_tables(columns, before, after):
    screen = TopScreen(before)
    screen.look(after, rows(before, after))
    screen.on_key("h")
    lines = [line for line, _ in screen.lines(columns)]
    assert max(map(len, lines)) <= columns
    assert len(lines) + 3 <= 24, "with the title and the keys"


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
    lines = [line.split() for line in done.out.splitlines()]
    assert done.out.startswith("1 member of 1 group on this machine; all keep up\n")
    assert lines[3][:3] == ["member", "sent/s", "deliv/s"]
    assert [line[:2] for line in lines if line[:1] == ["ada"]] == [["ada", "100"]] * 3


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
    done = subprocess.run(command, stdout=terminal, env=environment, check=False, timeout=120)
    os.write(terminal, b"the end")
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    os.close(terminal)
    assert done.returncode == 0
    assert "ada" in shown
    assert "\x1b[2K" in shown  # It clears a line to draw it again.


def test_q_ends_it(sender):
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "semcast", "top"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, env=environment) as process:
        deadline = monotonic() + 60
        while process.poll() is None and monotonic() < deadline:
            os.write(master, b"hq")
            sleep(0.2)
        process.kill()
    assert process.returncode == 0
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    os.close(terminal)
    assert "q quit  s sort (by rank)" in shown


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
