"""How long a wait will take: the usual time, corrected by the last wait of its kind here."""

import re
from time import monotonic, sleep

import pytest

from semcast.cli.output import REFRESH_S, STDERR, WAIT_REFRESH_S, Output, wait_clock
from semcast.cli.past_waits import WaitTime


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "semcast" / "past-waits.json"


def test_the_last_wait_corrects_the_next_estimate():
    assert WaitTime("check", 4.0).expected_s == 4.0
    WaitTime("check", 4.0).remember(10.0)
    assert WaitTime("check", 8.0).expected_s == 20.0
    assert WaitTime("explain", 8.0).expected_s == 8.0
    WaitTime("check", 1.0).remember(2.0)
    assert WaitTime("check", 8.0).expected_s == 16.0


def test_a_short_wait_is_not_remembered(cache):
    WaitTime("check", 0.1).remember(0.9)
    assert not cache.exists()


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"check": "long"}', '{"check": 1e9}', '{"check": 0}']
)
def test_a_damaged_file_is_ignored_and_replaced(cache, damage):
    cache.parent.mkdir()
    cache.write_text(damage)
    assert WaitTime("check", 4.0).expected_s == 4.0
    WaitTime("check", 4.0).remember(8.0)
    assert WaitTime("check", 4.0).expected_s == 8.0
    assert [file.name for file in cache.parent.iterdir()] == [cache.name]


def test_a_cache_that_cannot_be_written_is_no_error(cache):
    cache.parent.write_text("not a directory")
    WaitTime("check", 4.0).remember(8.0)
    assert WaitTime("check", 4.0).expected_s == 4.0


@pytest.mark.parametrize(
    ("gone_s", "limit_s", "expected_s", "text"),
    [
        (3.2, None, None, "3 s"),
        (3.2, 30.0, None, "3 s of at most 30 s"),
        (3.2, None, 7.4, "3 s of about 7 s"),
        (9.0, None, 7.4, "9 s, expected about 7 s"),
        (130.0, None, 300.0, "2:10 of about 5:00"),
    ],
)
def test_the_clock_of_a_wait(gone_s, limit_s, expected_s, text):
    assert wait_clock(gone_s, limit_s, expected_s) == text


def test_a_wait_shows_its_estimate_and_a_bar_ends_it(terminal, monkeypatch, cache):
    shown = terminal()
    monkeypatch.setattr("semcast.cli.past_waits.REMEMBERED_S", 0.0)
    output = Output(False)
    with output.waiting("starting something with a long name", estimate=WaitTime("it", 7.0)):
        wait_for(lambda: " of about 7 s)" in shown.getvalue())
        assert not cache.exists()
        output.bar(1, 4, "runs")
        assert cache.exists()  # The wait before the first bar is over.
        wait_for(lambda: "1 of 4 runs (" in shown.getvalue())
    *_, last = shown.getvalue().split("1 of 4 runs (")
    assert "about" not in last
    lines = shown.getvalue().split("\r\x1b[K")
    assert max(map(len, lines)) < 40


def test_a_reason_that_changes_keeps_the_clock_of_its_wait(terminal):
    shown = terminal()
    output = Output(False)
    with output.waiting("starting 2 runs", estimate=WaitTime("bench", 9.0)):
        wait_for(lambda: "starting 2 runs (1 s of about 9 s)" in shown.getvalue())
        sleep(REFRESH_S)
        output.progress("run 1: 5 sent")
        assert re.search(r"run 1: 5 sent \(\d+ s of about 9 s\)$", shown.getvalue())


def test_a_wait_within_a_wait_has_its_own_clock(terminal):
    shown = terminal()
    output = Output(False)
    with output.waiting("joining", 30.0):
        STDERR.line("joined")
        with output.waiting("leaving", 5.0):
            wait_for(lambda: "leaving (1 s of at most 5 s)" in shown.getvalue())
    assert "30 s" not in shown.getvalue()


def test_a_narrow_terminal_cuts_the_note_of_a_bar_and_not_the_time_left(terminal, monkeypatch):
    shown = terminal()
    monkeypatch.setenv("COLUMNS", "60")
    Output(False).bar(3, 4, "runs", "a long name of a point", left_s=70.0)
    assert "3 of 4 runs · 1:10 left · a long name o…" in shown.getvalue()


def wait_for(condition):
    deadline = monotonic() + 60
    while not condition():
        assert monotonic() < deadline
        sleep(min(REFRESH_S, WAIT_REFRESH_S) / 2)
