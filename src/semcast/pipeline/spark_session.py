"""Sessions: embedded, on a master, or over Spark Connect, by the target alone.

One session of a process is shared: whoever asks while one is open gets that one.  What Java prints
goes to a file, of which people see a line if Spark does not start.
"""

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from semcast.pipeline import class_archive
from semcast.pipeline.java import ensure_java
from semcast.pipeline.java_process import JavaProcess, is_running_elsewhere
from semcast.terms.errors import ConfigError, SemcastError
from semcast.traces.errors import BadFile

CONNECT_TIMEOUT_S: Final = 5.0
CONNECT_PORT: Final = 15002
_PARTITIONS_PER_CORE: Final = 8  # Merged again where they turn out small.

DRIVER_MEMORY: Final = "2g"  # Java lays out objects, and its archive of classes, by it.

# Settings of a session, and those that only a JVM of our own takes.
_CONF: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_CONF_JVM: Final = {
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
# Tasks work in Python and in Arrow; what is left to an embedded JVM is little, so compiling it well
# costs more than it saves, and one collector thread with room for what passes through is enough.
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
JAVA_SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:NewRatio=1"
_CONF_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(_PARTITIONS_PER_CORE * (os.cpu_count() or 1)),
}


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """Where Spark runs.  `remote` (sc://HOST:PORT) is a Spark Connect server; with it `master`
    is not used.  `conf` has settings of Spark, which win over ours."""

    master: str = "local[*]"
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def session(
    target: SparkTarget, meanwhile: Callable[[], object] = lambda: None
) -> Iterator[SparkSession]:
    """The open session, or one for this block; `meanwhile` is called while Java starts.

    with session(SparkTarget("local[2]")) as spark:
        trace = read_trace(spark, "out/trace")
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        meanwhile()
    spark = running or open_session(target, meanwhile)
    try:
        yield spark
    except Exception as error:  # pyspark's, or py4j's where a worker crashed
        found = _bad_file_in(error)
        if found is None:
            raise
        raise found from None
    finally:
        if running is None:
            _in_a_thread(spark.stop)


def open_session(
    target: SparkTarget, meanwhile: Callable[[], object] = lambda: None
) -> SparkSession:
    """A session that the caller stops; `ConfigError` says in one line why there is none."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if target.remote:
        meanwhile()
        return _connected(target)
    return _started(target, meanwhile)


def _connected(target: SparkTarget) -> SparkSession:
    remote = target.remote or ""
    address = urlsplit(remote)
    if address.scheme != "sc" or not address.hostname:
        raise ConfigError(
            f"remote: {remote!r} is not a Spark Connect address; write sc://HOST:PORT"
        )
    _check_reachable("remote", remote, [(address.hostname, address.port or CONNECT_PORT)])
    builder = SparkSession.builder.remote(remote)
    try:
        for name, value in {**_CONF, **target.conf}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except ImportError as error:
        raise ConfigError(f"remote: {_line(error)}; pip install 'semcast[connect]'") from None
    except PySparkException as error:
        raise ConfigError(f"remote: {remote} did not open a session: {_line(error)}") from None


def _started(target: SparkTarget, meanwhile: Callable[[], object]) -> SparkSession:
    master = target.master
    if master.startswith("spark://"):
        hosts = [urlsplit(f"//{each}") for each in master.removeprefix("spark://").split(",")]
        _check_reachable(
            "master", master, [(each.hostname or "", each.port or 7077) for each in hosts]
        )
    ensure_java()
    local = _local_conf() if master.startswith("local") else {}
    conf = {"spark.master": master, "spark.app.name": "semcast"}
    conf |= {**_CONF, **_CONF_JVM, **local, **target.conf}
    is_there = SparkContext._gateway is not None or is_running_elsewhere()
    java = None if is_there else JavaProcess(conf)
    try:
        meanwhile()
        _in_a_thread(partial(_make_context, java, conf))
        return SparkSession.builder.config(map={**conf}).getOrCreate()
    except BaseException as error:
        cause = _cause(error, java)
        if java is not None:
            java.kill()
            _forget_java()
        if isinstance(error, SemcastError) or not isinstance(error, Exception):
            raise
        raise ConfigError(f"master: {master!r} did not start: {cause}") from None


def _local_conf() -> dict[str, str]:
    archive = class_archive.java_options()
    return {**_CONF_LOCAL, JAVA_OPTIONS: f"{JAVA_SMALL} {archive}".rstrip()}


def _make_context(java: JavaProcess | None, conf: Mapping[str, str]) -> None:
    settings = SparkConf().setAll(list(conf.items()))
    if java is None:
        SparkContext.getOrCreate(settings)
        return
    with java.connecting():
        gateway = SparkContext.getOrCreate(settings)._gateway
    assert gateway is not None
    gateway.proc = java  # Java ends when nothing refers to it.


def end_java(*, at_once: bool = False) -> None:
    """End the Java of stopped sessions and wait for it; at once, it writes nothing more."""
    java = getattr(SparkContext._gateway, "proc", None)
    _forget_java()
    if isinstance(java, JavaProcess):
        java.kill() if at_once else java.stop()


def _forget_java() -> None:
    SparkContext._gateway = SparkContext._jvm = None


def _in_a_thread(function: Callable[[], object]) -> None:
    """Start and stop Spark apart from the main thread, so that Ctrl-C stays the program's.

    Started in the main thread, Spark takes over SIGINT.  Stopped there after Ctrl-C, it would
    wait for the answer to the call that was interrupted.
    """
    done: Future[None] = Future()

    def run() -> None:
        try:
            function()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, name="spark", daemon=True).start()
    done.result()


def _check_reachable(field_name: str, given: str, addresses: list[tuple[str, int]]) -> None:
    """Spark itself would try for minutes."""
    reason = ""
    for address in addresses:
        try:
            socket.create_connection(address, CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            reason = error.strerror or str(error)
    raise ConfigError(f"{field_name}: {given} cannot be reached: {reason}; is it running?")


def _bad_file_in(error: Exception) -> BadFile | None:
    """What a task found wrong with a file, if that is what made a job fail."""
    if isinstance(error, SemcastError):
        return None
    if "Python worker exited unexpectedly" in str(error):
        # Parquet whose footer contradicts itself can end a process of pyarrow.
        return BadFile("a Spark worker crashed: a file that it read is damaged, or memory ran out")
    match = re.search(r"BadFile: (.*)", str(error))
    if match:
        return BadFile(match[1])
    named = re.search(r"FAILED_READ_FILE.*?file:/*(/\S+?)\.? ", str(error), re.DOTALL)
    return (
        BadFile(f"{named[1]}: cannot be read: damaged, or changed while it was read")
        if named
        else None
    )


def _cause(error: BaseException, java: JavaProcess | None) -> str:
    """The last error that Java printed, or else what came of it here."""
    lines = [] if java is None else java.printed()
    errors = [line.strip() for line in lines if "Exception" in line or "rror:" in line]
    return errors[-1] if errors else _line(error)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
