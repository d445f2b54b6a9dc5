"""Ctrl-C ends every command and every example, without a traceback."""

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
STARTED = "started"
RUN = (
    "import sys; from semcast.cli.main import main;"
    f" print({STARTED!r}, flush=True); sys.exit(main())"
)
COMMANDS = {
    "demo": ("demo", "--out", "OUT"),
    "join": ("join", "GROUP", "--members", "1"),
    "join that waits for others": ("join", "GROUP", "--members", "2"),
    "sub": ("sub", "GROUP", "--members", "1"),
    "pub": ("pub", "GROUP", "--members", "1"),
    "top": ("top",),
    "request": ("request", "GROUP", "1"),
    "members": ("members", "--watch"),
    "swarm": ("sim", "swarm", "--protocol", "s-rm", "--seeds", "20000"),
    "experiment": ("sim", "slow-receiver", "--set", "seconds=100000"),
    "relay": ("relay", "--member", "a=127.0.0.1:7101", "--member", "b=127.0.0.1:7102"),
    "bench": ("bench", "throughput", "--seconds", "60"),
    "check": ("check", "TRACE", "--master", "local[2]"),
    "profile": ("profile", "TRACE", "--master", "local[2]"),
    "lake": ("lake", "ingest", "OUT", "TRACE"),
    "keys": ("keys", "add"),
    "sweep": ("sweep", "slow-receiver", "--grid", "seconds=100000", "--out", "OUT"),
    "figures": ("figures", "all", "--out", "OUT"),
    "figures on Spark": ("figures", "all", "--master", "local[2]", "--out", "OUT"),
}

STARTING = {"check", "profile", "figures on Spark"}  # for seconds, the JVM


def interrupt(
    command: list[str], tmp_path: Path, after_s: float, *, is_heard: bool = True
) -> subprocess.Popen[str]:
    """Run a command in a process group of its own, and interrupt all of it as a terminal does.

    So many seconds after it first printed something: Python that still imports modules cannot be
    interrupted quietly.  Of one that is not heard, after its start.
    """
    environment = {
        **os.environ,
        "XDG_RUNTIME_DIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "SEMCAST_KEYS": str(tmp_path / "keys"),
    }
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, ours)  # Ignored in the background, it would be ignored there too.
    if is_heard:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], DEADLINE_S)[0], "not started in time"
    sleep(after_s)  # A person presses Ctrl-C at any moment.
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
    process = interrupt(
        [sys.executable, "-c", RUN, *argv], tmp_path, 3.0 if name in STARTING else 1.0
    )
    out = ended(process)
    assert "Traceback" not in out, out
    assert process.returncode in (0, 130), out


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example(example, tmp_path):
    """Those on Spark heed Ctrl-C from their first line on, and print nothing for seconds."""
    is_heard = example not in ON_SPARK
    command = [sys.executable, str(EXAMPLES / example)]
    process = interrupt(command, tmp_path, 0.0 if is_heard else 3.0, is_heard=is_heard)
    out = ended(process)
    assert "Traceback" not in out, out
    assert process.returncode in (130, -signal.SIGINT), out
