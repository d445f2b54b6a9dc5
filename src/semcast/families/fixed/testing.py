"""What the simulator needs of fixed groups."""

from typing import Final

from semcast.families.fixed.annotator_mutants import ANNOTATOR_MUTANTS
from semcast.families.fixed.draw import draw
from semcast.families.fixed.judge import FixedReferee
from semcast.families.fixed.mutants import MUTANTS
from semcast.families.fixed.scenarios import SCENARIOS, FixedCase
from semcast.families.testing import Testing
from semcast.terms.machine import ForgetMember

TESTING: Final = Testing(
    case=FixedCase,
    draw=draw,
    referee=FixedReferee,
    chance=lambda life: ("member", life.pid),
    announce=ForgetMember,
    scenarios=SCENARIOS,
    mutants={**MUTANTS, **ANNOTATOR_MUTANTS},
)
