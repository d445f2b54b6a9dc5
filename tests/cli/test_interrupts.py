"""Ctrl-C ends every command and every example, soon and without a traceback."""

import os
import select
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from time import sleep

import pytest

from semcast.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
ON_SPARK = ("profile_stream.py", "sweep_and_report.py")
DEADLINE_S = 60
COMMANDS = {
    "demo": ("demo", "--out", "OUT"),
    "join": ("join", "GROUP", "--members", "1"),
    "join that waits for others": ("join", "GROUP", "--members", "2"),
    "sub": ("sub", "GROUP", "--members", "1"),
    "pub": ("pub", "GROUP", "--members", "1"),
    "top": ("top",),
    "members": ("members", "--watch"),
    "swarm": ("sim", "swarm", "--protocol", "s-rm", "--seeds", "20000"),
    "experiment": ("sim", "slow-receiver", "--set", "seconds=100000"),
    "relay": ("relay", "--member", "a=127.0.0.1:7101", "--member", "b=127.0.0.1:7102"),
    "bench": ("bench", "throughput", "--seconds", "60"),
    "check": ("check", "TRACE", "--master", "local[2]"),
    "profile": ("profile", "TRACE", "--master", "local[2]"),
    "sweep": ("sweep", "slow-receiver", "--grid", "seconds=100000", "--out", "OUT"),
    "figures": ("figures", "all", "--out", "OUT"),
    "figures on Spark": ("figures", "all", "--master", "local[2]", "--out", "OUT"),
}


def interrupt(command: list[str], tmp_path: Path, after_s: float) -> subprocess.Popen[str]:
    """Run a command in a process group of its own, and interrupt all of it as a terminal does.

    Without a time, when it has printed something: importing Python modules cannot be interrupted
    quietly.
    """
    environment = {
        **os.environ,
        "XDG_RUNTIME_DIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "SEMCAST_KEYS": str(tmp_path / "keys"),
    }
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    if after_s:
        sleep(after_s)  # A person presses Ctrl-C at any moment.
    else:
        assert process.stdout is not None
        select.select([process.stdout], [], [], DEADLINE_S)
    os.killpg(process.pid, signal.SIGINT)
    return process


def ended(process: subprocess.Popen[str]) -> str:
    try:
        out, _ = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    return out


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    directory = tmp_path_factory.mktemp("recorded") / "trace"
    assert main(["sim", "slow-receiver", "--set", "seconds=20", "--trace", str(directory)]) == 0
    return directory


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(name, tmp_path, trace):
    words = {
        "GROUP": f"test-{uuid.uuid4().hex[:8]}",
        "OUT": str(tmp_path / "out"),
        "TRACE": str(trace),
    }
    argv = [words.get(word, word) for word in COMMANDS[name]]
    process = interrupt([sys.executable, "-m", "semcast", *argv], tmp_path, 3.0)
    out = ended(process)
    assert "Traceback" not in out, out
    assert process.returncode in (0, 130), out


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example(example, tmp_path):
    after_s = 3.0 if example in ON_SPARK else 0.0
    process = interrupt([sys.executable, str(EXAMPLES / example)], tmp_path, after_s)
    out = ended(process)
    assert "Traceback" not in out, out
    assert process.returncode in (130, -signal.SIGINT), out
