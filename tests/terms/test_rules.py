"""Every event and every guarantee has a rule, and every rule a section that the papers have."""

import re
from pathlib import Path

import pytest

from semcast.terms.events import DELIVERY, KINDS, PURGE, RETRANSMISSION
from semcast.terms.promises import PROPERTIES
from semcast.terms.rules import EVENT_RULES, GUARANTEE_RULES, PUBSUB_RULES, rule_of

PAPERS = (Path(__file__).parents[2] / "docs" / "papers.md").read_text()


def test_every_kind_has_a_rule_whatever_its_note():
    for kind in KINDS:
        assert rule_of(kind, "no such note").sentence
        assert rule_of(kind, "", "rpbcast").sentence


def test_every_guarantee_says_what_it_means_when_it_is_broken():
    assert GUARANTEE_RULES.keys() == PROPERTIES


def test_the_note_and_the_protocol_choose_the_rule():
    at_once, when_safe = rule_of(PURGE, DELIVERY), rule_of(PURGE, RETRANSMISSION)
    assert "at once" in at_once.sentence
    assert "safe" in when_safe.sentence
    assert rule_of("nack", "4-6", "s-rm").source == "SRM §5.3"
    assert rule_of("nack", "4-6", "rpbcast").source == "RPB §4.3"


@pytest.mark.parametrize(
    "source",
    sorted(
        {
            rule.source
            for table in (EVENT_RULES, PUBSUB_RULES, GUARANTEE_RULES)
            for rule in table.values()
        }
    ),
)
def test_the_papers_map_has_the_section(source):
    paper, place = source.split(" ", 1)
    part = PAPERS.split(f"\n## {paper}\n")[1].split("\n## ")[0]
    places = re.findall(r"^\| ([^|]+) \|", part, flags=re.MULTILINE)
    assert any(place in re.split(", ", cell) for cell in places), f"{source} has no row"
