"""Makes the archive of Spark's Java classes that `class_archive` finds.

Java writes it when it ends, with the classes that it has loaded; so a session records a small
run, takes it into a lake, checks and profiles it.  The files get their place when Java has ended
and they are whole; if anything fails before, or the user presses Ctrl-C, nothing is left.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from time import time
from typing import Final

from pyspark.sql import SparkSession

from semcast.experiments.registry import experiment
from semcast.pipeline.check import verdict
from semcast.pipeline.class_archive import (
    BASE,
    CLASSES,
    FACTS,
    QUIET,
    SparkInstallation,
    archives_folder,
    facts_of,
    installation,
    shared_archive,
)
from semcast.pipeline.java import ensure_java
from semcast.pipeline.lake.ingest import ingest
from semcast.pipeline.lake.lake import Lake
from semcast.pipeline.profile import spark_profile
from semcast.pipeline.reading.trace import read_trace
from semcast.pipeline.spark_session import (
    DRIVER_MEMORY,
    JAVA_OPTIONS,
    JAVA_SMALL,
    SparkTarget,
    end_java,
    session,
)
from semcast.terms.errors import ConfigError
from semcast.traces.files import UNFINISHED

CORES: Final = 2
_ABANDONED_S: Final = 3600.0  # An unfinished archive of this age belongs to nobody.


def make_archive(tell: Callable[[str], None] = lambda line: None) -> Path:
    """Make the archive for this Spark and Java in place of an older one; returns its folder."""
    ensure_java()
    installed = installation()
    if installed is None:
        raise ConfigError("archive: there is no Spark here; pip install 'semcast[spark]'")
    archives = archives_folder()
    archives.mkdir(parents=True, exist_ok=True)
    installed.base.unlink(missing_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=archives) as name:
            _make_in(Path(name), installed, tell)
    except BaseException:
        installed.base.unlink(missing_ok=True)
        raise
    return installed.folder


def _make_in(work: Path, installed: SparkInstallation, tell: Callable[[str], None]) -> None:
    whole = work / installed.folder.name
    whole.mkdir()
    if not installed.has_base:
        os.replace(_make_base(installed, work / BASE), installed.base)
    tell("starting Spark")
    base = [] if installed.has_base else [installed.base]
    _archive_classes(work, base, whole / CLASSES, tell)
    (whole / FACTS).write_text(json.dumps(facts_of(installed, whole)))
    _remove_old(installed)
    os.replace(whole, installed.folder)


def _make_base(installed: SparkInstallation, path: Path) -> Path:
    """An archive of the classes of Java itself, without which there can be none of others."""
    options = [f"-Xmx{DRIVER_MEMORY}", "-Xshare:dump", f"-XX:SharedArchiveFile={path}"]
    done = subprocess.run([installed.java, *options], capture_output=True, text=True, check=False)
    if done.returncode or not path.exists():
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise ConfigError(f"archive: {installed.java} cannot make one: {lines[-1]}")
    return path


def _archive_classes(work: Path, base: list[Path], path: Path, tell: Callable[[str], None]) -> None:
    shared = shared_archive(*base) if base else ""
    java = f'{JAVA_SMALL} {QUIET} {shared} "-XX:ArchiveClassesAtExit={path}"'
    target = SparkTarget(f"local[{CORES}]", conf={JAVA_OPTIONS: java})
    try:
        with session(target) as spark:
            _use_all(spark, work, tell)
        tell("Java writes the archive")
        end_java()
    except BaseException:
        end_java(at_once=True)
        raise
    if not path.exists():
        raise ConfigError(
            "archive: Java wrote none; it does so if SPARK_CONF_DIR has files, or if memory or "
            "disk space is short"
        )


def _use_all(spark: SparkSession, work: Path, tell: Callable[[str], None]) -> None:
    """Do in small what the commands do, so that their classes are loaded."""
    trace, lake = work / "trace", work / "lake"
    chosen = experiment("slow-receiver")
    chosen.run(chosen.parameters({"seconds": 2, "warmup_s": 0}), 1, str(trace))
    ingest(spark, Lake(lake), trace, tell=tell)
    tell("checking a small trace")
    verdict.check(read_trace(spark, lake))
    tell("profiling a small trace")
    spark_profile.profile_trace(spark, lake)


def _remove_old(installed: SparkInstallation) -> None:
    """Remove archives of this Spark, of those that are gone, and what was never finished."""
    for folder in archives_folder().iterdir():
        if folder.name.endswith(BASE):
            if folder != installed.base and not folder.with_suffix("").with_suffix("").exists():
                folder.unlink(missing_ok=True)
            continue
        if folder.name.startswith(UNFINISHED):
            is_old = time() - folder.stat().st_mtime > _ABANDONED_S
        else:
            is_old = folder == installed.folder or not _is_of_another(folder, installed)
        if is_old:
            rmtree(folder, ignore_errors=True)


def _is_of_another(folder: Path, installed: SparkInstallation) -> bool:
    """Whether an archive belongs to another Spark and Java that are still there."""
    try:
        facts = json.loads((folder / FACTS).read_text())
        java, jars = Path(facts["java"]), Path(facts["jars"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return (java, jars) != (installed.java, installed.jars) and java.exists() and jars.exists()
