"""The examples on Spark run as they stand, in the open session, and find true what they claim."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("example", ["profile_stream.py", "sweep_and_report.py"])
def test_an_example(
    spark: SparkSession,
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    said = capsys.readouterr().out
    assert said
    assert "False" not in said
