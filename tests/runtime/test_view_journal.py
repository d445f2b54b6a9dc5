"""The journal of a member with views: one for each lineage, whatever the disk does meanwhile."""

from types import SimpleNamespace

import pytest

from semcast.core.views.recipe import ViewRecipe
from semcast.runtime.storage.recording import ViewJournal
from semcast.terms.errors import SemcastError
from semcast.terms.events import INSTALL, SUSPECT, Event
from semcast.terms.ids import Incarnation
from semcast.traces.journal_file import read_journal


def journal(trace):
    options = SimpleNamespace(trace=trace, group="quotes", name="a", protocol="s-vsm", order="fifo")
    return ViewJournal(options, ViewRecipe())


def install(inc, lineage):
    return [Event(INSTALL, 7, inc=inc, view=1, members=(7,), lineage=lineage)]


def suspect(inc):
    return [Event(SUSPECT, 7, peer=8, inc=inc)]


def recorded(trace):
    """By file, the kinds of its events."""
    found = {}
    for path in sorted((trace / "journals").glob("*.journal")):
        header, batches = read_journal(path)
        found[header.inc] = [event.kind for batch in batches for event in batch.events]
    return found


def test_a_life_in_another_lineage_begins_another_journal(tmp_path):
    made = journal(tmp_path)
    made.record(suspect(10), 1)
    made.record(install(10, 5), 2)
    made.record(suspect(10), 3)
    made.record(suspect(11), 4)
    made.record(install(11, 6), 5)
    made.close()
    assert recorded(tmp_path) == {10: [INSTALL, SUSPECT], 11: [INSTALL]}


def test_a_journal_that_cannot_be_begun_leaves_the_one_before(tmp_path):
    """The driver then stops recording, and the member goes on."""
    made = journal(tmp_path)
    made.record(install(10, 5), 1)
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(SemcastError):
        made.record(install(11, 6), 2)
    made.record(suspect(10), 3)
    made.close()
    assert recorded(tmp_path) == {10: [INSTALL, SUSPECT]}


def test_a_journal_that_is_begun_too_late_is_closed(tmp_path):
    """A join was given up while a thread waited for the disk."""
    made = journal(tmp_path)
    made.close()
    made.begin(5, Incarnation(7, 10))
    assert made._current._file < 0


async def test_a_member_goes_on_when_its_trace_ends(join, tmp_path, caplog):
    group = await join("a", members=1, protocol="s-vsm", trace=tmp_path)
    group._driver._sink.record = fail
    await group.multicast(b"1")
    assert (await group.receive())[0].payload == b"1"
    assert "stopped recording: the trace is gone" in caplog.text
    await group.close()


def fail(*_):
    raise SemcastError("the trace is gone")
