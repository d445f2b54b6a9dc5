"""The `semcast` command: finds the subcommand, runs it, and returns an exit code.

0: success.  1: a verdict that failed.  2: bad input or environment, explained in one line.
Modules here import only typer; a command imports what it needs when it runs, so that help comes
at once.
"""

import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, ClassVar, Final

import typer
import typer.main

from semcast import __version__
from semcast.cli import (
    bench,
    check,
    completion,
    demo,
    doctor,
    explain,
    figures,
    keys,
    lake,
    live,
    members,
    model,
    profile,
    relay,
    report,
    request,
    serve,
    sim,
    spark_archive,
    store,
    sweep,
    top,
)
from semcast.cli.commands import CommandGroup, new_app
from semcast.cli.join_options import FullHelpCommand, JoinCommand
from semcast.cli.output import STDERR
from semcast.terms.errors import SemcastError, unknown_value

BAD_INPUT: Final = 2
WORD_MAX: Final = 300  # characters; of a longer word in an error, only the beginning is printed
INTERRUPTED: Final = 128 + signal.SIGINT
BROKEN_PIPE: Final = 141  # 128 + SIGPIPE, which not every system has

# Newer versions of typer bring their own click, older ones depend on it; this is it in both.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class RootCommands(CommandGroup):
    """All commands, by what people want to do."""

    headings: ClassVar[Mapping[str, Sequence[str]]] = {
        "Try": ("demo", "doctor"),
        "Live groups": ("join", "pub", "sub", "members", "top", "keys", "relay"),
        "Replicated services": ("serve", "store", "request"),
        "Check and measure": ("sim", "check", "explain", "bench"),
        "Data": ("profile", "lake", "sweep", "report"),
        "Papers": ("figures", "model"),
        "Setup": ("spark-archive", "completion"),
    }


app = new_app(
    RootCommands, "Semantically reliable multicast: run, inspect, simulate and measure groups."
)
app.command("join", cls=FullHelpCommand, epilog=live.JOIN_EXAMPLE)(live.join)
app.command("pub", cls=JoinCommand, epilog=live.PUB_EXAMPLE)(live.pub)
app.command("sub", cls=JoinCommand, epilog=live.SUB_EXAMPLE)(live.sub)
for function, example in (
    (demo.demo, demo.EXAMPLE),
    (doctor.doctor, doctor.EXAMPLE),
    (members.members, members.EXAMPLE),
    (top.top, top.EXAMPLE),
    (relay.relay, relay.EXAMPLE),
    (serve.serve, serve.EXAMPLE),
    (request.request, request.EXAMPLE),
    (check.check, check.EXAMPLE),
    (explain.explain, explain.EXAMPLE),
    (profile.profile, profile.EXAMPLE),
    (sweep.sweep, sweep.EXAMPLE),
    (report.report, report.EXAMPLE),
    (figures.figures, figures.EXAMPLE),
    (spark_archive.spark_archive, spark_archive.EXAMPLE),
    (completion.completion, completion.EXAMPLE),
):
    app.command(epilog=example)(function)
for group in (keys, store, bench, sim, model, lake):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2])


def _version(asked: bool) -> None:
    if asked:
        print(f"semcast {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: semcast demo")
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A poor terminal garbles a bar, not the run.
    _own_standard_error()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv) or ["--help"])
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        STDERR.clear()
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered must not be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _run(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    if completion.is_completion():
        return completion.complete(command)
    try:
        # Not command.main(), which has its own mind about interrupts, pipes and exit codes.
        with (
            _quiet_interrupts(),
            command.make_context("semcast", arguments) as context,
        ):
            return int(command.invoke(context) or 0)
    except typer.Exit as done:
        return done.exit_code
    except UsageError as error:
        return _exit_bad_input(_usage(error))
    except SemcastError as error:
        return _exit_bad_input(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("semcast"):
            raise
        extra = "spark" if (error.name or "").startswith(("pyspark", "pandas")) else "lab"
        return _exit_bad_input(f"{error.name}: not installed; {_how_to_install(extra)}")
    except BrokenPipeError:
        raise
    except OSError as error:
        return _exit_bad_input(
            f"{error.filename}: {error.strerror}" if error.filename else str(error)
        )


def _how_to_install(extra: str) -> str:
    """The command that installs an extra: a checkout has one of its own."""
    checkout = Path(__file__).parents[3]
    if (checkout / "install.py").is_file():
        return f"run make setup in {checkout}"
    return f"pip install 'semcast[{extra}]'"


def _exit_bad_input(reason: str) -> int:
    words = (word if len(word) <= WORD_MAX else f"{word[:WORD_MAX]}…" for word in reason.split())
    STDERR.line(f"semcast: {' '.join(words)}")
    return BAD_INPUT


def _own_standard_error() -> None:
    """Print the warnings of members through the owner of standard error."""
    log = logging.getLogger("semcast")
    if not log.handlers:
        log.addHandler(STDERR)


def _usage(error: Any) -> str:
    """What the parser did not like, what it knows instead, and where to read about it."""
    text, context = error.format_message().rstrip("."), error.ctx
    if context is None:
        return f"{text}; see semcast --help"
    if type(error).__name__ == "NoSuchOption":
        names = (name for param in context.command.get_params(context) for name in param.opts)
        known = [name for name in names if name.startswith("-")]
        text = str(unknown_value("option", error.option_name, known))
    return f"{text}; see {context.command_path} --help"


@contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """Ctrl-C interrupts this process; workers forked from it go without a word."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pid = os.getpid()
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        if os.getpid() != pid:
            os._exit(INTERRUPTED)
        logging.disable()  # py4j would log a traceback of the call that this interrupts.
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception:
        if interrupted:
            raise KeyboardInterrupt from None  # pyspark failed while it cleaned up after Ctrl-C.
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    sys.exit(main())
