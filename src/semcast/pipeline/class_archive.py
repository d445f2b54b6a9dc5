"""Where the archive of Spark's Java classes is kept, and whether it can be used.

Most of the time that an embedded Spark needs to start is spent on loading classes.  Java can map
them from an archive instead (application class data sharing).  There is one archive for each
Spark and Java, in the user's cache; `pipeline.archive_making` makes it.  It is used only if the
Java and each jar are still those it was made from, by size and time of change, and if its size and
its beginning are as they were: Java 17 ends with an error if an archive has a bad header.  Java
compares checksums of the rest, and ignores without a word what does not fit.
"""

import json
import os
import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from semcast.pipeline.java import cache_folder, java_program
from semcast.pipeline.java_process import spark_home

CLASSES: Final = "classes.jsa"
BASE: Final = "base.jsa"  # classes of Java itself, for a Java that comes without them
FACTS: Final = "made-from.json"
_HEADER: Final = 1 << 16  # bytes; that of an archive is shorter
QUIET: Final = "-Xshare:auto -Xlog:disable"  # Nothing about archives, whatever is wrong with one.


@dataclass(frozen=True, slots=True)
class SparkInstallation:
    """A Spark and the Java that runs it; `stamp` changes when either is replaced."""

    java: Path
    java_version: str
    jars: Path
    spark_version: str
    stamp: str

    @property
    def folder(self) -> Path:
        """Where its archive is kept."""
        place = blake2b(f"{self.java}\0{self.jars}".encode(), digest_size=4).hexdigest()
        name = f"spark-{self.spark_version}-java-{self.java_version}-{place}"
        return archives_folder() / name

    @property
    def base(self) -> Path:
        """Where the archive of Java's own classes is, if this Java comes without one.  The other
        archive names this place, so it is not in a folder that gets its name later."""
        return self.folder.with_name(f"{self.folder.name}.{BASE}")

    @property
    def has_base(self) -> bool:
        """Whether this Java comes with an archive of its own classes."""
        return (self.java.parents[1] / "lib" / "server" / CLASSES).exists()


def archives_folder() -> Path:
    """Where all archives are kept."""
    return cache_folder() / "classes"


def installation() -> SparkInstallation | None:
    """The Spark and Java that a session on this machine would use; None if one is missing."""
    java, jars = java_program(), spark_home() / "jars"
    core = sorted(jars.glob("spark-core_*.jar"))
    if java is None or not core:
        return None
    home = java.parents[1]
    release = home / "release"
    described = release.read_text() if release.exists() else ""
    version = re.search(r'^JAVA_VERSION="([\w.+-]+)"', described, re.MULTILINE)
    files = [java, *home.glob("lib/server/*"), *sorted(jars.iterdir())]
    stats = [(file.name, *_size_and_time(file)) for file in files]
    return SparkInstallation(
        java,
        version[1] if version else "unknown",
        jars,
        core[-1].stem.rpartition("-")[2],
        blake2b(repr((described, stats)).encode(), digest_size=16).hexdigest(),
    )


def find_archive() -> Path | None:
    """The folder of the archive for this Spark and Java, if there is one that can be trusted."""
    try:
        installed = installation()
        if installed is None:
            return None
        facts = json.loads((installed.folder / FACTS).read_text())
        return installed.folder if facts == facts_of(installed, installed.folder) else None
    except (OSError, RuntimeError, ValueError, ImportError):  # no such file, no home, no JSON
        return None


def facts_of(installed: SparkInstallation, folder: Path) -> dict[str, object]:
    """What an archive was made from, and what its files look like."""
    files = [*([] if installed.has_base else [installed.base]), folder / CLASSES]
    return {
        "java": str(installed.java),
        "jars": str(installed.jars),
        "stamp": installed.stamp,
        "files": {file.name: _look_of(file) for file in files},
        "is_ours": {file.stat().st_uid for file in files} == {os.getuid()},
    }


def java_options() -> str:
    """Options that make Java use the archive, or none."""
    folder = find_archive()
    if folder is None:
        return ""
    base = folder.with_name(f"{folder.name}.{BASE}")
    files = [*([base] if base.exists() else []), folder / CLASSES]
    return f"{QUIET} -XX:+VerifySharedSpaces {shared_archive(*files)}"


def shared_archive(*files: Path) -> str:
    """The option that names archives, quoted as Spark reads it."""
    joined = ":".join(map(str, files)).replace("\\", "\\\\").replace('"', '\\"')
    return f'"-XX:SharedArchiveFile={joined}"'


def _look_of(file: Path) -> list[object]:
    """The size of a file, and a hash of its header."""
    with file.open("rb") as opened:
        return [file.stat().st_size, blake2b(opened.read(_HEADER), digest_size=16).hexdigest()]


def _size_and_time(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns
