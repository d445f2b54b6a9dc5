"""docs/papers.md is complete and true: what it names exists, what the source cites has a row."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text()
TAGS = ("SRB", "SRM", "SVS", "RPB", "VSD")
REASONS = ("planned", "left out, because ", "background")

# What each paper consists of, as it numbers it.
OUTLINE = {
    "SRB": """§1 §1.1 §1.2 §1.3 §2 §2.1 §2.2 §2.3 §2.4 §2.5 §3 §3.1 §3.2 §4 fig. 1 fig. 2 fig. 3
        fig. 4 TP1 TP2 TP3 TP4 TP5 TE1 TE2 lemma 1 lemma 2 lemma 3 theorem 1 theorem 2 theorem 3""",
    "SRM": """§1 §2 §3 §3.1 §3.2 §4 §4.1 §4.2 §4.3 §4.4 §5 §5.1 §5.2 §5.3 §5.4 §6 §6.1 §6.2 §6.3
        §6.4 §6.5 §7 §7.1 §7.2 §8 §9 fig. 1 fig. 2 fig. 3 fig. 4 fig. 5 fig. 6 fig. 7 fig. 8
        fig. 9 eq. 1 eq. 2 eq. 3""",
    "SVS": "§1 §2 §3 §3.1 §3.2 §4 §4.1 §4.2 §5 §5.1 §5.2 §5.3 §6 §7 fig. 1 fig. 2 fig. 3",
    "RPB": """§1 §1.1 §1.2 §1.3 §1.4 §2 §2.1 §2.2 §2.3 §3 §3.1 §3.2 §3.3 §3.4 §3.5 §4 §4.1 §4.2
        §4.2.1 §4.2.2 §4.3 §5 §5.1 §5.2 §5.3 §6 §6.1 §6.2 §7 §7.1 §7.2 §7.3 §7.4 §7.5 §8 fig. 1-1
        fig. 2-1 fig. 2-2 fig. 3-1 fig. 3-2 fig. 3-3 fig. 4-1 fig. 4-2 fig. 4-3 fig. 4-4 fig. 5-1
        fig. 5-2 fig. 5-3 fig. 7-1 fig. 7-2 fig. 7-3 fig. 7-4 fig. 7-5 fig. 7-6 fig. 7-7 fig. 7-8
        table 7.1 table 7.2 Property 2.1 Property 3.1 Property 3.2 Invariant 3.3 Property 3.4
        Property 3.5 Property 4.1 Property 5.2""",
    "VSD": """§1 §2 §3 §4 §5 §5.1 §5.2 §6 app. A fig. 1 fig. 2 fig. 3 fig. 4 fig. 5 fig. 6 fig. 7
        fig. 8 fig. 9 lemma 1 lemma 2 def. 1""",
}

_KIND = r"(?:figs?\.|eqs?\.|app\.|def\.|tables?|lemma|theorem|Property|Invariant)"
_PLACE = rf"(?:§\d[\d.]*(?:-\d[\d.]*)?|{_KIND} [\dA-Z][\d.\-]*|T[PE]\d)"
_JOINED = rf"{_PLACE}(?:(?:, |; | and | to )(?:{_PLACE}|\d[\d.\-]*))*"
CITATION = re.compile(rf"\b({'|'.join(TAGS)}) ({_JOINED})")


def rows(tag: str) -> list[list[str]]:
    """The cells of the table of one paper."""
    section = re.search(rf"^## {tag}\n(.*?)^## ", PAGE, re.M | re.S)
    assert section is not None, f"no section {tag}"
    lines = [line for line in section[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


ROWS = [(tag, row) for tag in TAGS for row in rows(tag)]


def places(tag: str, text: str) -> list[str]:
    """`fig. 2-3` is two figures, but in RPB one; `§3-5` is three sections."""
    found: list[str] = []
    kind = ""
    for name, number in re.findall(rf"(§|{_KIND} |T[PE]|\b)(\d[\d.\-]*|(?<=app\. )[A-Z])", text):
        kind = re.sub(r"(fig|eq)s\.", r"\1.", name).replace("tables", "table") or kind
        first, _, last = number.rstrip(".").partition("-")
        if last and not (tag == "RPB" and kind != "§"):
            found += [f"{kind}{n}" for n in range(int(first), int(last) + 1)]
        else:
            found.append(kind + number.rstrip("."))
    return found


def mapped(tag: str) -> set[str]:
    return {place for row in rows(tag) for place in places(tag, row[0])}


def covers(place: str) -> list[str]:
    """The place and what contains it: §5.3 is in §5."""
    around = [place]
    while place.startswith("§") and "." in place:
        place = place.rpartition(".")[0]
        around.append(place)
    return around


def cited(text: str) -> set[tuple[str, str]]:
    flat = re.sub(r"\n[ #]*", " ", text)
    return {(tag, p) for tag, where in CITATION.findall(flat) for p in places(tag, where)}


@cache
def names(path: Path) -> frozenset[str]:
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, defined))


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize(("tag", "row"), ROWS, ids=[f"{tag} {row[0]}" for tag, row in ROWS])
def test_a_row_names_what_exists(tag: str, row: list[str]) -> None:
    _, says, code, tests, note = row
    assert says.endswith((".", ")")), says
    for cell, root in ((code, ROOT / "src" / "semcast"), (tests, ROOT / "tests")):
        for named in quoted(cell):
            path, _, inside = named.partition("::")
            assert (root / path).is_file(), f"there is no {path}"
            assert not inside or inside in names(root / path), f"{path} has no {inside}"
    if not (code and tests):
        assert not code, "code without a test"
        assert note.startswith(REASONS), "no code, and no reason"


@pytest.mark.parametrize("tag", TAGS)
def test_every_part_of_a_paper_has_a_row(tag: str) -> None:
    outline = set(places(tag, " ".join(OUTLINE[tag].split())))
    assert outline <= mapped(tag), f"no row for {sorted(outline - mapped(tag))}"
    assert mapped(tag) <= outline, f"{tag} has no {sorted(mapped(tag) - outline)}"


def test_every_citation_in_the_source_has_a_row() -> None:
    count = 0
    for path in sorted((ROOT / "src" / "semcast").rglob("*.py")):
        for tag, place in cited(path.read_text()):
            count += 1
            found = mapped(tag) & set(covers(place))
            assert found, f"{path.name} cites {tag} {place}, docs/papers.md has no row for it"
    assert count > 100


def test_commands_and_files_beside_the_tables_exist() -> None:
    from semcast.experiments.figures import FIGURES
    from semcast.experiments.registry import EXPERIMENTS

    runs = {"figures": {*FIGURES, "NAME"}, "sim": {*EXPERIMENTS, "NAME", "swarm", "mutants"}}
    found = re.findall(r"`semcast (figures|sim) ([\w-]+)", PAGE)
    assert len(found) > 20
    for command, name in found:
        assert name in runs[command], f"there is no semcast {command} {name}"
    for path in re.findall(r"`((?:tests|examples|src)/[\w./]+)`", PAGE):
        assert (ROOT / path).exists(), f"there is no {path}"
    for path in re.findall(r"\(`([\w/]+\.py)`\)", PAGE):
        assert (ROOT / "src" / "semcast" / path).is_file(), f"there is no {path}"


def test_decisions_are_called_by_their_numbers() -> None:
    links = re.findall(r"\[(\d{4})\]\(decisions/(\S+?)\)", PAGE)
    assert links
    for number, target in links:
        assert target.startswith(f"{number}-"), f"{number} leads to {target}"
        assert (ROOT / "docs" / "decisions" / target).is_file(), f"there is no {target}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[SRM §5.3]", {("SRM", "§5.3")}),
        (
            "[SRM §2, fig. 1; §6.5, fig. 8]",
            {("SRM", p) for p in ("§2", "fig. 1", "§6.5", "fig. 8")},
        ),
        ("[SRM fig. 2-3]", {("SRM", "fig. 2"), ("SRM", "fig. 3")}),
        ("SRM figs. 1 and 8", {("SRM", "fig. 1"), ("SRM", "fig. 8")}),
        ("[RPB §4.2, fig. 4-2]", {("RPB", "§4.2"), ("RPB", "fig. 4-2")}),
        ("[VSD §3-5]", {("VSD", "§3"), ("VSD", "§4"), ("VSD", "§5")}),
        ("[VSD app. A].", {("VSD", "app. A")}),
        ("[RPB §3.1, Property\n    3.1]", {("RPB", "§3.1"), ("RPB", "Property 3.1")}),
        ("[SRB §2.3, TP4 and TP5]", {("SRB", "§2.3"), ("SRB", "TP4"), ("SRB", "TP5")}),
    ],
)
def test_citations_are_read_as_meant(text: str, found: set[tuple[str, str]]) -> None:
    assert cited(text) == found
