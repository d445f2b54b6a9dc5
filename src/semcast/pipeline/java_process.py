"""The Java process of a Spark on this machine.

It is started here and not by pyspark, for three reasons.  It starts before pyspark is imported.
Nothing that it prints reaches standard output or standard error.  And if the user presses Ctrl-C
while it starts, it ends and leaves no file behind.  Pyspark then connects to it as it does to a
process that `spark-submit` started.
"""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from struct import unpack
from time import sleep
from typing import Final

_POLL_S: Final = 0.02
_PORT: Final = "PYSPARK_GATEWAY_PORT"  # Set, pyspark connects to a process that is there.
_SECRET: Final = "PYSPARK_GATEWAY_SECRET"


class JavaProcess:
    """Ends with this process, or by `stop` or `kill`.  `conf` has settings of Spark."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="semcast-spark-"))
        self._address = self._folder / "address"
        self._output = os.open(self._folder / "output", os.O_RDWR | os.O_CREAT, 0o600)
        settings = [f"--conf={name}={value}" for name, value in conf.items()]
        home = spark_home()
        arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self._process = subprocess.Popen(
            [home / "bin" / "spark-submit", *settings, *arguments],
            stdin=subprocess.PIPE,  # At its end, Java ends.
            stdout=self._output,
            stderr=self._output,
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address),
            },
            start_new_session=True,  # Ctrl-C is for this process alone.
        )

    @contextmanager
    def connecting(self) -> Iterator[None]:
        """Wait until Java answers; in the block, pyspark connects to it.  `ChildProcessError` if
        Java ended before."""
        while not self._address.exists():
            if self._process.poll() is not None:
                raise ChildProcessError(f"Java ended with exit code {self._process.returncode}")
            sleep(_POLL_S)
        port, secret = _read_address(self._address)
        rmtree(self._folder, ignore_errors=True)
        os.environ |= {_PORT: str(port), _SECRET: secret}
        try:
            yield
        finally:
            del os.environ[_PORT], os.environ[_SECRET]

    def printed(self) -> list[str]:
        """The lines that Java has printed so far."""
        size = os.fstat(self._output).st_size
        return os.pread(self._output, size, 0).decode(errors="replace").splitlines()

    def stop(self) -> int:
        """End Java as at the end of this process, wait for it, and return its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait()

    def kill(self) -> None:
        """End Java at once, with every process that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.stop()
        rmtree(self._folder, ignore_errors=True)
        os.close(self._output)


def is_running_elsewhere() -> bool:
    """Whether `spark-submit` started Java already, and this process for it."""
    return _PORT in os.environ


def spark_home() -> Path:
    """Where Spark is installed: as SPARK_HOME says, or the one inside pyspark."""
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home)
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    package = Path(found.origin).parent
    downloaded = package / "spark-distribution"
    return downloaded if downloaded.is_dir() else package


def _read_address(path: Path) -> tuple[int, str]:
    """The port, and the text that a client must know, as Spark writes them."""
    data = path.read_bytes()
    port, size = unpack(">ii", data[:8])
    return port, data[8 : 8 + size].decode()
