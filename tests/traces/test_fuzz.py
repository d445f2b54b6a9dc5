"""Whatever a journal or a trace says: only `BadFile` escapes, and nothing outside is touched.

The targets are those of `bench/fuzz.py --files`, which runs many more inputs, guided by coverage.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.terms.events import MULTICAST, RECEIVE, Event
from semcast.terms.messages import DataMessage
from semcast.traces.errors import BadFile
from semcast.traces.journal import Journal
from semcast.traces.journal_file import JournalHeader
from semcast.traces.parquet import read_trace
from semcast.traces.schema import ITEM_COLUMNS
from semcast.traces.tables import read_rows

BENCH = str(Path(__file__).parents[2] / "bench")
sys.path.insert(0, BENCH)
try:
    import fuzz_files as targets
finally:
    sys.path.remove(BENCH)

SEEDS = list(targets.seeds())
HEADER = JournalHeader(
    run_id=7,
    pid=0,
    names=("a", "b"),
    incarnations=(4, 5),
    group="g",
    protocol="s-rm",
    order="fifo",
    relation="item",
    f=0,
)
EXAMPLES = {"journals": 300, "settling": 60, "tables": 60}


@pytest.mark.parametrize("name", EXAMPLES)
def test_any_bytes_are_survived(name: str) -> None:
    target = next(each for each in targets.TARGETS if each.__name__ == name)

    @given(script=st.binary(max_size=150))
    @settings(max_examples=EXAMPLES[name])
    def survive(script: bytes) -> None:
        target(script)

    survive()


@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(st.tuples(st.integers(1, 80), st.integers(0, 255)), max_size=8),
    more=st.binary(max_size=60),
)
@settings(max_examples=200)
def test_what_is_almost_valid_is_survived(
    seed: bytes, edits: list[tuple[int, int]], more: bytes
) -> None:
    data = bytearray(seed)
    for place, value in edits:
        data[place % len(data)] = value
    targets.one_input(bytes(data) + more)


@pytest.fixture(scope="module")
def good() -> Iterator[bytes]:
    """What a process left."""
    with TemporaryDirectory() as folder:
        journal = Journal(folder, HEADER, extent=256)
        journal.record(
            [Event(MULTICAST, 0, 0, 1, DataMessage(0, 1, 5, payload=b"x", name="five"))], 1
        )
        journal.record([Event(RECEIVE, 0, 1, seq) for seq in range(1, 4)], 2)
        journal._release()
        yield journal.path.read_bytes()


@given(
    edits=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), min_size=1, max_size=6),
    cut=st.none() | st.integers(0, 400),
)
@settings(max_examples=100)
def test_bytes_of_a_good_journal_may_change(
    good: bytes, edits: list[tuple[int, int]], cut: int | None
) -> None:
    """It is read up to there or refused and kept, and what is beside the trace stays."""
    content = bytearray(good)
    for place, value in edits:
        content[place % len(content)] ^= value
    with TemporaryDirectory() as folder:
        trace, mine = Path(folder, "trace"), Path(folder, "mine")
        mine.write_bytes(b"mine")
        path = trace / "journals" / "7-0-4.journal"
        path.parent.mkdir(parents=True)
        path.write_bytes(content[:cut])
        try:
            events = read_trace(trace).events
            assert [event.kind for event in events] == [MULTICAST, *[RECEIVE] * 3][: len(events)]
            assert not path.exists()
        except BadFile:
            assert path.read_bytes() == content[:cut]
        assert sorted(Path(folder).iterdir()) == [mine, trace]
        assert mine.read_bytes() == b"mine"


@pytest.mark.parametrize("change", [1, 10, 255])
def test_each_byte_of_a_table_may_change(tmp_path: Path, change: int) -> None:
    """At some of them pyarrow's datasets hang or end the process."""
    good = (targets._good_trace() / "items.parquet").read_bytes()
    file = tmp_path / "items.parquet"
    refused = 0
    for place in range(len(good)):
        file.write_bytes(good[:place] + bytes((good[place] ^ change,)) + good[place + 1 :])
        try:
            read_rows(file, ITEM_COLUMNS, ("run_id",), 7)
        except BadFile:
            refused += 1
    assert 0 < refused <= len(good)


def test_the_targets_go_deep() -> None:
    """Most seeds are journals that are read, so a change of one finds what it changes."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        targets._write_journal(trace / "journals", targets.Script(bytes(4) + bytes(range(60))))
        assert read_trace(trace) is not None


def test_the_targets_see_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that cannot fail is decoration: here every kind is believed."""
    monkeypatch.setattr("semcast.traces.journal_file.kind_fault", lambda kind: None)
    rng = Random(1)
    broken = 0
    for _ in range(200):
        script = bytes((0, 0, 0, 1, 1)) + rng.randbytes(60)
        try:
            targets.journals(script[1:])
            targets.settling(script)
        except Exception:
            broken += 1
    assert broken > 0
