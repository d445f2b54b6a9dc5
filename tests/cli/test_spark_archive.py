"""The screen of `semcast spark-archive`, without the minute that making an archive takes."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from semcast.cli.main import main
from semcast.pipeline import archive_making


@pytest.fixture
def made(monkeypatch):
    """The folder of an archive that is made at once; its path is short, and so not broken."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "classes.jsa").write_bytes(b"x" * 2_000_000)
        monkeypatch.setattr(archive_making, "make_archive", lambda: folder)
        yield folder


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_screen(columns, made, terminal, monkeypatch):
    shown = terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["spark-archive"]) == 0
    wait, *lines = shown.getvalue().split("\r\x1b[K")[1:]
    assert wait == "archiving Spark's Java classes (about 40 s)"
    lines = "".join(lines).splitlines()
    assert "ok  Spark starts faster from now on (2 MB, 0 s)" in lines[0]
    assert lines[1:] == [str(made), "", "next: semcast doctor"]
    assert max(map(len, [wait, *lines])) <= columns


def test_a_program_gets_the_folder(made, semcast):
    answer = semcast("spark-archive", "--json").answer
    assert (answer["folder"], answer["bytes"]) == (str(made), 2_000_000)
