"""An archive of Java classes is used only if it is whole and of this Java and Spark."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from semcast.cli.doctor import class_archive as doctor_checks
from semcast.pipeline import archive_making
from semcast.pipeline.archive_making import make_archive
from semcast.pipeline.class_archive import (
    BASE,
    CLASSES,
    FACTS,
    QUIET,
    archives_folder,
    find_archive,
    installation,
    java_options,
    shared_archive,
)
from semcast.pipeline.java import java_program
from semcast.terms.errors import ConfigError
from semcast.traces.files import UNFINISHED


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """A Java and a Spark that are nothing but names, and an empty cache."""
    java, spark = tmp_path / "jdk" / "bin" / "java", tmp_path / "spark"
    for file in (java, spark / "jars" / "spark-core_2.13-4.3.0.jar", spark / "jars" / "x.jar"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    java.chmod(0o755)
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')
    (tmp_path / "jdk" / "lib" / "server").mkdir(parents=True)
    (tmp_path / "jdk" / "lib" / "server" / CLASSES).write_text("of Java itself")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("SPARK_HOME", str(spark))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def java_writes(monkeypatch):
    """In place of a session, only the file that Java would write."""

    def archive(work, base, path, tell):
        path.write_text(f"classes of {[each.name for each in base]}")

    monkeypatch.setattr(archive_making, "_archive_classes", archive)


def test_none_at_first(installed):
    assert find_archive() is None
    assert java_options() == ""
    assert [each.status for each in doctor_checks()] == ["warn"]


def test_made_and_found(installed, java_writes):
    folder = make_archive()
    assert folder.name.startswith("spark-4.3.0-java-17.0.15-")
    assert find_archive() == folder
    assert shlex.split(java_options())[-1] == f"-XX:SharedArchiveFile={folder / CLASSES}"
    assert [(each.status, each.found) for each in doctor_checks()] == [("ok", str(folder))]


@pytest.mark.parametrize(
    "change",
    [
        lambda at: (at / "spark/jars/x.jar").write_text("22"),
        lambda at: os.utime(at / "spark/jars/x.jar", (1, 1)),
        lambda at: (at / "spark/jars/y.jar").write_text("1"),
        lambda at: (at / "jdk/bin/java").write_text("22"),
        lambda at: (at / "jdk/release").write_text('JAVA_VERSION="17.0.16"\n'),
        lambda at: (at / "jdk/lib/server" / CLASSES).write_text("of another build"),
        lambda at: (find_archive() / CLASSES).write_text("c"),
        lambda at: (find_archive() / CLASSES).write_text("CLASSES of []"),
        lambda at: (find_archive() / CLASSES).unlink(),
        lambda at: (find_archive() / FACTS).write_text("{"),
        lambda at: (find_archive() / FACTS).write_text("[]"),
        lambda at: (find_archive() / FACTS).unlink(),
    ],
    ids=[
        *("another-jar", "a-newer-jar", "one-more-jar", "another-java", "another-version"),
        *(
            "another-build",
            "truncated",
            "bad-header",
            "no-archive",
            "bad-facts",
            "wrong-facts",
            "no-facts",
        ),
    ],
)
def test_what_makes_it_useless(installed, java_writes, change):
    make_archive()
    assert find_archive() is not None
    change(installed)
    assert find_archive() is None


def test_that_of_another_user_is_not_trusted(installed, java_writes, monkeypatch):
    make_archive()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert find_archive() is None


def test_without_home_java_or_spark(installed, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(installed / "nowhere"))
    assert find_archive() is None
    with pytest.raises(ConfigError, match="there is no Spark here"):
        make_archive()
    monkeypatch.setattr(Path, "home", lambda: Path("~").expanduser().joinpath("/nowhere"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert find_archive() is None


def test_the_new_takes_the_place_of_the_old(installed, java_writes):
    """Also one of another version, and one whose Spark is gone; that of another Spark stays."""
    first = make_archive()
    gone, other = first.with_name("gone"), first.with_name("other")
    for folder, jars in ((gone, installed / "gone"), (other, installed / "jdk")):
        folder.mkdir()
        facts = {"java": str(java_program()), "jars": str(jars)}
        (folder / FACTS).write_text(json.dumps(facts))
    abandoned, recent = (first.with_name(UNFINISHED + name) for name in ("abandoned", "recent"))
    for folder in (abandoned, recent):
        folder.mkdir()
    os.utime(abandoned, (1, 1))
    (installed / "jdk" / "release").write_text('JAVA_VERSION="21"\n')
    second = make_archive()
    assert second == find_archive() != first
    assert {each.name for each in archives_folder().iterdir()} == {
        second.name,
        "other",
        recent.name,
    }


def test_nothing_is_left_by_a_failure(installed, monkeypatch):
    for failure in (KeyboardInterrupt, OSError("disk full")):

        def fail(work, base, path, tell, failure=failure):
            path.write_text("half of")
            raise failure

        monkeypatch.setattr(archive_making, "_archive_classes", fail)
        with pytest.raises((KeyboardInterrupt, OSError)):
            make_archive()
        assert list(archives_folder().iterdir()) == []


def test_a_cache_that_cannot_be_written(installed, java_writes, monkeypatch):
    (installed / "cache").write_text("a file")
    with pytest.raises(OSError, match="cache"):
        make_archive()
    assert find_archive() is None


def test_a_java_without_an_archive_of_its_own_gets_one(installed, java_writes):
    (installed / "jdk" / "lib" / "server" / CLASSES).unlink()
    (installed / "jdk" / "bin" / "java").write_text(
        '#!/bin/sh\nfor each do case $each in *File=*) echo base >"${each#*=}";; esac; done\n'
    )
    folder = make_archive()
    base = folder.with_name(f"{folder.name}.{BASE}")
    assert (folder / CLASSES).read_text() == f"classes of ['{base.name}']"
    assert shlex.split(java_options())[-1].endswith(f"={base}:{folder / CLASSES}")
    make_archive()
    assert {each.name for each in archives_folder().iterdir()} == {folder.name, base.name}
    assert find_archive() == folder
    base.write_text("another")
    assert find_archive() is None
    (installed / "jdk" / "bin" / "java").write_text("#!/bin/sh\necho no room; exit 1\n")
    with pytest.raises(ConfigError, match="cannot make one: no room"):
        make_archive()
    assert not base.exists()


def test_java_ignores_a_damaged_archive_without_a_word(tmp_path):
    """With the very options of a session; the archive is that of a Java that did nothing.

    A bad header ends Java 17, but `find_archive` sees that one.
    """
    java, base, archive = str(java_program()), tmp_path / BASE, tmp_path / CLASSES
    made = shared_archive(base).strip('"')
    subprocess.run([java, "-Xshare:dump", made], check=True, capture_output=True)
    subprocess.run(
        [java, made, f"-XX:ArchiveClassesAtExit={archive}", "-version"],
        check=True,
        capture_output=True,
    )
    options = shlex.split(f"{QUIET} -XX:+VerifySharedSpaces {shared_archive(base, archive)}")
    said = _version(java, "-Xshare:off")
    for file in (archive, base):
        whole, middle = file.read_bytes(), file.stat().st_size // 2
        for content in (
            whole,
            whole[:middle] + bytes(512) + whole[middle + 512 :],
            None,
        ):
            file.unlink()
            if content is not None:
                file.write_bytes(content)
            assert _version(java, *options).replace(", sharing", "") == said
            if file == base:
                assert (", sharing" in _version(java, *options)) == (content is whole)
        file.write_bytes(whole)


def _version(java, *options):
    """What Java prints to standard output; nothing else."""
    done = subprocess.run([java, *options, "--version"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(not os.environ.get("SOAK"), reason="a minute, for the real thing")
def test_the_real_one(tmp_path, record):
    """Made by the command, used by the next one, whose JSON is alone on standard output."""
    assert which("java") or os.environ.get("JAVA_HOME") or java_program()
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "semcast"]
    subprocess.run([*command, "spark-archive"], env=env, check=True)
    trace = record(tmp_path / "trace")
    answers = []
    for cache in ("cache", "none"):
        done = subprocess.run(
            [*command, "profile", str(trace), "--master", "local[2]", "--json"],
            env={**env, "XDG_CACHE_HOME": str(tmp_path / cache)},
            capture_output=True,
            text=True,
            check=True,
        )
        [line] = done.stdout.splitlines()
        answers.append(json.loads(line))
    assert answers[0] == answers[1]


def test_the_installation_here_is_known():
    found = installation()
    assert found is not None
    assert found.spark_version[0].isdigit()
    assert found.java.exists()
