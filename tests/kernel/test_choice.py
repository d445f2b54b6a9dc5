"""Which build runs, and what is said where it is not the compiled one."""

import os
import subprocess
import sys
from types import ModuleType

import pytest

from semcast import kernel
from semcast.terms.errors import ConfigError

COMPILED = "semcast.kernel.compiled"


def run(code: str, asked: str) -> str:
    """What a fresh process says."""
    environment = os.environ | {"SEMCAST_KERNEL": asked}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("asked", ["plain", "compiled"])
def test_the_environment_chooses(asked, request):
    if asked == "compiled":
        request.getfixturevalue("compiled")
    code = "from semcast import kernel as k; print(k.BUILD, k.take_fitting.__module__)"
    assert run(code, asked) == f"{asked} semcast.kernel.{asked}"


def test_the_compiled_one_is_the_default(compiled):
    assert kernel.select_build("") == (compiled, "")


def test_other_words_are_refused():
    with pytest.raises(
        ConfigError, match="SEMCAST_KERNEL: unknown value 'fast'; allowed: plain, compiled"
    ):
        kernel.select_build("fast")


def without(reason: str) -> None:
    """The plain one runs and says why; who insists is told."""
    assert kernel.select_build("") == (kernel.plain, reason)
    with pytest.raises(ConfigError, match=f"SEMCAST_KERNEL: no compiled kernel: {reason}; "):
        kernel.select_build("compiled")


def test_not_built(monkeypatch):
    monkeypatch.setitem(sys.modules, COMPILED, None)
    without("not built")


def test_built_from_another_source(monkeypatch, compiled):
    monkeypatch.setattr(kernel, "get_data", lambda package, name: b"another")
    without("compiled from different source files")


@pytest.mark.parametrize("error", [ValueError("size changed"), AttributeError("no Message")])
def test_messages_of_another_size_or_name(monkeypatch, error):
    def refuse(name: str) -> ModuleType:
        raise error

    monkeypatch.setattr(kernel, "import_module", refuse)
    without(str(error))


def test_fields_in_another_order(monkeypatch, compiled):
    monkeypatch.setattr(compiled, "fields", lambda *examples: (2, 1))
    without("compiled for a different message layout")
