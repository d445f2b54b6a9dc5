"""The transcripts of tests/specs/cases as executions: each bad trace, then the repaired one."""

import importlib.util
from pathlib import Path
from types import ModuleType

from semcast.specs.transcript import parse
from semcast.terms.events import CRASH

from .execution import Execution

_PATH = Path(__file__).parents[2] / "specs" / "test_monitors.py"


def _cases() -> ModuleType:
    spec = importlib.util.spec_from_file_location("handmade_cases", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(*protocols: str) -> list[Execution]:
    """Those of these protocols."""
    cases, runs = _cases(), []
    for case in cases.CASES:
        for text in cases.transcripts(case.diff) if case.protocol in protocols else ():
            run = Execution(
                *(case.protocol, case.order, case.relation, case.n, parse(text)),
                parameters={"copies": case.copies},
                f=case.f,
                complete=case.complete,
            )
            run.crashed = frozenset(one.pid for one in run.events if one.kind == CRASH)
            run.number()
            runs.append(run)
    return runs
