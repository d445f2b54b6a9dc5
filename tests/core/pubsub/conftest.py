"""The fake wire as a fixture: test modules are imported by path, so they cannot import siblings."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    path = Path(__file__).with_name("group.py")
    spec = importlib.util.spec_from_file_location("pubsub_group", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def group():
    """The class `Group`: `group(recipe)` joins the processes of a recipe."""
    return _load().Group
