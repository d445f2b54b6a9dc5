"""The table of events says what events are, and everything that depends on it follows."""

import os
from pathlib import Path

import pytest

from semcast.sim.swarm import run_seed, swarms
from semcast.terms.events import ATTRIBUTES, DEFAULTS, EVENT_FIELDS, FIRST, Event, in_journal
from semcast.traces.trace_page import page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "trace.md"


def test_the_page_is_made_from_the_table() -> None:
    if os.environ.get("SEMCAST_RECORD"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "python -m semcast.traces.trace_page > docs/trace.md"


@pytest.mark.parametrize("protocol", sorted(swarms()))
def test_events_have_only_the_fields_of_their_kind(protocol: str) -> None:
    events: list[Event] = []
    for seed in range(3):
        run_seed(protocol, None, seed, events.append)
    for event in events:
        for name, column in EVENT_FIELDS.items():
            if getattr(event, name) != DEFAULTS[name]:
                assert event.kind in column.kinds, (event.kind, name)
        for name, attribute in ATTRIBUTES.items():
            if name != "lineage" and getattr(event, name) != DEFAULTS[name]:
                assert event.kind in attribute.names, (event.kind, name)


def test_every_field_is_described() -> None:
    described = {*EVENT_FIELDS, *ATTRIBUTES, "message"}
    assert described == set(Event.__struct_fields__)


def test_the_first_part_of_a_journal_never_changes() -> None:
    """`Journal.record` writes it field by field, because that is fastest."""
    fixed = ("kind", "sender", "seq", "by_seq", "note", "peer", "buffered")
    assert in_journal(FIRST) == fixed
