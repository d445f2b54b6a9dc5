"""Every example runs as it stands, ends by itself, and finds true what it claims."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ON_SPARK = {"profile_stream.py", "sweep_and_report.py"}  # run by tests/pipeline, in its session
DEADLINE_S = 120
COLUMNS = 80  # of most terminals


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
    for line in ran.stderr.splitlines():  # What a member may say on a busy machine, too.
        assert re.match(r"no key: |group \S+: (this member is slow|waiting for)", line), ran.stderr
    assert max(map(len, ran.stdout.splitlines())) <= COLUMNS, ran.stdout
    assert "False" not in ran.stdout


def test_all_of_them_are_explained():
    page = (EXAMPLES / "README.md").read_text()
    assert all(path.name in page for path in EXAMPLES.glob("*.py"))
