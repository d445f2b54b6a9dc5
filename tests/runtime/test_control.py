"""Control sockets: what they answer, whom they cut off, and what is left behind."""

import asyncio
import json
import os
import select
import socket
import subprocess
import sys
from time import monotonic

import pytest
import uvloop

from semcast.runtime.operations import control
from semcast.runtime.operations.control import Survey, discover, read_all, survey
from semcast.terms.errors import ConfigError

DEADLINE_S = 60
NAME = f"{1:016x}-{2:016x}"
on_both_loops = pytest.mark.parametrize(
    "live",
    [asyncio.new_event_loop, uvloop.new_event_loop],
    ids=["asyncio", "uvloop"],
    indirect=True,
)


@pytest.fixture
def connect():
    """Connections to a server, closed after the test."""
    opened = []

    def to(server):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(DEADLINE_S)
        opened.append(client)
        client.connect(str(server.path))
        return client

    yield to
    for client in opened:
        client.close()


def line(client):
    """The next line, byte by byte since another may follow."""
    read = b""
    while not read.endswith(b"\n"):
        byte = client.recv(1)
        assert byte, f"closed after {read!r}"
        read += byte
    return json.loads(read)


def is_cut_off(client):
    poll = select.poll()
    poll.register(client, 0)
    return bool(poll.poll(DEADLINE_S * 1000))


@on_both_loops
def test_every_member_of_the_machine_is_read(live, snapshot, peer):
    bob = snapshot("bob", rank=1, sent=7, discarded={"key": 1}, peers=[peer("ada", 0, lag=2)])
    ada, other = snapshot("ada"), snapshot("ada", group="games", slowest="x")
    for member in (bob, ada):
        live.add(member)
    live.add(other)
    assert read_all(None, DEADLINE_S) == [other, ada, bob]
    assert read_all("quotes", DEADLINE_S) == [ada, bob]
    assert len(discover("games")) == 1
    assert read_all("nobody", DEADLINE_S) == []


@on_both_loops
def test_a_line_of_json_for_each_line(live, snapshot, connect):
    client = connect(live.add(snapshot("ada")))
    client.sendall(b"snapshot\nbog")
    assert line(client)["name"] == "ada"
    client.sendall(b"us\r\n\xff\nsnapshot\n")
    assert line(client) == {"error": "request: unknown value 'bogus'; allowed: snapshot"}
    assert "unknown value" in line(client)["error"]
    client.shutdown(socket.SHUT_WR)
    assert line(client)["name"] == "ada"
    assert client.recv(1) == b""


@on_both_loops
def test_what_asks_for_too_much_at_once_is_cut_off(live, snapshot, connect):
    server = live.add(snapshot("ada"))
    endless = connect(server)
    endless.sendall(b"x" * (control.REQUEST_BYTES_MAX + 1))
    assert is_cut_off(endless)
    dribbling = connect(server)
    dribbling.sendall(b"snapshot\n" + b"x" * 200)
    line(dribbling)
    dribbling.sendall(b"x" * 200)
    assert is_cut_off(dribbling)


@on_both_loops
def test_a_client_that_asks_on_without_reading_is_cut_off(live, snapshot, peer, connect):
    many = [peer(f"a peer with a long name {rank}", rank) for rank in range(1, 5000)]
    said = snapshot("ada", peers=many)
    server = live.add(said)
    stuck = connect(server)
    stuck.sendall(b"snapshot\n")
    assert select.select([stuck], [], [], DEADLINE_S)[0]
    assert read_all(None, DEADLINE_S) == [said]
    stuck.sendall(b"snapshot\n")
    assert is_cut_off(stuck)
    assert read_all(None, DEADLINE_S) == [said]


@on_both_loops
def test_one_client_too_many_makes_the_oldest_go(live, snapshot, connect):
    server = live.add(snapshot("ada"))
    clients = []
    for _ in range(control.CLIENTS_MAX + 1):
        clients.append(connect(server))
        clients[-1].sendall(b"snapshot\n")
        line(clients[-1])
    assert is_cut_off(clients[0])
    for client in clients[1:]:
        client.sendall(b"snapshot\n")
        assert line(client)["name"] == "ada"


@on_both_loops
def test_a_client_without_a_pause_is_given_one(live, snapshot, connect):
    client = connect(live.add(snapshot("ada")))
    started = monotonic()
    for _ in range(6):
        client.sendall(b"snapshot\n")
        line(client)
    assert monotonic() - started >= 5 * control.REQUEST_INTERVAL_S


@on_both_loops
def test_closing_cuts_the_clients_off_and_removes_the_file(live, snapshot, connect, sockets):
    server = live.add(snapshot("ada"))
    client = connect(server)
    client.sendall(b"snapshot\n")
    line(client)
    live.remove(server)
    assert is_cut_off(client)
    assert list(sockets.iterdir()) == []
    assert read_all(None, DEADLINE_S) == []
    live.remove(server)


def test_names_may_be_long_and_contain_anything(live, snapshot, sockets):
    said = snapshot("../ö/" * 12, group="g" * 64)
    live.add(said)
    assert read_all("g" * 64, DEADLINE_S) == [said]
    assert len(list(sockets.iterdir())) == 1


def test_the_file_of_a_killed_process_is_removed(sockets):
    sockets.mkdir(mode=0o700)
    bind = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX);"
        "s.bind(f'{sys.argv[1]}-{os.getpid()}'); s.listen(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", bind, str(sockets / NAME)], check=True)
    assert len(discover(None)) == 1
    assert survey(None, DEADLINE_S) == Survey([], [])
    assert discover(None) == []


def test_the_file_of_a_live_process_is_left_alone(sockets):
    sockets.mkdir(mode=0o700)
    for other in ("README", f"{NAME}-0", "x-1"):
        (sockets / other).touch()
    with socket.socket(socket.AF_UNIX) as starting:
        starting.bind(str(sockets / f"{NAME}-{os.getpid()}"))
        assert survey(None, DEADLINE_S) == Survey([], [])
    assert len(list(sockets.iterdir())) == 4


def test_a_process_that_does_not_answer_is_named(live, snapshot, sockets):
    live.add(snapshot("ada"))
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(sockets / f"{NAME}-{os.getppid()}"))
        stopped.listen()
        found = survey(None, 2.0)
    assert [member.name for member in found.snapshots] == ["ada"]
    assert found.silent == [os.getppid()]


def test_a_member_that_says_something_else_is_silent(live, snapshot):
    live.add(snapshot("ada"), take=lambda: {"name": "ada"})
    assert survey(None, DEADLINE_S) == Survey([], [os.getpid()])


def test_without_a_directory_there_is_nobody(sockets):
    assert survey(None, DEADLINE_S) == Survey([], [])
    assert not sockets.exists()


def test_only_a_private_directory_of_this_user_is_trusted(live, snapshot, sockets, monkeypatch):
    live.add(snapshot("ada"))
    assert sockets.stat().st_mode & 0o777 == 0o700
    sockets.chmod(0o750)
    for act in (lambda: discover(None), lambda: live.add(snapshot("bob"))):
        with pytest.raises(ConfigError, match="accessible to other users; run chmod 700 "):
            act()
    sockets.chmod(0o700)
    monkeypatch.setattr(control, "directory", lambda: sockets)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match="not a directory that belongs to this user"):
        discover(None)


def test_a_link_in_place_of_the_directory_is_refused(live, snapshot, sockets, tmp_path):
    sockets.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="not a directory that belongs to this user"):
        live.add(snapshot("ada"))


def test_without_a_usable_runtime_directory_it_is_one_in_tmp(sockets, monkeypatch, tmp_path):
    instead = f"/tmp/semcast-{os.geteuid()}"
    monkeypatch.chdir(tmp_path)
    long = tmp_path / ("x" * 100)
    for place in (long, tmp_path / "relative"):
        place.mkdir()
    for given in (str(long), "relative", "", str(tmp_path / "absent")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", given)
        assert str(control.directory()) == instead
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert str(control.directory()) == instead
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(sockets.parent))
    assert control.directory() == sockets
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # as after sudo
    assert str(control.directory()) == f"/tmp/semcast-{os.getuid() + 1}"


async def test_who_is_cancelled_while_it_begins_to_listen_leaves_nothing_in_the_event_loop(
    sockets, snapshot
):
    """Else the next socket with the number of this one would never be read."""
    server = control.ControlServer(lambda: snapshot("ada"))
    starting = asyncio.create_task(server.start("quotes", "ada"))
    await asyncio.sleep(0)
    assert server.path.exists()
    numbers = [number for number in range(1024) if is_open(number)]
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await server.close()
    loop = asyncio.get_running_loop()
    closed = [number for number in numbers if not is_open(number)]
    assert closed
    assert not any(loop.remove_reader(number) for number in closed)


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
