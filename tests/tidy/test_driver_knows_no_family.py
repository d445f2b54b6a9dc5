"""The one driver and what is around it serve every family: they know none, and no machine."""

import ast
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "src" / "semcast" / "runtime"
SHARED = ["driver", "port", "mailbox", "channel", "session", "snapshot_builder", "clock", "group"]


@pytest.mark.parametrize("name", SHARED)
def test_it_imports_no_family(name: str) -> None:
    [path] = RUNTIME.rglob(f"{name}.py")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            assert not node.module.startswith("semcast.core"), ast.unparse(node)
            assert not node.module.startswith("semcast.families."), ast.unparse(node)


def test_effects_are_carried_out_in_one_place() -> None:
    found = [path.name for path in RUNTIME.rglob("*.py") if ".persist" in path.read_text()]
    assert found == ["driver.py"]
