"""The fake wire of `tests/core`, which test modules imported by path cannot import themselves."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def wire():
    """The class `DirectedLink`: `wire(recipe, ready=…)` joins the members of a recipe."""
    path = Path(__file__).parent.parent / "core" / "wire.py"
    spec = importlib.util.spec_from_file_location("wire", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Wire
