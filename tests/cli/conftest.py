"""Runs a command line in this process; and a terminal."""

import json
import sys
from collections.abc import Callable
from io import StringIO
from typing import Any, NamedTuple

import pytest

from semcast.cli import members, top
from semcast.cli.main import main


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
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """`terminal()` makes standard output and standard error one terminal of 40 columns."""

    def replace_streams() -> Terminal:
        shown = Terminal()
        monkeypatch.setattr(sys, "stderr", shown)
        monkeypatch.setattr(sys, "stdout", shown)
        monkeypatch.setenv("COLUMNS", "40")
        return shown

    return replace_streams
