"""The owner of standard error, and lines that can be copied."""

import logging

from semcast.cli.output import Output, StandardError, count_of, sparkline


def test_a_warning_does_not_end_a_wait(terminal):
    shown, owner = terminal(), StandardError()
    owner.progress("waiting for the others")
    owner.handle(logging.makeLogRecord({"msg": "no key", "levelno": logging.WARNING}))
    assert shown.getvalue().endswith("semcast: no key\n\r\x1b[Kwaiting for the others")
    owner.line("joined")
    owner.handle(logging.makeLogRecord({"msg": "a peer left", "levelno": logging.WARNING}))
    assert shown.getvalue().endswith("joined\nsemcast: a peer left\n")


def test_an_error_is_broken_between_words(terminal):
    shown = terminal()
    StandardError().line("semcast: group: no live members of 'nope' on this machine")
    assert shown.getvalue().splitlines() == [
        "semcast: group: no live members of",
        "  'nope' on this machine",
    ]


def test_a_long_command_can_be_copied(terminal):
    shown = terminal()
    Output(False).print_command("replay: ", "semcast sim swarm --seeds 1 --from 3 --mutant x")
    lines = shown.getvalue().splitlines()
    assert lines == ["replay: semcast sim swarm --seeds 1 \\", "    --from 3 --mutant x"]
    assert max(map(len, lines)) <= 40


def test_words_for_numbers():
    assert [count_of(n, "message") for n in (0, 1, 1234)] == [
        "0 messages",
        "1 message",
        "1,234 messages",
    ]
    assert sparkline([1.0, 2.0], 0) == ""
