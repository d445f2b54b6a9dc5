"""A replicated service on real processes: servers are killed and stopped while clients ask, and the
recorded run is judged by the monitors that judge simulated ones."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import semcast

SERVER = """
import asyncio, sys
import semcast

class Ledger:
    def execute(self, request):
        name, amount = request
        self.items[name] = self.items.get(name, 0) + amount
        self.items["requests"] = self.items.get("requests", 0) + 1
        return [self.items[name], self.items["requests"]]

async def main(group, name, trace):
    async with semcast.replicate(
        Ledger(), group=group, name=name, members=3, timeout=0.3, trace=trace, join_timeout=60
    ) as server:
        async for change in server.changes():
            print(change.role, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""
KILLS = 10 if os.environ.get("SOAK") else 3


class Service:
    """Three servers of one group."""

    def __init__(self, place):
        self.group = f"ledger-{secrets.token_hex(8)}"
        self.trace = place / "trace"
        self.environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(place),
            "XDG_STATE_HOME": str(place),
            "SEMCAST_KEYS": str(place / "keys"),
        }
        self.servers = {name: self.start(name) for name in "abc"}

    def start(self, name):
        command = [sys.executable, "-c", SERVER, self.group, name, str(self.trace)]
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def stop(self):
        for server in self.servers.values():
            server.kill()
            server.wait()
            server.stdout.close()


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


def check_answers(answers, last):
    """Every answer counts one more: no request was lost, and none was executed twice."""
    for name in ("ada", "bob"):
        balances = [balance for who, balance, _ in answers if who == name]
        assert balances == list(range(1, len(balances) + 1))
    assert sorted(place for *_, place in answers) == list(range(1, len(answers) + 1))
    assert last == [sum(who == "ada" for who, *_ in answers), len(answers) + 1]


def test_servers_that_are_killed_and_come_back_lose_no_answered_request(service):
    async def kill(answers):
        for number in range(KILLS):
            name = "abc"[number % 3]
            killed = service.servers[name]
            killed.kill()
            killed.wait()
            killed.stdout.close()
            before = len(answers)
            await until(lambda before=before: len(answers) > before + 20)
            back = service.servers[name] = service.start(name)
            await asyncio.to_thread(back.stdout.readline)  # It is in a view.

    check_answers(*asyncio.run(under_load(service, kill)))
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


def check_trace(trace: Path):
    from semcast.cli.main import main

    assert main(["check", str(trace)]) == 0
