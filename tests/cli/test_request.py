"""`semcast request` asks servers that run beside it."""

import asyncio
import io
import json
import os
import secrets
import threading

import pytest

from semcast import replicate

DEADLINE_S = 60


class Counter:
    """Adds up; refuses what is no number."""

    def execute(self, request):
        if not isinstance(request, int):
            raise TypeError(f"{request} is no number")
        self.items["sum"] = self.items.get("sum", 0) + request
        return {"sum": self.items["sum"]}


@pytest.fixture
def group(tmp_path, monkeypatch, sockets):
    """The name of a service with one server, on a loop in a thread."""
    monkeypatch.setenv("SEMCAST_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    name = f"counter-{secrets.token_hex(8)}"
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def serve():
        return await replicate(Counter(), group=name, name="a", members=1)

    server = asyncio.run_coroutine_threadsafe(serve(), loop).result(DEADLINE_S)
    yield name
    asyncio.run_coroutine_threadsafe(server.close(), loop).result(DEADLINE_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_replies_are_printed_and_refusals_are_counted(group, semcast):
    ran = semcast("request", group, "3", '"four"', "5", "--json")
    assert ran.code == 1
    *replies, facts = ran.out.splitlines()
    assert [json.loads(line) for line in replies] == [{"sum": 3}, {"sum": 8}]
    assert json.loads(facts) == {"requests": 3, "refused": 1}
    assert "refused: TypeError: four is no number" in ran.err


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_screen(columns, group, screen):
    code, lines = screen(("request", group, "3", "5"), columns, os.environ)
    text = "\n".join(lines)
    assert (code, lines[:2]) == (0, ['{"sum":3}', '{"sum":8}']), text
    assert max(map(len, lines)) <= columns, text
    assert " ".join(text.replace("\\\n", " ").split()[2:]) == (
        f"next: semcast members --group {group}"
    )


def test_requests_are_lines_of_the_input(group, semcast, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n\n2\n"))
    ran = semcast("request", group)
    assert (ran.code, ran.out) == (0, '{"sum":1}\n{"sum":3}\n')


def test_what_is_no_json_is_not_sent(group, semcast):
    ran = semcast("request", group, "1", "{bad")
    assert ran.code == 2
    assert "request: '{bad' is not JSON" in ran.err


def test_an_input_that_is_no_text_is_not_sent(group, semcast, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1\n\xff\n"), encoding="utf-8"))
    ran = semcast("request", group)
    assert ran.code == 2
    assert "request: the input is not UTF-8 text" in ran.err


def test_without_servers_it_says_what_to_look_at(semcast, tmp_path, monkeypatch, sockets):
    monkeypatch.setenv("SEMCAST_KEYS", str(tmp_path / "keys"))
    ran = semcast("request", f"nobody-{secrets.token_hex(8)}", "1", "--give-up", "0.2 s")
    assert ran.code == 2
    assert "no server of nobody-" in ran.err
    assert "semcast members" in ran.err
