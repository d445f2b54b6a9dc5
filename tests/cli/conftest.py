"""Runs a command line in this process, or on a terminal."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, NamedTuple

import pytest

from semcast.cli import members, top
from semcast.cli.main import main
from semcast.cli.output import STDERR

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Finished(NamedTuple):
    """A command that ended: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        """The one JSON object, alone on standard output."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self.out
        found = json.loads(lines[0], parse_constant=pytest.fail)
        assert isinstance(found, dict)
        return found


@pytest.fixture
def semcast(capfd: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """`semcast("sim", "list")` gives what the command of these words did."""

    def run(*argv: str) -> Finished:
        code = main(argv)
        return Finished(code, *capfd.readouterr())

    return run


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of a test answers in the end, however busy the machine is."""
    for module in (members, top):
        monkeypatch.setattr(module, "ANSWER_S", 60.0)


class Terminal(StringIO):
    """A terminal that remembers everything it was sent."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Terminal]]:
    """`terminal()` makes standard output and standard error one terminal of 40 columns."""

    def replace_streams() -> Terminal:
        shown = Terminal()
        monkeypatch.setattr(sys, "stderr", shown)
        monkeypatch.setattr(sys, "stdout", shown)
        monkeypatch.setenv("COLUMNS", "40")
        return shown

    yield replace_streams
    STDERR.clear()  # A progress line that stays would be cleared in the next test.


@pytest.fixture
def screen() -> Callable[..., tuple[int, list[str]]]:
    """`screen(words, columns, environment)`: what a terminal of that width shows after a command,
    as its exit code and lines, without progress; `errors=True`: standard error instead.
    `until`: Ctrl-C follows when that is on the screen."""

    def run(
        words: Sequence[str],
        columns: int,
        environment: Mapping[str, str],
        *,
        errors: bool = False,
        until: str | None = None,
    ) -> tuple[int, list[str]]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        with subprocess.Popen(
            [sys.executable, "-m", "semcast", *words],
            stdin=subprocess.DEVNULL if errors else theirs,
            stdout=subprocess.DEVNULL if errors else theirs,
            stderr=theirs if errors else subprocess.DEVNULL,
            env={name: value for name, value in environment.items() if name != "COLUMNS"},
        ) as process:
            os.close(theirs)
            shown = b""
            while chunk := _read(ours):
                shown += chunk
                if until is not None and until in shown.decode(errors="replace"):
                    process.send_signal(signal.SIGINT)
                    until = None
        os.close(ours)
        lines = ESCAPES.sub("", shown.decode()).replace("\r\n", "\n").split("\n")
        return process.returncode, lines

    return run


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the last writer is gone.
        return b""
