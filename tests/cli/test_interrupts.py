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
    "spark-archive": ("spark-archive",),
}
# As the installed command does, but Ctrl-C comes so many seconds after the entry expects it first.
EARLY = """
import os, signal, sys, threading
real, pending = signal.signal, [threading.Timer(float(sys.argv.pop(1)), os.kill, (os.getpid(), 2))]
def expect(number, handler):
    before = real(number, handler)
    if pending:
        pending.pop().start()
    return before
signal.signal = expect
from semcast.cli.entry import main
sys.exit(main())
"""
MOMENTS_S = (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8)
SHORT = {
    "help": ("--help",),
    "explain": ("explain", "TRACE", "--out", "OUT"),
    "doctor": ("doctor",),
    "keys": ("keys", "list"),
    "check": ("check", "TRACE"),
    "profile": ("profile", "TRACE"),
    "members": ("members",),
    "model": ("model", "gossip", "--members", "100", "--reached", "50", "--error", "1e-6"),
}

STARTING = {"check", "profile", "figures on Spark", "spark-archive"}  # for seconds, the JVM


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
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path),
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
    left = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    assert not [
        path for path in left if path.startswith(("semcast-spark", "cache/semcast/classes/"))
    ]


@pytest.mark.parametrize("name", SHORT)
def test_a_command_while_it_starts_works_and_ends(name, tmp_path, trace):
    words = {"OUT": str(tmp_path / "out"), "TRACE": str(trace)}
    argv = [words.get(word, word) for word in SHORT[name]]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", EARLY, str(moment_s), *argv],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "SEMCAST_KEYS": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for moment_s in MOMENTS_S
    ]
    for process in processes:
        out = ended(process)
        assert "Traceback" not in out, out
        assert "KeyboardInterrupt" not in out, out
        assert process.returncode in (0, 2, 130), out
    assert processes[0].returncode == 130


def test_an_interrupt_during_the_first_imports_of_the_entry():
    code = """
import sys
class Interrupt:
    def find_spec(self, name, *rest):
        if name == "signal":
            raise KeyboardInterrupt
sys.modules.pop("signal", None)
sys.meta_path.insert(0, Interrupt())
import semcast.cli.entry
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_before_the_entry_is_called():
    code = "import os, semcast.cli.entry; os.kill(os.getpid(), 2); print('not interrupted')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_that_python_cannot_raise_comes_again():
    """Errors in a function that is called when an object goes are printed and forgotten."""
    code = """
import os, signal, sys, time, weakref
from semcast.cli import entry, main
def work(arguments):
    item = {1}
    last = weakref.ref(item, lambda _: os.kill(os.getpid(), signal.SIGINT))
    with main._quiet_interrupts():
        del item
        time.sleep(60)
main._run = work
sys.exit(entry.main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (130, "", "")


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example(example, tmp_path):
    """Those on Spark heed Ctrl-C from their first line on, and print nothing for seconds."""
    is_heard = example not in ON_SPARK
    command = [sys.executable, str(EXAMPLES / example)]
    process = interrupt(command, tmp_path, 0.0 if is_heard else 3.0, is_heard=is_heard)
    out = ended(process)
    assert "Traceback" not in out, out
    assert process.returncode in (130, -signal.SIGINT), out
