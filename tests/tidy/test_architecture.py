"""The map agrees with the country: what the documents name is where they say."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "semcast"
DOCUMENTS = [ROOT / "docs" / name for name in ("architecture.md", "machines.md")]
FENCED = re.compile(r"```.*?```", re.DOTALL)
OTHER_NAMES = {"Parquet"}  # In pictures, every other word with a capital letter is a class.
PLACEHOLDER = "NAME"
# A line of the picture of a way: `Class` or `Class.method`, and its file.
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
    return re.findall(r"`([^`\n]+)`", FENCED.sub("", document.read_text()))


def drawn(document: Path) -> list[str]:
    """The classes and methods that the pictures of a document name."""
    pictures = " ".join(FENCED.findall(document.read_text()))
    found = re.findall(r"(?<![\w/])[A-Z][a-z]\w*(?:\.[a-z_]\w*)?", pictures)
    return [name for name in found if name not in OTHER_NAMES]


def is_defined(name: str) -> bool:
    owner, _, method = name.partition(".")
    return owner in CLASSES and (not method or method in CLASSES[owner])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_and_class_exists(document: Path) -> None:
    unknown = []
    folder = ""  # of the path before: a bare name after it is in the same one
    for name in quoted(document):
        if re.fullmatch(r"[\w/*]+\.py|[\w*]+(/[\w*]+)*/", name):
            path = name.replace(PLACEHOLDER, "*")
            folder = path.rpartition("/")[0] or folder
            bare = document.name == "machines.md"  # Its tables name files of one package.
            places = [*SOURCE.glob(path), *ROOT.glob(path), *(SOURCE / folder).glob(path)]
            places += SOURCE.rglob(path) if bare else ()
            unknown += [] if places else [name]
        elif match := re.fullmatch(r"([A-Z][a-z]\w+(?:\.\w+)?)(?:\(.*\))?", name):
            unknown += [] if is_defined(match[1]) else [name]
    assert unknown == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_class_in_a_picture_exists(document: Path) -> None:
    assert [name for name in drawn(document) if not is_defined(name)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_each_step_of_a_message_or_request_is_where_the_picture_says(document: Path) -> None:
    steps = [step for each in FENCED.findall(document.read_text()) for step in STEP.findall(each)]
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


@pytest.mark.parametrize("name", ["NoSuchClass", "Member.no_such_method"])
def test_a_wrong_name_in_a_picture_would_be_found(name: str, tmp_path: Path) -> None:
    document = tmp_path / "machines.md"
    document.write_text(f"```\n submit ──► Member ─► {name}: Parquet, UDP\n```\n")
    with pytest.raises(AssertionError, match=name):
        test_every_class_in_a_picture_exists(document)
