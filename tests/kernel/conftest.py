"""Both builds of the kernel."""

from types import ModuleType

import pytest

from semcast import kernel


@pytest.fixture
def compiled() -> ModuleType:
    """The compiled one, where there is one that fits."""
    try:
        return kernel.load_compiled()
    except ImportError as error:
        pytest.skip(f"no compiled kernel: {error}")


@pytest.fixture(params=["plain", "compiled"])
def build(request: pytest.FixtureRequest) -> ModuleType:
    """Each in turn."""
    if request.param == "plain":
        return kernel.plain
    built: ModuleType = request.getfixturevalue("compiled")
    return built
