"""JGroups' SEQUENCER over UDP multicast on loopback: the stack that it ships as sequencer.xml."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import randbelow
from zipfile import ZipFile

from peers_order.race import Field, System

JAR = Path("/usr/share/java/jgroups.jar")  # Debian's libjgroups-java
SOURCE = Path(__file__).with_name("Ordered.java")
OPTIONS = (
    "-Djava.net.preferIPv4Stack=true",
    "-Djgroups.bind_addr=127.0.0.1",
    "-Djava.util.logging.config.file=/dev/null",
)


def missing() -> str:
    """What is not installed."""
    absent = [name for name in ("java", "javac") if shutil.which(name) is None]
    if not JAR.exists():
        absent.append(f"{JAR} (libjgroups-java)")
    return ", ".join(absent)


def version() -> str:
    """Of JGroups, and of what runs it."""
    java = subprocess.run(["java", "--version"], capture_output=True, text=True, check=True)
    with ZipFile(JAR) as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    number = re.search(r"^Bundle-Version: (\S+)", manifest, re.MULTILINE)
    return f"JGroups {number[1] if number else '?'}, {java.stdout.splitlines()[0]}"


def java_compiler(source: Path, classes: Path) -> Sequence[str]:
    """The command line that compiles a program against JGroups."""
    return ("javac", "-nowarn", "-cp", str(JAR), "-d", str(classes), str(source))


def free_group() -> int:
    """A multicast port that keeps other groups out."""
    return 20_000 + randbelow(20_000)


def java(classes: Path, name: str, port: int) -> Sequence[str]:
    """The command line of a compiled program."""
    group = f"-Djgroups.udp.mcast_port={port}"
    return ("java", *OPTIONS, group, "-cp", f"{JAR}:{classes}", name)


@contextmanager
def field(folder: Path, members: int) -> Iterator[Field]:
    """Compiled on the spot."""
    classes = folder / "jgroups"
    subprocess.run(java_compiler(SOURCE, classes), check=True)
    yield Field([java(classes, "Ordered", free_group())] * members)


JGROUPS = System("jgroups", missing, version, field)
