"""A replicated service on real processes: servers are killed and stopped while clients ask, and the
recorded run is judged by the monitors that judge simulated ones."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic, sleep

import pytest

import semcast

SERVER = """
import asyncio, json, sys
import semcast

class Ledger:
    def execute(self, request):
        name, amount = request
        self.items[name] = self.items.get(name, 0) + amount
        self.items["requests"] = self.items.get("requests", 0) + 1
        return [self.items[name], self.items["requests"]]

async def main(group, name, trace, options):
    async with semcast.replicate(
        Ledger(), group=group, name=name, timeout=0.3, trace=trace, join_timeout=60, **options
    ) as server:
        async for change in server.changes():
            print(change.role, flush=True)

asyncio.run(main(*sys.argv[1:4], json.loads(sys.argv[4])))
"""
CLIENT = """
import asyncio, json, sys
import semcast

async def main(group, name, options):
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with semcast.Client(group, **options) as client:
        while not over.done():
            print(json.dumps([name, *await client.request([name, 1])]), flush=True)

asyncio.run(main(*sys.argv[1:3], json.loads(sys.argv[3])))
"""
KILLS = 100 if os.environ.get("SOAK") else 3
DEADLINE_S = 60.0


class Service:
    """The servers of one group; `options` and `launchers` go by their names."""

    def __init__(self, place, names="abc", options=None, launchers=None):
        self.options = options or (lambda name: {"key": False})
        self.launchers = launchers or {}
        self.members = len(names)
        self.clients = []
        self.group = f"ledger-{secrets.token_hex(8)}"
        self.trace = place / "trace"
        self.environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(place),
            "XDG_STATE_HOME": str(place),
            "SEMCAST_KEYS": str(place / "keys"),
        }
        self.servers = {name: self.start(name) for name in names}

    def start(self, name):
        options = {"members": self.members, **self.options(name)}
        return self._run(name, SERVER, self.group, name, str(self.trace), json.dumps(options))

    def ask(self, place, name):
        """A client that asks until its standard input ends."""
        options = json.dumps(self.options(place))
        self.clients.append(self._run(place, CLIENT, self.group, name, options))
        return self.clients[-1]

    def _run(self, place, program, *words):
        return subprocess.Popen(
            [*self.launchers.get(place, ()), sys.executable, "-c", program, *words],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def stop(self):
        for process in (*self.servers.values(), *self.clients):
            kill(process)


def kill(process):
    """With `kill -9`, and nothing of it is left open."""
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.setenv("SEMCAST_KEYS", str(tmp_path / "keys"))
    made = Service(tmp_path)
    yield made
    made.stop()


async def ask_until(client, name, is_over, answers):
    """Add one, again and again."""
    while not is_over.is_set():
        answers.append((name, *await client.request([name, 1])))


async def under_load(service, disturb):
    """Two clients ask while `disturb` goes on; returns all answers."""
    answers, is_over = [], asyncio.Event()
    async with (
        semcast.Client(service.group, key=False) as one,
        semcast.Client(service.group, key=False) as other,
    ):
        asking = [
            asyncio.create_task(ask_until(client, name, is_over, answers))
            for client, name in ((one, "ada"), (other, "bob"))
        ]
        await until(lambda: len(answers) > 50)
        await disturb(answers)
        is_over.set()
        await asyncio.gather(*asking)
        last = await one.request(["ada", 0])
    return answers, last


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def check_answers(answers, last=None):
    """Every answer counts one more: no request was lost, and none was executed twice."""
    for name in ("ada", "bob"):
        balances = [balance for who, balance, _ in answers if who == name]
        assert balances == list(range(1, len(balances) + 1))
    assert sorted(place for *_, place in answers) == list(range(1, len(answers) + 1))
    if last is not None:
        assert last == [sum(who == "ada" for who, *_ in answers), len(answers) + 1]


def test_servers_that_are_killed_and_come_back_lose_no_answered_request(service):
    async def kill_in_turn(answers):
        for number in range(KILLS):
            name = "abc"[number % 3]
            kill(service.servers[name])
            before = len(answers)
            await until(lambda before=before: len(answers) > before + 20)
            back = service.servers[name] = service.start(name)
            await asyncio.to_thread(back.stdout.readline)  # It is in a view.

    check_answers(*asyncio.run(under_load(service, kill_in_turn)))
    service.stop()
    check_trace(service.trace)


def test_a_server_that_is_stopped_is_left_behind_and_returns(service):
    async def stop(answers):
        service.servers["a"].send_signal(signal.SIGSTOP)  # the primary
        before = len(answers)
        await until(lambda: len(answers) > before + 20)
        service.servers["a"].send_signal(signal.SIGCONT)
        before = len(answers)
        await until(lambda: len(answers) > before + 20)

    check_answers(*asyncio.run(under_load(service, stop)))
    service.stop()
    check_trace(service.trace)


def test_servers_that_are_cut_off_answer_nobody_and_lose_nothing(tmp_path, switches, key):
    """Of five servers the primary and another one are cut off, and come back; then the new primary
    is killed.  One client is on each side."""
    service = Service(
        tmp_path,
        "abcde",
        lambda name: {"key": key, **switches.options(name)},
        switches.launchers,
    )
    try:
        for server in service.servers.values():
            server.stdout.readline()  # It is in a view.
        clients = {"ada": service.ask("b", "ada"), "bob": service.ask("e", "bob")}
        answers = {name: Answers(client) for name, client in clients.items()}
        for each in answers.values():
            each.wait_for(20)
        switches.cut("ab")
        answers["bob"].wait_for(20)
        answers["ada"].settle()
        before = len(answers["ada"].lines)
        answers["bob"].wait_for(20)
        assert len(answers["ada"].lines) == before, "a minority answered"
        switches.heal()
        answers["ada"].wait_for(20)
        kill(service.servers["c"])
        for each in answers.values():
            each.wait_for(20)
        for each in answers.values():
            each.end()
    finally:
        service.stop()
    check_answers([answer for each in answers.values() for answer in each.lines])
    check_trace(service.trace)


class Answers:
    """What a client prints, read in a thread."""

    def __init__(self, client):
        self.client, self.lines = client, []
        self.reading = threading.Thread(target=self._read)
        self.reading.start()

    def _read(self):
        for line in self.client.stdout:
            self.lines.append(json.loads(line))

    def wait_for(self, count):
        """So many more."""
        wanted, deadline = len(self.lines) + count, monotonic() + DEADLINE_S
        while len(self.lines) < wanted:
            assert monotonic() < deadline, f"{len(self.lines)} of {wanted}"
            sleep(0.01)

    def settle(self):
        """An answer may be on its way."""
        sleep(0.2)

    def end(self):
        """The last answer is there when the client has ended."""
        self.client.stdin.close()
        assert self.client.wait(DEADLINE_S) == 0
        self.reading.join()
        self.client.stdout.close()


def check_trace(trace: Path):
    from semcast.cli.main import main

    assert main(["check", str(trace)]) == 0
