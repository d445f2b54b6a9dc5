"""Install Semcast with extras into this Python's environment, and show how far pip is.

    .venv/bin/python install.py lab

On a terminal one line is redrawn; elsewhere every step is a line.  If pip fails, its own output is
printed.
"""

import shutil
import subprocess
import sys
import threading
import time
from collections import deque

STEPS = {
    "Collecting": "finding",
    "Downloading": "downloading",
    "Using cached": "using",
    "Building": "building",
    "Preparing": "preparing",
    "Installing build": "installing the compiler of the kernel",
    "Installing collected": "unpacking",
}
USUAL = {"lab": "one to three minutes", "dev": "one to three minutes", "spark": "two minutes"}
ERROR_LINES = 40


class Progress:
    """The current step of pip, with the time that has passed."""

    def __init__(self) -> None:
        self.step = "starting pip"
        self.packages = 0
        self.began = time.monotonic()
        self.is_over = threading.Event()

    def read(self, line: str) -> None:
        """Take the step from a line of pip's output."""
        for word, step in STEPS.items():
            if line.strip().startswith(word):
                details = " (" if word in ("Preparing", "Building") else " (from"
                rest = line.strip()[len(word) :].partition(details)[0].strip()
                self.packages += word == "Collecting"
                if word == "Installing build":
                    rest = ""
                elif word == "Installing collected":
                    rest = f"{rest.count(',') + 1} packages"
                self.step = f"{step} {rest}"
                if not sys.stderr.isatty():
                    print(f"  {self.step}", file=sys.stderr, flush=True)

    def show(self) -> None:
        """Redraw the line until pip ends."""
        while not self.is_over.wait(0.2):
            passed = time.monotonic() - self.began
            line = f"  {passed:3.0f} s, {self.packages} packages: {self.step}"
            columns = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{line[:columns]}", end="", file=sys.stderr, flush=True)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def main(extra: str) -> int:
    """Run pip; returns its exit code."""
    usual = f" ({USUAL[extra]})" if extra in USUAL else ""
    print(f"installing semcast[{extra}]{usual}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    progress, last = Progress(), deque[str](maxlen=ERROR_LINES)
    shown = threading.Thread(target=progress.show)
    with subprocess.Popen(
        [*command, "--progress-bar", "off", "-e", f".[{extra}]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as pip:
        if sys.stderr.isatty():
            shown.start()
        try:
            assert pip.stdout is not None
            for line in pip.stdout:
                last.append(line)
                progress.read(line)
        finally:
            progress.is_over.set()
            if shown.is_alive():
                shown.join()
    if pip.returncode:
        sys.stderr.writelines(last)
    else:
        passed = time.monotonic() - progress.began
        print(f"  installed in {passed:.0f} s", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
