"""`semcast completion`: the script that makes a shell complete commands and options.

The script asks `semcast` itself at every Tab, through the variable `_SEMCAST_COMPLETE`.
"""

import os
import sys
from typing import Annotated, Any, Final

import typer

from semcast.cli.output import STDERR
from semcast.terms.errors import unknown_value

EXAMPLE = "Example: semcast completion bash >> ~/.bashrc"
# The shells that are known, with the file that each reads when it starts.
STARTUP_FILES: Final = {
    "bash": "~/.bashrc",
    "zsh": "~/.zshrc",
    "fish": "~/.config/fish/config.fish",
}
VARIABLE: Final = "_SEMCAST_COMPLETE"


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> None:
    """Print a script that lets your shell complete semcast commands."""
    if shell not in STARTUP_FILES:
        raise unknown_value("shell", shell, list(STARTUP_FILES))
    complete(None, f"source_{shell}")
    if sys.stdout.isatty():
        STDERR.line(f"next: semcast completion {shell} >> {STARTUP_FILES[shell]}")


def is_completion() -> bool:
    """Whether a shell asks for completions."""
    return bool(os.environ.get(VARIABLE))


def complete(command: Any, instruction: str | None = None) -> int:
    """Answer a shell that asks for completions."""
    from typer.completion import (  # type: ignore[attr-defined]
        completion_init,
        shell_complete,
    )

    completion_init()
    asked = instruction or os.environ[VARIABLE]
    code: int = shell_complete(command, {}, "semcast", VARIABLE, asked)
    sys.stdout.flush()
    return code
