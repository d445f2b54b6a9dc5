"""`semcast doctor`: the table, the object, the exit code."""

import pytest

from semcast.runtime.operations import control, doctor
from semcast.runtime.operations.doctor import Check

WELL = Check("udp lo", "ok", "came back")
DOUBTFUL = Check("java", "warn", "not found", "install it")
BROKEN = Check("multicast lo IPv4", "fail", "nothing came back", "use peers=")


@pytest.fixture
def found(monkeypatch):
    """`found(WELL, BROKEN)` is what the examination comes to."""
    return lambda *checks: monkeypatch.setattr(doctor, "examine", lambda *_: iter(checks))


def test_a_machine_in_order(semcast, found):
    found(WELL)
    assert semcast("doctor") == (
        0,
        "check   status  found\nudp lo  ok      came back\n\nLive groups work on this machine.\n",
        "",
    )


def test_what_to_do_stands_below(semcast, found):
    found(WELL, DOUBTFUL, BROKEN)
    done = semcast("doctor")
    assert done.code == 2
    assert done.out == (
        "check              status  found\n"
        "udp lo             ok      came back\n"
        "java               warn    not found\n"
        "multicast lo IPv4  fail    nothing came back\n"
        "\n"
        "What to do:\n"
        "  java               install it\n"
        "  multicast lo IPv4  use peers=\n"
        "\n"
        "Live groups do not work properly on this machine; failed: multicast lo IPv4.\n"
    )


def test_warnings_do_not_fail(semcast, found):
    found(WELL, DOUBTFUL)
    done = semcast("doctor", "--json")
    assert done.code == 0
    assert done.answer == {
        "checks": [
            {"name": "udp lo", "status": "ok", "found": "came back", "advice": None},
            {"name": "java", "status": "warn", "found": "not found", "advice": "install it"},
        ],
        "verdict": "warn",
    }
    assert done.err.endswith("warnings in 1 of 2 checks.\n")


def test_a_failure_is_told_to_programs_too(semcast, found):
    found(BROKEN)
    done = semcast("doctor", "--json")
    assert (done.code, done.answer["verdict"]) == (2, "fail")


def test_this_machine(semcast, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(control, "directory", lambda: tmp_path / "control")
    done = semcast("doctor", "--json", "--interface", "127.0.0.1", "--group", "quotes")
    names = [check["name"] for check in done.answer["checks"]]
    assert {"multicast 127.0.0.1 IPv4", "group quotes", "keys", "java"} <= set(names)


def test_a_group_without_a_name(semcast):
    done = semcast("doctor", "--group", "")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("semcast: group: ")


def test_help_has_an_example(semcast):
    assert "Example: semcast doctor" in semcast("doctor", "--help").out
