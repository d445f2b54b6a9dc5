"""`semcast serve` and `semcast store`: three servers as processes, and clients that ask them."""

import json
import os
import signal
import socket
import subprocess
import sys
from tempfile import TemporaryDirectory

import pytest

RUN = [sys.executable, "-c", "import sys; from semcast.cli.main import main; sys.exit(main())"]
DEADLINE_S = 60


@pytest.fixture
def peers(tmp_path, monkeypatch, sockets):
    """The list of three servers that run."""
    monkeypatch.setenv("SEMCAST_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "abc"]
    for each in found:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in found]
    for each in found:
        each.close()
    listed = ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip("abc", ports, strict=True))
    servers = [
        subprocess.Popen(
            [*RUN, "serve", "--name", name, "--peers", listed, "--data", str(tmp_path / name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for server in servers:
        while "is primary: updates and queries are answered" not in server.stdout.readline():
            assert server.poll() is None, server.stderr.read()
    yield listed
    for server in servers:
        server.send_signal(signal.SIGTERM)
    for server in servers:
        _, told = server.communicate(timeout=DEADLINE_S)
        assert server.returncode == 0, told
        assert told.endswith("has ended\n"), told


def test_a_value_is_set_read_counted_watched_and_deleted(peers, semcast):
    assert semcast("store", "set", "ACME", "101.25", "--peers", peers).code == 0
    assert semcast("store", "get", "ACME", "--peers", peers).out == "101.25\n"
    assert semcast("store", "incr", "n", "--by", "3", "--peers", peers, "--json").answer == {
        "key": "n",
        "value": 3,
    }
    ran = semcast("store", "watch", "n", "--count", "1", "--peers", peers)
    assert (ran.code, ran.out) == (0, "3\n")
    ran = semcast("store", "watch", "n", "--count", "1", "--peers", peers, "--json")
    value, summary = map(json.loads, ran.out.splitlines())
    assert value == {"key": "n", "value": "3"}
    assert summary == {"key": "n", "values": 1, "last": "3"}
    assert semcast("store", "del", "ACME", "--peers", peers).code == 0
    assert semcast("store", "del", "ACME", "--peers", peers).code == 1
    ran = semcast("store", "get", "ACME", "--peers", peers, "--json")
    assert (ran.code, ran.answer) == (1, {"key": "ACME", "value": None})
    ran = semcast("store", "incr", "ACME", "--by", str(2**63 - 1), "--peers", peers)
    assert ran.code == 0
    ran = semcast("store", "incr", "ACME", "--peers", peers)
    assert ran.code == 2
    assert "more than 63 bits" in ran.err
    ran = semcast("store", "get", "NOPE", "--peers", peers)
    assert (ran.code, ran.out, ran.err) == (1, "", "NOPE is not in store\n")
    ran = semcast("members", "--json")
    roles = {member["server"]["role"] for member in ran.answer["members"]}
    assert roles == {"primary"}


SCREENS = {
    ("store", "set", "ACME", "101.25"): ("ok  a quorum of the servers has ACME", "get ACME"),
    ("store", "get", "ACME"): ("101.25", "watch ACME"),
    ("store", "incr", "visits", "--by", "0"): ("0", "watch visits"),
    ("store", "watch", "ACME", "--count", "1"): ("101.25", "get ACME"),
    ("members",): ("3 members of 1 group on this machine; all keep up", "semcast top"),
    ("store", "del", "ACME"): ("ok  a quorum of the servers has removed ACME", "get ACME"),
}


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_screen(columns, peers, screen):
    """Nothing is wider than the terminal, the answer comes first, the next command last."""
    environment = {**os.environ, "SEMCAST_PEERS": peers}
    for words, (answer, last) in SCREENS.items():
        code, lines = screen(words, columns, environment)
        text = "\n".join(lines)
        assert (code, lines[0]) == (0, answer), text
        assert max(map(len, lines)) <= columns, text
        assert lines[-2].startswith("next: semcast"), text
        assert lines[-2].endswith(last), text


def test_the_next_command_has_what_this_one_was_given(peers, screen):
    code, lines = screen(("store", "set", "a b", "1", "--peers", peers), 400, os.environ)
    assert (code, lines[-2]) == (0, f"next: semcast store get 'a b' --peers {peers}")


def test_a_server_says_what_it_was(tmp_path, monkeypatch, sockets):
    """With --json, its only line on standard output is one object."""
    monkeypatch.setenv("SEMCAST_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    words = ["serve", "--name", "a", "--peers", _peer(), "--memory", "--json"]
    server = subprocess.Popen(
        [*RUN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    shown = []
    while not any("is primary: updates" in line for line in shown):
        shown.append(server.stderr.readline())
        assert server.poll() is None, shown
    server.send_signal(signal.SIGINT)
    out, _ = server.communicate(timeout=DEADLINE_S)
    assert server.returncode == 0
    (line,) = out.splitlines()
    facts = json.loads(line)
    assert (facts["name"], facts["group"], facts["role"]) == ("a", "store", "primary")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_screen_of_a_server(columns, screen, sockets):
    """It says what it can do and whom it reaches, then the command that asks it."""
    with TemporaryDirectory() as place:  # A long path is not broken over lines.
        variables = ("XDG_STATE_HOME", "SEMCAST_KEYS")
        environment = {**os.environ, **{each: f"{place}/{each}" for each in variables}}
        words = ("serve", "--name", "a", "--peers", _peer(), "--data", f"{place}/a")
        served = screen(words, columns, environment, until="next: ")
        verified = screen(("doctor", "--data", f"{place}/a"), columns, environment)
    for code, lines in (served, verified):
        assert code == 0, lines
        assert max(map(len, lines)) <= columns, lines
    text = " ".join(" ".join(served[1]).split())
    assert "a of store is primary: updates and queries are answered; servers in reach: a" in text
    assert "next: semcast store set ACME 101.25 --peers " in text
    assert f"next: semcast doctor --data {place}/a" in text, "after Ctrl-C"
    assert verified[1][0].startswith("Live groups work on this machine; the log is in order")
    assert any("[ok] data: the log of a in group store: " in line for line in verified[1])


def test_a_server_that_waits_says_for_whom(screen, sockets):
    with TemporaryDirectory() as place:
        variables = ("XDG_STATE_HOME", "SEMCAST_KEYS")
        environment = {**os.environ, **{each: f"{place}/{each}" for each in variables}}
        peers = f"{_peer()},b={_peer().partition('=')[2]}"
        words = ("serve", "--name", "a", "--peers", peers, "--memory")
        _, lines = screen(words, 80, environment, until="not in reach: b")
    assert "servers in reach: a; not in reach: b" in " ".join(" ".join(lines).split())


def _peer():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return f"a=127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--name", "a", "--peers", "a=127.0.0.1:7101"), "data: give a directory"),
        (("--name", "x", "--memory", "--peers", "a=127.0.0.1:7101"), "x is not in peers"),
        (
            ("--name", "a", "--memory", "--confirm", "most", "--peers", "a=127.0.0.1:7101"),
            "confirm: unknown value 'most'; allowed: quorum, all",
        ),
        (
            ("--name", "a", "--memory", "--quorums", "a,c", "--peers", "a=127.0.0.1:7101"),
            "quorums: unknown server 'c'; the servers are a",
        ),
    ],
)
def test_what_no_server_can_be_is_refused(words, text, semcast):
    ran = semcast("serve", *words)
    assert ran.code == 2
    assert text in ran.err
