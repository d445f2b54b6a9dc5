"""`semcast join`, `pub` and `sub` as processes that meet on loopback, and what they refuse."""

import asyncio
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager
from itertools import islice

import pytest

from semcast.cli.join_options import METAVARS, MOST_USED
from semcast.cli.line_io import (
    RateLimiter,
    parse_json,
    read_lines,
    run_in_group,
    show_json,
    show_payload,
    show_text,
)
from semcast.runtime.application.mailbox import Message
from semcast.runtime.options.options import option_help
from semcast.terms.errors import ConfigError

DEADLINE_S = 60
RUN = [sys.executable, "-c", "import sys; from semcast.cli.main import main; sys.exit(main())"]


class Member:
    """A command that joins: what goes in, and what comes out."""

    def __init__(self, command, group, *argv, env, stdin=subprocess.PIPE):
        self.process = subprocess.Popen(
            [*RUN, command, group, *argv],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        self._read = b""

    def say(self, *lines):
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def hang_up(self):
        """The end of its standard input."""
        self.process.stdin.close()
        self.process.stdin = None

    def lines(self):
        """Lines of its standard output, each as soon as it is there."""
        while True:
            *whole, rest = self._read.split(b"\n")
            if whole:
                self._read = self._read[len(whole[0]) + 1 :]
                yield whole[0].decode()
                continue
            assert select.select([self.process.stdout], [], [], DEADLINE_S)[0], "says nothing"
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            assert chunk, f"ended after {rest!r}"
            self._read += chunk

    def ended(self, code=0):
        """The rest of its standard output, once it ended with that code; its standard error."""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == code, err.decode()
        return (self._read + out).decode(errors="replace").splitlines(), err.decode()


@pytest.fixture
def member(tmp_path, sockets):
    """`member("pub", "--item", "x")` joins the test's own group."""
    group = f"test-{uuid.uuid4().hex[:12]}"
    env = {**os.environ, "SEMCAST_KEYS": str(tmp_path / "keys"), "XDG_STATE_HOME": str(tmp_path)}
    env |= {"SEMCAST_JOIN_TIMEOUT": "60 s", "SEMCAST_LINGER": "20 s"}  # The machine may be busy.
    running = []

    def start(command, *argv, **more):
        running.append(Member(command, group, *argv, env=env, **more))
        return running[-1]

    yield start
    for each in running:
        each.process.kill()
        each.process.communicate()


def test_a_file_goes_to_two_readers(member, tmp_path):
    quotes = tmp_path / "quotes"
    quotes.write_text('{"item": "a", "payload": "1"}\n{"item": "b", "payload": "\u00fc"}\n' * 2)
    everything = member(
        "sub", "--members", "3", "--protocol", "rm", "--name", "s", "--json", "--count", "4"
    )
    only_b = member(
        "sub", "--members", "3", "--protocol", "rm", "--item", "b", "--count", "2", "--raw"
    )
    with quotes.open() as stdin:
        sender = member(
            "pub",
            "--members",
            "3",
            "--protocol",
            "rm",
            "--name",
            "p",
            "--json-lines",
            "--json",
            stdin=stdin,
        )
    (facts,), told = sender.ended()
    facts = json.loads(facts)
    assert (facts["sent"], facts["late"], facts["member"]) == (4, [], "p")
    assert facts["rate"] == facts["sent"] / facts["seconds"]
    assert {"s", "p"} < set(facts["members"])
    assert f"joined {facts['group']} as p with " in told
    assert "stays on loopback, unencrypted" in told

    *lines, facts = map(json.loads, everything.ended()[0])
    assert [(line["sender"], line["seq"]) for line in lines] == [("p", n) for n in (1, 2, 3, 4)]
    assert [(line["item"], line["payload"]) for line in lines] == [("a", "1"), ("b", "\u00fc")] * 2
    assert (facts["received"], facts["skipped"], facts["member"]) == (4, 0, "s")

    lines, told = only_b.ended()
    assert lines == ["\u00fc"] * 2
    assert "received 2 messages" in told


def test_the_wait_for_the_last_receivers_follows_the_work(monkeypatch, tmp_path, sockets):
    for name in ("SEMCAST_KEYS", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    steps = []

    async def work(group):
        await group.multicast(b"1")
        steps.append("worked")

    @contextmanager
    def leaving():
        steps.append("leaves")
        yield
        steps.append("has left")

    group = f"test-{uuid.uuid4().hex[:12]}"
    joining = run_in_group(group, {"members": 1}, lambda _: None, work, leaving=leaving())
    stay = asyncio.run(joining)
    assert steps == ["worked", "leaves", "has left"]
    assert stay.snapshot.sent == 1


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_screen_of_a_sender(columns, screen, tmp_path, sockets):
    """It says who is there, what it has sent, and what to try next."""
    places = {"SEMCAST_KEYS": f"{tmp_path}/keys", "XDG_STATE_HOME": str(tmp_path)}
    words = ("pub", f"test-{uuid.uuid4().hex[:12]}", "--members", "1", "--name", "a", "--json")
    code, lines = screen(words, columns, {**os.environ, **places}, errors=True)
    text = "\n".join(lines)
    assert code == 0, text
    # Redrawn lines of a wait are not what remains.
    shown = [line.rpartition("\r")[2] for line in lines]
    assert max(map(len, shown)) <= columns, text
    assert shown[-4].startswith("sent 0 messages in "), text
    assert shown[-2] == "next: semcast members --watch · semcast top", text


def test_a_slow_reader_skips_what_is_superseded_and_ends_up_to_date(member):
    count, rate = 3_000, 200
    slow = member("sub", "--members", "2", "--rate", str(rate), "--json")
    sender = member("pub", "--members", "2", "--item", "x", "--json")
    sender.say(*range(1, count + 1))
    assert json.loads(sender.ended()[0][-1])["sent"] == count

    taken = []
    for line in map(json.loads, slow.lines()):
        taken.append(line)
        if line["seq"] == count:
            break
    slow.process.send_signal(signal.SIGTERM)
    (facts,), _ = slow.ended()
    facts = json.loads(facts)
    assert taken[-1]["payload"] == str(count)
    assert len(taken) == facts["received"] < count
    assert sum(line["skipped"] for line in taken) == facts["skipped"] == count - len(taken)
    assert facts["rate"] < 1.05 * rate


def test_two_join_and_hear_each_other_and_themselves(member):
    ada = member("join", "--members", "2", "--name", "ada", "--json", "--count", "3")
    bob = member("join", "--members", "2", "--name", "bob", "--count", "3", "--item", "x", "--raw")
    ada.say('{"payload": "hello"}', '{"payload_base64": "/w==", "never_purge": true}')
    ada.hang_up()  # It goes on listening.
    bob.say("good bye")  # One message: a second one on the same item could supersede it.
    *lines, facts = map(json.loads, ada.ended()[0])
    assert (facts["sent"], facts["received"]) == (2, 3)
    heard = {(line["sender"], line["seq"]): line for line in lines}
    assert heard["ada", 1]["payload"] == "hello"
    assert heard["ada", 2]["payload_base64"] == "/w=="
    assert heard["ada", 2]["never_purge"] is True
    assert (heard["bob", 1]["item"], heard["bob", 1]["payload"]) == ("x", "good bye")
    assert sorted(bob.ended()[0]) == ["good bye", "hello", "\ufffd"]


@pytest.mark.parametrize(
    ("options", "lines", "reason"),
    [
        (
            ["--json-lines"],
            ['{"payload": "a"}', '{"payload": 3}'],
            "cannot decode the message: Expected `str",
        ),
        (["--message-max", "1 KiB"], ["a", "b" * 2_000], "payload"),
    ],
    ids=["not JSON of ours", "too large"],
)
def test_what_stands_before_a_bad_line_is_sent(member, options, lines, reason):
    common = options if "--message-max" in options else []
    reader = member("sub", "--members", "2", "--count", "1", "--raw", *common)
    sender = member("pub", "--members", "2", *options)
    sender.say(*lines, "never read")
    out, err = sender.ended(code=2)
    assert out == []
    assert f"semcast: line 2: {reason}" in err
    assert reader.ended()[0] == ["a"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_sender_that_waits_for_input(member, number):
    reader = member("sub", "--members", "2", "--raw")
    sender = member("pub", "--members", "2", "--json")
    sender.say("one")
    assert list(islice(reader.lines(), 1)) == ["one"]
    sender.process.send_signal(number)
    sender.process.wait(DEADLINE_S)
    assert json.loads(sender.ended()[0][-1])["sent"] == 1


def test_count_and_rate_of_a_sender(member):
    sender = member("pub", "--members", "1", "--count", "30", "--rate", "100", "--json")
    sender.say(*range(100))
    facts = json.loads(sender.ended()[0][-1])
    assert facts["sent"] == 30
    assert facts["rate"] < 110


def test_a_reader_that_goes_away(member):
    reader = member("sub", "--members", "2", "--raw")
    sender = member("pub", "--members", "2", "--json")
    sender.say("one")
    assert list(islice(reader.lines(), 1)) == ["one"]
    reader.process.stdout.close()
    sender.say("two")
    assert reader.process.wait(DEADLINE_S) == 141
    assert json.loads(sender.ended()[0][-1])["sent"] == 2


def test_a_reader_that_stops_reading_holds_nobody_up(member):
    reader = member("sub", "--members", "2")
    fcntl.fcntl(reader.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    sender = member("pub", "--members", "2", "--json")
    sender.say(*["x" * 100] * 1_000)
    facts = json.loads(sender.ended()[0][-1])
    assert (facts["sent"], facts["late"]) == (1_000, [])
    reader.process.send_signal(signal.SIGTERM)
    assert reader.process.wait(DEADLINE_S) == 141


BAD_LINES = {
    "nothing": (b"", "truncated"),
    "not an object": (b"[]", "Expected `object`"),
    "no payload": (b'{"item": "a"}', "needs exactly one of payload and payload_base64"),
    "two payloads": (b'{"payload": "a", "payload_base64": "YQ=="}', "needs exactly one of"),
    "not base64": (b'{"payload_base64": "%"}', "base64"),
    "misspelt": (b'{"payload": "a", "never_purged": true}', "never_purged"),
    "not UTF-8": (b'{"payload": "\xff"}', "utf-8"),
    "very deep": (b'{"payload": ' + b"[" * 100_000, "cannot decode the message"),
}


@pytest.mark.parametrize(("line", "reason"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_line_that_is_not_a_message(line, reason):
    with pytest.raises(ConfigError, match=reason):
        parse_json(line, None)


@pytest.mark.parametrize("payload", [b"", b"text\n", b"\xff\x00", "\u00fc\U0001f40e".encode()])
@pytest.mark.parametrize("kept", [False, True])
def test_what_is_printed_can_be_sent(payload, kept):
    line = show_json(Message("ada", "x", payload, seq=7, skipped=2, kept=kept))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    update = parse_json(line, None)
    assert (update.payload, update.item, update.never_purge) == (payload, "x", kept)


def test_a_line_for_people_has_time_sender_item_payload_and_skips():
    line = show_text(Message("ada", "x", b"101.25", seq=7, skipped=1_200)).decode()
    assert re.fullmatch(r"[0-9:]{8}\.\d{3}  ada  x  101\.25  \(skipped 1,200\)\n", line)
    assert show_text(Message("ada", None, b"1", seq=8, skipped=0)).endswith(b"  ada  -  1\n")
    assert show_payload(Message("ada", "x", b"1", seq=8, skipped=3)) == b"1\n"


def test_the_item_of_lines_that_name_none():
    assert parse_json(b'{"payload": "1"}', "x").item == "x"
    assert parse_json(b'{"payload": "1", "item": "y"}', "x").item == "y"


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_are_whole_however_they_come(end):
    wanted = [b"first", b"", b"long" * 100_000, b"last"]

    async def read():
        reading, writing = os.pipe()
        text = b"\n".join(wanted) + end

        def write():
            with os.fdopen(writing, "wb") as file:
                file.write(text)

        written = asyncio.create_task(asyncio.to_thread(write))
        lines = [line async for batch in read_lines(reading) for line in batch]
        await written
        os.close(reading)
        return lines

    assert asyncio.run(read()) == wanted


def test_a_pace_does_not_make_up_for_a_long_silence():
    slept = []

    async def keep():
        pace = RateLimiter(1_000)
        assert pace.at_once == 10
        for _ in range(5):
            before = asyncio.get_running_loop().time()
            await pace.throttle(10)
            slept.append(asyncio.get_running_loop().time() - before)

    asyncio.run(keep())
    assert sum(slept) >= 0.039  # 50 messages at 1,000 a second, the first 10 at once


REFUSED = {
    "nobody": (("sub", "g"), "members or peers: one is required"),
    "members": (("pub", "g", "--members", "few"), "members: 'few' is not a whole number"),
    "further option": (("join", "g", "--chain-limit", "0"), "chain_limit: 0 is not at least 1"),
    "count": (("sub", "g", "--members", "1", "--count", "0"), "count: 0 is not at least 1"),
    "rate": (("pub", "g", "--members", "1", "--rate", "0"), "rate: 0.0 is not a finite number"),
    "unknown": (
        ("pub", "g", "--membres", "1"),
        "option: unknown value '--membres'; did you mean '--members'?",
    ),
}


@pytest.mark.parametrize(("argv", "reason"), REFUSED.values(), ids=REFUSED)
def test_one_line_and_exit_code_2(argv, reason, semcast):
    done = semcast(*argv)
    assert done.code == 2
    assert done.out == ""
    assert reason in done.err
    assert done.err.count("\n") == 1


def test_the_environment_counts_where_the_command_line_is_silent(semcast, monkeypatch):
    monkeypatch.setenv("SEMCAST_ORDER", "alphabetical")
    assert "SEMCAST_ORDER: unknown value 'alphabetical'; allowed:" in semcast("pub", "g").err


@pytest.mark.parametrize("command", ["pub", "sub", "join"])
def test_help_names_every_option_and_explains_those_most_used(command, semcast):
    told = " ".join(semcast(command, "--help").out.split())
    for name, meaning in option_help().items():
        assert f"--{name.replace('_', '-')}" in told
        if name in MOST_USED or command == "join":
            assert meaning.split(";")[0] in told
            assert f"--{name.replace('_', '-')} {METAVARS[name]} " in told


def test_every_group_option_has_a_word_for_its_value():
    assert METAVARS.keys() == option_help().keys()


def test_lines_go_through_a_group_that_others_join_and_leave(member):
    """The same command line founds the group, joins it later, and comes back."""
    views = ("--protocol", "s-vsm", "--members", "2")
    printing = member("sub", *views, "--name", "ada", "--count", "4", "--raw")
    first = member("pub", *views, "--name", "bob", "--json")
    first.say("one", "two")
    first.hang_up()
    out, _ = first.ended()
    assert json.loads(out[-1])["sent"] == 2
    late = member("pub", *views, "--name", "cy")
    late.say("three")
    late.hang_up()
    _, err = late.ended()
    assert "with ada" in err
    again = member("pub", *views, "--name", "bob")
    again.say("four")
    again.hang_up()
    again.ended()
    lines, err = printing.ended()
    assert lines == ["one", "two", "three", "four"]
    assert "joined" in err
    assert "view 2: ada; bob left" in err  # Changes of the membership are printed.
