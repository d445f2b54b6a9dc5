"""The map agrees with the country: what the documents name is where they say."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "semcast"
DOCUMENTS = [ROOT / "docs" / name for name in ("architecture.md", "machines.md")]
PICTURE = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
PLACEHOLDER = "NAME"
# A line of the picture of the way of a message: `Class` or `Class.method`, and its file.
STEP = re.compile(r"^[ │├└─┊]*(?P<names>[A-Za-z_][\w., ]*?)  +(?P<path>[\w/]+\.py)", re.MULTILINE)


def members(path: Path) -> dict[str, set[str]]:
    """The classes that a file defines, each with what it defines in turn."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            named = [getattr(each, "target", each) for each in node.body]  # of a field
            found[node.name] = {
                str(getattr(each, "name", getattr(each, "id", ""))) for each in named
            }
    return found


CLASSES = {name: parts for path in SOURCE.rglob("*.py") for name, parts in members(path).items()}


def quoted(document: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_and_class_exists(document: Path) -> None:
    unknown = []
    for name in quoted(document):
        if re.fullmatch(r"[\w/*]+\.py|[\w*]+(/[\w*]+)*/", name):
            path = name.replace(PLACEHOLDER, "*")
            bare = document.name == "machines.md"  # Its tables name files of one room.
            places = [*SOURCE.glob(path), *ROOT.glob(path), *(SOURCE.rglob(path) if bare else ())]
            unknown += [] if places else [name]
        elif match := re.fullmatch(r"([A-Z][a-z]\w+)(?:\.(\w+))?(?:\(.*\))?", name):
            owner, method = match.groups()
            if owner not in CLASSES or (method and method not in CLASSES[owner]):
                unknown.append(name)
    assert unknown == []


def test_each_step_of_a_message_is_where_the_picture_says() -> None:
    steps = STEP.findall(PICTURE)
    assert len(steps) >= 15
    for names, path in steps:
        defined = members(SOURCE / path)
        for name in names.split(", "):
            owner, _, method = name.partition(".")
            assert owner in defined, f"{path} has no class {owner}"
            assert not method or method in defined[owner], f"{path} has no {name}"


def test_a_wrong_name_would_be_found(tmp_path: Path) -> None:
    document = tmp_path / "architecture.md"
    document.write_text("`core/no_such_file.py`, `NoSuchClass`, `Member.no_such_method`\n")
    with pytest.raises(AssertionError, match="no_such_file"):
        test_every_file_and_class_exists(document)
