"""The Java of a session starts, answers and ends; whatever it prints, nobody sees."""

import os
from pathlib import Path
from time import monotonic, sleep

import pytest

from semcast.pipeline.java_process import JavaProcess, spark_home

ANSWER = """
printf '\\000\\000\\020\\222\\000\\000\\000\\003abc' >"$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
cat
"""


@pytest.fixture
def submit(monkeypatch, tmp_path):
    """`submit(body)` makes a script stand for Java."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()

    def write(body):
        script = tmp_path / "spark" / "bin" / "spark-submit"
        script.parent.mkdir(parents=True)
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)

    return write


def left_in(tmp_path):
    return list((tmp_path / "tmp").iterdir())


def test_it_answers_and_ends(submit, tmp_path, capfd):
    submit(f'echo "$@"; echo [warning] >&2{ANSWER}exit 3')
    java = JavaProcess({"spark.a": "b c", "spark.master": "local[2]"})
    with java.connecting():
        assert os.environ["PYSPARK_GATEWAY_PORT"] == str(0x1092)
        assert os.environ["PYSPARK_GATEWAY_SECRET"] == "abc"
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
    assert left_in(tmp_path) == []
    assert java.printed() == [
        "--conf=spark.a=b c --conf=spark.master=local[2] pyspark-shell",
        "[warning]",
    ]
    assert java.stop() == 3
    assert capfd.readouterr() == ("", "")


def test_it_ends_before_it_answers(submit, tmp_path):
    submit("echo Error: no room; exit 1")
    java = JavaProcess({})
    with pytest.raises(ChildProcessError, match="exit code 1"), java.connecting():
        pass
    assert java.printed() == ["Error: no room"]
    java.kill()
    assert left_in(tmp_path) == []


def test_it_is_killed_with_what_it_started(submit, tmp_path):
    submit(f'sleep 600 & echo $! >"{tmp_path}/child"; wait')
    java = JavaProcess({})
    until = monotonic() + 60
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
        assert monotonic() < until
        sleep(0.01)
    java.kill()
    assert left_in(tmp_path) == []
    child = Path("/proc", (tmp_path / "child").read_text().strip())
    while child.exists() and "(sleep) Z" not in (child / "stat").read_text():
        assert monotonic() < until
        sleep(0.01)


def test_the_spark_of_the_package(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert (spark_home() / "jars").is_dir()
