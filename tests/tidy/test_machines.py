"""Drivers, judges and experiments treat a machine as a `Machine`: they read nothing else of it.

A machine says what it is like in `status`, and what happened in its outputs.  Whoever reads its
parts instead is broken by the next change of them, and works for one family only.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from semcast.core.member import Member
from semcast.core.pubsub.participant import Participant
from semcast.core.views.member import ViewMember
from semcast.terms.machine import Machine

SOURCE = Path(__file__).parents[2] / "src" / "semcast"
OUTSIDE = [
    path
    for package in ("sim", "runtime", "experiments", "cli")
    for path in sorted((SOURCE / package).rglob("*.py"))
    if path.stem != "mutants"  # They break machines from inside, on purpose.
]
GIVEN = {"recipe", "rank", "pid", "life"}  # what a machine's maker gave it, which never changes
ALLOWED = {name for name in dir(Machine) if not name.startswith("_")} | {"deadline"} | GIVEN
HOLDERS = {"member", "participant", "machine"}  # names that machines go by
ELSEWHERE = {"buffer", "recovery", "roster", "trace"}  # also options, and what is gathered
NO_MACHINES = {"self", "rates"}


def parts() -> set[str]:
    """The machines inside a machine, by the names that they have there."""
    found = set()
    for kind in (Member, ViewMember, Participant):
        for node in ast.walk(ast.parse(inspect.getsource(kind.__init__).lstrip())):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                made = ast.unparse(node.value.func)
                found |= {ast.unparse(each)[5:] for each in node.targets if made[0].isupper()}
    return found - ELSEWHERE


def reaches(tree: ast.AST, inner: set[str]) -> Iterator[str]:
    """Expressions that look into a machine: `host.member.told`, `m.buffers` of any `m`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in NO_MACHINES:
            holder = ast.unparse(node.value).rpartition(".")[2]
            if node.attr in inner or (holder in HOLDERS and node.attr not in ALLOWED):
                yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nobody_reaches_into_a_machine(path: Path) -> None:
    assert list(reaches(ast.parse(path.read_text()), parts())) == []


@pytest.mark.parametrize(
    "bad",
    [
        "host.member.buffers.messages",
        "len(station.member.members)",
        "self.member.is_drained",
        "[sum(m.receiver.frontier) for m in members]",
        "self.participant.publisher",
    ],
)
def test_reaching_in_is_noticed(bad: str) -> None:
    assert list(reaches(ast.parse(bad), parts()))


def test_what_a_driver_may_do_is_not() -> None:
    good = "self.member.on_time(now, out); member.status(now).held; members[0].recipe.f"
    assert not list(reaches(ast.parse(good), parts()))
