"""The fake wire as a fixture: test modules are imported by path, so they cannot import siblings."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wire", Path(__file__).with_name("wire.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def wire():
    """The class `DirectedLink`: `wire(recipe, ready=…)` joins the members of a recipe."""
    return _load().Wire
