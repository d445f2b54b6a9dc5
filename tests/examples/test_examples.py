"""Every example runs as it stands, ends by itself, and finds true what it claims."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ON_SPARK = {"profile_stream.py", "sweep_and_report.py"}  # run by tests/pipeline, in its session
DEADLINE_S = 120


@pytest.mark.parametrize(
    "example", sorted({path.name for path in EXAMPLES.glob("*.py")} - ON_SPARK)
)
def test_an_example(example, tmp_path):
    environment = {
        **os.environ,
        "XDG_RUNTIME_DIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "SEMCAST_KEYS": str(tmp_path / "keys"),
    }
    ran = subprocess.run(
        [sys.executable, EXAMPLES / example],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for line in ran.stderr.splitlines():  # A slow member may say that it is slow.
        assert line.startswith("no key: ") or ": this member is slow: " in line, ran.stderr
    assert "False" not in ran.stdout


def test_all_of_them_are_explained():
    page = (EXAMPLES / "README.md").read_text()
    assert all(path.name in page for path in EXAMPLES.glob("*.py"))
