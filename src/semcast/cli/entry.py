"""The first module of the command `semcast`: Ctrl-C ends it quietly from here to its last moment.

Python would print a traceback if Ctrl-C came while modules are imported or while it shuts down.
So this module deals with that when it is imported, before it imports anything that takes time.
Earlier, while Python itself starts and pip's script imports `re`, Ctrl-C still prints one: for the
first 20 ms of processor time.
"""

import os
import sys

_AGAIN_S = 0.05


def main() -> int:
    """Run the command line and return its exit code."""
    sys.unraisablehook = _interrupt_again
    from semcast.cli.main import main as run

    return run()


def _exit(number: int, frame: object) -> None:
    """For the time when there is nothing to tidy up: before the command runs, and after it."""
    os._exit(INTERRUPTED)


def _interrupt_again(error: "sys.UnraisableHookArgs") -> None:
    """Where Python cannot raise an error it prints and forgets it; but not Ctrl-C."""
    if error.exc_type is not None and issubclass(error.exc_type, KeyboardInterrupt):
        import threading

        # Not at once: here it would be printed and forgotten, too.
        threading.Timer(_AGAIN_S, os.kill, [os.getpid(), signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(error)


try:
    import signal

    INTERRUPTED = 128 + signal.SIGINT
    signal.signal(signal.SIGINT, _exit)
except KeyboardInterrupt:
    sys.exit(130)
