"""`semcast relay` as a process between two sockets, and what it refuses."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import msgspec
import pytest

from semcast.cli.relay import REASONS, WORDS
from semcast.fleet.relay_streams import RelayCounts

DEADLINE_S = 60
RUN = [sys.executable, "-c", "import sys; from semcast.cli.main import main; sys.exit(main())"]
A = ("--member", "a=127.0.0.1:7101")
AB = (*A, "--member", "b=127.0.0.1:7102")


@pytest.fixture
def members():
    """Two members' sockets."""
    with ExitStack() as stack:
        opened = []
        for _ in "ab":
            one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            one.settimeout(DEADLINE_S)
            one.bind(("127.0.0.1", 0))
            opened.append(one)
        yield opened


@pytest.fixture
def started(members):
    """Starts the command between the two, waits until it is ready, gives it and its fronts."""
    running = []

    def start(*argv):
        where = [
            f"{name}=127.0.0.1:{one.getsockname()[1]}"
            for name, one in zip("ab", members, strict=True)
        ]
        process = subprocess.Popen(
            [*RUN, "relay", "--member", where[0], "--member", where[1], *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        stream = process.stderr if "--json" in argv else process.stdout
        assert select.select([stream], [], [], DEADLINE_S)[0], "not ready in time"
        ready = stream.readline()
        told = re.fullmatch(
            r"ready: start a with --peers (\S+),b=(\S+); start b with --peers a=(\S+),(\S+)\n",
            ready,
        )
        assert told, ready
        assert [told[1], told[4]] == where
        ports = {"a": int(told[3].rpartition(":")[2]), "b": int(told[2].rpartition(":")[2])}
        return process, {name: ("127.0.0.1", port) for name, port in ports.items()}

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_datagrams_pass_until_it_is_stopped(started, members, number):
    process, fronts = started("--json")
    a, b = members
    a.sendto(b"to b", fronts["b"])
    assert b.recvfrom(99) == (b"to b", fronts["a"])
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    answer = json.loads(out)
    assert (answer["received"], answer["sent"], answer["dropped"]) == (1, 1, {})
    assert answer["peers"].keys() == {"a", "b"}


def test_people_are_told_what_became_of_the_datagrams(started, members):
    process, fronts = started("--cut", "0-:b>a", "--loss", "1")
    a, b = members
    b.sendto(b"cut", fronts["a"])
    a.sendto(b"lost", fronts["b"])
    process.terminate()
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert err == ""
    assert "\nrelayed 0 of 2 datagrams, dropped 2\n" in out
    assert re.search(r"^datagrams received +2$", out, re.MULTILINE)
    assert re.search(r"^dropped by a partition or cut +1$", out, re.MULTILINE)
    assert re.search(r"^dropped at random \(--loss\) +1$", out, re.MULTILINE)
    assert out.endswith("\nnext: semcast members --watch · semcast relay --help\n")


def test_every_option_is_understood_and_it_ends_by_itself(semcast):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        front = f"a=127.0.0.1:{free.getsockname()[1]}"
    done = semcast(
        *("relay", *AB, "--front", front, "--duplicate", "0.1", "--reorder", "0.1"),
        *("--latency", "2 ms", "--jitter", "1 ms", "--bandwidth", "10 MiB/s", "--seed", "3"),
        *("--partition", "1-2.5:a|b", "--cut", "500 ms-2 s:a>b", "--seconds", "0.01", "--json"),
    )
    assert done.code == 0, done.err
    assert done.answer["peers"]["b"] == f"{front},b=127.0.0.1:7102"


def test_every_count_has_words():
    counts = msgspec.to_builtins(RelayCounts())
    assert counts.keys() == WORDS.keys() | REASONS.keys()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_screen(columns, screen):
    code, lines = screen(("relay", *AB, "--seconds", "0.1"), columns, os.environ)
    text = "\n".join(lines)
    assert code == 0, text
    assert max(map(len, lines)) <= columns, text
    assert "relayed 0 of 0 datagrams, dropped 0" in lines, text
    assert lines[-2].startswith("next: "), text


REFUSED = {
    "no member": ((), "Missing option '--member'"),
    "no address": (("--member", "a"), "member: "),
    "twins": ((*A, *A), "member: a appears 2 times"),
    "front of nobody": (
        (*AB, "--front", "c=127.0.0.1:9"),
        "front: unknown value 'c'; allowed: a, b",
    ),
    "loss": ((*AB, "--loss", "2"), "loss: 2.0 is not within 0..1"),
    "latency": ((*AB, "--latency", "soon"), "latency: 'soon' is not a time"),
    "bandwidth": ((*AB, "--bandwidth", "0"), "bandwidth_bps: 0.0 is not a finite number above 0"),
    "no period": ((*AB, "--cut", "a>b"), "cut: 'a>b' is not of the form START-END:A>B"),
    "cut of nobody": ((*AB, "--cut", "1-2:a>c"), "cut: unknown value 'c'; allowed: a, b"),
    "backwards": ((*AB, "--partition", "2-1:a|b"), "end: 1.0 is not after start 2.0"),
    "parted from itself": ((*AB, "--partition", "1-2:a|a"), "each pid once"),
    "no time": ((*AB, "--seconds", "0"), "seconds: 0.0 is not a finite number above 0"),
}


@pytest.mark.parametrize(("argv", "reason"), REFUSED.values(), ids=REFUSED)
def test_one_line_and_exit_code_2(argv, reason, semcast):
    done = semcast("relay", *argv)
    assert done.code == 2
    assert done.out == ""
    assert reason in done.err
    assert done.err.count("\n") == 1


def test_a_taken_port(semcast):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = semcast("relay", *AB, "--front", f"a={where}")
    assert done.code == 2
    assert f"front: cannot listen on {where} for a" in done.err
