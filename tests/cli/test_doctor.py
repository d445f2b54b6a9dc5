"""`semcast doctor`: the table, the object, the exit code."""

import pytest

from semcast.cli.doctor import SECTIONS
from semcast.runtime.operations import control, doctor
from semcast.runtime.operations.doctor import DoctorCheck

WELL = DoctorCheck("udp lo", "ok", "came back")
DOUBTFUL = DoctorCheck("java", "warn", "not found", "install it")
CLOCK = DoctorCheck("wall clock", "warn", "not synchronised", "run chronyd")
BROKEN = DoctorCheck("multicast lo IPv4", "fail", "nothing came back", "use peers=")


@pytest.fixture
def found(monkeypatch):
    """`found(WELL, BROKEN)` is what the examination comes to."""
    monkeypatch.setattr("semcast.cli.doctor.class_archive", lambda: iter(()))
    return lambda *checks: monkeypatch.setattr(doctor, "run_checks", lambda *_: iter(checks))


def test_a_machine_in_order(semcast, found):
    found(WELL)
    assert semcast("doctor") == (
        0,
        "Live groups work on this machine.\n\n[ok] network: udp lo came back\n\n"
        "next: semcast demo · semcast doctor -v\n",
        "",
    )


def test_the_answer_comes_first_and_the_remedy_with_the_fault(semcast, found):
    found(WELL, DOUBTFUL, CLOCK, BROKEN)
    done = semcast("doctor")
    assert done.code == 2
    assert done.out == (
        "Live groups do not work properly on this machine; failed: multicast lo IPv4.\n"
        "\n"
        "[ok] network: udp lo came back\n"
        "[XX] multicast lo IPv4: nothing came back\n"
        "     fix: use peers=\n"
        "[! ] wall clock: not synchronised\n"
        "     fix: run chronyd\n"
        "[ -] not available, not needed for live groups: java (-v: details)\n"
        "\n"
        "next: semcast doctor -v\n"
    )
    verbose = semcast("doctor", "-v").out
    assert "multicast lo IPv4  fail    nothing came back" in verbose
    assert "[ -] java: not found\n     fix: install it\n" in verbose


def test_ipv6_is_not_needed_where_ipv4_works(semcast, found):
    other = DoctorCheck("multicast lo IPv6", "warn", "no route", "ip -6 route add …")
    found(DoctorCheck("multicast lo IPv4", "ok", "received"), other)
    done = semcast("doctor")
    assert done.out.startswith("Live groups work on this machine.\n")
    assert "[ -] not available, not needed for live groups: multicast lo IPv6" in done.out
    found(DoctorCheck("multicast out IPv4", "ok", "received"), other)
    assert "worth a look: multicast lo IPv6" in semcast("doctor").out


def test_a_log_that_cannot_be_used_is_told_apart_from_the_machine(semcast, found):
    found(WELL, DoctorCheck("data", "ok", "the log of a in group quotes: 3 records in 1 file"))
    done = semcast("doctor")
    assert done.code == 0
    assert done.out.startswith("Live groups work on this machine; the log is in order.\n")
    assert "\n[ok] data: the log of a in group quotes: 3 records in 1 file\n" in done.out
    found(WELL, DoctorCheck("data", "fail", "data: DIR is in use by another process", "stop it"))
    done = semcast("doctor")
    assert done.code == 2
    assert done.out.startswith(
        "Live groups work on this machine, but the log of --data cannot be used.\n"
    )
    assert "\n[XX] data: DIR is in use by another process\n     fix: stop it\n" in done.out


def test_every_check_has_a_section(semcast, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    names = tuple(name for section in SECTIONS.values() for name in section)
    checks = semcast("doctor", "--group", "quotes", "--json").answer["checks"]
    assert all(check["name"].startswith(names) for check in checks)


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
    assert done.err.startswith("Live groups work on this machine.\n")


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
